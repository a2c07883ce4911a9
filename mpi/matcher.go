package mpi

import (
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/mpi/match"
	"github.com/goshmem/goshmem/symheap/layout"
)

// queue has the receives and the messages of one communicator that wait for each other.
type queue = match.Queue[*request, kept]

// matcher is the layer that brings messages and receives of a communicator together. A message that
// has met its receive goes to the layer of transfers; a message that has not is kept here.
type matcher struct {
	transfers
	groups       map[uint32]*group // communicators of this process, by number
	lastUsed     *group            // group that queueOf has returned the queue of last; may be nil
	future       map[uint32]*queue // messages of communicators that other members have made and this process has not, by number
	kept         keptStore
	hoards       []hoard          // by PE of the sender; nil: nothing was kept
	hoarded      int              // bytes in all hoards
	probes       []*probe         // whose goroutines sleep
	meetings     []*meeting       // at ports, of roots of Accept and Connect
	ports        map[uint64]*port // open ones of this process, by number
	givenUp      []earlyGivenUp   // calls that other ranks have given up in such communicators
	early        []earlyLeft      // ranks that have left such communicators
	revoked      []uint32         // communicators that other members have made and revoked, and this process has not made
	broken       []uint32         // communicators that other members have made and given up, and this process has not made
	failedBlocks []earlyBlock     // votes on TryBlocks in such communicators
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

// dropFuture drops the messages of a communicator that other members may have made, and this process will not make.
func (m *matcher) dropFuture(number uint32) {
	m.numbers.use(number)
	for _, n := range numbersOf(number) {
		if q := m.future[n]; q != nil {
			m.dropAll(q)
			delete(m.future, n)
		}
	}
}

// isComing reports whether a communicator is one that this process will make.
func (m *matcher) isComing(comm uint32) bool {
	return m.groups[comm] == nil && (m.future[comm] != nil || !m.numbers.isUsed(comm))
}

// addGroup adds a communicator that was made, with the messages that have come before it.
func (m *matcher) addGroup(g *group) {
	m.numbers.use(g.number)
	m.addPart(g)
	if g.hidden != nil {
		m.addHidden(g)
		m.addPart(g.agreeing)
		m.addPart(g.partitioned)
	}
}

// addPart adds a communicator that belongs to another one, with the messages that have come before it.
func (m *matcher) addPart(g *group) {
	if q := m.future[g.number]; q != nil {
		g.q = *q
		delete(m.future, g.number)
	}
	m.groups[g.number] = g
}

// addHidden adds the communicator of the messages of a communicator's collectives.
func (m *matcher) addHidden(g *group) {
	m.addPart(g.hidden)
	m.givenUp = slices.DeleteFunc(m.givenUp, func(x earlyGivenUp) bool {
		if x.comm == g.number {
			g.collectives.givenUp = append(g.collectives.givenUp, x.attempt)
		}
		return !m.isComing(x.comm)
	})
	m.broken = slices.DeleteFunc(m.broken, func(comm uint32) bool {
		g.collectives.broken = g.collectives.broken || comm == g.number
		return !m.isComing(comm)
	})
}

// removeGroup drops a communicator and the messages that wait in it.
func (m *matcher) removeGroup(g *group) {
	m.dropAll(&g.q)
	g.q = queue{}
	delete(m.groups, g.number)
	if m.lastUsed == g {
		m.lastUsed = nil
	}
}

// matchWhole gives a whole message of a PE to the receive that it meets, or keeps a copy of it.
func (m *matcher) matchWhole(q *queue, env envelope, data unsafe.Pointer, n int, from layout.PE) {
	if r, ok := q.Arrive(env); ok {
		m.deliver(r, env, data, n)
		return
	}
	m.keepWhole(q, env, data, n, from)
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
	m.keepAnnounced(q, &msg)
}
