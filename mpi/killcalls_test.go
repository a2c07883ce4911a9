package mpi_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Flags of TestKillsInCalls. Ranks get their values by killsVar.
var (
	killsFlag    = flag.Int("kills", 0, "how many ranks TestKillsInCalls kills; 0: one in each call, with -short every fifth")
	killSeedFlag = flag.Uint64("seed", 1, "seed of TestKillsInCalls")
	killCallFlag = flag.String("killcalls", "", "the calls of TestKillsInCalls: a regular `expression`")
)

// killsVar is the environment variable by which ranks get the flags.
const killsVar = "GOSHMEM_TEST_KILLS"

// killDeadline is the time after which a round of TestKillsInCalls hangs.
const killDeadline = 60 * time.Second

// killCall is a call of the table.
type killCall struct {
	name    string
	begin   func(k *killRound) (step func(i int) error, err error) // step i makes the call once; a nil step after an error
	uniform bool                                                   // the survivors leave in the same step: they agree on the death
	strict  bool                                                   // all survivors get an error although nobody revokes the communicator
	gives   bool                                                   // a rank may give up what the call makes, so ErrRankFinalized may name living ranks
}

// killPlan is the plan of one job.
type killPlan struct {
	ranks  int
	kind   string // of the first communicator
	rounds []plannedKill
}

// plannedKill is one round of a job: a call, and the death in it.
type plannedKill struct {
	call  int // in the table
	words int // elements of a message
	pe    int // the victim
	step  int // in which its time begins
	delay time.Duration
	quiet bool // no rank revokes the communicator, if the call is strict
}

// planKills divides kills among jobs. Each call of the table has its turn before any has its second one.
func planKills(calls []killCall, kills int, seed uint64) (all []killPlan) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var order []int
	for kills > 0 {
		p := killPlan{ranks: []int{2, 3, 4, 5, 5, 5}[rng.IntN(6)], kind: commKinds[rng.IntN(len(commKinds))]}
		for _, pe := range rng.Perm(p.ranks)[1:] {
			if kills == 0 {
				break
			}
			if len(order) == 0 {
				order = rng.Perm(len(calls))
			}
			x := plannedKill{call: order[0], pe: pe, words: []int{1, 2560, 1 << 17}[rng.IntN(3)], step: max(0, rng.IntN(16)-8)}
			x.quiet = rng.IntN(2) == 0
			x.delay = time.Duration(rng.IntN(1<<rng.IntN(15))) * time.Microsecond
			order = order[1:]
			p.rounds = append(p.rounds, x)
			kills--
		}
		all = append(all, p)
	}
	return all
}

// Ranks die in every call, at random moments. Each survivor gets the results, or an error of the right class that names only dead ranks. Nobody hangs. Once a
// rank has revoked the communicator, all survivors leave; from collectives they do without that. Shrink makes a communicator of exactly the survivors.
func TestKillsInCalls(t *testing.T) {
	kills, seed, pattern := *killsFlag, *killSeedFlag, *killCallFlag
	if text := os.Getenv(killsVar); text != "" {
		if _, err := fmt.Sscanf(text, "%d %d %q", &kills, &seed, &pattern); err != nil {
			t.Fatal(err)
		}
	}
	calls := slices.DeleteFunc(killTable(), func(c killCall) bool { return !regexp.MustCompile(pattern).MatchString(c.name) })
	if kills == 0 {
		if kills = len(calls); testing.Short() {
			kills = (kills + 4) / 5
		}
	}
	flags := shmemtest.Env(fmt.Sprintf("%s=%d %d %q", killsVar, kills, seed, pattern))
	for job, p := range planKills(calls, kills, seed) {
		t.Run(fmt.Sprint(job), func(t *testing.T) {
			var victims []int
			for _, x := range p.rounds {
				victims = append(victims, x.pe)
			}
			limit := shmemtest.Timeout(time.Duration(len(p.rounds)+1) * killDeadline)
			run(t, p.ranks, func(t *testing.T, c *mpi.Comm) {
				k := &killRound{world: c, c: comms(t, c)[p.kind], dead: victims}
				for i, x := range p.rounds {
					k.t, k.call, k.plan, k.dead = t, calls[x.call], x, victims[:i+1]
					k.what = fmt.Sprintf("job %d, round %d, seed %d: %s of %d words on %d ranks (%s), PE %d dies %v after step %d begins, quiet: %t",
						job, i, seed, k.call.name, x.words, p.ranks-i, p.kind, x.pe, x.delay, x.step, x.quiet)
					k.run()
					if t.Failed() {
						return
					}
				}
			}, shmemtest.Recover(victims...), limit, flags)
		})
	}
}

