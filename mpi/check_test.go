package mpi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// namedCall is a call of a collective, with the text by which messages name it.
type namedCall struct {
	text string
	call func(c *mpi.Comm) error
}

func keepFirst(_, _ []int64) {}

func bcast[T any](n, root int) namedCall {
	return namedCall{fmt.Sprintf("Bcast of %d elements of %T, root %d", n, *new(T), root), func(c *mpi.Comm) error {
		return mpi.Bcast(c, make([]T, n), root)
	}}
}

func reduce(name string, n, root int, op func(acc, in []int64)) namedCall {
	return namedCall{fmt.Sprintf("Reduce(%s) of %d elements of int64, root %d", name, n, root), func(c *mpi.Comm) error {
		return mpi.Reduce(c, make([]int64, n), make([]int64, n), op, root)
	}}
}

func allreduce(name string, n int, op func(acc, in []int64)) namedCall {
	return namedCall{fmt.Sprintf("Allreduce(%s) of %d elements of int64", name, n), func(c *mpi.Comm) error {
		return mpi.Allreduce(c, make([]int64, n), make([]int64, n), op)
	}}
}

// One rank calls something else than the others. All ranks get an error that says which rank calls
// what, and the communicator goes on.
func TestCheckDifferences(t *testing.T) {
	barrier := namedCall{"Barrier", func(c *mpi.Comm) error { return c.Barrier() }}
	split := namedCall{"Comm.Split", func(c *mpi.Comm) error {
		_, err := c.Split(0, 0)
		return err
	}}
	sum := mpi.Sum[int64]
	runBare(t, 4, func(t *testing.T) {
		w := must(mpi.Init())(t)
		whole := w.Comm()
		half := must(whole.Split(whole.Rank()/3, -whole.Rank()))(t) // ranks 2, 1 and 0, and rank 3 alone
		for turn, pair := range [][2]namedCall{
			{barrier, bcast[int64](8, 0)},
			{bcast[int64](8, 0), reduce("sum", 8, 0, mpi.Sum)},
			{reduce("sum", 8, 0, sum), allreduce("sum", 8, mpi.Sum)},
			{allreduce("sum", 8, sum), split},
			{split, barrier},
			{bcast[int64](8, 0), bcast[int64](8, 1)},
			{bcast[int64](8, 0), bcast[int64](9, 0)},
			{bcast[int64](8, 0), bcast[float64](8, 0)},
			{bcast[int64](30000, 0), barrier},
			{reduce("sum", 8, 0, sum), reduce("max", 8, 0, mpi.Max)},
			{reduce("sum", 8, 0, sum), reduce("mpi_test.keepFirst", 8, 0, keepFirst)},
			{reduce("sum", 8, 0, sum), reduce("sum", 8, 1, sum)},
			{allreduce("sum", 30000, sum), allreduce("min", 30000, mpi.Min)},
			{allreduce("sum", 30000, sum), allreduce("sum", 29999, sum)},
			{barrier, {"Comm.Free", func(c *mpi.Comm) error { return c.Free() }}},
			{barrier, {"Bcast with bad arguments (root 9", func(c *mpi.Comm) error { return mpi.Bcast(c, []int{1}, 9) }}},
			{barrier, {"Bcast with bad arguments (", func(c *mpi.Comm) error { return mpi.Bcast(c, []*int{nil}, 0) }}},
			{barrier, {"Reduce with bad arguments (operator is nil", func(c *mpi.Comm) error { return mpi.Reduce(c, []int{1}, []int{1}, nil, 0) }}},
			{barrier, {"Allreduce with bad arguments (destination has 2", func(c *mpi.Comm) error {
				return mpi.Allreduce(c, []int{1, 2}, []int{1}, mpi.Sum)
			}}},
		} {
			for _, c := range []*mpi.Comm{whole, half} {
				if c.Size() == 1 || c == whole && pair[1].text == "Comm.Free" {
					continue
				}
				odd, mine := turn%c.Size(), pair[0]
				if c.Rank() == odd {
					mine = pair[1]
				}
				end := fmt.Sprintf(" on rank %d: want the same call on all ranks", odd)
				if c == half { // its ranks are numbered in reverse
					end = fmt.Sprintf(" on rank %d (ranks of the communicator, not of the job): want the same call on all of them", odd)
				}
				err := mine.call(c)
				if refused := strings.Contains(pair[1].text, "bad arguments"); refused && c.Rank() == odd {
					if err == nil || errors.Is(err, mpi.ErrMismatch) {
						t.Errorf("%s: error %v, want the rank's own error", mine.text, err)
					}
				} else if !errors.Is(err, mpi.ErrMismatch) || !strings.Contains(err.Error(), pair[0].text+" on rank ") ||
					!strings.Contains(err.Error(), ", but "+pair[1].text) || !strings.HasSuffix(err.Error(), end) {
					t.Errorf("error %v, want one that names %q, but %q on rank %d", err, pair[0].text, pair[1].text, odd)
				}
				have := []int{0}
				ok(t, mpi.Allreduce(c, have, []int{1}, mpi.Sum))
				if have[0] != c.Size() {
					t.Fatalf("%s: the next sum is %d, want %d", pair[1].text, have[0], c.Size())
				}
			}
		}
		ok(t, half.Free())
		if whole.Rank() == 2 {
			if err := w.Finalize(); !errors.Is(err, mpi.ErrMismatch) || !strings.Contains(err.Error(), "but Finalize on rank 2") {
				t.Errorf("Finalize: error %v, want %v", err, mpi.ErrMismatch)
			}
		} else if err := whole.Barrier(); !errors.Is(err, mpi.ErrMismatch) || !strings.Contains(err.Error(), "Barrier on rank 0, 1, 3, but Finalize") {
			t.Errorf("Barrier: error %v, want %v", err, mpi.ErrMismatch)
		}
		ok(t, w.Finalize())
	}, shmemtest.Env("GOSHMEM_CHECK=collectives"), shmemtest.Timeout(30*time.Second))
}
