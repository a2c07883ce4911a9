package mpi_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// runPorts runs body as the ranks of a job that are divided into groups without a communicator in common but that of all.
func runPorts(t *testing.T, ranks int, body func(t *testing.T, w *mpi.World, c *mpi.Comm), opts ...shmemtest.Option) {
	t.Helper()
	runBare(t, ranks, func(t *testing.T) {
		w := must(mpi.Init())(t)
		body(t, w, w.Comm())
		if !t.Failed() {
			ok(t, w.Finalize())
		}
	}, opts...)
}

// sendName sends the name of a port to some ranks, and recvName receives one: the means by which the tests bring names to others.
func sendName(t *testing.T, c *mpi.Comm, name string, ranks ...int) {
	t.Helper()
	for _, rank := range ranks {
		ok(t, mpi.Send(c, []byte(name), rank, nameTag))
	}
}

func recvName(t *testing.T, c *mpi.Comm, from int) string {
	t.Helper()
	buf := make([]byte, 200)
	s := must(mpi.Recv(c, buf, from, nameTag))(t)
	return string(buf[:s.Bytes])
}

const nameTag = 1234

// Two groups of different sizes meet by a port, again and again, in both directions.
func TestPorts(t *testing.T) {
	for _, n := range []int{2, 5} {
		runPorts(t, n, func(t *testing.T, w *mpi.World, c *mpi.Comm) {
			split := (n + 1) / 2
			side := 0
			if c.Rank() >= split {
				side = 1
			}
			local := must(c.Split(side, -c.Rank()))(t)
			sides := sidesOf(n, split)
			root := local.Size() - 1 // the lowest rank of c
			lowest := []int{0, split}
			isRoot := local.Rank() == root
			for round := range 4 {
				opener := round % 2
				name := "a name that matters at the root only"
				if isRoot && side == opener {
					name = must(w.OpenPort())(t)
					sendName(t, c, name, lowest[1-opener])
				} else if isRoot {
					name = recvName(t, c, lowest[opener])
				}
				var x *mpi.Intercomm
				for range 2 { // a port is for any number of connections
					if side == opener {
						x = must(mpi.Accept(local, name, root))(t)
					} else {
						x = must(mpi.Connect(local, name, root))(t)
					}
					tryIntercomm(t, c, x, sides[side], sides[1-side])
					ok(t, x.Disconnect())
				}
				if err := mpi.Send(x.Remote(), []int{1}, 0, 1); !errors.Is(err, mpi.ErrFreed) {
					t.Errorf("Send after Disconnect: %v, want %v", err, mpi.ErrFreed)
				}
				if isRoot && side == opener {
					ok(t, w.ClosePort(name))
					if err := w.ClosePort(name); !errors.Is(err, mpi.ErrPort) {
						t.Errorf("a second ClosePort: %v, want %v", err, mpi.ErrPort)
					}
				}
			}
		}, hangTimeout)
	}
}

// Disconnect waits for the requests of its rank.
func TestDisconnect(t *testing.T) {
	runPorts(t, 2, func(t *testing.T, w *mpi.World, c *mpi.Comm) {
		self := w.Self()
		var x *mpi.Intercomm
		if c.Rank() == 0 {
			name := must(w.OpenPort())(t)
			sendName(t, c, name, 1)
			x = must(mpi.Accept(self, name, 0))(t)
		} else {
			x = must(mpi.Connect(self, recvName(t, c, 0), 0))(t)
		}
		long, in := message(300_000, c.Rank()), make([]byte, 300_000)
		q := must(mpi.Irecv(x.Remote(), in, 0, 1))(t)
		if c.Rank() == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			if err := x.With(ctx).Disconnect(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Disconnect with a receive that waits: %v, want %v", err, context.DeadlineExceeded)
			}
		}
		ok(t, c.Barrier())
		s := must(mpi.Isend(x.Remote(), long, 0, 1))(t)
		ok(t, x.Disconnect())
		must(q.Wait())(t)
		must(s.Wait())(t)
		checkMessage(t, in, 1-c.Rank())
	}, hangTimeout)
}

