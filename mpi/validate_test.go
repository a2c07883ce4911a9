package mpi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// validateAll calls Validate until it knows all victims.
func validateAll(t *testing.T, c *mpi.Comm, victims []int) {
	t.Helper()
	for {
		dead := must(c.Validate())(t)
		if slices.Equal(dead, victims) {
			return
		}
		for _, rank := range dead {
			if !slices.Contains(victims, rank) {
				t.Fatalf("Validate: %v, but only %v die", dead, victims)
			}
		}
	}
}

// After Validate a communicator in which ranks have died works: collectives are those of the others, and dead ranks are nobody.
func TestValidate(t *testing.T) {
	const n = 5
	for _, kind := range commKinds {
		for seed := range 3 {
			rng := rand.New(rand.NewPCG(uint64(seed), 7))
			victims := rng.Perm(n)[:1+rng.IntN(n-2)]
			slices.Sort(victims)
			t.Run(fmt.Sprintf("%s/%d", kind, seed), func(t *testing.T) {
				run(t, n, func(t *testing.T, c *mpi.Comm) {
					d := comms(t, c)[kind]
					_ = c.Barrier() // it fails at ranks that learn of a death first
					if slices.Contains(victims, c.Rank()) {
						time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, die)
					}
					sum := make([]int, 1)
					for err := error(nil); err == nil; {
						if err = mpi.Allreduce(d, sum, []int{1}, mpi.Sum); err == nil {
							err = mpi.Bcast(d, sum, 0)
						}
						if err != nil && !errors.Is(err, mpi.ErrDied) {
							t.Fatalf("collective: %v", err)
						}
					}
					validateAll(t, d, victims)
					checkValidated(t, d, victims)
				}, shmemtest.Recover(victims...), hangTimeout)
			})
		}
	}
}

// checkValidated makes the calls of a communicator in which some ranks are recognized as dead.
func checkValidated(t *testing.T, c *mpi.Comm, dead []int) {
	n, me, living := c.Size(), c.Rank(), []int(nil)
	for rank := range n {
		if !slices.Contains(dead, rank) {
			living = append(living, rank)
		}
	}
	root, want := living[len(living)-1], make([]int, n)
	for rank := range want {
		want[rank] = -1
		if slices.Contains(living, rank) {
			want[rank] = 10 * rank
		}
	}
	for range 3 {
		ok(t, c.Barrier())
		got := make([]int, 1)
		ok(t, mpi.Allreduce(c, got, []int{1}, mpi.Sum))
		if got[0] != len(living) {
			t.Errorf("Allreduce: %d, want %d", got[0], len(living))
		}
		got[0] = me
		ok(t, mpi.Bcast(c, got, root))
		if got[0] != root {
			t.Errorf("Bcast: %d, want %d", got[0], root)
		}
		if err := mpi.Bcast(c, got, dead[0]); !errors.Is(err, mpi.ErrDied) {
			t.Errorf("Bcast from dead rank %d: %v, want %v", dead[0], err, mpi.ErrDied)
		}
		ok(t, mpi.Scan(c, got, []int{1}, mpi.Sum))
		if at := slices.Index(living, me); got[0] != at+1 {
			t.Errorf("Scan: %d, want %d", got[0], at+1)
		}
		checkValidatedParts(t, c, living, root, want)
	}
	for _, rank := range dead {
		ok(t, mpi.Send(c, []int{1}, rank, 1))
		if s := must(mpi.Recv(c, make([]int, 1), rank, 1))(t); s.Source != mpi.ProcNull {
			t.Errorf("Recv from dead rank %d: %+v, want the status of ProcNull", rank, s)
		}
		if s := must(c.Probe(rank, 1))(t); s.Source != mpi.ProcNull {
			t.Errorf("Probe of dead rank %d: %+v, want the status of ProcNull", rank, s)
		}
	}
	at := slices.Index(living, me)
	ok(t, mpi.Send(c, []int{me}, living[(at+1)%len(living)], 2))
	from := make([]int, 1)
	if s := must(mpi.Recv(c, from, mpi.AnySource, 2))(t); s.Source != from[0] || s.Source != living[(at+len(living)-1)%len(living)] {
		t.Errorf("Recv from any source: %d, %+v", from[0], s)
	}
	if got := must(c.Agree(5))(t); got != 5 {
		t.Errorf("Agree: %d, want 5", got)
	}
	dup := must(c.Dup())(t)
	ok(t, mpi.Allreduce(dup, from, []int{1}, mpi.Sum))
	if from[0] != len(living) || dup.Size() != len(living) {
		t.Errorf("Dup: %d ranks, sum %d, want %d", dup.Size(), from[0], len(living))
	}
	ok(t, dup.Free())
	idup, r, err := c.Idup()
	ok(t, err)
	must(r.Wait())(t)
	ok(t, idup.Barrier())
	if _, err := c.Cart([]int{n}, []bool{true}, false); !errors.Is(err, mpi.ErrArgument) {
		t.Errorf("Cart of %d ranks, %d of which are dead: %v, want %v", n, len(dead), err, mpi.ErrArgument)
	}
	ring := must(c.Cart([]int{len(living)}, []bool{true}, false))(t)
	ok(t, mpi.NeighborAllgather(must(ring.Neighbors())(t), make([]int, 2), []int{me}))
	graph := must(c.Graph([]int{living[(at+1)%len(living)]}, []int{living[(at+len(living)-1)%len(living)]}))(t)
	ok(t, mpi.NeighborAllgather(graph, from, []int{me}))
	if want := living[(at+1)%len(living)]; from[0] != want {
		t.Errorf("NeighborAllgather: from %d, want %d", from[0], want)
	}
}

