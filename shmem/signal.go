package shmem

import "github.com/goshmem/goshmem/rma"

// PutSignal copies src to the first len(src) elements of dst on PE pe and then
// updates the signal there: whoever sees the new signal sees this src in dst.
// Earlier puts are not implied.
//
// Completion: src may be reused on return; at the target when the signal is.
// Errors: those of Put, ErrArgument for an unknown op.
// Concurrent calls: allowed; signals of one object use one op.
// Source: shmem_put_signal.
func PutSignal[T any](c *Ctx, dst Sym[T], src []T, sig Sym[uint64], v uint64, op SignalOp, pe int) error {
	const name = "PutSignal"
	if !c.ok(dst.tag, pe) || len(src) > dst.n {
		if err := c.check(name, dst.ref(), len(src), pe); err != nil {
			return err
		}
	}
	if !c.ok(sig.tag, pe) {
		if err := c.check(name, sig.aligned(), 1, pe); err != nil {
			return err
		}
	}
	if op > SignalAdd {
		return usage(name, ErrArgument, "signal operation %d, want SignalSet or SignalAdd", op)
	}
	if len(src) > 0 {
		if to := c.path.To(pe).At(dst.off); rma.Few(src) {
			rma.Copy(to, src)
		} else {
			rma.Move(to, src)
		}
		rma.Fence()
	}
	signal(c, sig, v, op, pe)
	return nil
}

// signal updates a signal with release order.
func signal(c *Ctx, sig Sym[uint64], v uint64, op SignalOp, pe int) {
	t := c.path.To(pe)
	if op == SignalAdd {
		rma.AtomicAdd(t.At(sig.off), v)
	} else {
		rma.AtomicStore(t.At(sig.off), v)
	}
	t.Ring()
}

// SignalAdd adds v to the signal on PE pe.
//
// Completion: at the target after Quiet or a barrier.
// Errors: those of Put.
// Source: shmem_ctx_signal_add.
func (c *Ctx) SignalAdd(sig Sym[uint64], v uint64, pe int) error {
	if !c.ok(sig.tag, pe) {
		return c.slowSignal("Ctx.SignalAdd", sig, v, SignalAdd, pe)
	}
	signal(c, sig, v, SignalAdd, pe)
	return nil
}

// SignalSet writes v to the signal on PE pe.
//
// Completion: at the target after Quiet or a barrier.
// Errors: those of Put.
// Source: shmem_ctx_signal_set.
func (c *Ctx) SignalSet(sig Sym[uint64], v uint64, pe int) error {
	if !c.ok(sig.tag, pe) {
		return c.slowSignal("Ctx.SignalSet", sig, v, SignalSet, pe)
	}
	signal(c, sig, v, SignalSet, pe)
	return nil
}

// SignalFetch returns this PE's signal.
//
// Errors: those of Put.
// Source: shmem_signal_fetch.
func (c *Ctx) SignalFetch(sig Sym[uint64]) (uint64, error) {
	if !c.own(sig.tag) {
		return 0, c.check("Ctx.SignalFetch", sig.aligned(), 1, 0)
	}
	cond := condition(sig, EQ, 0)
	cond.Addr = c.mine(sig.off)
	return cond.Load(), nil
}

// SignalWaitUntil returns when this PE's signal compares with v as asked, and
// the value that satisfied it.
//
// Errors: as WaitUntil.
// Source: shmem_signal_wait_until.
func (c *Ctx) SignalWaitUntil(sig Sym[uint64], cmp Cmp, v uint64) (uint64, error) {
	return waitUntil(c, "Ctx.SignalWaitUntil", sig, cmp, v)
}
