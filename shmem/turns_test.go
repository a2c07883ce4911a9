package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// chooser is a call that returns one of the indices that satisfy it.
type chooser struct {
	call func() int
	want []int // the indices that satisfy it
}

// checkAllTurns makes the calls by turns until each has returned all its indices.
func checkAllTurns(t *testing.T, what string, calls ...chooser) {
	t.Helper()
	seen := make([]map[int]int, len(calls))
	for round := range 10_000 {
		done := true
		for k, c := range calls {
			if seen[k] == nil {
				seen[k] = map[int]int{}
			}
			seen[k][c.call()]++
			for _, i := range c.want {
				done = done && seen[k][i] > 0
			}
		}
		if done {
			return
		}
		if round == 9_999 {
			t.Errorf("%s: after %d rounds the calls have returned %v, want each index of %v", what, round+1, seen, calls)
		}
	}
}

// However waits and tests of the same elements follow each other, each returns all elements that
// satisfy it.
func TestTurnsOfMixedCalls(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		const n = 4
		c, x := w.Ctx(), must(shmem.Calloc[int64](w, n))(t)
		one := make([]int, 1)
		anyOf := func(x shmem.Sym[int64], skip []bool, cmp shmem.Cmp, v int64, want ...int) chooser {
			return chooser{func() int { return must(shmem.WaitUntilAny(c, x, skip, cmp, v))(t) }, want}
		}
		vector := func(v []int64, want ...int) chooser {
			return chooser{func() int { return must(shmem.WaitUntilAnyVector(c, x, nil, shmem.EQ, v))(t) }, want}
		}
		whole := anyOf(x, nil, shmem.EQ, 0, 0, 1, 2, 3)
		checkAllTurns(t, "a part of the object", whole, anyOf(x.Slice(0, 2), nil, shmem.EQ, 0, 0, 1))
		checkAllTurns(t, "three lengths", whole, anyOf(x.Slice(0, 3), nil, shmem.EQ, 0, 0, 1, 2), anyOf(x.Slice(0, 2), nil, shmem.EQ, 0, 0, 1))
		checkAllTurns(t, "masks", anyOf(x, []bool{false, false, true, true}, shmem.EQ, 0, 0, 1), anyOf(x, []bool{true, true, false, true}, shmem.EQ, 0, 2))
		mask := make([]bool, n)
		checkAllTurns(t, "one mask with other contents",
			chooser{func() int {
				copy(mask, []bool{false, false, true, true})
				return must(shmem.WaitUntilAny(c, x, mask, shmem.EQ, 0))(t)
			}, []int{0, 1}},
			chooser{func() int {
				copy(mask, []bool{true, true, false, true})
				return must(shmem.WaitUntilAny(c, x, mask, shmem.EQ, 0))(t)
			}, []int{2}})
		checkAllTurns(t, "vectors", vector([]int64{0, 0, 1, 1}, 0, 1), vector([]int64{1, 1, 0, 1}, 2))
		checkAllTurns(t, "a vector and a value", whole, vector([]int64{0, 1, 1, 0}, 0, 3), vector([]int64{0, 1, 0, 1}, 0, 2))
		copy(x.Local(), []int64{5, 5, 7, 9})
		checkAllTurns(t, "values", anyOf(x, nil, shmem.EQ, 5, 0, 1), anyOf(x, nil, shmem.EQ, 7, 2))
		checkAllTurns(t, "comparisons", anyOf(x, nil, shmem.LE, 5, 0, 1), anyOf(x, nil, shmem.GT, 5, 2, 3), anyOf(x, nil, shmem.NE, 5, 2, 3))
		pair := x.Slice(0, 2)
		checkAllTurns(t, "routines", anyOf(pair, nil, shmem.EQ, 5, 0, 1),
			chooser{func() int { return must(shmem.TestAny(c, pair, nil, shmem.EQ, 5))(t) }, []int{0, 1}},
			chooser{func() int { must(shmem.WaitUntilSome(c, pair, one, nil, shmem.EQ, 5))(t); return one[0] }, []int{0, 1}},
			chooser{func() int { must(shmem.TestSome(c, pair, one, nil, shmem.EQ, 5))(t); return one[0] }, []int{0, 1}})
		checkAllTurns(t, "one routine", anyOf(pair, nil, shmem.EQ, 5, 0, 1))
	})
}

// Calls of one kind return each satisfied element once before they return one again, even if calls
// of other kinds come between.
func TestTurnsInOrder(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		const n = 5
		c, x := w.Ctx(), must(shmem.Calloc[int32](w, n))(t)
		last := must(shmem.WaitUntilAny(c, x, nil, shmem.EQ, 0))(t)
		lastOf2 := must(shmem.WaitUntilAny(c, x.Slice(0, 2), nil, shmem.EQ, 0))(t)
		for range 3 * n {
			i := must(shmem.WaitUntilAny(c, x, nil, shmem.EQ, 0))(t)
			if i != (last+1)%n {
				t.Fatalf("got element %d after element %d, want the next one", i, last)
			}
			last = i
			if i = must(shmem.WaitUntilAny(c, x.Slice(0, 2), nil, shmem.EQ, 0))(t); i != 1-lastOf2 {
				t.Fatalf("got element %d twice in a row, want the other one", i)
			}
			lastOf2 = i
		}
	})
}
