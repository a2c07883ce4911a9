package mpi_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// comms returns communicators of all kinds: the world, one with a team, and one without.
func comms(t *testing.T, c *mpi.Comm) map[string]*mpi.Comm {
	t.Helper()
	all := map[string]*mpi.Comm{"world": c, "split": must(c.Split(0, 0))(t)}
	all["messages"] = must(c.CreateGroup(c.Group(), 1))(t)
	return all
}

// Whatever a rank waits for in a communicator ends when another rank revokes it. Other communicators are not concerned.
func TestRevoke(t *testing.T) {
	for _, kind := range []string{"world", "split", "messages"} {
		for call, f := range map[string]func(c *mpi.Comm) error{
			"Recv":      func(c *mpi.Comm) error { return errOf(mpi.Recv(c, make([]int, 1), 0, 1)) },
			"any":       func(c *mpi.Comm) error { return errOf(mpi.Recv(c, make([]int, 1), mpi.AnySource, 1)) },
			"Ssend":     func(c *mpi.Comm) error { return mpi.Ssend(c, make([]byte, 4<<20), 0, 1) },
			"Probe":     func(c *mpi.Comm) error { return errOf(c.Probe(0, 1)) },
			"Barrier":   func(c *mpi.Comm) error { return c.Barrier() },
			"Allreduce": func(c *mpi.Comm) error { x := make([]int, 50_000); return mpi.Allreduce(c, x, x, mpi.Sum) },
			"Ibarrier": func(c *mpi.Comm) error {
				r, err := c.Ibarrier()
				if err == nil {
					_, err = r.Wait()
				}
				return err
			},
			"Split": func(c *mpi.Comm) error { return errOf(c.Split(0, 0)) },
		} {
			t.Run(kind+"/"+call, func(t *testing.T) {
				run(t, 3, func(t *testing.T, c *mpi.Comm) {
					all := comms(t, c)
					d, other := all[kind], all["split"]
					if kind == "split" {
						other = all["messages"]
					}
					if c.Rank() == 0 {
						for range 2 {
							must(mpi.Recv(other, make([]byte, 1), mpi.AnySource, 9))(t) // they are about to wait
						}
						time.Sleep(time.Millisecond) // so that they wait, mostly; any moment is right
						ok(t, d.Revoke())
						ok(t, d.Revoke())
					} else {
						ok(t, mpi.Send(other, []byte{1}, 0, 9))
						if err := f(d); !errors.Is(err, mpi.ErrRevoked) {
							t.Errorf("%s: %v, want %v", call, err, mpi.ErrRevoked)
						}
					}
					if !d.Revoked() || other.Revoked() {
						t.Errorf("revoked: %v, and the other one: %v", d.Revoked(), other.Revoked())
					}
					for what, err := range map[string]error{"Send": mpi.Send(d, []int{1}, 0, 1), "Barrier": d.Barrier(), "Ibarrier": errOf(d.Ibarrier()), "Split": errOf(d.Split(0, 0))} {
						if !errors.Is(err, mpi.ErrRevoked) {
							t.Errorf("%s after it: %v, want %v", what, err, mpi.ErrRevoked)
						}
					}
					tryComm(t, other, 5)
					ok(t, all["split"].Free())
					ok(t, all["messages"].Free())
				}, hangTimeout)
			})
		}
	}
}

// A communicator may be revoked before another rank has made it.
func TestRevokedEarly(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		for i := range 30 {
			d := must(c.Split(0, 0))(t)
			if i%3 == c.Rank() {
				ok(t, d.Revoke())
			}
			for !d.Revoked() {
				time.Sleep(time.Microsecond)
			}
			ok(t, d.Free())
		}
	})
}

// A rank dies right after it has revoked a communicator: if one survivor knows, all do. Otherwise they learn of the death.
func TestRevokerDies(t *testing.T) {
	const victim, n = 1, 5
	for round := range 5 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			run(t, n, func(t *testing.T, c *mpi.Comm) {
				d, err := c.Split(0, 0)
				if c.Rank() == victim {
					ok(t, err)
					ok(t, d.Revoke())
					die()
				}
				if errors.Is(err, mpi.ErrDied) {
					return // it has died before the others had made the communicator
				}
				ok(t, err)
				var wg sync.WaitGroup
				for tag := range 3 {
					wg.Go(func() {
						if err := errOf(mpi.Recv(d, make([]int, 1), victim, tag)); !errors.Is(err, mpi.ErrRevoked) && !errors.Is(err, mpi.ErrDied) {
							t.Errorf("Recv: %v, want %v or %v", err, mpi.ErrRevoked, mpi.ErrDied)
						}
					})
				}
				wg.Wait()
				ok(t, d.Revoke())
				ok(t, d.Free())
			}, shmemtest.Recover(victim))
		})
	}
}
