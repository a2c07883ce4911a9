package logp

import (
	"fmt"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/coll/tree"
)

// Shipped drives the machines that programs use, under the same rules: a step
// sends one message or handles one, and what a machine wants to send in answer to
// one event takes as many steps. Failures are news, which every living node gets
// a fixed time after the death, as from a failure detector.
type Shipped struct {
	cfg   ShippedConfig
	nodes []shippedNode
	out   []ftco.Action
}

// ShippedConfig shapes the machines of a collective.
type ShippedConfig struct {
	N, Radix  int
	Call      ftco.Call
	Detection int32 // steps from a death to its news
}

// ShippedMsg is a message between shipped machines.
type ShippedMsg struct {
	From int32
	Msg  ftco.Msg
}

type shippedNode struct {
	machine  *ftco.Machine
	inbox    []ShippedMsg
	outbox   []outgoing
	late     bool
	returned bool // the call has, and what it had to send is sent
	deliver  bool
}

type outgoing struct {
	to  int32
	msg ftco.Msg
}

// NewShipped makes the machines.
func NewShipped(cfg ShippedConfig) (*Shipped, error) {
	s := &Shipped{cfg: cfg, nodes: make([]shippedNode, cfg.N)}
	return s, s.Reset()
}

// mostSlots is how many contributions the machines of a group may have room for
// in an operation: some gigabytes, for they keep many operations.
const mostSlots = 1 << 23

// CheckShipped says whether shipped machines of that shape fit in memory. Each has
// room for all that a root gets, whose place is anybody's.
func CheckShipped(nodes, radix int) error {
	t, err := tree.NewKnomial(nodes, radix)
	if err != nil {
		return BadOption("radix", fmt.Sprint(radix), "2 or more")
	}
	if degree := len(t.Children(0, nil)); degree > mostSlots/nodes {
		want := fmt.Sprintf("one with which the root of %d nodes has at most %d children, not %d: each node has room for as many", nodes, mostSlots/nodes, degree)
		return BadOption("radix", fmt.Sprint(radix), want)
	}
	return nil
}

// Reset puts all machines back to rest.
func (s *Shipped) Reset() error {
	for v := range s.nodes {
		m, err := ftco.New(ftco.Config{N: s.cfg.N, Me: v, Radix: s.cfg.Radix})
		if err != nil {
			return fmt.Errorf("node %d: %w", v, err)
		}
		n := &s.nodes[v]
		*n = shippedNode{machine: m, inbox: n.inbox[:0], outbox: n.outbox[:0], late: true}
	}
	return nil
}

func (s *Shipped) step(v int32, ev ftco.Event) {
	n := &s.nodes[v]
	s.out = n.machine.Step(ev, s.out[:0])
	for i := range s.out {
		switch a := &s.out[i]; a.Kind {
		case ftco.Send:
			n.outbox = append(n.outbox, outgoing{a.To, a.Msg})
		case ftco.Deliver, ftco.Fail:
			n.deliver = true
		}
	}
}

// Enter makes v call the collective.
func (s *Shipped) Enter(v, _ int32) {
	s.nodes[v].late = false
	s.step(v, ftco.Event{Kind: ftco.Enter, Call: s.cfg.Call})
}

// Arrive puts a message into v's queue.
func (s *Shipped) Arrive(v int32, m *ShippedMsg, _ int32) int {
	n := &s.nodes[v]
	n.inbox = append(n.inbox, *m)
	return len(n.inbox)
}

// Turn gives v one step: sending comes first, as DATA does in the paper.
func (s *Shipped) Turn(v, _ int32, out *Move[ShippedMsg]) {
	n := &s.nodes[v]
	if n.late {
		return
	}
	if len(n.outbox) > 0 {
		o := n.outbox[0]
		n.outbox = n.outbox[:copy(n.outbox, n.outbox[1:])]
		out.Kind, out.To, out.Msg = Sent, o.to, ShippedMsg{v, o.msg}
		return
	}
	n.returned = n.returned || n.deliver
	if len(n.inbox) > 0 {
		m := n.inbox[0]
		n.inbox = n.inbox[:copy(n.inbox, n.inbox[1:])]
		s.step(v, ftco.Event{Kind: ftco.Recv, From: m.From, Msg: m.Msg})
		out.Kind = Took
	}
}

// Wake is never: what is to be done follows from messages and news.
func (s *Shipped) Wake(_, _ int32) (int32, bool) { return 0, false }

// Lost tells nobody; the failure detector does.
func (s *Shipped) Lost(_ int32, _ *ShippedMsg, _ int32) (who, at int32, ok bool) { return 0, 0, false }

// Died is when the news sets out.
func (s *Shipped) Died(_, now int32, _ func(*ShippedMsg)) (news int32, ok bool) {
	return max(0, now) + s.cfg.Detection, true
}

// Notice tells who that dead is dead.
func (s *Shipped) Notice(who, dead, _ int32) {
	s.step(who, ftco.Event{Kind: ftco.PeerFailed, From: dead, Inc: 1})
}

// Finished says whether v needs to do no more.
func (s *Shipped) Finished(v int32) bool { return s.nodes[v].returned }
