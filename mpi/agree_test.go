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

// commKinds are the kinds of communicators that comms makes.
var commKinds = []string{"world", "split", "messages"}

// agreeOn is Agree, or Iagree and Wait.
func agreeOn(c *mpi.Comm, waits bool, flags uint64) (uint64, error) {
	if waits {
		return c.Agree(flags)
	}
	r, err := c.Iagree(&flags)
	if err == nil {
		_, err = r.Wait()
	}
	return flags, err
}

// All ranks get the AND of the flags of all, on all kinds of communicators, also on one that is revoked.
func TestAgree(t *testing.T) {
	forEachSize(t, func(t *testing.T, c *mpi.Comm) {
		all := comms(t, c)
		for _, kind := range commKinds {
			d := all[kind]
			for i := range 20 {
				if i == 10 && kind != "world" {
					ok(t, d.Revoke())
				}
				mine := ^(uint64(1) << d.Rank()) &^ (uint64(i) << 32)
				want := ^uint64(0)
				for rank := range d.Size() {
					want &^= 1 << rank
				}
				got := must(agreeOn(d, i%3 != 0, mine))(t)
				if want &^= uint64(i) << 32; got != want {
					t.Fatalf("%s, agreement %d: %#x, want %#x", kind, i, got, want)
				}
			}
			if kind != "world" {
				ok(t, d.Free())
			}
		}
	})
}

// Several agreements under way are decided in their order.
func TestIagreeMany(t *testing.T) {
	const many = 50
	forEachSize(t, func(t *testing.T, c *mpi.Comm) {
		flags, all := make([]uint64, many), make([]mpi.Request, many)
		for i := range many {
			flags[i] = ^uint64(0)
			if i%c.Size() == c.Rank() {
				flags[i] = uint64(i)
			}
			all[i] = must(c.Iagree(&flags[i]))(t)
		}
		got := must(c.Agree(uint64(3 + c.Rank()<<8)))(t)
		ok(t, mpi.WaitAll(all, nil))
		if got&255 != 3 {
			t.Errorf("Agree: %#x", got)
		}
		for i, f := range flags {
			if f != uint64(i) {
				t.Errorf("agreement %d: %#x, want %#x", i, f, i)
			}
		}
	})
}

// draws returns how many draws a test makes of n: with -short, a third.
func draws(n int) int {
	if testing.Short() {
		return max(1, n/3)
	}
	return n
}

// outcome is what a rank got from an agreement.
type outcome struct {
	Flags, Dead uint64
	Failed      bool
}

// outcomeOf returns the outcome of an agreement; its ranks are numbered as in the world.
func outcomeOf(t *testing.T, flags uint64, err error) (o outcome) {
	o.Flags = flags
	if err == nil {
		return o
	}
	e, is := errors.AsType[*mpi.RankError](err)
	if !is || !errors.Is(err, mpi.ErrDied) {
		t.Errorf("error %v, want one of ranks that have died", err)
		return o
	}
	o.Failed = true
	for _, rank := range e.Ranks {
		o.Dead |= 1 << rank
	}
	return o
}

// compareOutcomes fails the test unless all survivors had the same outcomes. The last survivor to go on gets all of them.
func compareOutcomes(t *testing.T, c *mpi.Comm, victims []int, mine []outcome) {
	first := 0
	for slices.Contains(victims, first) {
		first++
	}
	if c.Rank() != first {
		ok(t, mpi.Send(c, mine, first, 77))
		return
	}
	for rank := range c.Size() {
		if rank == first || slices.Contains(victims, rank) {
			continue
		}
		theirs := make([]outcome, len(mine))
		must(mpi.Recv(c, theirs, rank, 77))(t)
		if !slices.Equal(mine, theirs) {
			t.Errorf("rank %d had %v, and rank %d %v", first, mine, rank, theirs)
		}
	}
}

