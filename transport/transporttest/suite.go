// Package transporttest has the tests that every transport passes.
//
// What the tests send describes itself. So each receiver checks each byte by itself: nothing is lost, doubled, changed
// or out of order within a connection, and nothing comes that was posted for another one.
package transporttest

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/transport"
)

// Config says how the tests make transports, and how much they send.
type Config struct {
	// Make returns the transports of n nodes that know each other. The tests close them.
	Make func(t *testing.T, n int) []transport.Transport
	// Bulk is the number of bytes of a long transfer.
	Bulk int64
	// Memory bounds by how many bytes the heap may grow in a long transfer. Default: 32 MiB.
	Memory uint64
	// Buffered is more than a connection's buffers hold. Default: 64 MiB.
	Buffered int64
}

// Run runs all tests.
func Run(t *testing.T, c Config) {
	t.Helper()
	if c.Memory == 0 {
		c.Memory = 32 << 20
	}
	if c.Buffered == 0 {
		c.Buffered = 64 << 20
	}
	for name, test := range map[string]func(*testing.T, Config){
		"Order": testOrder, "All": testAll, "BackPressure": testBackPressure, "Bulk": testBulk, "BothWays": testBothWays,
		"Cut": testCut, "Cuts": testCuts, "Replace": testReplace, "Refused": testRefused, "Wake": testWake, "Timeout": testTimeout,
		"Errors": testErrors, "Close": testClose,
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

// endpoints returns n nodes, which are closed at the end of the test.
func endpoints(t *testing.T, c Config, n int) []*endpoint {
	t.Helper()
	var all []*endpoint
	for i, tr := range c.Make(t, n) {
		all = append(all, newEndpoint(t, i, tr))
		t.Cleanup(func() {
			if err := tr.Close(); err != nil {
				t.Errorf("node %d: Close: %v", i, err)
			}
		})
	}
	return all
}

// connect opens the Out lane of a to b.
func connect(t *testing.T, a, b *endpoint) {
	t.Helper()
	a.post(b.self, transport.Out, 1)
	out, in := a.side(b.self, transport.Out), b.side(a.self, transport.In)
	drive(t, func() bool { return out.open && in.open && len(out.tokens) == 0 }, a, b)
	if out.generation != in.generation {
		t.Fatalf("generations are %d at the dialer and %d at the listener, want the same", out.generation, in.generation)
	}
}

// testOrder sends posts of many shapes in both directions of both lanes.
func testOrder(t *testing.T, c Config) {
	nodes := endpoints(t, c, 2)
	a, b := nodes[0], nodes[1]
	connect(t, a, b)
	connect(t, b, a)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		for _, e := range nodes {
			for _, kind := range []transport.Lane{transport.Out, transport.In} {
				size := r.IntN(1 << r.IntN(16))
				e.post(1-e.self, kind, size, 0, r.IntN(size+1), r.IntN(size+1), size)
			}
			if i%16 == 0 {
				e.poll(0)
			}
		}
	}
	drive(t, func() bool { return settled(nodes...) }, nodes...)
	many := make([]int, 3000) // parts, more than a system call takes
	for i := range many {
		many[i] = 3 * i
	}
	a.post(1, transport.Out, 9001, many...)
	drive(t, func() bool { return settled(nodes...) }, nodes...)
	if err := a.tr.Post(1, transport.Out, 1<<40); err != nil {
		t.Fatalf("post without parts: %v", err)
	}
	side := a.side(1, transport.Out)
	side.tokens = append(side.tokens, 1<<40)
	a.used[1<<40] = nil
	drive(t, func() bool { return len(side.tokens) == 0 }, nodes...)
}

// testAll sends from each node to each other one, and back.
func testAll(t *testing.T, c Config) {
	nodes := endpoints(t, c, 5)
	for _, e := range nodes {
		e.on = func(ev transport.Event) {
			if ev.Kind == transport.Opened && ev.Lane == transport.In {
				for range 50 {
					e.post(ev.Node, transport.In, 777)
				}
			}
		}
		for _, to := range nodes {
			for i := range 50 {
				if to != e {
					e.post(to.self, transport.Out, i*i)
				}
			}
		}
	}
	const want = 5 * 4 * 100 // posts
	drive(t, func() bool {
		var n uint64
		for _, e := range nodes {
			for _, s := range e.sides {
				n += s.received
			}
		}
		return n == want && settled(nodes...)
	}, nodes...)
}

// testBackPressure posts to a node that does not poll.
func testBackPressure(t *testing.T, c Config) {
	nodes := endpoints(t, c, 2)
	a, b := nodes[0], nodes[1]
	connect(t, a, b)
	out := a.side(1, transport.Out)
	posts := int(c.Buffered / mostBody)
	for range posts {
		a.post(1, transport.Out, mostBody)
	}
	for range 200 { // what fits into buffers leaves
		a.poll(time.Millisecond)
	}
	if n := len(out.tokens); n == 0 {
		t.Errorf("all of %d posts of %d bytes are sent, want some to wait for a node that does not poll", posts, mostBody)
	}
	drive(t, func() bool { return settled(nodes...) }, nodes...)
}

// window keeps some posts under way on a lane until so many bytes are posted.
type window struct {
	e    *endpoint
	node int
	kind transport.Lane
	left int64
}

const (
	windowPosts = 16
	windowSize  = 64<<10 - headerSize
)

func (w *window) fill() {
	s := w.e.side(w.node, w.kind)
	for w.left > 0 && len(s.tokens) < windowPosts {
		w.e.post(w.node, w.kind, windowSize)
		w.left -= windowSize + headerSize
	}
}

// testBulk sends much with little memory.
func testBulk(t *testing.T, c Config) {
	nodes := endpoints(t, c, 2)
	a, b := nodes[0], nodes[1]
	connect(t, a, b)
	w := &window{a, 1, transport.Out, c.Bulk}
	var first, most uint64
	rounds := 0
	drive(t, func() bool {
		w.fill()
		if rounds++; rounds%500 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if first == 0 {
				first = m.HeapAlloc
			}
			most = max(most, m.HeapAlloc)
		}
		return w.left <= 0 && settled(nodes...)
	}, nodes...)
	if got := b.side(0, transport.In).bytes; int64(got) < c.Bulk {
		t.Errorf("%d bytes received, want at least %d", got, c.Bulk)
	}
	if most > first+c.Memory {
		t.Errorf("the heap has grown from %d to %d bytes, want at most %d more", first, most, c.Memory)
	}
}

