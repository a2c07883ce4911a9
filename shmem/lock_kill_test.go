package shmem_test

import (
	"context"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

var lockKills = flag.Int("lockkills", 40, "how many PEs TestLockKills kills")

// PEs are killed at any time while all acquire and release a lock, give up waiting for it and come
// back. The survivors exclude each other, learn that the data under the lock may be half changed,
// lose no change and finish.
func TestLockKills(t *testing.T) {
	const npes, perJob, rounds = 7, 4, 300
	kills := *lockKills
	switch {
	case os.Getenv("GOSHMEM_SHMEMTEST_CALL") != "": // a PE, which does not get the flag
		kills = math.MaxInt32
	case testing.Short():
		kills = perJob
	}
	for seed := range uint64((kills + perJob - 1) / perJob) {
		victims := rand.New(rand.NewPCG(seed, 1)).Perm(npes)[:perJob] // the same on all PEs
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			c, me := w.Ctx(), w.MyPE()
			var l shmem.Lock
			for range 1 + seed%npes { // every PE is the home of some job's lock
				l = newLockBeside(t, w, victims...)
			}
			dies := slices.Contains(victims, me)
			x := must(shmem.Calloc[int64](w, 3+npes))(t)
			g := lockedCounter{n: x.At(0), twice: x.At(1)}
			for slices.Contains(victims, g.pe) {
				g.pe++ // the counter is on a PE that lives
			}
			finished, counts := x.At(2), x.Slice(3, 3+npes)
			ok(t, w.Barrier())
			rng := rand.New(rand.NewPCG(seed, uint64(me)+2))
			if dies {
				when := time.Duration(rng.Int64N(int64(5 * time.Millisecond)))
				go func() {
					for begun := time.Now(); time.Since(begun) < when; {
						runtime.Gosched()
					}
					die()
				}()
			}
			for done := int64(0); done < rounds || dies; {
				told, got := takeLock(t, l, c, rng)
				if !got {
					continue
				}
				if told { // repairs the data
					ok(t, shmem.P(c, g.twice, 2*must(shmem.G(c, g.n, g.pe))(t), g.pe))
				}
				g.increment(t, c)
				done++
				ok(t, shmem.P(c, counts.At(me), done, g.pe))
				ok(t, l.Release(c))
			}
			ok(t, shmem.AtomicInc(c, finished, g.pe))
			if me != g.pe {
				return
			}
			waitFor(t, "all are done", func() bool {
				return len(w.Failed()) == perJob && must(shmem.AtomicFetch(c, finished, me))(t) == npes-perJob
			})
			must(l.Acquire(c))(t)
			var sum int64
			for _, n := range counts.Local() {
				sum += n
			}
			if n := g.n.Local()[0]; n < sum || n > sum+perJob { // a victim may die between the change and its count
				t.Errorf("%d changes, want %d and at most %d more by the dead", n, sum, perJob)
			}
			ok(t, l.Release(c))
			checkInt(t, "PEs left in the queue", shmem.Queued(w, l), 0)
		}, shmemtest.Recover(victims...))
	}
}

// takeLock gets the lock in one of the possible ways, or gives up. told reports whether the
// previous holder died.
func takeLock(t *testing.T, l shmem.Lock, c *shmem.Ctx, rng *rand.Rand) (told, got bool) {
	t.Helper()
	var g shmem.Grant
	var err error
	switch rng.IntN(4) {
	case 0:
		g, got, err = l.Try(c)
	case 1:
		ctx, stop := context.WithTimeout(t.Context(), time.Duration(rng.IntN(200))*time.Microsecond)
		defer stop()
		if g, err = l.Acquire(c.With(ctx)); errors.Is(err, context.DeadlineExceeded) {
			return false, false
		}
		got = true
	default:
		g, err = l.Acquire(c)
		got = true
	}
	ok(t, err)
	if g.HolderDied != (g.PE >= 0) || g.HolderDied && !got {
		t.Errorf("got %v with the grant %+v, want HolderDied only for a lock that a dead PE held", got, g)
	}
	return g.HolderDied, got
}
