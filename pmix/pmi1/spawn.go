package pmi1

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/pmix/codec"
)

// SpawnRequest asks for a job.
type SpawnRequest struct {
	ID     uint64 // number of the request, for Server.SpawnDone
	From   codec.Proc
	Apps   []SpawnApp
	Preput []Pair // pairs that are stored in the new job from the beginning
}

// SpawnApp is a program of a SpawnRequest.
type SpawnApp struct {
	Cmd      string
	Args     []string // arguments without the program's name
	MaxProcs int
	Infos    []Pair // from the MPI_Info
}

// spawnText is the part of a spawn request received so far. It has a block of lines for each program.
type spawnText struct {
	size  int               // bytes of all lines
	block map[string]string // lines of the current program
	req   SpawnRequest      // the programs whose blocks are complete
	err   error             // the first fault
}

// maxSpawned bounds the number of processes of a program.
const maxSpawned = 1 << 16

// addSpawnLine adds a line to a spawn request. A value extends to the end of the line. The first fault is reported
// after the last line, because the client reads no answer before.
func (c *core) addSpawnLine(m *member, line string) {
	if m.phase != phaseJoined {
		c.dropViolator(m, "mcmd, want init first and no other request under way")
		return
	}
	if m.spawn == nil {
		m.spawn = &spawnText{req: SpawnRequest{From: m.proc()}}
	}
	s := m.spawn
	if s.size += len(line) + 1; s.size > maxSpawn {
		c.dropViolator(m, fmt.Sprintf("a spawn request of more than %d bytes", maxSpawn))
		return
	}
	if line == "endcmd" {
		if last := s.endBlock(); last {
			m.spawn = nil
			c.submitSpawn(m, s)
		}
		return
	}
	if s.block == nil {
		s.block = map[string]string{}
	}
	key, value, ok := strings.Cut(line, "=")
	if !ok || key == "" {
		s.recordFault(fmt.Errorf("line %q, want key=value", shorten(line)))
		return
	}
	s.block[key] = value
}

func (s *spawnText) recordFault(err error) {
	if s.err == nil {
		s.err = err
	}
}

// endBlock adds the program that the block describes, and reports whether it is the last one.
func (s *spawnText) endBlock() (last bool) {
	b := block(s.block)
	s.block = nil
	if cmd := b["mcmd"]; cmd != "spawn" {
		s.recordFault(fmt.Errorf("mcmd=%s, want spawn", shorten(cmd)))
	}
	if len(s.req.Apps) == 0 {
		var err error
		s.req.Preput, err = b.pairs("preput_num", "preput_key_", "preput_val_")
		for _, p := range s.req.Preput {
			err = errors.Join(err, checkPair(p.Key, p.Value))
		}
		s.recordFault(err)
	}
	app, err := b.app()
	s.recordFault(err)
	s.req.Apps = append(s.req.Apps, app)
	so, err := b.number("spawnssofar")
	total, err2 := b.number("totspawns")
	s.recordFault(errors.Join(err, err2))
	return so >= total || err != nil || err2 != nil
}

// block holds the lines of one program by key.
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

// pairs returns the pairs whose number, keys and values have these names; without a count there are none.
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

// submitSpawn passes a complete request to the host, or answers it with its fault.
func (c *core) submitSpawn(m *member, s *spawnText) {
	if s.err != nil {
		c.send(m, refusal("spawn_result", s.err.Error()))
		return
	}
	c.last++
	s.req.ID = c.last
	m.phase = phaseSpawn
	c.spawns[c.last] = m
	c.emit(action{kind: actSpawn, spawn: &s.req})
}

// answerSpawn answers a request with the host's result; failure is empty if the processes run.
func (c *core) answerSpawn(id uint64, failure string) {
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
