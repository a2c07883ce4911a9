package coll

import (
	"context"
	"errors"
	"math"
	"sync/atomic"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// steps takes this member through the steps of its collectives: begin, enter, wait for the
// others, end or give up.
//
//   - Owns: which collective is under way, and whether the team is broken.
//   - Writes: the sequence number in this member's own layout.Team, which is the last step of
//     the latest collective that this member has begun. It grows before the steps are
//     entered. Also what this member announces there of a large collective (call.go).
//   - Reads: the same words of the other members.
type steps struct {
	arrivals
	state           *layout.Team // of this member
	reached         uint64       // all members that live are known to have entered this step
	busy            uint64       // 1 while a collective is under way
	firstStep       uint64       // the first step of the latest collective
	onlyContributor int          // the only member with data in the latest collective; -1: all that entered it
	broken          atomic.Bool  // no collective can be begun any more
	released        atomic.Bool  // this PE has released the team, which is broken as well
}

// beginCollective claims the team for one collective of n steps and returns the first one.
func (s *steps) beginCollective(n uint64) (uint64, error) {
	if !atomic.CompareAndSwapUint64(&s.busy, 0, 1) {
		return 0, ErrConcurrent
	}
	if s.broken.Load() { // after the claim: Dissolve may have given the id away before
		err := s.refusal()
		rma.StoreRelease(&s.busy, 0)
		return 0, err
	}
	s.waiter.Beat()
	if s.failures.Epoch() > s.deadEpoch || s.dead != nil {
		s.noteDeaths()
		if err := s.failOnDeath(); err != nil {
			rma.StoreRelease(&s.busy, 0)
			return 0, err
		}
	}
	seq := s.state.Seq + 1
	s.state.Seq += n
	s.firstStep, s.onlyContributor = seq, -1
	return seq, nil
}

// refusal returns why a broken or released team refuses a collective.
func (s *steps) refusal() error {
	if s.released.Load() {
		return ErrReleased
	}
	if err := s.failOnDeath(); err != nil {
		return err
	}
	return ErrBroken
}

// endCollective ends the claim of beginCollective. It breaks the team if a step failed, or
// if an operator panicked: then this member has steps that it never entered. The death of
// a broadcast's root does not break a tolerant team.
func (s *steps) endCollective(err *error) {
	if *err != nil && !s.survives(*err) || atomic.LoadUint64(s.word(s.me)) != s.state.Seq {
		s.breakTeam()
	}
	rma.StoreRelease(&s.busy, 0)
}

// survives says whether the team goes on after an error: all survivors get it alike.
func (s *steps) survives(err error) bool {
	_, dead := errors.AsType[*DeadError](err)
	return dead && s.tolerant
}

// breakTeam ends all use of the team, here and on the members that wait for this one.
func (s *steps) breakTeam() {
	s.broken.Store(true)
	s.giveUp(gaveUp)
}

// markReleased makes all calls on the team fail, as this PE has released it.
func (s *steps) markReleased() {
	s.released.Store(true)
	s.broken.Store(true)
}

// breakOnMismatch breaks the team because member i has called something else in a step that
// this member is done with. How many more steps the other call takes is not known, so
// waiting for them would not end.
func (s *steps) breakOnMismatch(i int) error {
	s.breakTeam()
	return &OtherError{Member: i}
}

// failOnDeath breaks a strict team that has a dead member, and returns a *DeadError.
func (s *steps) failOnDeath() error {
	if s.tolerant {
		return nil
	}
	var dead []int
	for i := range s.members {
		if s.knownDead(i) {
			dead = append(dead, i)
		}
	}
	if dead == nil {
		return nil
	}
	s.breakTeam()
	return &DeadError{Members: dead}
}

// meet enters step seq and returns when all members have.
func (s *steps) meet(ctx context.Context, seq uint64) error {
	s.enterStep(seq, false)
	return s.awaitAll(ctx, seq)
}

// meetLast is meet for the last step of a collective whose members read each other's
// sources.
//
// A member whose context ends in that step has entered it, so the others take the step for
// complete. Its caller may then change a source that they still read. The member leaves the
// mark withdrew, which fails the collective on every member that could have got the
// changed bytes:
//
//   - Each member reads sources before it enters the step.
//
//   - It looks at the marks when all members have entered the step.
//
//   - So it also finds the mark if it has the bytes from a third member that read them
//     after the mark was set.
//
//   - Cost: a look at each arrival word, which this member has just seen.
func (s *steps) meetLast(ctx context.Context, seq uint64) error {
	s.enterStep(seq, false)
	return s.endLastStep(seq, s.awaitAll(ctx, seq))
}

// endLastStep ends the last step of a collective, whose wait ended with err: see meetLast.
func (s *steps) endLastStep(seq uint64, err error) error {
	if err == nil {
		return s.checkWithdrawn(seq)
	}
	if _, ended := errors.AsType[*LateError](err); ended {
		s.broken.Store(true)
		s.giveUp(withdrew | gaveUp)
	}
	return err
}

// checkWithdrawn returns an error if a member has withdrawn in step seq, which all members
// have entered.
func (s *steps) checkWithdrawn(seq uint64) error {
	for i := range s.members {
		if v := atomic.LoadUint64(s.word(i)); v&withdrew != 0 && v&^marks == seq {
			_, err := s.errorOfMark(i, v)
			return err
		}
	}
	return nil
}

// checkRootStayed returns an error if a broadcast's root has given up in its last step, seq:
// its source may have changed before this member, which has entered that step, read it.
func (s *steps) checkRootStayed(root int, seq uint64) error {
	if v := atomic.LoadUint64(s.word(root)); v&gaveUp != 0 && v&^marks <= seq {
		_, err := s.errorOfMark(root, v)
		return err
	}
	return nil
}

// awaitAll returns when all members have entered step seq. A tolerant team does not wait for
// members that died short of it.
func (s *steps) awaitAll(ctx context.Context, seq uint64) error {
	if s.reached >= seq {
		return nil
	}
	reached := uint64(math.MaxUint64)
	for i := range s.members {
		v, err := s.awaitMember(ctx, i, seq)
		if err != nil {
			return err
		}
		if v != 0 {
			reached = min(reached, v)
		}
	}
	s.reached = reached
	return nil
}

// awaitMember waits until member i has entered step seq. It returns the latest step that the
// member is known to have entered, or 0 if the member died short of step seq (tolerant
// teams only).
func (s *steps) awaitMember(ctx context.Context, i int, seq uint64) (uint64, error) {
	v := atomic.LoadUint64(s.word(i))
	if v < seq {
		if s.tolerant {
			return s.awaitWordOrDeath(ctx, i, s.word(i), seq)
		}
		var err error
		if v, err = s.awaitWord(ctx, i, seq); err != nil {
			return 0, err
		}
	}
	if v&^marks < seq {
		return s.errorOfMark(i, v)
	}
	return v &^ marks, nil
}

// awaitRoot waits until a broadcast's root has entered step seq. If the root died short of
// it, all survivors get the same *DeadError.
func (s *steps) awaitRoot(ctx context.Context, root int, seq uint64) (alive bool, err error) {
	v, err := s.awaitMember(ctx, root, seq)
	if err == nil && v == 0 {
		err = &DeadError{Members: []int{root}}
	}
	return err == nil, err
}

// awaitWord waits until member i's word is at step seq or marked, and returns the word. Any
// death ends the wait if the dead member has not entered the step: then not all can. It
// is for strict teams.
func (s *steps) awaitWord(ctx context.Context, i int, seq uint64) (uint64, error) {
	for seen := s.deadEpoch; ; {
		v, err := s.waitForWord(ctx, i, s.word(i), seq, seen)
		if err == nil {
			return v, nil
		}
		if !errors.Is(err, wait.ErrFailure) {
			return v, lateError(i, err)
		}
		seen = s.failures.Epoch() // before the looks at the members
		if s.deadShortOf(seq) {
			return 0, s.failOnDeath()
		}
	}
}

// errorOfMark returns the error of a wait for member i that the mark in its word has ended. A
// strict team with a dead member names the dead: the mark was left for that.
func (s *steps) errorOfMark(i int, word uint64) (uint64, error) {
	if err := s.failOnDeath(); err != nil {
		return 0, err
	}
	if word&left != 0 {
		return 0, &LeftError{Member: i}
	}
	return 0, ErrBroken
}
