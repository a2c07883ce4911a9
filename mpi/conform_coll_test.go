package mpi_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/mpi"
)

// forms of a collective that a test runs one after the other: one that waits, and one that does not.
type bothForms struct {
	wait  func() error
	begin func() (mpi.Request, error)
}

func (f bothForms) each(t *testing.T, reset, check func()) {
	t.Helper()
	reset()
	ok(t, f.wait())
	check()
	reset()
	must(must(f.begin())(t).Wait())(t)
	check()
}

// Reductions keep the order of the ranks with an operator that does not commute: of 3, 6 and 7 ranks, at all roots, in place and not, of short and long data.
func TestOrderOfReductions(t *testing.T) {
	run(t, 7, func(t *testing.T, world *mpi.Comm) {
		for _, n := range []int{3, 6, 7} {
			color := 0
			if world.Rank() >= n {
				color = mpi.Undefined
			}
			c := must(world.Split(color, 0))(t)
			if c == nil {
				continue
			}
			for _, size := range []int{1, 5000} {
				if size > 1 && n == 7 {
					continue // long data of 3 and 6 ranks
				}
				testReductionOrder(t, c, size)
			}
			ok(t, c.Free())
		}
	}, hangTimeout)
}

func testReductionOrder(t *testing.T, c *mpi.Comm, size int) {
	n, me := c.Size(), c.Rank()
	src, dst := make([]affine, size), make([]affine, size)
	untouched := functions(99, size, 0)
	for _, inPlace := range []bool{false, true} {
		if inPlace {
			dst = src
		}
		reset := func() {
			copy(dst, untouched)
			copy(src, functions(me, size, 0))
		}
		for root := range n {
			if size > 1 && root != n-1 {
				continue
			}
			bothForms{
				func() error { return mpi.Reduce(c, dst, src, compose, root) },
				func() (mpi.Request, error) { return mpi.Ireduce(c, dst, src, compose, root) },
			}.each(t, reset, func() {
				if me == root {
					same(t, "Reduce", dst, composed(0, n, size, 0))
				}
			})
		}
		bothForms{
			func() error { return mpi.Allreduce(c, dst, src, compose) },
			func() (mpi.Request, error) { return mpi.Iallreduce(c, dst, src, compose) },
		}.each(t, reset, func() { same(t, "Allreduce", dst, composed(0, n, size, 0)) })
		bothForms{
			func() error { return mpi.Scan(c, dst, src, compose) },
			func() (mpi.Request, error) { return mpi.Iscan(c, dst, src, compose) },
		}.each(t, reset, func() { same(t, "Scan", dst, composed(0, me+1, size, 0)) })
		bothForms{
			func() error { return mpi.Exscan(c, dst, src, compose) },
			func() (mpi.Request, error) { return mpi.Iexscan(c, dst, src, compose) },
		}.each(t, reset, func() {
			want := untouched // rank 0 gets nothing
			switch {
			case me > 0:
				want = composed(0, me, size, 0)
			case inPlace:
				want = functions(me, size, 0)
			}
			same(t, "Exscan", dst, want)
		})
	}
	// Parts of different lengths, some of them empty.
	counts := make([]int, n)
	at, sum := 0, 0
	for rank := range counts {
		if counts[rank] = size * (rank % 3); rank < me {
			at += counts[rank]
		}
		sum += counts[rank]
	}
	src = make([]affine, sum)
	for _, dst := range [][]affine{make([]affine, counts[me]), src} {
		bothForms{
			func() error { return mpi.ReduceScatter(c, dst, src, counts, compose) },
			func() (mpi.Request, error) { return mpi.IreduceScatter(c, dst, src, counts, compose) },
		}.each(t, func() { copy(src, functions(me, sum, 0)) },
			func() { same(t, "ReduceScatter", dst[:counts[me]], composed(0, n, sum, 0)[at:][:counts[me]]) })
	}
	src = make([]affine, n*size)
	for _, dst := range [][]affine{make([]affine, size), src} {
		bothForms{
			func() error { return mpi.ReduceScatterBlock(c, dst, src, compose) },
			func() (mpi.Request, error) { return mpi.IreduceScatterBlock(c, dst, src, compose) },
		}.each(t, func() { copy(src, functions(me, n*size, 0)) },
			func() { same(t, "ReduceScatterBlock", dst[:size], composed(0, n, n*size, 0)[me*size:][:size]) })
	}
}

