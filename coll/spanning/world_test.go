package spanning

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/agent/teams"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// cluster is a job of several nodes in one process. Each node has segments, a failure page and an agent of its own, which runs
// the real teams.Teams in a goroutine. Goroutines stand for the PEs.
type cluster struct {
	t     *testing.T
	nodes []*node
	pes   []*process    // by PE
	all   []layout.PE   // of the team of all PEs, in its order
	over  chan struct{} // the test has ended
	heap  bool          // words of teams are in memory that the race detector sees
}

// node is a node. An agent takes what comes to it from one source in order, and from several sources in any order.
type node struct {
	c     *cluster
	index int
	m     *symheap.Map
	page  *failure.Page
	view  *failure.View
	first layout.PE
	near  int

	wake  chan struct{}
	ended chan struct{}
	teams *teams.Teams
	dead  []bool // by local index, as the agent knows it
	lost  []bool // by node, as the agent knows it
	logs  []error
	sends int // until the node dies in the midst of what its agent does; 0: it does not

	mu      sync.Mutex
	rng     *rand.Rand
	inbox   [][]func() // by node; the last one has the news of deaths and what the test wants
	killed  bool
	pending map[chan error]int // gets under way, by node
}

type process struct {
	of    *node
	local layout.Local
	pe    layout.PE
	w     *wait.Waiter
	words *layout.Upper
	p     *Process
	world *Team
	parts *coll.Team

	breaths atomic.Int64 // until the PE dies; 0: it does not
	dying   atomic.Bool
	dead    chan struct{}
	kill    chan struct{}
}

// sleepEarly makes waits sleep early and without a timeout, so a missing wake-up is a hang.
var sleepEarly = wait.Policy{Polls: 20, First: time.Hour, Most: time.Hour}

// newCluster makes a job with so many PEs on each node.
func newCluster(t *testing.T, near ...int) *cluster { return newSeededCluster(t, 1, false, near...) }

// newSeededCluster is newCluster with a seed for the order in which agents take what comes to them.
func newSeededCluster(t *testing.T, seed uint64, heap bool, near ...int) *cluster {
	t.Helper()
	c := &cluster{t: t, over: make(chan struct{}), heap: heap}
	n := 0
	for _, k := range near {
		n += k
	}
	first := layout.PE(0)
	for i, k := range near {
		nd := c.newNode(first, k, n)
		nd.index, nd.rng = i, rand.New(rand.NewPCG(seed, uint64(i)))
		nd.inbox, nd.lost, nd.dead = make([][]func(), len(near)+1), make([]bool, len(near)), make([]bool, k)
		first += layout.PE(k)
	}
	for _, x := range c.pes {
		c.all = append(c.all, x.pe)
	}
	for _, nd := range c.nodes {
		nd.start()
	}
	for _, x := range c.pes {
		x.join()
	}
	t.Cleanup(func() {
		close(c.over)
		for _, nd := range c.nodes {
			<-nd.ended
			for _, err := range nd.logs {
				t.Errorf("agent of node %d: %v", nd.index, err)
			}
		}
	})
	return c
}

// newNode makes the segments of a node.
func (c *cluster) newNode(first layout.PE, near, npes int) *node {
	t := c.t
	t.Helper()
	nd := &node{c: c, first: first, near: near, wake: make(chan struct{}, 1), ended: make(chan struct{}), pending: map[chan error]int{}}
	c.nodes = append(c.nodes, nd)
	var files []*os.File
	for i := range near {
		f, err := symheap.Create(symheap.Identity{PE: uint32(int(first) + i), NPEs: uint32(npes), Incarnation: 1}, 1<<20, symheap.WithWire())
		fatal(t, err)
		files = append(files, f)
	}
	st, err := files[0].Stat()
	fatal(t, err)
	nd.m, err = symheap.NewMap([16]byte{}, near, uint64(st.Size()))
	fatal(t, err)
	nd.page, err = failure.Create([16]byte{}, npes)
	fatal(t, err)
	t.Cleanup(func() { _ = nd.page.Close() })
	nd.view, err = failure.Attach(int(nd.page.File().Fd()), [16]byte{}, npes)
	fatal(t, err)
	for i, f := range files {
		fatal(t, nd.m.Attach(layout.Local(i), first+layout.PE(i), int(f.Fd())))
		fatal(t, f.Close())
		w := wait.NewWaiter(&nd.m.Control(layout.Local(i)).Bell, sleepEarly)
		w.Watch(nd.view)
		x := &process{of: nd, local: layout.Local(i), pe: first + layout.PE(i), w: w, dead: make(chan struct{}), kill: make(chan struct{})}
		if x.words = nd.m.Wire(x.local).Upper(); c.heap {
			x.words = new(layout.Upper)
		}
		c.pes = append(c.pes, x)
	}
	return nd
}