// Wrong names, and groups that overlap, are errors at all ranks of a group.
func TestPortMistakes(t *testing.T) {
	runPorts(t, 4, func(t *testing.T, w *mpi.World, c *mpi.Comm) {
		me := c.Rank()
		pair := must(c.Split(me/2, me))(t)
		name := ""
		if me == 0 {
			name = must(w.OpenPort())(t)
			sendName(t, c, name, 1, 2, 3)
		} else {
			name = recvName(t, c, 0)
		}
		for _, bad := range []string{"", "goshmem-port:0:99:0000000000000001", name + "x", strings.Replace(name, ":0:", ":1:", 1)} {
			for what, call := range map[string]func(c *mpi.Comm, name string, root int) (*mpi.Intercomm, error){"Accept": mpi.Accept, "Connect": mpi.Connect} {
				if x, err := call(w.Self(), bad, 0); x != nil || !errors.Is(err, mpi.ErrPort) {
					t.Errorf("%s of %q: %v, want %v", what, bad, err, mpi.ErrPort)
				}
			}
		}
		unknown := name[:strings.LastIndex(name, ":")] + ":0123456789abcdef"
		if me >= 2 { // the port of another process, which it has not opened
			if _, err := mpi.Connect(pair, unknown, 1); !errors.Is(err, mpi.ErrPort) {
				t.Errorf("Connect to an unknown port: %v, want %v", err, mpi.ErrPort)
			}
			if _, err := mpi.Accept(pair, name, 0); !errors.Is(err, mpi.ErrPort) {
				t.Errorf("Accept of the port of another process: %v, want %v", err, mpi.ErrPort)
			}
			if err := w.ClosePort(name); !errors.Is(err, mpi.ErrPort) {
				t.Errorf("ClosePort of another process: %v, want %v", err, mpi.ErrPort)
			}
		}
		ok(t, c.Barrier())
		if me == 0 {
			if _, err := mpi.Connect(w.Self(), name, 0); !errors.Is(err, mpi.ErrArgument) {
				t.Errorf("Connect to a port of this process: %v, want %v", err, mpi.ErrArgument)
			}
		}
		// Rank 1 is in both groups: in that of Accept with rank 0, and in that of Connect with rank 2.
		var overlap *mpi.Comm
		if me == 1 || me == 2 {
			overlap = must(c.CreateGroup(must(c.Group().Incl(1, 2))(t), 5))(t)
		}
		var wg sync.WaitGroup
		if me <= 1 {
			wg.Go(func() {
				if _, err := mpi.Accept(pair, name, 0); !errors.Is(err, mpi.ErrArgument) {
					t.Errorf("Accept of a group that overlaps: %v, want %v", err, mpi.ErrArgument)
				}
			})
		}
		if overlap != nil {
			wg.Go(func() {
				if _, err := mpi.Connect(overlap, name, 1); !errors.Is(err, mpi.ErrArgument) {
					t.Errorf("Connect of a group that overlaps: %v, want %v", err, mpi.ErrArgument)
				}
			})
		}
		wg.Wait()
		if _, err := mpi.Accept(pair, name, 7); !errors.Is(err, mpi.ErrRankRange) {
			t.Errorf("Accept with root 7: %v, want %v", err, mpi.ErrRankRange)
		}
	}, hangTimeout)
}

