package control

import (
	"context"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goshmem/goshmem/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kindTest is the kind of the frames that tests send.
const kindTest wire.Kind = 0x0f00

var loopback = []netip.Addr{netip.MustParseAddr("127.0.0.1")}

// within is how long a test waits for what has to happen.
const within = 20 * time.Second

// end is what an end of a link has seen.
type end struct {
	link *Link
	lost chan error
	bye  chan struct{}

	mu   sync.Mutex
	took []wire.Frame
	more chan struct{} // has a token when took has grown
}

func newEnd() *end {
	return &end{lost: make(chan error, 2), bye: make(chan struct{}, 2), more: make(chan struct{}, 1)}
}

func (e *end) handler() Handler {
	return Handler{
		Take: func(f wire.Frame) {
			e.mu.Lock()
			e.took = append(e.took, f)
			e.mu.Unlock()
			select {
			case e.more <- struct{}{}:
			default:
			}
		},
		Bye:  func() { e.bye <- struct{}{} },
		Lost: func(err error) { e.lost <- err },
	}
}

func (e *end) frames() []wire.Frame {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.took)
}

// wait waits until n frames were taken.
func (e *end) wait(t *testing.T, n int) {
	t.Helper()
	late := time.After(within)
	for len(e.frames()) < n {
		select {
		case <-e.more:
		case err := <-e.lost:
			t.Fatalf("link was lost: %v", err)
		case <-late:
			t.Fatalf("%d frames after %v, want %d", len(e.frames()), within, n)
		}
	}
}

// check finds frames that are missing, doubled or out of order: the i-th frame must be numbered(i).
func (e *end) check(t *testing.T, n int) {
	t.Helper()
	took := e.frames()
	for i, f := range took {
		if want := numbered(i); f.Kind != want.Kind || f.Stream != want.Stream || string(f.Body) != string(want.Body) {
			t.Fatalf("frame %d is {%#x %d %.12x} of %d bytes, want stream %d", i, f.Kind, f.Stream, f.Body, len(f.Body), want.Stream)
		}
	}
	if len(took) != n {
		t.Fatalf("%d frames, want %d", len(took), n)
	}
}

// numbered is the i-th frame that a test sends. Sizes vary, so that frames do not begin where TLS records do.
func numbered(i int) wire.Frame {
	body := binary.LittleEndian.AppendUint64(nil, uint64(i))
	for len(body) < 8+i*37%900 {
		body = append(body, byte(i))
	}
	return wire.Frame{Kind: kindTest, Stream: uint32(i), Body: body}
}

// listen makes a listener whose links come out of the channel.
func listen(t *testing.T, cfg ListenConfig) (*Listener, chan *end) {
	t.Helper()
	accepted := make(chan *end, 100)
	if cfg.Accept == nil {
		cfg.Accept = func(l *Link) (Handler, error) {
			e := newEnd()
			e.link = l
			accepted <- e
			return e.handler(), nil
		}
	}
	if cfg.Report == nil {
		cfg.Report = func(line string) { t.Logf("listener: %s", line) }
	}
	if cfg.Addrs == nil {
		cfg.Addrs = loopback
	}
	ln, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ln.Close)
	return ln, accepted
}

// dial makes a link and starts it.
func dial(t *testing.T, cfg DialConfig) *end {
	t.Helper()
	l, err := Dial(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	e := newEnd()
	e.link = l
	l.Start(e.handler())
	t.Cleanup(func() { l.Abort(); <-l.Done() })
	return e
}

// receive takes a value out of a channel in which it must come.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(within):
		t.Fatalf("no %s after %v", what, within)
		panic("not reached")
	}
}

// pair is a link over TCP, with both of its ends.
func pair(t *testing.T, limits Limits, reach func(netip.AddrPort) netip.AddrPort) (dialed, accepted *end, ln *Listener) {
	t.Helper()
	secret := NewSecret()
	ln, from := listen(t, ListenConfig{Secret: secret, Self: Identity{Node: FrontEnd}, Limits: limits})
	addr := ln.Addrs()[0]
	if reach != nil {
		addr = reach(addr)
	}
	dialed = dial(t, DialConfig{Secret: secret, Self: Identity{Node: 1}, Peer: FrontEnd, Addrs: []netip.AddrPort{addr}, Limits: limits})
	accepted = receive(t, from, "link")
	t.Cleanup(func() { accepted.link.Abort(); <-accepted.link.Done() })
	return dialed, accepted, ln
}
