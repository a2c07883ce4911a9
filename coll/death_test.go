package coll_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// kill publishes the death of a PE as the step does. The PE's goroutine does nothing any more.
func (nd *node) kill(pe int) {
	nd.page.Publish(pe, 1, failure.ByExit(1), 0)
	for i := range nd.m.Len() {
		rma.Rouse(&nd.m.Control(i).Bell)
	}
}

// member returns one PE's side of the team of all PEs.
func (nd *node) member(t *testing.T, me int, knows *failure.View) *coll.Team {
	t.Helper()
	cfg := nd.config(0, me, firstPEs(nd.m.Len()))
	cfg.Failures = knows
	return newTeam(t, cfg)
}

// mustFinish fails the test if f does not end. Sleeps have no timeout here, so a lost wake-up is a
// hang.
func mustFinish(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done) // even if f fails the test
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		stacks := make([]byte, 1<<20)
		t.Fatalf("%s: hangs\n%s", what, stacks[:runtime.Stack(stacks, true)])
	}
}

// wantDeadError checks that an error is a DeadError with exactly these members.
func wantDeadError(t *testing.T, who string, err error, members ...int) {
	t.Helper()
	if dead, is := errors.AsType[*coll.DeadError](err); !is || !slices.Equal(dead.Members, members) {
		t.Errorf("%s: error %v, want a DeadError of members %v", who, err, members)
	}
}

// everyCollective has one call of each collective, small and large. b has room for either.
var everyCollective = map[string]func(ctx context.Context, tm *coll.Team, root int) error{
	"Sync": func(ctx context.Context, tm *coll.Team, _ int) error { return tm.Sync(ctx) },
	"Same": func(ctx context.Context, tm *coll.Team, _ int) error {
		_, _, _, err := tm.Same(ctx, coll.Words{})
		return err
	},
	"Compare": func(ctx context.Context, tm *coll.Team, _ int) error {
		_, err := tm.Compare(ctx, coll.Call{Text: "Compare"})
		return err
	},
	"Broadcast": func(ctx context.Context, tm *coll.Team, root int) error {
		return coll.Broadcast[uint32](ctx, tm, small, root)
	},
	"Broadcast large": func(ctx context.Context, tm *coll.Team, root int) error {
		return coll.Broadcast[uint32](ctx, tm, large, root)
	},
	"Reduce": func(ctx context.Context, tm *coll.Team, _ int) error {
		return coll.Reduce[uint32](ctx, tm, small, sum)
	},
	"Reduce large": func(ctx context.Context, tm *coll.Team, _ int) error {
		return coll.Reduce[uint32](ctx, tm, large, sum)
	},
	"FCollect":       func(ctx context.Context, tm *coll.Team, _ int) error { return coll.FCollect[uint32](ctx, tm, small) },
	"FCollect large": func(ctx context.Context, tm *coll.Team, _ int) error { return coll.FCollect[uint32](ctx, tm, large) },
	"Alltoall":       func(ctx context.Context, tm *coll.Team, _ int) error { return coll.Alltoall[uint32](ctx, tm, small) },
	"Alltoall large": func(ctx context.Context, tm *coll.Team, _ int) error { return coll.Alltoall[uint32](ctx, tm, large) },
}

var (
	small = coll.Buffers{Dst: layout.HeapOffset, Src: layout.HeapOffset + 512<<10, N: 4}
	large = coll.Buffers{Dst: layout.HeapOffset, Src: layout.HeapOffset + 512<<10, N: 5000}
)

// A member in a collective that a dead member has not entered gets an error that names the dead
// member, and again at once at the next call. It never gets ErrBroken.
func TestDeathEndsCollectives(t *testing.T) {
	const n, victim = 4, 2
	for name, call := range everyCollective {
		t.Run(name, func(t *testing.T) {
			nd := newNode(t, n)
			var wg sync.WaitGroup
			for me := range n {
				if me == victim {
					continue
				}
				tm := nd.member(t, me, nd.failures)
				wg.Go(func() {
					who := fmt.Sprint("member ", me)
					wantDeadError(t, who, call(t.Context(), tm, victim), victim)
					wantDeadError(t, who+"at the next call", call(t.Context(), tm, me), victim)
					wantDeadError(t, who+"in another collective", tm.Sync(t.Context()), victim)
				})
			}
			mustFinish(t, name, func() {
				for me := range n {
					if me != victim {
						nd.waitForSleeper(me)
					}
				}
				nd.kill(victim)
				wg.Wait()
			})
		})
	}
}