// All roots: broadcasts of all lengths, gathers and scatters in place and not, with parts that are empty at the root or elsewhere.
func TestAllRoots(t *testing.T) {
	run(t, 5, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		for root := range n {
			for _, size := range []int{0, 1, 1000, 40_000} {
				buf := make([]affine, size)
				bothForms{
					func() error { return mpi.Bcast(c, buf, root) },
					func() (mpi.Request, error) { return mpi.Ibcast(c, buf, root) },
				}.each(t, func() { copy(buf, functions(me, size, 1)) }, func() { same(t, "Bcast", buf, functions(root, size, 1)) })
			}
			for skip := range 3 { // which third of the parts is empty
				v := mpi.Counts{}
				at := 0
				for rank := range n {
					size := 30
					if rank%3 == skip {
						size = 0
					}
					v.Counts, v.Displs = append(v.Counts, size), append(v.Displs, at)
					at += size + 2
				}
				whole := functions(7, at, root)
				full := func(of func(rank, size int) []affine) []affine {
					all := slices.Clone(whole)
					for rank, size := range v.Counts {
						copy(all[v.Displs[rank]:], of(rank, size))
					}
					return all
				}
				want := full(func(rank, size int) []affine { return functions(rank, size, skip) })
				all := make([]affine, at)
				mine := make([]affine, v.Counts[me])
				if skip != 1 && me == root {
					mine = all[v.Displs[me]:][:v.Counts[me]] // in place
				}
				bothForms{
					func() error { return mpi.Gatherv(c, all, mine, v, root) },
					func() (mpi.Request, error) { return mpi.Igatherv(c, all, mine, v, root) },
				}.each(t, func() {
					copy(all, whole)
					copy(mine, functions(me, len(mine), skip))
				}, func() {
					if me == root {
						same(t, "Gatherv", all, want)
					}
				})
				bothForms{
					func() error { return mpi.Scatterv(c, mine, all, v, root) },
					func() (mpi.Request, error) { return mpi.Iscatterv(c, mine, all, v, root) },
				}.each(t, func() {
					clear(mine)
					copy(all, want)
				}, func() { same(t, "Scatterv", mine, functions(me, len(mine), skip)) })
			}
		}
	}, hangTimeout)
}

// Each rank exchanges long parts with its two neighbors, and nothing with the others, in place and not.
func TestAlltoallvOfNeighbors(t *testing.T) {
	run(t, 5, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		for _, size := range []int{0, 3, 60_000} {
			of := mpi.Counts{Counts: make([]int, n), Displs: make([]int, n)}
			at := 0
			for rank := range n {
				if rank == (me+1)%n || rank == (me+n-1)%n {
					of.Counts[rank] = size
				}
				of.Displs[rank] = at
				at += of.Counts[rank]
			}
			src := make([]int, at)
			for _, dst := range [][]int{make([]int, at), src} {
				bothForms{
					func() error { return mpi.Alltoallv(c, dst, src, of, of) },
					func() (mpi.Request, error) { return mpi.Ialltoallv(c, dst, src, of, of) },
				}.each(t, func() {
					for rank, count := range of.Counts {
						for i := range count {
							src[of.Displs[rank]+i] = me*1_000_000 + rank*100_000 + i
						}
					}
				}, func() {
					for rank, count := range of.Counts {
						for i := range count {
							if got, want := dst[of.Displs[rank]+i], rank*1_000_000+me*100_000+i; got != want {
								t.Fatalf("element %d of rank %d is %d, want %d", i, rank, got, want)
							}
						}
					}
				})
			}
		}
	}, hangTimeout)
}

