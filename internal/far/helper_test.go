package far

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// rig is PE 0 of a job of several nodes, with a test agent that plays everybody else.
type rig struct {
	*Port
	t     testing.TB
	c     Config
	near  int
	own   *symheap.Map  // of node 0, as PE 0 sees it
	agent *testAgent    // has maps of all nodes
	page  *failure.Page // deaths
	heap  uint64        // bytes of a heap
}

const heapSize = 4 * layout.Align

// newRig returns a rig of nodes with near PEs each.
func newRig(t testing.TB, nodes, near int) *rig {
	t.Helper()
	return newRigWith(t, nodes, near, xunix.MembarrierRegister() == nil)
}

// newRigWith is newRig for kernels with and without membarrier.
func newRigWith(t testing.TB, nodes, near int, barrier bool) *rig {
	t.Helper()
	r := &rig{t: t, near: near, heap: heapSize}
	a := &testAgent{
		t: t, near: near, page: new(layout.AgentPage), rng: rand.New(rand.NewPCG(1, 2)),
		streams: map[[2]uint32]*agentStream{}, stopped: map[int]bool{}, dead: map[layout.PE]bool{}, lost: map[int]bool{},
		ended: make(chan struct{}), barrier: barrier,
	}
	if !barrier {
		rma.AskLocked(&a.page.Bell)
	}
	r.agent = a
	for node := range nodes {
		m := r.newMap(near)
		var own *symheap.Map
		if node == 0 {
			own = r.newMap(near)
			r.own = own
		}
		for i := range near {
			pe := node*near + i
			f, err := symheap.Create(symheap.Identity{PE: uint32(pe), NPEs: uint32(nodes * near), Incarnation: 1}, heapSize, symheap.WithWire())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []*symheap.Map{m, own} {
				if m == nil {
					continue
				}
				if err := m.Attach(layout.Local(i), layout.PE(pe), int(f.Fd())); err != nil {
					t.Fatal(err)
				}
			}
			_ = f.Close()
		}
		a.maps = append(a.maps, m)
	}
	a.wire = a.maps[0].Wire(0)
	fd, err := xunix.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	a.fd, a.event = fd, os.NewFile(uintptr(fd), "event")
	r.setPort(nodes)
	go a.run()
	t.Cleanup(func() {
		a.change(func() { a.over = true })
		<-a.ended
		_ = a.event.Close()
	})
	return r
}

func (r *rig) newMap(near int) *symheap.Map {
	r.t.Helper()
	m, err := symheap.NewMap([16]byte{}, near, layout.HeapOffset+heapSize+layout.WireSize)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// setPort makes the Port.
func (r *rig) setPort(nodes int) {
	t, a := r.t, r.agent
	var err error
	if r.page, err = failure.Create([16]byte{}, nodes*r.near); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.page.Close() })
	view, err := failure.Attach(int(r.page.File().Fd()), [16]byte{}, nodes*r.near)
	if err != nil {
		t.Fatal(err)
	}
	w := wait.NewWaiter(&r.own.Control(0).Bell, wait.PolicyFor(2, runtime.NumCPU()))
	w.Watch(view)
	dead := func(pe layout.PE) error {
		if view.Dead(int(pe), 1) {
			return fmt.Errorf("PE %d was killed", pe)
		}
		return nil
	}
	r.c = Config{
		Wire: r.own.Wire(0), Base: r.own.Segment(0), Size: r.own.Size(), Agent: &a.page.Bell, Event: a.fd, Waiter: w, Nodes: nodes,
		Home: func(pe layout.PE) (int, layout.Local) { return int(pe) / r.near, layout.Local(int(pe) % r.near) },
		Dead: dead,
		Lost: func(node int) error {
			for i := range r.near {
				if dead(layout.PE(node*r.near+i)) == nil {
					return nil
				}
			}
			return fmt.Errorf("node %d is lost", node)
		},
	}
	if r.Port, err = New(r.c); err != nil {
		t.Fatal(err)
	}
}

// kill makes a PE die, in the order of a node: agent, page, bell.
func (r *rig) kill(pe layout.PE) {
	r.agent.change(func() { r.agent.dead[pe] = true })
	r.page.Publish(int(pe), 1, failure.ByExit(1), 0)
	rma.Rouse(&r.own.Control(0).Bell)
}

// lose makes a node die.
func (r *rig) lose(node int) {
	r.agent.change(func() { r.agent.lost[node] = true })
	for i := range r.near {
		r.page.Publish(node*r.near+i, 1, failure.ByExit(1), 0)
	}
	rma.Rouse(&r.own.Control(0).Bell)
}

func (r *rig) stop(node int, yes bool) { r.agent.change(func() { r.agent.stopped[node] = yes }) }

// memory returns the heap of a PE as its node sees it.
func (r *rig) memory(pe int) []byte {
	m := r.agent.maps[pe/r.near]
	return unsafe.Slice((*byte)(unsafe.Add(m.Segment(layout.Local(pe%r.near)), layout.HeapOffset)), r.heap)
}

// mine returns the heap of PE 0 as the PE sees it.
func (r *rig) mine() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(r.own.Segment(0), layout.HeapOffset)), r.heap)
}

// quietOf fails the test if Quiet does.
func (r *rig) quietOf(t *Touched) {
	r.t.Helper()
	ctx, cancel := limit(r.t)
	defer cancel()
	if err := r.Quiet(ctx, t); err != nil {
		r.t.Fatal(err)
	}
}

// limit returns a context that ends only if something hangs.
func limit(t testing.TB) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), time.Minute)
}

// brief returns a context that ends soon: the test expects a wait to go on until then.
func brief(t testing.TB) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), 20*time.Millisecond)
}

// at returns the address of the first byte.
func at(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// wantDead checks that an error names a dead PE (-1: a node).
func wantDead(t testing.TB, err error, pe layout.PE) {
	t.Helper()
	var dead *DeadError
	if !errors.As(err, &dead) || dead.PE != pe {
		t.Errorf("got error %v, want one that names PE %d", err, pe)
	}
}

// awaitAsleep waits until a goroutine of the PE sleeps.
func (r *rig) awaitAsleep(ctx context.Context) {
	bell := &r.own.Control(0).Bell
	for atomic.LoadUint32(&bell.Sleeping)&layout.BellAsleep == 0 && ctx.Err() == nil {
		runtime.Gosched()
	}
}
