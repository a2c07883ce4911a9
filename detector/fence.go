package detector

import (
	"github.com/goshmem/goshmem/detector/bmg"
	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/xunix"
)

// How a node is fenced: an order every 2 ms until it says that it is done, for 50 ms, and fewestFences orders at least,
// however late this node is.
const (
	fenceEvery   = 2 * millisecond
	fenceFor     = 50 * millisecond
	fewestFences = 5
)

// fence is a node that is being fenced.
type fence struct {
	node   ring.Node
	inc    uint32
	why    ring.Reason
	next   int64 // when the next order is due
	end    int64
	orders int
	done   bool // the node has answered
}

// isOver reports whether the fence is done or has failed.
func (f *fence) isOver(now int64) bool { return f.done || now >= f.end && f.orders >= fewestFences }

// passFences sends the orders that are due, and reports the nodes that are fenced or have not answered.
func (d *Detector) passFences() {
	for i := 0; i < len(d.fences); {
		f := &d.fences[i]
		if f.isOver(d.now) {
			over := *f
			d.fences = append(d.fences[:i], d.fences[i+1:]...)
			d.reportNode(&over)
			continue
		}
		if d.now >= f.next {
			f.next = d.now + fenceEvery
			f.orders++
			p := packet.Packet{Kind: packet.Fence, For: d.cfg.Me, Of: f.node, From: d.cfg.Me, At: d.now, Inc: f.inc}
			d.link.send(d.fd, &p, &d.link.peers[f.node].responder)
		}
		i++
	}
}

// noteFenced notes that a node says that it has been fenced.
func (d *Detector) noteFenced(p *packet.Packet) {
	for i := range d.fences {
		if f := &d.fences[i]; f.node == p.Of && f.inc == p.Inc {
			f.done, f.next = true, d.now
		}
	}
}

// reportNode reports a death that is proven.
func (d *Detector) reportNode(f *fence) {
	cause := failure.Of(failure.Fenced)
	if !f.done {
		cause = failure.Of(failure.NodeLost)
		d.cfg.Logger.Warn().Int32("node", f.node).Int("orders", f.orders).Msg("detector: a dead node does not say that it is fenced")
	}
	node, inc, why := f.node, f.inc, f.why
	d.stepNews(bmg.Event{Kind: bmg.Start, Msg: bmg.Msg{Payloads: []bmg.Payload{{
		Key: bmg.Key{Kind: bmg.KindNode, ID: uint64(node), Inc: inc}, Origin: d.cfg.Me, Cause: uint32(cause),
		At: int64(xunix.Monotonic()),
	}}}})
	if d.cfg.Proven != nil {
		d.teller.Tell(func() { d.cfg.Proven(node, inc, why) })
	}
}

// relays are the questions and orders of others that the detector has passed on, for the answers. The oldest is dropped for
// a new one: its asker repeats it.
type relays struct {
	list [64]passed
	next int
}

// passed is a datagram that was passed on.
type passed struct {
	asker, of ring.Node
	at        int64
	to        xunix.SocketAddress // of the asker
	open      bool
}

// relay passes a question or an order to the responder of another node.
func (d *Detector) relay(p *packet.Packet, kind packet.Kind) {
	if !d.cfg.has(p.Of) || p.Of == d.cfg.Me {
		return
	}
	d.relays.list[d.relays.next] = passed{asker: p.For, of: p.Of, at: p.At, to: d.from, open: true}
	d.relays.next = (d.relays.next + 1) % len(d.relays.list)
	if kind == packet.Ping {
		d.counts.pings.Add(1)
	}
	on := packet.Packet{Kind: kind, For: p.For, Of: p.Of, From: d.cfg.Me, At: p.At, Inc: p.Inc}
	d.link.send(d.fd, &on, &d.link.peers[p.Of].responder)
}

// relayBack passes an answer to the one who has asked for it.
func (d *Detector) relayBack(p *packet.Packet) {
	for i := range d.relays.list {
		if r := &d.relays.list[i]; r.open && r.asker == p.For && r.of == p.Of && r.at == p.At {
			r.open = false
			p.From = d.cfg.Me
			d.link.send(d.fd, p, &r.to)
			return
		}
	}
}