// Collectives of all kinds are under way at a time on several communicators, with messages among them, and are waited for in another order at each rank.
func TestCollectivesAmongOthers(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		comms := []*mpi.Comm{c, must(c.Dup())(t), must(c.Split(0, -c.Rank()))(t)}
		plan := rand.New(rand.NewPCG(5, 6)) // the same at all ranks
		mine := rand.New(rand.NewPCG(uint64(me), 9))
		const many = 60
		var all []mpi.Request
		var checks []func()
		add := func(r mpi.Request, err error) { all = append(all, must(r, err)(t)) }
		for k := range many {
			d := comms[plan.IntN(len(comms))]
			size := []int{1, 30, 3000}[plan.IntN(3)]
			root, rank := plan.IntN(n), d.Rank()
			src, dst := make([]int, size), make([]int, size)
			for i := range src {
				src[i] = 1000*k + 10*rank + i
			}
			want := func(i int) int { return n*(1000*k+i) + 10*n*(n-1)/2 }
			switch plan.IntN(7) {
			case 0:
				add(mpi.Iallreduce(d, dst, src, mpi.Sum))
			case 1:
				add(mpi.Ireduce(d, dst, src, mpi.Sum, root))
				if rank != root {
					dst = nil
				}
			case 2:
				add(mpi.Ibcast(d, src, root))
				dst, want = src, func(i int) int { return 1000*k + 10*root + i }
			case 3:
				add(mpi.Iscan(d, dst, src, mpi.Max))
				want = func(i int) int { return 1000*k + 10*rank + i }
			case 4:
				dst = make([]int, n*size)
				add(mpi.Iallgather(d, dst, src))
				want = func(i int) int { return 1000*k + 10*(i/size) + i%size }
			case 5:
				add(d.Ibarrier())
				dst = nil
			case 6:
				add(mpi.Irecv(d, dst, (rank+1)%n, k))
				add(mpi.Isend(d, src, (rank+n-1)%n, k))
				want = func(i int) int { return 1000*k + 10*((rank+1)%n) + i }
			}
			checks = append(checks, func() {
				for i, got := range dst {
					if got != want(i) {
						t.Fatalf("operation %d: element %d is %d, want %d", k, i, got, want(i))
					}
				}
			})
			if k%7 == 6 {
				if _, err := mpi.TestSome(all); err != nil {
					t.Fatal(err)
				}
			}
		}
		mine.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for {
			i, _, err := mpi.WaitAny(all[:len(all)/2])
			if ok(t, err); i < 0 {
				break
			}
		}
		ok(t, mpi.WaitAll(all, nil))
		for _, check := range checks {
			check()
		}
		for _, d := range comms[1:] {
			ok(t, d.Free())
		}
	}, hangTimeout)
}

// A barrier that does not wait is complete when all ranks have begun it, not before; several may be under way.
func TestBarriersOverlap(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		for range 5 {
			if c.Rank() == 0 {
				for range 2 * (c.Size() - 1) {
					must(mpi.Recv(c, make([]byte, 1), mpi.AnySource, 1))(t)
				}
			}
			a, b := must(c.Ibarrier())(t), must(c.Ibarrier())(t)
			if c.Rank() > 0 { // rank 0 waits for two messages
				for range 2 {
					for range 20 {
						for _, r := range []mpi.Request{b, a} {
							if _, done, err := r.Test(); done || err != nil {
								t.Fatalf("a barrier has ended before rank 0 has begun it: %v", err)
							}
						}
					}
					ok(t, mpi.Send(c, []byte{1}, 0, 1))
				}
			}
			must(b.Wait())(t)
			must(a.Wait())(t)
		}
	}, hangTimeout)
}

// Persistent collectives are started in another order at each rank, and again and again.
func TestPersistentInAnyOrder(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		buf, sum, in, pre := make([]int, 2000), []int{0}, []int{0}, []int{0}
		ps := []mpi.Persistent{
			must(mpi.BcastInit(c, buf, 1))(t), must(c.BarrierInit())(t),
			must(mpi.AllreduceInit(c, sum, in, mpi.Sum))(t), must(mpi.ExscanInit(c, pre, in, mpi.Sum))(t),
		}
		rnd := rand.New(rand.NewPCG(uint64(me), 3))
		for round := range 10 {
			in[0], pre[0] = me+round, -1
			if me == 1 {
				buf[0], buf[1999] = round, round+1
			}
			var all []mpi.Request
			for _, i := range rnd.Perm(len(ps)) {
				ok(t, mpi.Start(ps[i]))
				all = append(all, ps[i].Request())
			}
			ok(t, mpi.WaitAll(all, nil))
			want := -1
			if me > 0 {
				want = me*(me-1)/2 + me*round
			}
			if buf[0] != round || buf[1999] != round+1 || sum[0] != n*round+n*(n-1)/2 || pre[0] != want {
				t.Fatalf("round %d: %d, %d, %d, %d", round, buf[0], buf[1999], sum[0], pre[0])
			}
		}
	}, hangTimeout)
}

