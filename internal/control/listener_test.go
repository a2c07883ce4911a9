package control

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
)

// report collects lines.
type report struct {
	mu    sync.Mutex
	lines []string
}

func (r *report) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *report) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// stranger says something to a listener over TCP, and waits until it is closed.
func stranger(t *testing.T, to netip.AddrPort, say func(c net.Conn)) time.Duration {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	c.SetDeadline(began.Add(within))
	say(c)
	_, err = io.Copy(io.Discard, c)
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		t.Errorf("connection is open after %v", within)
	}
	return time.Since(began)
}

// Strangers get one line each, and nothing else.
func TestStrangers(t *testing.T) {
	secret := NewSecret()
	good, err := secret.tlsConfig()
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewSecret().tlsConfig()
	if err != nil {
		t.Fatal(err)
	}
	other.VerifyConnection = nil // does not mind who answers
	withTLS := func(cfg *tls.Config, say func(c *tls.Conn)) func(c net.Conn) {
		return func(c net.Conn) {
			s := tls.Client(c, cfg)
			if err := s.Handshake(); err == nil {
				say(s)
			}
			io.Copy(io.Discard, s)
		}
	}
	frame := func(f wire.Frame) func(c *tls.Conn) { return func(c *tls.Conn) { c.Write(f.Append(nil)) } }
	for _, c := range []struct {
		what string
		want string
		say  func(c net.Conn)
	}{
		{"nothing", "TLS handshake", func(net.Conn) {}},
		{"half a connection", "TLS handshake: EOF", func(c net.Conn) { c.(*net.TCPConn).CloseWrite() }}, //nolint:forcetypeassert // it is one
		{"HTTP", "first record does not look like a TLS handshake", func(c net.Conn) { io.WriteString(c, "GET / HTTP/1.0\r\n\r\n") }},
		{"zeros", "TLS handshake", func(c net.Conn) { c.Write(make([]byte, 1<<20)) }},
		{"a long record", "too many bytes before the end of the handshake", func(c net.Conn) {
			c.Write(append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc}, make([]byte, 1<<14)...))
		}},
		{"another secret", "peer has another secret", withTLS(other, func(*tls.Conn) {})},
		{"no certificate", "TLS handshake", withTLS(&tls.Config{InsecureSkipVerify: true}, func(*tls.Conn) {})},
		{"an old version", "TLS handshake", withTLS(&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}, func(*tls.Conn) {})},
		{"no hello", "read hello: ", withTLS(good, func(*tls.Conn) {})},
		{"a long hello", "has 1025 bytes, want at most 1024", withTLS(good, frame(wire.Frame{Kind: wire.KindHello, Body: make([]byte, 1025)}))},
		{"another frame", "frame has kind 0x102 and stream 0, want kind 0x100", withTLS(good, frame(wire.Frame{Kind: wire.KindAck, Body: make([]byte, 8)}))},
		{"a bad hello", "read hello has protocol version 0, want 1", withTLS(good, frame(wire.Frame{Kind: wire.KindHello, Body: make([]byte, 100)}))},
		{"a link that is not known", "refused: the link is not known", withTLS(good, frame((&hello{To: AnyNode, Resume: true, Attempt: 3}).frame()))},
	} {
		var r report
		first := make(chan struct{}, 10)
		ln, accepted := listen(t, ListenConfig{Secret: secret, Handshake: 500 * time.Millisecond, Report: func(line string) {
			r.add(line)
			first <- struct{}{}
		}})
		took := stranger(t, ln.Addrs()[0], c.say)
		receive(t, first, "line about "+c.what)
		ln.Close()
		if lines := r.all(); len(lines) != 1 || !strings.Contains(lines[0], c.want) || !strings.HasPrefix(lines[0], "connection from 127.0.0.1:") {
			t.Errorf("%s: lines %q, want one with %q", c.what, lines, c.want)
		}
		if took > within {
			t.Errorf("%s: closed after %v", c.what, took)
		}
		if len(accepted) != 0 {
			t.Errorf("%s: is accepted", c.what)
		}
	}
}

// Silent and slow connections have 2 s, whatever they say in small pieces.
func TestSlowStrangers(t *testing.T) {
	for _, every := range []time.Duration{time.Hour, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			ln, err := NewListener(ListenConfig{Secret: NewSecret()}, []net.Listener{n})
			if err != nil {
				t.Fatal(err)
			}
			c, theirs := net.Pipe()
			n.incoming <- theirs
			began := time.Now()
			go func() {
				for _, b := range append([]byte{22, 3, 1, 1, 0, 1, 0, 0, 252}, make([]byte, 252)...) { // the beginning of a good one
					time.Sleep(every)
					if _, err := c.Write([]byte{b}); err != nil {
						return
					}
				}
			}()
			io.Copy(io.Discard, c)
			between(t, "closed", began, 2*time.Second, 2*time.Second)
			ln.Close()
			c.Close()
			time.Sleep(time.Hour)
		})
	}
}

