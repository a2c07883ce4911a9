package pmi1

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/pmix/codec"
)

// SpawnRequest asks for a further job.
type SpawnRequest struct {
	ID     uint64 // for the answer
	From   codec.Proc
	Apps   []SpawnApp
	Preput []Pair // what is stored in the new job from the beginning
}

// SpawnApp is a program of a SpawnRequest.
type SpawnApp struct {
	Cmd      string
	Args     []string // without the name
	MaxProcs int
	Infos    []Pair // from the MPI_Info
}

// spawnText is a spawn request that has come in part: a block of lines for each program.
type spawnText struct {
	size  int
	block map[string]string
	req   SpawnRequest
	err   error // what is wrong with it
}

const maxSpawned = 1 << 16 // processes of a program that are worth asking for

// spawnLine takes a line of a spawn request, in which a value goes on to the end of the line. What is wrong with the
// request is said when all of it has come.
func (c *core) spawnLine(m *member, line string) {
	if m.phase != phaseJoined {
		c.violation(m, "mcmd, want init first and no other request under way")
		return
	}
	if m.spawn == nil {
		m.spawn = &spawnText{req: SpawnRequest{From: m.proc()}}
	}
	s := m.spawn
	if s.size += len(line) + 1; s.size > maxSpawn {
		c.violation(m, fmt.Sprintf("a spawn request of more than %d bytes", maxSpawn))
		return
	}
	if line == "endcmd" {
		if last := s.endBlock(); last {
			m.spawn = nil
			c.submit(m, s)
		}
		return
	}
	if s.block == nil {
		s.block = map[string]string{}
	}
	key, value, ok := strings.Cut(line, "=")
	if !ok || key == "" {
		s.note(fmt.Errorf("line %q, want key=value", shorten(line)))
		return
	}
	s.block[key] = value
}

func (s *spawnText) note(err error) {
	if s.err == nil {
		s.err = err
	}
}

// endBlock takes in the lines of one program and says whether it was the last one.
func (s *spawnText) endBlock() (last bool) {
	b := block(s.block)
	s.block = nil
	if cmd := b["mcmd"]; cmd != "spawn" {
		s.note(fmt.Errorf("mcmd=%s, want spawn", shorten(cmd)))
	}
	if len(s.req.Apps) == 0 {
		var err error
		s.req.Preput, err = b.pairs("preput_num", "preput_key_", "preput_val_")
		for _, p := range s.req.Preput {
			err = errors.Join(err, checkPair(p.Key, p.Value))
		}
		s.note(err)
	}
	app, err := b.app()
	s.note(err)
	s.req.Apps = append(s.req.Apps, app)
	so, err := b.number("spawnssofar")
	total, err2 := b.number("totspawns")
	s.note(errors.Join(err, err2))
	return so >= total || err != nil || err2 != nil
}

// block is what the lines of one program say.
type block map[string]string

func (b block) number(key string) (int, error) {
	n, err := strconv.Atoi(b[key])
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s=%s, want a number", key, shorten(b[key]))
	}
	return n, nil
}

func (b block) app() (a SpawnApp, err error) {
	a.Cmd = b["execname"]
	if a.Cmd == "" {
		return a, errors.New("spawn without execname")
	}
	if a.MaxProcs, err = b.number("nprocs"); err != nil {
		return a, err
	}
	if a.MaxProcs < 1 || a.MaxProcs > maxSpawned {
		return a, fmt.Errorf("nprocs=%d, want 1 to %d", a.MaxProcs, maxSpawned)
	}
	argc, err := b.number("argcnt")
	for i := 1; i <= argc && err == nil; i++ {
		arg, ok := b["arg"+strconv.Itoa(i)]
		if !ok {
			return a, fmt.Errorf("argcnt=%d without arg%d", argc, i)
		}
		a.Args = append(a.Args, arg)
	}
	if err == nil {
		a.Infos, err = b.pairs("info_num", "info_key_", "info_val_")
	}
	return a, err
}

// pairs returns the pairs with a count and numbered keys and values; no count means none.
func (b block) pairs(count, key, value string) (all []Pair, err error) {
	n := 0
	if _, ok := b[count]; ok {
		n, err = b.number(count)
	}
	for i := 0; i < n && err == nil; i++ {
		k, okKey := b[key+strconv.Itoa(i)]
		v, okValue := b[value+strconv.Itoa(i)]
		if !okKey || !okValue {
			return nil, fmt.Errorf("%s=%d without %s%d and its value", count, n, key, i)
		}
		all = append(all, Pair{k, v})
	}
	return all, err
}

// submit passes a whole request on.
func (c *core) submit(m *member, s *spawnText) {
	if s.err != nil {
		c.send(m, refusal("spawn_result", s.err.Error()))
		return
	}
	c.last++
	s.req.ID = c.last
	m.phase = phaseSpawn
	c.spawns[c.last] = m
	c.act(action{kind: actSpawn, spawn: &s.req})
}

// spawned answers a request whose processes run, or will not.
func (c *core) spawned(id uint64, failure string) {
	m := c.spawns[id]
	delete(c.spawns, id)
	if m == nil || m.phase != phaseSpawn {
		return
	}
	m.phase = phaseJoined
	if failure != "" {
		c.send(m, refusal("spawn_result", failure))
		return
	}
	c.send(m, reply("spawn_result", "rc", "0", "msg", "success"))
}