// Ranks die in the middle of agreements. All that live get the same flags, and the same error, each time. Once all have acknowledged the deaths there is no
// error any more.
func TestAgreeDeaths(t *testing.T) {
	const n, rounds = 6, 60
	for _, kind := range commKinds {
		for _, waits := range []bool{true, false} {
			for seed := range draws(3) {
				rng := rand.New(rand.NewPCG(uint64(seed), 1))
				victims := rng.Perm(n)[:1+rng.IntN(n-2)]
				moments := make([]int, n)
				for i := range moments {
					moments[i] = rng.IntN(rounds / 2)
				}
				t.Run(fmt.Sprintf("%s/%v/%d", kind, waits, seed), func(t *testing.T) {
					run(t, n, func(t *testing.T, c *mpi.Comm) {
						d := comms(t, c)[kind]
						_ = c.Barrier() // it fails at ranks that learn of a death first
						var all []outcome
						for i := range rounds {
							if slices.Contains(victims, c.Rank()) && i == moments[c.Rank()] {
								if i%2 == 0 {
									die()
								}
								time.AfterFunc(time.Duration(rand.IntN(100))*time.Microsecond, die)
							}
							if i >= rounds/2 && i%5 == 0 {
								d.AckFailed()
							}
							got, err := agreeOn(d, waits, rand.Uint64())
							all = append(all, outcomeOf(t, got, err))
						}
						compareOutcomes(t, c, victims, all)
						for len(d.Failed()) < len(victims) {
							time.Sleep(time.Millisecond)
						}
						d.AckFailed()
						if got, err := agreeOn(d, waits, 7); got != 7 || err != nil {
							t.Errorf("after AckFailed: %#x, %v", got, err)
						}
					}, shmemtest.Recover(victims...), hangTimeout)
				})
			}
		}
	}
}

// A rank that gives Agree up has voted: the others agree with its vote.
func TestAgreeGivenUp(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		d := must(c.CreateGroup(c.Group(), 1))(t)
		if c.Rank() == 1 {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := d.With(ctx).Agree(5); !errors.Is(err, context.Canceled) {
				t.Errorf("Agree: %v, want %v", err, context.Canceled)
			}
			ok(t, mpi.Send(c, []int{1}, 0, 1))
			ok(t, mpi.Send(c, []int{1}, 2, 1))
		} else {
			must(mpi.Recv(c, make([]int, 1), 1, 1))(t)
			if got := must(d.Agree(6))(t); got != 4 {
				t.Errorf("Agree: %#x, want 4", got)
			}
		}
		if got := must(d.Agree(3))(t); got != 3 {
			t.Errorf("the next Agree: %#x, want 3", got)
		}
		ok(t, d.Free())
	})
}

// Shrink makes a communicator of those that live until one rank is left. The ranks keep their order, and the communicator works.
func TestShrink(t *testing.T) {
	const n = 6
	for _, kind := range commKinds {
		for _, waits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", kind, waits), func(t *testing.T) {
				run(t, n, func(t *testing.T, c *mpi.Comm) {
					d := comms(t, c)[kind]
					_ = c.Barrier() // it fails at ranks that learn of a death first
					for size := n; ; size-- {
						if size < n && (d.Size() != size || d.Rank() != c.Rank()-(n-size)) {
							t.Fatalf("rank %d of %d, want %d of %d", d.Rank(), d.Size(), c.Rank()-(n-size), size)
						}
						if size == 1 {
							return
						}
						if d.Rank() == 0 {
							die()
						}
						for d.Barrier() == nil { // until the death is known
						}
						ok(t, d.Revoke())
						var next *mpi.Comm
						if waits {
							next = must(d.Shrink())(t)
						} else {
							made, r, err := d.Ishrink()
							ok(t, err)
							must(r.Wait())(t)
							next = made
						}
						if kind != "world" || size < n {
							ok(t, d.Free())
						}
						d = next
						sum := []int{d.Rank()}
						ok(t, mpi.Allreduce(d, sum, sum, mpi.Sum))
						_, _ = d.Agree(0) // all are past the reduction before the next rank dies
						if want := (size - 1) * (size - 2) / 2; sum[0] != want {
							t.Errorf("sum of ranks %d, want %d", sum[0], want)
						}
					}
				}, shmemtest.Recover(0, 1, 2, 3, 4), hangTimeout)
			})
		}
	}
}

