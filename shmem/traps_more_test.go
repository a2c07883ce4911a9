package shmem_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// "Broadcast: the team version UPDATES dest on the root too; the active-set version does
// NOT. PE_root is team-relative."
func TestTrap10BroadcastReachesTheRoot(t *testing.T) {
	shmemtest.Run(t, 5, func(t *testing.T, w *shmem.World) {
		src := must(shmem.Calloc[int](w, 3))(t)
		dst := must(shmem.Calloc[int](w, 3))(t)
		for i := range src.Local() {
			src.Local()[i] = 100*w.MyPE() + i
		}
		team := must(w.Team().SplitStrided(4, -2, 3, nil))(t) // PEs 4, 2 and 0
		ok(t, w.Sync())
		want := []int{0, 0, 0}
		if team != nil {
			ok(t, shmem.Broadcast(team, dst, src, 1))
			want = []int{200, 201, 202}
			if err := shmem.Broadcast(team, dst, src, 4); !errors.Is(err, shmem.ErrPERange) {
				t.Errorf("root 4 of a team of 3: %v, want ErrPERange", err)
			}
		}
		if !slices.Equal(dst.Local(), want) {
			t.Errorf("PE %d holds %v, want %v", w.MyPE(), dst.Local(), want)
		}
	})
}

// "collect: nelems may differ per PE (needs prefix scan); fcollect same. alltoalls:
// strides in elements, block offset = stride*k*nelems - the spec text 'sst*l-th block' is
// ambiguous; follow SOS + example. strides >= 1."
func TestTrap11CountsDifferAndStridesRunOn(t *testing.T) {
	shmemtest.Run(t, 5, func(t *testing.T, w *shmem.World) {
		me, n := w.MyPE(), w.NPEs()
		src := must(shmem.Calloc[int](w, 64))(t)
		dst := must(shmem.Calloc[int](w, 64))(t)
		for i := range src.Local() {
			src.Local()[i] = 100*me + i
		}
		ok(t, w.Sync())
		ok(t, shmem.Collect(w.Team(), dst, src.Slice(0, 4-me))) // 4, 3, 2, 1 and none
		want := make([]int, 64)
		copy(want, []int{0, 1, 2, 3, 100, 101, 102, 200, 201, 300})
		if !slices.Equal(dst.Local(), want) {
			t.Errorf("Collect wrote %v, want %v", dst.Local(), want)
		}
		ok(t, w.Sync())
		clear(dst.Local())
		ok(t, w.Sync())
		const each, ds, ss = 2, 3, 4
		ok(t, shmem.AlltoallS(w.Team(), dst, src, shmem.Stride{Dst: ds, Src: ss, N: each}))
		clear(want)
		for from := range n {
			for k := range each {
				want[(from*each+k)*ds] = 100*from + (me*each+k)*ss
			}
		}
		if !slices.Equal(dst.Local(), want) {
			t.Errorf("AlltoallS wrote %v, want %v", dst.Local(), want)
		}
		for _, s := range []shmem.Stride{{Dst: 0, Src: 1, N: 1}, {Dst: 1, Src: 0, N: 1}, {Dst: -1, Src: 1, N: 1}} {
			if err := shmem.AlltoallS(w.Team(), dst, src, s); !errors.Is(err, shmem.ErrArgument) {
				t.Errorf("%+v: %v, want ErrArgument", s, err)
			}
		}
	})
}

