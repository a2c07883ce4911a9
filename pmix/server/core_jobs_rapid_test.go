package server

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/pmix/codec"
)

// chaos is a core with random jobs and tools that come and go.
type chaos struct {
	*rapid.T
	core     *core
	now      tick
	jobs     int
	names    []string          // current jobs, of two processes each
	conns    map[connID]string // connections of jobs and tools
	last     connID
	tag      uint32
	answered map[uint32]int
	spawns   []uint64
}

func (c *chaos) step(ev event) {
	ev.now = c.now
	for _, a := range c.core.Step(ev, nil) {
		switch a.kind {
		case actSend:
			c.answered[a.tag]++
		case actSpawn:
			c.spawns = append(c.spawns, a.spawn.ID)
		case actReject, actDrop:
			delete(c.conns, a.conn)
		}
	}
}

func (c *chaos) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(c.T, what) }

// anybody returns a process that may or may not exist.
func (c *chaos) anybody() codec.Proc {
	rank := rapid.SampledFrom([]codec.Rank{0, 1, 2, codec.RankWildcard}).Draw(c.T, "rank")
	return codec.Proc{Nspace: fmt.Sprint("job-", c.pick("job", c.jobs+1)), Rank: rank}
}

func (c *chaos) addJob(parent codec.Proc) string {
	job := testJob(2)
	job.Nspace = fmt.Sprint("job-", c.jobs)
	c.jobs++
	s, err := newNspace(&job, parent)
	if err != nil {
		c.Fatal(err)
	}
	c.step(event{kind: evAddJob, space: s, proc: parent})
	c.names = append(c.names, job.Nspace)
	return job.Nspace
}

func (c *chaos) claim() {
	c.last++
	c.conns[c.last] = ""
	if c.pick("tool", 3) > 0 {
		p := c.anybody()
		c.step(event{kind: evClaim, conn: c.last, proc: p})
		return
	}
	s, err := newToolSpace(codec.Proc{Nspace: fmt.Sprint("tool-", c.pick("tool", 3))})
	if err != nil {
		c.Fatal(err)
	}
	c.step(event{kind: evClaim, conn: c.last, proc: s.procs[0].name, space: s})
}

func (c *chaos) request() codec.Request {
	procs := []codec.Proc{c.anybody(), c.anybody()}
	switch c.pick("request", 8) {
	case 0:
		return &codec.FenceRequest{Procs: procs}
	case 1, 2:
		return &codec.ConnectRequest{Procs: procs, Info: []codec.Info{seconds(1)}}
	case 3:
		return &codec.DisconnectRequest{Procs: procs}
	case 4:
		return spawnOf(forward(codec.KeyFwdStdout, rapid.Bool().Draw(c.T, "forward")))
	case 5:
		return pullOf(0, codec.IOFStdout, procs...)
	case 6:
		return &codec.GetRequest{Proc: procs[0], Key: rapid.SampledFrom([]string{"a", codec.KeyJobSize}).Draw(c.T, "key")}
	default:
		return &codec.FinalizeRequest{}
	}
}

func (c *chaos) ask(conn connID) {
	body, err := codec.AppendRequest(nil, c.request())
	if err != nil {
		c.Fatal(err)
	}
	c.tag++
	c.step(event{kind: evFrame, conn: conn, tag: c.tag, payload: body})
}

func (c *chaos) removeJob() {
	i := c.pick("which", len(c.names))
	name := c.names[i]
	c.names = append(c.names[:i], c.names[i+1:]...)
	c.step(event{kind: evRemoveJob, proc: codec.Proc{Nspace: name}})
}

func (c *chaos) anything() {
	switch what := c.pick("what", 10); {
	case what < 2:
		c.claim()
	case what < 7 && len(c.conns) > 0:
		c.ask(rapid.SampledFrom(sortedKeys(c.conns)).Draw(c.T, "conn"))
	case what == 7 && len(c.conns) > 0:
		conn := rapid.SampledFrom(sortedKeys(c.conns)).Draw(c.T, "conn")
		delete(c.conns, conn)
		c.step(event{kind: evClosed, conn: conn})
	case what == 8 && len(c.spawns) > 0:
		id, name, status := c.spawns[0], "job-77", codec.StatusSuccess
		c.spawns = c.spawns[1:]
		if c.pick("outcome", 3) == 0 {
			status = codec.StatusErrNotFound
		} else {
			name = c.addJob(c.anybody())
		}
		c.step(event{kind: evSpawned, request: id, proc: codec.Proc{Nspace: name}, status: status})
	case what == 9 && len(c.names) > 1:
		if rapid.Bool().Draw(c.T, "remove") {
			c.removeJob()
			return
		}
		c.step(event{kind: evExited, proc: c.anybody()})
		c.now += 50
		c.step(event{kind: evTick})
	}
}

// Whatever jobs and tools do in whatever order, each request is answered at most once, and no state is left when all
// have gone.
func TestJobsAndToolsLeaveNothingBehind(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &chaos{T: rt, core: newCore(false, 100), conns: map[connID]string{}, answered: map[uint32]int{}}
		c.addJob(codec.Proc{})
		c.addJob(codec.Proc{})
		for range rapid.IntRange(0, 80).Draw(rt, "steps") {
			c.anything()
		}
		for _, name := range c.names {
			c.step(event{kind: evRemoveJob, proc: codec.Proc{Nspace: name}})
		}
		for _, conn := range sortedKeys(c.conns) {
			c.step(event{kind: evClosed, conn: conn})
		}
		for tag, times := range c.answered {
			if times > 1 {
				rt.Fatalf("request %d was answered %d times", tag, times)
			}
		}
		k := c.core
		if len(k.spaces)+len(k.conns)+len(k.fences.bySet)+len(k.gets.waiting)+len(k.spawns.waiting)+len(k.forwarding.listeners) != 0 {
			rt.Fatalf("kept %d jobs, %d connections, %d fences, %d gets, %d spawns, %d listeners", len(k.spaces), len(k.conns),
				len(k.fences.bySet), len(k.gets.waiting), len(k.spawns.waiting), len(k.forwarding.listeners))
		}
	})
}
