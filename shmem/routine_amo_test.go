package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

// extType, amoType and bitsType are the element types of the three tables of atomic operations.
// Their methods are the tests of one element type.
type (
	extType interface {
		fetch(t *testing.T, w *shmem.World, nbi bool)
		set(t *testing.T, w *shmem.World)
		swap(t *testing.T, w *shmem.World, nbi bool)
	}
	amoType interface {
		extType
		compareSwap(t *testing.T, w *shmem.World, nbi bool)
		fetchInc(t *testing.T, w *shmem.World, nbi bool)
		inc(t *testing.T, w *shmem.World)
		fetchAdd(t *testing.T, w *shmem.World, nbi bool)
		add(t *testing.T, w *shmem.World)
	}
	bitsType interface {
		fetchAnd(t *testing.T, w *shmem.World, nbi bool)
		and(t *testing.T, w *shmem.World)
		fetchOr(t *testing.T, w *shmem.World, nbi bool)
		or(t *testing.T, w *shmem.World)
		fetchXor(t *testing.T, w *shmem.World, nbi bool)
		xor(t *testing.T, w *shmem.World)
	}
	extOf[T shmem.AMOExt]   struct{}
	amoOf[T shmem.AMO]      struct{ extOf[T] }
	bitsOf[T shmem.AMOBits] struct{}
	named                   int32
)

var (
	amoTypes = []amoType{
		amoOf[int]{}, amoOf[int32]{}, amoOf[int64]{}, amoOf[uint]{}, amoOf[uint32]{}, amoOf[uint64]{}, amoOf[uintptr]{}, amoOf[named]{},
	}
	bitsTypes = []bitsType{bitsOf[int]{}, bitsOf[int32]{}, bitsOf[int64]{}, bitsOf[uint]{}, bitsOf[uint32]{}, bitsOf[uint64]{}, bitsOf[named]{}}
)

// extTypes are the types of fetch, set and swap.
func extTypes() []extType {
	all := []extType{extOf[float32]{}, extOf[float64]{}}
	for _, e := range amoTypes {
		all = append(all, e)
	}
	return all
}

// atomicOp is an atomic operation on x, which is element i of PE pe. Its result, if it has one, is
// what the element held before.
type atomicOp[T shmem.AMOExt] func(c *shmem.Ctx, x shmem.Sym[T], pe, i int) (T, error)

// noResult turns an operation that fetches nothing into an atomicOp.
func noResult[T any](err error) (T, error) {
	var zero T
	return zero, err
}

// waitResult turns a nonblocking operation into an atomicOp.
func waitResult[T any](p shmem.Pending[T], err error) (T, error) {
	if err != nil {
		return noResult[T](err)
	}
	return p.Wait()
}

// operand is what PE pe swaps with, adds and so on.
func operand[T comparable](pe int) T { return elem[T](pe+50, 7) }

// checkSingle has each PE make one operation on its right neighbor and one on itself. Afterwards
// each element is becomes(what it was, the PE that changed it).
func checkSingle[T shmem.AMOExt](t *testing.T, w *shmem.World, name string, fetches bool, op atomicOp[T], becomes func(before T, by int) T) {
	t.Helper()
	const room = 5
	c, me := w.Ctx(), w.MyPE()
	left, right := neighbors(w)
	x := must(shmem.Calloc[T](w, room))(t)
	want := values[T](me, 0, room)
	copy(x.Local(), want)
	ok(t, w.Barrier())
	check := func(x shmem.Sym[T], pe, i int) {
		t.Helper()
		old := must(op(c, x, pe, i))(t)
		if fetches && old != elem[T](pe, i) {
			t.Errorf("%s of %T returned %v, want %v", name, old, old, elem[T](pe, i))
		}
	}
	check(x.At(2), right, 2)
	check(x.Slice(0, 3), me, 0) // the first of three elements
	check(x.Slice(4, room), me, 4)
	want[0], want[4] = becomes(want[0], me), becomes(want[4], me)
	want[2] = becomes(want[2], left)
	quietAndCheck(t, w, "after "+name, x, want)
	for _, pe := range []int{-1, w.NPEs()} {
		wantError(t, errOf(op(c, x, pe, 0)), shmem.ErrPERange, "shmem."+name+":")
	}
	wantError(t, errOf(op(c, x.At(room), me, 0)), shmem.ErrBounds, "shmem."+name+":", "index 5")
	wantError(t, errOf(op(c, x.Slice(1, 1), me, 0)), shmem.ErrBounds, "shmem."+name+":", "1 elements")
	wantError(t, errOf(op(nil, x, me, 0)), shmem.ErrArgument, "shmem."+name+":")
	quietAndCheck(t, w, "after refused calls of "+name, x, want)
	ok(t, shmem.Free(w, x))
}

