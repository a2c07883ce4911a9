package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// interRank is a rank of an Intercomm.
type interRank struct {
	x                *mpi.Intercomm
	side, me         int
	mine, theirs     int // ranks of the own group, and of the other one
	form             form
	size, at, root   int // of a collective: elements, group of the root, its rank there
	as               int // its root argument here
	isRoot, isRemote bool
}

// do makes a collective in the form of the test.
func (r *interRank) do(t *testing.T, wait func() error, begin func() (mpi.Request, error)) {
	t.Helper()
	if r.form == waits {
		ok(t, wait())
		return
	}
	must(must(begin())(t).Wait())(t)
}

// forRoots calls body with each rank of both groups as the root.
func (r *interRank) forRoots(body func()) {
	for r.at = range 2 {
		n := r.mine
		if r.at != r.side {
			n = r.theirs
		}
		for r.root = range n {
			r.isRoot, r.isRemote = r.side == r.at && r.me == r.root, r.side != r.at
			switch {
			case r.isRoot:
				r.as = mpi.Root
			case r.isRemote:
				r.as = r.root
			default:
				r.as = mpi.ProcNull
			}
			body()
		}
	}
}

// from returns what a rank of a group gives.
func from(side, rank, n, round int) []affine { return functions(10*side+rank, n, round) }

// irregular returns the counts of parts of different lengths for the ranks of a group, which they can all compute, and their sum.
func irregular(ranks, size, shift int) (v mpi.Counts, sum int) {
	for rank := range ranks {
		v.Counts = append(v.Counts, (rank+shift)%3*size/2)
		sum += v.Counts[rank]
	}
	return v, sum
}

// All collectives of two groups give the right results, in both forms, with groups of different sizes.
func TestInterForms(t *testing.T) {
	for _, f := range []form{waits, immediate} {
		t.Run(f.String(), func(t *testing.T) {
			run(t, 5, func(t *testing.T, c *mpi.Comm) {
				for _, split := range []int{1, 2, 4} {
					x, side := newIntercomm(t, c, split)
					r := &interRank{x: x, side: side, me: x.Remote().Rank(), mine: x.Local().Size(), theirs: x.Remote().Size(), form: f}
					for _, r.size = range []int{0, 1, 60, 6000} {
						r.do(t, x.Barrier, x.Ibarrier)
						r.testRooted(t)
						r.testParts(t)
						r.testSymmetric(t)
						r.testReductions(t)
					}
					ok(t, x.Free())
				}
			}, hangTimeout)
		})
	}
}

// testRooted tests the collectives of a root whose parts are of one length.
func (r *interRank) testRooted(t *testing.T) {
	x, size := r.x, r.size
	r.forRoots(func() {
		buf := make([]affine, size)
		if r.isRoot {
			buf = from(r.at, r.root, size, 1)
		}
		r.do(t, func() error { return mpi.InterBcast(x, buf, r.as) }, func() (mpi.Request, error) { return mpi.IinterBcast(x, buf, r.as) })
		if r.isRemote {
			same(t, "InterBcast", buf, from(r.at, r.root, size, 1))
		}
		src, dst := from(r.side, r.me, size, 2), make([]affine, size)
		r.do(t, func() error { return mpi.InterReduce(x, dst, src, compose, r.as) }, func() (mpi.Request, error) { return mpi.IinterReduce(x, dst, src, compose, r.as) })
		if r.isRoot {
			same(t, "InterReduce", dst, r.others(2))
		}
		all := make([]affine, size*r.theirs)
		r.do(t, func() error { return mpi.InterGather(x, all, src, r.as) }, func() (mpi.Request, error) { return mpi.IinterGather(x, all, src, r.as) })
		for rank := range r.theirs {
			if r.isRoot {
				same(t, "InterGather", all[rank*size:][:size], from(1-r.side, rank, size, 2))
			}
		}
		if r.isRoot {
			all = from(r.side, r.me, size*r.theirs, 3)
		}
		r.do(t, func() error { return mpi.InterScatter(x, dst, all, r.as) }, func() (mpi.Request, error) { return mpi.IinterScatter(x, dst, all, r.as) })
		if r.isRemote {
			same(t, "InterScatter", dst, from(r.at, r.root, size*r.mine, 3)[r.me*size:][:size])
		}
	})
}