// killRound is one round at one rank.
type killRound struct {
	t     *testing.T
	what  string // for messages
	call  killCall
	plan  plannedKill
	dead  []int // PEs: those of earlier rounds and the victim
	world *mpi.Comm
	phase atomic.Pointer[string]

	c          *mpi.Comm // of the round
	n, me      int       // its size, and the rank in it
	next, prev int       // the neighbors in a ring
	root       int       // of collectives
	words      int
	on         *mpi.Comm // the communicator whose ranks are in errors; nil: not known
	made       []revoker // by begin, beside c
	out, in    []uint64  // of words elements
	left       []mpi.Request
}

// revoker is a communicator that a round has made: a *Comm or an *Intercomm.
type revoker interface {
	Revoke() error
	Free() error
}

// run executes the round: calls until there is an error, then the way out.
func (k *killRound) run() {
	k.n, k.me, k.words = k.c.Size(), k.c.Rank(), k.plan.words
	k.next, k.prev, k.root = (k.me+1)%k.n, (k.me+k.n-1)%k.n, k.plan.step%k.n
	k.on, k.made, k.left = k.c, nil, nil
	k.out, k.in = make([]uint64, k.words), make([]uint64, k.words)
	k.enter("begin")
	watch := time.AfterFunc(killDeadline, k.hang)
	defer watch.Stop()

	step, err := k.call.begin(k)
	vote := uint64(1)
	if err != nil {
		vote = 0
	}
	// The victim may die once it has the result of this agreement. If the others have none yet, all of them learn of the death.
	got, failed := k.c.Agree(vote)
	if err != nil || got != 1 || failed != nil && !errors.Is(failed, mpi.ErrDied) {
		k.t.Fatalf("%s: begin: %v; agreement: %d, %v", k.what, err, got, failed)
	}
	steps := -1
	if failed == nil {
		steps = k.loop(step)
	} else {
		k.verify("agreement", k.c, failed)
	}
	k.leave()
	k.shrink(steps)
}

// loop makes the call until it fails, and returns in which step.
func (k *killRound) loop(step func(i int) error) int {
	isVictim := k.c.Group().IDs()[k.me] == k.plan.pe
	for i := 0; ; i++ {
		k.enter(fmt.Sprint("step ", i))
		if isVictim && i == k.plan.step {
			time.AfterFunc(k.plan.delay, die)
		}
		err := step(i)
		if err == nil {
			continue
		}
		if isVictim {
			k.t.Fatalf("%s: step %d: the victim lives and has %v", k.what, i, err)
		}
		if !errors.Is(err, errShrunk) {
			k.verify(fmt.Sprint("step ", i), k.on, err)
		}
		return i
	}
}

// errShrunk ends the steps of a call that succeeds after a death, and shows the death by its result.
var errShrunk = errors.New("the communicator is smaller")

// leave revokes the communicators of the round, unless all survivors get an error without that. All requests that are under way must end.
func (k *killRound) leave() {
	k.enter("revoke")
	if !k.call.strict || !k.plan.quiet {
		for _, m := range k.made {
			ok(k.t, m.Revoke())
		}
		ok(k.t, k.c.Revoke())
	}
	for i, q := range k.left {
		k.enter(fmt.Sprint("wait for request ", i))
		_, err := q.Wait()
		k.verify(fmt.Sprintf("request %d after Revoke", i), k.on, err)
		if errors.Is(err, mpi.ErrPending) {
			k.t.Errorf("%s: request %d goes on after Revoke: %v", k.what, i, err)
		}
	}
}

// shrink makes the communicator of the next round and checks it.
func (k *killRound) shrink(steps int) {
	k.enter("shrink")
	next := must(k.c.Shrink())(k.t)
	want := slices.DeleteFunc(k.c.Group().IDs(), func(pe int) bool { return pe == k.plan.pe })
	if got := next.Group().IDs(); !slices.Equal(got, want) {
		k.t.Fatalf("%s: Shrink has PEs %v, want %v", k.what, got, want)
	}
	k.enter("check")
	x := []int{1, steps, -steps}
	sum := make([]int, 3)
	ok(k.t, mpi.Allreduce(next, sum[:1], x[:1], mpi.Sum))
	ok(k.t, mpi.Allreduce(next, sum[1:], x[1:], mpi.Max))
	if sum[0] != next.Size() {
		k.t.Errorf("%s: %d ranks are in the sum, want %d", k.what, sum[0], next.Size())
	}
	if k.call.uniform && sum[1] != -sum[2] {
		k.t.Errorf("%s: the survivors left in the steps %d to %d, want one", k.what, -sum[2], sum[1])
	}
	k.enter("free")
	for _, m := range k.made {
		ok(k.t, m.Free())
	}
	if k.c != k.world {
		ok(k.t, k.c.Free())
	}
	k.c = next
}

