package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// affine is the function a*x+b. Composition is associative, and not commutative.
type affine struct{ A, B uint32 }

// compose makes acc the function that applies acc first, then in.
func compose(acc, in []affine) {
	for i := range acc {
		acc[i] = affine{acc[i].A * in[i].A, acc[i].B*in[i].A + in[i].B}
	}
}

// functions returns what a rank gives in a round: n functions that all ranks can compute.
func functions(rank, n, round int) []affine {
	all := make([]affine, n)
	for i := range all {
		all[i] = affine{uint32(rank*7+i*3+round)*2 + 1, uint32(rank*31 + i + round*5)}
	}
	return all
}

// composed returns the composition of what ranks lo to hi-1 give.
func composed(lo, hi, n, round int) []affine {
	acc := functions(lo, n, round)
	for rank := lo + 1; rank < hi; rank++ {
		compose(acc, functions(rank, n, round))
	}
	return acc
}

// form is one of the forms of a collective.
type form int

const (
	waits form = iota
	immediate
	persistent
	forms
)

func (f form) String() string { return [...]string{"waits", "immediate", "persistent"}[f] }

// rounds executes a collective in one of its forms, with new data in each round.
func (f form) rounds(t *testing.T, fill func(round int), check func(round int), wait func() error, begin func() (mpi.Request, error), keep func() (mpi.Persistent, error)) {
	t.Helper()
	const rounds = 3
	var p mpi.Persistent
	if f == persistent {
		p = must(keep())(t)
	}
	for round := range rounds {
		fill(round)
		switch f {
		case waits:
			ok(t, wait())
		case immediate:
			must(must(begin())(t).Wait())(t)
		case persistent:
			ok(t, mpi.Start(p))
			must(p.Wait())(t)
		}
		check(round)
	}
}

// same fails the test if two slices differ.
func same[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: element %d of %d is %v, want %v", what, i, len(got), got[i], want[i])
		}
	}
}

// lengths returns different lengths for the ranks, some of them 0.
func lengths(n, most int) (counts []int, sum int) {
	for i := range n {
		counts = append(counts, (i+1)%3*most/2)
		sum += counts[i]
	}
	return counts, sum
}

// All collectives give the right results in all forms, with short and long data.
func TestCollectiveForms(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		for f := range forms {
			t.Run(fmt.Sprintf("%d ranks, %v", n, f), func(t *testing.T) {
				run(t, n, func(t *testing.T, c *mpi.Comm) {
					for _, size := range []int{0, 1, 60, 10_000} {
						testReductions(t, c, f, size)
						testMoves(t, c, f, size)
					}
				})
			})
		}
	}
}