// testParts tests the collectives of a root whose parts differ.
func (r *interRank) testParts(t *testing.T) {
	x := r.x
	theirs, sum := irregular(r.theirs, r.size, 1) // at a root: of the other group
	mine, _ := irregular(r.mine, r.size, 1)
	n := mine.Counts[r.me]
	r.forRoots(func() {
		src, dst := from(r.side, r.me, n, 4), make([]affine, n)
		all := make([]affine, sum)
		r.do(t, func() error { return mpi.InterGatherv(x, all, src, theirs, r.as) }, func() (mpi.Request, error) { return mpi.IinterGatherv(x, all, src, theirs, r.as) })
		if r.isRoot {
			r.checkParts(t, "InterGatherv", all, theirs.Counts, 4)
			all = from(r.side, r.me, sum, 5)
		}
		r.do(t, func() error { return mpi.InterScatterv(x, dst, all, theirs, r.as) }, func() (mpi.Request, error) { return mpi.IinterScatterv(x, dst, all, theirs, r.as) })
		if r.isRemote {
			at := 0
			for _, before := range mine.Counts[:r.me] {
				at += before
			}
			same(t, "InterScatterv", dst, from(r.at, r.root, at+n, 5)[at:])
		}
	})
}

// checkParts checks that a buffer has what each rank of the other group gives, one after the other.
func (r *interRank) checkParts(t *testing.T, what string, all []affine, counts []int, round int) {
	t.Helper()
	for rank, n := range counts {
		same(t, what, all[:n], from(1-r.side, rank, n, round))
		all = all[n:]
	}
}

// others returns the reduction of what the ranks of the other group give.
func (r *interRank) others(round int) []affine {
	acc := from(1-r.side, 0, r.size, round)
	for rank := 1; rank < r.theirs; rank++ {
		compose(acc, from(1-r.side, rank, r.size, round))
	}
	return acc
}

// testSymmetric tests the collectives in which all ranks give and get.
func (r *interRank) testSymmetric(t *testing.T) {
	x, size := r.x, r.size
	src, all := from(r.side, r.me, size, 6), make([]affine, size*r.theirs)
	r.do(t, func() error { return mpi.InterAllgather(x, all, src) }, func() (mpi.Request, error) { return mpi.IinterAllgather(x, all, src) })
	r.checkParts(t, "InterAllgather", all, slices.Repeat([]int{size}, r.theirs), 6)
	theirs, sum := irregular(r.theirs, size, 2)
	mine, _ := irregular(r.mine, size, 2)
	src, all = from(r.side, r.me, mine.Counts[r.me], 7), make([]affine, sum)
	r.do(t, func() error { return mpi.InterAllgatherv(x, all, src, theirs) }, func() (mpi.Request, error) { return mpi.IinterAllgatherv(x, all, src, theirs) })
	r.checkParts(t, "InterAllgatherv", all, theirs.Counts, 7)

	src, all = from(r.side, r.me, size*r.theirs, 8), make([]affine, size*r.theirs)
	r.do(t, func() error { return mpi.InterAlltoall(x, all, src) }, func() (mpi.Request, error) { return mpi.IinterAlltoall(x, all, src) })
	for rank := range r.theirs {
		same(t, "InterAlltoall", all[rank*size:][:size], from(1-r.side, rank, size*r.mine, 8)[r.me*size:][:size])
	}
	give, out := irregular(r.theirs, size, r.me) // rank i gives rank j (i+j) % 3 * size/2 elements, whichever group is whose
	src, all = from(r.side, r.me, out, 9), make([]affine, out)
	r.do(t, func() error { return mpi.InterAlltoallv(x, all, src, give, give) }, func() (mpi.Request, error) { return mpi.IinterAlltoallv(x, all, src, give, give) })
	for rank, n := range give.Counts {
		theirs, _ := irregular(r.mine, size, rank)
		at := 0
		for _, before := range theirs.Counts[:r.me] {
			at += before
		}
		same(t, "InterAlltoallv", all[:n], from(1-r.side, rank, at+n, 9)[at:])
		all = all[n:]
	}
}