// Ranks die after a Validate, too. Collectives fail again, with the ranks of the communicator, until the next one. Requests and the communicator end well.
func TestValidateTwice(t *testing.T) {
	const n = 5
	for _, kind := range commKinds {
		t.Run(kind, func(t *testing.T) {
			run(t, n, func(t *testing.T, c *mpi.Comm) {
				d := comms(t, c)[kind]
				_ = c.Barrier() // it fails at ranks that learn of a death first
				for i, victim := range []int{1, 3} {
					if c.Rank() == victim {
						time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, die)
					}
					var err error
					for err == nil {
						err = mpi.Allreduce(d, make([]int, 1), []int{1}, mpi.Sum)
					}
					if e, is := errors.AsType[*mpi.RankError](err); !is || !errors.Is(err, mpi.ErrDied) || !slices.Equal(e.Ranks, []int{victim}) {
						t.Errorf("Allreduce: %v, want a death of rank %d", err, victim)
					}
					validateAll(t, d, []int{1, 3}[:i+1])
					checkValidated(t, d, []int{1, 3}[:i+1])
					_ = d.Barrier() // it fails at ranks that learn of the next death first
				}
				if kind != "world" {
					ok(t, d.Free())
				}
			}, shmemtest.Recover(1, 3), hangTimeout)
		})
	}
}

// A rank that goes on to Shrink ends the votes of uniform collectives by Revoke.
func TestUniformRevoked(t *testing.T) {
	const n, victim = 4, 2
	for _, kind := range commKinds {
		t.Run(kind, func(t *testing.T) {
			run(t, n, func(t *testing.T, c *mpi.Comm) {
				d := comms(t, c)[kind]
				ok(t, d.SetInfo(mpi.Info{"goshmem_collectives": "uniform"}))
				_ = c.Barrier() // it fails at ranks that learn of a death first
				switch c.Rank() {
				case victim:
					time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, die)
					for d.Barrier() == nil {
					}
					select {}
				case 0:
					if _, err := mpi.Recv(d, make([]int, 1), victim, 9); !errors.Is(err, mpi.ErrDied) {
						t.Errorf("Recv: %v, want %v", err, mpi.ErrDied)
					}
					ok(t, d.Revoke())
				default:
					if err := d.Barrier(); !errors.Is(err, mpi.ErrDied) && !errors.Is(err, mpi.ErrRevoked) {
						t.Errorf("Barrier: %v, want %v or %v", err, mpi.ErrDied, mpi.ErrRevoked)
					}
				}
				s := must(d.Shrink())(t)
				ok(t, s.Barrier())
			}, shmemtest.Recover(victim), hangTimeout)
		})
	}
}

// checkValidatedParts makes the collectives whose buffers have parts of all ranks.
func checkValidatedParts(t *testing.T, c *mpi.Comm, living []int, root int, want []int) {
	n, me := c.Size(), c.Rank()
	fresh := func() []int {
		all := make([]int, n)
		for i := range all {
			all[i] = -1
		}
		return all
	}
	same := func(what string, got []int) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	all := fresh()
	ok(t, mpi.Allgather(c, all, []int{10 * me}))
	same("Allgather", all)
	all = fresh()
	ok(t, mpi.Gather(c, all, []int{10 * me}, root))
	if me == root {
		same("Gather", all)
	}
	ranks, part := fresh(), make([]int, 1)
	for rank := range ranks {
		ranks[rank] = 10 * rank
	}
	ok(t, mpi.Scatter(c, part, ranks, root))
	if part[0] != 10*me {
		t.Errorf("Scatter: %d, want %d", part[0], 10*me)
	}
	all = fresh()
	for rank := range ranks {
		ranks[rank] = 10 * me
	}
	ok(t, mpi.Alltoall(c, all, ranks))
	same("Alltoall", all)
	for rank := range ranks {
		ranks[rank] = rank
	}
	ok(t, mpi.ReduceScatterBlock(c, part, ranks, mpi.Sum))
	if part[0] != me*len(living) {
		t.Errorf("ReduceScatterBlock: %d, want %d", part[0], me*len(living))
	}
	all = fresh()
	r := must(mpi.Iallgather(c, all, []int{10 * me}))(t)
	must(r.Wait())(t)
	same("Iallgather", all)
}

