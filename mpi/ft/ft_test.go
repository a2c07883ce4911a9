package ft_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/ft"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// TestMain adds the flag -pes, which says by which command ranks are started.
func TestMain(m *testing.M) { shmemtest.Main(m) }

// run runs body as the ranks of a job.
func run(t *testing.T, ranks int, body func(t *testing.T, c *mpi.Comm), opts ...shmemtest.Option) {
	t.Helper()
	shmemtest.RunBare(t, ranks, func(t *testing.T) {
		w, err := mpi.Init()
		ok(t, err)
		body(t, w.Comm())
		if !t.Failed() { // Finalize would wait for ranks that have not failed
			ok(t, w.Finalize())
		}
	}, opts...)
}

// ok fails the test on an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// die kills this process with SIGKILL, as a crash would.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

var modes = map[string]ft.Mode{"local": ft.Local, "global": ft.Global, "collective": ft.WithCollective}

// exchange adds to a block messages to and from the neighbors in a ring.
func exchange(t *testing.T, b *ft.Block, c *mpi.Comm, value int) (got []int) {
	t.Helper()
	n := c.Size()
	got = make([]int, 1)
	ok(t, b.Add(mpi.Irecv(c, got, (c.Rank()+n-1)%n, 1)))
	ok(t, b.Add(mpi.Isend(c, []int{value}, (c.Rank()+1)%n, 1)))
	return got
}

// wantFaults checks what all ranks have agreed upon.
func wantFaults(t *testing.T, b *ft.Block, err error, decision ft.Decision, faults ...ft.Fault) {
	t.Helper()
	if b.Decision() != decision || !slices.Equal(b.Faults(), faults) || (err == nil) != (decision == ft.Accept) {
		t.Fatalf("decision %v, faults %v, error %v, want %v, %v", b.Decision(), b.Faults(), err, decision, faults)
	}
	if got, is := ft.IsFault(err); err != nil && (!is || got != decision) {
		t.Fatalf("error %v, want one of a block to %v", err, decision)
	}
}

func TestAccept(t *testing.T) {
	for name, mode := range modes {
		for _, n := range testenv.JobSizes() {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				run(t, n, func(t *testing.T, c *mpi.Comm) {
					for round := range 100 {
						b := ft.Try(c, mode)
						got := exchange(t, b, c, 100*round+c.Rank())
						sum := make([]int, 1)
						ok(t, b.Add(mpi.Iallreduce(c, sum, []int{1}, mpi.Sum)))
						computed := 0
						ok(t, b.Add(mpi.Go(func(context.Context) error { computed = round; return nil }), nil))
						_, err := b.Finish([]mpi.Request{{}}, time.Minute).Wait()
						wantFaults(t, b, err, ft.Accept)
						want := uint64(round + 1)
						if mode == ft.Local {
							want = 0
						}
						if st := b.Status(0); st.Source != (c.Rank()+n-1)%n || st.Count != 1 {
							t.Fatalf("status %+v", st)
						}
						if from := (c.Rank() + n - 1) % n; got[0] != 100*round+from || sum[0] != n || computed != round || b.Number() != want || b.Failed() != nil || b.FailedComms() != nil {
							t.Fatalf("round %d: got %d, %d and %d in block %d, which has failed requests %v", round, got, sum, computed, b.Number(), b.Failed())
						}
					}
				})
			})
		}
	}
}

// A rank raises an error of its own. All ranks learn of it, and the next block succeeds.
func TestRaise(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		for round := range 50 {
			b := ft.Try(c, ft.Global)
			got := make([]int, 1)
			from, to := (c.Rank()+3)%4, (c.Rank()+1)%4
			in, err := mpi.Irecv(c, got, from, 1)
			ok(t, err)
			ok(t, b.Add(mpi.Isend(c, []int{round}, to, 1)))
			if c.Rank() == round%4 {
				if round%3 > 0 { // also of a request that goes on
					_, err := in.Wait()
					ok(t, err)
				}
				ok(t, in.RaiseError(&ft.Error{Code: ft.App(round % 32), Err: errors.New("checksum")}))
			}
			_, err = b.Finish([]mpi.Request{in}, time.Minute).Wait()
			wantFaults(t, b, err, ft.Partial, ft.Fault{Rank: round % 4, Codes: ft.SetOf(ft.App(round % 32)), Block: b.Number()})
			failed := b.Failed(ft.App(round % 32))
			if own := c.Rank() == round%4; own != slices.Equal(failed, []int{1}) || !own && failed != nil {
				t.Fatalf("failed requests %v", failed)
			}
			if got[0] != round {
				t.Fatalf("round %d: received %d", round, got[0])
			}
			b = ft.Try(c, ft.Global)
			if c.Rank() == 2 {
				b.Raise(errors.New("another one"))
			}
			_, err = b.Finish(nil, 0).Wait()
			wantFaults(t, b, err, ft.Partial, ft.Fault{Rank: 2, Codes: ft.SetOf(ft.Raised), Block: b.Number()})
			b = ft.Try(c, ft.WithCollective)
			exchange(t, b, c, round)
			_, err = b.Finish(nil, time.Minute).Wait()
			wantFaults(t, b, err, ft.Accept)
		}
	})
}

