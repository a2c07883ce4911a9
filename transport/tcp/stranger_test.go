package tcp

import (
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/transport"
)

// polled is a transport that a goroutine polls.
type polled struct {
	*Transport
	mu     sync.Mutex
	events []transport.Event
	most   int // greatest number of connections in their handshakes
	end    func()
}

// poll polls a transport until the end of the test or stop.
func poll(t *testing.T, tr *Transport) *polled {
	t.Helper()
	p := &polled{Transport: tr}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			events, err := tr.Poll(nil, -1)
			if err != nil {
				t.Error(err)
				return
			}
			p.mu.Lock()
			p.events = append(p.events, events...)
			p.most = max(p.most, tr.shaking.strangers())
			p.mu.Unlock()
		}
	}()
	p.end = sync.OnceFunc(func() {
		close(stop)
		tr.Wake()
		<-done
	})
	t.Cleanup(p.end)
	return p
}

// await polls a transport in this goroutine until an event of a kind comes.
func await(t *testing.T, tr *Transport, kind transport.Kind) transport.Event {
	t.Helper()
	begin := time.Now()
	for time.Since(begin) < 20*time.Second {
		events, err := tr.Poll(nil, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Kind == kind {
				return e
			}
		}
	}
	t.Fatalf("no event %q in 20 s", kind)
	return transport.Event{}
}

// refused posts to node 1 and returns why it is refused.
func refused(t *testing.T, tr *Transport, want string) {
	t.Helper()
	if err := tr.Post(1, transport.Out, 1, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if e := await(t, tr, transport.Refused); !strings.Contains(e.Err.Error(), want) {
		t.Errorf("error %q, want it to contain %q", e.Err, want)
	}
}

func connect(t *testing.T, tr *Transport) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", tr.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// closes fails unless the peer closes a connection. It returns the bytes that came before.
func closes(t *testing.T, c net.Conn) []byte {
	t.Helper()
	b, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is not closed")
	}
	return b
}

// Dialers that are not of the job, or not the right ones, are told so.
func TestDialersTurnedAway(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"secret", func(c *Config) { c.Secret[31]++ }, errListener.Error()},
		{"job", func(c *Config) { c.Job[0]++ }, errListener.Error()},
		{"incarnation", func(c *Config) { c.Incarnation++ }, codeIncarnation.String()},
		{"unknown", func(c *Config) { c.Self, c.Nodes = 7, 8 }, codeUnknown.String()},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := makeNodes(t, 2, nil)
			b := poll(t, nodes[1])
			cfg := nodeConfig(0, 2)
			cfg.Listen = nil
			c.change(&cfg)
			a, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if err := a.SetPeer(1, nodes[1].cfg.Incarnation, nodes[1].Addrs()); err != nil {
				t.Fatal(err)
			}
			refused(t, a, c.want)
			b.end()
			if n, err := b.Strangers(); n != 1 || err == nil || len(b.events) > 0 {
				t.Errorf("%d strangers (%v) and events %v at the listener, want 1 and none", n, err, b.events)
			}
		})
	}
}

// A dialer notices that it has reached another node, or another incarnation.
func TestMisrouted(t *testing.T) {
	nodes := makeNodes(t, 3, nil)
	a := nodes[0]
	poll(t, nodes[1])
	poll(t, nodes[2])
	if err := a.SetPeer(1, nodes[1].cfg.Incarnation, nodes[2].Addrs()); err != nil {
		t.Fatal(err)
	}
	refused(t, a, codeMisrouted.String())
	if err := a.SetPeer(1, nodes[1].cfg.Incarnation+1, nodes[1].Addrs()); err != nil {
		t.Fatal(err)
	}
	refused(t, a, codeIncarnation.String())
	// The right address after a wrong one.
	both := append(nodes[2].Addrs(), nodes[1].Addrs()...)
	if err := a.SetPeer(1, nodes[1].cfg.Incarnation, both); err != nil {
		t.Fatal(err)
	}
	if err := a.Post(1, transport.Out, 1, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if e := await(t, a, transport.Opened); e.Node != 1 || e.Generation != 2 {
		t.Errorf("opened %+v, want connection 2 of node 1", e)
	}
}

// A listener that is none of ours, or silent, or stops in the middle.
func TestListenersTurnedDown(t *testing.T) {
	for _, c := range []struct{ name, says, want string }{
		{"garbage", strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 10), errProtocol.Error()},
		{"silent", "", "waiting for the listener's answer: it has taken more than"},
		{"short", "gosh", "waiting for the listener's answer: it has taken more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				if conn, err := ln.Accept(); err == nil {
					conn.Write([]byte(c.says))
					io.Copy(io.Discard, conn)
					conn.Close()
				}
			}()
			cfg := nodeConfig(0, 2)
			cfg.Dial = 100 * time.Millisecond
			a, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if err := a.SetPeer(1, 11, []netip.AddrPort{netip.MustParseAddrPort(ln.Addr().String())}); err != nil {
				t.Fatal(err)
			}
			refused(t, a, c.want)
		})
	}
}