// start starts the agent of a node.
func (nd *node) start() {
	nd.teams = teams.New(teams.Config{
		Node: nd.index, Nodes: len(nd.c.nodes), Locals: nd.near, Radix: 2, World: allOf(len(nd.c.nodes)),
		Words: func(pe layout.Local) *layout.Upper { return nd.at(pe).words },
		Dead:  func(pe layout.Local) bool { return nd.dead[pe] },
		Wake:  func(pe layout.Local) { rma.Rouse(&nd.m.Control(pe).Bell) },
		Log:   func(err error) { nd.logs = append(nd.logs, err) },
		Send: func(to int, message []byte, _ bool) {
			if nd.sends > 0 {
				if nd.sends--; nd.sends == 0 {
					nd.c.killNode(nd.index)
					runtime.Goexit()
				}
			}
			if message = slices.Clone(message); !nd.lost[to] {
				nd.c.nodes[to].post(nd.index, func() {
					nd.c.nodes[to].teams.Receive(nd.index, message)
					clear(message) // the memory is used again
				})
			}
		},
	})
	go nd.run()
}

func (nd *node) at(pe layout.Local) *process { return nd.c.pes[int(nd.first)+int(pe)] }

// post gives an agent something to do.
func (nd *node) post(source int, f func()) {
	nd.mu.Lock()
	if !nd.killed {
		nd.inbox[source] = append(nd.inbox[source], f)
	}
	nd.mu.Unlock()
	nd.stir()
}

// order has an agent do what the test wants, and waits for it.
func (nd *node) order(f func()) {
	done := make(chan struct{})
	nd.post(len(nd.c.nodes), func() { f(); close(done) })
	select {
	case <-done:
	case <-nd.ended:
	}
}

func (nd *node) stir() {
	select {
	case nd.wake <- struct{}{}:
	default:
	}
}

// run is the agent.
func (nd *node) run() {
	defer close(nd.ended)
	for {
		select {
		case <-nd.c.over:
			return
		case <-nd.wake:
		}
		for again := true; again; {
			f, killed := nd.next()
			if killed {
				return
			}
			if again = f != nil; again {
				f()
			}
			again = nd.takeTeams() || again
		}
	}
}

// next returns what the agent does next, of a source by chance.
func (nd *node) next() (f func(), killed bool) {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	at := nd.rng.IntN(len(nd.inbox))
	for range nd.inbox {
		if q := nd.inbox[at]; len(q) > 0 {
			nd.inbox[at] = q[1:]
			return q[0], nd.killed
		}
		at = (at + 1) % len(nd.inbox)
	}
	return nil, nd.killed
}

// takeTeams takes the news of teams.
func (nd *node) takeTeams() (some bool) {
	for pe := range layout.Local(nd.near) {
		if nd.dead[pe] {
			continue
		}
		word := &nd.m.Wire(pe).Teams
		if atomic.LoadUint64(word) == 0 {
			continue
		}
		for id, all := 0, atomic.SwapUint64(word, 0); all != 0; id, all = id+1, all>>1 {
			if all&1 != 0 {
				some = true
				if err := nd.teams.Announced(pe, id); err != nil {
					nd.logs = append(nd.logs, fmt.Errorf("PE %d is accused: %w", pe, err))
				}
			}
		}
	}
	return some
}