// A receive that nobody meets ends with the block's time. Its message, if it comes later, is for a later receive.
func TestTimeout(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		for range 5 {
			b := ft.Try(c, ft.Global)
			got := make([]int, 1)
			var q mpi.Request
			timeout := time.Minute
			if c.Rank() == 1 {
				var err error
				q, err = mpi.Irecv(c, got, 2, 5)
				ok(t, err)
				timeout = 10 * time.Millisecond
			}
			_, err := b.Finish([]mpi.Request{q}, timeout).Wait()
			wantFaults(t, b, err, ft.Partial, ft.Fault{Rank: 1, Codes: ft.SetOf(ft.TimedOut), Block: b.Number()})
			if c.Rank() == 1 {
				if _, err := q.Wait(); !errors.Is(err, mpi.ErrTimeout) || !errors.Is(b.Err(0), mpi.ErrTimeout) {
					t.Fatalf("the request ended with %v, in the block with %v", err, b.Err(0))
				}
				_, err = mpi.Recv(c, got, 2, 5)
				ok(t, err)
			}
			if c.Rank() == 2 {
				ok(t, mpi.Send(c, []int{1}, 1, 5))
			}
		}
	})
}

// What only its own goroutine can end goes on without the block.
func TestTimeoutOfGo(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		stopped, release := make(chan error, 1), make(chan struct{})
		b := ft.Try(c, ft.Local)
		q := mpi.Go(func(ctx context.Context) error {
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			<-release
			return errors.New("late")
		})
		_, err := b.Finish([]mpi.Request{q}, 5*time.Millisecond).Wait()
		wantFaults(t, b, err, ft.Partial, ft.Fault{Rank: c.Rank(), Codes: ft.SetOf(ft.TimedOut)})
		if err := <-stopped; !errors.Is(err, mpi.ErrTimeout) {
			t.Errorf("the function's context ended with %v", err)
		}
		close(release)
		if _, err := q.Wait(); err == nil || err.Error() != "late" {
			t.Errorf("the request ended with %v", err)
		}
	})
}

// The wait for a block may end before the block does.
func TestWaitTimeout(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		b := ft.Try(c, ft.Global)
		if c.Rank() == 0 {
			_, err := mpi.Recv(c, make([]int, 1), 1, 0)
			ok(t, err)
		}
		q := b.Finish(nil, 0)
		if c.Rank() == 1 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			if _, err := q.With(ctx).Wait(); !errors.Is(err, context.DeadlineExceeded) || b.Decision() != ft.Undecided {
				t.Fatalf("wait ended with %v, the block is %v", err, b.Decision())
			}
			ok(t, mpi.Send(c, []int{1}, 0, 0))
			q = b.Finish(nil, 0)
		}
		_, err := q.Wait()
		wantFaults(t, b, err, ft.Accept)
	})
}

// A block in a block: the outer one learns what the inner one has found.
func TestNested(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		for round := range 20 {
			outer := ft.Try(c, ft.Global)
			for i := range 4 {
				inner := ft.Try(c, ft.Local)
				exchange(t, inner, c, i)
				if c.Rank() == 1 && i == 2 && round%2 == 1 {
					inner.Raise(&ft.Error{Code: ft.App(1), Err: errors.New("inner")})
				}
				ok(t, outer.Add(inner.Finish(nil, time.Minute), nil))
			}
			_, err := outer.Finish(nil, time.Minute).Wait()
			if round%2 == 0 {
				wantFaults(t, outer, err, ft.Accept)
				continue
			}
			wantFaults(t, outer, err, ft.Partial, ft.Fault{Rank: 1, Codes: ft.SetOf(ft.InnerBlock, ft.App(1)), Block: outer.Number()})
			if failed := outer.Failed(); c.Rank() == 1 && !slices.Equal(failed, []int{2}) {
				t.Fatalf("failed inner blocks %v", failed)
			}
		}
	})
}