// testBothWays has two nodes, each in a goroutine of its own, send on both lanes in both directions.
func testBothWays(t *testing.T, c Config) {
	nodes := endpoints(t, c, 2)
	connect(t, nodes[0], nodes[1])
	connect(t, nodes[1], nodes[0])
	var group sync.WaitGroup
	want := (c.Bulk/4 + windowSize) / (windowSize + headerSize) // at least
	for _, e := range nodes {
		group.Go(func() {
			windows := []*window{
				{e, 1 - e.self, transport.Out, c.Bulk / 4},
				{e, 1 - e.self, transport.In, c.Bulk / 4},
			}
			out, in := e.side(1-e.self, transport.Out), e.side(1-e.self, transport.In)
			for begin := time.Now(); ; {
				left := 0
				for _, w := range windows {
					w.fill()
					left += int(max(w.left, 0)) + len(e.side(w.node, w.kind).tokens)
				}
				if left == 0 && int64(out.received) >= want && int64(in.received) >= want {
					return
				}
				if time.Since(begin) > limit {
					t.Errorf("node %d: %d bytes and posts left, %d and %d posts received, want %d of each", e.self, left, out.received, in.received, want)
					return
				}
				if _, err := e.tryPoll(100 * time.Millisecond); err != nil {
					t.Error(err)
				}
				if t.Failed() {
					return // the other node will be missed, or has failed
				}
			}
		})
	}
	group.Wait()
}

