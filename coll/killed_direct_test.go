//go:build linux && !race

package coll_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/reach"
)

// lender is a process that plays direct collectives. All its buffers are in memory, so that the test can overwrite
// them as another process would that has got the number of a dead one.
type lender struct {
	*process
	memory [][]uint32
}

func (l *lender) buffer(n int) []uint32 {
	l.memory = append(l.memory, make([]uint32, n))
	return l.memory[len(l.memory)-1]
}

// play makes collectives until one fails by the other member's death. It draws by rng, which is the same on both.
func (l *lender) play(ctx context.Context, tm *coll.Team, rng *rand.Rand) error {
	const rounds, elems = 40, 20_000
	for round := range rounds {
		reduces, root, salt := rng.IntN(2) == 0, rng.IntN(2), rng.Uint32()
		of := func(m, i int) uint32 { return salt + uint32(m)*1000003 + uint32(i)*7 }
		src, dst := l.buffer(elems), l.buffer(elems)
		for i := range src {
			src[i] = of(l.pe, i)
		}
		var err error
		if reduces {
			err = coll.ReducePrivate(ctx, tm, dst, src, weighted, root)
		} else {
			err = coll.BroadcastDirect(ctx, tm, bytesOfWords(src), root)
			dst = src
		}
		if dead, is := errors.AsType[*coll.DeadError](err); is && slices.Equal(dead.Members, []int{1 - l.pe}) {
			if tm.Tolerant() {
				continue
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		who := tm.Outcome().Contributors
		for i := range dst {
			want := uint32(0)
			for _, m := range who {
				want = want*3 + of(m, i)
			}
			if dst[i] != want && (!reduces || l.pe == root) {
				return fmt.Errorf("round %d: element %d of %v at root %d is %#x, want %#x", round, i, who, root, dst[i], want)
			}
		}
	}
	return nil
}

// TestKilledDirect kills one of two members that copy data directly, at any instruction. The other one gets the right
// data or the error of a death, although other data are in the dead member's memory as soon as its death is published.
func TestKilledDirect(t *testing.T) {
	forEachSeed(t, 200, 60, func(t *testing.T, seed uint64) {
		t.Helper()
		rng := rand.New(rand.NewPCG(seed, 1))
		victim, tolerant := rng.IntN(2), rng.IntN(2) == 0
		all := newProcesses(t, 2, 1<<20, []int{victim})
		var lenders [2]*lender
		for pe, p := range all {
			reach.Publish(p.m.Control(pe))
			lenders[pe] = &lender{process: p}
		}
		for pe, l := range lenders {
			tm := l.team(t, 5, firstPEs(2), tolerant)
			l.run(t, func() error {
				err := l.play(context.WithoutCancel(t.Context()), tm, rand.New(rand.NewPCG(seed, 2)))
				if pe == victim {
					return nil
				}
				return err
			})
		}
		for end := time.Now().Add(time.Duration(rng.IntN(2000)) * time.Microsecond); time.Now().Before(end); {
			runtime.Gosched()
		}
		all[victim].die()
		all[victim].of.Wait()
		all[victim].publish(all)
		for _, buf := range lenders[victim].memory {
			for i := range buf {
				buf[i] = stale
			}
		}
		waitForProcesses(t, fmt.Sprint("seed ", seed), all)
		unmapProcesses(t, all)
	})
}