// What ends the waits at a port: its end, a context, and a revocation. Then others may meet at the port.
func TestPortEnds(t *testing.T) {
	runPorts(t, 4, func(t *testing.T, w *mpi.World, c *mpi.Comm) {
		me := c.Rank()
		pair := must(c.Split(me/2, me))(t)
		name, closed := "", ""
		switch me {
		case 0:
			name, closed = must(w.OpenPort())(t), must(w.OpenPort())(t)
			sendName(t, c, name, 2)
			sendName(t, c, closed, 2)
			ok(t, w.ClosePort(closed))
		case 2:
			name, closed = recvName(t, c, 0), recvName(t, c, 0)
		}
		if me >= 2 {
			if _, err := mpi.Connect(pair, closed, 0); !errors.Is(err, mpi.ErrPort) {
				t.Errorf("Connect to a closed port: %v, want %v", err, mpi.ErrPort)
			}
		}
		call := func(c *mpi.Comm) (*mpi.Intercomm, error) {
			if me < 2 {
				return mpi.Accept(c, name, 0)
			}
			return mpi.Connect(c, name, 0)
		}
		alone := func(body func()) { // first the group of Connect has no Accept, then the group of Accept no Connect
			ok(t, c.Barrier())
			if me >= 2 {
				body()
			}
			ok(t, c.Barrier())
			if me < 2 {
				body()
			}
			ok(t, c.Barrier())
		}
		alone(func() {
			d := must(pair.Dup())(t)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if me%2 == 1 {
				ctx = t.Context() // only the root has a deadline
			}
			if x, err := call(d.With(ctx)); x != nil || err == nil || me%2 == 0 && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("with a deadline at the root: %v, %v", x, err)
			}
			ok(t, d.Free())
		})
		alone(func() {
			d := must(pair.Dup())(t)
			if me%2 == 1 { // it does not even call
				must(mpi.Recv(pair, []int{0}, 0, 1))(t)
				ok(t, d.Revoke())
			} else {
				ok(t, mpi.Send(pair, []int{0}, 1, 1))
				if x, err := call(d); x != nil || !errors.Is(err, mpi.ErrRevoked) {
					t.Errorf("of a communicator that is revoked: %v, %v, want %v", x, err, mpi.ErrRevoked)
				}
			}
			ok(t, d.Free())
		})
		x := must(call(pair))(t)
		tryIntercomm(t, c, x, [][]int{{0, 1}, {2, 3}}[me/2], [][]int{{2, 3}, {0, 1}}[me/2])
		ok(t, x.Disconnect())
		if me < 2 { // another goroutine closes the port
			var wg sync.WaitGroup
			if me == 0 {
				wg.Go(func() {
					for mpi.Meeting(c) == 0 {
						time.Sleep(time.Millisecond)
					}
					ok(t, w.ClosePort(name))
				})
			}
			if _, err := mpi.Accept(pair, name, 0); !errors.Is(err, mpi.ErrPort) {
				t.Errorf("Accept of a port that is closed meanwhile: %v, want %v", err, mpi.ErrPort)
			}
			wg.Wait()
		}
	}, hangTimeout)
}