// join makes a PE's side of the team of all PEs.
func (x *process) join() {
	c := x.of.c
	x.p = NewProcess(Config{
		Port: x, Words: x.words, Waiter: x.w, Failures: x.of.view, Offset: 0, First: layout.UpperFirstWorld,
		Dead: func(pe layout.PE) bool { x.breathe(); return x.of.view.Dead(int(pe), 1) },
		Near: func(pe layout.PE) *layout.Upper {
			x.breathe()
			if c.pes[pe].of != x.of {
				return nil
			}
			return c.pes[pe].words
		},
		Node:  func(pe layout.PE) (int, error) { x.breathe(); return c.pes[pe].of.index, nil },
		Local: func(pe layout.PE) layout.Local { return c.pes[pe].local },
	})
	var err error
	x.parts = x.part(false)
	x.world, err = New(x.p, x.parts, c.all)
	fatal(c.t, err)
}

// part returns a PE's side of the team of its node.
func (x *process) part(tolerant bool) *coll.Team {
	cfg := coll.Config{Map: x.of.m, Waiter: x.w, Me: int(x.local), ID: coll.ShmemWorld, Failures: x.of.view, Tolerant: tolerant}
	for i := range x.of.near {
		cfg.Members = append(cfg.Members, coll.Member{Local: layout.Local(i), PE: x.of.first + layout.PE(i)})
	}
	tm, err := coll.New(cfg)
	fatal(x.of.c.t, err)
	return tm
}

// Announce is Port.Announce.
func (x *process) Announce(id int) {
	x.breathe()
	atomic.OrUint64(&x.of.m.Wire(x.local).Teams, 1<<id)
	x.of.stir()
	x.breathe()
}

// patience is more than a collective of living members takes.
const patience = time.Minute

var errGone = ErrDead

// Get is Port.Get.
func (x *process) Get(_ context.Context, pe layout.PE, off uint64, data []byte) error {
	x.breathe()
	from := x.of.c.pes[pe]
	if x.of.view.Dead(int(pe), 1) {
		return errGone
	}
	done := make(chan error, 1)
	x.of.mu.Lock()
	x.of.pending[done] = from.of.index
	x.of.mu.Unlock()
	room := make([]byte, len(data))
	from.of.post(x.of.index, func() {
		copy(room, unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(from.words), int(off))), len(room)))
		select {
		case done <- nil:
		default:
		}
	})
	if x.of.view.Dead(int(pe), 1) { // its node may have been lost before the get was noted
		return errGone
	}
	select {
	case err := <-done:
		x.of.mu.Lock()
		delete(x.of.pending, done)
		x.of.mu.Unlock()
		if err == nil {
			copy(data, room)
		}
		return err
	case <-x.kill:
		x.die()
	case <-x.of.c.over:
		runtime.Goexit()
	}
	return nil
}

// breathe is where a PE may die.
func (x *process) breathe() {
	if x.dying.Load() || x.breaths.Load() > 0 && x.breaths.Add(-1) == 0 {
		x.die()
	}
}

// die ends what the PE does, without anything that Go does at the end of a function, and has its death become known.
func (x *process) die() {
	x.dying.Store(true)
	close(x.dead)
	x.of.c.bury(int(x.pe))
	<-x.of.c.over
	runtime.Goexit()
}

// lifetime is the context of a PE. It lasts as long as another one; a wait that looks at it is a moment when the PE may die.
type lifetime struct {
	context.Context
	x *process
}

func (l lifetime) Err() error {
	l.x.breathe()
	return l.Context.Err()
}

// bury makes the death of a PE known: to its agent, then to the page of its node, and at any time to those of others.
func (c *cluster) bury(pe int) {
	x := c.pes[pe]
	x.of.post(len(c.nodes), func() {
		x.of.dead[x.local] = true
		x.of.teams.Dies(x.local, atomic.SwapUint64(&x.of.m.Wire(x.local).Teams, 0))
		x.of.tell(pe)
	})
	for _, nd := range c.nodes {
		if nd != x.of {
			nd.post(len(c.nodes), func() { nd.tell(pe) })
		}
	}
}