// "wait_until_any returns SIZE_MAX and wait_until_some 0 on an empty wait set; test_any
// SIZE_MAX if none; test_all returns 1 on empty (1.6). status!=0 means EXCLUDED; the
// routine doesn't write status. Fairness: repeated calls must eventually return every
// satisfied index (don't always scan from 0). wait_until_all is easy to get wrong."
func TestTrap12EmptySetsAndFairness(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		const n = 7
		c := w.Ctx()
		x := must(shmem.Calloc[int32](w, n))(t)
		idx := make([]int, n)
		all := slices.Repeat([]bool{true}, n)
		for what, x := range map[string]shmem.Sym[int32]{"all are skipped": x, "no elements": x.Slice(3, 3)} {
			skip := all[:x.Len()]
			if i := must(shmem.WaitUntilAny(c, x, skip, shmem.EQ, 9))(t); i != -1 {
				t.Errorf("%s: WaitUntilAny returned %d, want -1", what, i)
			}
			if k := must(shmem.WaitUntilSome(c, x, idx, skip, shmem.EQ, 9))(t); k != 0 {
				t.Errorf("%s: WaitUntilSome returned %d, want 0", what, k)
			}
			ok(t, shmem.WaitUntilAll(c, x, skip, shmem.EQ, 9))
			if i := must(shmem.TestAny(c, x, skip, shmem.EQ, 9))(t); i != -1 {
				t.Errorf("%s: TestAny returned %d, want -1", what, i)
			}
			if !must(shmem.TestAll(c, x, skip, shmem.EQ, 9))(t) {
				t.Errorf("%s: TestAll returned false, want true", what)
			}
		}
		if i := must(shmem.TestAny(c, x, nil, shmem.EQ, 9))(t); i != -1 {
			t.Errorf("TestAny returned %d although no element satisfies it, want -1", i)
		}
		skip := []bool{true, false, true, false, false, true, false}
		before := slices.Clone(skip)
		for what, next := range map[string]func() int{
			"WaitUntilAny":  func() int { return must(shmem.WaitUntilAny(c, x, skip, shmem.EQ, 0))(t) },
			"TestAny":       func() int { return must(shmem.TestAny(c, x, skip, shmem.EQ, 0))(t) },
			"WaitUntilSome": func() int { must(shmem.WaitUntilSome(c, x, idx[:1], skip, shmem.EQ, 0))(t); return idx[0] },
			"TestSome":      func() int { must(shmem.TestSome(c, x, idx[:1], skip, shmem.EQ, 0))(t); return idx[0] },
		} {
			seen := make([]bool, n)
			for range 10 * n {
				seen[next()] = true
			}
			for i := range seen {
				if seen[i] == skip[i] {
					t.Errorf("%s: element %d was returned: %v, skipped: %v", what, i, seen[i], skip[i])
				}
			}
		}
		if !slices.Equal(skip, before) {
			t.Errorf("skip is now %v, want it unchanged: %v", skip, before)
		}
		ok(t, w.Barrier()) // no PE changes elements while another one still looks for zeros
		// Elements are satisfied one after the other, each for a short time. Each counts once.
		if w.MyPE() == 0 {
			ok(t, shmem.WaitUntilAll(c, x, nil, shmem.NE, 0))
			return
		}
		for i := range n {
			ok(t, shmem.P(c, x.At(i), 1, 0))
			spinFor(50_000)
		}
	})
}

// "AMO atomicity only among same datatype and same atomicity domain (contexts from teams
// split from the same predefined team: WORLD and SHARED are different domains); not
// against plain load/store or put; but wait/test are included."
//
// Here there is one domain: all contexts of all teams.
func TestTrap13AtomicsAndWaitsAgree(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		const turns = 20_000
		n := w.NPEs()
		x := must(shmem.Calloc[uint64](w, 2))(t)
		sub := must(w.Team().SplitStrided(0, 1, n, nil))(t)
		contexts := []*shmem.Ctx{
			w.Ctx(), must(w.Team().NewCtx())(t), must(sub.NewCtx())(t), w.Ctx(),
		}
		home := n - 1
		at := [4]int{home, home, home, home} // the number of the PE in each context's team
		if i, near := w.Team().Translate(home, w.Shared()); near {
			contexts[3], at[3] = must(w.Shared().NewCtx())(t), i
		}
		last := uint64(0)
		for i := range turns {
			ok(t, shmem.AtomicAdd(contexts[i%4], x, 1<<32+1, at[i%4])) // changes both halves in one operation
			v := must(shmem.AtomicFetch(contexts[(i+1)%4], x, at[(i+1)%4]))(t)
			if v>>32 != v&(1<<32-1) || v < last {
				t.Fatalf("turn %d: fetched %#x after the larger %#x", i, v, last)
			}
			last = v
			if w.MyPE() == home {
				if !must(shmem.Test(w.Ctx(), x, shmem.GE, last))(t) {
					t.Fatalf("turn %d: a test saw less than %#x", i, last)
				}
			}
		}
		if w.MyPE() == home {
			ok(t, shmem.WaitUntil(w.Ctx(), x, shmem.EQ, uint64(turns*n)*(1<<32+1)))
		}
		ok(t, w.Barrier())
	})
}