// crowdRounds is how often each PE makes an operation in checkCrowd.
const crowdRounds = 50

// checkCrowd has all PEs operate on one element of PE 0 at the same time. The element starts as
// first and has to end as last.
func checkCrowd[T shmem.AMOExt](t *testing.T, w *shmem.World, name string, first, last T, op func(c *shmem.Ctx, x shmem.Sym[T], round int) error) {
	t.Helper()
	x := must(shmem.Calloc[T](w, 3))(t)
	x.Local()[1] = first
	ok(t, w.Barrier())
	for r := range crowdRounds {
		ok(t, op(w.Ctx(), x.At(1), r))
	}
	ok(t, w.Barrier())
	want := []T{0, first, 0}
	if w.MyPE() == 0 {
		want[1] = last
	}
	checkElements(t, "after "+name+" by all at once", x.Local(), want)
	ok(t, w.Barrier())
	ok(t, shmem.Free(w, x))
}

// checkTickets has all PEs draw numbers from a counter on PE 0 at the same time. Each number is
// drawn once.
func checkTickets[T shmem.AMO](t *testing.T, w *shmem.World, name string, draw func(c *shmem.Ctx, x shmem.Sym[T]) (T, error)) {
	t.Helper()
	all := w.NPEs() * crowdRounds
	drawn := must(shmem.Calloc[byte](w, all))(t)
	checkCrowd(t, w, name, 0, T(all), func(c *shmem.Ctx, x shmem.Sym[T], _ int) error {
		return shmem.P(c, drawn.At(int(must(draw(c, x))(t))), 1, 0)
	})
	for i, b := range drawn.Local() {
		if w.MyPE() == 0 && b != 1 {
			t.Errorf("%s: no PE drew %d", name, i)
		}
	}
	ok(t, w.Barrier())
	ok(t, shmem.Free(w, drawn))
}

func (extOf[T]) fetch(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	name, op := "AtomicFetch", shmem.AtomicFetch[T]
	if nbi {
		name, op = "AtomicFetchNBI", func(c *shmem.Ctx, x shmem.Sym[T], pe int) (T, error) {
			return waitResult(shmem.AtomicFetchNBI(c, x, pe))
		}
	}
	checkSingle(t, w, name, true,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) { return op(c, x, pe) },
		func(before T, _ int) T { return before })
}

func (extOf[T]) set(t *testing.T, w *shmem.World) {
	t.Helper()
	me := w.MyPE()
	checkSingle(t, w, "AtomicSet", false,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) {
			return noResult[T](shmem.AtomicSet(c, x, operand[T](me), pe))
		},
		func(_ T, by int) T { return operand[T](by) })
}

func (extOf[T]) swap(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	me := w.MyPE()
	name, op := "AtomicSwap", shmem.AtomicSwap[T]
	if nbi {
		name, op = "AtomicSwapNBI", func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
			return waitResult(shmem.AtomicSwapNBI(c, x, v, pe))
		}
	}
	checkSingle(t, w, name, true,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) { return op(c, x, operand[T](me), pe) },
		func(_ T, by int) T { return operand[T](by) })
	// All PEs exchange their numbers through one element, so each number ends in exactly one
	// place.
	mine := T(me + 1)
	sum := must(shmem.Calloc[int64](w, 1))(t)
	x := must(shmem.Calloc[T](w, 1))(t)
	for range crowdRounds {
		mine = must(op(w.Ctx(), x, mine, 0))(t)
	}
	ok(t, shmem.AtomicAdd(w.Ctx(), sum, int64(mine), 0))
	ok(t, w.Barrier())
	if got, want := sum.Local()[0]+int64(x.Local()[0]), int64(w.NPEs()*(w.NPEs()+1)/2); me == 0 && got != want {
		t.Errorf("%s of %T: the exchanged values add up to %d, want %d", name, mine, got, want)
	}
	ok(t, w.Barrier())
	ok(t, shmem.Free(w, x))
	ok(t, shmem.Free(w, sum))
}

