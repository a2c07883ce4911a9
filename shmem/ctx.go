package shmem

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// Ctx is a communication context: operations on it are ordered by its Fence and
// completed by its Quiet. PE numbers are relative to its team.
type Ctx struct {
	h    *heap
	path rma.Path
	tags unsafe.Pointer // h.tags
	npes int
	ctx  context.Context //nolint:containedctx // With's purpose
	twin *Ctx            // the same with h.truth as tags, for operations that were checked

	_     [64]byte // the fields above are read by every operation
	drain uint32   // what Quiet's locked instruction works on
	_     [60]byte
}

func newCtx(h *heap) *Ctx {
	m := h.job.Map
	path := rma.Path{Base: m.Segment(0), Stride: m.Stride()}
	twin := &Ctx{h: h, tags: h.truth, npes: h.npes, path: path}
	twin.twin = twin
	return &Ctx{h: h, tags: h.tags, npes: h.npes, path: path, twin: twin}
}

// With returns the same context, whose waits end with an error when ctx ends.
func (c *Ctx) With(ctx context.Context) *Ctx {
	if c == nil {
		return nil
	}
	return &Ctx{h: c.h, path: c.path, tags: c.tags, npes: c.npes, ctx: ctx, twin: c.twin}
}

// The errors of Fence and Quiet are made beforehand: without a call in them,
// the compiler puts both routines in line.
var (
	errFenceNil   = (*Ctx)(nil).check("Ctx.Fence", ref{}, 0, 0)
	errFenceEnded = (&Ctx{h: &heap{}}).check("Ctx.Fence", ref{}, 0, 0)
	errQuietNil   = (*Ctx)(nil).check("Ctx.Quiet", ref{}, 0, 0)
	errQuietEnded = (&Ctx{h: &heap{}}).check("Ctx.Quiet", ref{}, 0, 0)
)

// Fence orders puts, atomic operations and signal updates of this context before it
// before those after it, for each target PE: who sees a later one sees the earlier ones.
// It does not wait for any, orders nothing between two targets or two contexts, and says
// nothing of values that non-blocking operations fetch, which are to be had by Wait or
// after Quiet.
//
// Errors: ErrArgument for a context that nobody made, ErrFinalized.
// Concurrent calls: allowed; it orders what its own goroutine has called before it, and
// what happens before that.
// Source: shmem_fence, shmem_ctx_fence.
func (c *Ctx) Fence() error {
	switch {
	case c == nil || c.h == nil:
		return errFenceNil
	case c.h.slots.Load() == 0:
		return errFenceEnded
	}
	rma.Fence()
	return nil
}

// Quiet returns when all operations of this context are complete and visible
// to every PE: puts, atomic operations and signal updates at their targets, and
// what non-blocking operations fetch here. Operations of other contexts are not
// waited for. Nor does it tell the targets: they synchronize by a wait, a test or a
// barrier.
//
// Errors: as Fence.
// Concurrent calls: allowed; it completes what its own goroutine has called before it,
// and what happens before that.
// Source: shmem_quiet, shmem_ctx_quiet.
func (c *Ctx) Quiet() error {
	switch {
	case c == nil || c.h == nil:
		return errQuietNil
	case c.h.slots.Load() == 0:
		return errQuietEnded
	}
	rma.Drain(&c.drain)
	return nil
}

// QuietPE is Quiet for operations on these PEs: QuietPE(3), QuietPE(pes...). It may
// complete other operations as well. Without PEs it does nothing.
//
// Errors: as Fence; ErrPERange; *PEError with ErrPEDied for PEs that are known to be
// dead, when the operations on the others are complete.
// Concurrent calls: as Quiet.
// Source: shmem_pe_quiet, shmem_ctx_pe_quiet.
func (c *Ctx) QuietPE(pes ...int) error {
	const op = "Ctx.QuietPE"
	switch {
	case c == nil || c.h == nil || c.h.slots.Load() == 0:
		return c.check(op, ref{}, 0, 0)
	case len(pes) == 0:
		return nil
	}
	for _, pe := range pes {
		if pe < 0 || pe >= c.npes {
			return usage(op, ErrPERange, "PE %d of a team of %d, want 0 to %d", pe, c.npes, c.npes-1)
		}
	}
	rma.Drain(&c.drain)
	return c.h.buried(op, pes)
}

// ok is the test that every operation makes of its context, PE and handle, by the
// handle's tag: true only for a handle with elements. A context that nobody made
// has no PEs, and so its table is not asked for.
func (c *Ctx) ok(tag uint64, pe int) bool {
	return c != nil && uint(pe) < uint(c.npes) && live(c.tags, tag)
}
