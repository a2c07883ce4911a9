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

// Fence orders the operations of this context before it before those after it,
// for each target PE. It does not wait for any.
//
// Source: shmem_ctx_fence.
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
// to every PE.
//
// Source: shmem_ctx_quiet.
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

// ok is the test that every operation makes of its context, PE and handle, by the
// handle's tag: true only for a handle with elements. A context that nobody made
// has no PEs, and so its table is not asked for.
func (c *Ctx) ok(tag uint64, pe int) bool {
	return c != nil && uint(pe) < uint(c.npes) && live(c.tags, tag)
}
