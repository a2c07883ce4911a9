package remote

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

// Credit of a node's output, see the documentation of the package.
const (
	outputWindow = 256 << 10
	streamShare  = 64 << 10
	// mostOnTheWay is what a node can have sent and not got back: the credit, and one long text.
	mostOnTheWay = outputWindow + daemon.LongLine
)

// printing passes the output of a node on to the front end.
type printing struct {
	peer  Peer
	calls sync.WaitGroup // goroutines that call the front end
	moved atomic.Int64   // texts that the front end has taken
	busy  atomic.Int64   // calls of the front end that are under way

	mu      sync.Mutex
	hooks   daemon.Hooks
	merge   bool // the two outputs of a PE are one line of texts: the order between them counts
	numbers map[uint32]*output
	outputs map[source]*output
	lines   map[daemon.ID]*serial // merge: of each PE
	waiting int                   // bytes that have come and were not taken
	lost    bool                  // nothing more comes
}

// output is an output of a PE.
type output struct {
	of     source
	number uint32 // 0: the node has not begun it
	line   *serial
	part   []byte       // begin of a text that goes on
	came   uint64       // bytes
	taken  daemon.Gauge // bytes
	ended  bool         // nothing follows
}

func newPrinting(peer Peer) *printing {
	return &printing{peer: peer, numbers: map[uint32]*output{}, outputs: map[source]*output{}, lines: map[daemon.ID]*serial{}}
}

// start sets what is called.
func (p *printing) start(hooks daemon.Hooks, merge bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks, p.merge = hooks, merge
}

// of returns an output, which is new at the first call. The caller holds the lock.
func (p *printing) of(from source) *output {
	if o := p.outputs[from]; o != nil {
		return o
	}
	o := &output{of: from, line: new(serial)}
	if p.merge {
		if p.lines[from.ID] == nil {
			p.lines[from.ID] = o.line
		}
		o.line = p.lines[from.ID]
	}
	p.outputs[from] = o
	return o
}

// begin gives an output the number by which the node calls it.
func (p *printing) begin(number uint32, from source) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of(from)
	if o.number != 0 || p.numbers[number] != nil || number == 0 {
		return fmt.Errorf("output %d of PE %v begins as number %d, want each output to begin once, with a number of its own", from.Stream, from.ID, number)
	}
	o.number, p.numbers[number] = number, o
	return nil
}

// expect notes that an event speaks of output that may never come: then OutputEnd is called when the node is lost.
func (p *printing) expect(e *daemon.Event) {
	for _, s := range []daemon.Stream{daemon.Stdout, daemon.Stderr} {
		if e.Written.Of(s) > 0 {
			p.mu.Lock()
			if !p.lost {
				p.of(source{e.ID, s})
			}
			p.mu.Unlock()
		}
	}
}

// take takes text of an output.
func (p *printing) take(number uint32, t text) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.numbers[number]
	p.waiting += len(t.Text)
	switch {
	case p.lost:
		return nil
	case o == nil || o.ended || p.hooks.Output == nil:
		return fmt.Errorf("text of output %d, which has not begun, or has ended", number)
	case p.waiting > mostOnTheWay:
		return fmt.Errorf("%d bytes of output are on the way, want at most %d", p.waiting, mostOnTheWay)
	}
	o.came += uint64(len(t.Text))
	if t.Goes {
		o.part = append(o.part, t.Text...)
		return nil
	}
	p.pass(o, append(o.part, t.Text...))
	o.part = nil
	return nil
}

// pass has text of an output passed on. The caller holds the lock.
func (p *printing) pass(o *output, text []byte) {
	call := p.hooks.Output
	o.line.add(&p.calls, func() {
		p.busy.Add(1)
		call(o.of.ID, o.of.Stream, text)
		p.moved.Add(1)
		p.busy.Add(-1)
		p.giveBack(o, len(text))
	})
}

// giveBack gives the node the credit of what was taken.
func (p *printing) giveBack(o *output, n int) {
	o.taken.Add(n)
	p.mu.Lock()
	p.waiting -= n
	lost := p.lost
	p.mu.Unlock()
	if !lost {
		p.peer.Send(wire.Frame{Kind: wire.KindOutputTaken, Stream: o.number, Body: encode(wire.Integer, n)})
	}
}

// end notes that an output has ended.
func (p *printing) end(number uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch o := p.numbers[number]; {
	case p.lost:
	case o == nil || o.ended || o.part != nil:
		return fmt.Errorf("end of output %d, which has not begun, has ended, or is in the middle of a text", number)
	default:
		p.endOf(o)
	}
	return nil
}

// endOf has the end of an output passed on. The caller holds the lock.
func (p *printing) endOf(o *output) {
	o.ended = true
	call := p.hooks.OutputEnd
	o.line.add(&p.calls, func() {
		o.taken.End()
		if call != nil {
			call(o.of.ID, o.of.Stream)
		}
	})
}

// lose ends all outputs: nothing more comes. What has come is passed on.
func (p *printing) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost {
		return
	}
	p.lost = true
	for _, o := range p.outputs {
		if o.ended {
			continue
		}
		if o.part != nil {
			p.pass(o, o.part)
			o.part = nil
		}
		p.endOf(o)
	}
}

// wait waits until everything has been taken, after lose.
func (p *printing) wait() { p.calls.Wait() }

// await waits until what has come of a PE's outputs is taken, for atMost at the longest.
func (p *printing) await(id daemon.ID, atMost time.Duration) {
	late := time.NewTimer(atMost)
	defer late.Stop()
	for _, s := range []daemon.Stream{daemon.Stdout, daemon.Stderr} {
		p.mu.Lock()
		o := p.outputs[source{id, s}]
		var taken <-chan struct{}
		if o != nil {
			taken = o.taken.Reached(o.came)
		}
		p.mu.Unlock()
		if o == nil {
			continue
		}
		select {
		case <-taken:
		case <-late.C:
			return
		}
	}
}

// moves returns a number that grows with what the front end takes.
func (p *printing) moves() int64 { return p.moved.Load() }

// isBusy says whether the front end is taking output.
func (p *printing) isBusy() bool { return p.busy.Load() > 0 }