// Sums of floating-point numbers, whose order matters, have the same bits at all ranks, in all forms and lengths.
func TestSameBits(t *testing.T) {
	run(t, 6, func(t *testing.T, c *mpi.Comm) {
		rnd := rand.New(rand.NewPCG(uint64(c.Rank()), 1))
		for _, size := range []int{1, 7, 1000, 20_000} {
			src, dst := make([]float32, size), make([]float32, size)
			for i := range src {
				src[i] = (rnd.Float32() - 0.5) * float32(math.Pow(10, float64(rnd.IntN(12))))
			}
			bothForms{
				func() error { return mpi.Allreduce(c, dst, src, mpi.Sum) },
				func() (mpi.Request, error) { return mpi.Iallreduce(c, dst, src, mpi.Sum) },
			}.each(t, func() { clear(dst) }, func() {
				first := slices.Clone(dst)
				ok(t, mpi.Bcast(c, first, 0))
				for i := range dst {
					if math.Float32bits(dst[i]) != math.Float32bits(first[i]) {
						t.Fatalf("element %d of %d is %v, at rank 0 %v", i, size, dst[i], first[i])
					}
				}
			})
		}
	}, hangTimeout)
}

// testOperatorsOf checks all operators that order numbers and count with them, with one type.
func testOperatorsOf[T mpi.Ordered](t *testing.T, c *mpi.Comm) {
	t.Helper()
	n, me := c.Size(), c.Rank()
	factorial := 1
	for i := 2; i <= n; i++ {
		factorial *= i
	}
	src := []T{T(me), 1, T(n - me), T(me % 2)}
	for _, x := range []struct {
		name string
		op   mpi.Op[T]
		want []int
	}{
		{"Sum", mpi.Sum[T], []int{n * (n - 1) / 2, n, n * (n + 1) / 2, n / 2}},
		{"Prod", mpi.Prod[T], []int{0, 1, factorial, 0}},
	} {
		dst := make([]T, len(src))
		ok(t, mpi.Allreduce(c, dst, src, x.op))
		for i, want := range x.want {
			if dst[i] != T(want) {
				t.Errorf("%s of %T: element %d is %v, want %d", x.name, dst[i], i, dst[i], want)
			}
		}
	}
}

// testOrderOf checks Min, Max and their places, with one type.
func testOrderOf[T mpi.Ordered](t *testing.T, c *mpi.Comm) {
	t.Helper()
	n, me := c.Size(), c.Rank()
	low, high := make([]T, 2), make([]T, 2)
	ok(t, mpi.Allreduce(c, low, []T{T(me), T(n - me)}, mpi.Min))
	ok(t, mpi.Allreduce(c, high, []T{T(me), T(n - me)}, mpi.Max))
	if low[0] != 0 || low[1] != 1 || high[0] != T(n-1) || high[1] != T(n) {
		t.Errorf("Min and Max of %T: %v, %v", low[0], low, high)
	}
	at := func(v int) mpi.Loc[T] { return mpi.Loc[T]{Value: T(v), Index: me} }
	src := []mpi.Loc[T]{at(me), at(n - me), at(3), at(me % 2)} // equal values: the lowest index
	least, most := make([]mpi.Loc[T], 4), make([]mpi.Loc[T], 4)
	ok(t, mpi.Reduce(c, least, src, mpi.MinLoc, 1))
	ok(t, mpi.Allreduce(c, most, src, mpi.MaxLoc))
	loc := func(v, i int) mpi.Loc[T] { return mpi.Loc[T]{Value: T(v), Index: i} }
	same(t, "MaxLoc", most, []mpi.Loc[T]{loc(n-1, n-1), loc(n, 0), loc(3, 0), loc(1, 1)})
	if me == 1 {
		same(t, "MinLoc", least, []mpi.Loc[T]{loc(0, 0), loc(1, n-1), loc(3, 0), loc(0, 0)})
	}
}

// testBitsOf checks the operators of bits, with one type.
func testBitsOf[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr](t *testing.T, c *mpi.Comm) {
	t.Helper()
	n, me := c.Size(), c.Rank()
	src := []T{T(1 << me), ^T(1 << me), T(me % 2), ^T(0)}
	for _, x := range []struct {
		name string
		op   mpi.Op[T]
		want []T
	}{
		{"And", mpi.And[T], []T{0, ^T(1<<n - 1), 0, ^T(0)}},
		{"Or", mpi.Or[T], []T{T(1<<n - 1), ^T(0), 1, ^T(0)}},
		{"Xor", mpi.Xor[T], []T{T(1<<n - 1), ^T(1<<n - 1), T(n / 2 % 2), ^T(0)}},
	} {
		dst := make([]T, len(src))
		ok(t, mpi.Allreduce(c, dst, src, x.op))
		if x.name == "Xor" && n%2 == 0 {
			x.want[1], x.want[3] = T(1<<n-1), 0
		}
		same(t, x.name, dst, x.want)
	}
}

