package mpi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Meetings at a port
//
//	root of Connect            process of the port
//	portKnock    ---------->   queue of the port
//	             <----------   portWelcome, when an Accept takes the knock; portClosed, if there is no such port or it is closed
//	group        <--------->   group: messages
//	portGivenUp  <--------->   portGivenUp, when either has failed: the other one ends, too, or goes on with the next knock
//
// These are notices of the world, which name a port or a knock by a random number.

// What a process tells another one in noticePort, in parcel.size.
const (
	portKnock   = 1 + iota // {to: port, from: knock}
	portWelcome            // {to: knock}
	portClosed             // {to: knock}
	portGivenUp            // {to: knock}
)

// port is an open port of this process. The engine's lock guards it.
type port struct {
	knocks []knock // that no Accept has taken, the earliest first
	closed bool
}

// knock is a Connect that waits at a port.
type knock struct {
	from  layout.PE // its root
	token uint64
}

// meeting is what the root of an Accept or a Connect waits for. The engine's lock guards it while it is one of matcher.meetings.
type meeting struct {
	c     *Comm // of its group
	op    string
	mine  []layout.PE
	port  *port     // of an Accept; nil: a Connect
	peer  layout.PE // the other root, once it is known
	token uint64    // of the knock
	met   bool
	in    *request // the receive of the other group, while it is under way
	err   error

	polls   uint32
	sleeper *wait.Parked
}

// tellPort tells another process something about a port or a knock. The caller has the engine's lock.
func tellPort(e *engine, to layout.PE, what, about, from uint64) {
	if e.isDead(to) || e.closed.Load() {
		return
	}
	body := parcel{to: about, from: from, size: what}
	e.sendPacket(e.laneTo(to), &packet{kind: kindNotice, match: matchOf(e.world.number, noticePort), size: sizeOf(int(e.me), 0), body: body})
}

// notePort acts on what another process tells.
func notePort(e *engine, comm uint32, from layout.PE, p *parcel) {
	if e.world == nil || comm != e.world.number {
		return // it is from before the last Init
	}
	if p.size == portKnock {
		if x := e.ports[p.to]; x != nil {
			x.knocks = append(x.knocks, knock{from, p.from})
			wakeMeetings(e)
		} else {
			tellPort(e, from, portClosed, p.from, 0)
		}
		return
	}
	for _, x := range e.ports {
		x.knocks = slices.DeleteFunc(x.knocks, func(k knock) bool { return k == knock{from, p.to} }) // it is given up
	}
	for _, m := range e.meetings {
		if m.token != p.to || m.peer != from {
			continue
		}
		switch p.size {
		case portWelcome:
			m.met = true
		case portClosed:
			m.err = usage(m.op, ErrPort, "PE %d has no such port open, want a name that its OpenPort has returned, before its ClosePort", from)
		case portGivenUp:
			m.err = fmt.Errorf("mpi.%s: %w: the root of the other group, PE %d, has given this call up", m.op, ErrCommBroken, from)
			if m.in != nil && !m.in.isDone() && e.cancel(m.in, m.err) {
				e.complete(m.in, m.err)
			}
		}
	}
	wakeMeetings(e)
}

// closePort closes a port of this process. The caller has the engine's lock.
func closePort(e *engine, id uint64) {
	x := e.ports[id]
	x.closed = true
	delete(e.ports, id)
	for _, k := range x.knocks {
		tellPort(e, k.from, portClosed, k.token, 0)
	}
	wakeMeetings(e)
}

// wakeMeetings wakes the goroutines that wait for a meeting. The caller has the engine's lock.
func wakeMeetings(e *engine) {
	for _, m := range e.meetings {
		if m.sleeper != nil {
			m.sleeper.Wake()
		}
	}
}

// accept meets the earliest group that connects, and returns it. A group that gives up meanwhile is passed over.
func (m *meeting) accept(name string) ([]layout.PE, error) {
	e := m.c.g.e
	e.mu.Lock()
	id, err := ownPort(e, m.op, name)
	m.port = e.ports[id]
	e.unlock()
	if err != nil {
		return nil, err
	}
	for {
		if err := m.await(); err != nil {
			return nil, err
		}
		theirs, err := m.exchange()
		if err == nil || m.c.ctx != nil && m.c.ctx.Err() != nil || e.closed.Load() {
			return theirs, err
		}
		e.mu.Lock()
		m.met, m.err, m.token = false, nil, 0 // what comes late of that knock is no more for this meeting
		e.unlock()
	}
}

