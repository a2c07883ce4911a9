package shmem

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/agent"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport/tcp"
)

// farJob is a job of several nodes in this process. Each node has segments, a failure page and an agent of its own.
// Goroutines stand for the PEs. Handles are used with contexts only, as a process has one current World.
type farJob struct {
	nodes  []*farNode
	worlds []*World // by PE
}

type farNode struct {
	index     int
	place     job.Place
	segments  *symheap.Map
	page      *layout.AgentPage
	failures  *failure.Page
	view      *failure.View
	transport *tcp.Transport
	stop      atomic.Bool
	orders    chan func(a *agent.Agent)
	ended     chan error
	over      sync.Once // endAgent has seen the end
	agent     *agent.Agent
	lines     []int // by local index
}

var errFarJobEnds = errors.New("the test ends")

// newFarJob starts a job with so many PEs on each node.
func newFarJob(t *testing.T, near ...int) *farJob {
	t.Helper()
	f := &farJob{}
	npes := 0
	for _, n := range near {
		npes += n
	}
	first := 0
	for i, n := range near {
		f.nodes = append(f.nodes, newFarNode(t, i, job.Place{Nodes: len(near), First: layout.PE(first), Near: n, NPEs: npes}))
		first += n
	}
	for _, a := range f.nodes {
		for _, b := range f.nodes {
			if a != b {
				ok(t, a.transport.SetPeer(b.index, 1, b.transport.Addrs()))
			}
		}
	}
	for _, n := range f.nodes {
		n.runAgent(t)
		for i := range layout.Local(n.place.Near) {
			w, err := newWorld(n.newJob(t, f, i), ModeStrict)
			ok(t, err)
			f.worlds = append(f.worlds, w)
		}
	}
	return f
}

// newFarNode makes the memory of a node.
func newFarNode(t *testing.T, index int, place job.Place) *farNode {
	t.Helper()
	n := &farNode{index: index, place: place, orders: make(chan func(*agent.Agent), 16), ended: make(chan error, 1)}
	var files []*os.File
	for i := range layout.Local(place.Near) {
		id := symheap.Identity{PE: uint32(place.PE(i)), NPEs: uint32(place.NPEs), Incarnation: 1}
		file, err := symheap.Create(id, 4<<20, symheap.WithWire())
		ok(t, err)
		files = append(files, file)
	}
	info, err := files[0].Stat()
	ok(t, err)
	n.segments, err = symheap.NewMap([16]byte{}, place.Near, uint64(info.Size()))
	ok(t, err)
	for i, file := range files {
		ok(t, n.segments.Attach(layout.Local(i), place.PE(layout.Local(i)), int(file.Fd())))
		ok(t, file.Close())
	}
	n.failures, err = failure.Create([16]byte{}, place.NPEs)
	ok(t, err)
	t.Cleanup(func() { _ = n.failures.Close() })
	n.view, err = failure.Attach(int(n.failures.File().Fd()), [16]byte{}, place.NPEs)
	ok(t, err)
	page, err := symheap.CreateAgentPage(nil)
	ok(t, err)
	n.page, err = symheap.MapAgentPage(int(page.Fd()))
	ok(t, err)
	ok(t, page.Close())
	n.transport, err = tcp.New(tcp.Config{
		Self: index, Nodes: place.Nodes, Incarnation: 1, Secret: [32]byte{1}, Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
	})
	ok(t, err)
	return n
}

// runAgent runs the node's agent until the test ends.
func (n *farNode) runAgent(t *testing.T) {
	t.Helper()
	cfg := agent.Config{
		Node: n.index, Nodes: n.place.Nodes, Incarnation: 1, Segments: n.segments, Page: n.page, Transport: n.transport,
		Expedited: xunix.MembarrierRegister() == nil, Orders: n.obey,
	}
	if !cfg.Expedited {
		rma.AskLocked(&n.page.Bell)
	}
	cfg.Express = n.transport
	var err error
	n.agent, err = agent.New(cfg)
	ok(t, err)
	for i := range layout.Local(n.place.Near) {
		n.lines = append(n.lines, n.newLine(t, i))
	}
	go func() {
		runtime.LockOSThread()
		n.ended <- n.agent.Run()
	}()
	t.Cleanup(func() {
		n.endAgent(t)
		ok(t, n.transport.Close())
	})
}

// newLine returns the PE's end of a line to the agent.
func (n *farNode) newLine(t *testing.T, i layout.Local) int {
	t.Helper()
	here, there, err := xunix.PacketPair()
	ok(t, err)
	fd, err := xunix.KeepFD(int(there.Fd()))
	ok(t, err)
	ok(t, n.agent.SetLine(i, fd))
	ok(t, there.Close())
	t.Cleanup(func() { ok(t, here.Close()) })
	return int(here.Fd())
}

// endAgent ends the node's agent.
func (n *farNode) endAgent(t *testing.T) {
	t.Helper()
	n.stop.Store(true)
	n.transport.Wake()
	n.over.Do(func() { // a test may have stopped it, and not waited for its end
		if err := <-n.ended; !errors.Is(err, errFarJobEnds) {
			t.Errorf("agent of node %d: %v", n.index, err)
		}
	})
}

