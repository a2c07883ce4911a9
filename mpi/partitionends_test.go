package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// partitionedDeath is what one rank does until it dies, and what the other one does.
type partitionedDeath struct {
	victim, other func(t *testing.T, c *mpi.Comm)
}

// partVictim is the rank that dies, and partLong the length of a buffer with long partitions.
const (
	partVictim = 1
	partLong   = 400_000
)

// runDeaths runs each death in a job of two ranks.
func runDeaths(t *testing.T, deaths map[string]partitionedDeath) {
	t.Helper()
	for what, death := range deaths {
		t.Run(what, func(t *testing.T) {
			run(t, 2, func(t *testing.T, c *mpi.Comm) {
				if c.Rank() == partVictim {
					death.victim(t, c)
					die()
				}
				death.other(t, c)
			}, shmemtest.Recover(partVictim), hangTimeout)
		})
	}
}

// The receiver dies, or the peer before it has made its operation.
func TestPartitionedReceiverDies(t *testing.T) {
	const victim, n = partVictim, partLong
	runDeaths(t, map[string]partitionedDeath{
		"before Init": {func(*testing.T, *mpi.Comm) {}, func(t *testing.T, c *mpi.Comm) {
			p, err := mpi.PrecvInit(c, make([]int32, n), 4, victim, 1)
			if err == nil {
				if err = p.Start(); err == nil {
					_, err = p.Wait()
				}
				wantDeathError(t, "Partitioned.Start", err, victim)
			} else {
				wantDeathError(t, "PrecvInit", err, victim)
			}
			_, err = mpi.PrecvInit(c, make([]int32, n), 4, victim, 1)
			wantDeathError(t, "PrecvInit", err, victim)
			_, err = mpi.PsendInit(c, make([]int32, n), 4, victim, 1)
			wantDeathError(t, "PsendInit", err, victim)
		}},
		"in a round": {func(t *testing.T, c *mpi.Comm) {
			ok(t, must(mpi.PrecvInit(c, make([]int32, n), 4, 0, 1))(t).Start())
		}, func(t *testing.T, c *mpi.Comm) {
			p, err := mpi.PsendInit(c, make([]int32, n), 4, victim, 1)
			if err != nil {
				wantDeathError(t, "PsendInit", err, victim)
				return
			}
			if err := p.Start(); err != nil {
				wantDeathError(t, "Partitioned.Start", err, victim)
				return
			}
			_ = p.Ready(2)
			_, err = p.Wait() // some were never ready
			wantDeathError(t, "Partitioned.Start", err, victim)
			wantDeathError(t, "Partitioned.Ready", p.Ready(1), victim)
			wantDeathError(t, "Partitioned.ReadyRange", p.ReadyRange(0, 1), victim)
			wantDeathError(t, "Partitioned.Start", p.Start(), victim)
			ok(t, p.Free())
		}},
		"after a round": {func(t *testing.T, c *mpi.Comm) {
			p := must(mpi.PrecvInit(c, make([]int32, n), 4, 0, 1))(t)
			ok(t, p.Start())
			must(p.Wait())(t)
		}, func(t *testing.T, c *mpi.Comm) {
			p := must(mpi.PsendInit(c, make([]int32, n), 4, victim, 1))(t)
			ok(t, p.Start())
			ok(t, p.ReadyRange(0, 3))
			must(p.Wait())(t)
			err := p.Start()
			if err == nil {
				_ = p.ReadyRange(0, 3)
				_, err = p.Wait()
			}
			wantDeathError(t, "Partitioned.Start", err, victim)
		}},
	})
}

// The sender dies.
func TestPartitionedSenderDies(t *testing.T) {
	const victim, n = partVictim, partLong
	runDeaths(t, map[string]partitionedDeath{
		"long": {func(t *testing.T, c *mpi.Comm) {
			buf := make([]int32, n)
			numberFrom(buf, 3)
			p := must(mpi.PsendInit(c, buf, 4, 0, 1))(t)
			ok(t, p.Start())
			ok(t, p.Ready(1))
			must(mpi.Recv(c, []int{0}, 0, 1))(t)
		}, func(t *testing.T, c *mpi.Comm) {
			buf := make([]int32, n)
			p := must(mpi.PrecvInit(c, buf, 4, victim, 1))(t)
			ok(t, p.Start())
			awaitPart(t, p, buf, 4, 1, 3)
			ok(t, mpi.Send(c, []int{0}, victim, 1))
			for {
				arrived, err := p.Arrived(2)
				if err != nil {
					wantDeathError(t, "Partitioned.Start", err, victim)
					break
				}
				if arrived {
					t.Fatal("a partition has arrived that was never ready")
				}
			}
			_, err := p.Wait()
			wantDeathError(t, "Partitioned.Start", err, victim)
			awaitPart(t, p, buf, 4, 1, 3)
			err = p.Start()
			if err == nil {
				_, err = p.Wait()
			}
			wantDeathError(t, "Partitioned.Start", err, victim)
			ok(t, p.Free())
		}},
		"short": {func(t *testing.T, c *mpi.Comm) {
			buf := make([]int32, 400)
			numberFrom(buf, 3)
			p := must(mpi.PsendInit(c, buf, 4, 0, 1))(t)
			for range 3 {
				ok(t, p.Start())
				ok(t, p.ReadyRange(0, 3))
				must(p.Wait())(t)
			}
		}, func(t *testing.T, c *mpi.Comm) { // all that was sent is received first
			buf := make([]int32, 400)
			p := must(mpi.PrecvInit(c, buf, 2, victim, 1))(t)
			for range 3 {
				clear(buf)
				ok(t, p.Start())
				must(p.Wait())(t)
				awaitPart(t, p, buf, 1, 0, 3)
			}
			err := p.Start()
			if err == nil {
				_, err = p.Wait()
			}
			wantDeathError(t, "Partitioned.Start", err, victim)
		}},
	})
}

