package ft_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/ft"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Flags of TestKillsInBlocks. Ranks get their values by killsVar.
var (
	killsFlag = flag.Int("kills", 0, "how many jobs TestKillsInBlocks runs; 0: 6, with -short 2")
	seedFlag  = flag.Uint64("seed", 1, "seed of TestKillsInBlocks")
)

const killsVar = "GOSHMEM_TEST_BLOCK_KILLS"

// killDeadline is the time after which a block of TestKillsInBlocks hangs.
const killDeadline = 60 * time.Second

// killPlan is the plan of a job.
type killPlan struct {
	ranks   int
	mode    ft.Mode
	victims []int
	delays  []time.Duration // between the start of a round and the death
	words   int
	raises  bool // the ranks raise errors of their own now and then
}

// planKills makes the plans of the jobs.
func planKills(jobs int, seed uint64) (all []killPlan) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for range jobs {
		p := killPlan{ranks: 2 + rng.IntN(5), mode: []ft.Mode{ft.Global, ft.WithCollective}[rng.IntN(2)], words: []int{1, 3000, 1 << 16}[rng.IntN(3)], raises: rng.IntN(3) == 0}
		p.victims = rng.Perm(p.ranks)[1:]
		for range p.victims {
			p.delays = append(p.delays, time.Duration(rng.IntN(1<<(6+rng.IntN(10))))*time.Microsecond)
		}
		all = append(all, p)
	}
	return all
}

// Ranks die at random moments in blocks, one after the other, down to one. The survivors agree on each death with the same faults, and the blocks that
// they have accepted are right.
func TestKillsInBlocks(t *testing.T) {
	jobs, seed := *killsFlag, *seedFlag
	if text := os.Getenv(killsVar); text != "" {
		if _, err := fmt.Sscanf(text, "%d %d", &jobs, &seed); err != nil {
			t.Fatal(err)
		}
	}
	if jobs == 0 {
		if jobs = 6; testing.Short() {
			jobs = 2
		}
	}
	for i, p := range planKills(jobs, seed) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			limit := shmemtest.Timeout(time.Duration(p.ranks+1) * killDeadline)
			run(t, p.ranks, func(t *testing.T, c *mpi.Comm) {
				for round, victim := range p.victims {
					what := fmt.Sprintf("job %d, seed %d, round %d: %d ranks, mode %d, %d words, PE %d dies after %v", i, seed, round, c.Size(), p.mode, p.words, victim, p.delays[round])
					if c.Group().IDs()[c.Rank()] == victim {
						time.AfterFunc(p.delays[round], die)
					}
					c = survive(t, what, c, &p, victim)
				}
			}, shmemtest.Recover(p.victims...), limit, shmemtest.Env(fmt.Sprintf("%s=%d %d", killsVar, jobs, seed)))
		})
	}
}

// survive tries blocks until the death of the victim ends one, and returns the communicator of the survivors.
func survive(t *testing.T, what string, c *mpi.Comm, p *killPlan, victim int) *mpi.Comm {
	t.Helper()
	watch := time.AfterFunc(killDeadline, func() {
		fmt.Fprintf(os.Stderr, "%s: rank %d hangs\n", what, c.Rank())
		panic("hang")
	})
	defer watch.Stop()
	n, me, dead := c.Size(), c.Rank(), slices.Index(c.Group().IDs(), victim)
	out, in, sum := make([]int, p.words), make([]int, p.words), make([]int, 1)
	var b *ft.Block
	for i := 0; ; i++ {
		for k := range out {
			out[k] = i + k + me
		}
		b = ft.Try(c, p.mode)
		_ = b.Add(mpi.Irecv(c, in, (me+n-1)%n, 1))
		_ = b.Add(mpi.Isend(c, out, (me+1)%n, 1))
		_ = b.Add(mpi.Iallreduce(c, sum, []int{i}, mpi.Sum))
		if p.raises && p.mode == ft.Global && (i+me)%5 == 0 {
			b.Raise(&ft.Error{Code: ft.App(i % 32), Err: errors.New("raised")})
		}
		_, err := b.Finish(nil, killDeadline).Wait()
		if b.Decision() == ft.Reject {
			if !errors.Is(err, mpi.ErrDied) {
				t.Fatalf("%s: block %d: %v", what, i, err)
			}
			break
		}
		if b.Failed(ft.SoftFault, ft.PeerFailed, ft.Broken, ft.OtherFault, ft.TimedOut) != nil || err != nil && b.Decision() != ft.Partial {
			t.Fatalf("%s: block %d: %v, requests %v", what, i, err, b.Failed())
		}
		for k := range in {
			if want := i + k + (me+n-1)%n; in[k] != want {
				t.Fatalf("%s: block %d: word %d is %d, want %d", what, i, k, in[k], want)
			}
		}
		if sum[0] != i*n {
			t.Fatalf("%s: block %d: sum %d, want %d", what, i, sum[0], i*n)
		}
	}
	if got := b.FailedRanks(ft.SoftFault, ft.NodeLost); !slices.Equal(got, []int{dead}) {
		t.Fatalf("%s: dead ranks %v, want %d", what, got, dead)
	}
	next, err := c.Shrink()
	ok(t, err)
	if next.Size() != n-1 {
		t.Fatalf("%s: %d survivors, want %d", what, next.Size(), n-1)
	}
	return agreeOn(t, what, next, b)
}

// agreeOn checks that the survivors have the same faults.
func agreeOn(t *testing.T, what string, c *mpi.Comm, b *ft.Block) *mpi.Comm {
	t.Helper()
	var digest uint64
	for _, f := range b.Faults() {
		for _, x := range []uint64{uint64(f.Rank), uint64(f.Codes), f.Block} {
			digest = (digest ^ x) * 0x9e3779b97f4a7c15
		}
	}
	all := make([]uint64, c.Size())
	ok(t, mpi.Allgather(c, all, []uint64{digest}))
	for _, other := range all {
		if other != digest {
			t.Fatalf("%s: the survivors have different faults: %x; here %v", what, all, b.Faults())
		}
	}
	return c
}