// If several members are dead, the error names all of them, in the order of the team.
func TestAllDeadAreNamed(t *testing.T) {
	nd := newNode(t, 5)
	for _, pe := range []int{3, 1, 4} {
		nd.kill(pe)
	}
	for _, me := range []int{0, 2} {
		wantDeadError(t, "survivor", nd.member(t, me, nd.failures).Sync(t.Context()), 1, 3, 4)
	}
}

// A dead PE that is no member of the team does not affect it.
func TestDeathElsewhere(t *testing.T) {
	nd := newNode(t, 3)
	nd.each(t, 7, []int{2, 0}, func(me int, tm *coll.Team) error {
		for r := range 1000 {
			if r == 500 && me == 0 {
				nd.kill(1)
			}
			if err := tm.Sync(t.Context()); err != nil {
				return err
			}
		}
		return nil
	})
}

// A member that dies after it entered a step does not end that step.
func TestArrivedBeforeDeath(t *testing.T) {
	nd := newNode(t, 3)
	waits, dies, late := nd.member(t, 0, nd.failures), nd.member(t, 1, nd.failures), nd.member(t, 2, nil) // the last one does not know of the death
	done := make(chan error, 2)
	go func() { done <- waits.Sync(t.Context()) }()
	go func() { done <- dies.Sync(t.Context()) }()
	mustFinish(t, "Sync", func() {
		nd.waitForSleeper(0)
		nd.waitForSleeper(1)
		nd.kill(1)           // clears the bells as well
		nd.waitForSleeper(0) // so it has seen the news
		if err := late.Sync(t.Context()); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("error %v, want success, because all had arrived", err)
			}
		}
		wantDeadError(t, "the next call", waits.Sync(t.Context()), 1)
	})
}

// A root whose call fails because it knows of a death marks that, so the members that wait for it
// do not hang, even if the dead member had entered the step.
func TestGivingUpIsSeen(t *testing.T) {
	for _, b := range []coll.Buffers{small, large} {
		nd := newNode(t, 3)
		root, waits, dies := nd.member(t, 0, nd.failures), nd.member(t, 1, nd.failures), nd.member(t, 2, nd.failures)
		done := make(chan error, 2)
		go func() { done <- coll.Broadcast[uint32](t.Context(), waits, b, 0) }()
		go func() { _ = coll.Broadcast[uint32](t.Context(), dies, b, 0) }() // ends with the mark as well
		mustFinish(t, "Broadcast", func() {
			nd.waitForSleeper(1)
			nd.waitForSleeper(2)
			nd.kill(2)
			nd.waitForSleeper(1)
			wantDeadError(t, "root", coll.Broadcast[uint32](t.Context(), root, b, 0), 2)
			wantDeadError(t, "the waiting member", <-done, 2)
		})
	}
}

// A survivor that leaves, as in Finalize, ends the waits for it with the names of the dead.
func TestLeaveWithDead(t *testing.T) {
	nd := newNode(t, 3)
	leaves, waits := nd.member(t, 0, nd.failures), nd.member(t, 1, nd.failures)
	done := make(chan error, 1)
	go func() { done <- waits.Sync(t.Context()) }()
	mustFinish(t, "Sync", func() {
		nd.waitForSleeper(1)
		nd.page.Publish(2, 1, failure.ByExit(1), 0) // no bell is rung
		leaves.Leave()
		wantDeadError(t, "the waiting member", <-done, 2)
	})
}

// A member that leaves a collective which failed in its first step does not pass for one that
// entered the second step.
func TestLeaveInTheMidst(t *testing.T) {
	nd := newNode(t, 2)
	tm := nd.member(t, 0, nd.failures)
	nd.kill(1)
	mustFinish(t, "Leave", func() {
		unaware := nd.member(t, 0, nil)
		done := make(chan error, 1)
		go func() { done <- coll.FCollect[uint32](t.Context(), unaware, large) }()
		nd.waitForSleeper(0)
		wantDeadError(t, "the member that knows of the death", tm.Sync(t.Context()), 1)
		tm.Leave()
		if word := nd.m.Control(0).Entries[0][0].Seq; word != 3<<62|1 {
			t.Errorf("the arrival word is %#x, want both marks and step 1", word)
		}
		nd.waiters[0].Close()
		<-done
	})
}

// mortal is an operator in which a member dies: its goroutine does nothing more, not even its
// deferred calls, until the test is over.
type mortal struct {
	die  func()
	over <-chan struct{}
}

func (m mortal) fold(_, _ []uint32) {
	m.die()
	<-m.over
	runtime.Goexit()
}