// tell writes deaths on the page of a node.
func (nd *node) tell(pes ...int) {
	nd.page.PublishAll(pes, 1, failure.ByExit(1), 0)
	for i := range nd.near {
		rma.Rouse(&nd.m.Control(layout.Local(i)).Bell)
	}
}

// killPE kills a PE, whatever it does. If it does nothing, the caller buries it.
func (c *cluster) killPE(pe int) {
	x := c.pes[pe]
	if !x.dying.Swap(true) {
		close(x.kill)
	}
	rma.Rouse(&x.of.m.Control(x.local).Bell)
}

// killNode kills a node with its PEs. The others hear of it at any time.
func (c *cluster) killNode(index int) {
	nd := c.nodes[index]
	nd.mu.Lock()
	was := nd.killed
	nd.killed = true
	clear(nd.inbox)
	nd.mu.Unlock()
	if was {
		return
	}
	nd.stir()
	var pes []int
	for i := range nd.near {
		pes = append(pes, int(nd.first)+i)
		c.killPE(int(nd.first) + i)
	}
	for _, other := range c.nodes {
		if other != nd {
			other.post(len(c.nodes), func() { other.drop(index, pes) })
		}
	}
}

// drop is what an agent does when another node is lost.
func (nd *node) drop(index int, pes []int) {
	nd.lost[index] = true
	nd.mu.Lock()
	nd.inbox[index] = nil
	nd.mu.Unlock()
	nd.teams.DropNode(index)
	nd.tell(pes...)
	nd.mu.Lock()
	defer nd.mu.Unlock()
	for done, from := range nd.pending {
		if from == index {
			select {
			case done <- errGone:
			default:
			}
		}
	}
}

// each runs body for some PEs at once, and returns the errors of those that live to the end of it.
func (c *cluster) each(pes []int, body func(ctx context.Context, x *process) error) []error {
	c.t.Helper()
	errs := make([]error, len(c.pes))
	done := make([]chan struct{}, len(c.pes))
	for _, pe := range pes {
		done[pe] = make(chan struct{})
		go func() {
			x := c.pes[pe]
			err := body(lifetime{c.t.Context(), x}, x)
			x.breathe()
			errs[pe] = err
			close(done[pe])
		}()
	}
	for _, pe := range pes {
		select {
		case <-done[pe]:
		case <-c.pes[pe].dead:
			errs[pe] = errGone
		case <-time.After(patience):
			c.t.Fatalf("PE %d hangs:\n%s", pe, c.describe())
		}
	}
	return errs
}

// describe tells where the PEs are.
func (c *cluster) describe() string {
	room := make([]byte, 1<<20)
	return string(room[:runtime.Stack(room, true)])
}

// but returns the numbers of all PEs but some.
func (c *cluster) but(those ...int) (pes []int) {
	for pe := range c.pes {
		if !slices.Contains(those, pe) {
			pes = append(pes, pe)
		}
	}
	return pes
}

// asleep waits until some PEs sleep.
func (c *cluster) asleep(pes ...int) {
	for _, pe := range pes {
		x := c.pes[pe]
		for atomic.LoadUint32(&x.of.m.Control(x.local).Bell.Sleeping)&layout.BellAsleep == 0 {
			runtime.Gosched()
		}
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func allOf(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// wantAll fails the test unless the PEs have the same error of a type.
func wantAll[E error](t *testing.T, pes []int, errs []error) {
	t.Helper()
	for _, pe := range pes {
		if _, is := errors.AsType[E](errs[pe]); !is {
			t.Fatalf("PE %d: %v, want a %v", pe, errs[pe], reflect.TypeFor[E]())
		}
		if errs[pe].Error() != errs[pes[0]].Error() {
			t.Fatalf("PE %d: %v, PE %d: %v, want the same", pe, errs[pe], pes[0], errs[pes[0]])
		}
	}
}

// meet is a step without arguments.
func meet(ctx context.Context, t *Team) error {
	d, err := t.Same(ctx, coll.Words{1})
	if err == nil && d.Differs >= 0 {
		err = fmt.Errorf("member %d differs", d.Differs)
	}
	return err
}