// testCut cuts a connection with traffic under way, once at each end.
func testCut(t *testing.T, c Config) {
	nodes := endpoints(t, c, 2)
	a, b := nodes[0], nodes[1]
	for i, cutter := range []*endpoint{a, b} {
		connect(t, a, b)
		out, in := a.side(1, transport.Out), b.side(0, transport.In)
		for range 200 {
			a.post(1, transport.Out, 10_000)
			b.post(0, transport.In, 10_000)
		}
		a.poll(0)
		b.poll(0)
		cutter.tr.Cut(1-cutter.self, transport.Lane(cutter.self), errTest)
		ended := uint64(i + 1)
		drive(t, func() bool { return out.total.ended == ended && in.total.ended == ended }, nodes...)
		if s := cutter.side(1-cutter.self, transport.Lane(cutter.self)); !errors.Is(s.last, errTest) {
			t.Errorf("the end that cuts reports %v, want an error that wraps %q", s.last, errTest)
		}
		if err := b.tryPost(0, transport.In, 1); !errors.Is(err, transport.ErrNotOpen) {
			t.Errorf("post to an In lane that has ended: error %v, want %v", err, transport.ErrNotOpen)
		}
	}
	connect(t, a, b)
	a.tr.Cut(0+1, transport.In, errTest) // no connection
	a.post(1, transport.Out, 100)
	drive(t, func() bool { return len(a.side(1, transport.Out).tokens) == 0 }, nodes...)
}

// testCuts cuts at random.
func testCuts(t *testing.T, c Config) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	Storm(t, c.Make(t, 3), seed, 40)
}

// Storm sends at random and closes the transports, which may lose connections by themselves. The mean number of calls
// after which the test cuts a connection is cuts; 0: it never does. The receivers check that nothing crosses the end of
// a connection.
func Storm(t *testing.T, transports []transport.Transport, seed uint64, cuts int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	nodes := endpoints(t, Config{Make: func(*testing.T, int) []transport.Transport { return transports }}, len(transports))
	for range 3000 {
		e := nodes[r.IntN(len(nodes))]
		node, kind := r.IntN(len(nodes)), transport.Lane(r.IntN(2))
		switch {
		case node == e.self:
		case cuts > 0 && r.IntN(cuts) == 0:
			e.tr.Cut(node, kind, errTest)
		case r.IntN(2) == 0:
			if err := e.tryPost(node, kind, r.IntN(1<<r.IntN(17))); err != nil && !errors.Is(err, transport.ErrNotOpen) {
				t.Fatal(err)
			}
		default:
			e.poll(0)
		}
	}
	drive(t, func() bool {
		for _, e := range nodes {
			for _, s := range e.sides {
				if len(s.tokens) > 0 {
					return false
				}
			}
		}
		return true
	}, nodes...)
	var ended, received uint64
	for _, e := range nodes {
		for _, s := range e.sides {
			ended += s.total.ended
			received += s.received
		}
	}
	if ended == 0 || received == 0 {
		t.Errorf("%d ends and %d posts received, want some", ended, received)
	}
}

// testReplace dials anew while the listener has not seen the end of the connection before.
func testReplace(t *testing.T, c Config) {
	nodes := endpoints(t, c, 2)
	a, b := nodes[0], nodes[1]
	connect(t, a, b)
	out, in := a.side(1, transport.Out), b.side(0, transport.In)
	for i := range uint64(20) {
		a.tr.Cut(1, transport.Out, errTest)
		drive(t, func() bool { return out.total.ended == i+1 }, a)
		a.post(1, transport.Out, 100)
		b.post(0, transport.In, 100) // to a connection that has ended at its other end
		drive(t, func() bool { return in.open && in.generation == out.generation && len(out.tokens)+len(in.tokens) == 0 }, nodes...)
		if in.total.ended != i+1 {
			t.Fatalf("the listener has seen %d ends, want %d", in.total.ended, i+1)
		}
	}
}

