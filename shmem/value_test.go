package shmem_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// These values have sizes around the capacity of a slot; the last one is larger than the pieces of
// a broadcast.
type (
	point   struct{ A, B float64 }
	fits    [8176]byte
	beyond  [8177]byte
	immense [70_000]uint16
)

// bytesOf returns the bytes of a value that a test compares.
func bytesOf[T any](v *T) []byte {
	switch v := any(v).(type) {
	case *byte:
		return []byte{*v}
	case *fits:
		return v[:]
	case *beyond:
		return v[:]
	}
	return nil
}

// valueRounds is how often all sizes of values are tried. A large value takes hundreds of round trips between nodes.
func valueRounds(w *shmem.World) int {
	if spans(w) {
		return 3
	}
	return 20
}

// Reductions of values of all sizes, in jobs of each size, on the world and on a team in another
// order, with all kinds of operators.
func TestReduceValue(t *testing.T) {
	for _, n := range peCounts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
				turned := must(w.Team().SplitStrided(n-1, -1, n, nil))(t)
				for round := range valueRounds(w) {
					for _, tm := range []*shmem.Team{w.Team(), turned} {
						delayInTurn(w, round)
						testReduceValues(t, tm, round)
					}
				}
				ok(t, turned.Destroy())
			})
		})
	}
}

func testReduceValues(t *testing.T, tm *shmem.Team, round int) {
	t.Helper()
	me, n := tm.MyPE(), tm.NPEs()
	checkEqual(t, "sum", must(shmem.ReduceValue(tm, int64(me+round), shmem.Sum))(t), int64(n*round+n*(n-1)/2))
	checkEqual(t, "sum of floats", must(shmem.ReduceValue(tm, float64(me)/2, shmem.Sum))(t), float64(n*(n-1)/2)/2)
	checkEqual(t, "max of bytes", must(shmem.ReduceValue(tm, uint8(me+round), shmem.Max))(t), uint8(n-1+round))
	checkEqual(t, "complex product", must(shmem.ReduceValue(tm, complex64(2i), shmem.Prod))(t), power(2i, n))
	checkEqual(t, "all", must(shmem.ReduceValue(tm, me != round%n, shmem.And))(t), false)
	checkEqual(t, "any", must(shmem.ReduceValue(tm, toggle(me == round%n), shmem.Or))(t), true)
	checkEqual(t, "odd", must(shmem.ReduceValue(tm, true, shmem.Xor))(t), n%2 == 1)

	want := affine{uint32(3), uint32(round)}
	for pe := 1; pe < n; pe++ {
		acc := []affine{want}
		compose(acc, []affine{{uint32(3 + pe), uint32(round + pe*7)}})
		want = acc[0]
	}
	mine := affine{uint32(3 + me), uint32(round + me*7)}
	checkEqual(t, "compositions", must(shmem.ReduceValue(tm, mine, compose))(t), want)
	checkEqual(t, "declared compositions", must(shmem.ReduceValue(tm, mine, shmem.Commutative(compose)))(t), want)

	sums := must(shmem.ReduceValue(tm, [3]int{me, 1, round}, func(acc, in [][3]int) {
		for i := range acc {
			shmem.Sum(acc[i][:], in[i][:])
		}
	}))(t)
	checkEqual(t, "sums", sums, [3]int{n * (n - 1) / 2, n, n * round})

	reduceToLast(t, tm, round, new(fits))
	reduceToLast(t, tm, round, new(beyond))
	var x immense
	for i := range x {
		x[i] = uint16(i + me)
	}
	y := must(shmem.ReduceValue(tm, x, func(acc, in []immense) { shmem.Max(acc[0][:], in[0][:]) }))(t)
	for i := range y {
		want := uint16(i)
		for pe := range n {
			want = max(want, uint16(i+pe))
		}
		if y[i] != want {
			t.Fatalf("element %d of the largest is %d, want %d", i, y[i], want)
		}
	}
}

// reduceToLast reduces values to that of the last PE.
func reduceToLast[T any](t *testing.T, tm *shmem.Team, round int, v *T) {
	t.Helper()
	for i := range bytesOf(v) {
		bytesOf(v)[i] = byte(i*3 + tm.MyPE() + round)
	}
	last := must(shmem.ReduceValue(tm, *v, func(acc, in []T) { copy(acc, in) }))(t)
	for i, b := range bytesOf(&last) {
		if want := byte(i*3 + tm.NPEs() - 1 + round); b != want {
			t.Fatalf("byte %d of a %T is %d, want %d", i, last, b, want)
		}
	}
}

func power(x complex64, n int) complex64 {
	y := x
	for range n - 1 {
		y *= x
	}
	return y
}

func checkEqual[T comparable](t *testing.T, what string, have, want T) {
	t.Helper()
	if have != want {
		t.Fatalf("%s: got %v, want %v", what, have, want)
	}
}

