package shmem

// Pending is the result of a non-blocking operation, to be had by Wait. It is a value:
// it may be copied, kept, handed to another goroutine and waited for any number of times,
// by several goroutines at once too, and gives the same result each time. Nothing has to
// be done with one whose result is not wanted.
type Pending[T any] struct {
	c *Ctx
	v T
}

// Wait returns the result. It may complete other operations of the same
// context as well. A result that was fetched is there also when the PE has died since.
//
//   - Errors: those of the operation; ErrArgument for a Pending that no operation gave;
//     ErrDestroyed of its context; ErrFinalized.
//   - Concurrent calls: allowed.
//   - Source: none; in C results are there after a call for the whole context.
func (p Pending[T]) Wait() (v T, err error) {
	if p.c == nil {
		return v, usage("Pending.Wait", ErrArgument, "operation was never started, want the result of a call without an error")
	}
	if err := p.c.Quiet(); err != nil {
		return v, err
	}
	return p.v, nil
}