// "Locks: zero-initialized long in symmetric memory, FIFO guaranteed for set_lock,
// non-reentrant, clear_lock does quiet on the default context first; test_lock 0=acquired
// 1=busy."
func TestTrap14LocksServeInOrder(t *testing.T) {
	shmemtest.Run(t, 5, func(t *testing.T, w *shmem.World) {
		c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
		l := must(shmem.NewLock(w))(t)
		order := must(shmem.Calloc[int](w, n+1))(t)
		asked := must(shmem.Calloc[int](w, 1))(t)
		for turn := range 20 {
			first := turn % n
			// The PEs ask for the lock one after the other, while the first one holds it.
			if me == first {
				mustAcquire(t, l, c)
				if _, err := l.Acquire(c); !errors.Is(err, shmem.ErrLockHeld) {
					t.Fatalf("the holder acquired the lock again: %v", err)
				}
				if _, got, err := l.Try(c); got || err != nil {
					t.Fatalf("Try by the holder returned %v, %v", got, err)
				}
				for k := 1; k < n; k++ {
					ok(t, shmem.P(c, asked, turn+1, (first+k)%n))
					waitForQueue(t, w, l, k+1)
				}
			} else {
				ok(t, shmem.WaitUntil(c, asked, shmem.EQ, turn+1))
				if got := tryLock(t, l, c); got {
					t.Fatal("Try got a lock that another PE holds")
				}
				mustAcquire(t, l, c)
			}
			at := must(shmem.G(c, order.At(n), 0))(t)
			ok(t, shmem.P(c, order.At(at), me, 0))
			ok(t, shmem.PutNBI(c, order.At(n), []int{at + 1}, 0))
			ok(t, l.Release(c)) // completes the puts
			ok(t, w.Barrier())
			if me == 0 {
				for k, pe := range order.Local()[:n] {
					if pe != (first+k)%n {
						t.Fatalf("turn %d: the PEs got the lock in the order %v, want it to begin with PE %d", turn, order.Local()[:n], first)
					}
				}
				order.Local()[n] = 0
			}
			ok(t, w.Barrier())
		}
		ok(t, l.Free(w))
	})
}

// "1.6: init/finalize nest; only the last finalize frees; non-last finalize =
// barrier_all; query_initialized legal any time. global_exit from one PE must end all,
// incl. those in barrier, with that status - and with status 0 too (ompi#4803)."
func TestTrap15InitNestsAndGlobalExitEndsAll(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[int](w, 1))(t)
		if v := must(shmem.Init())(t); v != w {
			t.Error("a nested Init returned a different World")
		}
		next := (w.MyPE() + 1) % w.NPEs()
		for turn := 1; turn < 50; turn++ {
			must(shmem.Init())(t)
			ok(t, shmem.P(w.Ctx(), x, turn, next))
			ok(t, w.Finalize()) // not the last Finalize: it is a barrier
			if x.Local()[0] != turn {
				t.Fatalf("turn %d: the element is %d after the barrier, want %[1]d", turn, x.Local()[0])
			}
			ok(t, w.Sync())
		}
		ok(t, w.Finalize())
		if !shmem.Initialized() {
			t.Error("the first of two calls of Finalize ended the world")
		}
		ok(t, w.Finalize())
		if err := w.Barrier(); shmem.Initialized() || !errors.Is(err, shmem.ErrFinalized) {
			t.Errorf("after the last Finalize: initialized %v, Barrier returned %v, want false and ErrFinalized", shmem.Initialized(), err)
		}
		w = must(shmem.Init())(t) // a new world
		ok(t, w.Barrier())
	})
	const asked = "asked at"
	for _, status := range []int{0, 5} {
		var outputs jobOutputs
		shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
			ok(t, w.Sync()) // all PEs are there, also those of other nodes, of which Asleep says nothing
			if w.MyPE() == 1 {
				for !shmem.Asleep(w, 0) || !shmem.Asleep(w, 2) {
					runtime.Gosched()
				}
				fmt.Println(asked, time.Now().UnixNano())
				w.GlobalExit(status)
			}
			t.Errorf("the barrier returned %v, want the job to end", w.Barrier())
		}, shmemtest.Status(status), shmemtest.Timeout(20*time.Second), shmemtest.Output(&outputs))
		if os.Getenv("GOSHMEM_SHMEMTEST_CALL") != "" {
			continue // a PE of the other job
		}
		var at int64 // the time of the last job begins here, not before Run, which waits for other jobs
		out := outputs[len(outputs)-1]
		_, line, _ := strings.Cut(out, asked)
		if _, err := fmt.Sscan(line, &at); err != nil {
			t.Errorf("status %d: %v in the output:\n%s", status, err, out)
		} else if took := time.Since(time.Unix(0, at)); took > 15*time.Second {
			t.Errorf("status %d: the job took %v to end, want at most 15 s", status, took)
		}
	}
}