// testRefused posts to a node that is closed.
func testRefused(t *testing.T, c Config) {
	nodes := endpoints(t, c, 2)
	a, b := nodes[0], nodes[1]
	if err := b.tr.Close(); err != nil {
		t.Fatal(err)
	}
	out := a.side(1, transport.Out)
	for i := range uint64(3) {
		a.post(1, transport.Out, 100)
		a.post(1, transport.Out, 100)
		drive(t, func() bool { return out.total.refused == i+1 }, a)
	}
	if n := out.total; n.dropped != 6 || n.sent != 0 || n.opened != 0 {
		t.Errorf("%d posts dropped, %d sent, lane opened %d times, want 6, 0 and 0", n.dropped, n.sent, n.opened)
	}
}

// testWake wakes a Poll from another goroutine, from another process, and before it begins.
func testWake(t *testing.T, c Config) {
	e := endpoints(t, c, 1)[0]
	e.tr.Wake()
	e.poll(-1)
	for range 100 {
		woken := make(chan struct{})
		go func() {
			e.tr.Wake()
			close(woken)
		}()
		e.poll(-1)
		<-woken
	}
	fd := e.tr.WakeFD()
	if fd < 0 {
		return
	}
	dup, err := xunix.KeepFD(fd)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(dup), "eventfd")
	defer file.Close() //nolint:errcheck // nothing is buffered
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `printf '\001\000\000\000\000\000\000\000' >&3`)
	cmd.ExtraFiles = []*os.File{file}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.poll(-1)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process that wakes: %v", err)
	}
}

// testTimeout polls when nothing happens.
func testTimeout(t *testing.T, c Config) {
	e := endpoints(t, c, 2)[0]
	const wait = 30 * time.Millisecond
	begin := time.Now()
	if n := e.poll(wait); n > 0 || time.Since(begin) < wait {
		t.Errorf("Poll of %v returned after %v with %d events, want none and the whole time", wait, time.Since(begin), n)
	}
	e.poll(0)
}

// testErrors makes posts that cannot be.
func testErrors(t *testing.T, c Config) {
	e := endpoints(t, c, 2)[0]
	for _, bad := range []struct {
		node int
		kind transport.Lane
	}{{-1, transport.Out}, {2, transport.Out}, {0, transport.Out}, {1, 2}} {
		if err := e.tr.Post(bad.node, bad.kind, 0, []byte("x")); err == nil {
			t.Errorf("post to node %d, lane %s: no error, want one", bad.node, bad.kind)
		}
		e.tr.Cut(bad.node, bad.kind, errTest) // does nothing
	}
	if err := e.tr.Post(1, transport.In, 0, []byte("x")); !errors.Is(err, transport.ErrNotOpen) {
		t.Errorf("post to an In lane that is not open: error %v, want %v", err, transport.ErrNotOpen)
	}
	if n := e.poll(0); n > 0 {
		t.Errorf("%d events, want none", n)
	}
}

// testClose closes a node with traffic under way.
func testClose(t *testing.T, c Config) {
	nodes := endpoints(t, c, 2)
	a, b := nodes[0], nodes[1]
	connect(t, a, b)
	for range 500 {
		a.post(1, transport.Out, 100_000)
		b.post(0, transport.In, 100_000)
	}
	a.poll(0)
	b.poll(0)
	if err := a.tr.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.tr.Poll(nil, -1); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Poll after Close: error %v, want %v", err, transport.ErrClosed)
	}
	if err := a.tr.Post(1, transport.Out, 0, []byte("x")); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Post after Close: error %v, want %v", err, transport.ErrClosed)
	}
	a.tr.Wake()
	a.tr.Cut(1, transport.Out, errTest)
	in := b.side(0, transport.In)
	drive(t, func() bool { return in.total.ended == 1 }, b)
}