// The end of a communicator, and that of its context, end the waits for rounds.
func TestPartitionedEnds(t *testing.T) {
	for _, kind := range []string{"split", "messages"} {
		for what, x := range map[string]struct {
			end  func(c *mpi.Comm) error
			want error
		}{
			"Free":   {(*mpi.Comm).Free, mpi.ErrFreed},
			"Revoke": {(*mpi.Comm).Revoke, mpi.ErrRevoked},
		} {
			t.Run(kind+"/"+what, func(t *testing.T) {
				run(t, 2, func(t *testing.T, c *mpi.Comm) {
					all := comms(t, c)
					d, other := all[kind], 1-c.Rank()
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					defer cancel()
					waits := []mpi.Partitioned{
						must(mpi.PsendInit(d, make([]int32, 400_000), 4, other, 1))(t), // it is sent in part
						must(mpi.PsendInit(d, make([]int32, 40), 4, other, 2))(t),      // it is ready in part
						must(mpi.PrecvInit(d, make([]int32, 40), 2, other, 2))(t),      // it has arrived in part
						must(mpi.PrecvInit(d.With(ctx), make([]int32, 40), 2, other, 3))(t),
					}
					for _, p := range waits {
						ok(t, p.Start())
					}
					ok(t, waits[0].Ready(1))
					ok(t, waits[1].Ready(0))
					if _, err := waits[3].Wait(); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("the end of the context: %v", err)
					}
					ended := func(err error) bool { // a wait may see that the other rank has freed the communicator before this one has
						return errors.Is(err, x.want) || what == "Free" && errors.Is(err, mpi.ErrRankFinalized)
					}
					var wg sync.WaitGroup
					for i, p := range waits {
						r := p.Request().With(t.Context())
						wg.Go(func() {
							if _, err := r.Wait(); !ended(err) {
								t.Errorf("Wait of operation %d: %v, want %v", i, err, x.want)
							}
						})
					}
					ok(t, c.Barrier())
					ok(t, x.end(d))
					wg.Wait()
					for i, p := range waits {
						if err := p.Start(); !errors.Is(err, x.want) {
							t.Errorf("Start of operation %d: %v, want %v", i, err, x.want)
						}
					}
					if err := waits[0].Ready(2); !errors.Is(err, x.want) {
						t.Errorf("Ready: %v, want %v", err, x.want)
					}
					if arrived, err := waits[3].Arrived(0); arrived || !ended(err) {
						t.Errorf("Arrived: %v, %v, want %v", arrived, err, x.want)
					}
					for _, p := range waits {
						ok(t, p.Free())
					}
					if _, err := mpi.PsendInit(d, make([]int32, 4), 2, other, 1); !errors.Is(err, x.want) {
						t.Errorf("PsendInit: %v, want %v", err, x.want)
					}
					if n, receives, messages := mpi.Partitions(d); n+receives+messages != 0 {
						t.Errorf("%d operations, %d receives and %d messages are left", n, receives, messages)
					}
					for k, d := range all {
						if k != "world" && (k != kind || what == "Revoke") {
							ok(t, d.Free())
						}
					}
				}, hangTimeout)
			})
		}
	}
}

// A rank that leaves after the death of another one ends the rounds of those that wait for it, at both sides. All that it had sent is received first.
func TestPartitionedPeerLeaves(t *testing.T) {
	for _, sends := range []bool{false, true} {
		t.Run(fmt.Sprint(sends), func(t *testing.T) {
			run(t, 3, func(t *testing.T, c *mpi.Comm) {
				buf := make([]int32, 40)
				switch c.Rank() {
				case 2:
					die()
				case 1: // it finalizes without waiting for the others
					for len(c.Failed()) == 0 {
						time.Sleep(time.Millisecond)
					}
					if !sends {
						numberFrom(buf, 1)
						p := must(mpi.PsendInit(c, buf, 4, 0, 1))(t)
						ok(t, p.Start())
						ok(t, p.ReadyRange(0, 1))
					}
				case 0:
					var p mpi.Partitioned
					if sends {
						p = must(mpi.PsendInit(c, buf, 4, 1, 1))(t)
					} else {
						p = must(mpi.PrecvInit(c, buf, 2, 1, 1))(t)
					}
					ok(t, p.Start())
					if !sends {
						awaitPart(t, p, buf, 2, 0, 1)
					}
					_, err := p.Wait()
					if e, is := errors.AsType[*mpi.RankError](err); !is || !slices.Equal(e.Ranks, []int{1}) || !errors.Is(err, mpi.ErrRankFinalized) {
						t.Errorf("error %v, want a RankError of rank 1 with %v", err, mpi.ErrRankFinalized)
					}
					if arrived, err := p.Arrived(0); !sends && (!arrived || err != nil) {
						t.Errorf("Arrived: %v, %v, want that the first partition has", arrived, err)
					}
					ok(t, p.Free())
				}
			}, shmemtest.Recover(2), hangTimeout)
		})
	}
}
