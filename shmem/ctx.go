package shmem

import (
	"context"
	"errors"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// Ctx is a communication context: its Fence orders operations on it, and its Quiet completes them. PE numbers are
// relative to its team; a *PEError has PE numbers of the world.
type Ctx struct {
	// The window of the team (numbers.go): the fast half of operations reaches PE numbers first to first+near-1. base
	// is the segment of PE number first. stride is the distance in bytes from one member's segment to the next one's,
	// and may be negative. If near is 0, the other three mean nothing.
	base   unsafe.Pointer
	stride int
	first  int
	near   int
	tags   unsafe.Pointer // h.tags
	mark   *uint64        // h.mark
	// direct is 1 if one locked instruction completes all operations of the context: none is under way to another node, and
	// the context was not destroyed. ctxShared.setIdle stores it. The last Finalize stores 0. Both cannot find the handles
	// that With makes of the default context, which are many, so these have 0 from the start, and their Quiet takes the slow
	// way.
	direct uint32
	h      *heap // nil in a Ctx that no call returned, and of a context that was destroyed

	origin origin          // of results that are there; it refers to this Ctx
	shared *ctxShared      // what all handles of the context share; nil in a Ctx that no call returned
	ctx    context.Context //nolint:containedctx // With's purpose
}

// A Ctx has 128 bytes, so that what every operation reads, the fields up to h, is one cache line.
const _ = -(unsafe.Sizeof(Ctx{}) ^ 128)

// newCtx returns a context of a team. For members outside of the team's window the fast test always fails, and
// checkAndPerform finds the PE by the team's numbers.
func newCtx(t *Team, isDefault bool) *Ctx {
	h, m := t.h, t.h.job.Map
	c := &Ctx{h: h, shared: &ctxShared{team: t, isDefault: isDefault}, tags: h.tags, mark: h.mark, direct: 1}
	c.origin.ctx = c
	if c.shared.touched.Changed = c.shared.setIdle; isDefault {
		c.shared.first = c
	}
	if w := t.group.windowOf(h.job.Place); w.near > 0 {
		c.first, c.near, c.base, c.stride = w.first, w.near, m.Segment(w.base), w.step*m.Stride()
	}
	c.shared.addHandle(c)
	h.contexts.add(c.shared)
	if h.finalized() { // Finalize may have missed the context
		c.shared.endDirect()
	}
	return c
}

// With returns a handle of the same context, whose waits end with an error when ctx ends.
//
// Any operation on a PE of another node may wait, for room or for an answer. If ctx ends meanwhile, it returns an error that
// wraps that of ctx. Then the operation takes place later, in part so far, or not at all, and never twice. It does not use
// the caller's memory any more.
func (c *Ctx) With(ctx context.Context) *Ctx {
	switch {
	case c == nil:
		return nil
	case c.shared == nil:
		return &Ctx{ctx: ctx}
	}
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	d := &Ctx{
		h: c.h, base: c.base, stride: c.stride, first: c.first, near: c.near, tags: c.tags, mark: c.mark,
		ctx: ctx, shared: c.shared,
	}
	d.origin.ctx = d
	c.shared.addHandle(d)
	if c.h != nil && !c.shared.isDefault && !c.shared.ended && c.shared.touched.IsEmpty() {
		d.direct = 1
	}
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
//   - Errors: as Fence. The end of the context of With. A *PEError if a node is lost with operations of this context under way,
//     by one call of Quiet; the next one returns nil. Operations on a dead PE of a node that lives count as complete.
//   - Concurrent calls: allowed; it completes what its own goroutine has called before it,
//     and what happens before that.
//   - Source: shmem_quiet, shmem_ctx_quiet.
//
//go:norace
func (c *Ctx) Quiet() error {
	if c == nil || c.direct == 0 { // a plain load, as in peekTag: with an atomic one the compiler would not inline Quiet
		return quietSlowly(c)
	}
	rma.Drain(c.mark) // its locked instruction sets the mark too: a separate store would take longer
	return nil
}

// quietSlowly is Quiet for handles that are not direct.
//
//go:noinline
func quietSlowly(c *Ctx) error {
	switch {
	case c == nil:
		return nil
	case c.h == nil:
		return errQuietGone
	case c.h.finalized():
		return errQuietEnded
	}
	err := c.h.quietFar("Ctx.Quiet", c.ctx, c.shared)
	rma.Drain(c.mark)
	return err
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
	world := c.shared.team.group.worldPEs(pes)
	if err := c.quietFarPEs(op, world); err != nil {
		return err
	}
	rma.Drain(c.mark) // its locked instruction sets the mark too: a separate store would take longer
	if c.h.job.Failures.Epoch() == 0 {
		return nil
	}
	return c.h.checkAlive(op, world)
}

// checkPE checks a PE number of a context that is neither nil nor destroyed.
func (c *Ctx) checkPE(op string, pe int) error {
	if n := c.shared.team.NPEs(); pe < 0 || pe >= n {
		return usage(op, ErrPERange, "PE %d of a team of %d, want 0 to %d", pe, n, n-1)
	}
	return nil
}

// passes is the fast test of every operation: the context is good, its window has a PE of that number, and the handle
// with this tag names a live object with elements. A context that no call returned has an empty window, so its nil
// table is not read.
//
// The last comparison is tagIsLive, written out. Each inlined call leaves a no-op behind, which costs a tenth of a
// nanosecond here.
func (c *Ctx) passes(tag uint64, pe int) bool {
	return c != nil && uint(pe-c.first) < uint(c.near) && peekTag((*uint64)(unsafe.Add(c.tags, tag&slotMask*8))) == tag
}

// passAndMark is passes, and marks the call if the test passes (heap.mark). Three kinds of operations call passes
// instead:
//
//   - Operations that test nothing else. They mark by targetAndMark, behind the computation of the target.
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
