package shmem

import (
	"context"
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/coll"
)

// Team is an ordered set of PEs, on which collectives work.
type Team struct {
	h   *heap
	t   *coll.Team
	me  int
	ctx context.Context //nolint:containedctx // With's purpose
}

// MyPE returns this PE's number in the team, -1 for a nil Team.
//
// Source: shmem_team_my_pe.
func (t *Team) MyPE() int {
	if t == nil || t.t == nil {
		return -1
	}
	return t.me
}

// NPEs returns the number of PEs in the team, 0 for a nil Team.
//
// Source: shmem_team_n_pes.
func (t *Team) NPEs() int {
	if t == nil || t.t == nil {
		return 0
	}
	return t.t.Size()
}

// With returns the same team, whose collectives end with an error when ctx
// ends; the team is broken then.
func (t *Team) With(ctx context.Context) *Team {
	if t == nil {
		return nil
	}
	return &Team{h: t.h, t: t.t, me: t.me, ctx: ctx}
}

// Sync returns when all PEs of the team have called it. It does not complete
// any operation: call Quiet before it for that.
//
// Errors: as Broadcast.
// Collective: over the team.
// Source: shmem_team_sync.
func (t *Team) Sync() error { return t.sync("Team.Sync") }

func (t *Team) sync(op string) error {
	if err := t.usable(op); err != nil {
		return err
	}
	return t.fail(op, t.t.Sync(t.ctx))
}

// usable checks that t came from a World and is not finalized.
func (t *Team) usable(op string) error {
	switch {
	case t == nil || t.t == nil:
		return usage(op, ErrArgument, "team is nil, want w.Team()")
	case t.h.slots.Load() == 0:
		return usage(op, ErrFinalized, "called after Finalize")
	}
	return nil
}

// fail gives an error of package coll its public form.
func (t *Team) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if dead, ok := errors.AsType[*coll.DeadError](err); ok {
		t.h.notice()
		return t.h.died(op, dead.Members) // of the team of all, so far the only one
	}
	if gone, ok := errors.AsType[*coll.LeftError](err); ok {
		return &PEError{PEs: []int{gone.Member}, Op: op, Err: ErrPEFinalized}
	}
	switch {
	case errors.Is(err, coll.ErrBroken):
		return fmt.Errorf("shmem.%s: %w", op, ErrTeamBroken)
	case errors.Is(err, coll.ErrConcurrent):
		return usage(op, ErrArgument, "%v: collectives on one team are called by one goroutine at a time", err)
	}
	return fmt.Errorf("shmem.%s: %w", op, err)
}
