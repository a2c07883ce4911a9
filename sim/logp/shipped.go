package logp

import (
	"fmt"

	"github.com/goshmem/goshmem/coll/ftco"
)

// Shipped drives the machines that programs use, under the same rules. A step sends one message or
// handles one, so several messages in answer to one event take several steps. All living nodes get
// the news of a death at a fixed time after it, as from a failure detector.
//
// A million nodes have to fit into memory, so a waiting node costs a few words: all messages lie in
// one pool, from the step that makes them to the step that handles them.
type Shipped struct {
	cfg      ShippedConfig
	machines []ftco.Machine
	nodes    []shippedNode
	letters  []letter   // the pool
	free     ShippedMsg // the first letter that is not in use, or noLetter
	event    ftco.Event
	out      []ftco.Action
}

// ShippedConfig shapes the machines of a collective.
type ShippedConfig struct {
	N, Radix  int
	Call      ftco.Call
	Detection int32 // steps from a death to its news
}

// ShippedMsg is a message between shipped machines, as its index in the pool.
type ShippedMsg int32

// noLetter is no message.
const noLetter = ShippedMsg(-1)

// letter is a message in the pool, or room for one.
type letter struct {
	from, to int32
	next     ShippedMsg // the letter behind it in a queue or in the free list
	msg      ftco.Msg
}

// queue is a list of letters.
type queue struct{ first, last ShippedMsg }

// shippedNode is what the driver knows of a node.
type shippedNode struct {
	inbox    queue
	outbox   queue
	queued   int32 // messages in the inbox
	late     bool  // the node has not called yet
	returned bool  // the call has returned, and all its messages are sent
	deliver  bool  // the machine has let the call return
}

// NewShipped makes the machines of all nodes.
func NewShipped(cfg ShippedConfig) (*Shipped, error) {
	machines, err := ftco.NewGroup(ftco.Config{N: cfg.N, Radix: cfg.Radix})
	if err != nil {
		return nil, fmt.Errorf("%d nodes: %w", cfg.N, err)
	}
	s := &Shipped{cfg: cfg, machines: machines, nodes: make([]shippedNode, cfg.N), letters: make([]letter, 0, cfg.N)}
	s.Reset()
	return s, nil
}

// Reset puts all machines back to rest.
func (s *Shipped) Reset() {
	empty := queue{noLetter, noLetter}
	s.letters, s.free = s.letters[:0], noLetter
	for v := range s.nodes {
		s.machines[v].Reset()
		s.nodes[v] = shippedNode{inbox: empty, outbox: empty, late: true}
	}
}

// post puts a message of v at the end of v's outbox.
func (s *Shipped) post(v int32, a *ftco.Action) {
	m := s.free
	if m == noLetter {
		m = ShippedMsg(len(s.letters))
		s.letters = append(s.letters, letter{})
	} else {
		s.free = s.letters[m].next
	}
	l := &s.letters[m]
	l.from, l.to, l.msg = v, a.To, a.Msg
	s.push(&s.nodes[v].outbox, m)
}

// push puts m at the end of q.
func (s *Shipped) push(q *queue, m ShippedMsg) {
	s.letters[m].next = noLetter
	if q.first == noLetter {
		q.first = m
	} else {
		s.letters[q.last].next = m
	}
	q.last = m
}

// pull removes and returns the first message of q, or noLetter.
func (s *Shipped) pull(q *queue) ShippedMsg {
	m := q.first
	if m != noLetter {
		q.first = s.letters[m].next
	}
	return m
}

// drop frees the room of m.
func (s *Shipped) drop(m ShippedMsg) {
	s.letters[m].next = s.free
	s.free = m
}

// step gives s.event to v's machine and does what the machine asks for.
func (s *Shipped) step(v int32) {
	n := &s.nodes[v]
	s.out = s.machines[v].Step(s.event, s.out[:0])
	for i := range s.out {
		switch a := &s.out[i]; a.Kind {
		case ftco.Send:
			s.post(v, a)
		case ftco.Deliver, ftco.Fail:
			n.deliver = true
		}
	}
}

// Enter makes v call the collective.
func (s *Shipped) Enter(v, _ int32) {
	s.nodes[v].late = false
	s.event.Kind, s.event.Call = ftco.Enter, s.cfg.Call
	s.step(v)
}

// Arrive puts a message into v's queue.
func (s *Shipped) Arrive(v int32, m *ShippedMsg, _ int32) int {
	n := &s.nodes[v]
	s.push(&n.inbox, *m)
	n.queued++
	return int(n.queued)
}

// Turn gives v one step. Sending comes first, as DATA does in the paper.
func (s *Shipped) Turn(v, _ int32, out *Move[ShippedMsg]) {
	n := &s.nodes[v]
	if n.late {
		return
	}
	if m := s.pull(&n.outbox); m != noLetter {
		out.Kind, out.To, out.Msg = Sent, s.letters[m].to, m
		return
	}
	n.returned = n.returned || n.deliver
	if m := s.pull(&n.inbox); m != noLetter {
		n.queued--
		l := &s.letters[m]
		s.event.Kind, s.event.From, s.event.Msg = ftco.Recv, l.from, l.msg
		s.drop(m)
		s.step(v)
		out.Kind = Took
	}
}

// Wake never wakes a node: all that it has to do follows from messages and news.
func (s *Shipped) Wake(_, _ int32) (int32, bool) { return 0, false }

// Lost tells no node of the death: the failure detector does.
func (s *Shipped) Lost(_ int32, m *ShippedMsg, _ int32) (learner, at int32, ok bool) {
	s.drop(*m)
	return 0, 0, false
}

// Died returns when all nodes get the news.
func (s *Shipped) Died(_, now int32, _ func(*ShippedMsg)) (news int32, ok bool) {
	return max(0, now) + s.cfg.Detection, true
}

// Notice tells v that the node dead is dead.
func (s *Shipped) Notice(v, dead, _ int32) {
	s.event.Kind, s.event.From, s.event.Inc = ftco.PeerFailed, dead, 1
	s.step(v)
}

// Finished reports whether v needs to do no more.
func (s *Shipped) Finished(v int32) bool { return s.nodes[v].returned }