// connect knocks at a port, and returns the group that accepts it.
func (m *meeting) connect(name string) ([]layout.PE, error) {
	e := m.c.g.e
	pe, id, err := parsePort(e, m.op, name)
	switch {
	case err != nil:
		return nil, err
	case pe == e.me:
		return nil, usage(m.op, ErrArgument, "port %q is of this process, want one of the other group", name)
	}
	m.peer, m.token = pe, rand.Uint64()
	e.mu.Lock()
	e.meetings = append(e.meetings, m)
	tellPort(e, pe, portKnock, id, m.token)
	e.unlock()
	if err := m.await(); err != nil {
		m.end(true)
		return nil, err
	}
	return m.exchange()
}

// await waits until the roots have met.
func (m *meeting) await() error {
	e := m.c.g.e
	if m.port != nil {
		e.mu.Lock()
		e.meetings = append(e.meetings, m)
		e.unlock()
	}
	ctx := m.c.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	err := e.job.Waiter.WaitPoll(m, ctx)
	e.mu.Lock()
	defer e.unlock()
	switch {
	case m.met:
		return nil
	case m.err != nil:
		err = m.err
	case errors.Is(err, wait.ErrClosed):
		err = usage(m.op, ErrFinalized, finalizedMeanwhile)
	case m.port == nil:
		err = fmt.Errorf("mpi.%s: waiting for PE %d to accept: %w", m.op, m.peer, err)
	default:
		err = fmt.Errorf("mpi.%s: waiting for a group that connects: %w", m.op, err)
	}
	m.remove()
	return err
}

// remove removes the meeting from those of the engine. The caller has the engine's lock.
func (m *meeting) remove() {
	e := m.c.g.e
	e.meetings = slices.DeleteFunc(e.meetings, func(x *meeting) bool { return x == m })
}

// end ends the meeting. failed says that the other root has to learn of that.
func (m *meeting) end(failed bool) {
	e := m.c.g.e
	e.mu.Lock()
	defer e.unlock()
	m.remove()
	if failed {
		tellPort(e, m.peer, portGivenUp, m.token, 0)
	}
}

// portTagLeast is the least tag of the messages of meetings. Collectives have no negative tags.
const portTagLeast = math.MinInt32

// exchange gives this group to the other root, and returns that one's. It ends the meeting.
func (m *meeting) exchange() ([]layout.PE, error) {
	e := m.c.g.e
	g, tag := e.world.hidden, portTagLeast+int(m.token>>34)
	out, err := g.startSend(m.op, spanOf(m.mine), int(m.peer), tag)
	if err == nil && m.port != nil {
		e.mu.Lock()
		tellPort(e, m.peer, portWelcome, m.token, 0)
		e.unlock()
	}
	var theirs []layout.PE
	if err == nil {
		theirs, err = m.receive(g, tag)
	}
	if out != nil {
		if err != nil && e.abandon(out, false, err) {
			out.recycle()
		} else if _, failed := out.finish(m.c.ctx); err == nil {
			err = failed
		}
	}
	m.end(err != nil)
	if err != nil {
		return nil, e.world.reportDeath(err)
	}
	return theirs, nil
}

// receive receives the other group. An Accept learns its size from the message itself.
func (m *meeting) receive(g *group, tag int) ([]layout.PE, error) {
	e := g.e
	theirs := make([]layout.PE, e.job.NPEs)
	e.job.Waiter.Beat()
	e.mu.Lock()
	if m.err != nil {
		defer e.unlock()
		return nil, m.err
	}
	r := g.postRecv(m.op, spanOf(theirs), int(m.peer), tag)
	m.in = r
	e.unlock()
	_ = r.await(m.c.ctx) // finish returns the same, once notices do not cancel the request any more
	e.mu.Lock()
	m.in = nil
	e.unlock()
	s, err := r.finish(m.c.ctx)
	n := s.Bytes / elemSize[layout.PE]()
	if err == nil && n == 0 {
		err = usage(m.op, ErrMismatch, "PE %d has sent no group, want a call of Accept or Connect there", m.peer)
	}
	if err != nil {
		return nil, err
	}
	return theirs[:n], nil
}