// Strangers who are silent, slow or loud are closed in time, and never heard beyond the first word.
func TestStrangers(t *testing.T) {
	const limit = 200 * time.Millisecond
	h := hello{ends: ends{0, 10, 1, 11}, Generation: 1}
	for _, c := range []struct {
		name  string
		talk  func(c net.Conn)
		least time.Duration // for which the connection is kept
	}{
		{"silent", func(net.Conn) {}, limit},
		{"half a word", func(c net.Conn) { c.Write(h.encode(nil)[:20]) }, limit},
		{"half-open", func(c net.Conn) { c.Write(h.encode(nil)) }, limit},
		{"slow", func(c net.Conn) {
			for _, b := range h.encode(nil) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(limit / 8)
			}
		}, limit},
		{"loud", func(c net.Conn) {
			b := make([]byte, 1<<20)
			rand.Read(b)
			c.Write(b)
		}, 0},
		{"gone", func(c net.Conn) { c.(*net.TCPConn).CloseWrite() }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := makeNodes(t, 2, func(c *Config) { c.Handshake = limit })
			b := poll(t, nodes[1])
			begin := time.Now()
			conn := connect(t, nodes[1])
			c.talk(conn)
			got := closes(t, conn)
			if took := time.Since(begin); took < c.least || took > 20*limit {
				t.Errorf("the connection was kept for %v, want %v", took, c.least)
			}
			if len(got) > answerSize {
				t.Errorf("a stranger got %d bytes, want at most %d", len(got), answerSize)
			}
			b.end()
			if n, err := b.Strangers(); n != 1 || err == nil || len(b.events) > 0 {
				t.Errorf("%d strangers (%v) and events %v, want 1 and none", n, err, b.events)
			}
		})
	}
}

// A flood of silent strangers does not keep the job out, and takes few descriptors.
func TestFlood(t *testing.T) {
	nodes := makeNodes(t, 2, nil)
	b := poll(t, nodes[1])
	for range 300 {
		connect(t, nodes[1])
	}
	if err := nodes[0].Post(1, transport.Out, 1, []byte("x")); err != nil {
		t.Fatal(err)
	}
	await(t, nodes[0], transport.Opened)
	await(t, nodes[0], transport.Sent)
	b.end()
	if n, err := b.Strangers(); n < 200 || b.most > 64 {
		t.Errorf("%d strangers were turned away (%v), %d were pending at once; want at least 200 and at most 64", n, err, b.most)
	}
}