// enter notes what the rank does, for messages about a hang.
func (k *killRound) enter(phase string) { k.phase.Store(&phase) }

// hang reports a round that does not end: what all goroutines do. It gives the other ranks time to report, too, before it ends this one.
func (k *killRound) hang() {
	fmt.Fprintf(os.Stderr, "%s: rank %d hangs: %s\n", k.what, k.me, *k.phase.Load())
	_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
	time.Sleep(3 * time.Second)
	panic("hang")
}

// verify fails the test if an error is not one of those that a death may cause, or names a rank that lives. on is the communicator whose ranks it names;
// nil: not known.
func (k *killRound) verify(when string, on *mpi.Comm, err error) {
	if err == nil || errors.Is(err, errVerified) {
		return
	}
	bad := func(why string) { k.t.Errorf("%s: %s: rank %d: %s: %v", k.what, when, k.me, why, err) }
	for _, cause := range []error{mpi.ErrMismatch, mpi.ErrArgument, mpi.ErrTruncated, mpi.ErrFreed, mpi.ErrFinalized, mpi.ErrTooMany, errWrongData} {
		if errors.Is(err, cause) {
			bad("wrong class")
			return
		}
	}
	all := rankErrors(err)
	if all == nil && !errors.Is(err, mpi.ErrRevoked) && !errors.Is(err, mpi.ErrCommBroken) && !errors.Is(err, mpi.ErrCanceled) {
		bad("unknown class")
	}
	for _, e := range all {
		if errors.Is(e, mpi.ErrRankFinalized) {
			if !k.call.gives {
				bad("no rank has finalized")
			}
			continue
		}
		if cause, is := errors.AsType[failure.Cause](e); !is || cause.Signal() != syscall.SIGKILL {
			bad("wrong cause")
		}
		if on == nil {
			continue
		}
		for _, rank := range e.Ranks {
			if ids := on.Group().IDs(); !slices.Contains(k.dead, ids[rank]) {
				bad(fmt.Sprintf("rank %d lives", rank))
			} else if !slices.Contains(on.Failed(), rank) {
				bad(fmt.Sprintf("rank %d is not in Failed() = %v", rank, on.Failed()))
			}
		}
	}
}

// rankErrors returns the RankErrors of an error that may be several joined.
func rankErrors(err error) (all []*mpi.RankError) {
	if e, is := err.(*mpi.RankError); is { //nolint:errorlint // the function unwraps
		return []*mpi.RankError{e}
	}
	switch e := err.(type) { //nolint:errorlint // likewise
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			all = append(all, rankErrors(part)...)
		}
	case interface{ Unwrap() error }:
		all = rankErrors(e.Unwrap())
	}
	return all
}

// errVerified marks errors on other communicators than killRound.on, which are verified already.
var errVerified = errors.New("verified")

// verified verifies an error of another communicator.
func (k *killRound) verified(on *mpi.Comm, err error) error {
	if err == nil {
		return nil
	}
	k.verify("other communicator", on, err)
	return fmt.Errorf("%w: %w", errVerified, err)
}

// errWrongData reports data that differ from those sent.
var errWrongData = errors.New("wrong data")

// weight is what the elements of a rank's data in a step begin with.
func weight(rank, i int) uint64 { return uint64(rank+1) * (uint64(i)*2654435761 + 12345) }

// put writes the data of a rank in a step, from element off on.
func put(buf []uint64, rank, i, off int) {
	w := weight(rank, i) + uint64(off)
	for j := range buf {
		buf[j] = w + uint64(j)
	}
}

// wrong returns an error unless buf has the sums of the data of the ranks from lo to hi-1.
func wrong(buf []uint64, lo, hi, i, off int) error {
	w := uint64(0)
	for rank := lo; rank < hi; rank++ {
		w += weight(rank, i) + uint64(off)
	}
	for j := range buf {
		if want := w + uint64(j)*uint64(hi-lo); buf[j] != want {
			return fmt.Errorf("%w: element %d of %d of ranks %d to %d in step %d is %#x, want %#x", errWrongData, j, len(buf), lo, hi-1, i, buf[j], want)
		}
	}
	return nil
}

// keep notes a communicator that begin has made.
func (k *killRound) keep(m revoker) { k.made = append(k.made, m) }

// killTable returns the table of calls.
func killTable() []killCall {
	return slices.Concat(killMessages(), killRequests(), killCollectives(), killNeighbors(), killMakers(), killIntercomms())
}