// check looks whether the wait is over. The caller has the engine's lock.
func (m *meeting) check() bool {
	g, e := m.c.g, m.c.g.e
	if m.met || m.err != nil {
		return true
	}
	if dead := m.deadRanks(); dead != nil {
		m.err = g.deadError(m.op, dead...)
		return true
	}
	switch {
	case e.closed.Load():
		m.err = usage(m.op, ErrFinalized, finalizedMeanwhile)
	case g.ended.Load():
		m.err = g.endedError(m.op)
	case m.port == nil && e.isDead(m.peer):
		m.err = e.world.deadError(m.op, int(m.peer))
	case m.port == nil:
		return false
	case m.port.closed:
		m.err = usage(m.op, ErrPort, "the port was closed meanwhile")
	default:
		m.takeKnock()
		return m.met
	}
	return true
}

// takeKnock takes the earliest knock of a process that lives. The caller has the engine's lock.
func (m *meeting) takeKnock() {
	e := m.c.g.e
	for len(m.port.knocks) > 0 && !m.met {
		k := m.port.knocks[0]
		m.port.knocks = m.port.knocks[1:]
		if !e.isDead(k.from) && !hasFinalized(e, k.from) {
			m.met, m.peer, m.token = true, k.from, k.token
		}
	}
}

// deadRanks returns the ranks of the group that are known to have died. The caller has the engine's lock.
func (m *meeting) deadRanks() (dead []int) {
	if m.c.g.e.dead == nil {
		return nil
	}
	for rank, pe := range m.c.g.pes {
		if m.c.g.e.isDead(pe) && !isRecognized(m.c.g, rank) {
			dead = append(dead, rank)
		}
	}
	return dead
}

// Poll makes progress. The wait is over when the roots have met, or will not meet.
func (m *meeting) Poll() wait.Look {
	e := m.c.g.e
	m.polls++
	look := m.polls%leftEvery == 0
	if !look && !e.hasWork() && !m.c.g.ended.Load() {
		return wait.Nothing
	}
	e.mu.Lock()
	defer e.unlock()
	if !e.closed.Load() {
		e.progress()
	}
	switch {
	case m.check():
		return wait.Over
	case !look:
		return wait.Moved
	case m.port == nil && hasFinalized(e, m.peer):
		e.receiveAll() // what it had sent comes first
		if !m.check() {
			m.err = e.world.leftError(m.op, int(m.peer))
		}
		return wait.Over
	}
	return wait.Nothing
}

// Park notes the goroutine that waits, unless the wait is over.
func (m *meeting) Park(g *wait.Parked) bool {
	e := m.c.g.e
	e.mu.Lock()
	defer e.unlock()
	if m.check() {
		return false
	}
	m.sleeper, m.polls = g, leftEvery-1
	return true
}

// Unpark ends what Park has begun.
func (m *meeting) Unpark() {
	e := m.c.g.e
	e.mu.Lock()
	defer e.unlock()
	m.sleeper = nil
}

// Idle looks now and then for a process that has left.
func (m *meeting) Idle(slept time.Duration) {
	if m.c.g.e.isLongIdle(slept) {
		m.polls = leftEvery - 1
	}
}

// quiet is a wait until no request of some communicators is under way in this process.
type quiet struct {
	e      *engine
	groups []*group
}

// Poll makes progress.
func (q *quiet) Poll() wait.Look {
	moved := q.e.serve()
	q.e.mu.Lock()
	defer q.e.unlock()
	switch {
	case q.e.closed.Load(), !slices.ContainsFunc(q.groups, q.isBusy):
		return wait.Over
	case moved:
		return wait.Moved
	}
	return wait.Nothing
}

// isBusy reports whether a request of a communicator is under way. The caller has the engine's lock.
func (q *quiet) isBusy(g *group) bool {
	e := q.e
	of := func(r *request) bool { return r != nil && (r.g == g || r.g == g.partitioned) }
	if receives, _ := g.q.Waiting(); receives > 0 || len(g.collectives.schedules) > 0 || slices.ContainsFunc(e.pulls, of) {
		return true
	}
	for i := range e.table.entries {
		if of(e.table.entries[i].r) {
			return true
		}
	}
	return slices.ContainsFunc(e.blocked, func(l *outLane) bool {
		return slices.ContainsFunc(l.streams, of) || slices.ContainsFunc(l.queue, func(p packet) bool { return of(p.r) })
	})
}