// Each root broadcasts values of all sizes.
func TestBroadcastValue(t *testing.T) {
	for _, n := range peCounts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
				tm, me := w.Team(), w.MyPE()
				for round := range valueRounds(w) {
					for root := range n {
						delayInTurn(w, round+root)
						checkEqual(t, "int", must(shmem.BroadcastValue(tm, me*100+round, root))(t), root*100+round)
						checkEqual(t, "point", must(shmem.BroadcastValue(tm, point{float64(me), float64(round)}, root))(t), point{float64(root), float64(round)})
						checkEqual(t, "bool", must(shmem.BroadcastValue(tm, me == root, root))(t), true)
						x := immense{0: uint16(me), 69_999: uint16(round)}
						checkEqual(t, "immense", must(shmem.BroadcastValue(tm, x, root))(t), immense{0: uint16(root), 69_999: uint16(round)})
						y := beyond{8176: byte(me)}
						checkEqual(t, "beyond", must(shmem.BroadcastValue(tm, y, root))(t), beyond{8176: byte(root)})
					}
				}
			})
		})
	}
}

// Bad arguments return an error that says what is wrong, and a zero result.
func TestValueUsage(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		tm, x := w.Team(), 7
		gone := must(tm.SplitStrided(0, 1, 1, nil))(t)
		ok(t, gone.Destroy())
		reduce := func(t *testing.T, tm *shmem.Team, op shmem.Op[int], cause error, texts ...string) {
			t.Helper()
			v, err := shmem.ReduceValue(tm, 7, op)
			checkEqual(t, "result", v, 0)
			wantError(t, err, cause, append(texts, "shmem.ReduceValue: ")...)
		}
		broadcast := func(t *testing.T, tm *shmem.Team, root int, cause error, texts ...string) {
			t.Helper()
			v, err := shmem.BroadcastValue(tm, 7, root)
			checkEqual(t, "result", v, 0)
			wantError(t, err, cause, append(texts, "shmem.BroadcastValue: ")...)
		}
		reduce(t, nil, shmem.Sum, shmem.ErrArgument, "team is nil")
		reduce(t, new(shmem.Team), shmem.Sum, shmem.ErrArgument, "team is nil")
		reduce(t, gone, shmem.Sum, shmem.ErrDestroyed)
		reduce(t, tm, nil, shmem.ErrArgument, "operator is nil")
		broadcast(t, nil, 0, shmem.ErrArgument, "team is nil")
		broadcast(t, gone, 0, shmem.ErrDestroyed)
		broadcast(t, tm, -1, shmem.ErrPERange, "root -1 of a team of 1")
		broadcast(t, tm, 1, shmem.ErrPERange, "root 1 of a team of 1")

		_, err := shmem.ReduceValue(tm, &x, func(_, _ []*int) {})
		wantError(t, err, shmem.ErrElementType, "*int", "numbers, arrays and structs of them")
		_, err = shmem.BroadcastValue(tm, "text", 0)
		wantError(t, err, shmem.ErrElementType, "string")
		_, err = shmem.BroadcastValue(tm, struct{}{}, 0)
		wantError(t, err, shmem.ErrElementType, "struct {}")
		_, err = shmem.ReduceValue(tm, []int{1}, func(_, _ [][]int) {})
		wantError(t, err, shmem.ErrElementType, "[]int")

		checkEqual(t, "sum", must(shmem.ReduceValue(tm, 7, shmem.Sum))(t), 7) // the team still works
		ok(t, w.Finalize())
		reduce(t, tm, shmem.Sum, shmem.ErrFinalized)
		broadcast(t, tm, 0, shmem.ErrFinalized)
	})
}

// PEs that pass values of different sizes, or call something else, get an error, even without
// checks.
func TestValueMismatch(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		for i, call := range []func(tm *shmem.Team, odd bool) error{
			func(tm *shmem.Team, odd bool) error {
				if odd {
					return errOf(shmem.ReduceValue(tm, int32(1), shmem.Sum))
				}
				return errOf(shmem.ReduceValue(tm, int64(1), shmem.Sum))
			},
			func(tm *shmem.Team, odd bool) error {
				if odd {
					return errOf(shmem.BroadcastValue(tm, 1, 0))
				}
				return errOf(shmem.ReduceValue(tm, 1, shmem.Sum))
			},
			func(tm *shmem.Team, odd bool) error {
				if odd {
					return errOf(shmem.BroadcastValue(tm, int32(1), 1))
				}
				return errOf(shmem.BroadcastValue(tm, int64(1), 1))
			},
		} {
			tm := must(w.Team().SplitStrided(0, 1, 3, nil))(t)
			err := call(tm, w.MyPE() == 1)
			if i < 2 && !errors.Is(err, shmem.ErrMismatch) && !errors.Is(err, shmem.ErrTeamBroken) && (i != 1 || w.MyPE() != 1) {
				t.Errorf("call %d: %v, want %v", i, err, shmem.ErrMismatch)
			}
			if i == 2 && (w.MyPE() == 1 && !spans(w)) != (err == nil) {
				t.Errorf("call %d: %v, want an error on all but the root, on several nodes on all", i, err)
			}
			ok(t, w.Barrier())
			if err := tm.Destroy(); spans(w) { // on one node the team is broken
				ok(t, err)
			}
		}
	})
}