func testReductions(t *testing.T, c *mpi.Comm, f form, size int) {
	n, me := c.Size(), c.Rank()
	f.rounds(t, func(int) {}, func(int) {}, c.Barrier, c.Ibarrier, c.BarrierInit)
	for root := range min(n, 2) {
		buf := make([]affine, size)
		f.rounds(t, func(round int) { copy(buf, functions(me, size, round)) }, func(round int) { same(t, "Bcast", buf, functions(root, size, round)) },
			func() error { return mpi.Bcast(c, buf, root) },
			func() (mpi.Request, error) { return mpi.Ibcast(c, buf, root) },
			func() (mpi.Persistent, error) { return mpi.BcastInit(c, buf, root) })
	}
	for _, inPlace := range []bool{false, true} {
		src, dst := make([]affine, size), make([]affine, size)
		if inPlace {
			dst = src
		}
		fill := func(round int) { copy(src, functions(me, size, round)) }
		root := n - 1
		f.rounds(t, fill, func(round int) {
			if me == root {
				same(t, "Reduce", dst, composed(0, n, size, round))
			}
		},
			func() error { return mpi.Reduce(c, dst, src, compose, root) },
			func() (mpi.Request, error) { return mpi.Ireduce(c, dst, src, compose, root) },
			func() (mpi.Persistent, error) { return mpi.ReduceInit(c, dst, src, compose, root) })
		f.rounds(t, fill, func(round int) { same(t, "Allreduce", dst, composed(0, n, size, round)) },
			func() error { return mpi.Allreduce(c, dst, src, compose) },
			func() (mpi.Request, error) { return mpi.Iallreduce(c, dst, src, compose) },
			func() (mpi.Persistent, error) { return mpi.AllreduceInit(c, dst, src, compose) })
		f.rounds(t, fill, func(round int) { same(t, "Scan", dst, composed(0, me+1, size, round)) },
			func() error { return mpi.Scan(c, dst, src, compose) },
			func() (mpi.Request, error) { return mpi.Iscan(c, dst, src, compose) },
			func() (mpi.Persistent, error) { return mpi.ScanInit(c, dst, src, compose) })
		f.rounds(t, fill, func(round int) {
			if me > 0 {
				same(t, "Exscan", dst, composed(0, me, size, round))
			}
		},
			func() error { return mpi.Exscan(c, dst, src, compose) },
			func() (mpi.Request, error) { return mpi.Iexscan(c, dst, src, compose) },
			func() (mpi.Persistent, error) { return mpi.ExscanInit(c, dst, src, compose) })
	}
	counts, sum := lengths(n, size)
	src, dst := make([]affine, sum), make([]affine, counts[me])
	at := 0
	for _, count := range counts[:me] {
		at += count
	}
	f.rounds(t, func(round int) { copy(src, functions(me, sum, round)) },
		func(round int) { same(t, "ReduceScatter", dst, composed(0, n, sum, round)[at:][:counts[me]]) },
		func() error { return mpi.ReduceScatter(c, dst, src, counts, compose) },
		func() (mpi.Request, error) { return mpi.IreduceScatter(c, dst, src, counts, compose) },
		func() (mpi.Persistent, error) { return mpi.ReduceScatterInit(c, dst, src, counts, compose) })
	src, dst = make([]affine, n*size), make([]affine, size)
	f.rounds(t, func(round int) { copy(src, functions(me, n*size, round)) },
		func(round int) { same(t, "ReduceScatterBlock", dst, composed(0, n, n*size, round)[me*size:][:size]) },
		func() error { return mpi.ReduceScatterBlock(c, dst, src, compose) },
		func() (mpi.Request, error) { return mpi.IreduceScatterBlock(c, dst, src, compose) },
		func() (mpi.Persistent, error) { return mpi.ReduceScatterBlockInit(c, dst, src, compose) })
}

func testMoves(t *testing.T, c *mpi.Comm, f form, size int) {
	n := c.Size()
	regular := slices.Repeat([]int{size}, n)
	irregular, _ := lengths(n, size)
	for _, counts := range [][]int{regular, irregular} {
		testGathers(t, c, f, size, counts)
	}
	testAlltoall(t, c, f, size)
}

func testGathers(t *testing.T, c *mpi.Comm, f form, size int, counts []int) {
	n, me := c.Size(), c.Rank()
	root := n / 2
	v := mpi.Counts{Counts: counts}
	if counts[0] != size {
		at := 0 // one element is free behind each part
		for _, count := range counts {
			v.Displs = append(v.Displs, at)
			at += count + 1
		}
	}
	isRegular := v.Displs == nil
	whole := n * (size + 1)
	if isRegular {
		whole = n * size
	}
	at := me * size
	if !isRegular {
		at = v.Displs[me]
	}
	want := func(round int) []affine { // what a gather gives
		all := make([]affine, whole)
		for rank, count := range counts {
			from := rank * size
			if !isRegular {
				from = v.Displs[rank]
			}
			copy(all[from:], functions(rank, count, round))
		}
		return all
	}
	mine, all := make([]affine, counts[me]), make([]affine, whole)
	fill := func(round int) {
		copy(mine, functions(me, counts[me], round))
		clear(all)
	}
	f.rounds(t, fill, func(round int) {
		if me == root {
			same(t, "Gather", all, want(round))
		}
	},
		func() error {
			if isRegular {
				return mpi.Gather(c, all, mine, root)
			}
			return mpi.Gatherv(c, all, mine, v, root)
		},
		func() (mpi.Request, error) {
			if isRegular {
				return mpi.Igather(c, all, mine, root)
			}
			return mpi.Igatherv(c, all, mine, v, root)
		},
		func() (mpi.Persistent, error) {
			if isRegular {
				return mpi.GatherInit(c, all, mine, root)
			}
			return mpi.GathervInit(c, all, mine, v, root)
		})
	f.rounds(t, fill, func(round int) { same(t, "Allgather", all, want(round)) },
		func() error {
			if isRegular {
				return mpi.Allgather(c, all, mine)
			}
			return mpi.Allgatherv(c, all, mine, v)
		},
		func() (mpi.Request, error) {
			if isRegular {
				return mpi.Iallgather(c, all, mine)
			}
			return mpi.Iallgatherv(c, all, mine, v)
		},
		func() (mpi.Persistent, error) {
			if isRegular {
				return mpi.AllgatherInit(c, all, mine)
			}
			return mpi.AllgathervInit(c, all, mine, v)
		})
	testInPlaceAndScatter(t, c, f, v, all, mine, at, want)
}

