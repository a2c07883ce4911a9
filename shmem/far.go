package shmem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Operations on PEs of other nodes. They are checked like all others, and then given to the agent of this node (package
// far).
//
//   - Puts, signals and atomic operations without a result return when the agent has them, and long puts from the heap
//     when they are executed.
//   - Operations of one PE on one node are executed in their order, so Fence has nothing to do for them.
//   - ctxShared.touched knows the nodes that a context has operations under way to. Quiet waits for these.

// atomicCodes says what records the codes of operations on words become.
var atomicCodes = [...]record.AtomicCode{
	opFetch: record.AtomicLoad, opSet: record.AtomicSet, opSwap: record.AtomicSwap, opCompareSwap: record.AtomicCompareSwap,
	opAdd: record.AtomicAdd, opAnd: record.AtomicAnd, opOr: record.AtomicOr, opXor: record.AtomicXor,
}

// performFar performs an operation that was checked, on a PE of another node.
func (c *Ctx) performFar(o *operation, pe layout.PE) (old uint64, err error) {
	p, t, off := c.h.far, &c.shared.touched, o.object.off
	switch {
	case o.code == opPut && o.nbi:
		_, err = p.PutNBI(c.ctx, t, pe, off, o.local, o.n*int(o.size))
	case o.code == opPut:
		err = p.Put(c.ctx, t, pe, off, o.local, o.n*int(o.size))
	case o.code == opGet:
		err = p.Get(c.ctx, t, pe, off, o.local, o.n*int(o.size))
	case o.code == opPutStrided:
		s := o.blocks()
		err = p.PutStrided(c.ctx, t, pe, off, o.local, uintptr(o.size), s.Dst, s.Src, s.Block, s.N)
	case o.code == opGetStrided:
		s := o.blocks()
		err = p.GetStrided(c.ctx, t, pe, off, o.local, uintptr(o.size), s.Dst, s.Src, s.Block, s.N)
	case o.code == opPutSignal:
		var x far.Sending
		if o.n > 0 {
			x, err = p.PutNBI(c.ctx, t, pe, off, o.local, o.n*int(o.size))
		}
		if err == nil {
			err = p.Signal(c.ctx, t, pe, o.signal.off, o.operand, o.update == SignalAdd)
		}
		if err == nil && !o.nbi {
			err = p.AwaitSent(c.ctx, x)
		}
	case o.signals:
		err = p.Signal(c.ctx, t, pe, off, o.operand, o.code == opAdd)
	case o.updates:
		err = p.Update(c.ctx, t, pe, off, atomicCodes[o.code], int(o.size), o.operand, o.cond)
	default:
		old, err = p.Fetch(c.ctx, t, pe, off, atomicCodes[o.code], int(o.size), o.operand, o.cond)
	}
	return old, c.h.farError(o.name, err)
}

// mostTried is the size up to which putFar tries a put. A long one gains nothing.
const mostTried = 512

// putFar makes a put of n bytes to a PE of another node in the frequent case: good arguments, no known death, and a block
// with room. It returns false in all other cases, and has done nothing then: the full check follows. The caller has compared
// the length with the object's.
func (c *Ctx) putFar(tag, off uint64, src unsafe.Pointer, n uint64, pe int) bool {
	if c == nil || c.h == nil || c.h.far == nil || n-1 >= mostTried || !tagIsLive(c.tags, tag) || uint(pe) >= uint(c.shared.team.group.n) {
		return false
	}
	*c.mark = 1
	return far.TryPut(c.h.far, &c.shared.touched, c.shared.team.group.pe(pe), off, src, int(n))
}

// blocks returns the stride of a strided operation, with the length of its blocks.
func (o *operation) blocks() Stride {
	s := o.stride
	if o.single {
		s.Block = 1
	}
	return s
}

// isFar reports whether a PE number of the context's team is that of a PE of another node. It is false for arguments
// that check refuses.
func (c *Ctx) isFar(pe int) bool {
	if c == nil || c.h == nil || c.h.far == nil || uint(pe) >= uint(c.shared.team.group.n) {
		return false
	}
	_, near := c.h.job.Place.Local(c.shared.team.group.pe(pe))
	return !near
}

// startGet checks a get from a far PE and starts it. The destination is not part of the operation, since it escapes: the
// answer goes there after the call.
func (c *Ctx) startGet(o *operation, dst unsafe.Pointer) (*origin, error) {
	pe, empty, err := c.checkOperation(o)
	switch {
	case err != nil:
		return nil, err
	case empty || o.n == 0:
		return &c.origin, nil
	}
	g, err := c.h.far.StartGet(c.ctx, &c.shared.touched, pe, o.object.off, dst, o.n*int(o.size))
	if err != nil {
		return nil, c.h.farError(o.name, err)
	}
	return &origin{ctx: c, op: o.name, far: g}, nil
}

// startFetch checks an atomic operation on a far PE and starts it.
func (c *Ctx) startFetch(o *operation) (*origin, error) {
	pe, _, err := c.checkOperation(o)
	if err != nil {
		return nil, err
	}
	g, err := c.h.far.StartFetch(c.ctx, &c.shared.touched, pe, o.object.off, atomicCodes[o.code], int(o.size), o.operand, o.cond)
	if err != nil {
		return nil, c.h.farError(o.name, err)
	}
	return &origin{ctx: c, op: o.name, far: g, fetch: true}, nil
}

// checkLive checks that c was returned by a call and is neither destroyed nor finalized.
func (c *Ctx) checkLive(op string) error {
	if c == nil || c.h == nil || c.h.finalized() {
		return c.check(op, ref{}, 0, 0)
	}
	return nil
}

// quietFar completes the operations of a context on PEs of other nodes.
func (h *heap) quietFar(op string, ctx context.Context, m *ctxShared) error { //nolint:revive // as in package wait
	if h.far == nil {
		return nil
	}
	return h.quietError(op, h.far.Quiet(ctx, &m.touched))
}

// quietFarPEs is quietFar for the nodes of some PEs of the world.
func (c *Ctx) quietFarPEs(op string, pes []layout.PE) error {
	if c.h.far == nil {
		return nil
	}
	var errs []error
	var seen []int
	for _, pe := range pes {
		if _, near := c.h.job.Place.Local(pe); near {
			continue
		}
		if node, _ := c.h.job.Home(pe); !slices.Contains(seen, node) {
			seen = append(seen, node)
			errs = append(errs, c.h.far.QuietPE(c.ctx, &c.shared.touched, pe))
		}
	}
	return c.h.quietError(op, errors.Join(errs...))
}

// quietAll completes the operations of all contexts on PEs of other nodes.
func (h *heap) quietAll(op string, ctx context.Context) error { //nolint:revive // as in package wait
	if h.far == nil {
		return nil
	}
	var errs []error
	for _, m := range h.contexts.all() {
		errs = append(errs, h.quietFar(op, ctx, m))
	}
	return errors.Join(errs...)
}

// farError turns an error of package far into one of this package.
func (h *heap) farError(op string, err error) error {
	if err == nil {
		return nil
	}
	if dead, is := errors.AsType[*far.DeadError](err); is && dead.PE >= 0 {
		h.alertLayers()
		return h.errorOfDead(op, []layout.PE{dead.PE})
	}
	if errors.Is(err, wait.ErrClosed) {
		return usage(op, ErrFinalized, "Finalize ended the wait for another node")
	}
	return fmt.Errorf("shmem.%s: %w", op, err)
}

// quietError turns an error of a Quiet into one of this package. If nodes are lost, it names all their PEs.
func (h *heap) quietError(op string, err error) error {
	if _, lost := errors.AsType[*far.DeadError](err); !lost {
		return h.farError(op, err)
	}
	h.alertLayers()
	dead := h.lostPEs()
	if len(dead) == 0 {
		return fmt.Errorf("shmem.%s: %w: %w", op, ErrPEDied, err)
	}
	return h.errorOfDead(op, dead)
}

// lostPEs returns the PEs of lost nodes, ascending.
func (h *heap) lostPEs() (pes []layout.PE) {
	lost := map[int]bool{}
	dead := h.deadPEs()
	for _, pe := range dead {
		if f, _ := h.job.Failures.Failure(int(pe)); f.Cause.Kind() == failure.NodeLost {
			node, _ := h.job.Home(pe)
			lost[node] = true
		}
	}
	for _, pe := range dead {
		if node, _ := h.job.Home(pe); lost[node] {
			pes = append(pes, pe)
		}
	}
	return pes
}

// deadPEs returns the PEs that are known to be dead, ascending.
func (h *heap) deadPEs() (dead []layout.PE) {
	all, _ := h.job.Failures.All()
	for i := range all {
		if pe := layout.PE(all[i].PE); h.isDead(pe) {
			dead = append(dead, pe)
		}
	}
	slices.Sort(dead)
	return dead
}
