package shmem

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// A PE that dies between two calls of a random program ends the collectives of all others, with an error that names it. Locks
// go on, unless their home has died. One-sided operations among the living go on.
func TestFarRandomDeaths(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { f := newFarJob(t, 2, 1, 2); f.dieAtRandom(t, seed) })
	}
}

// dieAtRandom runs one job, in which one PE dies.
func (f *farJob) dieAtRandom(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	npes := len(f.worlds)
	victim, calls := random.IntN(npes), 1+random.IntN(12)
	program := make([]int, 64)
	for i := range program {
		program[i] = random.IntN(7)
	}
	states := make([]*farState, npes)
	f.each(t, func(w *World) (err error) {
		states[w.MyPE()], err = newFarState(w)
		return err
	})
	diesLocked := random.IntN(2) == 0
	f.each(t, func(w *World) error {
		s := states[w.MyPE()]
		s.w = w
		if w.MyPE() == victim {
			for i, call := range program[:calls] {
				if err := s.call(call); err != nil {
					return fmt.Errorf("call %d of %v: %w", i, program, err)
				}
			}
			if diesLocked {
				_, _, _ = s.lock.Try(w.Ctx()) // it dies with the lock, if it gets it
			}
			f.kill(victim)
			return nil
		}
		var err error
		for i := 0; err == nil && i < len(program); i++ {
			err = s.call(program[i])
		}
		if err := wantDead(err, victim); err != nil {
			return fmt.Errorf("%v, of which the victim has made %d: %w", program, calls, err)
		}
		if err := w.Barrier(); wantDead(err, victim) != nil {
			return fmt.Errorf("Barrier after the death: %w", err)
		}
		return s.goOn(victim)
	})
}

// farState is what a PE of dieAtRandom works with.
type farState struct {
	w    *World
	x    Sym[int64]
	lock Lock
}

func newFarState(w *World) (s *farState, err error) {
	s = &farState{w: w}
	if s.x, err = Calloc[int64](w, 64); err == nil {
		s.lock, err = NewLock(w)
	}
	return s, err
}

// call makes a collective, with some operations before it.
func (s *farState) call(which int) error {
	w, n := s.w, s.w.NPEs()
	next := (w.MyPE() + 1) % n
	if err := errors.Join(P(w.Ctx(), s.x, 1, next), AtomicInc(w.Ctx(), s.x.At(1), next)); err != nil {
		return err
	}
	switch which {
	case 0:
		return w.Barrier()
	case 1:
		sum, err := ReduceValue(w.Team(), 1, Sum)
		if err == nil && sum != n {
			err = fmt.Errorf("ReduceValue: %d, want %d", sum, n)
		}
		return err
	case 2:
		return Reduce(w.Team(), s.x.Slice(16, 24), s.x.Slice(8, 16), Sum)
	case 3:
		team, err := w.Team().SplitStrided(n-1, -1, n, nil)
		if err != nil {
			return err
		}
		return errors.Join(team.Sync(), team.Destroy())
	case 4:
		x, err := Alloc[int64](w, 100)
		if err != nil {
			return err
		}
		return Free(w, x)
	case 5:
		row, column, err := w.Team().Split2D(2, nil, nil)
		if err != nil {
			return err
		}
		return errors.Join(row.Sync(), column.Sync(), row.Destroy(), column.Destroy())
	default:
		return FCollect(w.Team(), s.x.Slice(24, 34), s.x.Slice(8, 10))
	}
}

// goOn works with the living PEs after a death.
func (s *farState) goOn(victim int) error {
	c := s.w.Ctx()
	s.w.session.h.alertLayers()
	for pe := range s.w.NPEs() {
		if pe == victim {
			continue
		}
		if _, err := AtomicFetchInc(c, s.x.At(40), pe); err != nil {
			return err
		}
	}
	g, err := s.lock.Acquire(c)
	if int(s.lock.home) == victim {
		return wantDead(err, victim)
	}
	if err == nil && g.HolderDied && g.PE != victim {
		err = fmt.Errorf("lock after holder %d, want %d", g.PE, victim)
	}
	if err == nil {
		err = s.lock.Release(c)
	}
	return errors.Join(err, c.Quiet())
}