// testReductions tests the reductions of all ranks.
func (r *interRank) testReductions(t *testing.T) {
	x, size := r.x, r.size
	src, dst := from(r.side, r.me, size, 10), make([]affine, size)
	r.do(t, func() error { return mpi.InterAllreduce(x, dst, src, compose) }, func() (mpi.Request, error) { return mpi.IinterAllreduce(x, dst, src, compose) })
	same(t, "InterAllreduce", dst, r.others(10))
	for which, counts := range [][]int{equal(r.mine, size), skewed(r.mine, size)} {
		dst := make([]affine, counts[r.me])
		r.do(t, func() error { return mpi.InterReduceScatter(x, dst, src, counts, compose) },
			func() (mpi.Request, error) { return mpi.IinterReduceScatter(x, dst, src, counts, compose) })
		at := 0
		for _, before := range counts[:r.me] {
			at += before
		}
		same(t, fmt.Sprint("InterReduceScatter ", which), dst, r.others(10)[at:][:len(dst)])
	}
	was := r.size
	r.size *= r.mine * r.theirs // a multiple of both sizes
	defer func() { r.size = was }()
	src, dst = from(r.side, r.me, r.size, 11), make([]affine, r.size/r.mine)
	r.do(t, func() error { return mpi.InterReduceScatterBlock(x, dst, src, compose) },
		func() (mpi.Request, error) { return mpi.IinterReduceScatterBlock(x, dst, src, compose) })
	same(t, "InterReduceScatterBlock", dst, r.others(11)[r.me*len(dst):][:len(dst)])
}

// equal divides a number of elements among ranks, as equally as it goes.
func equal(ranks, size int) (counts []int) {
	for rank := range ranks {
		counts = append(counts, size*(rank+1)/ranks-size*rank/ranks)
	}
	return counts
}

// skewed gives the last rank half of a number of elements, the one before it half of the rest, and so on. The first one gets what is left.
func skewed(ranks, size int) []int {
	counts := make([]int, ranks)
	for rank := ranks - 1; rank > 0; rank-- {
		counts[rank] = size / 2
		size -= counts[rank]
	}
	counts[0] = size
	return counts
}

// Collectives of two groups are under way at a time, are waited for in any order, and go on beside messages.
func TestInterOverlap(t *testing.T) {
	run(t, 5, func(t *testing.T, c *mpi.Comm) {
		x, side := newIntercomm(t, c, 2)
		me, theirs := x.Remote().Rank(), x.Remote().Size()
		const many = 40
		sums, all := make([]int, many), make([][]int, many)
		var requests []mpi.Request
		for i := range many {
			requests = append(requests, must(mpi.IinterAllreduce(x, sums[i:i+1], []int{me + i}, mpi.Sum))(t))
			all[i] = make([]int, theirs)
			requests = append(requests, must(mpi.IinterAllgather(x, all[i], []int{100*side + me + i}))(t), must(x.Ibarrier())(t))
		}
		for rank := range theirs {
			requests = append(requests, must(mpi.Isend(x.Remote(), []int{me}, rank, 1))(t))
		}
		in := []int{0}
		for rank := range theirs {
			if must(mpi.Recv(x.Remote(), in, rank, 1))(t); in[0] != rank {
				t.Errorf("message of rank %d: %d", rank, in[0])
			}
		}
		slices.Reverse(requests)
		ok(t, mpi.WaitAll(requests, nil))
		for i := range many {
			if want := theirs*(theirs-1)/2 + theirs*i; sums[i] != want {
				t.Errorf("sum %d is %d, want %d", i, sums[i], want)
			}
			for rank, got := range all[i] {
				if want := 100*(1-side) + rank + i; got != want {
					t.Errorf("part of rank %d in gather %d is %d, want %d", rank, i, got, want)
				}
			}
		}
		ok(t, x.Free())
	}, hangTimeout)
}

