package shmem

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A program that is told of a death, in whatever way, has no more operation on the dead PE succeed, also before its process has
// heard of the death otherwise.
func TestOperationOnKnownDead(t *testing.T) {
	const victim = 3
	for name, tells := range map[string]func(w *World) bool{
		"Failed":    func(w *World) bool { return slices.Equal(w.Failed(), []int{victim}) },
		"AckFailed": func(w *World) bool { return slices.Equal(w.AckFailed(), []int{victim}) },
		"QuietPE":   func(w *World) bool { return errors.Is(w.Ctx().QuietPE(victim), ErrPEDied) },
		"Barrier":   func(w *World) bool { return errors.Is(w.Barrier(), ErrPEDied) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFarJob(t, 2, 2)
			objects := make([]Sym[int64], len(f.worlds))
			f.each(t, func(w *World) (err error) {
				objects[w.MyPE()], err = Alloc[int64](w, 1)
				return err
			})
			f.kill(victim)
			f.each(t, func(w *World) error {
				if !tells(w) {
					return fmt.Errorf("%s tells nothing of the death", name)
				}
				if err := P(w.Ctx(), objects[w.MyPE()], 1, victim); !errors.Is(err, ErrPEDied) {
					return errors.Join(errors.New("a put on the dead PE has not failed with ErrPEDied"), err)
				}
				return nil
			}, 0, 1, 2)
		})
	}
}

// After the death of a far PE, operations on it return an error that names it, those on other PEs work, and Quiet does
// not wait for it. What was fetched before stays. Collectives of the world fail, and those of the node go on.
func TestFarDeath(t *testing.T) {
	f := newFarJob(t, 2, 2)
	const victim = 3
	objects := make([]Sym[int64], len(f.worlds))
	locks := make([]Lock, len(f.worlds))
	pendings := make([]Pending[int64], len(f.worlds))
	f.each(t, func(w *World) (err error) {
		if objects[w.MyPE()], err = Alloc[int64](w, 100); err != nil {
			return err
		}
		for { // a lock whose home dies
			l, err := NewLock(w)
			if err != nil {
				return err
			}
			if l.home == victim {
				locks[w.MyPE()] = l
				break
			}
		}
		pendings[w.MyPE()], err = AtomicFetchAddNBI(w.Ctx(), objects[w.MyPE()].At(1), 1, victim)
		return errors.Join(err, w.Barrier())
	})
	f.kill(victim)
	f.each(t, func(w *World) error {
		c, x := w.Ctx(), objects[w.MyPE()]
		w.session.h.alertLayers()
		if v, err := pendings[w.MyPE()].Wait(); err != nil || v < 0 || v > 3 {
			return fmt.Errorf("a fetch before the death: %d, %w", v, err)
		}
		_, got := GetNBI(c, make([]int64, 1), x, victim)
		_, fetched := AtomicFetch(c, x, victim)
		for i, err := range []error{P(c, x, 1, victim), got, fetched, AtomicInc(c, x, victim), c.QuietPE(victim)} {
			dead, is := errors.AsType[*PEError](err)
			if !is || !slices.Equal(dead.PEs, []int{victim}) || !errors.Is(err, ErrPEDied) || !strings.Contains(err.Error(), "exited with status 3") {
				return fmt.Errorf("operation %d on the dead PE: %w", i, err)
			}
		}
		for pe := range victim {
			if err := AtomicInc(c, x.At(2), pe); err != nil {
				return err
			}
		}
		if err := c.Quiet(); err != nil {
			return fmt.Errorf("Quiet: %w", err)
		}
		if _, err := locks[w.MyPE()].Acquire(c); w.MyPE() < 2 && !errors.Is(err, ErrPEDied) {
			return fmt.Errorf("a lock with a dead home on another node: %w", err)
		}
		err := w.Barrier()
		dead, is := errors.AsType[*PEError](err)
		if !is || !slices.Equal(dead.PEs, []int{victim}) {
			return fmt.Errorf("Barrier: %w, want a PEError of PE %d", err, victim)
		}
		if _, err := Alloc[int64](w, 1); !errors.Is(err, ErrPEDied) {
			return fmt.Errorf("Alloc: %w", err)
		}
		if w.MyPE() < 2 {
			return w.Shared().Sync()
		}
		return nil
	}, 0, 1, 2)
	for pe := range victim {
		if got := memory(f, objects[0], pe)[2]; got != 3 {
			t.Errorf("PE %d was counted up to %d, want 3", pe, got)
		}
	}
}

