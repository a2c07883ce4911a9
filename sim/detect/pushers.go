package detect

import "github.com/goshmem/goshmem/detector/ring"

// pushers are the literal machines.
type pushers struct {
	w        *world
	machines []ring.Literal
	timers   []int64
	actions  []ring.LiteralAction
	accused  []int32
	sent     int64
}

func newPushers(w *world) *pushers {
	p := &pushers{w: w, machines: ring.NewLiteral(ring.LiteralConfig{
		N: w.o.members(), Period: int64(w.o.Period), Timeout: 2 * int64(w.o.Period), Runtime: w.o.PRRTE,
	})}
	p.timers = make([]int64, len(p.machines))
	for v := range p.timers {
		p.timers[v] = ring.Never
	}
	return p
}

func (p *pushers) start() {
	for v := range p.machines {
		p.step(int32(v), ring.LiteralEvent{Kind: ring.LiteralStart})
	}
}

func (p *pushers) handle(o *occasion) []int32 {
	p.accused = p.accused[:0]
	v := o.node
	if p.w.gone[v] {
		return nil
	}
	switch o.kind {
	case timer:
		if p.timers[v] != o.at {
			break
		}
		if p.timers[v] = ring.Never; p.machines[v].Due() > p.w.now {
			p.arm(v)
			break
		}
		p.step(v, ring.LiteralEvent{Kind: ring.LiteralTick})
	case heartbeat:
		p.step(v, ring.LiteralEvent{Kind: ring.LiteralHeartbeat, From: o.peer})
	case request:
		p.step(v, ring.LiteralEvent{Kind: ring.LiteralRequest, From: o.peer})
	case news:
		p.step(v, ring.LiteralEvent{Kind: ring.LiteralReported, From: o.peer})
	}
	return p.accused
}

func (p *pushers) arm(v int32) {
	if due := p.machines[v].Due(); due < p.timers[v] {
		p.timers[v] = due
		p.w.queue.push(occasion{at: due, kind: timer, node: v})
	}
}

func (p *pushers) step(v int32, ev ring.LiteralEvent) {
	ev.Now = p.w.now
	p.actions = p.machines[v].Step(ev, p.actions[:0])
	for _, a := range p.actions {
		switch a.Kind {
		case ring.SendHeartbeat:
			p.send(v, a.To, heartbeat)
		case ring.SendRequest:
			p.send(v, a.To, request)
		case ring.LiteralAccuse:
			p.accused = append(p.accused, a.To)
		}
	}
	p.arm(v)
}

func (p *pushers) send(from, to int32, kind uint8) {
	p.sent++
	if !p.w.isLost() {
		p.w.queue.push(occasion{at: p.w.now + p.w.travel(), kind: kind, node: to, peer: from})
	}
}
