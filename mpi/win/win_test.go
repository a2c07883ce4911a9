package win_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/win"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

func TestMain(m *testing.M) { shmemtest.Main(m) }

// ok fails the test on an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns the result of a call and fails the test on its error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

// die ends this process as a fault would.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// run runs body as the ranks of a job on one node, and of one on two nodes.
func run(t *testing.T, ranks int, body func(t *testing.T, s *shmem.World, c *mpi.Comm), opts ...shmemtest.Option) {
	t.Helper()
	shmemtest.Run(t, ranks, func(t *testing.T, s *shmem.World) {
		m := must(mpi.Init())(t)
		body(t, s, m.Comm())
		if !t.Failed() { // Finalize would wait for ranks that have not failed
			ok(t, m.Finalize())
		}
	}, append(opts, shmemtest.Nodes(1, 2))...)
}

// isDeath fails the test unless an error reports the death of a rank.
func isDeath(t *testing.T, what string, err error, rank int) {
	t.Helper()
	dead, is := errors.AsType[*mpi.RankError](err)
	if !is || !errors.Is(err, mpi.ErrDied) || !slices.Equal(dead.Ranks, []int{rank}) {
		t.Errorf("%s: error %v, want the death of rank %d", what, err, rank)
	}
}

// After each Fence, all see what all have put: in a ring, with Put, Get and Rget, of several element types.
func TestFenceRing(t *testing.T) {
	type point struct{ X, Y float64 }
	run(t, 4, func(t *testing.T, _ *shmem.World, c *mpi.Comm) {
		const n = 300
		w := must(win.Allocate[point](c, n+1))(t)
		me := c.Rank()
		right, left := (me+1)%4, (me+3)%4
		for round := range 10 {
			src := slices.Repeat([]point{{float64(me), float64(round)}}, n)
			ok(t, w.Put(src, right, 1))
			ok(t, w.Put(src, mpi.ProcNull, 1))
			ok(t, w.Fence())
			want := slices.Repeat([]point{{float64(left), float64(round)}}, n)
			if !slices.Equal(w.Local()[1:], want) {
				t.Fatalf("round %d: %v, want %v", round, w.Local()[1], want[0])
			}
			got := make([]point, n)
			if round%2 == 0 {
				ok(t, w.Get(got, right, 1))
			} else {
				got = must(must(w.Rget(got, right, 1))(t).Wait())(t)
			}
			if !slices.Equal(got, src) {
				t.Fatalf("round %d: Get gives %v, want %v", round, got[0], src[0])
			}
			ok(t, w.Fence())
		}
		if w.Len() != n+1 || w.Sym().Len() != n+1 {
			t.Errorf("length %d, want %d", w.Len(), n+1)
		}
		ok(t, w.Free())
		if err := w.Fence(); !errors.Is(err, shmem.ErrFreed) {
			t.Errorf("Fence after Free: error %v, want %v", err, shmem.ErrFreed)
		}
	})
}

