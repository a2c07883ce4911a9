package shmem

// Pending is the result of a non-blocking operation; Wait returns it. A Pending is a value. It may be copied, kept
// and handed to another goroutine. Any number of calls of Wait, also by several goroutines at once, give the same
// result. A program that does not need the result may drop the Pending.
type Pending[T any] struct {
	ctx   *Ctx
	value T
}

// Wait returns the result. It may complete other operations of the same context as well. A result that was fetched is
// there even if the PE has died since.
//
//   - Errors: those of the operation; ErrArgument for a Pending that no operation returned; ErrDestroyed of its
//     context; ErrFinalized.
//   - Concurrent calls: allowed.
//   - Source: none; in C, a call for the whole context gives the results.
func (p Pending[T]) Wait() (v T, err error) {
	if p.ctx == nil {
		return v, usage("Pending.Wait", ErrArgument, "the Pending is the zero value, want one that a call returned without an error")
	}
	if err := p.ctx.Quiet(); err != nil {
		return v, err
	}
	return p.value, nil
}