func (amoOf[T]) compareSwap(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	me := w.MyPE()
	name, op := "AtomicCompareSwap", shmem.AtomicCompareSwap[T]
	if nbi {
		name, op = "AtomicCompareSwapNBI", func(c *shmem.Ctx, x shmem.Sym[T], cond, v T, pe int) (T, error) {
			return waitResult(shmem.AtomicCompareSwapNBI(c, x, cond, v, pe))
		}
	}
	checkSingle(t, w, name, true,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, i int) (T, error) {
			return op(c, x, elem[T](pe, i), operand[T](me), pe)
		},
		func(_ T, by int) T { return operand[T](by) })
	checkSingle(t, w, name, true, // compares with a different value
		func(c *shmem.Ctx, x shmem.Sym[T], pe, i int) (T, error) {
			return op(c, x, elem[T](pe, i)+1, operand[T](me), pe)
		},
		func(before T, _ int) T { return before })
	checkTickets(t, w, name, func(c *shmem.Ctx, x shmem.Sym[T]) (T, error) {
		for guess := T(0); ; {
			switch old, err := op(c, x, guess, guess+1, 0); {
			case err != nil || old == guess:
				return old, err
			default:
				guess = old
			}
		}
	})
}

func (amoOf[T]) fetchInc(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	name, op := "AtomicFetchInc", shmem.AtomicFetchInc[T]
	if nbi {
		name, op = "AtomicFetchIncNBI", func(c *shmem.Ctx, x shmem.Sym[T], pe int) (T, error) {
			return waitResult(shmem.AtomicFetchIncNBI(c, x, pe))
		}
	}
	checkSingle(t, w, name, true,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) { return op(c, x, pe) },
		func(before T, _ int) T { return before + 1 })
	checkTickets(t, w, name, func(c *shmem.Ctx, x shmem.Sym[T]) (T, error) { return op(c, x, 0) })
}

func (amoOf[T]) inc(t *testing.T, w *shmem.World) {
	t.Helper()
	checkSingle(t, w, "AtomicInc", false,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) {
			return noResult[T](shmem.AtomicInc(c, x, pe))
		},
		func(before T, _ int) T { return before + 1 })
	checkCrowd(t, w, "AtomicInc", 0, T(w.NPEs()*crowdRounds), func(c *shmem.Ctx, x shmem.Sym[T], _ int) error { return shmem.AtomicInc(c, x, 0) })
}

func (amoOf[T]) fetchAdd(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	me := w.MyPE()
	name, op := "AtomicFetchAdd", shmem.AtomicFetchAdd[T]
	if nbi {
		name, op = "AtomicFetchAddNBI", func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
			return waitResult(shmem.AtomicFetchAddNBI(c, x, v, pe))
		}
	}
	checkSingle(t, w, name, true,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) { return op(c, x, operand[T](me), pe) },
		func(before T, by int) T { return before + operand[T](by) })
	checkTickets(t, w, name, func(c *shmem.Ctx, x shmem.Sym[T]) (T, error) { return op(c, x, 1, 0) })
}

func (amoOf[T]) add(t *testing.T, w *shmem.World) {
	t.Helper()
	me, last := w.MyPE(), T(0)
	checkSingle(t, w, "AtomicAdd", false,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) {
			return noResult[T](shmem.AtomicAdd(c, x, operand[T](me), pe))
		},
		func(before T, by int) T { return before + operand[T](by) })
	for pe := range w.NPEs() {
		last += crowdRounds * operand[T](pe)
	}
	checkCrowd(t, w, "AtomicAdd", 0, last, func(c *shmem.Ctx, x shmem.Sym[T], _ int) error { return shmem.AtomicAdd(c, x, operand[T](me), 0) })
}