// The operators have the right results with every type that they take.
func TestOperatorsOfAllTypes(t *testing.T) {
	run(t, 5, func(t *testing.T, c *mpi.Comm) {
		for _, f := range []func(*testing.T, *mpi.Comm){
			testOperatorsOf[int], testOperatorsOf[int8], testOperatorsOf[int16], testOperatorsOf[int32], testOperatorsOf[int64],
			testOperatorsOf[uint], testOperatorsOf[uint8], testOperatorsOf[uint16], testOperatorsOf[uint32], testOperatorsOf[uint64],
			testOperatorsOf[float32], testOperatorsOf[float64],
			testOrderOf[int], testOrderOf[int8], testOrderOf[int16], testOrderOf[int32], testOrderOf[int64],
			testOrderOf[uint8], testOrderOf[uint16], testOrderOf[uint32], testOrderOf[uint64], testOrderOf[float32], testOrderOf[float64],
			testBitsOf[int], testBitsOf[int8], testBitsOf[int16], testBitsOf[int32], testBitsOf[int64],
			testBitsOf[uint], testBitsOf[uint8], testBitsOf[uint16], testBitsOf[uint32], testBitsOf[uint64],
		} {
			f(t, c)
		}
		n, z := c.Size(), []complex128{0}
		ok(t, mpi.Allreduce(c, z, []complex128{complex(1, float64(c.Rank()))}, mpi.Sum))
		if want := complex(float64(n), float64(n*(n-1)/2)); z[0] != want {
			t.Errorf("Sum of complex128: %v, want %v", z[0], want)
		}
		ok(t, mpi.Allreduce(c, z, []complex128{1i}, mpi.Prod))
		if z[0] != 1i { // i to the power of 5
			t.Errorf("Prod of complex128: %v, want i", z[0])
		}
	}, hangTimeout)
}

// Collectives between groups of different sizes: of long data, in one direction, and of no data.
func TestInterCollectives(t *testing.T) {
	run(t, 5, func(t *testing.T, c *mpi.Comm) {
		for _, split := range []int{1, 2, 4} {
			x, side := newIntercomm(t, c, split)
			me, theirs := x.Remote().Rank(), x.Remote().Size()
			for _, size := range []int{0, 1, 4000} {
				for _, gives := range []int{0, 1, 2} { // which group gives something; 2: both
					mine, get := 0, 0
					if gives == 2 || gives == side {
						mine = size
					}
					if gives != side {
						get = size
					}
					in := make([]affine, get*theirs)
					ok(t, mpi.InterAllgather(x, in, functions(10*side+me, mine, 0)))
					for rank := range theirs {
						same(t, "InterAllgather", in[rank*get:][:get], functions(10*(1-side)+rank, get, 0))
					}
					clear(in)
					out := functions(10*side+me, mine*theirs, 1)
					ok(t, mpi.InterAlltoall(x, in, out))
					for rank := range theirs {
						other := functions(10*(1-side)+rank, get*x.Local().Size(), 1)
						same(t, "InterAlltoall", in[rank*get:][:get], other[me*get:][:get])
					}
				}
				want := functions(10*(1-side), size, 2)
				for rank := 1; rank < theirs; rank++ {
					compose(want, functions(10*(1-side)+rank, size, 2))
				}
				dst := make([]affine, size)
				ok(t, mpi.InterAllreduce(x, dst, functions(10*side+me, size, 2), compose))
				same(t, "InterAllreduce", dst, want)
				for at := range 2 { // the group of the root
					for root := range []int{split, c.Size() - split}[at] {
						as := root
						if side == at {
							as = mpi.ProcNull
							if me == root {
								as = mpi.Root
							}
						}
						clear(dst)
						ok(t, mpi.InterReduce(x, dst, functions(10*side+me, size, 2), compose, as))
						if as == mpi.Root {
							same(t, "InterReduce", dst, want)
						}
						buf := functions(10*side+me, size, 3)
						ok(t, mpi.InterBcast(x, buf, as))
						from := 10*side + me
						if side != at {
							from = 10*at + root
						}
						same(t, "InterBcast", buf, functions(from, size, 3))
					}
				}
			}
			ok(t, x.Free())
		}
	}, hangTimeout)
}
