package shmem

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/far"
)

// mixedResults runs a job of two nodes in which each PE does random operations on its own part of an object of each PE, and
// increments a counter under a lock. It returns what the operations of each PE have returned.
func mixedResults(t *testing.T, express string) [][]int64 {
	t.Helper()
	t.Setenv(envvar.Express, express)
	f := newFarJob(t, 2, 2)
	const part, rounds, turns = 16, 3000, 40
	results := make([][]int64, len(f.worlds))
	sockets := make([]int, len(f.worlds))
	f.each(t, func(w *World) error {
		x, err := Alloc[int64](w, part*w.NPEs())
		if err != nil {
			return err
		}
		count, err := Alloc[int64](w, 1)
		if err != nil {
			return err
		}
		l, err := NewLock(w)
		if err != nil {
			return err
		}
		me := w.MyPE()
		if results[me], err = mixedOperations(w.Ctx(), x.Slice(me*part, (me+1)*part), rounds); err != nil {
			return err
		}
		if err := w.Barrier(); err != nil {
			return err
		}
		for range turns {
			if err := incrementLocked(w.Ctx(), l, count); err != nil {
				return err
			}
		}
		if err := w.Barrier(); err != nil {
			return err
		}
		n, err := G(w.Ctx(), count, 3)
		if want := int64(turns * w.NPEs()); err == nil && n != want {
			return fmt.Errorf("the counter is %d, want %d", n, want)
		}
		sockets[me] = far.ExpressSockets(w.session.h.far)
		return err
	})
	if used := slices.Min(sockets) > 0; used != (express == "on") {
		t.Errorf("%s: the PEs have %v express sockets", express, sockets)
	}
	return results
}

// incrementLocked increments a counter of PE 3 by a get and a put, under a lock.
func incrementLocked(c *Ctx, l Lock, count Sym[int64]) error {
	if _, err := l.Acquire(c); err != nil {
		return err
	}
	n, err := G(c, count, 3)
	if err == nil {
		err = P(c, count, n+1, 3)
	}
	return errors.Join(err, l.Release(c))
}

// mixedOperations does random operations on x of all PEs, and returns their results.
func mixedOperations(c *Ctx, x Sym[int64], rounds int) (results []int64, err error) {
	rng := rand.New(rand.NewPCG(x.off, 3))
	for i := range rounds {
		pe, at, v := rng.IntN(4), x.At(rng.IntN(x.n-1)), int64(rng.IntN(100))
		var got int64
		switch rng.IntN(8) {
		case 0:
			err = P(c, at, v, pe)
		case 1:
			err = AtomicAdd(c, at, v, pe)
		case 2:
			got, err = AtomicFetchAdd(c, at, v, pe)
		case 3:
			got, err = AtomicCompareSwap(c, at, v, v+1, pe)
		case 4:
			got, err = AtomicSwap(c, at, v, pe)
		case 5:
			b := make([]int64, 2)
			err = Get(c, b, x.Slice(0, 2), pe)
			got = b[0]*1000 + b[1]
		default:
			got, err = G(c, at, pe)
		}
		if err != nil {
			return results, fmt.Errorf("round %d: %w", i, err)
		}
		results = append(results, got)
	}
	return results, nil
}

// Gets, atomic operations and locks give the same with express sockets and without.
func TestExpressChangesNothing(t *testing.T) {
	with, without := mixedResults(t, "on"), mixedResults(t, "off")
	for pe := range with {
		for i := range with[pe] {
			if with[pe][i] != without[pe][i] {
				t.Fatalf("PE %d, operation %d: %d with express sockets, %d without", pe, i, with[pe][i], without[pe][i])
			}
		}
	}
}
