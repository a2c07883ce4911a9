package ft_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/ft"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// runAgain runs body as the ranks of a job, and in the processes that these start.
func runAgain(t *testing.T, ranks int, body func(t *testing.T, w *mpi.World), opts ...shmemtest.Option) {
	t.Helper()
	shmemtest.RunBare(t, ranks, func(t *testing.T) {
		w, err := ft.Init()
		if errors.Is(err, ft.ErrGivenUp) { // its parents have begun anew
			return
		}
		ok(t, err)
		body(t, w)
		if !t.Failed() {
			ok(t, w.Finalize())
		}
	}, opts...)
}

// places checks the ranks of a communicator: names has the name of the process at each rank, that of a new one being 9.
func places(t *testing.T, c *mpi.Comm, name int, names ...int) {
	t.Helper()
	got := make([]int, c.Size())
	ok(t, mpi.Allgather(c, got, []int{name}))
	if !slices.Equal(got, names) {
		t.Fatalf("rank %d: processes %v, want %v", c.Rank(), got, names)
	}
}

// The tables of Figure 1 of the paper on FA-MPI: which rank is where after a recovery.
func TestRecover(t *testing.T) {
	for policy, want := range map[ft.Policy][]int{ft.Shrink: {0, 2, 3}, ft.Merge: {0, 2, 3, 9}, ft.Rebuild: {0, 9, 2, 3}} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			runAgain(t, 4, func(t *testing.T, w *mpi.World) {
				joined, err := ft.Join(w)
				ok(t, err)
				if joined != nil {
					places(t, joined, 9, want...)
					ok(t, joined.Free())
					return
				}
				c := w.Comm()
				b := ft.Try(c, ft.Global)
				if c.Rank() == 1 {
					die()
				}
				if _, err := b.Finish(nil, time.Minute).Wait(); b.Decision() != ft.Reject {
					t.Fatal(err)
				}
				command, err := ft.Self()
				ok(t, err)
				var phases []ft.Phase
				made, err := ft.Recover(c, policy, command, ft.Trace(func(done ft.Phase) { phases = append(phases, done) }))
				ok(t, err)
				if all := []ft.Phase{ft.PhaseShrink, ft.PhaseSpawn, ft.PhaseJoin}; !slices.Equal(phases, all) && (policy != ft.Shrink || !slices.Equal(phases, all[:1])) {
					t.Errorf("policy %d: phases %q", policy, phases)
				}
				places(t, made, c.Rank(), want...)
				ok(t, made.Free())
			}, shmemtest.Recover(1))
		})
	}
}

// Run's bodies add numbers epoch by epoch. Ranks die at random moments; the sum is right in the end at all ranks, old and new.
func TestRun(t *testing.T) {
	const epochs = 60
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		rng := rand.New(rand.NewPCG(uint64(round), 7))
		policy := []ft.Policy{ft.Rebuild, ft.Merge, ft.Shrink}[round%3]
		victims := rng.Perm(4)[:1+rng.IntN(2)]
		delay := time.Duration(rng.IntN(20000)) * time.Microsecond
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			runAgain(t, 4, func(t *testing.T, w *mpi.World) {
				command, err := ft.Self()
				ok(t, err)
				if w.Parent() == nil && slices.Contains(victims, w.Comm().Rank()) {
					time.AfterFunc(delay, die)
				}
				var totals [epochs + 1]int // by epoch plus 1
				err = ft.Run(w, policy, command, func(s *ft.State) error {
					if err := share(s, &totals); err != nil {
						return err
					}
					for epoch := s.Epoch + 1; epoch < epochs; epoch++ {
						sum := []int{0}
						b := ft.Try(s.Comm, []ft.Mode{ft.Global, ft.WithCollective}[round%2])
						part := 0
						if s.Comm.Rank() == epoch%s.Comm.Size() {
							part = epoch
						}
						_ = b.Add(mpi.Iallreduce(s.Comm, sum, []int{part}, mpi.Sum))
						if _, err := b.Finish(nil, time.Minute).Wait(); err != nil {
							return err
						}
						totals[epoch+1] = totals[epoch] + sum[0]
						s.Commit(epoch)
						time.Sleep(time.Millisecond) // so that the victims die in the midst
					}
					return nil
				})
				if errors.Is(err, ft.ErrGivenUp) {
					return
				}
				ok(t, err)
				if want := epochs * (epochs - 1) / 2; totals[epochs] != want {
					t.Errorf("total %d, want %d", totals[epochs], want)
				}
			}, shmemtest.Recover(victims...))
		})
	}
}

// share gives new ranks the total of the epoch before.
func share(s *ft.State, totals *[61]int) error {
	c := s.Comm
	from, first := []int{c.Size()}, []int{0}
	if s.Role != ft.Recovered {
		from[0] = c.Rank()
	}
	if err := mpi.Allreduce(c, first, from, mpi.Min); err != nil {
		return err
	}
	return mpi.Bcast(c, totals[s.Epoch+1:s.Epoch+2], first[0])
}
