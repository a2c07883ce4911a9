package mpi

import (
	"errors"

	"github.com/goshmem/goshmem/coll/agree"
)

// # Uniform collectives
//
// A collective may succeed at some ranks and fail at others, when a rank dies in it. Where the hints of a communicator ask for uniform collectives, its ranks
// vote after each one whether all of them have succeeded.
//
//   - The votes have a line of agreements of their own (lineUniform), so they meet neither those of Agree nor those of Shrink.
//   - A rank that has not taken part, as its arguments were bad, does not vote.
//   - Revoke, and a collective that was not the same at all ranks, end the votes.

// isWatched reports whether collectives of a communicator go by watched.
func isWatched(c *Comm) bool {
	return isIntercepted() || c != nil && c.g != nil && c.g.uniform.Load()
}

// watched makes a collective for the interceptor, and votes on its error if the collectives of the communicator are uniform.
func watched(call Call, do func() error) error {
	return intercept(call, func() error { return uniformly(call.Comm, call.Op, do()) })
}

// uniformly returns the error of a collective that has ended with err at this rank: nil if it has succeeded at all ranks that live.
func uniformly(c *Comm, op string, err error) error {
	if c == nil || c.g == nil || !c.g.uniform.Load() || usableIfRevoked(c, op) != nil || c.g.revoked.Load() || isOfThisCall(err) {
		return err
	}
	flags := uint64(0)
	if err == nil {
		flags = 1
	}
	d, voteErr := voteInMessages(c, op, lineUniform, newVote(flags, 0, 0))
	switch {
	case voteErr != nil && err != nil:
		return err
	case voteErr != nil:
		return handled(c.g, c.g.reportDeath(voteErr))
	case d.Outcome == agree.Decided && d.Flags == 1:
		return nil
	case err != nil:
		return err
	}
	var dead []int
	for _, rank := range d.Failed {
		if !isRecognized(c.g, int(rank)) {
			dead = append(dead, int(rank))
		}
	}
	awaitNews(c.g, dead)
	c.g.e.mu.Lock()
	err = &elsewhereError{op}
	if len(dead) > 0 {
		err = goneError(c.g, op, dead)
	}
	c.g.e.unlock()
	return handled(c.g, c.g.reportDeath(err))
}

// isOfThisCall reports whether an error is one of the arguments of a call, at this rank or, where the ranks compare their calls, at another one. Then
// no rank votes.
func isOfThisCall(err error) bool {
	_, bad := errors.AsType[*UsageError](err)
	return bad && !errors.Is(err, ErrCommBroken) || errors.Is(err, ErrMismatch)
}

// elsewhereError reports a uniform collective that has failed at another rank.
type elsewhereError struct{ op string }

// Error names the function.
func (e *elsewhereError) Error() string {
	return "mpi." + e.op + ": the collective has failed at another rank; hint: that rank's error says why"
}

// Unwrap returns ErrCommBroken.
func (e *elsewhereError) Unwrap() error { return ErrCommBroken }
