package shmem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/symheap/layout"
)

// lockAt makes a lock whose home is a PE, and an object.
func (f *farJob) lockAt(t *testing.T, home layout.PE) (locks []Lock, objects []Sym[int64]) {
	t.Helper()
	locks, objects = make([]Lock, len(f.worlds)), make([]Sym[int64], len(f.worlds))
	f.each(t, func(w *World) (err error) {
		if objects[w.MyPE()], err = Alloc[int64](w, 1); err != nil {
			return err
		}
		for {
			l, err := NewLock(w)
			if err != nil {
				return err
			}
			if l.home == home {
				locks[w.MyPE()] = l
				return nil
			}
		}
	})
	return locks, objects
}

// wantDead checks that an error names PEs that have died.
func wantDead(err error, pes ...int) error {
	if dead, is := errors.AsType[*PEError](err); is && errors.Is(err, ErrPEDied) && slices.Equal(dead.PEs, pes) {
		return nil
	}
	return fmt.Errorf("error %w, want a *PEError of the dead PEs %d", err, pes)
}

// The death of a lock's home ends the wait of a PE of the home's node, although that has the queue in its memory: the holder
// is on another node, and can never release the lock.
func TestFarLockHomeDies(t *testing.T) {
	f := newFarJob(t, 3, 1)
	const waiter, home, near, holder = 0, 1, 2, 3
	locks, _ := f.lockAt(t, home)
	f.each(t, func(w *World) error {
		_, err := locks[holder].Acquire(w.Ctx())
		return err
	}, holder)
	ctx, cancel := context.WithTimeout(t.Context(), farPatience)
	defer cancel()
	waits := make(chan error, 1)
	go func() {
		_, err := locks[waiter].Acquire(f.worlds[waiter].Ctx().With(ctx))
		waits <- err
	}()
	for !f.asleep(waiter) && len(waits) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the waiter does not sleep")
		}
	}
	f.kill(home)
	ok(t, wantDead(<-waits, home))
	f.each(t, func(w *World) error {
		c, l := w.Ctx(), locks[w.MyPE()]
		if w.MyPE() == holder {
			if err := wantDead(l.Release(c), home); err != nil {
				return fmt.Errorf("Release: %w", err)
			}
			if err := l.Release(c); !errors.Is(err, ErrLockNotHeld) {
				return fmt.Errorf("second Release: %w", err)
			}
		}
		_, err := l.Acquire(c)
		_, _, tried := l.Try(c)
		return errors.Join(wantDead(err, home), wantDead(tried, home))
	}, waiter, near, holder)
}

// A lock is released although operations on a lost node can never be complete: others wait for it.
func TestFarLockAfterLoss(t *testing.T) {
	f := newFarJob(t, 1, 1, 1)
	const home, holder, lost = 0, 1, 2
	locks, objects := f.lockAt(t, home)
	resume := f.nodes[lost].pause()
	f.each(t, func(w *World) error {
		_, err := locks[holder].Acquire(w.Ctx())
		return errors.Join(err, P(w.Ctx(), objects[holder], 1, lost))
	}, holder)
	f.nodes[lost].stop.Store(true)
	resume()
	f.lose(t, lost)
	f.each(t, func(w *World) error { return wantDead(locks[holder].Release(w.Ctx()), lost) }, holder)
	f.each(t, func(w *World) error {
		_, err := locks[home].Acquire(w.Ctx())
		return err
	}, home)
}
