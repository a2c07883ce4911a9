package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/faulty"
	"github.com/goshmem/goshmem/transport/transporttest"
)

// pump polls nodes in one goroutine.
type pump struct {
	t      testing.TB
	nodes  []*Transport
	events []transport.Event
}

// run polls each node once and returns how many bytes were received and how many posts were sent.
func (p *pump) run() (received, sent int) {
	for _, tr := range p.nodes {
		var err error
		p.events, err = tr.Poll(p.events[:0], 0)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, e := range p.events {
			switch e.Kind {
			case transport.Received:
				received += len(e.Data)
			case transport.Sent:
				sent++
			case transport.Broken, transport.Refused:
				p.t.Fatal(e.Err)
			}
		}
	}
	return received, sent
}

// move posts parts from node 0 to node 1 and polls until they have arrived.
func (p *pump) move(kind transport.Lane, parts ...[]byte) {
	from, want := p.nodes[0], 0
	for _, b := range parts {
		want += len(b)
	}
	if err := from.Post(1, kind, 1, parts...); err != nil {
		p.t.Fatal(err)
	}
	for received, sent := 0, 0; received < want || sent < 1; {
		r, s := p.run()
		received, sent = received+r, sent+s
	}
}

// In the steady state neither a small post nor a large one allocates, from Post to Received.
func TestNoAllocation(t *testing.T) {
	p := &pump{t: t, nodes: makeNodes(t, 2, nil)}
	for _, size := range []int{24, 1 << 20} {
		parts := [][]byte{make([]byte, 32), make([]byte, size)}
		p.move(transport.Out, parts...)
		if n := testing.AllocsPerRun(100, func() { p.move(transport.Out, parts...) }); n > 0 {
			t.Errorf("%v allocations for a post of %d bytes, want 0", n, size)
		}
	}
}

// A connection whose output was held up is no longer watched for room when all is sent: Poll would turn in a circle.
func TestIdleAfterBackPressure(t *testing.T) {
	p := &pump{t: t, nodes: makeNodes(t, 2, nil)}
	p.move(transport.Out, []byte("x"))
	a, b := p.nodes[0], make([]byte, 64<<20)
	l := &a.peers[1].lanes[transport.Out]
	if err := a.Post(1, transport.Out, 1, b); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); !l.blocked || !l.socket.watched; {
		if _, err := a.Poll(nil, 0); err != nil || time.Since(begin) > 20*time.Second {
			t.Fatalf("the connection takes %d bytes; error %v", len(b), err)
		}
	}
	for received := 0; received < len(b); {
		n, _ := p.run()
		received += n
	}
	if l.blocked || l.socket.watched || l.dirty {
		t.Errorf("blocked %v, watched %v, dirty %v after all is sent; want none", l.blocked, l.socket.watched, l.dirty)
	}
}

// What the kernel has taken of a post, and the other end has not received, does not arrive after Cut.
func TestCutDiscards(t *testing.T) {
	p := &pump{t: t, nodes: makeNodes(t, 2, nil)}
	p.move(transport.Out, []byte("x"))
	a, b := p.nodes[0], make([]byte, 64<<20)
	if err := a.Post(1, transport.Out, 1, b); err != nil {
		t.Fatal(err)
	}
	l := &a.peers[1].lanes[transport.Out]
	for begin := time.Now(); !l.blocked || !l.socket.watched; {
		if _, err := a.Poll(nil, 0); err != nil || time.Since(begin) > 20*time.Second {
			t.Fatalf("the connection takes %d bytes; error %v", len(b), err)
		}
	}
	a.Cut(1, transport.Out, errors.New("test"))
	in := &p.nodes[1].peers[0].lanes[transport.In]
	received := 0
	for room := make([]byte, 1<<20); ; {
		n, err := xunix.ReceiveSocket(in.socket.fd, room)
		if err != nil {
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("after %d bytes: error %v, want a reset", received, err)
			}
			return
		}
		received += n
	}
}

// News of a closed connection meet no other one that has its slot.
func TestTable(t *testing.T) {
	var all table
	first, second := &socket{}, &socket{}
	all.add(first)
	if all.find(first.id) != first || first.id&(watchID|listenerID) != 0 || first.id == 0 {
		t.Errorf("id %#x, want that of the socket, without the bits of others", first.id)
	}
	all.remove(first)
	all.add(second)
	if len(all.all) != 1 || all.find(first.id) != nil || all.find(second.id) != second || all.find(1<<40|7) != nil {
		t.Errorf("%d slots, ids %#x and %#x, want one slot, and to find only the second", len(all.all), first.id, second.id)
	}
}

