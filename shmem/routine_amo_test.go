package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

// extType, amoType and bitsType are element types of the three tables of atomic
// operations, and what each test is for that type.
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

// extTypes are those of fetch, set and swap.
func extTypes() []extType {
	all := []extType{extOf[float32]{}, extOf[float64]{}}
	for _, e := range amoTypes {
		all = append(all, e)
	}
	return all
}

// An atomicOp is an atomic operation on x, which is element i of PE pe. What it
// returns, if anything, is what the element held.
type atomicOp[T shmem.AMOExt] func(c *shmem.Ctx, x shmem.Sym[T], pe, i int) (T, error)

// silent makes an atomicOp of one that fetches nothing.
func silent[T any](err error) (T, error) {
	var zero T
	return zero, err
}

// waited makes an atomicOp of one that does not wait.
func waited[T any](p shmem.Pending[T], err error) (T, error) {
	if err != nil {
		return silent[T](err)
	}
	return p.Wait()
}

// arg is what PE pe swaps with, adds and so on.
func arg[T comparable](pe int) T { return elem[T](pe+50, 7) }

// single has each PE make an operation once on the PE on the right, and once on itself.
// After it, an element is what becomes says of what it was and who has made it.
func single[T shmem.AMOExt](t *testing.T, w *shmem.World, name string, fetches bool, op atomicOp[T], becomes func(before T, by int) T) {
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
			t.Errorf("%s of %T: returned %v, want %v", name, old, old, elem[T](pe, i))
		}
	}
	check(x.At(2), right, 2)
	check(x.Slice(0, 3), me, 0) // the first of three
	check(x.Slice(4, room), me, 4)
	want[0], want[4] = becomes(want[0], me), becomes(want[4], me)
	want[2] = becomes(want[2], left)
	settled(t, w, "after "+name, x, want)
	for _, pe := range []int{-1, w.NPEs()} {
		refused(t, fails(op(c, x, pe, 0)), shmem.ErrPERange, "shmem."+name+":")
	}
	refused(t, fails(op(c, x.At(room), me, 0)), shmem.ErrBounds, "shmem."+name+":", "index 5")
	refused(t, fails(op(c, x.Slice(1, 1), me, 0)), shmem.ErrBounds, "shmem."+name+":", "1 elements")
	refused(t, fails(op(nil, x, me, 0)), shmem.ErrArgument, "shmem."+name+":")
	settled(t, w, "after refused calls of "+name, x, want)
	ok(t, shmem.Free(w, x))
}

// crowdRounds is how often each PE makes an operation in a crowd.
const crowdRounds = 50

// crowd has all PEs make an operation on one element of PE 0 at once, which is first
// and has to be last.
func crowd[T shmem.AMOExt](t *testing.T, w *shmem.World, name string, first, last T, op func(c *shmem.Ctx, x shmem.Sym[T], round int) error) {
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
	holds(t, "after "+name+" by all at once", x.Local(), want)
	ok(t, w.Barrier())
	ok(t, shmem.Free(w, x))
}

// tickets has all PEs draw numbers from a counter on PE 0 at once: each is drawn once.
func tickets[T shmem.AMO](t *testing.T, w *shmem.World, name string, draw func(c *shmem.Ctx, x shmem.Sym[T]) (T, error)) {
	t.Helper()
	all := w.NPEs() * crowdRounds
	drawn := must(shmem.Calloc[byte](w, all))(t)
	crowd(t, w, name, 0, T(all), func(c *shmem.Ctx, x shmem.Sym[T], _ int) error {
		return shmem.P(c, drawn.At(int(must(draw(c, x))(t))), 1, 0)
	})
	for i, b := range drawn.Local() {
		if w.MyPE() == 0 && b != 1 {
			t.Errorf("%s: nobody has drawn %d", name, i)
		}
	}
	ok(t, w.Barrier())
	ok(t, shmem.Free(w, drawn))
}