func testInPlaceAndScatter(t *testing.T, c *mpi.Comm, f form, v mpi.Counts, all, mine []affine, at int, want func(round int) []affine) {
	me, root, isRegular := c.Rank(), c.Size()/2, v.Displs == nil
	part := all[at : at+len(mine)]
	f.rounds(t, func(round int) {
		clear(all)
		copy(part, functions(me, len(mine), round))
	}, func(round int) { same(t, "Allgather in place", all, want(round)) },
		func() error { return mpi.Allgatherv(c, all, part, v) },
		func() (mpi.Request, error) { return mpi.Iallgatherv(c, all, part, v) },
		func() (mpi.Persistent, error) { return mpi.AllgathervInit(c, all, part, v) })
	f.rounds(t, func(round int) {
		clear(mine)
		copy(all, want(round))
	}, func(round int) { same(t, "Scatter", mine, functions(me, len(mine), round)) },
		func() error {
			if isRegular {
				return mpi.Scatter(c, mine, all, root)
			}
			return mpi.Scatterv(c, mine, all, v, root)
		},
		func() (mpi.Request, error) {
			if isRegular {
				return mpi.Iscatter(c, mine, all, root)
			}
			return mpi.Iscatterv(c, mine, all, v, root)
		},
		func() (mpi.Persistent, error) {
			if isRegular {
				return mpi.ScatterInit(c, mine, all, root)
			}
			return mpi.ScattervInit(c, mine, all, v, root)
		})
}

func testAlltoall(t *testing.T, c *mpi.Comm, f form, size int) {
	n, me := c.Size(), c.Rank()
	src, dst := make([]affine, n*size), make([]affine, n*size)
	want := func(round int) (all []affine) {
		for rank := range n {
			all = append(all, functions(rank, n*size, round)[me*size:][:size]...)
		}
		return all
	}
	fill := func(round int) { copy(src, functions(me, n*size, round)) }
	f.rounds(t, fill, func(round int) { same(t, "Alltoall", dst, want(round)) },
		func() error { return mpi.Alltoall(c, dst, src) },
		func() (mpi.Request, error) { return mpi.Ialltoall(c, dst, src) },
		func() (mpi.Persistent, error) { return mpi.AlltoallInit(c, dst, src) })
	f.rounds(t, fill, func(round int) { same(t, "Alltoall in place", src, want(round)) },
		func() error { return mpi.Alltoall(c, src, src) },
		func() (mpi.Request, error) { return mpi.Ialltoall(c, src, src) },
		func() (mpi.Persistent, error) { return mpi.AlltoallInit(c, src, src) })
	// Rank i gives (i+j)%3 parts to rank j.
	var give, get mpi.Counts
	sum := 0
	for rank := range n {
		give.Counts = append(give.Counts, (me+rank)%3*size)
		sum += give.Counts[rank]
	}
	get = give
	src, dst = make([]affine, sum), make([]affine, sum)
	f.rounds(t, func(round int) { copy(src, functions(me, sum, round)) }, func(round int) {
		var all []affine
		for rank := range n {
			at := 0
			for to := range me {
				at += (rank + to) % 3 * size
			}
			all = append(all, functions(rank, at+2*size, round)[at:][:(rank+me)%3*size]...)
		}
		same(t, "Alltoallv", dst, all)
	},
		func() error { return mpi.Alltoallv(c, dst, src, get, give) },
		func() (mpi.Request, error) { return mpi.Ialltoallv(c, dst, src, get, give) },
		func() (mpi.Persistent, error) { return mpi.AlltoallvInit(c, dst, src, get, give) })
}

