package detector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Errors of a Prober.
var (
	ErrProberClosed = errors.New("the prober is closed")
	ErrNotFenced    = errors.New("the node does not say that it is fenced")
)

// helpersAsked is the number of other nodes that a round of a probe goes through.
const helpersAsked = 3

// ProberConfig says which nodes a Prober asks.
type ProberConfig struct {
	Key    packet.Key
	Job    uint64
	Socket *net.UDPConn // NewProber takes it over, and Close closes it
	Peers  []Peer       // by node
	Timing ring.Timing  // Probes and Verify count

	Logger zerolog.Logger

	lose     func() bool // see Config
	fenceFor int64       // see Config
}

// Prober asks nodes whether they live, and fences them, for the front end.
//
//   - Concurrent calls: any goroutine may call any method.
type Prober struct {
	timing   ring.Timing
	fenceFor int64
	began    time.Time
	done     chan struct{} // closed when the reader has ended

	mu    sync.Mutex
	link  link
	waits []*wait
	lost  []bool // by node
	next  int    // the node that is asked next to help
}

// wait is a call that waits for a node's answer.
type wait struct {
	kind   packet.Kind
	node   ring.Node
	inc    uint32 // of a fence
	since  int64  // answers to earlier questions do not count
	answer chan Result
}

// Result is what a Probe has found.
type Result struct {
	Answered bool
	By       ring.Node     // of an answer: the node that has passed it on; the node itself if none has
	Packet   packet.Packet // of an answer
}

// IsDead reports whether the node's kernel has said that the node's daemon has ended, or that the node is fenced.
func (r *Result) IsDead() bool { return r.Answered && (r.Packet.DaemonDead || r.Packet.Fenced) }

// NewProber returns a Prober. On an error the caller keeps the socket.
func NewProber(cfg ProberConfig) (*Prober, error) {
	t := &cfg.Timing
	switch {
	case cfg.Socket == nil:
		return nil, fmt.Errorf("%w: no socket", ErrConfig)
	case t.Probes < 1 || t.Verify <= int64(t.Probes):
		return nil, fmt.Errorf("%w: %d probes in %d ns, want at least one, and more ns than probes", ErrConfig, t.Probes, t.Verify)
	}
	p := &Prober{timing: cfg.Timing, fenceFor: cmp.Or(cfg.fenceFor, fenceFor), began: time.Now(), done: make(chan struct{}), lost: make([]bool, len(cfg.Peers))}
	p.link.key, p.link.job, p.link.logger, p.link.lose = cfg.Key, cfg.Job, cfg.Logger, cfg.lose
	if err := p.link.open(cfg.Socket, cfg.Peers, packet.FrontEnd); err != nil {
		return nil, err
	}
	go p.read()
	return p, nil
}

// Close ends all calls, and closes the socket.
func (p *Prober) Close() {
	_ = p.link.conn.Close() // an error: it has been closed
	<-p.done
}

// NodeLost says that a node is dead: it is not asked to help any more.
func (p *Prober) NodeLost(node ring.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if node >= 0 && int(node) < len(p.lost) {
		p.lost[node] = true
	}
}

// Probe asks a node whether it lives, Timing.Probes times in Timing.Verify, directly and by way of others. The first answer
// is the result. If the caller is late itself, the node gets up to Timing.Verify more, once.
//
//   - Errors: that of the context; ErrProberClosed; ErrConfig: there is no such node.
func (p *Prober) Probe(ctx context.Context, node ring.Node) (Result, error) {
	w, err := p.expect(packet.Answer, node, 0)
	if err != nil {
		return Result{}, err
	}
	defer p.forget(w)
	q := newInquiry(w.since, &p.timing)
	for {
		now := p.clock()
		for range q.due(now) {
			p.ask(node)
		}
		if q.isOver(now) {
			return p.last(w), nil
		}
		if r, err := p.await(ctx, w, q.next()-now); err != nil || r.Answered {
			return r, err
		}
	}
}

// inquiry is when a node is asked, and until when its answer is awaited. It has no clock: a caller that looks late, as
// timers may be, asks what has been due since, and ends in time all the same.
type inquiry struct {
	step    int64 // from question to question
	verify  int64
	round   int64 // when the next question is due
	end     int64
	left    int // questions
	excused bool
}

func newInquiry(now int64, t *ring.Timing) inquiry {
	return inquiry{step: t.Verify / int64(t.Probes+1), verify: t.Verify, round: now, end: now + t.Verify, left: t.Probes}
}

// due returns how many questions are due. If the caller is late by more than timers are, their answers get as much time, at
// most Verify.
func (q *inquiry) due(now int64) (questions int) {
	if late := now - q.round; q.left > 0 && late > lateness {
		q.end = max(q.end, now+min(late, q.verify))
	}
	for ; q.left > 0 && now >= q.round; q.left-- {
		q.round += q.step
		questions++
	}
	return questions
}

// isOver reports whether the time is over. It grants a caller that looks late as much time again, at most Verify, once.
func (q *inquiry) isOver(now int64) bool {
	late := now - q.end
	if late > lateness && !q.excused {
		q.end, q.excused = now+min(late, q.verify), true
	}
	return now >= q.end
}

// next returns when to look again.
func (q *inquiry) next() int64 {
	if q.left > 0 {
		return min(q.round, q.end)
	}
	return q.end
}