// Validate without a death finds none, and changes nothing.
func TestValidateNone(t *testing.T) {
	forEachSize(t, func(t *testing.T, c *mpi.Comm) {
		all := comms(t, c)
		for _, kind := range commKinds {
			d := all[kind]
			for range 10 {
				if dead := must(d.Validate())(t); len(dead) != 0 {
					t.Errorf("Validate: %v", dead)
				}
				ok(t, d.Barrier())
			}
		}
	})
}

// A uniform collective in which a rank dies succeeds at all ranks that live, or at none.
func TestUniform(t *testing.T) {
	const n, rounds = 5, 400
	for _, kind := range commKinds {
		for seed := range 3 {
			victim := rand.New(rand.NewPCG(uint64(seed), 3)).IntN(n)
			t.Run(fmt.Sprintf("%s/%d", kind, seed), func(t *testing.T) {
				run(t, n, func(t *testing.T, c *mpi.Comm) {
					d := comms(t, c)[kind]
					ok(t, d.SetInfo(mpi.Info{"goshmem_collectives": "uniform"}))
					_ = c.Barrier() // it fails at ranks that learn of a death first
					if c.Rank() == victim {
						time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, die)
					}
					var all []outcome
					in, out := make([]int, 3000), make([]int, 3000)
					for i := range rounds {
						var err error
						switch i % 4 {
						case 0:
							err = d.Barrier()
						case 1:
							err = mpi.Bcast(d, in, i%n)
						case 2:
							err = mpi.Allreduce(d, out, in, mpi.Sum)
						default:
							err = mpi.Reduce(d, out, in, mpi.Sum, i%n)
						}
						if err != nil && !errors.Is(err, mpi.ErrDied) && !errors.Is(err, mpi.ErrCommBroken) {
							t.Fatalf("round %d: %v", i, err)
						}
						all = append(all, outcome{Failed: err != nil})
					}
					if c.Rank() == victim {
						select {}
					}
					compareOutcomes(t, c, []int{victim}, all)
				}, shmemtest.Recover(victim), hangTimeout)
			})
		}
	}
}

// agreementWays are the ways to agree in messages, by the hint that asks for them.
var agreementWays = []string{"early", "durable", "log", "linear"}

// Each way to agree gives all ranks that live the same outcomes, whoever dies.
func TestAgreementWays(t *testing.T) {
	const n, rounds = 6, 60
	for _, way := range agreementWays {
		for seed := range 3 {
			rng := rand.New(rand.NewPCG(uint64(seed), 11))
			victims, moments := rng.Perm(n), rng.Perm(rounds / 2)[:n]
			if seed == 1 { // the coordinator of a two-phase commit
				at := slices.Index(victims, 0)
				victims[0], victims[at] = victims[at], victims[0]
			}
			victims = victims[:1+seed]
			t.Run(fmt.Sprintf("%s/%d", way, seed), func(t *testing.T) {
				run(t, n, func(t *testing.T, c *mpi.Comm) {
					ok(t, c.SetInfo(mpi.Info{"goshmem_agreement": way}))
					_ = c.Barrier() // it fails at ranks that learn of a death first
					var all []outcome
					for i := range rounds {
						if slices.Contains(victims, c.Rank()) && i == moments[c.Rank()] {
							time.AfterFunc(time.Duration(rand.IntN(100))*time.Microsecond, die)
						}
						got, err := agreeOn(c, i%3 != 0, rand.Uint64())
						if errors.Is(err, mpi.ErrUndecided) {
							if way == "early" || way == "durable" {
								t.Errorf("agreement %d: %v", i, err)
							}
							all = append(all, outcome{Failed: true})
							continue
						}
						all = append(all, outcomeOf(t, got, err))
					}
					compareOutcomes(t, c, victims, all)
					for len(c.Failed()) < len(victims) {
						time.Sleep(time.Millisecond)
					}
					c.AckFailed()
					got, err := c.Agree(7)
					for errors.Is(err, mpi.ErrUndecided) {
						got, err = c.Agree(7)
					}
					if got != 7 || err != nil {
						t.Errorf("after AckFailed: %#x, %v", got, err)
					}
					if err := c.SetInfo(mpi.Info{"goshmem_agreement": "auto"}); !errors.Is(err, mpi.ErrArgument) {
						t.Errorf("another way after an agreement: %v, want %v", err, mpi.ErrArgument)
					}
				}, shmemtest.Recover(victims...), hangTimeout)
			})
		}
	}
}