// Bad arguments are errors of the call. Ranks that call different collectives, or have different lengths, get an error each.
func TestInterMistakes(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		x, side := newIntercomm(t, c, 1)
		two := make([]int, 2)
		bad := map[string]error{
			"InterGather, 3 elements for 2 ranks":      mpi.InterGather(x, make([]int, 3), two, 7),
			"InterScatterv, root out of range":         mpi.InterScatterv(x, two, two, mpi.Counts{}, -7),
			"InterGatherv, counts of too many ranks":   mpi.InterGatherv(x, two, two, mpi.Counts{Counts: make([]int, 9)}, mpi.Root),
			"InterAllgatherv, no counts":               mpi.InterAllgatherv(x, two, []int{1}, mpi.Counts{}),
			"InterAlltoallv, the same memory":          mpi.InterAlltoallv(x, two, two, mpi.Counts{}, mpi.Counts{}),
			"InterAllreduce, no operator":              mpi.InterAllreduce(x, two, two, nil),
			"InterReduceScatter, less than the source": mpi.InterReduceScatter(x, nil, two, make([]int, x.Local().Size()), mpi.Sum),
			"InterReduceScatterBlock, 3 elements":      mpi.InterReduceScatterBlock(x, []int{1}, make([]int, 3), mpi.Sum),
			"InterBcast of nil":                        mpi.InterBcast[int](nil, nil, 0),
			"InterGather of pointers":                  mpi.InterGather(x, nil, make([]*int, 1), 0),
			"IinterBcast, root out of range":           errOf(mpi.IinterBcast(x, two, 3)),
		}
		for what, err := range bad {
			if _, is := errors.AsType[*mpi.UsageError](err); !is {
				t.Errorf("%s: %v, want a *UsageError", what, err)
			}
		}
		ok(t, x.Barrier()) // the mistakes have begun nothing
		d := must(x.Dup())(t)
		e := must(x.Dup())(t)
		var err error
		if side == 0 {
			err = mpi.InterAllgather(d, two, []int{1})
		} else {
			err = mpi.InterAlltoall(d, []int{1}, []int{1})
		}
		if !errors.Is(err, mpi.ErrCommBroken) { // ErrMismatch as well, unless the others have found it before this rank came
			t.Errorf("different collectives: %v, want %v", err, mpi.ErrCommBroken)
		}
		if err = mpi.InterAllreduce(e, two[:1+side], two[:1+side], mpi.Sum); !errors.Is(err, mpi.ErrCommBroken) {
			t.Errorf("different lengths: %v, want %v", err, mpi.ErrCommBroken)
		}
		for _, x := range []*mpi.Intercomm{d, e, x} {
			ok(t, x.Free())
		}
	}, hangTimeout)
}

