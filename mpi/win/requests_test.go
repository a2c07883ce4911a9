package win_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/interop"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/win"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// fetchesAll checks each operator of RgetAccumulate, by what GetAccumulate does, and that all updates of one element by all ranks are there.
func fetchesAll[T shmem.AMOExt](t *testing.T, c *mpi.Comm, operators ...win.Op) {
	t.Helper()
	const n = 20
	w := must(win.Allocate[T](c, 2*n+1))(t)
	me, size := c.Rank(), c.Size()
	right := (me + 1) % size
	for _, o := range operators {
		src := make([]T, n)
		for i := range src {
			w.Local()[i], w.Local()[n+i], src[i] = T(i%5+1), T(i%5+1), T(i%3+2)
		}
		ok(t, w.Fence())
		want, got := make([]T, n), make([]T, n)
		ok(t, win.GetAccumulate(w, want, src, right, 0, o))
		q := must(win.RgetAccumulate(w, got, src, right, n, o))(t)
		clear(src) // it may be used again
		for range 2 {
			if same := must(q.Wait())(t); !slices.Equal(same, want) || &same[0] != &got[0] {
				t.Errorf("%v: fetches %v, want %v", o, same, want)
			}
		}
		ok(t, w.Fence())
		if !slices.Equal(w.Local()[:n], w.Local()[n:2*n]) {
			t.Errorf("%v: %v, want %v", o, w.Local()[n:2*n], w.Local()[:n])
		}
		ok(t, w.Fence())
	}
	must(win.Raccumulate(w, slices.Repeat([]T{1}, 2*n), 0, 0, win.Replace))(t)
	w.Local()[2*n] = 0
	ok(t, w.Fence())
	var all []win.Request[T]
	for range 50 {
		all = append(all, must(win.RgetAccumulate(w, []T{0}, []T{1}, 0, 2*n, win.Sum))(t))
		must(must(win.Raccumulate(w, []T{1}, 0, 2*n, win.Sum))(t).Wait())(t)
	}
	var seen []T
	for _, q := range all {
		seen = append(seen, must(q.Wait())(t)...)
	}
	slices.Sort(seen)
	if len(slices.Compact(seen)) != len(all) {
		t.Errorf("%v of %d updates were fetched, want different ones", seen, len(all))
	}
	ok(t, w.Fence())
	if got := w.Local()[2*n]; me == 0 && got != T(100*size) {
		t.Errorf("the sum is %v, want %d", got, 100*size)
	}
	ok(t, w.Fence())
	ok(t, w.Free())
}

// RgetAccumulate, Raccumulate and Rput do what the operations without a request do.
func TestRequests(t *testing.T) {
	run(t, 3, func(t *testing.T, _ *shmem.World, c *mpi.Comm) {
		ofBits := []win.Op{win.Sum, win.Prod, win.Min, win.Max, win.And, win.Or, win.Xor, win.Replace, win.NoOp}
		fetchesAll[int32](t, c, ofBits...)
		fetchesAll[uint64](t, c, ofBits...)
		fetchesAll[float64](t, c, win.Sum, win.Prod, win.Max, win.Replace, win.NoOp)
		w := must(win.Allocate[int](c, 4))(t)
		right, left := (c.Rank()+1)%3, (c.Rank()+2)%3
		src := []int{c.Rank(), 7}
		q := must(w.Rput(src, right, 1))(t)
		clear(src)
		if got := must(q.Wait())(t); got != nil {
			t.Errorf("Wait of Rput: %v, want nil", got)
		}
		ok(t, w.Fence())
		if got, want := w.Local()[1:3], []int{left, 7}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		for what, err := range map[string]error{
			"Rput":            errOf(w.Rput(src, 0, 3)),
			"Raccumulate":     errOf(win.Raccumulate(w, src, 0, 0, win.NoOp)),
			"RgetAccumulate":  errOf(win.RgetAccumulate(w, src, nil, 0, 0, win.Sum)),
			"RgetAccumulate2": errOf(win.RgetAccumulate(w, src, src, 9, 0, win.Sum)),
		} {
			if !errors.Is(err, shmem.ErrBounds) && !errors.Is(err, mpi.ErrArgument) && !errors.Is(err, mpi.ErrRankRange) {
				t.Errorf("%s with bad arguments: %v", what, err)
			}
		}
		must(must(win.RgetAccumulate(w, src, src, mpi.ProcNull, 0, win.Sum))(t).Wait())(t)
		ok(t, w.Fence())
		ok(t, w.Free())
	})
}

// Operations with a request on a dead rank fail, from the call or from Wait. Those on others go on.
func TestRequestsDeath(t *testing.T) {
	run(t, 3, func(t *testing.T, s *shmem.World, c *mpi.Comm) {
		w := must(win.Allocate[int](c, 4))(t)
		clear(w.Local())
		ok(t, w.Fence())
		if c.Rank() == 1 {
			die()
		}
		isDeath(t, "Fence", w.Fence(), 1)
		isDeath(t, "Rput", errOf(w.Rput([]int{1}, 1, 0)), 1)
		isDeath(t, "Raccumulate", errOf(win.Raccumulate(w, []int{1}, 1, 0, win.Sum)), 1)
		q, err := win.RgetAccumulate(w, []int{0}, []int{1}, 1, 0, win.Sum)
		if err == nil {
			_, err = q.Wait()
		}
		isDeath(t, "RgetAccumulate", err, 1)
		interop.AckFailed(s, c)
		other := 2 - c.Rank()
		if got := must(must(win.RgetAccumulate(w, []int{9, 9}, []int{1, 2}, other, 0, win.Sum))(t).Wait())(t); !slices.Equal(got, []int{0, 0}) {
			t.Errorf("RgetAccumulate of a living rank fetches %v, want zeros", got)
		}
		ok(t, w.Free())
	}, shmemtest.Recover(1))
}