func (extOf[T]) fetch(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	name, op := "AtomicFetch", shmem.AtomicFetch[T]
	if nbi {
		name, op = "AtomicFetchNBI", func(c *shmem.Ctx, x shmem.Sym[T], pe int) (T, error) { return waited(shmem.AtomicFetchNBI(c, x, pe)) }
	}
	single(t, w, name, true,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) { return op(c, x, pe) },
		func(before T, _ int) T { return before })
}

func (extOf[T]) set(t *testing.T, w *shmem.World) {
	t.Helper()
	me := w.MyPE()
	single(t, w, "AtomicSet", false,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) {
			return silent[T](shmem.AtomicSet(c, x, arg[T](me), pe))
		},
		func(_ T, by int) T { return arg[T](by) })
}

func (extOf[T]) swap(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	me := w.MyPE()
	name, op := "AtomicSwap", shmem.AtomicSwap[T]
	if nbi {
		name, op = "AtomicSwapNBI", func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
			return waited(shmem.AtomicSwapNBI(c, x, v, pe))
		}
	}
	single(t, w, name, true,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) { return op(c, x, arg[T](me), pe) },
		func(_ T, by int) T { return arg[T](by) })
	// All PEs exchange their numbers through one element: each number is somewhere.
	mine := T(me + 1)
	sum := must(shmem.Calloc[int64](w, 1))(t)
	x := must(shmem.Calloc[T](w, 1))(t)
	for range crowdRounds {
		mine = must(op(w.Ctx(), x, mine, 0))(t)
	}
	ok(t, shmem.AtomicAdd(w.Ctx(), sum, int64(mine), 0))
	ok(t, w.Barrier())
	if got, want := sum.Local()[0]+int64(x.Local()[0]), int64(w.NPEs()*(w.NPEs()+1)/2); me == 0 && got != want {
		t.Errorf("%s of %T: the sum of what was exchanged is %d, want %d", name, mine, got, want)
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
			return waited(shmem.AtomicCompareSwapNBI(c, x, cond, v, pe))
		}
	}
	single(t, w, name, true,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, i int) (T, error) {
			return op(c, x, elem[T](pe, i), arg[T](me), pe)
		},
		func(_ T, by int) T { return arg[T](by) })
	single(t, w, name, true, // what it is compared with is something else
		func(c *shmem.Ctx, x shmem.Sym[T], pe, i int) (T, error) {
			return op(c, x, elem[T](pe, i)+1, arg[T](me), pe)
		},
		func(before T, _ int) T { return before })
	tickets(t, w, name, func(c *shmem.Ctx, x shmem.Sym[T]) (T, error) {
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
			return waited(shmem.AtomicFetchIncNBI(c, x, pe))
		}
	}
	single(t, w, name, true,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) { return op(c, x, pe) },
		func(before T, _ int) T { return before + 1 })
	tickets(t, w, name, func(c *shmem.Ctx, x shmem.Sym[T]) (T, error) { return op(c, x, 0) })
}

func (amoOf[T]) inc(t *testing.T, w *shmem.World) {
	t.Helper()
	single(t, w, "AtomicInc", false,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) { return silent[T](shmem.AtomicInc(c, x, pe)) },
		func(before T, _ int) T { return before + 1 })
	crowd(t, w, "AtomicInc", 0, T(w.NPEs()*crowdRounds), func(c *shmem.Ctx, x shmem.Sym[T], _ int) error { return shmem.AtomicInc(c, x, 0) })
}

func (amoOf[T]) fetchAdd(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	me := w.MyPE()
	name, op := "AtomicFetchAdd", shmem.AtomicFetchAdd[T]
	if nbi {
		name, op = "AtomicFetchAddNBI", func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
			return waited(shmem.AtomicFetchAddNBI(c, x, v, pe))
		}
	}
	single(t, w, name, true,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) { return op(c, x, arg[T](me), pe) },
		func(before T, by int) T { return before + arg[T](by) })
	tickets(t, w, name, func(c *shmem.Ctx, x shmem.Sym[T]) (T, error) { return op(c, x, 1, 0) })
}