// proveItself does a dialer's handshake by hand and returns what the listener says. It changes the proof, and may make a
// MAC for what the proof says then.
func proveItself(t *testing.T, c net.Conn, cfg Config, generation uint32, change func(p *proof, sign func())) code {
	t.Helper()
	h := hello{ends: ends{uint32(cfg.Self), cfg.Incarnation, 1, 11}, Generation: generation}
	rand.Read(h.Nonce[:])
	if _, err := c.Write(h.encode(nil)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, answerSize)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	a, err := parseAnswer(b)
	if err != nil || a.Code != codeWelcome {
		t.Fatalf("answer %v, %v", a.Code, err)
	}
	k, err := newToken(cfg.Secret, cfg.Job, h.ends)
	if err != nil {
		t.Fatal(err)
	}
	p := proof{Job: cfg.Job, Node: h.Dialer, Incarnation: h.DialerIncarnation, Generation: generation}
	sign := func() { p.MAC = k.proveDialer(&p, &a.Nonce) }
	sign()
	if change != nil {
		change(&p, sign)
	}
	if _, err := c.Write(p.encode(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b[:welcomeSize]); err != nil {
		t.Fatal(err)
	}
	welcome, err := parseWelcome(b[:welcomeSize])
	if err != nil {
		t.Fatal(err)
	}
	return welcome
}

// A proof is for one connection, and a connection does not replace a later one.
func TestProofs(t *testing.T) {
	nodes := makeNodes(t, 2, nil)
	poll(t, nodes[1])
	cfg := nodeConfig(0, 2)
	var old proof
	for _, c := range []struct {
		name       string
		generation uint32
		change     func(p *proof, sign func())
		want       code
	}{
		{"right", 5, func(p *proof, _ func()) { old = *p }, codeWelcome},
		{"used before", 6, func(p *proof, _ func()) { p.MAC = old.MAC }, codeStranger},
		{"wrong MAC", 6, func(p *proof, _ func()) { p.MAC[0]++ }, codeStranger},
		{"other node", 6, func(p *proof, _ func()) { p.Node++ }, codeStranger},
		{"other job", 6, func(p *proof, _ func()) { p.Job[0]++ }, codeStranger},
		{"other generation", 6, func(p *proof, _ func()) { p.Generation++ }, codeStranger},
		{"signed other node", 6, func(p *proof, sign func()) { p.Node++; sign() }, codeStranger},
		{"signed other job", 6, func(p *proof, sign func()) { p.Job[0]++; sign() }, codeStranger},
		{"signed other incarnation", 6, func(p *proof, sign func()) { p.Incarnation++; sign() }, codeStranger},
		{"signed other generation", 6, func(p *proof, sign func()) { p.Generation++; sign() }, codeStranger},
		{"same number", 5, nil, codeOld},
		{"old", 4, nil, codeOld},
		{"next", 6, nil, codeWelcome},
	} {
		if got := proveItself(t, connect(t, nodes[1]), cfg, c.generation, c.change); got != c.want {
			t.Errorf("%s: the listener says %q, want %q", c.name, got, c.want)
		}
	}
	if got := proveItself(t, drip{connect(t, nodes[1])}, cfg, 7, nil); got != codeWelcome {
		t.Errorf("byte by byte: the listener says %q, want %q", got, codeWelcome)
	}
}

// drip writes each byte by itself.
type drip struct{ net.Conn }

func (d drip) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := d.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// A stranger cannot have its proof made by the listener: by a second connection whose hello has the nonce of the first
// one's answer.
func TestReflection(t *testing.T) {
	nodes := makeNodes(t, 2, nil)
	poll(t, nodes[1])
	cfg := nodeConfig(0, 2)
	answerOf := func(h hello) (net.Conn, answer) {
		c := connect(t, nodes[1])
		if _, err := c.Write(h.encode(nil)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, answerSize)
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		a, err := parseAnswer(b)
		if err != nil {
			t.Fatal(err)
		}
		return c, a
	}
	h := hello{ends: ends{0, cfg.Incarnation, 1, 11}, Generation: 1}
	first, a := answerOf(h)
	h.Nonce = a.Nonce
	_, mirror := answerOf(h)
	p := proof{Job: cfg.Job, Node: 0, Incarnation: cfg.Incarnation, Generation: 1, MAC: mirror.MAC}
	if _, err := first.Write(p.encode(nil)); err != nil {
		t.Fatal(err)
	}
	if c, err := parseWelcome(closes(t, first)); err != nil || c != codeStranger {
		t.Errorf("the listener says %v, %v; want %v", c, err, codeStranger)
	}
}

// When no descriptor is left, Poll does not turn in a circle, and the connection is taken when there is one.
func TestNoDescriptors(t *testing.T) {
	tr := makeNodes(t, 2, nil)[1]
	connect(t, tr)
	next, err := syscall.Dup(0) // the lowest free descriptor
	if err != nil {
		t.Fatal(err)
	}
	syscall.Close(next)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(limit syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	set(syscall.Rlimit{Cur: uint64(next), Max: before.Max})
	const wait = 30 * time.Millisecond
	began := time.Now()
	_, pollErr := tr.Poll(nil, wait)
	took := time.Since(began)
	set(before)
	if pollErr != nil || took < wait || tr.doors.deafUntil.IsZero() {
		t.Errorf("Poll returned after %v with error %v, deaf until %v; want it to wait %v and be deaf", took, pollErr, tr.doors.deafUntil, wait)
	}
	for begin := time.Now(); tr.shaking.strangers() == 0; {
		if _, err := tr.Poll(nil, deafTime/2); err != nil || time.Since(begin) > 20*time.Second {
			t.Fatalf("the connection is not taken; error %v", err)
		}
	}
}