// obey does what the test wants of the agent.
func (n *farNode) obey(a *agent.Agent) error {
	if n.stop.Load() {
		return errFarJobEnds
	}
	select {
	case f := <-n.orders:
		f(a)
		if n.stop.Load() { // while it was paused: it must not execute what has come meanwhile
			return errFarJobEnds
		}
	default:
	}
	return nil
}

// newJob returns the job as a PE of the node sees it.
func (n *farNode) newJob(t *testing.T, f *farJob, i layout.Local) *job.Job {
	t.Helper()
	j := &job.Job{PE: n.place.PE(i), NPEs: n.place.NPEs, Place: n.place, Local: i, Map: n.segments, Failures: n.view}
	j.Waiter = wait.NewWaiter(&n.segments.Control(i).Bell, wait.PolicyFor(n.place.NPEs+n.place.Nodes, runtime.NumCPU()))
	j.Waiter.Watch(n.view)
	j.Home = f.home
	line := n.lines[i]
	on, err := envvar.UsesExpress(os.LookupEnv) // as package job
	ok(t, err)
	if !on {
		line = 0
	}
	j.Arena, err = n.segments.FormatHeap(i)
	ok(t, err)
	j.Far, err = far.New(far.Config{
		Line: line, PE: j.PE, Incarnation: 1,
		Wire: n.segments.Wire(i), Base: n.segments.Segment(i), Size: n.segments.Size(), Agent: &n.page.Bell, Event: n.transport.WakeFD(),
		Waiter: j.Waiter, Nodes: n.place.Nodes, Home: f.home, Lost: func(node int) error { return n.lossOf(f, node) },
		Dead: func(pe layout.PE) error {
			if j.IsDead(pe) {
				return errors.New("dead by the page")
			}
			return nil
		},
	})
	ok(t, err)
	t.Cleanup(j.Far.Close)
	return j
}

// lossOf returns an error if the failure page of n says that a node is lost.
func (n *farNode) lossOf(f *farJob, node int) error {
	at := f.nodes[node].place
	for i := range layout.Local(at.Near) {
		if died, is := n.view.Failure(int(at.PE(i))); is && died.Cause.Kind() == failure.NodeLost {
			return errors.New("lost by the page")
		}
	}
	return nil
}

// home returns the node of a PE, and the PE's index there.
func (f *farJob) home(pe layout.PE) (int, layout.Local) {
	for i, n := range f.nodes {
		if local, near := n.place.Local(pe); near {
			return i, local
		}
	}
	return -1, 0
}

// kill publishes the death of a PE as the daemons do: agents, pages, bells.
func (f *farJob) kill(pe int) {
	node, local := f.home(layout.PE(pe))
	for _, n := range f.nodes {
		if n.stop.Load() { // it is lost
			continue
		}
		done := make(chan struct{})
		n.orders <- func(a *agent.Agent) { a.DropPE(node, local); close(done) }
		n.transport.Wake()
		<-done
		n.failures.Publish(pe, 1, failure.ByExit(3), 0)
		for i := range layout.Local(n.place.Near) {
			rma.Rouse(&n.segments.Control(i).Bell)
		}
	}
}

// lose makes the others lose a node, whose agent executes nothing any more.
func (f *farJob) lose(t *testing.T, node int) {
	t.Helper()
	f.nodes[node].endAgent(t)
	var pes []int
	for i := range layout.Local(f.nodes[node].place.Near) {
		pes = append(pes, int(f.nodes[node].place.PE(i)))
	}
	for _, n := range f.nodes {
		if n.stop.Load() {
			continue
		}
		done := make(chan struct{})
		n.orders <- func(a *agent.Agent) { a.DropNode(node); close(done) }
		n.transport.Wake()
		<-done
		n.failures.PublishAll(pes, 1, failure.Of(failure.NodeLost), 0)
		for i := range layout.Local(n.place.Near) {
			rma.Rouse(&n.segments.Control(i).Bell)
		}
	}
}

// pause stops the agent of a node. It executes and sends nothing until the function that pause returns is called.
func (n *farNode) pause() (resume func()) {
	stopped, over := make(chan struct{}), make(chan struct{})
	n.orders <- func(*agent.Agent) { close(stopped); <-over }
	n.transport.Wake()
	<-stopped
	return func() { close(over) }
}

// farPatience ends what hangs.
const farPatience = time.Minute

// each runs body for some PEs at once, or for all, and fails the test on an error.
func (f *farJob) each(t *testing.T, body func(w *World) error, pes ...int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), farPatience)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(f.worlds))
	for pe, w := range f.worlds {
		if len(pes) > 0 && !slices.Contains(pes, pe) {
			continue
		}
		wg.Go(func() { errs[pe] = body(w.With(ctx)) })
	}
	wg.Wait()
	for pe, err := range errs {
		if err != nil {
			t.Errorf("PE %d: %v", pe, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// memory returns a PE's copy of an object.
func memory[T any](f *farJob, x Sym[T], pe int) []T {
	node, local := f.home(layout.PE(pe))
	return unsafe.Slice((*T)(unsafe.Add(f.nodes[node].segments.Segment(local), int(x.off))), x.n)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// asleep reports whether a PE sleeps in a wait.
func (f *farJob) asleep(pe int) bool {
	node, local := f.home(layout.PE(pe))
	return atomic.LoadUint32(&f.nodes[node].segments.Control(local).Bell.Sleeping)&layout.BellAsleep != 0
}