// Members die anywhere in random sequences of collectives, at the same time or one after the
// other, and their deaths are published a while later. No member hangs. All survivors fail from
// the same collective on (except in broadcasts) and name the dead.
func TestDeathsAnywhere(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		mustFinish(t, fmt.Sprint("seed ", seed), func() { testDeathsAnywhere(t, seed, rng) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func testDeathsAnywhere(t *testing.T, seed uint64, rng *rand.Rand) {
	t.Helper()
	n := 2 + rng.IntN(5)
	nd := newNode(t, n)
	victims := rng.Perm(n)[:1+rng.IntN(n-1)]
	slices.Sort(victims)
	var passed [steps]atomic.Int32 // survivors that passed each step
	var wg sync.WaitGroup
	over := make(chan struct{})
	defer close(over)
	for me := range n {
		l := life{tm: nd.member(t, me, nd.failures), rng: rand.New(rand.NewPCG(seed, 2)), end: steps + 1, over: over}
		if !slices.Contains(victims, me) {
			l.passed = &passed
			wg.Go(func() { wantDeadErrorOf(t, l.live(t.Context()), victims) })
			continue
		}
		l.end = rng.IntN(steps)
		l.die = nd.killLater(&wg, me, rng.IntN(200))
		go func() {
			defer l.die()
			_ = l.live(t.Context()) // a victim may notice an earlier death
		}()
	}
	wg.Wait()
	rng = rand.New(rand.NewPCG(seed, 2))
	for step := range steps {
		kind, _ := chooseCollective(rng, n)
		if got := int(passed[step].Load()); !strings.HasPrefix(kind, "Broadcast") && got != 0 && got != n-len(victims) {
			t.Errorf("%d of %d survivors got past step %d, %s", got, n-len(victims), step, kind)
		}
	}
}

// killLater returns a function that kills a PE a few scheduling turns later, once. The group waits
// for it.
func (nd *node) killLater(wg *sync.WaitGroup, pe, turns int) func() {
	wg.Add(1)
	return sync.OnceFunc(func() {
		defer wg.Done()
		for range turns {
			runtime.Gosched()
		}
		nd.kill(pe)
	})
}

// wantDeadErrorOf checks that an error names dead members that are victims.
func wantDeadErrorOf(t *testing.T, err error, victims []int) {
	t.Helper()
	dead, is := errors.AsType[*coll.DeadError](err)
	if !is || len(dead.Members) == 0 || slices.ContainsFunc(dead.Members, func(i int) bool { return !slices.Contains(victims, i) }) {
		t.Errorf("a survivor's error is %v, want a DeadError of some of %v", err, victims)
	}
}

const steps = 30

// life is a member on its way through random collectives.
type life struct {
	tm     *coll.Team
	rng    *rand.Rand // draws the same on all members
	end    int        // the step in which the member dies: in the middle of a reduction, or before any other collective
	die    func()
	over   <-chan struct{}
	passed *[steps]atomic.Int32 // nil: this member does not count
}

// collectiveNames are the names in everyCollective, in order.
var collectiveNames = slices.Sorted(maps.Keys(everyCollective))

func chooseCollective(rng *rand.Rand, n int) (kind string, root int) {
	return collectiveNames[rng.IntN(len(collectiveNames))], rng.IntN(n)
}

// live returns the first error, which has to be returned again by the next call. The last step
// needs all members.
func (l *life) live(ctx context.Context) error {
	for step := range steps {
		kind, root := chooseCollective(l.rng, l.tm.Size())
		if step == l.end {
			switch kind {
			case "Reduce":
				_ = coll.Reduce[uint32](ctx, l.tm, small, mortal{l.die, l.over}.fold)
			case "Reduce large":
				_ = coll.Reduce[uint32](ctx, l.tm, large, mortal{l.die, l.over}.fold)
			case "ReducePrivate large":
				_ = coll.ReducePrivate(ctx, l.tm, make([]uint32, 40_000), make([]uint32, 40_000), mortal{l.die, l.over}.fold, -1)
			case "ReduceValue":
				_ = coll.ReduceValue(ctx, l.tm, new(uint32), mortal{l.die, l.over}.fold)
			case "ReduceValue large":
				_ = coll.ReduceValue(ctx, l.tm, new(wide), func(acc, in []wide) { mortal{l.die, l.over}.fold(acc[0][:], in[0][:]) })
			}
			return nil
		}
		if err := everyCollective[kind](ctx, l.tm, root); err != nil {
			if _, is := errors.AsType[*coll.DeadError](l.tm.Sync(ctx)); !is {
				return fmt.Errorf("after %w, Sync: %w", err, l.tm.Sync(ctx))
			}
			return err
		}
		if l.passed != nil {
			l.passed[step].Add(1)
		}
	}
	return l.tm.Sync(ctx)
}
