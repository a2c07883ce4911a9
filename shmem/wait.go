package shmem

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/goshmem/goshmem/internal/wait"
)

// WaitUntil returns when the comparison of the first element of x on this PE with v holds: WaitUntil(c, x, GE, 3)
// when the element is at least 3. A put that was fenced before the store that made it hold is visible then.
//
// A wait does not know which PE would have stored the element. So the death of any PE ends it, with a *PEError of all
// PEs that have died and were not acknowledged by AckFailed. The element is unchanged, and the wait may be called
// again after AckFailed. If the comparison holds, WaitUntil returns without an error in spite of the death.
//
//   - Errors: the end of the context's With; ErrArgument for an unknown comparison; *PEError with ErrPEDied; those of
//     Put.
//   - Cost: polls, then yields the processor, then sleeps.
//   - Concurrent calls: allowed.
//   - Source: shmem_wait_until.
func WaitUntil[T Waiter](c *Ctx, x Sym[T], cmp Cmp, v T) error {
	_, err := waitUntil(c, "WaitUntil", x, cmp, v)
	return err
}

// Test reports whether the comparison of the first element of x on this PE with v holds. A program may poll with it.
// A Test that returns false makes progress for others as waits do, such as for messages of package mpi.
//
//   - Cost: a few loads.
//   - Errors: as WaitUntil.
//   - Concurrent calls: allowed.
//   - Source: shmem_test.
func Test[T Waiter](c *Ctx, x Sym[T], cmp Cmp, v T) (bool, error) {
	if err := checkWait(c, "Test", x, cmp); err != nil {
		return false, err
	}
	c.h.job.Waiter.Beat() // the program may poll with Test
	cond := newCond(x, cmp, v)
	cond.Addr = c.addressHere(x.off)
	if cond.Ready() {
		return true, nil
	}
	c.h.job.Waiter.ServePeers()
	return false, nil
}

// waitUntil is the waits for one element. It returns the element as it was last read.
func waitUntil[T Waiter](c *Ctx, op string, x Sym[T], cmp Cmp, v T) (got T, err error) {
	if err := checkWait(c, op, x, cmp); err != nil {
		return got, err
	}
	cond := newCond(x, cmp, v)
	cond.Addr = c.addressHere(x.off)
	var last uint64
	for {
		cond.Seen = c.h.acked.Load()
		last, err = c.h.job.Waiter.Wait(&cond, c.ctx)
		if !errors.Is(err, wait.ErrFailure) {
			break
		}
		if err := c.h.endWaitOnDeath(op); err != nil {
			return T(last), err
		}
	}
	if errors.Is(err, wait.ErrClosed) {
		return T(last), usage(op, ErrFinalized, "Finalize ended the wait for an element that is %d to be %s %d", T(last), cmp, v)
	}
	if err != nil {
		return T(last), fmt.Errorf("shmem.%s: waiting for an element that is %d to be %s %d: %w", op, T(last), cmp, v, err)
	}
	return T(last), nil
}

// endWaitOnDeath returns the error of a wait that a death has ended. It returns nil if all deaths are acknowledged by
// now: the wait then goes on.
func (h *heap) endWaitOnDeath(op string) error {
	h.alertLayers()
	all, _ := h.job.Failures.Since(h.acked.Load())
	if len(all) == 0 {
		return nil
	}
	return errorOfFailures(op, h.job, all)
}

// checkWait checks the arguments of a wait or test of one element.
func checkWait[T Waiter](c *Ctx, op string, x Sym[T], cmp Cmp) error {
	if !c.passesHere(x.tag) || x.off&(sizeOf[T]()-1) != 0 {
		return c.check(op, x.alignedRef(), 1, 0)
	}
	if cmp > LE {
		return usage(op, ErrArgument, "comparison %d, want EQ, NE, GT, GE, LT or LE", cmp)
	}
	return nil
}

// newCond describes a comparison to package wait, except the address of the element. The type of the handle gives the
// type of the element.
func newCond[T Waiter](_ Sym[T], cmp Cmp, v T) wait.Cond {
	var zero T
	return wait.Cond{
		Val: uint64(v), Width: uint8(unsafe.Sizeof(zero)), Signed: zero-1 < zero, Cmp: wait.Cmp(cmp),
	}
}

// passesHere is the fast test of a handle that is used on this PE, by its tag. It fails for a Ctx that no call
// returned, which has no heap.
func (c *Ctx) passesHere(tag uint64) bool { return c != nil && c.h != nil && c.h.isLive(tag) }

// addressHere returns the address of an offset in this PE's segment.
func (c *Ctx) addressHere(off uint64) unsafe.Pointer {
	return unsafe.Add(c.h.job.Map.Segment(c.h.job.Local), int(off))
}
