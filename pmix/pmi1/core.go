package pmi1

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/goshmem/goshmem/pmix/codec"
)

// core is the state of a server. It is pure: events in, actions out.
type core struct {
	jobs   map[string]*world
	conns  map[connID]*member
	names  map[string]name // published
	spawns map[uint64]*member
	last   uint64 // number of the last spawn request
	out    []action
}

// world is a job: what its processes share.
type world struct {
	*Job
	members []*member // by rank
	store   store
	waiting []*member // in the barrier
	ended   []*member // that will join no barrier any more, in order
	dead    []*member // that ended without a farewell, in order
}

// member is a process of a job.
type member struct {
	world *world
	rank  codec.Rank
	conn  connID
	phase phase
	ended bool
	line  []byte     // the part of a line that has come
	spawn *spawnText // a spawn request that has come in part
}

// phase is how far a member got.
type phase uint8

const (
	phaseSilent  phase = iota // it has not said that it speaks PMI-1
	phaseJoined               // it may ask
	phaseBarrier              // it waits in a barrier
	phaseSpawn                // it waits for processes to be spawned
	phaseLeft                 // it has finalized or lost its connection
)

// name is the owner of a published name with what it stands for.
type name struct {
	nspace, port string
}

func newCore() *core {
	return &core{
		jobs: map[string]*world{}, conns: map[connID]*member{}, names: map[string]name{}, spawns: map[uint64]*member{},
	}
}

// Step applies one event and appends the actions that follow from it to out.
func (c *core) Step(ev event, out []action) []action {
	c.out = out
	switch ev.kind {
	case evAddJob:
		c.addJob(ev.job)
	case evRemoveJob:
		c.removeJob(ev.proc.Nspace)
	case evConnect:
		c.connect(ev)
	case evInput:
		if m := c.conns[ev.conn]; m != nil {
			c.input(m, ev.data)
		}
	case evClosed:
		if m := c.conns[ev.conn]; m != nil {
			c.disconnect(m)
		}
	case evExited:
		if m := c.find(ev.proc); m != nil {
			c.exited(m)
		}
	case evSpawned:
		c.spawned(ev.id, ev.text)
	}
	out, c.out = c.out, nil
	return out
}

func (c *core) act(a action) { c.out = append(c.out, a) }

func (c *core) send(m *member, line string) {
	c.act(action{kind: actSend, conn: m.conn, text: line})
}

func (m *member) proc() codec.Proc { return codec.Proc{Nspace: m.world.Nspace, Rank: m.rank} }

func (c *core) find(p codec.Proc) *member {
	if w := c.jobs[p.Nspace]; w != nil && int64(p.Rank) < int64(len(w.members)) {
		return w.members[p.Rank]
	}
	return nil
}

func (c *core) addJob(j *Job) {
	w := &world{Job: j, store: store{index: map[string]int{}}}
	for rank := range j.Procs {
		w.members = append(w.members, &member{world: w, rank: codec.Rank(rank)})
	}
	for _, p := range j.Preput {
		w.store.put(pair{p.Key, p.Value})
	}
	c.jobs[j.Nspace] = w
}

func (c *core) removeJob(nspace string) {
	w := c.jobs[nspace]
	if w == nil {
		return
	}
	delete(c.jobs, nspace)
	for _, m := range w.members {
		c.hangUp(m)
	}
	for service, n := range c.names {
		if n.nspace == nspace {
			delete(c.names, service)
		}
	}
}

func (c *core) connect(ev event) {
	m := c.find(ev.proc)
	if m == nil || m.conn != 0 || m.ended {
		c.act(action{kind: actClose, conn: ev.conn})
		return
	}
	m.conn = ev.conn
	c.conns[ev.conn] = m
}

// input takes what a member sent, whole lines or parts of them.
func (c *core) input(m *member, data []byte) {
	for len(data) > 0 && m.conn != 0 {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if len(m.line)+len(line) > maxLine {
			c.violation(m, fmt.Sprintf("a line of more than %d bytes", maxLine))
			return
		}
		if !whole {
			m.line = append(m.line, line...)
			return
		}
		text := string(append(m.line, line...))
		m.line, data = m.line[:0], rest
		c.request(m, text)
	}
}

// violation ends the connection of a member that does not keep to the protocol: what it says next means nothing.
func (c *core) violation(m *member, why string) {
	c.act(action{kind: actRefused, proc: m.proc(), text: why})
	c.act(action{kind: actClose, conn: m.conn})
	c.disconnect(m)
}

// disconnect takes the end of a connection. Of a member that has not joined, the end of its process tells the rest.
func (c *core) disconnect(m *member) {
	joined := m.joined()
	c.forget(m)
	if joined {
		c.act(action{kind: actLost, proc: m.proc()})
		c.die(m)
	}
}

// hangUp closes the connection of a member that has one. Nobody is told.
func (c *core) hangUp(m *member) {
	if m.conn != 0 {
		c.act(action{kind: actClose, conn: m.conn})
		c.forget(m)
	}
}

// forget takes a connection from its member.
func (c *core) forget(m *member) {
	delete(c.conns, m.conn)
	m.conn, m.line, m.spawn = 0, nil, nil
	if m.joined() {
		m.phase = phaseLeft
	}
}

// joined says whether a member has joined and not left.
func (m *member) joined() bool { return m.phase != phaseSilent && m.phase != phaseLeft }

// exited takes the end of a process. Who else holds its connection has no part in the job.
func (c *core) exited(m *member) {
	joined := m.joined()
	c.hangUp(m)
	if joined {
		c.die(m)
	}
	c.end(m)
}

// die takes the end of a member that should have said farewell.
func (c *core) die(m *member) {
	m.world.dead = append(m.world.dead, m)
	c.end(m)
}

// end says that a member will join no barrier any more.
func (c *core) end(m *member) {
	if m.ended {
		return
	}
	m.ended = true
	w := m.world
	w.ended = append(w.ended, m)
	waiting := w.waiting
	w.waiting = nil
	for _, other := range waiting {
		if other.phase == phaseBarrier {
			c.failBarrier(other)
		}
	}
}

// failBarrier tells a member that its barrier will not complete.
func (c *core) failBarrier(m *member) {
	m.phase = phaseJoined
	c.send(m, refusal("barrier_failed", "rank "+strconv.FormatUint(uint64(m.world.ended[0].rank), 10)+" has left"))
}