// A call on several PEs does not allocate, with any operator.
func TestValueAllocatesNothing(t *testing.T) {
	for _, n := range []int{1, 2} {
		shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
			tm, ten, v, f := w.Team(), 10, 3, fits{}
			x, y := must(shmem.Calloc[int](w, 1))(t), must(shmem.Calloc[int](w, 1))(t)
			checkError := func(err error) {
				if err != nil {
					t.Error(err)
				}
			}
			if n := testing.AllocsPerRun(200, func() {
				_, err := shmem.ReduceValue(tm, v, shmem.Sum)
				checkError(err)
				_, err = shmem.ReduceValue(tm, v, func(acc, in []int) { acc[0] += ten * in[0] })
				checkError(err)
				_, err = shmem.ReduceValue(tm, f, func(acc, in []fits) { acc[0][0] ^= in[0][0] })
				checkError(err)
				_, err = shmem.BroadcastValue(tm, v, 0)
				checkError(err)
				_, err = shmem.BroadcastValue(tm, f, 0)
				checkError(err)
				checkError(shmem.Reduce(tm, y, x, shmem.Sum))
				checkError(shmem.Reduce(tm, y, x, func(acc, in []int) { acc[0] += ten * in[0] }))
			}); n != 0 {
				t.Errorf("%v allocations a call, want none", n)
			}
			ok(t, w.Barrier())
		}, oneNode)
	}
}

// A PE is killed while the others are in a collective on values of a tolerant team. All survivors
// have the same result, that of the contributors.
func TestValueDeathIsTolerated(t *testing.T) {
	const npes, victim = 4, 2
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		tm, me := w.Team(), w.MyPE()
		checkEqual(t, "sum of all", must(shmem.ReduceValue(tm, 1<<me, shmem.Sum))(t), 15)
		if me == victim {
			dieWhenAsleep(w, 0, 1, 3)
		}
		v, err := shmem.BroadcastValue(tm, 5, victim)
		wantDeathError(t, "BroadcastValue", err, victim)
		checkEqual(t, "broadcast by the dead PE", v, 0)
		contributors := func(want ...int) {
			t.Helper()
			if o := tm.Outcome(); !slices.Equal(o.Contributors, want) || !slices.Equal(o.Failed, []int{victim}) {
				t.Errorf("got outcome %v, want contributors %v", o, want)
			}
		}
		checkEqual(t, "sum", must(shmem.ReduceValue(tm, 1<<me, shmem.Sum))(t), 11)
		contributors(0, 1, 3)
		x := must(shmem.ReduceValue(tm, immense{69_999: 1 << me}, func(acc, in []immense) { shmem.Sum(acc[0][:], in[0][:]) }))(t)
		checkEqual(t, "sum of large values", x[69_999], 11)
		contributors(0, 1, 3)
		checkEqual(t, "broadcast", must(shmem.BroadcastValue(tm, me, 3))(t), 3)
		y := must(shmem.BroadcastValue(tm, immense{5: uint16(me)}, 1))(t)
		checkEqual(t, "broadcast of a large value", y[5], 1)
	}, shmemtest.Recover(victim))
}

// A PE is killed that has contributed to a reduction of a large value but not finished it. All survivors get the same error, or
// on several nodes, where all have all values by then, the same result. The team goes on.
func TestValueDeathInTheMidst(t *testing.T) {
	const npes, victim = 4, 0
	sum := func(acc, in []immense) { shmem.Sum(acc[0][:], in[0][:]) }
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		tm, me := w.Team(), w.MyPE()
		op := sum
		if me == victim { // it has broadcast its value, and folds that of PE 1
			op = func(_, _ []immense) { die() }
		}
		v, err := shmem.ReduceValue(tm, immense{7: 1}, op)
		want := uint16(npes)
		if !spans(w) {
			wantDeathError(t, "ReduceValue", err, victim)
			err, want = nil, 0
		}
		ok(t, err)
		checkEqual(t, "result", v[7], want)
		checkEqual(t, "the next reduction", must(shmem.ReduceValue(tm, immense{7: uint16(1 << me)}, sum))(t)[7], 14)
		checkEqual(t, "the next small reduction", must(shmem.ReduceValue(tm, 1, shmem.Sum))(t), 3)
		ok(t, w.Barrier())
	}, shmemtest.Recover(victim))
}