// Many collectives are under way at a time, on several communicators, and end in any order. Messages of the program meet none of theirs.
func TestManyCollectivesAtOnce(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		const many = 100
		n, me := c.Size(), c.Rank()
		var all []mpi.Request
		in, out := make([]int, many), make([]int, many)
		anything := must(mpi.Irecv(c, make([]byte, 1), mpi.AnySource, mpi.AnyTag))(t)
		for i := range many {
			in[i] = me * i
			all = append(all, must(mpi.Iallreduce(c, out[i:i+1], in[i:i+1], mpi.Sum))(t))
			all = append(all, must(c.Ibarrier())(t))
		}
		rnd := rand.New(rand.NewPCG(uint64(me), 1))
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		ok(t, mpi.WaitAll(all, nil))
		for i, v := range out {
			if want := n * (n - 1) / 2 * i; v != want {
				t.Errorf("sum %d is %d, want %d", i, v, want)
			}
		}
		if _, done, err := anything.Test(); done || err != nil {
			t.Errorf("a receive of anything has met a message of a collective: %v, %v", done, err)
		}
		ok(t, c.Barrier())
		ok(t, mpi.Send(c, []byte{1}, (me+1)%n, 5))
		must(anything.Wait())(t)
	})
}

// A collective ends at all survivors when a rank dies, wherever that is, and later ones fail at once.
func TestDeathInImmediateCollectives(t *testing.T) {
	const victim, n = 2, 4
	for _, moment := range []int{0, 1, 50, 400} {
		t.Run(fmt.Sprint(moment, " us"), func(t *testing.T) {
			run(t, n, func(t *testing.T, c *mpi.Comm) {
				buf := make([]affine, 20_000)
				ok(t, c.Barrier())
				if c.Rank() == victim {
					go func() {
						for end := time.Now().Add(time.Duration(moment) * time.Microsecond); time.Now().Before(end); {
							continue
						}
						die()
					}()
				}
				for {
					r, err := mpi.Iallreduce(c, buf, buf, compose)
					if err == nil {
						_, err = r.Wait()
					}
					if err != nil {
						wantDeathError(t, "Iallreduce", err, victim)
						break
					}
				}
				wantDeathError(t, "Ibarrier", errOf(c.Ibarrier()), victim)
			}, shmemtest.Recover(victim))
		})
	}
}

// A rank that gives a collective up ends it for all, and the communicator is broken for such collectives.
func TestCollectiveGivenUp(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == 1 {
			must(mpi.Recv(c, make([]byte, 1), 0, 1))(t) // after rank 0 has given up
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		cc := c
		if c.Rank() == 0 {
			cc = c.With(ctx)
		}
		err := mpi.Allgatherv(cc, make([]int, 3), []int{1}, mpi.Counts{Counts: []int{1, 1, 1}})
		if c.Rank() == 0 && !errors.Is(err, context.DeadlineExceeded) || c.Rank() != 0 && !errors.Is(err, mpi.ErrCommBroken) {
			t.Errorf("rank %d: %v", c.Rank(), err)
		}
		if c.Rank() == 0 {
			ok(t, mpi.Send(c, []byte{1}, 1, 1))
		}
		if err := errOf(c.Ibarrier()); !errors.Is(err, mpi.ErrCommBroken) {
			t.Errorf("rank %d: the next collective: %v, want %v", c.Rank(), err, mpi.ErrCommBroken)
		}
	})
}

// Lengths that differ give an error, not a hang.
func TestCollectiveLengthsDiffer(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		r := must(mpi.Iallreduce(c, make([]int, 2+c.Rank()), make([]int, 2+c.Rank()), mpi.Sum))(t)
		if err := errOf(r.Wait()); !errors.Is(err, mpi.ErrMismatch) {
			t.Errorf("rank %d: %v, want %v", c.Rank(), err, mpi.ErrMismatch)
		}
	})
}

// Persistent sends and receives.
func TestPersistentMessages(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		other := 1 - c.Rank()
		out, in := make([]int, 5000), make([]int, 5000)
		ps := []mpi.Persistent{must(mpi.RecvInit(c, in, other, 3))(t), must(mpi.SendInit(c, out, other, 3))(t)}
		for round := range 20 {
			out[0], out[4999] = round, -round
			ok(t, mpi.Start(ps...))
			if err := mpi.Start(ps[0]); !errors.Is(err, mpi.ErrArgument) {
				t.Errorf("Start of an active operation: %v, want %v", err, mpi.ErrArgument)
			}
			must(ps[1].Wait())(t)
			if s := must(ps[0].Wait())(t); s.Source != other || in[0] != round || in[4999] != -round {
				t.Fatalf("round %d: got %d and %d with %+v", round, in[0], in[4999], s)
			}
			if s := must(ps[0].Wait())(t); s != emptyStatus {
				t.Errorf("Wait of an inactive operation returned %+v", s)
			}
		}
		if err := mpi.Start(mpi.Persistent{}); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("Start of nothing: %v, want %v", err, mpi.ErrArgument)
		}
	})
}
