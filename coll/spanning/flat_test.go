package spanning

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// cluster is a job of several nodes in one process. Each node has segments and a failure page of its own. Goroutines
// stand for the PEs. What a PE sends is carried by a goroutine of its own, as an agent would.
type cluster struct {
	nodes []*node
	pes   []*process // by PE
}

type node struct {
	m     *symheap.Map
	page  *failure.Page
	view  *failure.View
	first layout.PE
	near  int
}

type process struct {
	of    *node
	local layout.Local
	pe    layout.PE
	w     *wait.Waiter
	p     *Process
	world *Team
	queue chan func()
}

// sleepEarly makes waits sleep early and without a timeout, so a missing wake-up is a hang.
var sleepEarly = wait.Policy{Polls: 20, First: time.Hour, Most: time.Hour}

// newCluster makes a job with so many PEs on each node.
func newCluster(t *testing.T, near ...int) *cluster {
	t.Helper()
	c := &cluster{}
	n := 0
	for _, k := range near {
		n += k
	}
	first := layout.PE(0)
	for _, k := range near {
		c.nodes = append(c.nodes, c.newNode(t, first, k, n))
		first += layout.PE(k)
	}
	var all []layout.PE
	for _, x := range c.pes {
		all = append(all, x.pe)
	}
	for _, x := range c.pes {
		x.join(t, c, all)
	}
	return c
}

// newNode makes the segments of a node.
func (c *cluster) newNode(t *testing.T, first layout.PE, near, npes int) *node {
	t.Helper()
	nd := &node{first: first, near: near}
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
		c.pes = append(c.pes, &process{of: nd, local: layout.Local(i), pe: first + layout.PE(i), w: w})
	}
	return nd
}

// join makes a PE's side of the team of all PEs.
func (x *process) join(t *testing.T, c *cluster, all []layout.PE) {
	t.Helper()
	x.queue = make(chan func(), 1024)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for f := range x.queue {
			f()
		}
	}()
	t.Cleanup(func() { close(x.queue); <-done })
	wire := x.of.m.Wire(x.local)
	x.p = NewProcess(Config{
		Port: courier{c, x}, Words: wire.Upper(), Waiter: x.w, Failures: x.of.view,
		Offset: uint64(uintptr(unsafe.Pointer(wire.Upper())) - uintptr(x.of.m.Segment(x.local))),
		Dead:   func(pe layout.PE) bool { return x.of.view.Dead(int(pe), 1) },
		Near: func(pe layout.PE) *layout.Upper {
			if c.pes[pe].of != x.of {
				return nil
			}
			return x.of.m.Wire(c.pes[pe].local).Upper()
		},
		Node: func(pe layout.PE) (int, error) { return slices.Index(c.nodes, c.pes[pe].of), nil },
	})
	var err error
	x.world, err = New(x.p, x.part(t), all)
	fatal(t, err)
}

// part returns a PE's side of the team of its node.
func (x *process) part(t *testing.T) *coll.Team {
	t.Helper()
	cfg := coll.Config{Map: x.of.m, Waiter: x.w, Me: int(x.local), ID: coll.ShmemWorld, Failures: x.of.view}
	for i := range x.of.near {
		cfg.Members = append(cfg.Members, coll.Member{Local: layout.Local(i), PE: x.of.first + layout.PE(i)})
	}
	tm, err := coll.New(cfg)
	fatal(t, err)
	return tm
}

// courier carries lines to other PEs.
type courier struct {
	c *cluster
	x *process
}

func (k courier) Send(_ context.Context, pe layout.PE, off uint64, data []byte, word uint64) error {
	to := k.c.pes[pe]
	data = slices.Clone(data)
	k.x.queue <- func() {
		at := unsafe.Add(to.of.m.Segment(to.local), int(off))
		if data != nil {
			copy(unsafe.Slice((*byte)(unsafe.Add(at, 8)), len(data)), data)
		}
		atomic.StoreUint64((*uint64)(at), word)
		rma.Rouse(&to.of.m.Control(to.local).Bell)
	}
	return nil
}

func (k courier) Get(_ context.Context, pe layout.PE, off uint64, data []byte) error {
	to := k.c.pes[pe]
	done := make(chan struct{})
	k.x.queue <- func() {
		copy(data, unsafe.Slice((*byte)(unsafe.Add(to.of.m.Segment(to.local), int(off))), len(data)))
		close(done)
	}
	<-done
	return nil
}

func (k courier) Complete(context.Context) error {
	done := make(chan struct{})
	k.x.queue <- func() { close(done) }
	<-done
	return nil
}

// publish tells every node of the death of a PE.
func (c *cluster) publish(pe int) {
	for _, nd := range c.nodes {
		nd.page.Publish(pe, 1, failure.ByExit(1), 0)
		for i := range nd.near {
			rma.Rouse(&nd.m.Control(layout.Local(i)).Bell)
		}
	}
}

