package shmem

import (
	"context"
	"errors"
	"unsafe"

	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Ctx is a communication context: its Fence orders operations on it, and its Quiet completes them. PE numbers are
// relative to its team; a *PEError has PE numbers of the world.
type Ctx struct {
	h *heap
	// base is the segment of the team's PE 0. stride is the distance in bytes from one member's segment to the next
	// one's, and may be negative. If the members' segments are no arithmetic sequence, npes is 0, and base and stride
	// mean nothing.
	base   unsafe.Pointer
	stride int
	tags   unsafe.Pointer // h.tags
	npes   int
	mark   *uint64         // h.mark
	shared *ctxShared      // what all handles of the context share; nil in a Ctx that no call returned
	ctx    context.Context //nolint:containedctx // With's purpose
}

// newCtx returns a context of a team. The fast half of operations reaches members that are near and whose segments
// are an arithmetic sequence, as those of the world are on one node. For any other team npes stays 0, so that the
// fast test always fails, and checkAndPerform finds the PE in the team's list.
func newCtx(t *Team) *Ctx {
	h, m := t.h, t.h.job.Map
	c := &Ctx{h: h, shared: &ctxShared{team: t}, tags: h.tags, mark: h.mark}
	if first, step, is := nearProgression(h.job.Place, t.group.pes); is {
		c.npes, c.base, c.stride = t.NPEs(), m.Segment(first), step*m.Stride()
	}
	return c
}

// nearProgression reports whether all PEs are near and their indices on the node are an arithmetic sequence. It
// returns the first index and the step.
func nearProgression(place job.Place, pes []layout.PE) (first layout.Local, step int, is bool) {
	first, is = place.Local(pes[0])
	if len(pes) > 1 {
		step = int(pes[1] - pes[0])
	}
	for i, pe := range pes {
		local, near := place.Local(pe)
		if !is || !near || int(local) != int(first)+i*step {
			return 0, 0, false
		}
	}
	return first, step, true
}

// With returns a handle of the same context, whose waits end with an error when ctx ends.
func (c *Ctx) With(ctx context.Context) *Ctx {
	switch {
	case c == nil:
		return nil
	case c.shared == nil:
		return &Ctx{ctx: ctx}
	}
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	d := &Ctx{h: c.h, base: c.base, stride: c.stride, tags: c.tags, npes: c.npes, mark: c.mark, ctx: ctx, shared: c.shared}
	c.shared.addHandle(d)
	return d
}

// The errors of Fence and Quiet are made in advance: the compiler inlines both methods, as they call nothing that it
// cannot inline.
var (
	errFenceEnded = (&Ctx{h: &heap{}}).check("Ctx.Fence", ref{}, 0, 0)
	errFenceGone  = usage("Ctx.Fence", errors.Join(ErrDestroyed, ErrArgument), "context is nil, was destroyed, or was returned by no call; want w.Ctx() or one that NewCtx returned")
	errQuietEnded = (&Ctx{h: &heap{}}).check("Ctx.Quiet", ref{}, 0, 0)
	errQuietGone  = usage("Ctx.Quiet", errors.Join(ErrDestroyed, ErrArgument), "context is nil, was destroyed, or was returned by no call; want w.Ctx() or one that NewCtx returned")
)

// Fence orders the puts, atomic operations and signal updates that this context made before it before those that it
// makes after it, for each target PE: a PE that sees a later one sees the earlier ones. Fence waits for none of them.
// It orders nothing between two targets or two contexts. Nor does it order the values that non-blocking operations
// fetch: Wait or Quiet gives these.
//
//   - Errors: ErrArgument for a Ctx that no call returned, ErrDestroyed, ErrFinalized. On a nil Ctx it does nothing.
//   - Concurrent calls: allowed; it orders what its own goroutine has called before it, and what happens before that.
//   - Source: shmem_fence, shmem_ctx_fence.
func (c *Ctx) Fence() error {
	switch {
	case c == nil:
		return nil
	case c.h == nil:
		return errFenceGone
	case c.h.finalized():
		return errFenceEnded
	}
	*c.mark = 1
	rma.Fence()
	return nil
}

// Quiet returns when all operations of this context are complete: puts, atomic operations and signal updates are
// visible to every PE, and the values that non-blocking operations fetch are here. It does not wait for operations of
// other contexts. It does not notify the targets: a target synchronizes by a wait, a test or a barrier.
//
//   - Errors: as Fence.
//   - Concurrent calls: allowed; it completes what its own goroutine has called before it,
//     and what happens before that.
//   - Source: shmem_quiet, shmem_ctx_quiet.
func (c *Ctx) Quiet() error {
	switch {
	case c == nil:
		return nil
	case c.h == nil:
		return errQuietGone
	case c.h.finalized():
		return errQuietEnded
	}
	rma.Drain(c.mark) // its locked instruction sets the mark too: a separate store would take longer
	return nil
}

// QuietPE is Quiet for operations on these PEs alone: QuietPE(3), QuietPE(pes...). It may complete other operations
// as well. Without PEs it does nothing.
//
//   - Errors: as Fence; ErrPERange; *PEError with ErrPEDied for PEs that are known to be dead, after the operations
//     on the others are complete.
//   - Concurrent calls: as Quiet.
//   - Source: shmem_pe_quiet, shmem_ctx_pe_quiet.
func (c *Ctx) QuietPE(pes ...int) error {
	const op = "Ctx.QuietPE"
	switch {
	case c == nil:
		return nil
	case c.h == nil || c.h.finalized():
		return c.check(op, ref{}, 0, 0)
	case len(pes) == 0:
		return nil
	}
	for _, pe := range pes {
		if err := c.checkPE(op, pe); err != nil {
			return err
		}
	}
	rma.Drain(c.mark) // its locked instruction sets the mark too: a separate store would take longer
	if c.h.job.Failures.Epoch() == 0 {
		return nil
	}
	return c.h.checkAlive(op, c.shared.team.group.worldPEs(pes))
}

// checkPE checks a PE number of a context that is neither nil nor destroyed.
func (c *Ctx) checkPE(op string, pe int) error {
	if n := c.shared.team.NPEs(); pe < 0 || pe >= n {
		return usage(op, ErrPERange, "PE %d of a team of %d, want 0 to %d", pe, n, n-1)
	}
	return nil
}

// passes is the fast test of every operation: the context is good, it has a PE of that number, and the handle with
// this tag names a live object with elements. A context that no call returned has npes 0, so its nil table is not
// read.
//
// The last comparison is tagIsLive, written out. Each inlined call leaves a no-op behind, which costs a tenth of a
// nanosecond here.
func (c *Ctx) passes(tag uint64, pe int) bool {
	return c != nil && uint(pe) < uint(c.npes) && peekTag((*uint64)(unsafe.Add(c.tags, tag&slotMask*8))) == tag
}

// passAndMark is passes, and marks the call if the test passes (heap.mark). Two kinds of operations call passes
// instead:
//
//   - Operations that test more than passes does, such as the length. With passAndMark the compiler would keep the
//     result in a register and test it twice, which shows in the time of short Puts and Gets. Get marks by itself.
//   - Operations with which nobody polls. They set no mark: it would make Put 5 % slower. And the stores of
//     successive calls of P to a polled word could no longer merge while they wait for its cache line.
func (c *Ctx) passAndMark(tag uint64, pe int) bool {
	if !c.passes(tag, pe) {
		return false
	}
	*c.mark = 1
	return true
}
