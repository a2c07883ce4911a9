package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// PutSignal copies src to the first len(src) elements of dst on PE pe, and then updates the signal there. A PE that
// sees the new signal sees this src in dst. The signal does not cover earlier puts: these need a Fence before it. The
// signal must not lie among the elements that are written.
//
// Updates of a signal by one op are atomic with respect to each other, and to SignalFetch, SignalWaitUntil and
// WaitUntil. A signal is updated by SignalSet or by SignalAdd, not by both.
//
//   - Completion: src may be reused on return; at the target when the signal is.
//   - Errors: those of Put, ErrArgument for an unknown op, ErrOverlap.
//   - Concurrent calls: allowed; signals of one object use one op.
//   - Source: shmem_put_signal.
func PutSignal[T any](c *Ctx, dst Sym[T], src []T, sig Sym[uint64], v uint64, op SignalOp, pe int) error {
	if !c.passAndMark(dst.tag, pe) || len(src) > dst.n || !c.passAndMark(sig.tag, pe) || op > SignalAdd || dst.tag == sig.tag && signalOverlaps(dst.off, sizeOf[T](), len(src), sig.off) {
		return slowPutSignal(c, dst, src, sig, v, op, pe, &routinePutSignal)
	}
	if len(src) > 0 {
		if to := c.target(pe).At(dst.off); rma.Few(src) {
			rma.Copy(to, src)
		} else {
			rma.Move(to, src)
		}
		rma.Fence()
	}
	sendSignal(c, sig, v, op, pe)
	return nil
}

// PutSignalNBI is PutSignal that may return before src was read: leave src unchanged until Quiet.
//
//   - Completion: of both ends after Quiet or a barrier; at the target when the signal is.
//   - Errors: as PutSignal.
//   - Concurrent calls: allowed; signals of one object use one op.
//   - Source: shmem_put_signal_nbi.
func PutSignalNBI[T any](c *Ctx, dst Sym[T], src []T, sig Sym[uint64], v uint64, op SignalOp, pe int) error {
	if !c.passAndMark(dst.tag, pe) || len(src) > dst.n || !c.passAndMark(sig.tag, pe) || op > SignalAdd || dst.tag == sig.tag && signalOverlaps(dst.off, sizeOf[T](), len(src), sig.off) {
		return slowPutSignal(c, dst, src, sig, v, op, pe, &routinePutSignalNBI)
	}
	if len(src) > 0 {
		if to := c.target(pe).At(dst.off); rma.Few(src) {
			rma.Copy(to, src)
		} else {
			rma.Move(to, src)
		}
		rma.Fence()
	}
	sendSignal(c, sig, v, op, pe)
	return nil
}

// signalOverlaps reports whether the signal at offset sig lies among n elements of size bytes at offset dst of the
// same block.
func signalOverlaps(dst, size uint64, n int, sig uint64) bool {
	return n > 0 && sig < dst+uint64(n)*size && dst < sig+8
}

// sendSignal updates the signal on a PE, and wakes the PE if it waits. All arguments have passed the fast test.
func sendSignal(c *Ctx, sig Sym[uint64], v uint64, op SignalOp, pe int) {
	t := c.target(pe)
	updateSignal(t.At(sig.off), v, op)
	t.Ring()
}

// updateSignal updates the signal at p with release order.
func updateSignal(p unsafe.Pointer, v uint64, op SignalOp) {
	if op == SignalAdd {
		rma.AtomicAdd(p, v)
	} else {
		rma.AtomicStore(p, v)
	}
}

// SignalAdd adds v to the signal on PE pe.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Errors: those of Put.
//   - Concurrent calls: allowed; signals of one object use one op.
//   - Source: shmem_signal_add, shmem_ctx_signal_add.
func (c *Ctx) SignalAdd(sig Sym[uint64], v uint64, pe int) error {
	if !c.passAndMark(sig.tag, pe) {
		return slowUpdate(c, sig, v, pe, &routineSignalAdd)
	}
	sendSignal(c, sig, v, SignalAdd, pe)
	return nil
}

// SignalSet writes v to the signal on PE pe.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Errors: those of Put.
//   - Concurrent calls: allowed; signals of one object use one op.
//   - Source: shmem_signal_set, shmem_ctx_signal_set.
func (c *Ctx) SignalSet(sig Sym[uint64], v uint64, pe int) error {
	if !c.passAndMark(sig.tag, pe) {
		return slowUpdate(c, sig, v, pe, &routineSignalSet)
	}
	sendSignal(c, sig, v, SignalSet, pe)
	return nil
}

// SignalFetch returns this PE's signal. What was put with the signal that it returns is visible afterwards. A loop of
// SignalFetch makes progress for messages of package mpi, as waits do.
//
//   - Errors: those of Put.
//   - Concurrent calls: allowed.
//   - Source: shmem_signal_fetch.
func (c *Ctx) SignalFetch(sig Sym[uint64]) (uint64, error) {
	if !c.passesHere(sig.tag) {
		return 0, c.check("Ctx.SignalFetch", sig.alignedRef(), 1, 0)
	}
	*c.mark = 1
	c.h.job.Waiter.ServePeers() // the program may poll with SignalFetch while it has messages under way
	cond := newCond(sig, EQ, 0)
	cond.Addr = c.addressHere(sig.off)
	return cond.Load(), nil
}

// SignalWaitUntil returns when the comparison of this PE's signal with v holds. It returns the value for which it
// held.
//
//   - Errors: as WaitUntil.
//   - Concurrent calls: allowed.
//   - Source: shmem_signal_wait_until.
func (c *Ctx) SignalWaitUntil(sig Sym[uint64], cmp Cmp, v uint64) (uint64, error) {
	return waitUntil(c, "Ctx.SignalWaitUntil", sig, cmp, v)
}
