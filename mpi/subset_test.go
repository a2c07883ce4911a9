package mpi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// A call of some ranks that one of them gives up ends for the others as well, and they may try again. The communicator that it comes of stays whole.
func TestCreateGroupGivenUp(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		of := must(c.Group().Incl(2, 0, 1))(t)
		if c.Rank() < 3 {
			for try := range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				cc := c
				if c.Rank() == 1 { // it comes late, in the first try after the others have given up
					must(mpi.Recv(c, make([]byte, 1), 0, try))(t)
				}
				if c.Rank() == 0 {
					cc = c.With(ctx)
					time.AfterFunc(5*time.Millisecond, cancel)
				}
				_, err := cc.CreateGroup(of, 1)
				if c.Rank() == 0 && !errors.Is(err, context.Canceled) || c.Rank() != 0 && !errors.Is(err, mpi.ErrCommBroken) {
					t.Errorf("rank %d: %v", c.Rank(), err)
				}
				if c.Rank() == 0 {
					ok(t, mpi.Send(c, []byte{1}, 1, try))
				}
				cancel()
			}
			x := must(c.CreateGroup(of, 1))(t)
			tryComm(t, x, 3)
			ok(t, x.Free())
		}
		must(must(c.Ibarrier())(t).Wait())(t)
		tryComm(t, c, 4)
	})
}

// Survivors of a death try again with a smaller group and the same tag. What is left of the first try is no part of the second one.
func TestCreateGroupAgain(t *testing.T) {
	const victim, n = 3, 4
	for range 5 {
		run(t, n, func(t *testing.T, c *mpi.Comm) {
			for i := range 1 + 3*c.Rank() { // so that the ranks propose different numbers
				x := must(c.CreateGroup(must(c.Group().Incl(c.Rank()))(t), i))(t)
				ok(t, x.Free())
			}
			ok(t, c.Barrier())
			if c.Rank() == victim {
				die()
			}
			of := must(c.Group().Incl(0, 2, victim))(t)
			if c.Rank() != 1 {
				for {
					if _, err := c.CreateGroup(of, 1); err != nil { // a rank that knows of the death sends nothing, the other one does
						break
					}
				}
				x := must(c.CreateGroup(must(c.Group().Incl(0, 2))(t), 1))(t)
				tryComm(t, x, 1)
				ok(t, x.Free())
			}
		}, shmemtest.Recover(victim))
	}
}

// A rank dies at any moment while a communicator is made: the survivors have it, or learn of the death, and none waits.
func TestDeathWhileCommunicatorsAreMade(t *testing.T) {
	const victim, n = 1, 4
	for moment := range 6 {
		run(t, n, func(t *testing.T, c *mpi.Comm) {
			ok(t, c.Barrier())
			if c.Rank() == victim {
				go func() {
					for end := time.Now().Add(time.Duration(moment*150) * time.Microsecond); time.Now().Before(end); {
						continue
					}
					die()
				}()
			}
			for {
				x, err := c.CreateGroup(c.Group(), 1)
				if err == nil {
					err = x.Barrier()
				}
				if err != nil {
					wantOneOf(t, err, mpi.ErrDied, mpi.ErrRankFinalized, mpi.ErrCommBroken)
					break
				}
				_ = x.Free()
			}
		}, hangTimeout, shmemtest.Recover(victim))
	}
}

// wantOneOf fails the test unless an error is one of some.
func wantOneOf(t *testing.T, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if errors.Is(err, w) {
			return
		}
	}
	t.Errorf("error %v, want one of %v", err, want)
}

// Goroutines that are parked in different collectives in messages get an error, although another one sleeps for them.
func TestParkedMismatch(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		d := must(c.Dup())(t)
		served := make(chan error)
		go func() { // it becomes the driver
			_, err := mpi.Recv(c, make([]byte, 1), 1-c.Rank(), 7)
			served <- err
		}()
		for mpi.Sleeping(c) == 0 {
			time.Sleep(time.Millisecond)
		}
		var err error
		x := make([]int, 1)
		if c.Rank() == 0 {
			err = errOf(must(mpi.Iscan(d, x, x, mpi.Sum))(t).Wait())
		} else {
			err = mpi.Allgatherv(d, make([]int, 2), x, mpi.Counts{Counts: []int{1, 1}})
		}
		wantOneOf(t, err, mpi.ErrMismatch, mpi.ErrCommBroken)
		ok(t, mpi.Send(c, []byte{1}, 1-c.Rank(), 7))
		ok(t, <-served)
		ok(t, d.Free())
	}, hangTimeout)
}