// A block with a collective fails at one rank after all others have accepted it. They learn of it in their next block, and all decide alike.
func TestElsewhere(t *testing.T) {
	run(t, 4, func(t *testing.T, world *mpi.Comm) {
		for round := range 10 {
			c, err := world.Dup()
			ok(t, err)
			bad := round % 4
			b := ft.Try(c, ft.WithCollective)
			q, err := mpi.Iallreduce(c, make([]int, 1), []int{1}, mpi.Sum)
			ok(t, err)
			if c.Rank() == bad { // once all others have accepted the block
				_, err = q.Wait()
				ok(t, err)
				for other := range 4 {
					if other != bad {
						_, err := mpi.Recv(world, make([]int, 1), other, 8)
						ok(t, err)
					}
				}
				b.Raise(errors.New("found later"))
			}
			_, err = b.Finish([]mpi.Request{q}, time.Minute).Wait()
			if c.Rank() != bad {
				wantFaults(t, b, err, ft.Accept)
				ok(t, mpi.Send(world, []int{1}, bad, 8))
				if round < 5 { // otherwise the rank is elsewhere
					b = ft.Try(c, ft.WithCollective)
					_ = b.Add(mpi.Irecv(c, make([]int, 1), bad, 7))
					_, err = b.Finish(nil, time.Minute).Wait()
				}
			}
			if c.Rank() == bad || round < 5 {
				i := slices.IndexFunc(b.Faults(), func(f ft.Fault) bool { return f.Rank == bad })
				if _, is := ft.IsFault(err); !is || b.Decision() < ft.Partial || i < 0 || b.Faults()[i] != (ft.Fault{Rank: bad, Codes: ft.SetOf(ft.Raised), Block: 1}) {
					t.Fatalf("decision %v, faults %v, error %v", b.Decision(), b.Faults(), err)
				}
				if c.Rank() != bad && b.Failed(ft.Elsewhere) == nil {
					t.Fatalf("failed requests: %v", b.Failed())
				}
			}
			decisions := make([]ft.Decision, 4)
			ok(t, mpi.Allgather(world, decisions, []ft.Decision{b.Decision()}))
			for rank, d := range decisions {
				if d != decisions[bad] && (round < 5 || rank == bad || d != ft.Accept) {
					t.Fatalf("round %d: decisions %v", round, decisions)
				}
			}
			next, err := c.Shrink()
			ok(t, err)
			_ = c.Free()
			b = ft.Try(next, ft.WithCollective)
			exchange(t, b, next, 1)
			_, err = b.Finish(nil, time.Minute).Wait()
			wantFaults(t, b, err, ft.Accept)
			ok(t, next.Free())
		}
	})
}

// Blocks may be under way at once. Each gets its own decision, whichever has its requests complete first.
func TestSeveral(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		for round := range 30 {
			var blocks [3]*ft.Block
			var ends [3]mpi.Request
			release := [3]chan struct{}{}
			for i := range blocks {
				blocks[i], release[i] = ft.Try(c, ft.Global), make(chan struct{})
				q := mpi.Go(func(context.Context) error { <-release[i]; return nil })
				if c.Rank() == i {
					blocks[i].Raise(&ft.Error{Code: ft.App(i), Err: errors.New("own")})
				}
				ends[i] = blocks[i].Finish([]mpi.Request{q}, time.Minute)
			}
			for i := range blocks { // in another order at each rank
				close(release[(i*(1+c.Rank()%2)+c.Rank()+round)%3])
			}
			for i := range blocks {
				_, err := ends[2-i].Wait()
				wantFaults(t, blocks[2-i], err, ft.Partial, ft.Fault{Rank: 2 - i, Codes: ft.SetOf(ft.App(2 - i)), Block: blocks[2-i].Number()})
			}
		}
	})
}

// A rank that has left its block for an error revokes the communicator. So those that wait for its vote go on.
func TestRevoke(t *testing.T) {
	run(t, 3, func(t *testing.T, world *mpi.Comm) {
		for range 10 {
			c, err := world.Dup()
			ok(t, err)
			other, err := c.Dup()
			ok(t, err)
			b := ft.Try(c, ft.Global)
			if c.Rank() == 1 {
				ok(t, c.Revoke())
			} else {
				_ = b.Add(mpi.Irecv(other, make([]int, 1), 1, 0)) // which rank 1 has left
				if _, err := b.Finish(nil, 0).Wait(); !errors.Is(err, mpi.ErrRevoked) || b.Decision() != ft.Reject {
					t.Fatalf("decision %v, error %v", b.Decision(), err)
				}
			}
			_, err = c.Agree(1)
			ok(t, err)
			ok(t, errors.Join(other.Free(), c.Free()))
		}
	})
}