// accumulates checks that updates of random elements by all ranks, and of one contended element, are all there: with
// elements of a type, whose numbers are whole and small.
func accumulates[T shmem.AMOExt](t *testing.T, c *mpi.Comm, least T) {
	t.Helper()
	const n, rounds = 16, 200
	w := must(win.Allocate[T](c, n+6))(t)
	clear(w.Local())
	sum, big, small, prod, all, cas := n, n+1, n+2, n+3, n+4, n+5
	w.Local()[prod], w.Local()[small] = 1, 1000%128
	ok(t, w.Fence())
	size := c.Size()
	random := rand.New(rand.NewPCG(uint64(c.Rank()), 7)) //nolint:gosec // a test
	mine := make([]int64, size*n)
	for i := range rounds {
		rank, at := random.IntN(size), random.IntN(n)
		mine[rank*n+at] += 2
		ok(t, win.Accumulate(w, []T{2}, rank, at, win.Sum))
		ok(t, win.Accumulate(w, []T{1}, 0, sum, win.Sum))
		ok(t, win.Accumulate(w, []T{T(1 + (i*7+c.Rank())%100)}, 0, big, win.Max))
		if i%20 == 0 {
			ok(t, win.Accumulate(w, []T{T(20 + i/20 + c.Rank())}, 0, small, win.Min))
		}
	}
	ok(t, win.Accumulate(w, []T{2}, 0, prod, win.Prod))
	for range 50 { // a counter by compare-and-swap, beside shmem's own operations
		old := must(win.FetchAndOp(w, T(0), 0, cas, win.NoOp))(t)
		for {
			got := must(win.CompareAndSwap(w, old, old+1, 0, cas))(t)
			if got == old {
				break
			}
			old = got
		}
	}
	ok(t, w.Fence())
	want := make([]int64, size*n)
	ok(t, mpi.Allreduce(c, want, mine, mpi.Sum))
	for i, v := range w.Local()[:n] {
		if int64(v) != want[c.Rank()*n+i] {
			t.Errorf("%T: element %d is %v, want %d", v, i, v, want[c.Rank()*n+i])
		}
	}
	got := make([]T, n+6)
	ok(t, win.GetAccumulate(w, got, nil, 0, 0, win.NoOp))
	for _, x := range []struct {
		name string
		at   int
		want T
	}{
		{"Sum", sum, T(size * rounds)},
		{"Max", big, 100},
		{"Min", small, 20},
		{"Prod", prod, T(1) * T(int(1)<<size)},
		{"CompareAndSwap", cas, T(50 * size)},
		{"no operation", all, 0},
	} {
		if got[x.at] != x.want {
			t.Errorf("%T: %s gives %v, want %v", least, x.name, got[x.at], x.want)
		}
	}
	ok(t, w.Fence())
	if old := must(win.FetchAndOp(w, least, c.Rank(), all, win.Replace))(t); old != 0 {
		t.Errorf("%T: Replace gives %v, want 0", least, old)
	}
	ok(t, win.Accumulate(w, []T{3}, c.Rank(), all, win.Sum))
	ok(t, w.Flush(c.Rank()))
	if v := must(win.FetchAndOp(w, T(0), c.Rank(), all, win.Min))(t); v != least+3 {
		t.Errorf("%T: Sum gives %v, want %v", least, v, least+3)
	}
	ok(t, w.Free())
}

// Updates of all element types are atomic.
func TestAccumulate(t *testing.T) {
	type named float32
	run(t, 4, func(t *testing.T, _ *shmem.World, c *mpi.Comm) {
		accumulates[int](t, c, -5)
		accumulates[int32](t, c, math.MinInt32)
		accumulates[int64](t, c, math.MinInt64)
		accumulates[uint32](t, c, 7)
		accumulates[uint64](t, c, 1<<60)
		accumulates[float64](t, c, -0.25)
		accumulates[named](t, c, -0.25)
	})
}

// And, Or, Xor and Replace change bits. shmem's operations and those of a window are the same ones.
func TestBits(t *testing.T) {
	run(t, 3, func(t *testing.T, s *shmem.World, c *mpi.Comm) {
		x := must(shmem.Calloc[int32](s, 8))(t)
		w := must(win.Create(c, x.Slice(2, 8), win.NoLocks))(t)
		me := c.Rank()
		w.Local()[0] = -1
		ok(t, w.Fence())
		ok(t, win.Accumulate(w, []int32{^(1 << me)}, 0, 0, win.And))
		ok(t, win.Accumulate(w, []int32{1 << me}, 0, 1, win.Or))
		ok(t, win.Accumulate(w, []int32{-1}, 0, 2, win.Xor))
		ok(t, win.Accumulate(w, []int32{int32(me), 7}, me, 3, win.Replace))
		for range 100 {
			ok(t, win.Accumulate(w, []int32{1}, 0, 5, win.Sum))
			ok(t, shmem.AtomicAdd(s.Ctx(), x.At(7), 1, 0))
		}
		ok(t, s.Ctx().Quiet())
		ok(t, w.Fence())
		want := []int32{-1, 0, 0, int32(me), 7, 0}
		if me == 0 {
			want = []int32{^7, 7, -1, 0, 7, 600}
		}
		if !slices.Equal(w.Local(), want) {
			t.Errorf("%v, want %v", w.Local(), want)
		}
		ok(t, w.Fence())
		for _, x := range []struct {
			o             win.Op
			operand, want int32
		}{{win.And, 3, 2}, {win.Or, 1, 7}, {win.Xor, 5, 3}} {
			must(win.FetchAndOp(w, 6, me, 4, win.Replace))(t)
			old := []int32{0}
			ok(t, win.GetAccumulate(w, old, []int32{x.operand}, me, 4, x.o))
			if got := must(win.FetchAndOp(w, 0, me, 4, win.NoOp))(t); old[0] != 6 || got != x.want {
				t.Errorf("%v of 6 and %d: fetches %d and gives %d, want 6 and %d", x.o, x.operand, old[0], got, x.want)
			}
		}
		ok(t, w.Free())
		ok(t, shmem.Free(s, x))
	})
}

