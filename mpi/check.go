package mpi

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// With GOSHMEM_CHECK=collectives, the ranks of a communicator compare their calls before each collective, as
// the PEs of a team of package shmem do: see coll.Team.Compare.

// compare returns an error if the other ranks make another call. The text of a call has its arguments.
func (c *Comm) compare(op, format string, args ...any) error {
	return compareCall(c, op, coll.Call{Text: fmt.Sprintf(format, args...)})
}

// compareCall is compare for a coll.Call.
func compareCall(c *Comm, op string, call coll.Call) error {
	if collectivesInMessages(c.g) { // ranks that wait for long ask the others (ask.go)
		return nil
	}
	all, err := c.g.t.Compare(revocableOf(c.ctx, c.g), call)
	if err != nil || all == nil {
		return c.g.fail(op, err)
	}
	cause := ErrMismatch
	if slices.ContainsFunc(all, func(c coll.Callers) bool { return c.GaveUp }) {
		cause = errors.Join(ErrMismatch, ErrCommBroken)
	}
	who := coll.NameCallers(all, "rank", func(i int) int { return i })
	if renumbers(c.g) {
		return usage(op, cause, "%s (ranks of the communicator, not of the job): want the same call on all of them", who)
	}
	return usage(op, cause, "%s: want the same call on all ranks", who)
}

// renumbers reports whether ranks of the communicator have other numbers than in the job.
func renumbers(g *group) bool {
	for rank, pe := range g.pes {
		if pe != layout.PE(rank) {
			return true
		}
	}
	return false
}

// refuse returns err, the error of a call with bad arguments at this rank. Where ranks compare their calls,
// the others get an error with the text of err, and do not wait for this rank.
func refuse(c *Comm, op string, err error) error {
	if c.usable(op) != nil || !c.g.checks {
		return err
	}
	why := err.Error()
	if bad, ok := errors.AsType[*UsageError](err); ok {
		why = bad.Msg
	}
	_ = compareCall(c, op, coll.Call{Text: fmt.Sprintf("%s with bad arguments (%s)", op, why), Refused: true}) // err matters more than what the others call
	return err
}
