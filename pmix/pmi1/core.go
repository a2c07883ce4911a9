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
	names  *NameTable         // unless namesFar
	spawns map[uint64]*member // members that wait for a spawn, by the request's number
	last   uint64             // number of the last spawn request
	out    []action

	namesFar  bool             // the published names are in the table of the job's nodes
	asked     map[uint64]asked // questions about names that members wait for, by number
	lastAsked uint64           // number of the last question
}

// world is the state that the processes of a job share.
type world struct {
	*WorldSpec
	members []*member // by rank
	store   store
	joined  bool      // a member has joined
	waiting []*member // members in the barrier
	ended   []*member // members that will join no barrier any more, in the order of their ends
	dead    []*member // members that ended without finalize, or failed, in the order of their ends
	span    *span     // nil for a job that is on this node as a whole
}

// member is a process of a job.
type member struct {
	world *world
	rank  codec.Rank
	conn  connID
	phase phase
	ended bool
	dead  bool       // it is in world.dead
	line  []byte     // the part of a line received so far
	spawn *spawnText // the part of a spawn request received so far
}

// phase is the state of a member in the protocol.
type phase uint8

const (
	phaseSilent  phase = iota // it has sent no init
	phaseJoined               // it may send requests
	phaseBarrier              // it waits in a barrier
	phaseSpawn                // it waits for processes to be spawned
	phaseNames                // it waits for an answer about published names
	phaseLeft                 // it has finalized or lost its connection
)

func newCore() *core {
	return &core{
		jobs: map[string]*world{}, conns: map[connID]*member{}, names: NewNameTable(), spawns: map[uint64]*member{}, asked: map[uint64]asked{},
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
			c.readLines(m, ev.data)
		}
	case evClosed:
		if m := c.conns[ev.conn]; m != nil {
			c.disconnect(m)
		}
	case evExited:
		if m := c.find(ev.proc); m != nil {
			c.endProcess(m, ev.failed)
		}
	case evSpawned:
		c.answerSpawn(ev.id, ev.text)
	case evNames:
		c.takeNames(ev.id, ev.data)
	case evCalled:
		if w := c.jobs[ev.proc.Nspace]; w != nil && w.span != nil {
			c.noteCall(w, ev.id)
		}
	case evBarrier:
		if w := c.jobs[ev.proc.Nspace]; w != nil && w.span != nil {
			c.endBarrier(w, ev)
		}
	}
	out, c.out = c.out, nil
	return out
}

func (c *core) emit(a action) { c.out = append(c.out, a) }

func (c *core) send(m *member, line string) {
	c.emit(action{kind: actSend, conn: m.conn, text: line})
}

func (m *member) proc() codec.Proc { return codec.Proc{Nspace: m.world.Nspace, Rank: m.rank} }

func (c *core) find(p codec.Proc) *member {
	if w := c.jobs[p.Nspace]; w != nil && int64(p.Rank) < int64(len(w.members)) {
		return w.members[p.Rank]
	}
	return nil
}

func (c *core) addJob(j *WorldSpec) {
	w := &world{WorldSpec: j, store: store{index: map[string]int{}}, span: newSpan(j)}
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
	c.withdrawNames(w)
}

func (c *core) connect(ev event) {
	m := c.find(ev.proc)
	if m == nil || m.conn != 0 || m.ended {
		c.emit(action{kind: actClose, conn: ev.conn})
		return
	}
	m.conn = ev.conn
	c.conns[ev.conn] = m
}

// readLines serves the lines in what a member sent, and keeps the part of a line at its end.
func (c *core) readLines(m *member, data []byte) {
	for len(data) > 0 && m.conn != 0 {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if len(m.line)+len(line) > maxLine {
			c.dropViolator(m, fmt.Sprintf("a line of more than %d bytes", maxLine))
			return
		}
		if !whole {
			m.line = append(m.line, line...)
			return
		}
		text := string(append(m.line, line...))
		m.line, data = m.line[:0], rest
		c.serveLine(m, text)
	}
}

// dropViolator ends the connection of a member that breaks the protocol: what it sends next means nothing.
func (c *core) dropViolator(m *member, why string) {
	c.emit(action{kind: actRefused, proc: m.proc(), text: why})
	c.emit(action{kind: actClose, conn: m.conn})
	c.disconnect(m)
}

// disconnect acts on the end of a connection. A member that has joined is lost. For a member that has not, only the end
// of its process counts.
func (c *core) disconnect(m *member) {
	joined := m.joined()
	c.clearConn(m)
	if joined {
		c.emit(action{kind: actLost, proc: m.proc()})
		c.markDead(m)
	}
}

// hangUp closes the connection of a member, if it has one, without an upcall.
func (c *core) hangUp(m *member) {
	if m.conn != 0 {
		c.emit(action{kind: actClose, conn: m.conn})
		c.clearConn(m)
	}
}

// clearConn separates a member from its connection.
func (c *core) clearConn(m *member) {
	delete(c.conns, m.conn)
	m.conn, m.line, m.spawn = 0, nil, nil
	if m.joined() {
		m.phase = phaseLeft
	}
}

// joined reports whether a member has joined and not left.
func (m *member) joined() bool { return m.phase != phaseSilent && m.phase != phaseLeft }

// endProcess acts on the end of a process. Its connection is closed even if another process still holds it, because
// that one is no member of the job. A member of another node never joins here: its failure alone tells that it is dead.
func (c *core) endProcess(m *member, failed bool) {
	joined := m.joined()
	c.hangUp(m)
	if joined || failed {
		c.markDead(m)
	}
	c.markEnded(m)
}

// markDead records that a member is dead for the others.
func (c *core) markDead(m *member) {
	if !m.dead {
		m.dead = true
		m.world.dead = append(m.world.dead, m)
	}
	c.markEnded(m)
}

// markEnded records that a member will join no barrier any more, and fails the barrier that waits for it.
func (c *core) markEnded(m *member) {
	if m.ended {
		return
	}
	m.ended = true
	w := m.world
	w.ended = append(w.ended, m)
	if w.span != nil {
		c.handIn(w)
		return
	}
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
	who := "a rank on another node" // whose end this server has not heard of
	if ended := m.world.ended; len(ended) > 0 {
		who = "rank " + strconv.FormatUint(uint64(ended[0].rank), 10)
	}
	c.send(m, refusal("barrier_failed", who+" has left"))
}