// descriptors returns the open descriptors of this process.
func descriptors(t *testing.T) string {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range all {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && !strings.HasSuffix(to, "/fd") {
			fmt.Fprintf(&b, "%s -> %s\n", f.Name(), to)
		}
	}
	return b.String()
}

// Close leaves no descriptor, whatever is under way: data, a handshake, a connect, a stranger.
func TestCloseLeavesNothing(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts nothing; the runtime has its poller now
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	before := descriptors(t)
	nodes := makeNodes(t, 4, nil)
	p := &pump{t: t, nodes: nodes}
	p.move(transport.Out, []byte("x"))
	b := make([]byte, 1<<20)
	for range 50 {
		if err := nodes[0].Post(1, transport.Out, 1, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := nodes[0].SetPeer(2, 12, []netip.AddrPort{netip.MustParseAddrPort(ln.Addr().String())}); err != nil {
		t.Fatal(err)
	}
	for node := 2; node < 4; node++ {
		if err := nodes[0].Post(node, transport.Out, 1, b); err != nil {
			t.Fatal(err)
		}
	}
	stranger, err := net.Dial("tcp", nodes[1].Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.run()
	}
	for _, tr := range nodes {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		if err := tr.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	}
	stranger.Close()
	if after := descriptors(t); after != before {
		t.Errorf("descriptors afterwards:\n%sbefore:\n%s", after, before)
	}
}

// Poll returns while a descriptor of the owner has input.
func TestWatch(t *testing.T) {
	tr := makeNodes(t, 1, nil)[0]
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd := int(r.Fd())
	if err := tr.Watch(fd); err != nil {
		t.Fatal(err)
	}
	tr.Wake()
	if _, err := tr.Poll(nil, -1); err != nil || tr.Watched() {
		t.Errorf("a Poll that Wake ends: error %v, want none, and no input in the pipe", err)
	}
	io.WriteString(w, "x")
	for range 2 {
		if _, err := tr.Poll(nil, -1); err != nil {
			t.Fatal(err)
		}
		if !tr.Watched() || tr.Watched() {
			t.Error("Watched does not say once that the pipe has input")
		}
	}
	tr.Unwatch(fd)
	begin := time.Now()
	if _, err := tr.Poll(nil, 20*time.Millisecond); err != nil || time.Since(begin) < 20*time.Millisecond {
		t.Errorf("Poll without a watch: error %v after %v, want none after 20 ms", err, time.Since(begin))
	}
}

// What has come is received although a send fails before it is read.
func TestReceivedBeforeBroken(t *testing.T) {
	nodes := makeNodes(t, 2, func(c *Config) { c.Room = leastRoom })
	p := &pump{t: t, nodes: nodes}
	p.move(transport.Out, []byte("x"))
	a, b := nodes[0], nodes[1]
	answer := make([]byte, 10*leastRoom)
	if err := b.Post(0, transport.In, 1, answer); err != nil {
		t.Fatal(err)
	}
	await(t, b, transport.Sent)
	awaitUnread(t, a.peers[1].lanes[transport.Out].socket.fd, len(answer)) // a reset takes back what has not come
	var v xunix.Vector                                                     // bytes that b has not read make its end a reset, not an end of input
	v.Add([]byte("x"))
	if _, err := v.Send(a.peers[1].lanes[transport.Out].socket.fd); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Post(1, transport.Out, 1, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for received := 0; ; {
		events, err := a.Poll(nil, 10*time.Second)
		if err != nil || len(events) == 0 {
			t.Fatalf("%d events, error %v; want one and none", len(events), err)
		}
		for _, e := range events {
			received += len(e.Data)
			if e.Kind == transport.Broken {
				if received != len(answer) {
					t.Errorf("%d bytes received before the end, want %d", received, len(answer))
				}
				return
			}
		}
	}
}

// awaitUnread waits until a socket holds so many bytes that nobody has read.
func awaitUnread(t *testing.T, fd, want int) {
	t.Helper()
	room := make([]byte, want)
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		n, _, err := syscall.Recvfrom(fd, room, syscall.MSG_PEEK)
		if n == want {
			return
		}
		if err != nil && err != syscall.EAGAIN || time.Since(begin) > 10*time.Second {
			t.Fatalf("%d bytes have come, error %v, want %d", n, err, want)
		}
	}
}

// A connection whose other end takes nothing is broken after Config.Silence.
func TestSilence(t *testing.T) {
	nodes := makeNodes(t, 2, func(c *Config) { c.Silence = 300 * time.Millisecond })
	(&pump{t: t, nodes: nodes}).move(transport.Out, []byte("x"))
	if err := nodes[0].Post(1, transport.Out, 1, make([]byte, 64<<20)); err != nil { // more than the kernel has room for
		t.Fatal(err)
	}
	if e := await(t, nodes[0], transport.Broken); !errors.Is(e.Err, syscall.ETIMEDOUT) {
		t.Errorf("the connection ends by %v, want %v", e.Err, syscall.ETIMEDOUT)
	}
}

// A new incarnation ends the connections of the one before, and begins to count anew.
func TestNewIncarnation(t *testing.T) {
	nodes := makeNodes(t, 2, nil)
	p := &pump{t: t, nodes: nodes}
	p.move(transport.Out, []byte("x"))
	if err := nodes[0].SetPeer(1, 12, nodes[1].Addrs()); err != nil {
		t.Fatal(err)
	}
	if e := await(t, nodes[0], transport.Broken); e.Generation != 1 {
		t.Errorf("end of connection %d, want 1", e.Generation)
	}
	if e := await(t, nodes[1], transport.Broken); e.Lane != transport.In {
		t.Errorf("end of the %s lane, want in", e.Lane)
	}
	cfg := nodeConfig(1, 2)
	cfg.Incarnation = 12
	next, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := next.SetPeer(0, 10, nodes[0].Addrs()); err != nil {
		t.Fatal(err)
	}
	if err := nodes[0].SetPeer(1, 12, next.Addrs()); err != nil {
		t.Fatal(err)
	}
	p.nodes[1] = next
	p.move(transport.Out, []byte("x"))
	if n := nodes[0].peers[1].lanes[transport.Out].attempts; n != 1 {
		t.Errorf("connection %d of the new incarnation, want 1", n)
	}
}

// Both families of addresses work, and a dialer goes through the addresses of a node.
func TestAddresses(t *testing.T) {
	cfg := nodeConfig(1, 2)
	cfg.Listen = []netip.AddrPort{loopback, netip.MustParseAddrPort("[::1]:0")}
	b, err := New(cfg)
	if err != nil && strings.Contains(err.Error(), "[::1]") {
		t.Skipf("no IPv6 here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	a := makeNodes(t, 2, nil)[0]
	if err := b.SetPeer(0, 10, nil); err != nil {
		t.Fatal(err)
	}
	six := b.Addrs()[1]
	if !six.Addr().Is6() || six.Port() == 0 {
		t.Fatalf("address %s, want one of IPv6 with a port", six)
	}
	closedPort := netip.MustParseAddrPort("127.0.0.1:1")
	if err := a.SetPeer(1, 11, []netip.AddrPort{closedPort, six}); err != nil {
		t.Fatal(err)
	}
	p := &pump{t: t, nodes: []*Transport{a, b}}
	p.move(transport.Out, []byte("x"))
	if err := b.Post(0, transport.Out, 1, []byte("x")); err == nil {
		t.Error("post to a node without an address: no error, want one")
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Nodes = 0 }, "0 nodes, want at least 1"},
		{func(c *Config) { c.Self = 2 }, "this node is 2, want 0 to 1"},
		{func(c *Config) { c.Dial = -1 }, "time limits"},
		{func(c *Config) { c.Pending = -1 }, "-1 pending connections"},
		{func(c *Config) { c.Room = 10 }, "room of 10 bytes, want at least 4096"},
		{func(c *Config) { c.Listen = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:0")} }, "listen at 192.0.2.1:0"},
	} {
		cfg := nodeConfig(0, 2)
		c.change(&cfg)
		tr, err := New(cfg)
		if err == nil {
			tr.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// Connections that are cut and delayed at random, with the smallest room for received data.
func TestStorm(t *testing.T) {
	for seed := range uint64(10) {
		var all []transport.Transport
		for i, tr := range makeNodes(t, 3, func(c *Config) { c.Room = leastRoom }) {
			all = append(all, faulty.New(tr, faulty.Config{Seed: 100*seed + uint64(i), Cuts: 60, Delay: 4, Log: t.Logf}))
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { transporttest.Storm(t, all, seed, 50) })
	}
}