// Ranks exchange the borders of their parts with their neighbors, by Post, Start, Complete, Wait and Test.
func TestHalo(t *testing.T) {
	run(t, 4, func(t *testing.T, _ *shmem.World, c *mpi.Comm) {
		w := must(win.Allocate[int](c, 2, win.NoLocks))(t)
		me := c.Rank()
		left, right := (me+3)%4, (me+1)%4
		for round := range 100 {
			ok(t, w.Post(left, right))
			ok(t, w.Start(right, left))
			ok(t, w.Put([]int{round*10 + me}, left, 1))
			ok(t, w.Put([]int{round*10 + me}, right, 0))
			ok(t, w.Complete())
			if round%2 == 0 {
				ok(t, w.Wait())
			} else {
				for !must(w.Test())(t) {
					time.Sleep(time.Microsecond)
				}
			}
			if want := []int{round*10 + left, round*10 + right}; !slices.Equal(w.Local(), want) {
				t.Fatalf("round %d: %v, want %v", round, w.Local(), want)
			}
		}
		for what, err := range map[string]error{
			"Complete": w.Complete(), "Wait": w.Wait(), "Post": w.Post(1, 1), "Start": w.Start(0, 0),
		} {
			if !errors.Is(err, mpi.ErrArgument) {
				t.Errorf("%s: error %v, want %v", what, err, mpi.ErrArgument)
			}
		}
		ok(t, w.Post())
		if err := w.Post(); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("Post in an epoch: error %v, want %v", err, mpi.ErrArgument)
		}
		ok(t, w.Wait())
		ok(t, w.Start())
		if err := w.Start(); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("Start in an epoch: error %v, want %v", err, mpi.ErrArgument)
		}
		ok(t, w.Complete())
		ok(t, w.Free())
	})
}

// Under an exclusive lock a rank reads, changes and writes elements as if it was alone. Ranks with a shared lock never see a
// change that is half made.
func TestLocks(t *testing.T) {
	run(t, 4, func(t *testing.T, _ *shmem.World, c *mpi.Comm) {
		w := must(win.Allocate[int](c, 2))(t)
		clear(w.Local())
		ok(t, w.Fence())
		me, v := c.Rank(), make([]int, 2)
		const rounds = 50
		for round := range rounds {
			for target := range 2 {
				must(w.Lock(target, true))(t)
				ok(t, w.Get(v, target, 0))
				ok(t, w.Put([]int{v[0] + 1}, target, 0))
				ok(t, w.Flush(target))
				ok(t, w.Put([]int{v[1] + 1}, target, 1))
				ok(t, w.Unlock(target))
			}
			target := (round + me) % 2
			if round%10 == 0 {
				must(w.LockAll())(t)
				if _, err := w.Lock(target, true); !errors.Is(err, shmem.ErrLockHeld) {
					t.Errorf("Lock after LockAll: error %v, want %v", err, shmem.ErrLockHeld)
				}
			} else {
				must(w.Lock(target, false))(t)
			}
			if ok(t, w.Get(v, target, 0)); v[0] != v[1] {
				t.Errorf("round %d: half of a change is seen: %v", round, v)
			}
			if round%10 == 0 {
				ok(t, w.FlushAll())
				ok(t, w.FlushLocal(target))
				ok(t, w.Sync())
				ok(t, w.UnlockAll())
			} else {
				ok(t, w.Unlock(target))
			}
		}
		ok(t, w.Fence())
		if want := rounds * 4; me < 2 && w.Local()[0] != want {
			t.Errorf("counter %d, want %d", w.Local()[0], want)
		}
		for what, err := range map[string]error{"Unlock": w.Unlock(1), "UnlockAll": w.UnlockAll()} {
			if !errors.Is(err, shmem.ErrLockNotHeld) {
				t.Errorf("%s: error %v, want %v", what, err, shmem.ErrLockNotHeld)
			}
		}
		ok(t, w.Free())
	})
}