// Blocks in which a rank dies are rejected by all others, with the same faults. Once its death is acknowledged it is no fault any more.
func TestDeath(t *testing.T) {
	for name, mode := range modes {
		if mode == ft.Local {
			continue
		}
		t.Run(name, func(t *testing.T) {
			run(t, 4, func(t *testing.T, c *mpi.Comm) {
				part, err := c.Split(c.Rank()%2, 0)
				ok(t, err)
				pair, err := c.Split(c.Rank()/2, 0)
				ok(t, err)
				ok(t, c.Barrier())
				b := ft.Try(c, mode)
				if c.Rank() == 1 {
					die()
				}
				n := c.Size()
				_ = b.Add(mpi.Irecv(c, make([]int, 1), (c.Rank()+n-1)%n, 1))
				_ = b.Add(mpi.Isend(c, []int{1}, (c.Rank()+1)%n, 1))
				_ = b.Add(mpi.Irecv(c, make([]int, 1), mpi.AnySource, 9))
				_ = b.Add(mpi.Iallreduce(c, make([]int, 1), []int{1}, mpi.Sum))
				_, err = b.Finish(nil, time.Minute).Wait()
				if b.Decision() != ft.Reject || !errors.Is(err, mpi.ErrDied) {
					t.Fatalf("decision %v, error %v", b.Decision(), err)
				}
				if dead := b.FailedRanks(ft.SoftFault, ft.NodeLost); !slices.Equal(dead, []int{1}) {
					t.Fatalf("dead ranks %v", dead)
				}
				group, err := b.FailedGroup(pair, ft.SoftFault, ft.NodeLost)
				ok(t, err)
				if want := map[bool]int{true: 1, false: 0}[c.Rank() < 2]; group.Size() != want {
					t.Errorf("%d failed ranks in the pair, want %d", group.Size(), want)
				}
				comms := b.FailedComms(ft.SoftFault, ft.NodeLost)
				if want := map[int]int{0: 2, 2: 1, 3: 2}[c.Rank()]; len(comms) != want { // the world, and the pair or the part
					t.Errorf("%d failed communicators, want %d", len(comms), want)
				}
				_ = part
				c.AckFailed()
				survivors, err := c.Shrink()
				ok(t, err)
				b = ft.Try(survivors, mode)
				exchange(t, b, survivors, 1)
				_, err = b.Finish(nil, time.Minute).Wait()
				wantFaults(t, b, err, ft.Accept)
				if mode == ft.Global { // also on the communicator with the dead rank, as in a recovery
					b = ft.Try(c, mode)
					_, err = b.Finish(nil, time.Minute).Wait()
					wantFaults(t, b, err, ft.Accept)
				}
			}, shmemtest.Recover(1))
		})
	}
}

// Ranks that are lost with their node are told apart from those whose processes have died.
func TestNodeLost(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		b := ft.Try(c, ft.Global)
		_, err := b.Finish(nil, time.Minute).Wait()
		wantFaults(t, b, err, ft.Accept)
		b = ft.Try(c, ft.Global)
		if c.Rank() >= 2 { // those of the second node
			if c.Rank() == 2 {
				ok(t, syscall.Kill(os.Getppid(), syscall.SIGKILL)) // the daemon of the node
			}
			select {} // it ends with its node
		}
		_ = b.Add(mpi.Isend(c, []int{1}, 2, 1)) // an error is a fault of the block
		_, err = b.Finish(nil, time.Minute).Wait()
		if b.Decision() != ft.Reject || !errors.Is(err, mpi.ErrDied) || !slices.Equal(b.FailedRanks(ft.NodeLost), []int{2, 3}) || b.FailedRanks(ft.SoftFault) != nil {
			t.Fatalf("decision %v, error %v, ranks %v", b.Decision(), err, b.FailedRanks())
		}
	}, shmemtest.Nodes(2), shmemtest.Recover(2, 3))
}

// Mistakes are errors, and no panics.
func TestUsage(t *testing.T) {
	for name, b := range map[string]*ft.Block{"nil": ft.Try(nil, ft.Global), "mode": ft.Try(nil, 7)} {
		_, err := b.Finish(nil, 0).Wait()
		if _, is := errors.AsType[*mpi.UsageError](err); !is || b.Decision() != ft.Undecided || b.Number() != 0 || b.FailedComms() != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ft.Try(nil, ft.Global).FailedGroup(nil); err == nil {
		t.Error("FailedGroup of nil succeeds")
	}
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		b := ft.Try(c, ft.Global)
		q, err := mpi.Irecv(c, make([]int, 1), 0, 0)
		ok(t, err)
		if _, err := b.Finish([]mpi.Request{q, q}, 0).Wait(); err == nil {
			t.Error("Finish takes a request twice")
		}
		if _, err := b.Finish(nil, -1).Wait(); err == nil {
			t.Error("Finish takes a negative timeout")
		}
		ok(t, mpi.Send(c, []int{1}, 0, 0))
		_, err = b.Finish([]mpi.Request{q}, 0).Wait()
		wantFaults(t, b, err, ft.Accept)
	})
}