// each runs body for some PEs at once, and returns their errors.
func (c *cluster) each(pes []int, body func(x *process) error) []error {
	var wg sync.WaitGroup
	errs := make([]error, len(c.pes))
	for _, pe := range pes {
		wg.Go(func() { errs[pe] = body(c.pes[pe]) })
	}
	wg.Wait()
	return errs
}

// all returns the numbers of all PEs but some.
func (c *cluster) all(but ...int) (pes []int) {
	for pe := range c.pes {
		if !slices.Contains(but, pe) {
			pes = append(pes, pe)
		}
	}
	return pes
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// meet is a step without arguments.
func meet(ctx context.Context, t *Team) error {
	differs, _, _, err := t.Same(ctx, coll.Words{1})
	if err == nil && differs >= 0 {
		err = fmt.Errorf("member %d differs", differs)
	}
	return err
}

// A step ends on all members when all have entered it, with the same decision. Nobody is ahead of a step that another
// member has not entered.
func TestSame(t *testing.T) {
	for _, near := range [][]int{{1, 1}, {2, 1}, {1, 2}, {3, 2, 1}, {1, 1, 1, 1}} {
		t.Run(fmt.Sprint(near), func(t *testing.T) {
			c := newCluster(t, near...)
			var entered atomic.Int64
			errs := c.each(c.all(), func(x *process) error {
				for round := range int64(300) {
					entered.Add(1)
					w := coll.Words{uint64(round), 1, 2, 3}
					odd := int(round) % (2 * len(c.pes))
					if odd == int(x.pe) && odd > 0 {
						w[1] = 9
					}
					differs, first, other, err := x.world.Same(t.Context(), w)
					if err != nil {
						return err
					}
					if n := entered.Load(); n < (round+1)*int64(len(c.pes)) {
						return fmt.Errorf("round %d ended when %d had entered", round, n)
					}
					want := coll.Words{uint64(round), 1, 2, 3}
					if odd == 0 || odd >= len(c.pes) {
						odd = -1
					}
					if differs != odd || first != want || differs >= 0 && other != (coll.Words{uint64(round), 9, 2, 3}) {
						return fmt.Errorf("round %d: member %d differs, %v and %v, want %d", round, differs, first, other, odd)
					}
				}
				return nil
			})
			fatal(t, errors.Join(errs...))
		})
	}
}

// Of several members that differ, the lowest is named.
func TestLowestDiffers(t *testing.T) {
	c := newCluster(t, 2, 3, 2)
	for _, odd := range [][]int{{1}, {2, 3}, {4, 6}, {1, 5}, {6}, {3}} {
		errs := c.each(c.all(), func(x *process) error {
			w := coll.Words{5}
			if slices.Contains(odd, int(x.pe)) {
				w[0] = uint64(x.pe)
			}
			differs, first, other, err := x.world.Same(t.Context(), w)
			if err == nil && (differs != odd[0] || first[0] != 5 || other[0] != uint64(odd[0])) {
				err = fmt.Errorf("member %d differs with %v from %v, want %d", differs, other, first, odd[0])
			}
			return err
		})
		fatal(t, errors.Join(errs...))
	}
}

// Gather passes what each member gives, and what it gives next does not disturb members that still read.
func TestGather(t *testing.T) {
	c := newCluster(t, 2, 1, 2)
	errs := c.each(c.all(), func(x *process) error {
		for round := range 200 {
			mine := make([]byte, 1+round*5)
			for i := range mine {
				mine[i] = byte(int(x.pe) + round + i)
			}
			from := allOf(round % 6)
			next := 0
			differs, _, err := x.world.Gather(t.Context(), coll.Words{uint64(round)}, mine, from, func(i int, data []byte) {
				if i != next || len(data) != len(mine) || data[0] != byte(i+round) || data[len(data)-1] != byte(i+round+len(mine)-1) {
					next = -1000
				}
				next++
			})
			if err != nil || differs >= 0 || next != len(from) {
				return fmt.Errorf("round %d: %d of %d members, member %d differs, error %w", round, next, len(from), differs, err)
			}
		}
		differs, first, err := x.world.Gather(t.Context(), coll.Words{uint64(x.pe)/3 + 1}, nil, allOf(5), nil)
		if err != nil || differs != 3 || first != (coll.Words{1}) {
			return fmt.Errorf("member %d differs from %v, error %w, want member 3 from 1", differs, first, err)
		}
		return nil
	})
	fatal(t, errors.Join(errs...))
}

// Split makes teams on one node and teams that span nodes, in any order of members. They work, and end, and their ids
// are used again more often than there are ids.
func TestSplit(t *testing.T) {
	c := newCluster(t, 2, 3, 1)
	lists := [][][]int{ // the teams of each Split
		{{0, 1, 2, 3, 4, 5}},
		{{5, 4, 3, 2, 1, 0}},
		{{0, 1}, {2, 3, 4}, {5}},
		{{0, 2, 4}, {1, 3, 5}},
		{{4, 1}, {5, 2}},
		{{3, 5, 0}},
		{{1}},
	}
	errs := c.each(c.all(), func(x *process) error {
		for round := range 3 * layout.UpperTeams {
			var mine []int
			for _, l := range lists[round%len(lists)] {
				if slices.Contains(l, int(x.pe)) {
					mine = l
				}
			}
			made, err := x.world.Split(t.Context(), 7, mine, false)
			if err == nil {
				err = x.check(t, made, mine)
			}
			if err != nil {
				return fmt.Errorf("PE %d, round %d: %w", x.pe, round, err)
			}
		}
		return nil
	})
	fatal(t, errors.Join(errs...))
	for _, x := range c.pes {
		if x.p.used != 1<<WorldID {
			t.Errorf("PE %d has upper ids %#x in use at the end", x.pe, x.p.used)
		}
	}
}

// check uses a team that Split has made of some members of the world, and dissolves it.
func (x *process) check(t *testing.T, made Made, members []int) error {
	switch {
	case len(members) == 0:
		if made != (Made{}) {
			return fmt.Errorf("no list, and a team %+v", made)
		}
		return nil
	case made.Near != nil:
		if made.Far != nil || made.Near.Size() != len(members) {
			return fmt.Errorf("list %v, and a team of %d", members, made.Near.Size())
		}
		if err := made.Near.Sync(t.Context()); err != nil {
			return err
		}
		return made.Near.Dissolve(t.Context())
	case made.Far.Size() != len(members):
		return fmt.Errorf("list %v, and a team of %d", members, made.Far.Size())
	}
	for range 3 {
		if err := meet(t.Context(), made.Far); err != nil {
			return err
		}
	}
	differs, _, _, err := made.Far.Same(t.Context(), coll.Words{uint64(x.pe)})
	if err != nil || differs != 1 {
		return fmt.Errorf("member %d differs, error %w, want member 1", differs, err)
	}
	again, err := made.Far.Split(t.Context(), 8, allOf(len(members)), false)
	if err != nil {
		return err
	}
	if err := meet(t.Context(), again.Far); err != nil {
		return err
	}
	if err := again.Far.Dissolve(t.Context(), coll.Words{}); err != nil {
		return err
	}
	if err := made.Far.Dissolve(t.Context(), coll.Words{}); err != nil {
		return err
	}
	if err := meet(t.Context(), made.Far); !errors.Is(err, coll.ErrReleased) {
		return fmt.Errorf("a dissolved team: %w, want ErrReleased", err)
	}
	return nil
}

func allOf(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// Bad lists, other calls and too many teams are errors on all members alike, and the team goes on.
func TestSplitRefused(t *testing.T) {
	c := newCluster(t, 2, 2)
	split := func(list func(pe int) []int, kind func(pe int) uint64) []error {
		return c.each(c.all(), func(x *process) error {
			made, err := x.world.Split(t.Context(), kind(int(x.pe)), list(int(x.pe)), false)
			if err == nil {
				return x.check(t, made, list(int(x.pe)))
			}
			return err
		})
	}
	same := func(int) uint64 { return 3 }
	wantAll[*coll.MembersError](t, c.all(), split(func(pe int) []int {
		if pe == 3 {
			return []int{0, 1, 2}
		}
		return []int{0, 1, 2, 3}
	}, same))
	wantAll[*coll.MembersError](t, c.all(), split(func(int) []int { return []int{0, 9} }, same))
	wantAll[*coll.OtherError](t, c.all(), split(func(int) []int { return []int{0, 1, 2, 3} }, func(pe int) uint64 { return uint64(pe / 2) }))
	fatal(t, errors.Join(split(func(int) []int { return []int{0, 1, 2, 3} }, same)...))

	var made [4][]Made
	errs := c.each(c.all(), func(x *process) error {
		for {
			m, err := x.world.Split(t.Context(), 3, allOf(4), false)
			if errors.Is(err, coll.ErrNoID) {
				return nil
			}
			if err != nil {
				return err
			}
			made[x.pe] = append(made[x.pe], m)
		}
	})
	fatal(t, errors.Join(errs...))
	errs = c.each(c.all(), func(x *process) error {
		for _, m := range made[x.pe] {
			if err := m.Far.Dissolve(t.Context(), coll.Words{}); err != nil {
				return err
			}
		}
		return nil
	})
	fatal(t, errors.Join(errs...))
	if len(made[0]) < 50 {
		t.Errorf("%d teams at once, want some 60", len(made[0]))
	}
	fatal(t, errors.Join(split(func(int) []int { return []int{0, 1, 2, 3} }, same)...))
}

// wantAll fails the test unless the PEs have the same error of a type.
func wantAll[E error](t *testing.T, pes []int, errs []error) {
	t.Helper()
	for _, pe := range pes {
		e, is := errors.AsType[E](errs[pe])
		if !is {
			t.Fatalf("PE %d: %v, want a %v", pe, errs[pe], reflect.TypeFor[E]())
		}
		if errs[pe].Error() != errs[pes[0]].Error() {
			t.Fatalf("PE %d: %v, PE %d: %v, want the same", pe, e, pes[0], errs[pes[0]])
		}
	}
}

// A death ends the step, and all later ones, with an error that names the dead, whichever PE it is: the root, a leader,
// or another member.
func TestDeath(t *testing.T) {
	for victim := range 6 {
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			c := newCluster(t, 2, 2, 2)
			var wg sync.WaitGroup
			wg.Go(func() { // the death comes when all others wait
				for _, pe := range c.all(victim) {
					x := c.pes[pe]
					for atomic.LoadUint32(&x.of.m.Control(x.local).Bell.Sleeping)&layout.BellAsleep == 0 {
						runtime.Gosched()
					}
				}
				c.publish(victim)
			})
			for range 2 {
				errs := c.each(c.all(victim), func(x *process) error { return meet(t.Context(), x.world) })
				wg.Wait()
				wantAll[*coll.DeadError](t, c.all(victim), errs)
				if e, _ := errors.AsType[*coll.DeadError](errs[c.all(victim)[0]]); !slices.Equal(e.Members, []int{victim}) {
					t.Errorf("dead members %v, want %d", e.Members, victim)
				}
			}
		})
	}
}

