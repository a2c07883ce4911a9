package agree

import (
	"fmt"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/sim/logp"
)

// message is one between machines.
type message struct {
	from int32
	msg  agree.Msg
}

// node is a machine and what it has not come to yet. A step sends one message or
// handles one, and sending comes first, as in the simulation of collectives.
type node struct {
	machine *agree.Machine
	inbox   []message
	outbox  []outgoing
	deliver bool // the call may return when what it had to send is sent
	blocked bool
	done    int32 // the step in which it did, or never
	outcome agree.Outcome
	failed  int // how many the decision lists
}

type outgoing struct {
	to  int32
	msg agree.Msg
}

const never = int32(-1)

// driver drives the machines of one run.
type driver struct {
	nodes     []node
	dead      []bool // of those it is known to all, or will be
	known     []bool // before the start
	detection int32
	sent      int64
	out       []agree.Action
}

var _ logp.Driver[message] = (*driver)(nil)

// newDriver makes the machines, at rest.
func newDriver(o *Options) (*driver, error) {
	d := &driver{
		nodes: make([]node, o.Nodes), dead: make([]bool, o.Nodes), known: make([]bool, o.Nodes),
		detection: int32(max(1, o.Detection/o.Overhead)),
	}
	for v := range d.nodes {
		m, err := agree.New(agree.Config{
			Algorithm: o.algorithm(), N: o.Nodes, Me: v, Radix: o.Radix,
			Rebalance: o.Rebalance, Promote: o.Promote, Durable: o.Durable,
		})
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", v, err)
		}
		d.nodes[v].machine = m
	}
	return d, nil
}

// learn tells everybody of those who have died before the start.
func (d *driver) learn(victims []int32) {
	for _, p := range victims {
		d.dead[p], d.known[p] = true, true
	}
	for v := range d.nodes {
		for _, p := range victims {
			if !d.dead[v] {
				d.step(int32(v), agree.Event{Kind: agree.PeerFailed, From: p, Inc: 1}, 0)
			}
		}
	}
}

// again makes the machines ready for the next agreement, when nothing is left of
// the one before.
func (d *driver) again() {
	d.sent = 0
	for v := range d.nodes {
		n := &d.nodes[v]
		n.deliver, n.blocked, n.done, n.outcome, n.failed = false, false, never, 0, 0
		d.known[v] = d.dead[v]
	}
}

func (d *driver) step(v int32, ev agree.Event, now int32) {
	n := &d.nodes[v]
	d.out = n.machine.Step(ev, d.out[:0])
	for i := range d.out {
		switch a := &d.out[i]; a.Kind {
		case agree.Send:
			n.outbox = append(n.outbox, outgoing{a.To, a.Msg})
		case agree.Deliver:
			n.deliver, n.blocked = true, false
			n.outcome, n.failed = a.Decision.Outcome, len(a.Decision.Failed)
		case agree.Blocked:
			n.blocked = true
		case agree.Refuse: // an agreement is begun when the one before has ended
		}
	}
	d.returns(n, now)
}

// returns notes that the call has returned, as soon as nothing is left to send.
func (d *driver) returns(n *node, now int32) {
	if n.deliver && len(n.outbox) == 0 && n.done == never {
		n.done = now
	}
}

// Enter makes v call the agreement.
func (d *driver) Enter(v, now int32) {
	d.step(v, agree.Event{Kind: agree.Enter, Vote: agree.Vote{Flags: 1}}, now)
}

// Arrive puts a message into v's queue.
func (d *driver) Arrive(v int32, m *message, _ int32) int {
	n := &d.nodes[v]
	n.inbox = append(n.inbox, *m)
	return len(n.inbox)
}

// Turn gives v one step.
func (d *driver) Turn(v, now int32, out *logp.Move[message]) {
	n := &d.nodes[v]
	d.returns(n, now)
	switch {
	case len(n.outbox) > 0:
		o := n.outbox[0]
		n.outbox = n.outbox[:copy(n.outbox, n.outbox[1:])]
		out.Kind, out.To, out.Msg = logp.Sent, o.to, message{v, o.msg}
		d.sent++
	case len(n.inbox) > 0:
		m := n.inbox[0]
		n.inbox = n.inbox[:copy(n.inbox, n.inbox[1:])]
		d.step(v, agree.Event{Kind: agree.Recv, From: m.from, Msg: m.msg}, now+1)
		out.Kind = logp.Took
	}
}

// Wake is never: what is to be done follows from messages and news.
func (d *driver) Wake(_, _ int32) (int32, bool) { return 0, false }

// Lost tells nobody; the failure detector does.
func (d *driver) Lost(_ int32, _ *message, _ int32) (who, at int32, ok bool) { return 0, 0, false }

// Died is when the news sets out, which are none if all know.
func (d *driver) Died(v, now int32, _ func(*message)) (news int32, ok bool) {
	d.dead[v] = true
	return now + d.detection, !d.known[v]
}

// Notice tells who that dead is dead.
func (d *driver) Notice(who, dead, now int32) {
	d.step(who, agree.Event{Kind: agree.PeerFailed, From: dead, Inc: 1}, now)
}

// Finished says whether v's call has returned.
func (d *driver) Finished(v int32) bool { return d.nodes[v].done != never }