// A thousand strangers at once disturb neither a link nor a process that wants one, and make few lines.
func TestThousandStrangers(t *testing.T) {
	const n, frames = 1000, 200
	secret := NewSecret()
	var r report
	ln, from := listen(t, ListenConfig{Secret: secret, Self: Identity{Node: FrontEnd}, Report: r.add})
	addr := ln.Addrs()[0]
	join := DialConfig{Secret: secret, Self: Identity{Node: 1}, Peer: FrontEnd, Addrs: []netip.AddrPort{addr}}
	a := dial(t, join)
	b := receive(t, from, "link")
	t.Cleanup(func() { b.link.Abort(); <-b.link.Done() })
	random := bytes.Repeat([]byte{22, 3, 1, 2}, 1000)
	var all sync.WaitGroup
	open := make(chan struct{}, n)
	for i := range n {
		all.Go(func() {
			c, err := net.DialTimeout("tcp", addr.String(), within)
			open <- struct{}{}
			if err != nil {
				t.Errorf("stranger %d: %v", i, err)
				return
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(within))
			switch i % 4 {
			case 0: // says nothing
			case 1:
				c.Write(random)
			case 2:
				c.Write(random[:1])
			case 3:
				c.(*net.TCPConn).SetLinger(0) //nolint:forcetypeassert // it is one
				return
			}
			if _, err := io.Copy(io.Discard, c); errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("stranger %d is not closed", i)
			}
		})
	}
	late := dial(t, join)
	d := receive(t, from, "link beside strangers")
	t.Cleanup(func() { d.link.Abort(); <-d.link.Done() })
	for i := range frames {
		for _, e := range []*end{a, b, late, d} {
			e.link.Send(numbered(i))
		}
	}
	for range n {
		<-open
	}
	ln.mu.Lock()
	if k := len(ln.pending); k > maxPending {
		t.Errorf("%d connections are in their handshake, want at most %d", k, maxPending)
	}
	ln.mu.Unlock()
	all.Wait()
	for _, e := range []*end{a, b, late, d} {
		e.wait(t, frames)
		e.check(t, frames)
	}
	ln.Close()
	if k := len(r.all()); k < 2 || k > 40 { // 10 in 10 s
		t.Errorf("%d lines, want some", k)
	}
}

// Many processes of the job may come at the same time.
func TestManyAtOnce(t *testing.T) {
	n := 150
	if testing.Short() {
		n = 80
	}
	secret := NewSecret()
	var r report
	ln, _ := listen(t, ListenConfig{Secret: secret, Report: r.add, Accept: func(*Link) (Handler, error) { return Handler{}, nil }})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			l, err := Dial(context.Background(), DialConfig{Secret: secret, Self: Identity{Node: int32(i)}, Peer: AnyNode, Addrs: ln.Addrs()})
			if err != nil {
				t.Errorf("node %d: %v", i, err)
				return
			}
			if err := l.Close(within); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		})
	}
	all.Wait()
	ln.Close()
	for _, line := range r.all() { // this machine is as slow as all of them together
		t.Logf("listener: %s", line)
	}
}

// failing is a socket whose Accept fails a few times.
type failing struct {
	*network
	left int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.left--; f.left >= 0 {
		return nil, syscall.EMFILE
	}
	return f.network.Accept()
}

// A listener that runs out of files goes on when there are some again.
func TestAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		secret := NewSecret()
		var r report
		ln, err := NewListener(ListenConfig{Secret: secret, Self: Identity{Node: 4}, Report: r.add, Accept: func(*Link) (Handler, error) {
			return Handler{}, nil
		}}, []net.Listener{&failing{n, 3}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := Dial(t.Context(), DialConfig{Secret: secret, Peer: 4, Addrs: anywhere, Connect: n.connect})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(time.Second); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if lines := r.all(); len(lines) != 3 || !strings.Contains(lines[0], "too many open files") {
			t.Errorf("lines %q", lines)
		}
		ln.Close()
		n.cut(nil)
	})
}

// Whom the listener does not want gets the reason at once.
func TestRefusals(t *testing.T) {
	secret := NewSecret()
	self := Identity{Job: [16]byte{1}, Build: "b1", Node: 2}
	var r report
	ln, accepted := listen(t, ListenConfig{Secret: secret, Self: self, Report: r.add, Accept: func(l *Link) (Handler, error) {
		return Handler{}, fmt.Errorf("node %d is there already", l.Peer().Node)
	}})
	for want, c := range map[string]struct {
		self Identity
		peer int32
	}{
		`build "b1" here and "b2" there`:               {Identity{Job: self.Job, Build: "b2"}, 2},
		"this is job 01000000000000000000000000000000": {Identity{Job: [16]byte{2}, Build: "b1"}, AnyNode},
		"node 7 is there already":                      {Identity{Job: self.Job, Build: "b1", Node: 7}, 2},
		"node 8 is there already":                      {Identity{Build: "b1", Node: 8}, AnyNode},
	} {
		began := time.Now()
		_, err := Dial(t.Context(), DialConfig{Secret: secret, Self: c.self, Peer: c.peer, Addrs: ln.Addrs()})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "refuses the link") {
			t.Errorf("%v, want an error with %q", err, want)
		}
		if d := time.Since(began); d > within {
			t.Errorf("refused after %v", d)
		}
	}
	if len(accepted) != 0 {
		t.Error("a link was accepted")
	}
}
