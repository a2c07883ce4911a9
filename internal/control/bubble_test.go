package control

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
)

// network is a listening socket and the connections to it, in memory, so that time is synctest's.
type network struct {
	incoming chan net.Conn
	backlog  chan net.Conn // connections that are made while the listener's process is stopped
	closed   chan struct{}
	once     sync.Once
	dials    atomic.Int32
	mute     [2]atomic.Bool // what is written to the listener's side (0) or to the dialer's (1) does not arrive
	rate     atomic.Int64   // how many bytes arrive in a second; 0 sets no limit
	answer   atomic.Bool    // nothing but the first answer of the listener's side arrives: a handshake, but no welcome

	mu     sync.Mutex
	refuse error
	open   []net.Conn
	gate   chan struct{} // nothing arrives until it is closed, and nothing is lost; nil: it does
}

// stop has the listener's process take nothing until a function is called.
func (n *network) stop() (resume func()) {
	gate := make(chan struct{})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gate = gate
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.gate = nil
		close(gate)
	}
}

// awaitGate returns when what is written may arrive.
func (n *network) awaitGate() {
	n.mu.Lock()
	gate := n.gate
	n.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func newNetwork() *network {
	return &network{incoming: make(chan net.Conn), backlog: make(chan net.Conn, 100), closed: make(chan struct{})}
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.incoming:
		return c, nil
	case c := <-n.backlog:
		n.awaitGate()
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

func (n *network) Addr() net.Addr { return &net.TCPAddr{} }

// connect is DialConfig.Connect.
func (n *network) connect(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
	n.dials.Add(1)
	n.mu.Lock()
	refuse, to := n.refuse, n.incoming
	if n.gate != nil {
		to = n.backlog
	}
	n.mu.Unlock()
	if refuse != nil {
		return nil, refuse
	}
	mine, near := net.Pipe()
	far, theirs := net.Pipe()
	n.mu.Lock()
	n.open = append(n.open, near, far)
	n.mu.Unlock()
	go n.relay(far, near, 0)
	go n.relay(near, far, 1)
	select {
	case to <- pipe{theirs}:
		return pipe{mine}, nil
	case <-n.closed:
	case <-ctx.Done():
	}
	near.Close()
	far.Close()
	return nil, errors.New("nobody accepts")
}

func (n *network) relay(to, from net.Conn, way int) {
	b := make([]byte, 4096)
	for i := 0; ; i++ {
		k, err := from.Read(b)
		if rate := n.rate.Load(); rate > 0 && k > 0 {
			time.Sleep(time.Duration(k) * time.Second / time.Duration(rate))
		}
		if k > 0 {
			n.awaitGate()
		}
		drop := n.mute[way].Load() || way == 1 && i > 0 && n.answer.Load()
		if k > 0 && !drop {
			if _, err := to.Write(b[:k]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

// fail makes the next connections fail with an error, or lets them be made if it is nil.
func (n *network) fail(refuse error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = refuse
}

// cut breaks all connections, as the end of a process does. The next ones fail with an error, if there is one.
func (n *network) cut(refuse error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = refuse
	for _, c := range n.open {
		c.Close()
	}
	n.open = nil
}

// pipe fails as a connection of TCP does: the peer's end is an error of Write, and none of what sets a deadline.
type pipe struct{ net.Conn }

func (p pipe) SetDeadline(t time.Time) error {
	p.Conn.SetDeadline(t)
	return nil
}

func (p pipe) SetReadDeadline(t time.Time) error {
	p.Conn.SetReadDeadline(t)
	return nil
}

func (p pipe) SetWriteDeadline(t time.Time) error {
	p.Conn.SetWriteDeadline(t)
	return nil
}

func (p pipe) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = syscall.EPIPE
	}
	return n, err
}

var anywhere = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:1")}

// bubble runs a test with a link over a network, in synctest's time. Handlers may be changed by change.
func bubble(t *testing.T, dialing DialConfig, change func(h *Handler), body func(t *testing.T, n *network, a, b *end)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		secret := NewSecret()
		accepted := make(chan *end, 1)
		ln, err := NewListener(ListenConfig{Secret: secret, Self: Identity{Node: 2}, Limits: dialing.Limits, Accept: func(l *Link) (Handler, error) {
			e := newEnd()
			e.link = l
			h := e.handler()
			if change != nil {
				change(&h)
			}
			accepted <- e
			return h, nil
		}}, []net.Listener{n})
		if err != nil {
			t.Fatal(err)
		}
		dialing.Secret, dialing.Addrs, dialing.Connect, dialing.Peer = secret, anywhere, n.connect, 2
		a := dial(t, dialing)
		b := <-accepted
		synctest.Wait()
		body(t, n, a, b)
		a.link.Abort()
		b.link.Abort()
		<-a.link.Done()
		<-b.link.Done()
		ln.Close()
		n.cut(nil)
	})
}

// between looks at how long something took.
func between(t *testing.T, what string, began time.Time, least, most time.Duration) {
	t.Helper()
	if d := time.Since(began); d < least || d > most {
		t.Errorf("%s after %v, want %v to %v", what, d, least, most)
	}
}

// An idle link stays on one connection.
func TestIdle(t *testing.T) {
	bubble(t, DialConfig{}, nil, func(t *testing.T, n *network, a, b *end) {
		time.Sleep(time.Hour)
		a.link.Send(numbered(0))
		b.link.Send(numbered(0))
		synctest.Wait()
		a.check(t, 1)
		b.check(t, 1)
		if d := n.dials.Load(); d != 1 {
			t.Errorf("%d connections, want 1", d)
		}
	})
}

// Both ends lose a link on which nothing comes, when the lease is over and not before.
func TestSilentLoss(t *testing.T) {
	const lease = 10 * time.Second
	bubble(t, DialConfig{}, nil, func(t *testing.T, n *network, a, b *end) {
		time.Sleep(time.Minute)
		n.mute[0].Store(true)
		n.mute[1].Store(true)
		began := time.Now()
		errs := []error{<-a.lost, <-b.lost}
		between(t, "lost", began, lease*7/8, lease)
		<-a.link.Done()
		<-b.link.Done()
		between(t, "the end", began, lease*7/8, lease)
		for i, want := range []string{"link to node 2", "peer has not connected again within"} {
			if !strings.Contains(errs[i].Error(), want) {
				t.Errorf("end %d: %v, want an error with %q", i, errs[i], want)
			}
		}
	})
}

// If bytes get lost in one direction only, both ends notice, and the link goes on when they come again. An end that
// gives up such a connection is not taken for a process that has ended.
func TestSilentOneWay(t *testing.T) {
	for i := range 4 {
		way, limits := i%2, Limits{}
		if i >= 2 {
			limits.Return = time.Second
		}
		bubble(t, DialConfig{Limits: limits}, nil, func(t *testing.T, n *network, a, b *end) {
			time.Sleep(time.Minute)
			n.mute[way].Store(true)
			a.link.Send(numbered(0))
			b.link.Send(numbered(0))
			time.Sleep(7 * time.Second)
			n.mute[way].Store(false)
			time.Sleep(10 * time.Second)
			a.link.Send(numbered(1))
			b.link.Send(numbered(1))
			synctest.Wait()
			a.check(t, 2)
			b.check(t, 2)
			if d := n.dials.Load(); d < 2 {
				t.Errorf("%d connections, want more", d)
			}
		})
	}
}

// A peer whose Take does not return stops neither Send nor the loss of the link.
func TestStalledPeer(t *testing.T) {
	var release chan struct{}
	block := func(h *Handler) {
		release = make(chan struct{}) // in synctest's time
		h.Take = func(wire.Frame) { <-release }
	}
	bubble(t, DialConfig{}, block, func(t *testing.T, _ *network, a, b *end) {
		began := time.Now()
		for range 100 {
			a.link.Send(wire.Frame{Kind: kindTest, Body: make([]byte, 100<<10)})
		}
		between(t, "sent", began, 0, 0)
		if err := <-a.lost; !strings.Contains(err.Error(), "write:") {
			t.Errorf("lost: %v, want the write that did not end", err)
		}
		between(t, "lost", began, 5*time.Second, 16*time.Second)
		close(release)
		<-b.link.Done()
	})
	bubble(t, DialConfig{}, block, func(t *testing.T, _ *network, a, b *end) {
		a.link.Send(numbered(0))
		synctest.Wait()
		began := time.Now()
		if err := b.link.Close(time.Second); err == nil || !strings.Contains(err.Error(), "does not return") {
			t.Errorf("close: %v, want an error", err)
		}
		between(t, "closed", began, time.Second, 3*time.Second)
		close(release)
	})
}

// A slow path is not a broken one: a link with more to carry than goes over it in the lease stays on its connection.
func TestSlowPath(t *testing.T) {
	bubble(t, DialConfig{}, nil, func(t *testing.T, n *network, a, b *end) {
		n.rate.Store(1 << 10) // a record of TLS takes 16 s
		began := time.Now()
		f := wire.Frame{Kind: kindTest, Body: make([]byte, 100<<10)}
		for range 3 {
			a.link.Send(f)
			b.link.Send(f)
		}
		for _, e := range []*end{a, b} {
			for len(e.frames()) < 3 {
				select {
				case <-e.more:
				case err := <-e.lost:
					t.Fatalf("lost after %v: %v", time.Since(began), err)
				}
			}
		}
		between(t, "arrived", began, 5*time.Minute, 6*time.Minute)
		if d := n.dials.Load(); d != 1 {
			t.Errorf("%d connections, want 1", d)
		}
		n.rate.Store(0)
		time.Sleep(4 * time.Second) // for what is on its way
	})
}

// High is called once until the peer has taken half, and too many bytes lose the link.
func TestWatermark(t *testing.T) {
	var high []int
	bubble(t, DialConfig{Limits: Limits{Watermark: 10000, MaxQueued: 20000}}, nil, func(t *testing.T, n *network, a, b *end) {
		a.link.mu.Lock()
		a.link.handler.High = func(bytes int) { high = append(high, bytes) }
		a.link.mu.Unlock()
		f := wire.Frame{Kind: kindTest, Body: make([]byte, 988)}
		for round := 1; round <= 2; round++ {
			n.mute[0].Store(true)
			for range 12 {
				a.link.Send(f)
			}
			if len(high) != round || high[round-1] != 10000 {
				t.Fatalf("round %d: High was called with %v, want 10000 once a round", round, high)
			}
			n.mute[0].Store(false)
			time.Sleep(15 * time.Second)
		}
		if frames := b.frames(); len(frames) != 24 {
			t.Errorf("%d frames, want 24", len(frames))
		}
		n.mute[0].Store(true)
		for range 21 {
			a.link.Send(f)
		}
		if err := <-a.lost; !strings.Contains(err.Error(), "21000 bytes wait for the peer, want at most 20000") {
			t.Errorf("lost: %v", err)
		}
		a.link.Send(f) // nothing happens
		if n, _ := a.link.Queued(); n != 21 {
			t.Errorf("%d frames are kept, want 21", n)
		}
	})
}

// A broken connection is dialed again for the time given; the end does not hang on it.
func TestRedial(t *testing.T) {
	bubble(t, DialConfig{Redial: 3 * time.Second}, nil, func(t *testing.T, n *network, a, _ *end) {
		began := time.Now()
		n.cut(errors.New("no route"))
		if err := <-a.lost; !strings.Contains(err.Error(), "192.0.2.1:1: connect: no route") {
			t.Errorf("lost: %v", err)
		}
		between(t, "lost", began, 3*time.Second, 3*time.Second)
	})
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	bubble(t, DialConfig{RefusedIsLost: true}, nil, func(t *testing.T, n *network, a, _ *end) {
		began := time.Now()
		n.cut(refused)
		if err := <-a.lost; !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("lost: %v", err)
		}
		between(t, "lost", began, 0, 0)
	})
	bubble(t, DialConfig{}, nil, func(t *testing.T, n *network, a, b *end) {
		n.cut(refused)
		a.link.Send(numbered(0))
		time.Sleep(4 * time.Second)
		n.cut(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		b.check(t, 1)
	})
}

// An end that has given the link up refuses it, and the other end loses it at once.
func TestAbort(t *testing.T) {
	bubble(t, DialConfig{}, nil, func(t *testing.T, _ *network, a, b *end) {
		began := time.Now()
		b.link.Abort()
		if err := <-a.lost; !strings.Contains(err.Error(), "refuses the link: the link has ended") {
			t.Errorf("lost: %v", err)
		}
		between(t, "lost", began, 0, time.Second)
		<-b.link.Done()
		select {
		case err := <-b.lost:
			t.Errorf("the end that gave up: %v", err)
		default:
		}
	})
}

// Close gives up after its time, and says what the peer may not have.
func TestCloseLate(t *testing.T) {
	bubble(t, DialConfig{}, nil, func(t *testing.T, n *network, a, b *end) {
		n.mute[0].Store(true)
		a.link.Send(numbered(0))
		a.link.Send(numbered(1))
		began := time.Now()
		if err := a.link.Close(3 * time.Second); err == nil || !strings.Contains(err.Error(), "2 frames were not acknowledged") {
			t.Errorf("close: %v", err)
		}
		between(t, "closed", began, 3*time.Second, 3*time.Second)
		if err := <-b.lost; err == nil {
			t.Error("lost without an error")
		}
		select {
		case err := <-a.lost:
			t.Errorf("the end that was closed: %v", err)
		default:
		}
	})
}

// The word that a Bye was taken gets lost with its connection. A new connection brings it, or the listener's memory
// does after the link has ended.
func TestByeOverLoss(t *testing.T) {
	for _, late := range []bool{false, true} {
		for closer := range 2 {
			if late && closer == 1 {
				continue // the dialing end remembers nothing: the other one's Close has an error then
			}
			bubble(t, DialConfig{}, nil, func(t *testing.T, n *network, a, b *end) {
				ends := []*end{a, b}
				from, to := ends[closer], ends[1-closer]
				n.mute[1-closer].Store(true)
				from.link.Send(numbered(0))
				closed := make(chan error)
				go func() { closed <- from.link.Close(time.Minute) }()
				<-to.bye
				synctest.Wait()
				if late {
					n.cut(errors.New("no route"))
					<-to.link.Done()
				}
				n.mute[1-closer].Store(false)
				n.cut(nil)
				if err := <-closed; err != nil {
					t.Errorf("late %v, end %d: close: %v", late, closer, err)
				}
				<-to.link.Done()
				to.check(t, 1)
				for i, e := range ends {
					select {
					case err := <-e.lost:
						t.Errorf("end %d: lost: %v", i, err)
					default:
					}
				}
			})
		}
	}
}

// Both ends close at the same time.
func TestCloseBoth(t *testing.T) {
	bubble(t, DialConfig{}, nil, func(t *testing.T, _ *network, a, b *end) {
		began := time.Now()
		errs := make(chan error)
		for _, e := range []*end{a, b, a} {
			go func() { errs <- e.link.Close(time.Second) }()
		}
		for range 3 {
			if err := <-errs; err != nil {
				t.Errorf("close: %v", err)
			}
		}
		between(t, "closed", began, 0, 0)
	})
}

// A connection to a second address that comes too late ends its handshake. So the listener does not take the process for
// a stranger.
func TestLateConnectionIsNoStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, quick := newNetwork(), newNetwork()
		slow.rate.Store(3000) // a handshake takes more than dialStagger
		secret := NewSecret()
		accepted := make(chan *Link, 1)
		ln, err := NewListener(ListenConfig{
			Secret: secret,
			Accept: func(l *Link) (Handler, error) {
				accepted <- l
				return newEnd().handler(), nil
			},
			Report: func(line string) { t.Errorf("listener: %s", line) },
		}, []net.Listener{slow, quick})
		if err != nil {
			t.Fatal(err)
		}
		addrs := []netip.AddrPort{anywhere[0], netip.MustParseAddrPort("192.0.2.2:1")}
		a := dial(t, DialConfig{Secret: secret, Addrs: addrs, Peer: AnyNode, Connect: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			if addr == addrs[0] {
				return slow.connect(ctx, addr)
			}
			return quick.connect(ctx, addr)
		}})
		if s, q := slow.dials.Load(), quick.dials.Load(); s != 1 || q != 1 {
			t.Errorf("%d and %d connections, want one to each address", s, q)
		}
		time.Sleep(10 * time.Second) // the handshake of the first one ends
		for _, l := range []*Link{a.link, <-accepted} {
			l.Abort()
			<-l.Done()
		}
		ln.Close()
		slow.cut(nil)
		quick.cut(nil)
	})
}
