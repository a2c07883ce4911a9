package agree

import (
	"fmt"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/sim/logp"
)

// message is a message between machines.
type message struct {
	from int32
	msg  agree.Msg
}

// node is a machine with its queues. A step sends one message or handles one, and sending comes first,
// as in the simulation of collectives.
type node struct {
	machine *agree.Machine
	inbox   []message
	outbox  []outgoing
	deliver bool  // the machine has let the call return, which it does when all its messages are sent
	blocked bool  // the machine is blocked
	done    int32 // the step in which the call returned, or never
	outcome agree.Outcome
	failed  int // number of dead that the decision lists
}

// outgoing is a message that waits to be sent.
type outgoing struct {
	to  int32
	msg agree.Msg
}

// never is no step.
const never = int32(-1)

// driver drives the machines of one run.
type driver struct {
	nodes     []node
	dead      []bool // nodes whose death all know, or will learn of
	known     []bool // nodes whose death all knew before the agreement
	detection int32
	sent      int64 // messages of the agreement
	out       []agree.Action
}

var _ logp.Driver[message] = (*driver)(nil)

// newDriver makes the machines at rest.
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

// announceDead tells all living nodes that the victims have died before the start.
func (d *driver) announceDead(victims []int32) {
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

// prepare prepares the next agreement. Nothing is left of the one before.
func (d *driver) prepare() {
	d.sent = 0
	for v := range d.nodes {
		n := &d.nodes[v]
		n.deliver, n.blocked, n.done, n.outcome, n.failed = false, false, never, 0, 0
		d.known[v] = d.dead[v]
	}
}

// step gives v's machine an event and does what the machine asks for.
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
		case agree.Refuse: // cannot be: an agreement begins when the one before has ended
		}
	}
	d.updateDone(n, now)
}

// updateDone notes that the call has returned, as soon as no message is left to send.
func (d *driver) updateDone(n *node, now int32) {
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
	d.updateDone(n, now)
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

// Wake never wakes a node: all that it has to do follows from messages and news.
func (d *driver) Wake(_, _ int32) (int32, bool) { return 0, false }

// Lost tells no node of the death: the failure detector does.
func (d *driver) Lost(_ int32, _ *message, _ int32) (learner, at int32, ok bool) { return 0, 0, false }

// Died returns when all nodes get the news. There is none if all know already.
func (d *driver) Died(v, now int32, _ func(*message)) (news int32, ok bool) {
	d.dead[v] = true
	return now + d.detection, !d.known[v]
}

// Notice tells v that the node dead is dead.
func (d *driver) Notice(v, dead, now int32) {
	d.step(v, agree.Event{Kind: agree.PeerFailed, From: dead, Inc: 1}, now)
}

// Finished reports whether v's call has returned.
func (d *driver) Finished(v int32) bool { return d.nodes[v].done != never }
