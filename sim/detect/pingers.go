package detect

import "github.com/goshmem/goshmem/detector/ring"

// pingers are the machines of detector/ring.
type pingers struct {
	w        *world
	machines []ring.Machine
	timers   []int64 // when each member's timer is set to, or ring.Never
	actions  []ring.Action
	accused  []int32
	sent     int64
}

func newPingers(w *world) (*pingers, error) {
	all, err := ring.NewGroup(ring.Config{
		N: w.o.Nodes, Stride: w.o.stride(), Timing: ring.TimingOf(w.o.tier(), int64(w.o.Period)),
	})
	p := &pingers{w: w, machines: all, timers: make([]int64, len(all))}
	for v := range p.timers {
		p.timers[v] = ring.Never
	}
	return p, err
}

func (p *pingers) start() {
	for v := range p.machines {
		p.step(int32(v), ring.Event{Kind: ring.Start})
	}
}

// handle lets an occasion happen. While a machine lives its kernel answers in the tier of that name, whatever its daemon
// does; in the others its daemon answers, in the same time.
func (p *pingers) handle(o *occasion) []int32 {
	p.accused = p.accused[:0]
	v, w := o.node, p.w
	switch o.kind {
	case message:
		msg := w.queue.take(o.slot)
		switch {
		case msg.Kind == ring.Ping && w.o.Tier == "kernel" && (!w.gone[v] || w.victim[v] && w.o.Death == "daemon"):
			p.send(v, o.peer, ring.Reply(&msg, ring.Status{Inc: 1, Tick: uint32(w.now / 1000), DaemonDead: w.gone[v]}))
		case !w.gone[v]:
			p.step(v, ring.Event{Kind: ring.Recv, From: o.peer, Msg: msg})
		}
	case timer:
		if p.timers[v] != o.at || w.gone[v] {
			break // set to an earlier time since
		}
		if p.timers[v] = ring.Never; p.machines[v].Due() > w.now {
			p.arm(v)
			break
		}
		p.step(v, ring.Event{Kind: ring.Tick})
	case news:
		if !w.gone[v] {
			p.step(v, ring.Event{Kind: ring.PeerFailed, From: o.peer, Inc: 1})
		}
	case hangup:
		if !w.gone[v] {
			p.step(v, ring.Event{Kind: ring.Suspect, From: o.peer, Inc: 1})
		}
	case fence:
		w.gone[v] = true
	}
	return p.accused
}

// arm sets the timer of v, unless it is set to an earlier time.
func (p *pingers) arm(v int32) {
	if due := p.machines[v].Due(); due < p.timers[v] {
		p.timers[v] = due
		p.w.queue.push(occasion{at: due, kind: timer, node: v})
	}
}

// step makes one step of v's machine.
func (p *pingers) step(v int32, ev ring.Event) {
	ev.Now = p.w.now
	p.actions = p.machines[v].Step(ev, p.actions[:0])
	for i := range p.actions {
		switch a := &p.actions[i]; a.Kind {
		case ring.Send:
			p.send(v, a.To, a.Msg)
		case ring.Accuse:
			p.accused = append(p.accused, a.To)
		}
	}
	p.arm(v)
}

func (p *pingers) send(from, to int32, msg ring.Msg) {
	p.sent++
	if !p.w.isLost() {
		p.w.queue.send(p.w.now+p.w.travel(), from, to, &msg)
	}
}