// Ranks die while the others shrink. All that live get a communicator of the same ranks.
func TestShrinkDeaths(t *testing.T) {
	const n = 6
	for _, kind := range commKinds {
		for seed := range draws(6) {
			rng := rand.New(rand.NewPCG(uint64(seed), 2))
			victims := rng.Perm(n)[:1+rng.IntN(n-2)]
			t.Run(fmt.Sprintf("%s/%d", kind, seed), func(t *testing.T) {
				run(t, n, func(t *testing.T, c *mpi.Comm) {
					d := comms(t, c)[kind]
					_ = c.Barrier() // it fails at ranks that learn of a death first
					if slices.Contains(victims, c.Rank()) {
						time.AfterFunc(time.Duration(rand.IntN(400))*time.Microsecond, die)
					}
					var all []outcome
					for range 4 {
						of := must(d.Shrink())(t)
						o := outcome{}
						for _, pe := range of.Group().IDs() {
							o.Flags |= 1 << pe
						}
						all = append(all, o)
						if d != c {
							_ = d.Free() // nobody waits, or all come
						}
						d = of
					}
					if slices.Contains(victims, c.Rank()) {
						die()
					}
					compareOutcomes(t, c, victims, all)
				}, shmemtest.Recover(victims...), hangTimeout)
			})
		}
	}
}

// A rank that has freed the communicator, as others may after a death, still answers those that agree. For an agreement that it has not begun nobody waits.
func TestAgreeAfterFree(t *testing.T) {
	const victim, n = 2, 4
	for _, kind := range []string{"split", "messages"} {
		t.Run(kind, func(t *testing.T) {
			run(t, n, func(t *testing.T, c *mpi.Comm) {
				d := comms(t, c)[kind]
				_ = c.Barrier() // it fails at ranks that learn of a death first
				if c.Rank() == victim {
					die()
				}
				for d.Barrier() == nil { // until the death is known
				}
				o := outcomeOf(t, 0, errOf(agreeOn(d, false, 1)))
				if o.Dead != 1<<victim {
					t.Errorf("the dead are %#x", o.Dead)
				}
				if c.Rank() == 0 {
					ok(t, d.Free())
					return
				}
				if _, err := agreeOn(d, false, 1); !errors.Is(err, mpi.ErrRankFinalized) {
					t.Errorf("agreement without rank 0: %v, want %v", err, mpi.ErrRankFinalized)
				}
				if kind == "messages" {
					begun := time.Now()
					if _, err := d.Agree(1); !errors.Is(err, mpi.ErrRankFinalized) {
						t.Errorf("Agree without rank 0: %v, want %v", err, mpi.ErrRankFinalized)
					}
					if took := time.Since(begun); took > 10*time.Second { // no news of a rank that lives
						t.Errorf("Agree without rank 0 took %v", took)
					}
				}
				ok(t, d.Free())
			}, shmemtest.Recover(victim), hangTimeout)
		})
	}
}

// Failed gives ranks in the order of their deaths, and AckFirst acknowledges the first of them.
func TestAckFirst(t *testing.T) {
	victims := []int{3, 1, 4}
	run(t, 5, func(t *testing.T, c *mpi.Comm) {
		d := must(c.Split(0, 0))(t)
		_ = c.Barrier()
		if i := slices.Index(victims, c.Rank()); i >= 0 {
			for len(c.Failed()) < i {
				time.Sleep(time.Millisecond)
			}
			die()
		}
		for n := 1; n <= len(victims); n++ {
			for len(d.Failed()) < n {
				time.Sleep(time.Millisecond)
			}
			if got := d.Failed(); !slices.Equal(got[:n], victims[:n]) {
				t.Errorf("Failed() = %v, want first %v", got, victims[:n])
			}
		}
		for n := range len(victims) + 2 {
			want := victims[:min(n, len(victims))]
			if got := d.AckFirst(n); !slices.Equal(got, want) {
				t.Errorf("AckFirst(%d) = %v, want %v", n, got, want)
			}
			_, err := d.Agree(1)
			if all := n >= len(victims); all != (err == nil) {
				t.Errorf("%d deaths acknowledged: Agree: %v", n, err)
			}
		}
		if got := d.AckFirst(1); !slices.Equal(got, victims) {
			t.Errorf("AckFirst(1) at last = %v, want %v", got, victims)
		}
	}, shmemtest.Recover(victims...), hangTimeout)
}
