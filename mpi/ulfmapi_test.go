package mpi_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// The half of the ranks with the dead one gets errors that name it, and can be freed. The other half gets none.
func TestErrInsulation(t *testing.T) {
	const n, victim = 6, 5
	run(t, n, func(t *testing.T, c *mpi.Comm) {
		half := must(c.Split(c.Rank()/(n/2), c.Rank()))(t)
		_ = c.Barrier() // it fails at ranks that learn of the death first
		if c.Rank() == victim {
			die()
		}
		awaitDeaths(t, c, victim)
		if c.Rank() < n/2 {
			ok(t, half.Barrier())
			tryComm(t, half, 1)
		} else {
			wantDeathError(t, "Barrier", half.Barrier(), victim-n/2)
		}
		ok(t, half.Free())
	}, shmemtest.Recover(victim), hangTimeout)
}

// Clients send to one rank, which receives from any source, and die between two messages. It gets the last message or the death of each client: none
// is missing, and a receive goes on after deaths that are acknowledged.
func TestErrAny(t *testing.T) {
	const n, messages = 6, 40
	victims := []int{2, 3, 5}
	run(t, n, func(t *testing.T, c *mpi.Comm) {
		d := must(c.Dup())(t)
		_ = c.Barrier() // it fails at ranks that learn of a death first
		if me := c.Rank(); me != 0 {
			at := messages + 1
			if slices.Contains(victims, me) {
				at = rand.IntN(messages)
			}
			for i := range messages {
				if i == at {
					die()
				}
				ok(t, mpi.Send(d, []int{i}, 0, 1))
			}
			must(mpi.Recv(d, make([]int, 1), 0, 2))(t) // a rank that has left would be an error of rank 0's receives
			return
		}
		defer func() {
			for client := 1; client < n; client++ {
				if !slices.Contains(victims, client) {
					ok(t, mpi.Send(d, []int{0}, client, 2))
				}
			}
		}()
		next := make([]int, n) // message of each client
		done := 0
		for done < n-1-len(victims) || len(d.Failed()) < len(victims) {
			in := []int{-1}
			r := must(mpi.Irecv(d, in, mpi.AnySource, 1))(t)
			st, err := r.Wait()
			for errors.Is(err, mpi.ErrPending) {
				dead := d.AckFailed()
				if len(dead) == 0 {
					t.Fatalf("Wait: %v without a death", err)
				}
				if done == n-1-len(victims) && len(dead) == len(victims) {
					ok(t, r.Cancel())
					return
				}
				st, err = r.Wait()
			}
			ok(t, err)
			if in[0] != next[st.Source] {
				t.Fatalf("message %d of rank %d, want %d", in[0], st.Source, next[st.Source])
			}
			if next[st.Source]++; next[st.Source] == messages {
				done++
			}
		}
	}, shmemtest.Recover(victims...), hangTimeout)
}

// After an error of a death, AckFailed has exactly the rank that has died, and after a second one both: a barrier in between cannot succeed.
func TestGetAck(t *testing.T) {
	const n = 5
	run(t, n, func(t *testing.T, c *mpi.Comm) {
		d, me := must(c.Dup())(t), c.Rank()
		_ = c.Barrier() // it fails at ranks that learn of the death first
		if me == n-1 {
			die()
		}
		in := []int{-1}
		_, err := mpi.Sendrecv(d, []int{me}, (me+1)%n, 1, in, (me+n-1)%n, 1)
		if acked := d.AckFailed(); err != nil && !slices.Equal(acked, []int{n - 1}) {
			t.Errorf("AckFailed after %v: %v, want [%d]", err, acked, n-1)
		}
		if hasMate := me == 0 || me == n-2; !hasMate && err != nil || me == 0 && err == nil {
			t.Errorf("Sendrecv: %v, want an error at the one that receives from the dead, and none at ranks between living ones", err)
		}
		awaitDeaths(t, c, n-1)
		if me == n-2 {
			for rank := range n - 2 { // all have looked at the first death alone
				must(mpi.Recv(c, in, rank, 2))(t)
			}
			die()
		}
		ok(t, mpi.Send(c, []int{me}, n-2, 2))
		if err := d.Barrier(); !errors.Is(err, mpi.ErrDied) {
			t.Errorf("Barrier: %v, want %v", err, mpi.ErrDied)
		}
		for len(d.Failed()) < 2 {
			runtime.Gosched()
		}
		if acked := d.AckFailed(); !slices.Equal(acked, []int{n - 1, n - 2}) { // in the order of the deaths
			t.Errorf("AckFailed: %v, want both dead ranks", acked)
		}
	}, shmemtest.Recover(n-1, n-2), hangTimeout)
}

// With a handler that revokes, each call on the communicator fails at once, however often, and a communicator without the dead rank goes on.
func TestErrHandler(t *testing.T) {
	const n, victim = 5, 4
	run(t, n, func(t *testing.T, c *mpi.Comm) {
		color := 0
		if c.Rank() == victim {
			color = 1
		}
		d, rest := must(c.Dup())(t), must(c.Split(color, 0))(t)
		ok(t, d.OnError(func(c *mpi.Comm, err error) error {
			if !errors.Is(err, mpi.ErrRevoked) {
				err = errors.Join(err, c.Revoke())
			}
			return err
		}))
		_ = c.Barrier() // it fails at ranks that learn of the death first
		if c.Rank() == victim {
			die()
		}
		for i := range 3 {
			err := d.Barrier()
			if !errors.Is(err, mpi.ErrRevoked) && (i > 0 || !errors.Is(err, mpi.ErrDied)) {
				t.Errorf("Barrier %d: %v, want %v", i, err, mpi.ErrRevoked)
			}
			tryComm(t, rest, i)
		}
		ok(t, d.Free())
		ok(t, rest.Free())
	}, shmemtest.Recover(victim), hangTimeout)
}
