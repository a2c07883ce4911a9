package shmem

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/goshmem/goshmem/internal/wait"
)

// WaitUntil returns when the first element of x on this PE compares with v as
// asked: WaitUntil(c, x, GE, 3) when it is at least 3. What was put before the
// store that satisfied it (with Fence between) is visible then.
//
// A wait cannot know who would have satisfied it. So the death of any PE ends it,
// with a *PEError of all that have died and are not acknowledged by AckFailed; the
// element is as it was, and the wait may be called again after AckFailed. If the
// comparison holds, that comes first.
//
//   - Errors: the context's With ended; ErrArgument for an unknown comparison; *PEError
//     with ErrPEDied; those of Put.
//   - Cost: polls, then yields the processor, then sleeps.
//   - Concurrent calls: allowed.
//   - Source: shmem_wait_until.
func WaitUntil[T Waiter](c *Ctx, x Sym[T], cmp Cmp, v T) error {
	_, err := waitUntil(c, "WaitUntil", x, cmp, v)
	return err
}

// Test says whether the first element of x on this PE compares with v as asked. A program may
// poll with it: a Test that says no does what waits do for others, such as going on with messages
// of package mpi.
//
//   - Cost: a few loads.
//   - Errors: as WaitUntil.
//   - Concurrent calls: allowed.
//   - Source: shmem_test.
func Test[T Waiter](c *Ctx, x Sym[T], cmp Cmp, v T) (bool, error) {
	if err := checkWait(c, "Test", x, cmp); err != nil {
		return false, err
	}
	c.h.job.Waiter.Beat() // it may be polled
	cond := condition(x, cmp, v)
	cond.Addr = c.mine(x.off)
	if cond.Ready() {
		return true, nil
	}
	c.h.job.Waiter.ServePeers()
	return false, nil
}

func waitUntil[T Waiter](c *Ctx, op string, x Sym[T], cmp Cmp, v T) (got T, err error) {
	if err := checkWait(c, op, x, cmp); err != nil {
		return got, err
	}
	cond := condition(x, cmp, v)
	cond.Addr = c.mine(x.off)
	var last uint64
	for {
		cond.Seen = c.h.acked.Load()
		last, err = c.h.job.Waiter.Wait(&cond, c.ctx)
		if !errors.Is(err, wait.ErrFailure) {
			break
		}
		if err := c.h.bereaved(op); err != nil {
			return T(last), err
		}
	}
	if errors.Is(err, wait.ErrClosed) {
		return T(last), usage(op, ErrFinalized, "waiting for an element that is %d to be %s %d: finalized meanwhile", T(last), cmp, v)
	}
	if err != nil {
		return T(last), fmt.Errorf("shmem.%s: waiting for an element that is %d to be %s %d: %w", op, T(last), cmp, v, err)
	}
	return T(last), nil
}

// bereaved returns the error of a wait that a death has ended, nil if it was
// acknowledged meanwhile: then the wait goes on.
func (h *heap) bereaved(op string) error {
	h.notice()
	all, _ := h.job.Failures.Since(h.acked.Load())
	if len(all) == 0 {
		return nil
	}
	return deaths(op, all)
}

func checkWait[T Waiter](c *Ctx, op string, x Sym[T], cmp Cmp) error {
	if !c.own(x.tag) || x.off&(sizeOf[T]()-1) != 0 {
		return c.check(op, x.aligned(), 1, 0)
	}
	if cmp > LE {
		return usage(op, ErrArgument, "comparison %d, want EQ, NE, GT, GE, LT or LE", cmp)
	}
	return nil
}

// condition describes a comparison to package rma.
func condition[T Waiter](_ Sym[T], cmp Cmp, v T) wait.Cond {
	var zero T
	return wait.Cond{
		Val: uint64(v), Width: uint8(unsafe.Sizeof(zero)), Signed: zero-1 < zero, Cmp: wait.Cmp(cmp),
	}
}

// own is the fast test of a handle that is used on this PE, by its tag. A context
// that nobody made has no heap.
func (c *Ctx) own(tag uint64) bool { return c != nil && c.h != nil && c.h.liveNow(tag) }

// mine returns the address of an offset in this PE's segment.
func (c *Ctx) mine(off uint64) unsafe.Pointer {
	return unsafe.Add(c.h.job.Map.Segment(c.h.job.Local), int(off))
}