// The memory of ranks of this node is shared, and that of others is not.
func TestShared(t *testing.T) {
	run(t, 4, func(t *testing.T, s *shmem.World, c *mpi.Comm) {
		w := must(win.Allocate[int](c, 1))(t)
		w.Local()[0] = c.Rank()
		ok(t, w.Fence())
		near := 0
		for rank := range 4 {
			if x, is := w.Shared(rank); is {
				near++
				if x[0] != rank {
					t.Errorf("element of rank %d is %d, want %d", rank, x[0], rank)
				}
			}
		}
		if near != s.Shared().NPEs() {
			t.Errorf("%d ranks are shared, want the %d of this node", near, s.Shared().NPEs())
		}
		for _, rank := range []int{-1, 4} {
			if _, is := w.Shared(rank); is {
				t.Errorf("rank %d is shared", rank)
			}
		}
		ok(t, w.Free())
	})
}

// A window of a communicator in another order of ranks has that order.
func TestOrder(t *testing.T) {
	run(t, 4, func(t *testing.T, s *shmem.World, c *mpi.Comm) {
		back := must(c.Split(0, -c.Rank()))(t)
		w := must(win.Allocate[int](back, 1))(t)
		ok(t, w.Put([]int{back.Rank()}, (back.Rank()+1)%4, 0))
		ok(t, w.Fence())
		if want := (back.Rank() + 3) % 4; w.Local()[0] != want || back.Rank() != 3-s.MyPE() {
			t.Errorf("rank %d has %d, want %d", back.Rank(), w.Local()[0], want)
		}
		must(w.Lock(1, true))(t)
		ok(t, w.Unlock(1))
		ok(t, w.Free())
		ok(t, back.Free())
	})
}

// Bad arguments are errors that say what is wrong.
func TestBounds(t *testing.T) {
	run(t, 2, func(t *testing.T, s *shmem.World, c *mpi.Comm) {
		w := must(win.Allocate[float64](c, 10))(t)
		without := must(win.Allocate[int](c, 0, win.NoLocks))(t)
		v := make([]float64, 4)
		var none *win.Win[float64]
		half := must(c.Split(c.Rank(), 0))(t)
		for _, x := range []struct {
			err   error
			cause error
			text  string
		}{
			{w.Put(v, 2, 0), mpi.ErrRankRange, "mpi.win.Put: rank 2 of a window of 2 ranks, want 0 to 1"},
			{w.Get(v, -3, 0), mpi.ErrRankRange, "rank -3"},
			{w.Put(v, 1, 7), shmem.ErrBounds, "mpi.win.Put: 4 elements from displacement 7 on in a window of 10, want at most 3"},
			{w.Get(v, 1, -1), shmem.ErrBounds, "mpi.win.Get: displacement -1 in a window of 10 elements, want 0 to 10"},
			{errOf(w.Rget(v, 1, 11)), shmem.ErrBounds, "win.Rget"},
			{win.Accumulate(w, v, 1, 9, win.Sum), shmem.ErrBounds, "win.Accumulate"},
			{win.Accumulate(w, v, 1, 0, win.NoOp), mpi.ErrArgument, "NoOp"},
			{win.Accumulate(w, v, 1, 0, 77), mpi.ErrArgument, "operator 77, want Sum to NoOp"},
			{win.Accumulate(w, v, 1, 0, win.Xor), mpi.ErrElementType, "operator Xor of elements of type float64, want integers"},
			{win.GetAccumulate(w, v, v[:2], 1, 0, win.Sum), mpi.ErrArgument, "4 elements in dst and 2 in src"},
			{errOf(win.FetchAndOp(w, 1, 1, 10, win.Sum)), shmem.ErrBounds, "win.FetchAndOp"},
			{errOf(win.CompareAndSwap(w, 1, 1, 1, 10)), shmem.ErrBounds, "win.CompareAndSwap"},
			{errOf(w.Lock(2, true)), mpi.ErrRankRange, "win.Lock"},
			{errOf(without.Lock(0, true)), mpi.ErrArgument, "NoLocks"},
			{w.Post(2), mpi.ErrRankRange, "win.Post"},
			{w.Flush(2), mpi.ErrRankRange, "win.Flush"},
			{none.Fence(), mpi.ErrArgument, "window is nil"},
			{none.Free(), mpi.ErrArgument, "window is nil"},
			{none.Put(v, 0, 0), mpi.ErrArgument, "window is nil"},
			{errOf(win.Request[int]{}.Wait()), mpi.ErrArgument, "win.Request.Wait"},
			{errOf(win.Allocate[int](half, 1)), mpi.ErrArgument, "communicator of 1 ranks in a job of 2, want all ranks"},
			{errOf(win.Allocate[int](nil, 1)), mpi.ErrArgument, "communicator is nil"},
			{errOf(win.Allocate[int](c, 1, 9)), mpi.ErrArgument, "option 0 is 9, want NoLocks"},
			{errOf(win.Allocate[*int](c, 1)), shmem.ErrElementType, "win.Allocate"},
			{errOf(win.Allocate[int](c, -1)), shmem.ErrArgument, "win.Allocate: -1 elements"},
			{errOf(win.Allocate[int](c, 1+c.Rank())), shmem.ErrMismatch, "win.Allocate"},
			{errOf(win.Create(c, shmem.Sym[int]{})), mpi.ErrArgument, "win.Create: the handle is the zero one"},
		} {
			if !errors.Is(x.err, x.cause) || !strings.Contains(x.err.Error(), x.text) {
				t.Errorf("error %v, want one with %q that is %v", x.err, x.text, x.cause)
			}
		}
		x := must(shmem.Alloc[int](s, 5))(t)
		if err := errOf(win.Create(c, x.Slice(0, 4+c.Rank()))); !errors.Is(err, mpi.ErrMismatch) {
			t.Errorf("Create with different lengths: error %v, want %v", err, mpi.ErrMismatch)
		}
		ok(t, half.Free())
		ok(t, without.Free())
		ok(t, w.Free())
	})
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }

