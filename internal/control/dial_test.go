package control

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
)

// The error of Dial has each address and its reason, and comes when the time is over.
func TestDialErrors(t *testing.T) {
	secret := NewSecret()
	ln, _ := listen(t, ListenConfig{Secret: secret, Self: Identity{Node: 3}})
	garbage, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := garbage.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"))
			c.Close()
		}
	}()
	defer garbage.Close()
	closed := netip.MustParseAddrPort("127.0.0.1:1") // no service has this port any more
	at := func(l net.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }
	other, _ := listen(t, ListenConfig{Secret: NewSecret()})
	_, err = Dial(t.Context(), DialConfig{
		Secret: secret, Peer: 5, Within: 2 * time.Second,
		Addrs: []netip.AddrPort{closed, at(garbage), ln.Addrs()[0], other.Addrs()[0]},
	})
	for _, want := range []string{
		"dial: no link after ",
		closed.String() + ": connect: connect: connection refused; ",
		at(garbage).String() + ": TLS handshake: ",
		ln.Addrs()[0].String() + ": node 3 answers, want node 5; ",
		other.Addrs()[0].String() + ": TLS handshake: peer has another secret: it is not of this job",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	if _, err := Dial(t.Context(), DialConfig{}); err == nil || !strings.Contains(err.Error(), "there is no address") {
		t.Errorf("no address: %v", err)
	}
	began := time.Now()
	if _, err := Dial(t.Context(), DialConfig{Secret: secret, Addrs: other.Addrs()}); !errors.Is(err, errStranger) {
		t.Errorf("another secret: %v", err)
	}
	if d := time.Since(began); d > within {
		t.Errorf("another secret: known after %v", d)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user wants no more")
	cancel(why)
	if _, err := Dial(ctx, DialConfig{Secret: secret, Addrs: other.Addrs()}); !errors.Is(err, why) {
		t.Errorf("canceled: %v", err)
	}
}

// Of several addresses, the one is taken at which the node is; others that answer, hang or refuse cost little time.
func TestDialAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := NewSecret()
		nets := map[string]*network{}
		var lns []*Listener
		for node, addr := range map[int32]string{1: "192.0.2.1:1", 2: "192.0.2.2:1"} {
			n := newNetwork()
			ln, err := NewListener(ListenConfig{Secret: secret, Self: Identity{Node: node}, Accept: func(*Link) (Handler, error) { return Handler{}, nil }}, []net.Listener{n})
			if err != nil {
				t.Fatal(err)
			}
			nets[addr] = n
			lns = append(lns, ln)
		}
		hangs := netip.MustParseAddrPort("192.0.2.9:1")
		connect := func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			if n := nets[addr.String()]; n != nil {
				return n.connect(ctx, addr)
			}
			if addr == hangs {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, errors.New("no route")
		}
		began := time.Now()
		l, err := Dial(t.Context(), DialConfig{
			Secret: secret, Self: Identity{Node: 7}, Peer: 2, Connect: connect,
			Addrs: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.8:1"), netip.MustParseAddrPort("192.0.2.1:1"), hangs, netip.MustParseAddrPort("192.0.2.2:1")},
		})
		if err != nil {
			t.Fatal(err)
		}
		between(t, "dialed", began, 0, 2*dialStagger)
		if l.Peer().Node != 2 {
			t.Errorf("peer is node %d, want 2", l.Peer().Node)
		}
		if err := l.Close(time.Second); err != nil {
			t.Error(err)
		}
		began = time.Now()
		_, err = Dial(t.Context(), DialConfig{Secret: secret, Peer: 2, Connect: connect, Addrs: []netip.AddrPort{hangs}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an address that hangs: %v", err)
		}
		between(t, "failed", began, 30*time.Second, 30*time.Second)
		time.Sleep(time.Minute)
		for _, ln := range lns {
			ln.Close()
		}
		for _, n := range nets {
			n.cut(nil)
		}
	})
}

// A process that listens a little later is found, unless one that does not listen counts as dead.
func TestDialBeforeListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.refuse = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		secret := NewSecret()
		ln, err := NewListener(ListenConfig{Secret: secret, Accept: func(*Link) (Handler, error) { return Handler{}, nil }}, []net.Listener{n})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := Dial(t.Context(), DialConfig{Secret: secret, Peer: AnyNode, Addrs: anywhere, Connect: n.connect, RefusedIsLost: true}); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a peer that would listen if it lived: %v", err)
		}
		between(t, "refused", began, 0, 0)
		time.AfterFunc(3*time.Second, func() { n.cut(nil) })
		l, err := Dial(t.Context(), DialConfig{Secret: secret, Peer: AnyNode, Addrs: anywhere, Connect: n.connect})
		if err != nil {
			t.Fatal(err)
		}
		between(t, "dialed", began, 3*time.Second, 3*time.Second+dialMaxPause)
		if err := l.Close(within); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		ln.Close()
		n.cut(nil)
	})
}

// What the caller does wrong is a panic that says so, and ends before the start are no trouble.
func TestLinkMisuse(t *testing.T) {
	a, _, _ := pair(t, Limits{}, nil)
	for want, f := range map[string]func(){
		"control: link started twice":                                          func() { a.link.Start(Handler{}) },
		"control: frame of kind 0xf00 has 1048577 bytes, want at most 1048576": func() { a.link.Send(wire.Frame{Kind: kindTest, Body: make([]byte, wire.MaxBody+1)}) },
		"control: frame has kind 0x103, want none of the links' own":           func() { a.link.Send(wire.Frame{Kind: wire.KindBye}) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic is %v, want %q", got, want)
				}
			}()
			f()
		}()
	}
}

// A link may be sent to, closed or aborted before it is started, at both ends.
func TestBeforeStart(t *testing.T) {
	secret := NewSecret()
	dialed := func(ln *Listener) *Link {
		t.Helper()
		l, err := Dial(t.Context(), DialConfig{Secret: secret, Peer: AnyNode, Addrs: ln.Addrs()})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ln, accepted := listen(t, ListenConfig{Secret: secret})
	l := dialed(ln)
	l.Send(numbered(0))
	if err := l.Close(within); err != nil {
		t.Error(err)
	}
	b := receive(t, accepted, "link")
	<-b.link.Done()
	b.check(t, 1)

	l = dialed(ln)
	l.Abort()
	l.Start(Handler{})
	<-l.Done()
	b = receive(t, accepted, "link")
	b.link.Abort()
	<-b.link.Done()

	for what, f := range map[string]func(l *Link){
		"sends":  func(l *Link) { l.Send(numbered(0)) },
		"closes": func(l *Link) { l.Send(numbered(0)); go l.Close(within) },
	} {
		ln, _ := listen(t, ListenConfig{Secret: secret, Accept: func(l *Link) (Handler, error) {
			f(l)
			return Handler{}, nil
		}})
		took := newEnd()
		l := dialed(ln)
		l.Start(took.handler())
		took.wait(t, 1)
		if err := l.Close(within); err != nil {
			t.Errorf("%s: close: %v", what, err)
		}
	}
	ln, _ = listen(t, ListenConfig{Secret: secret, Accept: func(l *Link) (Handler, error) {
		l.Abort()
		return Handler{}, nil
	}})
	if l, err := Dial(t.Context(), DialConfig{Secret: secret, Peer: AnyNode, Addrs: ln.Addrs(), Within: time.Second}); err == nil {
		l.Abort()
		t.Error("a link that Accept has aborted is dialed")
	}
}