// An operator that panics ends its collective in messages for the other ranks, and the process may go on.
func TestPanickingOperator(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		d := must(c.Dup())(t)
		x := make([]int, slotInts+1)
		err := func() (err error) {
			defer func() {
				if recover() != nil {
					err = errors.New("panicked")
				}
			}()
			return mpi.Scan(d, x, x, func(acc, in []int) {
				if c.Rank() == 1 {
					panic("operator")
				}
				mpi.Sum(acc, in)
			})
		}()
		if c.Rank() == 1 && err == nil {
			t.Error("the operator has not panicked")
		}
		if err := errOf(d.Ibarrier()); c.Rank() == 1 && !errors.Is(err, mpi.ErrCommBroken) {
			t.Errorf("a collective after it: %v, want %v", err, mpi.ErrCommBroken)
		}
		ok(t, c.Barrier())
		ok(t, mpi.Send(c, []int{1}, 1-c.Rank(), 1))
		must(mpi.Recv(c, x, 1-c.Rank(), 1))(t)
		ok(t, d.Free())
	}, hangTimeout)
}

// In place, the short buffer of the root is its part of the long one. Any other overlap is an error.
func TestGatherInPlace(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		const root, each = 1, 4
		all, mine := make([]int, 3*each), make([]int, each)
		if c.Rank() == root {
			mine = all[root*each:][:each]
		}
		for i := range mine {
			mine[i] = 10*c.Rank() + i
		}
		if c.Rank() == root {
			for _, err := range []error{mpi.Gather(c, all, all[:each], root), mpi.Scatter(c, all[:each], all, root)} {
				if !errors.Is(err, mpi.ErrArgument) {
					t.Errorf("buffers that overlap: %v, want %v", err, mpi.ErrArgument)
				}
			}
		}
		ok(t, mpi.Gather(c, all, mine, root))
		for i, v := range all {
			if want := 10*(i/each) + i%each; c.Rank() == root && v != want {
				t.Fatalf("gathered %v", all)
			}
		}
		ok(t, mpi.Scatter(c, mine, all, root))
		for i, v := range mine {
			if v != 10*c.Rank()+i {
				t.Fatalf("rank %d got %v", c.Rank(), mine)
			}
		}
	})
}

// What Mprobe has taken ends with its communicator.
func TestTakenMessageEnds(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		d := must(c.Dup())(t)
		r := must(mpi.Issend(d, []int{1}, d.Rank(), 1))(t)
		other := must(mpi.Issend(d, make([]byte, 100_000), 1-d.Rank(), 2))(t)
		m, _, err := d.Mprobe(d.Rank(), 1)
		ok(t, err)
		_, _, err = d.Mprobe(1-d.Rank(), 2)
		ok(t, err)
		ok(t, d.Free())
		wantOneOf(t, errOf(r.Wait()), mpi.ErrFreed)
		if err := errOf(other.Wait()); err != nil {
			wantOneOf(t, err, mpi.ErrFreed)
		}
		wantOneOf(t, errOf(mpi.Mrecv(m, make([]int, 1))), mpi.ErrFreed)
		ok(t, c.Barrier())
		if n := mpi.SharesInUse(c, 1-c.Rank()); n != 0 {
			t.Errorf("%d shares are lent still", n)
		}
	})
}

// A rank that waits in Free, or for room in a lane, does not wait for one that has revoked the communicator.
func TestRevokeEndsFree(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		for _, d := range []*mpi.Comm{must(c.Dup())(t), must(c.CreateGroup(c.Group(), 1))(t)} {
			if c.Rank() == 0 {
				ok(t, d.Free())
				continue
			}
			time.Sleep(2 * time.Millisecond) // so that the other one waits, mostly
			ok(t, d.Revoke())
		}
	}, hangTimeout)
}

// After the last number no communicator is made, and all ranks say so.
func TestLastCommunicator(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		mpi.LastComm(c)
		if _, err := c.CreateGroup(c.Group(), 1); !errors.Is(err, mpi.ErrTooMany) {
			t.Errorf("CreateGroup: %v, want %v", err, mpi.ErrTooMany)
		}
		tryComm(t, c, 1)
	})
}

// A nil grid, of a rank that is not in it, has calls that return errors.
func TestNilGrid(t *testing.T) {
	var g *mpi.Cart
	var n *mpi.Neighbors
	if g.Rank() != -1 || g.Size() != 0 || g.Dims() != nil || g.Periodic() != nil || n.Sources() != nil || n.Destinations() != nil {
		t.Error("a nil grid has something")
	}
	_, _, shift := g.Shift(0, 1)
	for what, err := range map[string]error{
		"Coords": errOf(g.Coords(0)), "RankAt": errOf(g.RankAt(0)), "Shift": shift, "Sub": errOf(g.Sub(true)), "Neighbors": errOf(g.Neighbors()),
		"Free": g.Free(), "Neighbors.Free": n.Free(), "NeighborAllgather": mpi.NeighborAllgather(n, []int{}, []int{}),
	} {
		if !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("%s: %v, want %v", what, err, mpi.ErrArgument)
		}
	}
}
