package mpi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Two ranks copy large data of Bcast and Reduce directly between their processes.

// pairRound makes a Bcast and a Reduce of n elements, and checks what they have made.
func pairRound(t *testing.T, c *mpi.Comm, n, root int) {
	t.Helper()
	src, dst := make([]int64, n), make([]int64, n)
	for i := range src {
		src[i] = value(c.Rank(), i)
	}
	copy(dst, src)
	ok(t, mpi.Bcast(c, dst, root))
	for i, v := range dst {
		if v != value(root, i) {
			t.Fatalf("broadcast of %d elements from rank %d: element %d is %d, want %d", n, root, i, v, value(root, i))
		}
	}
	ok(t, mpi.Reduce(c, dst, src, mpi.Sum, root))
	clear(src)
	if c.Rank() != root {
		return
	}
	for i, v := range dst {
		if want := value(0, i) + value(1, i); v != want {
			t.Fatalf("sum of %d elements at rank %d: element %d is %d, want %d", n, root, i, v, want)
		}
	}
}

// The ranks use each other's memory in half of their first collectives (package coll measures both ways), unless the kernel refuses it. Wherever one rank is refused, the collective has the
// right result nevertheless, and so have all that follow.
func TestPairRefused(t *testing.T) {
	for _, from := range []int{-1, 0, 1, 9} {
		for refused := range 2 {
			t.Run(fmt.Sprintf("rank %d from %d", refused, from), func(t *testing.T) {
				run(t, 2, func(t *testing.T, c *mpi.Comm) {
					if c.Rank() == refused {
						mpi.RefuseFrom(from)
					}
					for round := range 12 {
						pairRound(t, c, 4500+round*9000, round%2)
					}
					if n := mpi.Accesses(); c.Rank() == refused && (from < 0 && n < 12 || from >= 0 && (n <= from || n > from+20)) {
						t.Errorf("%d accesses with those from %d on refused", n, from)
					}
				}, hangTimeout)
			})
		}
	}
}

// A rank dies at any moment of a large Bcast. The other one has the root's data, or gets the error of a death.
func TestDeathInBcast(t *testing.T) {
	for victim := range 2 {
		for round := range 2 {
			t.Run(fmt.Sprintf("rank %d, round %d", victim, round), func(t *testing.T) {
				run(t, 2, func(t *testing.T, c *mpi.Comm) {
					const n = 1 << 20
					buf := make([]int64, n)
					for i := range buf {
						buf[i] = int64(i)
					}
					ok(t, c.Barrier())
					if c.Rank() == victim {
						go func() {
							for end := time.Now().Add(time.Duration(rand.IntN(10_000)) * time.Microsecond); time.Now().Before(end); {
								continue
							}
							die()
						}()
					}
					for root := 0; ; root = 1 - root {
						if c.Rank() != root {
							clear(buf)
						}
						if err := mpi.Bcast(c, buf, root); err != nil {
							wantDeathError(t, "Bcast", err, victim)
							break
						}
						for i := range buf {
							if buf[i] != int64(i) {
								t.Fatalf("element %d from rank %d is %d", i, root, buf[i])
							}
						}
					}
				}, shmemtest.Recover(victim), hangTimeout)
			})
		}
	}
}

// A rank dies in its operator, in the middle of a large Reduce.
func TestDeathInReduce(t *testing.T) {
	for victim := range 2 {
		for _, folds := range []int{0, 3} {
			t.Run(fmt.Sprintf("rank %d after %d folds", victim, folds), func(t *testing.T) {
				run(t, 2, func(t *testing.T, c *mpi.Comm) {
					src, dst := make([]int64, 100_000), make([]int64, 100_000)
					left := folds
					op := func(acc, in []int64) {
						if left--; left < 0 && c.Rank() == victim {
							die()
						}
						mpi.Sum(acc, in)
					}
					err := mpi.Reduce(c, dst, src, op, 0)
					if err == nil && c.Rank() != 0 {
						err = mpi.Reduce(c, dst, src, op, 0)
					}
					if !errors.Is(err, mpi.ErrDied) {
						t.Errorf("error %v, want that of a death", err)
					}
					wantDeathError(t, "Reduce", err, victim)
				}, shmemtest.Recover(victim), hangTimeout)
			})
		}
	}
}