func (amoOf[T]) add(t *testing.T, w *shmem.World) {
	t.Helper()
	me, last := w.MyPE(), T(0)
	single(t, w, "AtomicAdd", false,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) {
			return silent[T](shmem.AtomicAdd(c, x, arg[T](me), pe))
		},
		func(before T, by int) T { return before + arg[T](by) })
	for pe := range w.NPEs() {
		last += crowdRounds * arg[T](pe)
	}
	crowd(t, w, "AtomicAdd", 0, last, func(c *shmem.Ctx, x shmem.Sym[T], _ int) error { return shmem.AtomicAdd(c, x, arg[T](me), 0) })
}

// ownBit is the bit that a PE alone changes in a crowd.
func ownBit[T shmem.AMOBits](w *shmem.World) T { return T(1) << w.MyPE() }

// bitwise tests an operation that combines: by single, and by all at once, each of which
// changes its own bit in each of an odd number of rounds or leaves it as it is.
func (bitsOf[T]) bitwise(t *testing.T, w *shmem.World, name string, fetches bool, op func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error), combine func(a, b T) T, with, first, last T) {
	t.Helper()
	me := w.MyPE()
	single(t, w, name, fetches,
		func(c *shmem.Ctx, x shmem.Sym[T], pe, _ int) (T, error) { return op(c, x, arg[T](me), pe) },
		func(before T, by int) T { return combine(before, arg[T](by)) })
	own := first & ownBit[T](w)
	crowd(t, w, name, first, last, func(c *shmem.Ctx, x shmem.Sym[T], r int) error {
		if r == 0 {
			return nil // so that the number is odd
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
			return waited(shmem.AtomicFetchAndNBI(c, x, v, pe))
		}
	}
	all := T(1)<<w.NPEs() - 1
	b.bitwise(t, w, name, true, op, func(a, b T) T { return a & b }, ^ownBit[T](w), ^T(0), ^all)
}

func (b bitsOf[T]) and(t *testing.T, w *shmem.World) {
	t.Helper()
	all := T(1)<<w.NPEs() - 1
	b.bitwise(t, w, "AtomicAnd", false, func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
		return silent[T](shmem.AtomicAnd(c, x, v, pe))
	}, func(a, b T) T { return a & b }, ^ownBit[T](w), ^T(0), ^all)
}

func (b bitsOf[T]) fetchOr(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	name, op := "AtomicFetchOr", shmem.AtomicFetchOr[T]
	if nbi {
		name, op = "AtomicFetchOrNBI", func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
			return waited(shmem.AtomicFetchOrNBI(c, x, v, pe))
		}
	}
	all := T(1)<<w.NPEs() - 1
	b.bitwise(t, w, name, true, op, func(a, b T) T { return a | b }, ownBit[T](w), 0, all)
}

func (b bitsOf[T]) or(t *testing.T, w *shmem.World) {
	t.Helper()
	all := T(1)<<w.NPEs() - 1
	b.bitwise(t, w, "AtomicOr", false, func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
		return silent[T](shmem.AtomicOr(c, x, v, pe))
	}, func(a, b T) T { return a | b }, ownBit[T](w), 0, all)
}

func (b bitsOf[T]) fetchXor(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	name, op := "AtomicFetchXor", shmem.AtomicFetchXor[T]
	if nbi {
		name, op = "AtomicFetchXorNBI", func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
			return waited(shmem.AtomicFetchXorNBI(c, x, v, pe))
		}
	}
	all := T(1)<<w.NPEs() - 1
	b.bitwise(t, w, name, true, op, func(a, b T) T { return a ^ b }, ownBit[T](w), 0, all)
}

func (b bitsOf[T]) xor(t *testing.T, w *shmem.World) {
	t.Helper()
	all := T(1)<<w.NPEs() - 1
	b.bitwise(t, w, "AtomicXor", false, func(c *shmem.Ctx, x shmem.Sym[T], v T, pe int) (T, error) {
		return silent[T](shmem.AtomicXor(c, x, v, pe))
	}, func(a, b T) T { return a ^ b }, ownBit[T](w), 0, all)
}