// Fence orders an incarnation of a node to end, directly and by way of others, until the node says that it is done.
//
//   - Errors: ErrNotFenced if it has not said so after 50 ms; otherwise as Probe.
func (p *Prober) Fence(ctx context.Context, node ring.Node, inc uint32) error {
	w, err := p.expect(packet.Fenced, node, inc)
	if err != nil {
		return err
	}
	defer p.forget(w)
	for orders := 0; ; orders++ {
		now := p.clock()
		if now >= w.since+p.fenceFor && orders >= fewestFences {
			if r := p.last(w); !r.Answered {
				return fmt.Errorf("fence incarnation %d of node %d: %w after %d orders", inc, node, ErrNotFenced, orders)
			}
			return nil
		}
		p.order(node, inc, orders%fewestFences == fewestFences-1)
		if r, err := p.await(ctx, w, fenceEvery); err != nil || r.Answered {
			return err
		}
	}
}

// clock returns the time, which never steps back.
func (p *Prober) clock() int64 { return int64(time.Since(p.began)) }

// expect begins to wait for an answer of a node.
func (p *Prober) expect(kind packet.Kind, node ring.Node, inc uint32) (*wait, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if node < 0 || int(node) >= len(p.lost) {
		return nil, fmt.Errorf("%w: node %d, want 0 to %d", ErrConfig, node, len(p.lost)-1)
	}
	w := &wait{kind: kind, node: node, inc: inc, since: p.clock(), answer: make(chan Result, 1)}
	p.waits = append(p.waits, w)
	return w, nil
}

// forget ends the wait.
func (p *Prober) forget(w *wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = slices.DeleteFunc(p.waits, func(o *wait) bool { return o == w })
}

// await waits for an answer for some time. Without an answer the Result is empty.
func (p *Prober) await(ctx context.Context, w *wait, d int64) (Result, error) {
	timer := time.NewTimer(time.Duration(d))
	defer timer.Stop()
	select {
	case r := <-w.answer:
		return r, nil
	case <-ctx.Done():
		return Result{}, fmt.Errorf("ask node %d: %w", w.node, context.Cause(ctx))
	case <-p.done:
		return Result{}, fmt.Errorf("ask node %d: %w", w.node, ErrProberClosed)
	case <-timer.C:
		return Result{}, nil
	}
}

// last returns the answer if one has come by now, although the reader may not have had a processor since.
func (p *Prober) last(w *wait) Result {
	in := make([]byte, mostInDatagram)
	p.control(func(fd int) {
		var from xunix.SocketAddress
		for range mostDrained {
			n, err := p.link.receive(fd, in, &from)
			if err != nil {
				return
			}
			if n >= 0 {
				p.dispatch(in[:n])
			}
		}
	})
	select {
	case r := <-w.answer:
		return r
	default:
		return Result{}
	}
}

// control calls f with the socket, alone. A socket that is closed does nothing.
func (p *Prober) control(f func(fd int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.link.raw.Control(func(fd uintptr) { f(int(fd)) })
}

// ask asks a node, and some others to ask it.
func (p *Prober) ask(node ring.Node) {
	p.control(func(fd int) {
		question := packet.Packet{Kind: packet.Ping, For: packet.FrontEnd, Of: node, From: packet.FrontEnd, At: p.clock()}
		p.link.send(fd, &question, &p.link.peers[node].responder)
		question.Kind = packet.Ask
		p.byOthers(fd, &question, helpersAsked)
	})
}

// order sends an order to end to a node, and to another one that passes it on.
func (p *Prober) order(node ring.Node, inc uint32, byOthers bool) {
	p.control(func(fd int) {
		order := packet.Packet{Kind: packet.Fence, For: packet.FrontEnd, Of: node, From: packet.FrontEnd, At: p.clock(), Inc: inc}
		p.link.send(fd, &order, &p.link.peers[node].responder)
		if byOthers {
			p.byOthers(fd, &order, 1)
		}
	})
}

// byOthers sends a datagram to the detectors of some nodes, which take turns.
func (p *Prober) byOthers(fd int, d *packet.Packet, most int) {
	for range len(p.lost) {
		helper := p.next
		p.next = (p.next + 1) % len(p.lost)
		if ring.Node(helper) == d.Of || p.lost[helper] {
			continue
		}
		p.link.send(fd, d, &p.link.peers[helper].detector)
		if most--; most == 0 {
			return
		}
	}
}

// read reads datagrams until the socket is closed.
func (p *Prober) read() {
	defer close(p.done)
	in := make([]byte, mostInDatagram)
	for {
		n, _, err := p.link.conn.ReadFromUDPAddrPort(in)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		p.mu.Lock()
		if err != nil {
			p.link.note("receive", err)
		} else {
			p.dispatch(in[:n])
		}
		p.mu.Unlock()
	}
}

// dispatch hands an answer to those who wait for it. A datagram that nobody waits for, or of strangers, is ignored.
func (p *Prober) dispatch(b []byte) {
	d, err := packet.Parse(b, p.link.job, &p.link.key)
	if err != nil || d.For != packet.FrontEnd {
		return
	}
	d.Body = nil // a part of b
	for _, w := range p.waits {
		if d.Of != w.node || d.At < w.since || !w.takes(&d) {
			continue
		}
		select {
		case w.answer <- Result{Answered: true, By: d.From, Packet: d}:
		default: // it has one
		}
	}
}

// takes reports whether a datagram answers the call.
func (w *wait) takes(d *packet.Packet) bool {
	if w.kind == packet.Answer {
		return d.Kind == packet.Answer
	}
	return (d.Kind == packet.Fenced || d.Kind == packet.Answer && d.Fenced) && d.Inc == w.inc
}
