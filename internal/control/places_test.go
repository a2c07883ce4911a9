package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// conn is a connection in memory that comes from an address.
type conn struct {
	net.Conn
	from netip.Addr
}

func (c conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.from, 1)) }

// filler connects to a listener in memory.
type filler struct {
	n     *network
	conns []net.Conn
}

// add connects from an address, and may say something.
func (f *filler) add(from int, speak bool) net.Conn {
	c, theirs := net.Pipe()
	f.n.incoming <- conn{theirs, netip.AddrFrom4([4]byte{192, 0, 2, byte(from)})}
	f.conns = append(f.conns, c)
	synctest.Wait()
	if speak {
		c.Write([]byte{22})
	}
	return c
}

// close closes all connections, which must have ended.
func (f *filler) close(t *testing.T) {
	for _, c := range f.conns {
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Error(err)
		}
		c.Close()
	}
}

// A connection for which there is no place takes that of another one, is closed, or waits.
func TestPlaces(t *testing.T) {
	const last = maxPending // the index of the connection for which there is no place
	some := fmt.Sprintf("closed, as %d connections were in their handshake, ", maxPending)
	other := fmt.Sprintf("closed for another one, as %d connections were in their handshake", maxPending)
	for what, c := range map[string]struct {
		from  func(i int) int // the address of the i-th connection
		speak func(i int) bool
		goes  int // the connection that ends
		after time.Duration
		line  string
	}{
		"silent crowd of one address": {
			func(int) int { return 1 }, func(i int) bool { return i < 3 }, 3, 0, other,
		},
		"crowd of one address": {
			func(int) int { return 1 }, func(int) bool { return true }, last, 0, some + "64 of them from there",
		},
		"crowd of another address": {
			func(i int) int { return 1 + i/last }, func(int) bool { return true }, 0, 0, other,
		},
		"crowd besides small ones": {
			func(i int) int { return max(1, 10-i) }, func(i int) bool { return i >= 9 }, last, 0, some + "55 of them from there",
		},
		"two crowds of the same size": {
			func(i int) int { return i % 2 }, func(i int) bool { return i != 5 }, 5, 0, other,
		},
		"many addresses": {
			func(i int) int { return i % 8 }, func(int) bool { return true }, 0, grace, other,
		},
		"many addresses, some silent": {
			func(i int) int { return i % 8 }, func(i int) bool { return i != 12 && i != 13 }, 12, silentGrace, other,
		},
		"more addresses": {
			func(i int) int { return i }, func(int) bool { return true }, 0, grace, other,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := filler{n: newNetwork()}
			var r report
			ln, err := NewListener(ListenConfig{Secret: NewSecret(), Report: r.add}, []net.Listener{f.n})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for i := range maxPending {
				f.add(c.from(i), c.speak(i))
			}
			f.add(c.from(last), false)
			if _, err := f.conns[c.goes].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%s: connection %d: %v, want its end", what, c.goes, err)
			}
			between(t, what+": closed", began, c.after, c.after+silentGrace/4)
			synctest.Wait()
			if len(ln.pending) != maxPending {
				t.Errorf("%s: %d connections are in their handshake, want %d", what, len(ln.pending), maxPending)
			}
			if lines := r.all(); len(lines) != 1 || !strings.HasSuffix(lines[0], c.line) {
				t.Errorf("%s: lines %q, want one with %q", what, lines, c.line)
			}
			ln.Close()
			if lines := r.all(); len(lines) != 1 {
				t.Errorf("%s: lines %q after the close of the listener", what, lines)
			}
			f.close(t)
		})
	}
}

// Close ends a connection that waits for its place.
func TestCloseWhileFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := filler{n: newNetwork()}
		ln, err := NewListener(ListenConfig{Secret: NewSecret(), Report: func(line string) { t.Errorf("line %q", line) }}, []net.Listener{f.n})
		if err != nil {
			t.Fatal(err)
		}
		for i := range maxPending + 1 {
			f.add(i, false)
		}
		ln.Close()
		f.close(t)
	})
}

// Two thousand strangers of one address, who begin a handshake and connect again as soon as they are closed, do not keep
// a process of another address out. Its connection stands in one queue with theirs.
func TestStrangersWhoComeBack(t *testing.T) {
	const strangers = 2000
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		secret := NewSecret()
		ln, err := NewListener(ListenConfig{Secret: secret, Self: Identity{Node: 2}, Accept: func(*Link) (Handler, error) {
			return Handler{}, nil
		}}, []net.Listener{n})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range strangers {
			all.Go(func() {
				for ctx.Err() == nil {
					c, theirs := net.Pipe()
					select {
					case n.incoming <- conn{theirs, netip.MustParseAddr("192.0.2.66")}:
						c.Write([]byte{22})
						io.Copy(io.Discard, c)
						time.Sleep(10 * time.Millisecond)
					case <-ctx.Done():
					}
					c.Close()
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		l, err := Dial(t.Context(), DialConfig{Secret: secret, Peer: 2, Addrs: anywhere, Connect: n.connect})
		if err != nil {
			t.Errorf("dial beside strangers: %v", err)
		} else if err := l.Close(time.Second); err != nil {
			t.Errorf("close: %v", err)
		}
		between(t, "dialed and closed", began, 0, time.Second)
		stop()
		ln.Close()
		n.cut(nil)
		all.Wait()
	})
}

// The places are counted by the peers' addresses, whatever their ports.
func TestPlacesByAddress(t *testing.T) {
	secret := NewSecret()
	ln, from := listen(t, ListenConfig{Secret: secret, Handshake: within})
	var far net.Dialer
	far.LocalAddr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.2:0"))
	for range maxPending {
		c, err := far.Dial("tcp4", ln.Addrs()[0].String())
		if err != nil {
			t.Skipf("no second address of loopback: %v", err)
		}
		t.Cleanup(func() { c.Close() })
	}
	a := dial(t, DialConfig{Secret: secret, Peer: AnyNode, Addrs: ln.Addrs()})
	b := receive(t, from, "link")
	ln.mu.Lock()
	if len(ln.pending) != maxPending-1 {
		t.Errorf("%d connections are in their handshake, want %d and none of the link", len(ln.pending), maxPending-1)
	}
	for _, m := range ln.pending {
		if want := netip.MustParseAddr("127.0.0.2"); m.from != want {
			t.Errorf("a connection in its handshake comes from %v, want %v", m.from, want)
		}
	}
	ln.mu.Unlock()
	a.link.Abort()
	b.link.Abort()
	<-b.link.Done()
}
