package mpi

import (
	"unsafe"

	"github.com/goshmem/goshmem/mpi/match"
)

// queue has the receives and the messages of one communicator that wait for each other.
type queue = match.Queue[*request, *message]

// matcher is the layer that brings messages and receives of a communicator together. A message that
// has met its receive goes to the layer of transfers; a message that has not is kept here.
type matcher struct {
	transfers
	groups   map[uint32]*group // communicators of this process, by number
	lastUsed *group            // group that queueOf has returned the queue of last; may be nil
	future   map[uint32]*queue // messages of communicators that other members have made and this process has not, by number
	pool     messagePool
}

// queueOf returns the queue of a communicator by its number. It returns nil if the communicator was freed
// here, or never had this process as a member.
func (m *matcher) queueOf(comm uint32) *queue {
	if m.lastUsed != nil && m.lastUsed.number == comm {
		return &m.lastUsed.q
	}
	return m.findQueue(comm)
}

// findQueue is queueOf for another communicator than the last one. It is never inlined, because queueOf then
// is: the compiler inlines a function that is short enough with all that it has inlined.
//
//go:noinline
func (m *matcher) findQueue(comm uint32) *queue {
	if g := m.groups[comm]; g != nil {
		m.lastUsed = g
		return &g.q
	}
	if q := m.future[comm]; q != nil || m.numbers.isUsed(comm) {
		return q
	}
	q := new(queue)
	m.future[comm] = q
	return q
}

// addGroup adds a communicator that was made, with the messages that have come before it.
func (m *matcher) addGroup(g *group) {
	if q := m.future[g.number]; q != nil {
		g.q = *q
		delete(m.future, g.number)
	}
	m.numbers.use(g.number)
	m.groups[g.number] = g
}

// removeGroup drops a communicator and the messages that wait in it.
func (m *matcher) removeGroup(g *group) {
	for msg := range g.q.Messages {
		if msg.hasShare() { // otherwise its sender would never have the share back
			m.releaseSender(msg)
		}
	}
	g.q = queue{}
	delete(m.groups, g.number)
	if m.lastUsed == g {
		m.lastUsed = nil
	}
}

// matchWhole gives a whole message to the receive that it meets, or keeps a copy of it.
func (m *matcher) matchWhole(q *queue, env envelope, data unsafe.Pointer, n int) {
	if r, ok := q.Arrive(env); ok {
		m.deliver(r, env, data, n)
		return
	}
	msg := m.pool.get(n)
	msg.env, msg.size = env, n
	if n > 0 {
		copyBytes(unsafe.Pointer(&msg.data[0]), data, n)
	}
	q.Keep(env, msg)
}

// handleAnnounce matches a message that its sender has announced.
func (m *matcher) handleAnnounce(comm uint32, msg message) {
	q := m.queueOf(comm)
	if q == nil {
		m.releaseSender(&msg) // no receive can meet it
		return
	}
	if r, ok := q.Arrive(msg.env); ok {
		m.startTransfer(r, &msg)
		return
	}
	keep := m.pool.get(0)
	msg.data = keep.data
	*keep = msg
	q.Keep(msg.env, keep)
}

// deliverKept gives a receive the kept message that it has met.
func (m *matcher) deliverKept(r *request, msg *message) {
	switch {
	case msg.sender != 0:
		m.startTransfer(r, msg)
	case msg.size > 0:
		m.deliver(r, msg.env, unsafe.Pointer(&msg.data[0]), msg.size)
	default:
		m.deliver(r, msg.env, nil, 0)
	}
	m.pool.put(msg)
}