// A death of the other root, or of another rank of the group, is an error of those who wait. A group whose root has died is passed over.
func TestPortDeaths(t *testing.T) {
	for _, victim := range []int{0, 1, 2, 3} { // roots are 0 and 2; 0 accepts
		runPorts(t, 6, func(t *testing.T, w *mpi.World, c *mpi.Comm) {
			me := c.Rank()
			pair := must(c.Split(me/2, me))(t)
			name := ""
			if me == 0 {
				name = must(w.OpenPort())(t)
				sendName(t, c, name, 2, 4)
			} else if me%2 == 0 {
				name = recvName(t, c, 0)
			}
			_ = c.Barrier() // the victim may die before others leave it
			if me == victim {
				die()
			}
			switch {
			case victim == 0 || victim == 1: // nobody accepts
				if me == 0 {
					if _, err := mpi.Accept(pair, name, 0); !errors.Is(err, mpi.ErrDied) {
						t.Errorf("Accept: %v, want %v", err, mpi.ErrDied)
					}
					ok(t, w.ClosePort(name))
				}
				if me >= 2 {
					_, err := mpi.Connect(pair, name, 0)
					ended := errors.Is(err, mpi.ErrPort) || errors.Is(err, mpi.ErrRankFinalized) || errors.Is(err, mpi.ErrCommBroken) // by rank 0
					if !errors.Is(err, mpi.ErrDied) && (victim == 0 || !ended) {
						t.Errorf("Connect: %v, want %v, or what rank 0 has done after the death", err, mpi.ErrDied)
					}
				}
			case me == 2 || me == 3:
				if _, err := mpi.Connect(pair, name, 0); !errors.Is(err, mpi.ErrDied) {
					t.Errorf("Connect of a group with a dead rank: %v, want %v", err, mpi.ErrDied)
				}
			default: // the groups of 0 and 4 meet, maybe after one with that of 2 has failed
				var x *mpi.Intercomm
				var err error
				for x == nil {
					if me >= 4 {
						x = must(mpi.Connect(pair, name, 0))(t)
					} else if x, err = mpi.Accept(pair, name, 0); err != nil && !errors.Is(err, mpi.ErrDied) && !errors.Is(err, mpi.ErrCommBroken) {
						t.Fatal(err)
					}
				}
				sum := []int{0}
				ok(t, mpi.InterAllreduce(x, sum, []int{me}, mpi.Sum))
				if want := []int{9, 0, 1}[me/2]; sum[0] != want {
					t.Errorf("the sum of the other group is %d, want %d", sum[0], want)
				}
				ok(t, x.Disconnect())
			}
		}, shmemtest.Recover(victim), hangTimeout)
	}
}

// Groups meet, lose a rank, revoke what connects them, shrink, and meet again by another port, until each has one rank left.
func TestConnectAcceptStress(t *testing.T) {
	const half, n = 3, 6
	victims := []int{1, 4, 2, 5} // the roots, 0 and 3, live
	runPorts(t, n, func(t *testing.T, w *mpi.World, c *mpi.Comm) {
		me := c.Rank()
		side := me / half
		local := must(c.Split(side, 0))(t)
		for round := 0; ; round++ {
			var x *mpi.Intercomm
			var err error
			switch {
			case side == 0 && local.Rank() == 0:
				name := must(w.OpenPort())(t)
				sendName(t, c, name, half)
				x, err = mpi.Accept(local, name, 0)
				ok(t, w.ClosePort(name))
			case side == 0:
				x, err = mpi.Accept(local, "", 0)
			case local.Rank() == 0:
				x, err = mpi.Connect(local, recvName(t, c, 0), 0)
			default:
				x, err = mpi.Connect(local, "", 0)
			}
			ok(t, err)
			sum := []int{0}
			ok(t, mpi.InterAllreduce(x, sum, []int{1}, mpi.Sum))
			if sum[0] != x.Remote().Size() {
				t.Errorf("round %d: the sum of ones is %d, want %d", round, sum[0], x.Remote().Size())
			}
			if round*2 == len(victims) {
				ok(t, x.Disconnect())
				break
			}
			err = x.Barrier() // behind it all have met. Victims may die before others leave it
			if slices.Contains(victims[2*round:2*round+2], me) {
				die()
			}
			for err == nil {
				err = mpi.InterAllreduce(x, sum, []int{1}, mpi.Sum)
			}
			if !errors.Is(err, mpi.ErrDied) && !errors.Is(err, mpi.ErrRevoked) {
				t.Errorf("round %d: %v, want %v", round, err, mpi.ErrDied)
			}
			ok(t, x.Revoke())
			_, _ = x.Agree(1) // both sides know that both victims have died, or will learn of it
			for {             // each side shrinks until its victim is out
				next := must(local.Shrink())(t)
				ok(t, local.Free())
				if local = next; local.Size() == half-1-round {
					break
				}
			}
			ok(t, x.Free())
		}
	}, shmemtest.Recover(victims...), hangTimeout)
}