// ownBit is the bit that only this PE changes in checkCrowd.
func ownBit[T shmem.AMOBits](w *shmem.World) T { return T(1) << w.MyPE() }

// bitwise tests a combining operation: by checkSingle, and by all PEs at the same time. There each
// PE changes its own bit in an odd number of rounds, or leaves it as it is.
func (bitsOf[T]) bitwise(t *testing.T, w *shmem.World, name string, fetches bool, op func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error), combine func(a, b T) T, with, first, last T) {
	t.Helper()
	me := w.MyPE()
	checkSingle(t, w, name, fetches,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) { return op(c, x, operand[T](me), pe) },
		func(before T, by int) T { return combine(before, operand[T](by)) })
	own := first & ownBit[T](w)
	checkCrowd(t, w, name, first, last, func(c *shmem.Ctx, x shmem.Sym[T], r int) error {
		if r == 0 {
			return nil // so that the number of rounds is odd
		}
		old, err := op(c, x, with, 0)
		if fetches && old&ownBit[T](w) != own {
			t.Errorf("%s of %T: round %d returned %x, want its bit %x to be %x", name, old, r, old, ownBit[T](w), own)
		}
		own = combine(own, with) & ownBit[T](w)
		return err
	})
}

func (b bitsOf[T]) fetchAnd(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	name, op := "AtomicFetchAnd", shmem.AtomicFetchAnd[T]
	if nbi {
		name, op = "AtomicFetchAndNBI", func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
			return waitResult(shmem.AtomicFetchAndNBI(c, x, v, pe))
		}
	}
	all := T(1)<<w.NPEs() - 1
	b.bitwise(t, w, name, true, op, func(a, b T) T { return a & b }, ^ownBit[T](w), ^T(0), ^all)
}

func (b bitsOf[T]) and(t *testing.T, w *shmem.World) {
	t.Helper()
	all := T(1)<<w.NPEs() - 1
	b.bitwise(t, w, "AtomicAnd", false, func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
		return noResult[T](shmem.AtomicAnd(c, x, v, pe))
	}, func(a, b T) T { return a & b }, ^ownBit[T](w), ^T(0), ^all)
}

func (b bitsOf[T]) fetchOr(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	name, op := "AtomicFetchOr", shmem.AtomicFetchOr[T]
	if nbi {
		name, op = "AtomicFetchOrNBI", func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
			return waitResult(shmem.AtomicFetchOrNBI(c, x, v, pe))
		}
	}
	all := T(1)<<w.NPEs() - 1
	b.bitwise(t, w, name, true, op, func(a, b T) T { return a | b }, ownBit[T](w), 0, all)
}

func (b bitsOf[T]) or(t *testing.T, w *shmem.World) {
	t.Helper()
	all := T(1)<<w.NPEs() - 1
	b.bitwise(t, w, "AtomicOr", false, func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
		return noResult[T](shmem.AtomicOr(c, x, v, pe))
	}, func(a, b T) T { return a | b }, ownBit[T](w), 0, all)
}

func (b bitsOf[T]) fetchXor(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	name, op := "AtomicFetchXor", shmem.AtomicFetchXor[T]
	if nbi {
		name, op = "AtomicFetchXorNBI", func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
			return waitResult(shmem.AtomicFetchXorNBI(c, x, v, pe))
		}
	}
	all := T(1)<<w.NPEs() - 1
	b.bitwise(t, w, name, true, op, func(a, b T) T { return a ^ b }, ownBit[T](w), 0, all)
}

func (b bitsOf[T]) xor(t *testing.T, w *shmem.World) {
	t.Helper()
	all := T(1)<<w.NPEs() - 1
	b.bitwise(t, w, "AtomicXor", false, func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
		return noResult[T](shmem.AtomicXor(c, x, v, pe))
	}, func(a, b T) T { return a ^ b }, ownBit[T](w), 0, all)
}
