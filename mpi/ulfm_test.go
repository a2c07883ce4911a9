package mpi_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// What the test programs of ULFM check that no other test of this package does. docs/mpi.md has the list of them.

// After a death no barrier succeeds at any rank, and communicators without the dead one go on.
func TestErrReturns(t *testing.T) {
	const victim, n = 3, 5
	run(t, n, func(t *testing.T, c *mpi.Comm) {
		color := 0
		if c.Rank() == victim {
			color = 1
		}
		rest := must(c.Split(color, 0))(t)
		_ = c.Barrier()
		if c.Rank() == victim {
			die()
		}
		for len(c.Failed()) == 0 {
			time.Sleep(time.Millisecond)
		}
		for range 3 {
			if err := c.Barrier(); !errors.Is(err, mpi.ErrDied) {
				t.Errorf("Barrier after the death: %v, want %v", err, mpi.ErrDied)
			}
		}
		ok(t, rest.Barrier())
		tryComm(t, rest, 1)
		ok(t, rest.Free())
	}, shmemtest.Recover(victim), hangTimeout)
}

// Revoke ends long sends and receives that are under way, by many requests.
func TestRevokePending(t *testing.T) {
	const size, each = 4 << 20, 8
	for _, kind := range []string{"split", "messages"} {
		t.Run(kind, func(t *testing.T) {
			run(t, 4, func(t *testing.T, c *mpi.Comm) {
				d := comms(t, c)[kind]
				next, prev := (c.Rank()+1)%4, (c.Rank()+3)%4
				var all []mpi.Request
				for i := range each {
					if c.Rank() != 2 {
						all = append(all, must(mpi.Isend(d, make([]byte, size), next, i))(t))
					}
					if prev == 2 || i%2 == 0 {
						all = append(all, must(mpi.Irecv(d, make([]byte, size), prev, i))(t))
					}
				}
				ok(t, c.Barrier())
				if c.Rank() == 1 {
					ok(t, d.Revoke())
				}
				for i, q := range all {
					if _, err := q.Wait(); err != nil && !errors.Is(err, mpi.ErrRevoked) && !errors.Is(err, mpi.ErrCanceled) {
						t.Errorf("request %d: %v, want %v", i, err, mpi.ErrRevoked)
					}
				}
				for !d.Revoked() {
					time.Sleep(time.Millisecond)
				}
				if err := mpi.Send(d, []byte{1}, next, 1); !errors.Is(err, mpi.ErrRevoked) {
					t.Errorf("Send afterwards: %v", err)
				}
				ok(t, c.Barrier())
				ok(t, d.Free())
			}, hangTimeout)
		})
	}
}

// A hundred times in a row, a rank revokes a communicator in which the others communicate, and all make the next one by Shrink.
func TestRevokeAndShrink(t *testing.T) {
	const rounds = 100
	for _, kind := range []string{"split", "messages"} {
		t.Run(kind, func(t *testing.T) {
			run(t, 4, func(t *testing.T, c *mpi.Comm) {
				d := comms(t, c)[kind]
				for round := range rounds {
					var wg sync.WaitGroup
					if round%4 == c.Rank() {
						wg.Go(func() { _ = d.Revoke() })
					}
					for {
						x := []int{1}
						if err := mpi.Allreduce(d, x, x, mpi.Sum); err != nil {
							if !errors.Is(err, mpi.ErrRevoked) {
								t.Fatalf("round %d: %v", round, err)
							}
							break
						}
					}
					wg.Wait()
					next := must(d.Shrink())(t)
					if next.Size() != 4 || next.Rank() != c.Rank() {
						t.Fatalf("round %d: rank %d of %d", round, next.Rank(), next.Size())
					}
					ok(t, d.Free())
					d = next
				}
				tryComm(t, d, 2)
				ok(t, d.Free())
			}, hangTimeout)
		})
	}
}

// A handler that revokes has all ranks leave what they do, although one of them alone has noticed the death.
func TestRevokeInHandler(t *testing.T) {
	const victim, n = 1, 4
	run(t, n, func(t *testing.T, c *mpi.Comm) {
		d := must(c.Dup())(t)
		ok(t, d.OnError(func(c *mpi.Comm, err error) error {
			if errors.Is(err, mpi.ErrDied) {
				err = errors.Join(err, c.Revoke())
			}
			return err
		}))
		_ = c.Barrier()
		if c.Rank() == victim {
			die()
		}
		src := victim // rank 0 waits for the dead one, the others for rank 0
		if c.Rank() != 0 {
			src = 0
		}
		_, err := mpi.Recv(d, make([]int, 1), src, 1)
		if !errors.Is(err, mpi.ErrRevoked) && (c.Rank() != 0 || !errors.Is(err, mpi.ErrDied)) {
			t.Errorf("Recv: %v", err)
		}
		next := must(d.Shrink())(t)
		tryComm(t, next, 4)
		ok(t, next.Free())
	}, shmemtest.Recover(victim), hangTimeout)
}