// A death during a wait for another node ends it.
func TestFarDeathInWait(t *testing.T) {
	f := newFarJob(t, 1, 2)
	f.each(t, func(w *World) error { return w.Barrier() })
	errs := make(chan error, 2)
	for pe := range 2 {
		go func() { errs <- f.worlds[pe].Barrier() }()
	}
	for pe := range 2 {
		for !f.asleep(pe) {
			if t.Context().Err() != nil {
				t.Fatal("the PEs do not sleep")
			}
		}
	}
	f.kill(2)
	for range 2 {
		dead, is := errors.AsType[*PEError](<-errs)
		if !is || !slices.Equal(dead.PEs, []int{2}) {
			t.Errorf("Barrier: %v, want a PEError of PE 2", dead)
		}
	}
}

// A context ends the wait for another node. The team is broken then, for all: PE 0 finds PE 1 in the first barrier, and
// knows in the second one that PE 1 will not come.
func TestFarContextEnds(t *testing.T) {
	f := newFarJob(t, 1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.worlds[1].With(ctx).Barrier(); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "waiting for PE 0") {
		t.Errorf("Barrier whose context has ended: %v", err)
	}
	f.each(t, func(w *World) error {
		err := w.Barrier()
		if err == nil && w.MyPE() == 0 {
			err = w.Barrier()
		}
		if !errors.Is(err, ErrTeamBroken) || !strings.Contains(err.Error(), "; hint: Team.Shrink makes") {
			return fmt.Errorf("Barrier of a broken team: %w, want a hint at Shrink", err)
		}
		return nil
	})
}

// A Barrier or an allocation that fails before the PEs meet, as operations on another node are not complete in time, breaks
// the team for all: nobody waits for a PE that will not come, or believes that its operations are complete.
func TestFarUncomplete(t *testing.T) {
	for name, call := range map[string]func(w *World) error{
		"Barrier": (*World).Barrier,
		"Alloc":   func(w *World) error { _, err := Alloc[int64](w, 1); return err },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFarJob(t, 2, 1)
			objects := make([]Sym[int64], len(f.worlds))
			f.each(t, func(w *World) (err error) {
				objects[w.MyPE()], err = Alloc[int64](w, 1)
				return err
			})
			resume := f.nodes[1].pause()
			w := f.worlds[1]
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			ok(t, P(w.Ctx(), objects[1], 1, 2))
			err := call(w.With(ctx))
			resume()
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want the end of the context", err)
			}
			f.each(t, func(w *World) error {
				if err := call(w); !errors.Is(err, ErrTeamBroken) {
					return fmt.Errorf("error %w, want that of a broken team", err)
				}
				return nil
			}, 0, 2)
		})
	}
}

// A team and its contexts are destroyed, as the documentation of Destroy says, although operations on a lost node can never be
// complete. The error names the PEs of lost nodes alone.
func TestFarDestroyAfterLoss(t *testing.T) {
	f := newFarJob(t, 1, 1, 2)
	objects := make([]Sym[int64], len(f.worlds))
	teams := make([]*Team, len(f.worlds))
	contexts := make([]*Ctx, len(f.worlds))
	f.each(t, func(w *World) (err error) {
		me := w.MyPE()
		if objects[me], err = Alloc[int64](w, 1); err != nil {
			return err
		}
		if teams[me], err = w.Team().SplitStrided(0, 1, 4, nil); err != nil {
			return err
		}
		contexts[me], err = teams[me].NewCtx()
		return err
	})
	f.kill(2)
	resume := f.nodes[1].pause()
	ok(t, P(contexts[0], objects[0], 1, 1))
	ok(t, P(contexts[0], objects[0], 1, 3))
	ok(t, P(f.worlds[0].Ctx(), objects[0], 1, 1))
	f.nodes[1].stop.Store(true)
	resume()
	f.lose(t, 1)
	ok(t, wantDead(f.worlds[0].Ctx().Quiet(), 1))
	f.each(t, func(w *World) error { return wantDead(teams[w.MyPE()].Destroy(), 1, 2) }, 0, 3)
	if err := teams[0].Sync(); !errors.Is(err, ErrDestroyed) {
		t.Errorf("Sync of the team: %v, want that it is destroyed", err)
	}
	if err := P(contexts[0], objects[0], 1, 3); !errors.Is(err, ErrDestroyed) {
		t.Errorf("P on a context of the team: %v, want that it is destroyed", err)
	}
}

