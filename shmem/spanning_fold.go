package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/spanning"
	"github.com/goshmem/goshmem/internal/fold"
	"github.com/goshmem/goshmem/rma"
)

// # Reductions that the agents of nodes fold
//
// A reduction of few elements by a predefined operator is one step (spanning.Team.Fold). The elements travel with it, so a source may
// change when the step ends, and its destination is written after that. So a reduction in place needs no more than any other one.

// folding is how agents fold elements.
type folding struct {
	op   fold.Kind
	elem fold.Elem
}

// foldingOf returns how agents fold by an operator. ok is false if they cannot: the operator, or the type, is the program's.
func foldingOf[T any](op Op[T]) (f folding, ok bool) {
	if f.elem = fold.ElemOf[T](); f.elem == fold.NoElem {
		return f, false
	}
	f.op = fold.KindOf(op)
	return f, f.elem.Has(f.op)
}

// foldingShift is where a folding is in the last word that members compare. A size below has room for any element that agents fold.
const foldingShift = 48

// byAgents has the agents fold mine of all members, and passes the result to take.
func (s spanningCall) byAgents(w coll.Words, f folding, mine []byte, take func(folded []byte)) error {
	w[3] = s.call | uint64(s.size)<<callBits | (uint64(f.op)<<8|uint64(f.elem))<<foldingShift
	d, err := s.t.upper.Fold(s.t.ctx, w, f.op, f.elem, mine, take)
	if err == nil {
		s.t.group.note(-1, d.Failed)
		err = mismatch(&d)
	}
	return s.t.publicError(s.op, err)
}

// reduceElements is Reduce.
func reduceElements[T any](s spanningCall, dst, src Sym[T], op Op[T]) error {
	n := src.n * s.size
	if n == 0 || n > spanning.MostFolded {
		return reduceLarge(s, dst, src, op)
	}
	f, ok := foldingOf(op)
	if !ok {
		return reduceLarge(s, dst, src, op)
	}
	mine := unsafe.Slice((*byte)(s.here(src.off)), n)
	return s.byAgents(coll.Words{uint64(src.n), src.off, dst.off}, f, mine, func(folded []byte) {
		rma.CopyElements(s.here(dst.off), unsafe.Pointer(&folded[0]), uintptr(s.size), src.n)
	})
}

// reduceElement is ReduceValue for a value that agents fold.
func reduceElement[T any](s spanningCall, v T, f folding) (T, error) {
	sum := v
	err := s.byAgents(coll.Words{uint64(s.size)}, f, bytesOf(&v), func(folded []byte) { copy(bytesOf(&sum), folded) })
	if err != nil {
		var none T
		return none, err
	}
	return sum, nil
}
