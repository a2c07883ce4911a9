package mpi

import (
	"context"
	"errors"
	"slices"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Agree returns the same flags at all ranks that live, whoever dies meanwhile: the AND of what the ranks have given. It works on every communicator: also
// on one that has dead ranks, is broken or is revoked.
//
//   - Completion: the flags are those of all ranks that live, and maybe of some that have died since.
//   - Errors: *RankError with ErrDied, at all ranks that live and with the same ranks, when ranks are dead that one of the others has not acknowledged
//     (AckFailed) before its call. The flags are valid all the same. ErrRankFinalized for a rank that has finalized or freed the communicator. The end of
//     c's context: in shared memory, no further Agree of the communicator succeeds; in messages, this rank has voted, and the others agree with its vote.
//     ErrUndecided by two-phase commit (SetInfo): all ranks that live get it, and may call Agree again.
//   - Cost: that of an Allreduce of 8 bytes; twice that when ranks are dead.
//   - Collective: over the ranks that live.
//   - Source: MPIX_Comm_agree.
func (c *Comm) Agree(flags uint64) (uint64, error) {
	const op = "Comm.Agree"
	if err := usableIfRevoked(c, op); err != nil {
		return 0, err
	}
	g := c.g
	if g.t == nil || g.agreesInMessages.Load() {
		flags, err := agreeInMessages(c, op, flags)
		return flags, handled(g, g.reportDeath(err))
	}
	a, err := voteOf(c.ctx, g, flags)
	if err != nil {
		return 0, handled(g, g.failUnrevoked(op, err))
	}
	if len(a.Failed) == 0 {
		return a.Flags, nil
	}
	awaitNews(g, a.Failed)
	acked := uint64(0)
	if hasAcked(g, a.Failed) {
		acked = 1
	}
	second, err := voteOf(c.ctx, g, acked)
	switch {
	case err != nil:
		return 0, handled(g, g.failUnrevoked(op, err))
	case second.Flags == 1 && len(second.Failed) == len(a.Failed):
		return a.Flags, nil
	}
	awaitNews(g, second.Failed)
	g.e.mu.Lock()
	err = goneError(g, op, second.Failed)
	g.e.unlock()
	return a.Flags, handled(g, g.reportDeath(err))
}

// Iagree begins an Agree. The flags that flags points to are this rank's, and the agreed ones once the request is complete.
//
//   - Errors: as Agree, from Wait.
//   - Concurrent calls: allowed; all ranks call Iagree in the same order. Agree, Iagree and Shrink do not meet each other.
//   - Collective: over the ranks that live.
//   - Source: MPIX_Comm_iagree.
func (c *Comm) Iagree(flags *uint64) (Request, error) {
	const op = "Comm.Iagree"
	if err := usableIfRevoked(c, op); err != nil {
		return Request{}, err
	}
	if flags == nil {
		return Request{}, usage(op, ErrArgument, "flags is nil, want the address of this rank's flags")
	}
	g := c.g
	a := g.agreeing.agreement
	call := &agreeCall{vote: newVote(*flags, ackedCount(g), 0)}
	call.next = func(d *agree.Decision) (_ agree.Vote, again bool) {
		var agreed uint64
		var err error
		if agreed, err = a.resultOf(op, d); d.Outcome == agree.Decided {
			*flags = agreed
			if err != nil {
				call.r.rare, call.r.after = true, awaitCauses(g, op, d)
			}
		}
		g.e.complete(call.r, err)
		return call.vote, false
	}
	return a.start(op, lineIagree, call).handle(c.ctx), nil
}

// awaitCauses returns what the waiter of an Iagree with an error does. Other nodes may have told this process of the deaths before its failure page does: then
// the error that the request was completed with has no causes.
func awaitCauses(g *group, op string, d *agree.Decision) func(r *request) {
	var ranks []int
	for _, rank := range d.Failed {
		ranks = append(ranks, int(rank))
	}
	return func(r *request) {
		awaitNews(g, ranks)
		g.e.mu.Lock()
		defer g.e.unlock()
		r.err = goneError(g, op, ranks)
	}
}

// agreeInMessages is Agree by messages. If c's context ends before, the call goes on: this rank has voted.
func agreeInMessages(c *Comm, op string, flags uint64) (uint64, error) {
	g, e := c.g, c.g.e
	d, err := voteInMessages(c, op, lineAgree, newVote(flags, ackedCount(g), 0))
	if err != nil {
		return 0, err
	}
	var failed []int
	for _, rank := range d.Failed {
		failed = append(failed, int(rank))
	}
	awaitNews(g, failed)
	e.mu.Lock()
	defer e.unlock()
	return g.agreeing.agreement.resultOf(op, &d)
}

// voteInMessages is a vote on a line of agreements. If c's context ends before, the vote counts.
func voteInMessages(c *Comm, op string, line int, vote agree.Vote) (d agree.Decision, err error) {
	g, e := c.g, c.g.e
	call := &agreeCall{vote: vote}
	r := g.agreeing.agreement.start(op, line, call)
	if err := r.await(c.ctx); err != nil {
		e.mu.Lock()
		defer e.unlock()
		if !r.isDone() {
			r.rare, r.detached = true, true
			return d, err
		}
	}
	if _, err := r.takeOutcome(); err != nil {
		return d, err
	}
	return call.decision, nil
}

// voteOf is an agreement of the communicator's team.
func voteOf(ctx context.Context, g *group, flags uint64) (coll.Agreement, error) {
	if g.upper != nil {
		return g.upper.Agree(ctx, flags)
	}
	return coll.Agree(ctx, g.t, flags)
}

// awaitNews returns when this process knows of the deaths of ranks. Another node may have told it of them before its failure page does. For ranks that have
// left, there is nothing to wait for.
func awaitNews(g *group, ranks []int) {
	if g.e.foreign.jobs.Load() != nil && len(ranks) > 0 {
		awaitForeignNews(g, ranks)
	}
	if g.e.far == nil {
		return
	}
	g.e.mu.Lock()
	ranks = slices.DeleteFunc(ownRanks(g, ranks), func(rank int) bool { return g.e.job.IsDead(g.pe(rank)) || hasLeftAgreement(g, rank) })
	g.e.unlock()
	if len(ranks) == 0 {
		return
	}
	pes := make([]layout.PE, len(ranks))
	for i, rank := range ranks {
		pes[i] = g.pe(rank)
	}
	g.e.job.AwaitNews(pes)
}

// ackedCount returns how many deaths in the communicator this rank has acknowledged.
func ackedCount(g *group) (n int) {
	acked := g.ackedEpoch.Load()
	if acked == 0 && g.validated.Load() == nil {
		return 0
	}
	all := g.e.failuresSince(0)
	for i := range all {
		if rank := g.rank(layout.PE(all[i].PE)); rank >= 0 && (all[i].Epoch <= acked || isRecognized(g, rank)) {
			n++
		}
	}
	return n
}

// hasAcked reports whether this rank has acknowledged the deaths of all these ranks.
func hasAcked(g *group, ranks []int) bool {
	acked := g.ackedEpoch.Load()
	for _, rank := range ranks {
		if f, known := g.e.failureOf(g.pe(rank)); !known || f.Epoch > acked && !isRecognized(g, rank) {
			return false
		}
	}
	return true
}

// usableIfRevoked is usable for calls that a revocation does not end.
func usableIfRevoked(c *Comm, op string) error {
	if err := usableInMessages(c, op); err != nil && !errors.Is(err, ErrRevoked) {
		return err
	}
	if c.g.remote {
		return remoteError(op)
	}
	return nil
}