// "shmem_ptr: NULL if not load/store reachable; returned address is not symmetric.
// Pointers are valid only on the PE that made them (pass offsets between PEs)."
func TestTrap16PointersAreOfOnePE(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		me, n := w.MyPE(), w.NPEs()
		x := must(shmem.Calloc[int64](w, n))(t)
		addresses := map[*int64]bool{}
		for pe := range n {
			theirs, reachable := x.Peer(pe)
			if reachable != isNear(w, pe) || reachable && len(theirs) != n {
				t.Fatalf("PE %d has %d elements, reachable %v, want %d on the same node", pe, len(theirs), reachable, n)
			}
			if !reachable {
				ok(t, shmem.P(w.Ctx(), x.At(me), int64(10+me), pe))
				continue
			}
			addresses[unsafe.SliceData(theirs)] = true
			theirs[me] = int64(10 + me) // a plain store
		}
		if near := w.Shared().NPEs(); len(addresses) != near {
			t.Errorf("the objects of PEs have %d different addresses, want %d", len(addresses), near)
		}
		ok(t, w.Barrier())
		for pe, v := range x.Local() {
			if v != int64(10+pe) {
				t.Errorf("the element that PE %d stored is %d, want %d", pe, v, 10+pe)
			}
		}
		for _, pe := range []int{-1, n} {
			if p, reachable := x.Peer(pe); p != nil || reachable {
				t.Errorf("PE %d, which does not exist, is reachable", pe)
			}
		}
		// A pointer must not be sent to other PEs: element types with pointers are refused.
		if _, err := shmem.Alloc[*int64](w, 1); !errors.Is(err, shmem.ErrElementType) {
			t.Errorf("an object of pointers: %v, want ErrElementType", err)
		}
		dead := x
		ok(t, shmem.Free(w, x))
		if p, reachable := dead.Peer(me); p != nil || reachable {
			t.Error("a freed object is reachable")
		}
	})
}

// global is a Go variable, so it is not symmetric.
var global int64

// "Static/global C data is symmetric: 82 of 124 C unit tests never allocate from the heap.
// In Go itself: don't support globals."
//
// A Go variable cannot be named: what names an object is a handle, and only allocations
// give one. The documentation says so.
func TestTrap17GlobalsAreNotSymmetric(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		global = int64(w.MyPE())
		ok(t, w.Barrier())
		if global != int64(w.MyPE()) {
			t.Error("PEs share a Go variable")
		}
		var zero shmem.Sym[int64]
		if err := shmem.P(w.Ctx(), zero, 1, 1-w.MyPE()); !errors.Is(err, shmem.ErrForeignHandle) {
			t.Errorf("the zero Sym: %v, want ErrForeignHandle", err)
		}
		x := must(shmem.Calloc[int64](w, 1))(t)
		for pe := range w.NPEs() {
			if zero.Accessible(pe) || !x.Accessible(pe) {
				t.Errorf("PE %d: Accessible returned %v for the zero Sym and %v for an object, want false and true", pe, zero.Accessible(pe), x.Accessible(pe))
			}
		}
	})
	doc, err := os.ReadFile("../docs/openshmem.md")
	ok(t, err)
	if !bytes.Contains(doc, []byte("| static and global objects")) {
		t.Error("docs/openshmem.md does not say that variables are not symmetric")
	}
	text, err := os.ReadFile("doc.go")
	ok(t, err)
	if !strings.Contains(string(text), "variables of the program are not symmetric") {
		t.Error("the package documentation does not say that variables are not symmetric")
	}
}

// "MPI interop (annex): init/finalize of the two in any order -> reference-counted shared
// runtime; rank==PE not guaranteed; thread level may be capped by the first initialiser:
// always query."
//
// Here a rank is the PE of the same number, and levels are no more than what Init was
// asked for.
func TestTrap18MessagesBesideInAnyOrder(t *testing.T) {
	shmemtest.RunBare(t, 3, func(t *testing.T) {
		for _, order := range []string{"smSM", "smMS", "msSM", "msMS", "sSmM", "mMsS", "smMmSM", "ssmSSM"} {
			var s *shmem.World
			var m *mpi.World
			for _, step := range order {
				switch step {
				case 's':
					s = must(shmem.Init(shmem.Threads(shmem.ThreadSerialized)))(t)
				case 'm':
					m = must(mpi.Init())(t)
				case 'S':
					ok(t, s.Finalize())
				case 'M':
					ok(t, m.Finalize())
				}
				if shmem.Initialized() {
					ok(t, s.Barrier())
					if level := s.QueryThread(); level != shmem.ThreadSerialized {
						t.Fatalf("%s: level %v, want what Init was asked for", order, level)
					}
				}
				if mpi.Initialized() {
					ok(t, m.Comm().Barrier())
				}
				if shmem.Initialized() && mpi.Initialized() && (m.Comm().Rank() != s.MyPE() || m.Comm().Size() != s.NPEs()) {
					t.Fatalf("%s: rank %d of %d is PE %d of %d, want equal numbers", order, m.Comm().Rank(), m.Comm().Size(), s.MyPE(), s.NPEs())
				}
			}
			if shmem.Initialized() || mpi.Initialized() {
				t.Fatalf("%s: something is left initialized", order)
			}
			if err := s.Barrier(); !errors.Is(err, shmem.ErrFinalized) {
				t.Fatalf("%s: barrier after Finalize: %v", order, err)
			}
		}
	}, oneNode)
}