// If a member's context ends while it waits, that member is told so, and all others get ErrBroken, in this step or in
// the next one.
func TestContextEnds(t *testing.T) {
	for late := range 6 {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			c := newCluster(t, 2, 2, 2)
			missing := (late + 3) % 6 // comes only when the other has given up
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() {
				x := c.pes[late]
				for atomic.LoadUint32(&x.of.m.Control(x.local).Bell.Sleeping)&layout.BellAsleep == 0 {
					runtime.Gosched()
				}
				cancel()
				rma.Rouse(&x.of.m.Control(x.local).Bell)
			}()
			errs := c.each(c.all(), func(x *process) error {
				mine := t.Context()
				switch int(x.pe) {
				case late:
					defer close(gone)
					mine = ctx
				case missing:
					<-gone
				}
				err := meet(mine, x.world)
				if err == nil {
					err = meet(mine, x.world)
				}
				return err
			})
			for pe, err := range errs {
				want := coll.ErrBroken
				if pe == late {
					want = context.Canceled
				}
				if !errors.Is(err, want) {
					t.Errorf("PE %d: %v, want %v", pe, err, want)
				}
			}
		})
	}
}

// One collective at a time is under way on a team in a PE.
func TestConcurrent(t *testing.T) {
	c := newCluster(t, 1, 1)
	x := c.pes[1]
	x.world.busy.Store(true)
	if err := meet(t.Context(), x.world); !errors.Is(err, coll.ErrConcurrent) {
		t.Errorf("second collective at once: %v, want ErrConcurrent", err)
	}
	if err := x.world.Dissolve(t.Context(), coll.Words{}); !errors.Is(err, coll.ErrConcurrent) {
		t.Errorf("Dissolve during a collective: %v, want ErrConcurrent", err)
	}
	x.world.busy.Store(false)
	fatal(t, errors.Join(c.each(c.all(), func(x *process) error { return meet(t.Context(), x.world) })...))
}

// A record says the same in whatever order parts are folded that keeps the nodes' order.
func TestFold(t *testing.T) {
	a := record{first: coll.Words{1}, and: 7, top: 3, member: 0, differs: -1, who: -1}
	b := record{first: coll.Words{1}, other: coll.Words{4}, and: 5, top: 9, member: 1, differs: 3, who: -1}
	d := record{first: coll.Words{2}, and: 13, top: 1, member: 2, differs: -1, who: 5, fault: dead}
	left, right := a, b
	left.fold(&b)
	left.fold(&d)
	right.fold(&d)
	whole := a
	whole.fold(&right)
	want := record{first: coll.Words{1}, other: coll.Words{2}, and: 5, top: 9, member: 0, differs: 2, who: 5, fault: dead}
	if left != want || whole != want {
		t.Errorf("folded to\n%+v and\n%+v, want\n%+v", left, whole, want)
	}
}
