package shmem

// What an operation does whose fast test has failed: it is checked in full and,
// if nothing is wrong with it (a PE has died, but not this one), made again on a
// context whose fast test looks at the true table. Each is called in tail position
// and never put in line, so that the operation itself keeps nothing alive for it:
// the fast path is the same, instruction by instruction, as if there were no deaths.

// careful returns the context for the second attempt. Nil: there is none, with the
// error if one is the cause; otherwise there is nothing to do, on no elements.
func (c *Ctx) careful(op string, r ref, need, pe int) (*Ctx, error) {
	if err := c.check(op, r, need, pe); err != nil {
		return nil, err
	}
	*c.mark = 1
	if r.tag&hollow != 0 {
		return nil, nil
	}
	if c.of.ways != nil {
		return &c.of.ways[pe], nil
	}
	return c.twin, nil
}

//go:noinline
func slowPut[T any](c *Ctx, op string, dst Sym[T], src []T, pe int) error {
	c, err := c.careful(op, dst.ref(), len(src), pe)
	if c == nil {
		return err
	}
	return Put(c, dst, src, pe)
}

//go:noinline
func slowGet[T any](c *Ctx, dst []T, src Sym[T], pe int) error {
	c, err := c.careful("Get", src.ref(), len(dst), pe)
	if c == nil {
		return err
	}
	return Get(c, dst, src, pe)
}

//go:noinline
func slowGetNBI[T any](c *Ctx, dst []T, src Sym[T], pe int) (Pending[[]T], error) {
	again, err := c.careful("GetNBI", src.ref(), len(dst), pe)
	switch {
	case err != nil:
		return Pending[[]T]{}, err
	case again == nil:
		return Pending[[]T]{c: c, v: dst}, nil
	}
	return pending(c, dst, Get(again, dst, src, pe))
}

//go:noinline
func slowP[T any](c *Ctx, dst Sym[T], v T, pe int) error {
	c, err := c.careful("P", dst.ref(), 1, pe)
	if c == nil {
		return err
	}
	return P(c, dst, v, pe)
}

//go:noinline
func slowG[T any](c *Ctx, src Sym[T], pe int) (v T, err error) {
	if c, err = c.careful("G", src.ref(), 1, pe); c == nil {
		return v, err
	}
	return G(c, src, pe)
}

//go:noinline
func slowFetch[T AMOExt](c *Ctx, op string, x Sym[T], pe int, f func(*Ctx, Sym[T], int) (T, error)) (v T, err error) {
	if c, err = c.careful(op, x.aligned(), 1, pe); c == nil {
		return v, err
	}
	return f(c, x, pe)
}

//go:noinline
func slowInc[T AMO](c *Ctx, x Sym[T], pe int) error {
	c, err := c.careful("AtomicInc", x.aligned(), 1, pe)
	if c == nil {
		return err
	}
	return AtomicInc(c, x, pe)
}

//go:noinline
func slowCompareSwap[T AMO](c *Ctx, x Sym[T], cond, v T, pe int) (old T, err error) {
	if c, err = c.careful("AtomicCompareSwap", x.aligned(), 1, pe); c == nil {
		return old, err
	}
	return AtomicCompareSwap(c, x, cond, v, pe)
}

//go:noinline
func slowSwap[T AMOExt](c *Ctx, op string, x Sym[T], v T, pe int, f func(*Ctx, Sym[T], T, int) (T, error)) (old T, err error) {
	if c, err = c.careful(op, x.aligned(), 1, pe); c == nil {
		return old, err
	}
	return f(c, x, v, pe)
}

//go:noinline
func slowSet[T AMOExt](c *Ctx, op string, x Sym[T], v T, pe int, f func(*Ctx, Sym[T], T, int) error) error {
	c, err := c.careful(op, x.aligned(), 1, pe)
	if c == nil {
		return err
	}
	return f(c, x, v, pe)
}

//go:noinline
func (c *Ctx) slowSignal(name string, sig Sym[uint64], v uint64, op SignalOp, pe int) error {
	c, err := c.careful(name, sig.aligned(), 1, pe)
	if c == nil {
		return err
	}
	signal(c, sig, v, op, pe)
	return nil
}

// slowPutSignal has two handles to look at. Without data, that of the destination may
// be hollow, which the fast test does not let pass.
//
//go:noinline
func slowPutSignal[T any](c *Ctx, name string, dst Sym[T], src []T, sig Sym[uint64], v uint64, op SignalOp, pe int) error {
	if err := c.check(name, dst.ref(), len(src), pe); err != nil {
		return err
	}
	c, err := c.careful(name, sig.aligned(), 1, pe)
	switch {
	case c == nil:
		return err
	case op > SignalAdd:
		return usage(name, ErrArgument, "signal operation %d, want SignalSet or SignalAdd", op)
	case dst.tag == sig.tag && overlaps(dst, len(src), sig):
		return usage(name, ErrOverlap, "the signal is among the %d elements that are copied to, want another place", len(src))
	case len(src) > 0:
		return PutSignal(c, dst, src, sig, v, op, pe)
	}
	signal(c, sig, v, op, pe)
	return nil
}
