package shmem

import (
	"context"
	"errors"
	"unsafe"

	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Ctx is a communication context: operations on it are ordered by its Fence and
// completed by its Quiet. PE numbers are relative to its team; those in a *PEError are
// of the world.
type Ctx struct {
	h *heap
	// base is the segment of the team's PE 0, and stride the distance in bytes from one member's
	// segment to the next one's, which may be negative. For a team whose members are no arithmetic
	// sequence npes is 0, and both mean nothing.
	base   unsafe.Pointer
	stride int
	tags   unsafe.Pointer // h.tags
	npes   int
	mark   *uint64         // h.mark
	of     *common         // what all handles of the context share; nil: nobody made it
	ctx    context.Context //nolint:containedctx // With's purpose
}

// newCtx returns a context of a team. The fast half of operations reaches members that are near
// and an arithmetic sequence, as those of the world on one node are. For others its test always fails, as if the
// context had no PEs, and carryOut finds the PE in the team's list.
func newCtx(t *Team) *Ctx {
	h, m := t.h, t.h.job.Map
	c := &Ctx{h: h, of: &common{team: t}, tags: h.tags, mark: h.mark}
	if first, step, is := nearProgression(h.job.Place, t.g.pes); is {
		c.npes, c.base, c.stride = t.NPEs(), m.Segment(first), step*m.Stride()
	}
	return c
}

// nearProgression reports whether PEs are near and their indices on the node an arithmetic sequence. It
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

// With returns the same context, whose waits end with an error when ctx ends.
func (c *Ctx) With(ctx context.Context) *Ctx {
	switch {
	case c == nil:
		return nil
	case c.of == nil:
		return &Ctx{ctx: ctx}
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	d := &Ctx{h: c.h, base: c.base, stride: c.stride, tags: c.tags, npes: c.npes, mark: c.mark, ctx: ctx, of: c.of}
	c.of.keep(d)
	return d
}

// The errors of Fence and Quiet are made beforehand: without a call in them,
// the compiler puts both routines in line.
var (
	errFenceEnded = (&Ctx{h: &heap{}}).check("Ctx.Fence", ref{}, 0, 0)
	errFenceGone  = usage("Ctx.Fence", errors.Join(ErrDestroyed, ErrArgument), "context is nil, or nobody made it, or it was destroyed; want w.Ctx() or one that NewCtx returned")
	errQuietEnded = (&Ctx{h: &heap{}}).check("Ctx.Quiet", ref{}, 0, 0)
	errQuietGone  = usage("Ctx.Quiet", errors.Join(ErrDestroyed, ErrArgument), "context is nil, or nobody made it, or it was destroyed; want w.Ctx() or one that NewCtx returned")
)

// Fence orders puts, atomic operations and signal updates of this context before it
// before those after it, for each target PE: who sees a later one sees the earlier ones.
// It does not wait for any, orders nothing between two targets or two contexts, and says
// nothing of values that non-blocking operations fetch, which are to be had by Wait or
// after Quiet.
//
//   - Errors: ErrArgument for a context that nobody made, ErrDestroyed, ErrFinalized. On a nil
//     Ctx it does nothing.
//   - Concurrent calls: allowed; it orders what its own goroutine has called before it, and
//     what happens before that.
//   - Source: shmem_fence, shmem_ctx_fence.
func (c *Ctx) Fence() error {
	switch {
	case c == nil:
		return nil
	case c.h == nil:
		return errFenceGone
	case c.h.slots.Load() == 0:
		return errFenceEnded
	}
	*c.mark = 1
	rma.Fence()
	return nil
}

// Quiet returns when all operations of this context are complete and visible
// to every PE: puts, atomic operations and signal updates at their targets, and
// what non-blocking operations fetch here. Operations of other contexts are not
// waited for. Nor does it tell the targets: they synchronize by a wait, a test or a
// barrier.
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
	case c.h.slots.Load() == 0:
		return errQuietEnded
	}
	rma.Drain(c.mark) // a store to it beside another locked instruction would take longer
	return nil
}

// QuietPE is Quiet for operations on these PEs: QuietPE(3), QuietPE(pes...). It may
// complete other operations as well. Without PEs it does nothing.
//
//   - Errors: as Fence; ErrPERange; *PEError with ErrPEDied for PEs that are known to be
//     dead, when the operations on the others are complete.
//   - Concurrent calls: as Quiet.
//   - Source: shmem_pe_quiet, shmem_ctx_pe_quiet.
func (c *Ctx) QuietPE(pes ...int) error {
	const op = "Ctx.QuietPE"
	switch {
	case c == nil:
		return nil
	case c.h == nil || c.h.slots.Load() == 0:
		return c.check(op, ref{}, 0, 0)
	case len(pes) == 0:
		return nil
	}
	for _, pe := range pes {
		if err := c.checkPE(op, pe); err != nil {
			return err
		}
	}
	rma.Drain(c.mark) // a store to it beside another locked instruction would take longer
	if c.h.job.Failures.Epoch() == 0 {
		return nil
	}
	return c.h.buried(op, c.of.team.g.world(pes))
}

// checkPE checks a PE number, of a context that was made.
func (c *Ctx) checkPE(op string, pe int) error {
	if n := c.of.team.NPEs(); pe < 0 || pe >= n {
		return usage(op, ErrPERange, "PE %d of a team of %d, want 0 to %d", pe, n, n-1)
	}
	return nil
}

// passes is the test that every operation makes of its context, PE and handle, by the
// handle's tag: true only for a handle with elements. A context that nobody made
// has no PEs, and so its table is not asked for. The last comparison is that of live, written out:
// each call that the compiler puts in line leaves a no-op there, which costs a tenth of a nanosecond.
func (c *Ctx) passes(tag uint64, pe int) bool {
	return c != nil && uint(pe) < uint(c.npes) && peek((*uint64)(unsafe.Add(c.tags, tag&slotMask*8))) == tag
}

// ok is passes that marks the call (heap.mark). Where the caller tests more than that, the
// compiler keeps the result in a register and tests it once more, which shows in the time of
// short Puts and Gets: they call passes. Get marks by itself. Calls that nobody polls with have no
// mark: Put would take 5 % longer, and the stores of a P to a word that another PE polls could
// not be merged any more while they wait for its line; non-blocking operations that fetch leave the
// mark to the Quiet or Wait that completes them.
func (c *Ctx) ok(tag uint64, pe int) bool {
	if !c.passes(tag, pe) {
		return false
	}
	*c.mark = 1
	return true
}
