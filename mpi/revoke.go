package mpi

import (
	"context"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/internal/bridge"
)

// # Revocation
//
// A communicator is revoked when one rank says so: it tells all others, and each rank that learns of it first tells all others, too. So all
// living ranks learn of it if one of them does, whoever dies meanwhile.

// Revoke ends the communicator for all ranks: calls on it that are under way, and all later ones, fail with ErrRevoked, on every rank as soon as that makes
// progress. Free, Failed, AckFailed, Agree and Shrink go on working. A rank that waits for a rank that has left after an error is woken so.
//
//   - Errors: *UsageError for a communicator that is nil, freed or finalized. A communicator that is revoked already stays so.
//   - Concurrent calls: allowed.
//   - Source: MPIX_Comm_revoke.
func (c *Comm) Revoke() error {
	const op = "Comm.Revoke"
	if err := usableInMessages(c, op); err != nil {
		if c != nil && c.g != nil && c.g.revoked.Load() && !c.g.freed.Load() {
			return nil
		}
		return err
	}
	e := c.g.e
	e.job.Waiter.Beat()
	e.mu.Lock()
	defer e.unlock()
	c.g.revoke()
	return nil
}

// Revoked reports whether a rank has revoked the communicator, as far as this one knows. It makes progress.
//
//   - Concurrent calls: allowed.
//   - Source: MPIX_Comm_is_revoked.
func (c *Comm) Revoked() bool {
	if c == nil || c.g == nil {
		return false
	}
	if !c.g.revoked.Load() && !c.g.ended.Load() {
		c.g.e.job.Waiter.Beat()
		c.g.e.serve()
	}
	return c.g.revoked.Load()
}

// revoke revokes the communicator at this rank, and tells the others. The caller has the engine's lock.
func (g *group) revoke() {
	if g.revoked.Load() || g.ended.Load() {
		return
	}
	g.tell(noticeRevoke) // before a collective here ends: who learns of that has this, too
	g.revoked.Store(true)
	g.e.endRequests(g, g.revokedError)
	g.agreeing.agreement.failLine(lineUniform, g.revokedError)
	g.agreeing.agreement.failLine(lineBlock, g.revokedError)
	for _, b := range slices.Clone(g.blocks.ending) { // their requests may be of other communicators, and of ranks that wait for this one
		if b.mode != bridge.BlockLocal && !b.voting {
			b.giveUp(ErrRevoked, bridge.Broken)
		}
	}
	endInner(g)
	for _, part := range [...]*group{g, g.partitioned} {
		dropQueuedSends(part)
		g.e.removeGroup(part) // its messages are dropped from now on
	}
	g.e.ended = append(g.e.ended, g)
}

// dropQueuedSends drops the short messages of a communicator that wait for room, and ends their sends.
func dropQueuedSends(g *group) {
	e := g.e
	for _, l := range e.blocked {
		kept := l.queue[:l.sent]
		for _, p := range l.queue[l.sent:] {
			if p.kind == kindEager && p.r != nil && p.r.g == g {
				e.complete(p.r, g.revokedError(p.r.op))
			} else {
				kept = append(kept, p)
			}
		}
		clear(l.queue[len(kept):])
		l.queue = kept
	}
}

// noteRevoked notes that a rank has revoked a communicator.
func noteRevoked(e *engine, comm uint32) {
	switch g := e.groups[comm]; {
	case g != nil:
		g.revoke()
	case e.isComing(comm):
		e.revoked = append(e.revoked, comm)
	}
}

// noteRevokedEarly revokes a communicator that was made just now, if another rank has revoked it before.
func noteRevokedEarly(e *engine, g *group) {
	if slices.Contains(e.revoked, g.number) {
		g.revoke()
	}
	e.revoked = slices.DeleteFunc(e.revoked, func(comm uint32) bool { return !e.isComing(comm) })
}

// revokedError returns the error of a call on a communicator that is revoked.
func (g *group) revokedError(op string) error {
	return fmt.Errorf("mpi.%s: %w; hint: Comm.Shrink makes a communicator of the ranks that live", op, ErrRevoked)
}

// revocable is the context of collectives in shared memory: it also ends when the communicator is revoked. A wait looks at it before it sleeps.
type revocable struct {
	context.Context //nolint:containedctx // of the collective

	g *group
}

// Err returns why the collective ends, or nil.
func (r *revocable) Err() error {
	if r.g.revoked.Load() {
		return ErrRevoked
	}
	return r.Context.Err()
}

// revocableUnlessPair is revocable for a collective that two ranks may execute by direct copies: neither may leave it while the other one writes to
// its buffer. So a revocation does not end those of two ranks.
func revocableUnlessPair(ctx context.Context, g *group) context.Context {
	if g.n == 2 {
		return ctx
	}
	return revocableOf(ctx, g)
}

// revocableOf returns the context for a collective in shared memory.
func revocableOf(ctx context.Context, g *group) context.Context {
	if ctx == nil {
		return g.always
	}
	return &revocable{ctx, g}
}