// Without one of the packages there is no window, and the error says what to call.
func TestBothPackages(t *testing.T) {
	shmemtest.RunBare(t, 2, func(t *testing.T) {
		if err := errOf(win.Allocate[int](nil, 1)); !errors.Is(err, mpi.ErrFinalized) || !strings.Contains(err.Error(), "call mpi.Init") {
			t.Errorf("without mpi: error %v, want a hint at mpi.Init", err)
		}
		m := must(mpi.Init())(t)
		if err := errOf(win.Allocate[int](m.Comm(), 1)); !errors.Is(err, shmem.ErrFinalized) || !strings.Contains(err.Error(), "call shmem.Init") {
			t.Errorf("without shmem: error %v, want a hint at shmem.Init", err)
		}
		s := must(shmem.Init())(t)
		ok(t, must(win.Allocate[int](m.Comm(), 1))(t).Free())
		ok(t, s.Finalize())
		ok(t, m.Finalize())
	})
}

// The end of a context ends waits. Locks and epochs go on where they were.
func TestDeadlines(t *testing.T) {
	run(t, 2, func(t *testing.T, _ *shmem.World, c *mpi.Comm) {
		w := must(win.Allocate[int](c, 1))(t)
		short := func() *win.Win[int] {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			t.Cleanup(cancel)
			return w.With(ctx)
		}
		if c.Rank() == 0 {
			must(w.Lock(0, false))(t)
			must(w.Lock(1, true))(t)
		}
		ok(t, w.Fence())
		if c.Rank() == 1 {
			ok(t, w.Post(0))
			for what, err := range map[string]error{
				"Lock of one that is shared": errOf(short().Lock(0, true)), "Lock of one that is exclusive": errOf(short().Lock(1, false)),
				"LockAll": errOf(short().LockAll()), "Start": short().Start(0), "Wait": short().Wait(),
			} {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: error %v, want %v", what, err, context.DeadlineExceeded)
				}
			}
		}
		ok(t, w.Fence())
		if c.Rank() == 0 {
			ok(t, w.Unlock(1))
			ok(t, w.Unlock(0))
			ok(t, w.Post(1))
			ok(t, w.Start(1))
			ok(t, w.Complete())
			ok(t, w.Wait())
		} else {
			ok(t, w.Wait())
			ok(t, w.Start(0))
			ok(t, w.Complete())
		}
		for rank := range 2 {
			must(w.Lock(rank, true))(t)
			ok(t, w.Unlock(rank))
		}
		ok(t, w.Free())
	})
}
