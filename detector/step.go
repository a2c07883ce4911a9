package detector

import (
	"bytes"

	"github.com/goshmem/goshmem/detector/bmg"
	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
)

// handle does what a datagram asks for.
func (d *Detector) handle(p *packet.Packet) {
	switch p.Kind {
	case packet.Ping:
		d.receive(p, ring.Ping)
	case packet.Answer:
		if p.Fenced {
			d.noteFenced(p)
		}
		if p.For == packet.FrontEnd {
			d.relayBack(p)
			return
		}
		if p.For == d.cfg.Me {
			d.counts.answers.Add(1)
		}
		d.receive(p, ring.Answer)
	case packet.Ask:
		if p.For == packet.FrontEnd { // the front end is no member of the ring
			d.relay(p, packet.Ping)
			return
		}
		d.receive(p, ring.Ask)
	case packet.Fence:
		d.relay(p, packet.Fence)
	case packet.Fenced:
		if p.For == d.cfg.Me {
			d.noteFenced(p)
		} else {
			d.relayBack(p)
		}
	case packet.News:
		d.receiveNews(p)
	}
}

// receive hands a message to the ring.
func (d *Detector) receive(p *packet.Packet, kind ring.MsgKind) {
	d.stepRing(ring.Event{
		Kind: ring.Recv, From: p.From, Msg: ring.Msg{Kind: kind, For: p.For, Of: p.Of, At: p.At, Status: p.Status()},
	})
}

// receiveNews hands a message of another node to the broadcast. The machine keeps payloads, so they get memory of their own.
func (d *Detector) receiveNews(p *packet.Packet) {
	msg, err := bmg.ParseMsg(bytes.Clone(p.Body), d.cfg.Nodes)
	if err != nil {
		d.cfg.Logger.Debug().Err(err).Int32("from", p.From).Msg("detector: news that no one can read")
		return
	}
	d.stepNews(bmg.Event{Kind: bmg.Recv, From: p.From, Inc: p.Inc, Msg: msg})
}

// stepRing makes one step of the ring at the time of now, and does what it asks for.
func (d *Detector) stepRing(ev ring.Event) {
	ev.Now = d.now
	d.actions = d.ring.Step(ev, d.actions[:0])
	for i := range d.actions {
		switch a := &d.actions[i]; a.Kind {
		case ring.Send:
			d.sendRing(a.To, &a.Msg)
		case ring.Accuse:
			d.accuse(a.To, a.Inc, a.Reason)
		case ring.Unreached:
			d.complain(a.To, a.Inc)
		}
	}
	suspects := d.ring.Suspects()
	if suspects && !d.suspects {
		d.counts.suspicions.Add(1)
	}
	d.suspects = suspects
}

// sendRing sends a message of the ring. Pings go to the responder, all else to the detector.
func (d *Detector) sendRing(to ring.Node, msg *ring.Msg) {
	s := &msg.Status
	p := packet.Packet{
		For: msg.For, Of: msg.Of, From: d.cfg.Me, At: msg.At,
		Inc: s.Inc, Tick: s.Tick, DaemonDead: s.DaemonDead, Starved: s.Starved,
	}
	addr := &d.link.peers[to].detector
	switch msg.Kind {
	case ring.Ping:
		p.Kind, addr = packet.Ping, &d.link.peers[to].responder
		d.counts.pings.Add(1)
	case ring.Answer:
		p.Kind = packet.Answer
	case ring.Ask:
		p.Kind = packet.Ask
	}
	d.link.send(d.fd, &p, addr)
}

// accuse does what follows from an accusation.
func (d *Detector) accuse(node ring.Node, inc uint32, why ring.Reason) {
	d.counts.accusations.Add(1)
	d.cfg.Logger.Info().Int32("node", node).Uint32("incarnation", inc).Str("reason", reasonText(why)).Msg("detector: a node is accused")
	if why != ring.Silent {
		d.fences = append(d.fences, fence{node: node, inc: inc, why: why, next: d.now, end: d.now + d.cfg.fenceFor})
		return
	}
	if d.cfg.Silent != nil {
		d.teller.Tell(func() { d.cfg.Silent(node, inc) })
	}
}

// complain says that the network between this node and another one, which lives, is broken.
func (d *Detector) complain(node ring.Node, inc uint32) {
	d.cfg.Logger.Info().Int32("node", node).Msg("detector: a node answers by way of others only")
	if d.cfg.Unreached != nil {
		d.teller.Tell(func() { d.cfg.Unreached(node, inc) })
	}
}

// reasonText returns a reason for the log.
func reasonText(why ring.Reason) string {
	switch why {
	case ring.Silent:
		return "it answers nobody"
	case ring.DaemonDead:
		return "its daemon has ended"
	case ring.DaemonHung:
		return "its daemon hangs"
	case ring.Restarted:
		return "a later incarnation answers"
	}
	return "unknown"
}

// stepNews makes one step of the broadcast, and does what it asks for.
func (d *Detector) stepNews(ev bmg.Event) {
	d.spreads = d.news.Step(ev, d.spreads[:0])
	for i := range d.spreads {
		switch a := &d.spreads[i]; a.Kind {
		case bmg.Send:
			d.sendNews(a.To, a.Msg)
		case bmg.Deliver:
			d.deliver(a.Payload, ev.Kind == bmg.Start)
		case bmg.Fenced:
			d.obey(a.Payload)
		}
	}
	clear(d.spreads) // their payloads are kept by those who need them only
}

// sendNews sends a message of the broadcast. If it has payloads, time has to pass: what is not acknowledged goes out again.
func (d *Detector) sendNews(to bmg.Node, msg bmg.Msg) {
	if len(msg.Payloads) > 0 {
		d.newsIdle = 0
		d.newsNext = min(d.newsNext, d.now+newsTick)
	}
	split(msg, mostBytes-packet.Size, func(part *bmg.Msg) {
		d.body = part.Append(d.body[:0])
		p := packet.Packet{Kind: packet.News, For: to, Of: to, From: d.cfg.Me, At: d.now, Inc: d.cfg.inc(d.cfg.Me), Body: d.body}
		d.link.send(d.fd, &p, &d.link.peers[to].detector)
	})
}

// deliver hands on a report that is new, unless it is this detector's own.
func (d *Detector) deliver(p *bmg.Payload, own bool) {
	d.counts.reports.Add(1)
	if p.Kind == bmg.KindNode {
		d.stepRing(ring.Event{Kind: ring.PeerFailed, From: bmg.Node(p.ID), Inc: p.Inc})
	}
	if own || d.cfg.Heard == nil || p.Kind != bmg.KindNode && p.Kind != bmg.KindPE {
		return
	}
	d.teller.Tell(func() { d.cfg.Heard(p) })
}

// obey tells this node that a report calls it dead.
func (d *Detector) obey(p *bmg.Payload) {
	if d.accused {
		return
	}
	d.accused = true
	d.cfg.Logger.Warn().Int32("by", p.Origin).Msg("detector: this node is reported as dead")
	if d.cfg.Accused != nil {
		d.teller.Tell(d.cfg.Accused)
	}
}
