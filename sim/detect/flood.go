package detect

import (
	"slices"

	"github.com/goshmem/goshmem/detector/bmg"
)

// relay is the broadcast machine of all members.
type relay interface {
	reset()
	// start and receive return the members that v sends to, and whether it delivers, or is fenced instead.
	start(v int32, dead []int32, out []int32) []int32
	receive(v, from int32, out []int32) (sends []int32, delivers, fenced bool)
}

// flood runs one report. Time is in steps of the overhead.
type flood struct {
	relay   relay
	latency int32
	slots   [][]hop // by time of arrival, around
	busy    []int32 // until when each member has something to do
	arrived []int32 // when each member delivered, or was fenced, or never
	out     []int32
	all     bool // machines are asked about copies, too, which they drop; a test compares
}

// hop is a message on its way.
type hop struct{ to, from int32 }

// never is no step.
const never = int32(-1)

// newFlood makes the room for reports among n members, each with at most degree neighbors.
func newFlood(r relay, n, degree int, latency int32) *flood {
	// A member has at most as many messages to handle and to send as neighbors, twice with the literal algorithm.
	return &flood{
		relay: r, latency: latency, slots: make([][]hop, int(latency)+8*degree+16),
		busy: make([]int32, n), arrived: make([]int32, n),
	}
}

// run lets v report the dead. gone are the members that get nothing. It returns the messages that were sent.
func (f *flood) run(v int32, dead []int32, gone []bool) (messages int64) {
	f.relay.reset()
	clear(f.busy)
	for i := range f.arrived {
		f.arrived[i] = never
	}
	f.out = f.relay.start(v, dead, f.out[:0])
	f.arrived[v] = f.send(v, 0)
	messages = int64(len(f.out))
	for now, left := int32(0), messages; left > 0; now++ {
		i := int(now) % len(f.slots)
		for _, h := range f.slots[i] {
			if left--; gone[h.to] {
				continue
			}
			handled := max(now, f.busy[h.to]) + 1
			if f.arrived[h.to] != never && !f.all {
				f.busy[h.to] = handled
				continue
			}
			sends, delivers, fenced := f.relay.receive(h.to, h.from, f.out[:0])
			f.out = sends
			done := f.send(h.to, handled)
			left += int64(len(sends))
			messages += int64(len(sends))
			if delivers || fenced {
				f.arrived[h.to] = done
			}
		}
		f.slots[i] = f.slots[i][:0]
	}
	return messages
}

// send sends to the members in out, one a step. It returns when the last message has left.
func (f *flood) send(v, now int32) int32 {
	for _, to := range f.out {
		now++
		i := int(now+f.latency) % len(f.slots)
		f.slots[i] = append(f.slots[i], hop{to, v})
	}
	f.busy[v] = now
	return now
}

// graph is the relay of detector/bmg.
type graph struct {
	machines []bmg.Machine
	kind     bmg.Kind // of what has died
	payloads []bmg.Payload
	actions  []bmg.Action
}

func newGraph(n int, kind bmg.Kind) (*graph, error) {
	all, err := bmg.NewGroup(bmg.Config{N: n})
	return &graph{machines: all, kind: kind}, err
}

func (g *graph) reset() {
	for i := range g.machines {
		g.machines[i].Reset()
	}
}

func (g *graph) start(v int32, dead, out []int32) []int32 {
	g.payloads = make([]bmg.Payload, len(dead)) // machines keep the old ones
	dead = slices.Sorted(slices.Values(dead))
	for i, p := range dead {
		g.payloads[i] = bmg.Payload{Key: bmg.Key{Kind: g.kind, ID: uint64(p), Inc: 1}, Origin: v}
	}
	out, _, _ = g.step(v, bmg.Event{Kind: bmg.Start, Msg: bmg.Msg{Payloads: g.payloads}}, out)
	return out
}

func (g *graph) receive(v, from int32, out []int32) (sends []int32, delivers, fenced bool) {
	return g.step(v, bmg.Event{Kind: bmg.Recv, From: from, Inc: 1, Msg: bmg.Msg{Payloads: g.payloads}}, out)
}

func (g *graph) step(v int32, ev bmg.Event, out []int32) (sends []int32, delivers, fenced bool) {
	g.actions = g.machines[v].Step(ev, g.actions[:0])
	for i := range g.actions {
		switch a := &g.actions[i]; a.Kind {
		case bmg.Send:
			out = append(out, a.To)
		case bmg.Deliver:
			delivers = true
		case bmg.Fenced:
			fenced = true
		}
	}
	return out, delivers, fenced
}

// printed is the relay of the paper's Algorithm 1.
type printed struct {
	machines []*bmg.Literal
	msg      bmg.LiteralMsg
	actions  []bmg.LiteralAction
}

func newPrinted(flavor bmg.Flavor, n int) *printed {
	p := &printed{}
	for v := range n {
		p.machines = append(p.machines, bmg.NewLiteral(flavor, n, v))
	}
	return p
}

func (p *printed) reset() {
	for _, m := range p.machines {
		m.Reset()
	}
}

func (p *printed) start(v int32, dead, out []int32) []int32 {
	p.msg = bmg.LiteralMsg{uint64(dead[0])} // it reports one at a time
	p.actions = p.machines[v].Start(p.msg[0], nil, p.actions[:0])
	out, _ = p.do(v, out)
	return out
}

func (p *printed) receive(v, _ int32, out []int32) (sends []int32, delivers, fenced bool) {
	p.actions = p.machines[v].Receive(p.msg, p.actions[:0])
	out, delivers = p.do(v, out)
	return out, delivers, false
}

func (p *printed) do(v int32, out []int32) (sends []int32, delivers bool) {
	for i := range p.actions {
		switch a := &p.actions[i]; a.Kind {
		case bmg.LiteralSend:
			out = append(out, a.To)
		case bmg.LiteralNotify:
			delivers = true
		case bmg.LiteralMark:
			p.machines[v].Mark(a.Msg)
		}
	}
	return out, delivers
}
