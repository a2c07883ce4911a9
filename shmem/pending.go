package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/rma"
)

// Pending is the result of a non-blocking operation; Wait returns it. A Pending is a value. It may be copied, kept
// and handed to another goroutine. Any number of calls of Wait, also by several goroutines at once, give the same
// result. A program that does not need the result may drop the Pending.
type Pending[T any] struct {
	of    *origin // nil in a Pending that no operation returned
	value T       // the result, unless of.fetch is set
}

// origin is where the result of a Pending comes from. The results of near PEs are in the Pending when the operation
// returns, so all of a context have one origin, which is part of the Ctx. An operation on a far PE has one of its own.
type origin struct {
	ctx   *Ctx
	op    string       // far operations: the name of the routine
	far   *far.Pending // far operations; nil: the result is in the Pending
	fetch bool         // the far.Pending has the result: the value of a word
}

// Wait returns the result. It may complete other operations of the same context as well. A result that was fetched is
// there even if the PE has died since.
//
//   - Errors: those of the operation; ErrArgument for a Pending that no operation returned; ErrDestroyed of its
//     context; ErrFinalized; the end of the context's With if the PE is on another node.
//   - Concurrent calls: allowed.
//   - Source: none; in C, a call for the whole context gives the results.
func (p Pending[T]) Wait() (v T, err error) {
	if p.of == nil {
		return v, usage("Pending.Wait", ErrArgument, "the Pending is the zero value, want one that a call returned without an error")
	}
	if p.of.far != nil {
		return waitFar(p)
	}
	c := p.of.ctx
	if c.direct == 0 { // as in Quiet
		if err := c.checkNear(); err != nil {
			return v, err
		}
	}
	rma.Drain(c.mark)
	return p.value, nil
}

// checkNear checks that the context of a result that is there is neither destroyed nor finalized. Operations on PEs of other
// nodes are not awaited: one that is lost would fail a Wait that needs nothing of it.
//
//go:noinline
func (c *Ctx) checkNear() error {
	switch {
	case c.h == nil:
		return errQuietGone
	case c.h.finalized():
		return errQuietEnded
	default:
		return nil
	}
}

// waitFar is Wait for an operation on a PE of another node.
func waitFar[T any](p Pending[T]) (v T, err error) {
	c := p.of.ctx
	if err := c.checkLive("Pending.Wait"); err != nil {
		return v, err
	}
	bits, err := p.of.far.Wait(c.ctx)
	if err != nil {
		return v, c.h.farError(p.of.op, err)
	}
	switch {
	case !p.of.fetch:
		return p.value, nil
	case unsafe.Sizeof(v) == 4:
		*(*uint32)(unsafe.Pointer(&v)) = uint32(bits)
	default:
		*(*uint64)(unsafe.Pointer(&v)) = bits // T is a word of 8 bytes, as only atomic operations fetch
	}
	return v, nil
}