// A death is an error of every collective that needs the dead rank. Revoke ends what other ranks wait for.
func TestInterDeaths(t *testing.T) {
	const n, split, victim = 5, 2, 4
	run(t, n, func(t *testing.T, c *mpi.Comm) {
		x, side := newIntercomm(t, c, split)
		me := x.Remote().Rank()
		var all []*mpi.Intercomm
		for range 12 {
			all = append(all, must(x.Dup())(t))
		}
		q := must(mpi.Irecv(x.Remote(), make([]int, 1), x.Remote().Size()-1, 1))(t)
		_ = c.Barrier() // behind it all ranks have their Intercomms. The victim may die before others leave it
		if c.Rank() == victim {
			die()
		}
		const gone = split + (n - 1 - victim) // its rank in both groups: the order in each is reversed
		theirs, mine := x.Remote().Size(), x.Local().Size()
		as := mpi.ProcNull
		switch {
		case side == 1:
			as = 0
		case me == 0:
			as = mpi.Root
		}
		one, dst, src := []int{1}, make([]int, theirs), make([]int, theirs)
		v := mpi.Counts{Counts: equal(theirs, theirs)}
		whole, part := make([]int, mine*theirs), make([]int, theirs)
		for i, call := range []func(x *mpi.Intercomm) error{
			func(x *mpi.Intercomm) error { return x.Barrier() },
			func(x *mpi.Intercomm) error { return mpi.InterBcast(x, one, as) },
			func(x *mpi.Intercomm) error { return mpi.InterReduce(x, one, []int{1}, mpi.Sum, as) },
			func(x *mpi.Intercomm) error { return mpi.InterGather(x, dst, one, as) },
			func(x *mpi.Intercomm) error { return mpi.InterGatherv(x, dst, one, v, as) },
			func(x *mpi.Intercomm) error { return mpi.InterScatter(x, one, src, as) },
			func(x *mpi.Intercomm) error { return mpi.InterScatterv(x, one, src, v, as) },
			func(x *mpi.Intercomm) error { return mpi.InterAllgatherv(x, dst, one, v) },
			func(x *mpi.Intercomm) error { return mpi.InterAlltoallv(x, dst, src, v, v) },
			func(x *mpi.Intercomm) error { return mpi.InterReduceScatterBlock(x, part, whole, mpi.Sum) },
			func(x *mpi.Intercomm) error { return errOf(x.Dup()) },
			func(x *mpi.Intercomm) error { return errOf(x.Split(0, 0)) },
		} {
			var err error
			for err == nil { // a rank that waits for nobody learns of the death later
				err = call(all[i])
			}
			if dead, is := errors.AsType[*mpi.RankError](err); !is || !errors.Is(err, mpi.ErrDied) || !slices.Equal(dead.Ranks, []int{gone}) {
				t.Errorf("collective %d: %v, want a *RankError of rank %d", i, err, gone)
			}
			ok(t, all[i].Free())
		}
		ok(t, x.Revoke())
		if err := errOf(q.Wait()); !errors.Is(err, mpi.ErrRevoked) {
			t.Errorf("Irecv: %v, want %v", err, mpi.ErrRevoked)
		}
		if err := errOf(mpi.IinterAllgather(x, dst, one)); !errors.Is(err, mpi.ErrRevoked) {
			t.Errorf("IinterAllgather: %v, want %v", err, mpi.ErrRevoked)
		}
		if err := errOf(x.Dup()); !errors.Is(err, mpi.ErrRevoked) {
			t.Errorf("Dup: %v, want %v", err, mpi.ErrRevoked)
		}
		ok(t, x.Free())
	}, shmemtest.Recover(victim), hangTimeout)
}

// An interceptor sees collectives of two groups with the root argument.
func TestInterIntercept(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		x, side := newIntercomm(t, c, 1)
		var seen []mpi.Call
		mpi.Intercept(func(call mpi.Call) func(error) {
			seen = append(seen, call)
			return nil
		})
		as, one := []int{mpi.Root, 0}[side], []int{1}
		ok(t, mpi.InterBcast(x, one, as))
		must(must(mpi.IinterAllreduce(x, []int{0}, one, mpi.Sum))(t).Wait())(t)
		mpi.Intercept(nil)
		want := []mpi.Call{{Op: "InterBcast", Comm: x.Remote(), Peer: as, Tag: mpi.AnyTag}, {Op: "IinterAllreduce", Comm: x.Remote(), Peer: mpi.AnySource, Tag: mpi.AnyTag, Bytes: 8}}
		if !slices.Equal(seen, want) {
			t.Errorf("calls %+v, want %+v", seen, want)
		}
		ok(t, x.Free())
	}, hangTimeout)
}
