package control

import (
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// proxy carries connections to an address, and cuts each after a few bytes, as often as it is told to.
type proxy struct {
	on   net.Listener
	to   string
	addr netip.AddrPort

	mu    sync.Mutex
	rand  *rand.Rand
	cuts  int // how many connections it still cuts
	mute  int // how many of these stay open, but carry nothing any more
	open  map[net.Conn]bool
	done  chan struct{} // closed when cuts is 0
	ended bool
	tasks sync.WaitGroup
}

func newProxy(t *testing.T, to netip.AddrPort, cuts, mute int) *proxy {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed of the proxy: %d", seed)
	on, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, ok := on.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("address is %v", on.Addr())
	}
	p := &proxy{on: on, to: to.String(), addr: addr.AddrPort(), rand: rand.New(rand.NewPCG(seed, 1)), cuts: cuts, mute: mute, open: map[net.Conn]bool{}, done: make(chan struct{})}
	p.tasks.Go(p.run)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) close() {
	p.on.Close()
	p.mu.Lock()
	p.ended = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.tasks.Wait()
}

func (p *proxy) run() {
	for {
		c, err := p.on.Accept()
		if err != nil {
			return
		}
		p.tasks.Go(func() { p.carry(c) })
	}
}

// keep remembers a connection so that close ends it.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		c.Close()
		return false
	}
	p.open[c] = true
	return true
}

func (p *proxy) carry(a net.Conn) {
	if !p.keep(a) {
		return
	}
	b, err := net.Dial("tcp4", p.to)
	if err != nil || !p.keep(b) {
		a.Close()
		return
	}
	p.mu.Lock()
	left := [2]int{-1, -1} // how many bytes go to a and b; -1 is no limit
	var muted, reset bool
	cut := p.cuts > 0
	if cut {
		least := 0
		p.cuts--
		if muted = p.cuts < p.mute; muted {
			least = 10000 // after the handshakes: without one the lease may pass
		}
		left[p.rand.IntN(2)] = least + p.rand.IntN(30000)
		reset = p.rand.IntN(2) == 0
		if p.cuts == 0 {
			close(p.done)
		}
	}
	p.mu.Unlock()
	var once sync.Once
	end := func(limit bool) {
		once.Do(func() {
			for _, c := range []net.Conn{a, b} {
				if t, ok := c.(*net.TCPConn); ok && limit && reset {
					t.SetLinger(0)
				}
				c.Close()
			}
		})
	}
	var both sync.WaitGroup
	pump := func(to, from net.Conn, left int) {
		if left < 0 {
			io.Copy(to, from)
		} else if io.CopyN(to, from, int64(left)); muted {
			io.Copy(io.Discard, from) // one direction is silent: nobody is told
		} else {
			end(true)
			return
		}
		end(false)
	}
	both.Go(func() { pump(a, b, left[0]) })
	both.Go(func() { pump(b, a, left[1]) })
	both.Wait()
	p.mu.Lock()
	delete(p.open, a)
	delete(p.open, b)
	p.mu.Unlock()
}

// pumpUntil sends frames until a channel is closed, with at most so many bytes that are not acknowledged. It returns
// how many it has sent.
func pumpUntil(e *end, stop <-chan struct{}) (n int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		for _, bytes := e.link.Queued(); bytes < 100<<10; _, bytes = e.link.Queued() {
			e.link.Send(numbered(n))
			n++
			select {
			case <-stop:
				return n
			default:
			}
		}
		select {
		case <-stop:
			return n
		case err := <-e.lost:
			e.lost <- err
			return n
		case <-tick.C:
		}
	}
}

// cutLink sends frames in both directions over connections that are cut at random bytes, closes the link, and looks
// for frames that are missing or doubled.
func cutLink(t *testing.T, limits Limits, cuts, mute int) {
	t.Helper()
	var p *proxy
	a, b, _ := pair(t, limits, func(to netip.AddrPort) netip.AddrPort {
		p = newProxy(t, to, cuts, mute)
		return p.addr
	})
	sent := make(chan int, 1)
	go func() { sent <- pumpUntil(b, p.done) }()
	n := pumpUntil(a, p.done)
	m := receive(t, sent, "end of sending")
	for _, e := range []*end{a, b} {
		select {
		case err := <-e.lost:
			t.Fatalf("link was lost: %v", err)
		default:
		}
	}
	a.wait(t, m)
	b.wait(t, n)
	if err := b.link.Close(within); err != nil {
		t.Errorf("close: %v", err)
	}
	receive(t, a.bye, "bye")
	receive(t, a.link.Done(), "end of the dialed link")
	a.check(t, m)
	b.check(t, n)
	t.Logf("%d and %d frames", n, m)
}

// 200 connections are cut at random bytes, in their handshakes as well, by a reset or by an end: no frame is lost or
// comes twice.
func TestCuts(t *testing.T) { cutLink(t, Limits{}, 200, 0) }

// Connections that carry nothing any more, but stay open, are noticed.
func TestSilentCuts(t *testing.T) { cutLink(t, Limits{Lease: 2 * time.Second}, 6, 4) }