// Reports of a PE that is in Quiet name a PE of the node that it waits for.
func TestFarQuietIsNamed(t *testing.T) {
	f := newFarJob(t, 1, 1, 2)
	objects := make([]Sym[int64], len(f.worlds))
	f.each(t, func(w *World) (err error) {
		objects[w.MyPE()], err = Alloc[int64](w, 1)
		return err
	})
	resume := sync.OnceFunc(f.nodes[2].pause())
	t.Cleanup(resume)
	c := f.worlds[0].Ctx()
	ok(t, P(c, objects[0], 1, 3))
	ctx, cancel := context.WithTimeout(t.Context(), farPatience)
	defer cancel()
	over := make(chan error)
	go func() { over <- c.With(ctx).Quiet() }()
	waiter := f.worlds[0].session.h.job.Waiter
	for pe := -1; pe != 3; pe, _ = waiter.Awaited() {
		if ctx.Err() != nil {
			t.Fatal("nobody learns what Quiet waits for")
		}
		runtime.Gosched()
	}
	resume()
	ok(t, <-over)
}

// Wait for a result of a near PE does not wait for operations on other nodes, and does not fail with them.
func TestNearPendingBesideFarPut(t *testing.T) {
	f := newFarJob(t, 2, 1)
	objects := make([]Sym[int64], len(f.worlds))
	f.each(t, func(w *World) (err error) {
		objects[w.MyPE()], err = Calloc[int64](w, 1)
		return err
	})
	f.nodes[1].endAgent(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := f.worlds[0].With(ctx).Ctx()
	ok(t, P(c, objects[0], 1, 2))
	near, err := AtomicFetchAddNBI(c, objects[0], 5, 1)
	ok(t, err)
	if v, err := near.Wait(); v != 0 || err != nil {
		t.Errorf("the result of a near PE is %d, %v, want 0", v, err)
	}
	if err := c.Quiet(); !errors.Is(err, context.Canceled) {
		t.Errorf("Quiet: %v, want the end of the context: the agent of the other node has ended", err)
	}
}

// The error of a PE that died with its node names the node.
func TestLostNode(t *testing.T) {
	f := newFarJob(t, 1, 2)
	f.lose(t, 1)
	w := f.worlds[0]
	x := Sym[int64]{off: layout.HeapOffset, n: 1, tag: w.session.h.emptyTag()}
	if err := P(w.Ctx(), x, 1, 2); err == nil || err.Error() != "shmem.P: PE [2]: was on node 1, which is lost" || !errors.Is(err, failure.Of(failure.NodeLost)) {
		t.Errorf("P on a lost node: %v", err)
	}
	if err := w.Barrier(); err == nil || err.Error() != "shmem.Barrier: PE [1 2]: PE 1 was on node 1, which is lost, PE 2 was on node 1, which is lost" {
		t.Errorf("Barrier with a lost node: %v", err)
	}
}

// Locks are refused in jobs that are too large for them.
func TestFarLimits(t *testing.T) {
	h := &heap{npes: mostLockPEs + 1}
	h.slots.Store(1)
	w := &World{session: &session{h: h}}
	_, made := NewLock(w)
	_, at := LockAt(w, Sym[int64]{})
	for _, err := range []error{made, at} {
		if !errors.Is(err, ErrTooMany) || !strings.Contains(err.Error(), "lock in a job of 8193 PEs, want at most 8192") {
			t.Errorf("lock in a job of %d PEs: %v", h.npes, err)
		}
	}
}
