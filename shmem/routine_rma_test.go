package shmem_test

import (
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/shmem"
)

// rmaType is an element type for the tests of remote memory access. Its methods are the tests of
// that type.
type rmaType interface {
	put(t *testing.T, w *shmem.World, nbi bool)
	get(t *testing.T, w *shmem.World, nbi bool)
	p(t *testing.T, w *shmem.World)
	g(t *testing.T, w *shmem.World)
	iput(t *testing.T, w *shmem.World, blocks bool)
	iget(t *testing.T, w *shmem.World, blocks bool)
	putSignal(t *testing.T, w *shmem.World, nbi bool)
}

type rmaOf[T comparable] struct{}

type mixed struct {
	A int32
	B [3]uint16
}

type padded struct {
	A uint8
	B float64
	C uint16
}

// rmaTypes have all sizes up to 16 bytes, and a few larger ones.
var rmaTypes = []rmaType{
	rmaOf[int8]{},
	rmaOf[uint8]{},
	rmaOf[int16]{},
	rmaOf[uint16]{},
	rmaOf[int32]{},
	rmaOf[uint32]{},
	rmaOf[int64]{},
	rmaOf[uint64]{},
	rmaOf[int]{},
	rmaOf[uint]{},
	rmaOf[uintptr]{},
	rmaOf[float32]{},
	rmaOf[float64]{},
	rmaOf[complex64]{},
	rmaOf[complex128]{},
	rmaOf[mixed]{},
	rmaOf[padded]{},
	rmaOf[[3]byte]{},
	rmaOf[[5]byte]{},
	rmaOf[[3]int16]{},
	rmaOf[[7]byte]{},
	rmaOf[[9]byte]{},
	rmaOf[[5]uint16]{},
	rmaOf[[11]byte]{},
	rmaOf[[3]float32]{},
	rmaOf[[13]byte]{},
	rmaOf[[7]int16]{},
	rmaOf[[15]byte]{},
	rmaOf[[2]int64]{},
	rmaOf[[100]byte]{},
	rmaOf[[4]complex128]{},
}

// elem is the i-th element of PE pe. If the type is large enough, no two are equal. None is zero,
// and no floating-point element is a NaN.
func elem[T comparable](pe, i int) (v T) {
	h := uint64(pe)<<32 | uint64(i+1)
	for k := range unsafe.Sizeof(v) {
		h = h*6364136223846793005 + 1442695040888963407
		*(*byte)(unsafe.Add(unsafe.Pointer(&v), k)) = 1 + byte(h>>33)%63
	}
	return v
}

// values returns n elements of a PE, from the i-th on.
func values[T comparable](pe, i, n int) []T {
	all := make([]T, n)
	for k := range all {
		all[k] = elem[T](pe, i+k)
	}
	return all
}

// neighbors returns the PEs before and after this one.
func neighbors(w *shmem.World) (left, right int) {
	n := w.NPEs()
	return (w.MyPE() + n - 1) % n, (w.MyPE() + 1) % n
}

// checkElements compares all elements of an object on this PE.
func checkElements[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%T: %s: %d elements, want %d", got, what, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%T: %s: element %d is %v, want %v", got, what, i, got[i], want[i])
		}
	}
}

// quietAndCheck completes all puts and compares this PE's copy. No PE returns before all have
// compared.
func quietAndCheck[T comparable](t *testing.T, w *shmem.World, what string, x shmem.Sym[T], want []T) {
	t.Helper()
	ok(t, w.Barrier())
	checkElements(t, what, x.Local(), want)
	ok(t, w.Barrier())
}

var _ = routine("shmem_put", func(t *testing.T, w *shmem.World) {
	for _, e := range rmaTypes {
		e.put(t, w, false)
	}
	c, x := w.Ctx(), must(shmem.Calloc[int64](w, 3))(t)
	wantError(t, shmem.Put(c, x, make([]int64, 4), 0), shmem.ErrBounds, "Put")
	wantError(t, shmem.Put(c, x, nil, w.NPEs()), shmem.ErrPERange, "Put")
	ok(t, shmem.Free(w, x))
})

var _ = routine("shmem_put_nbi", func(t *testing.T, w *shmem.World) {
	for _, e := range rmaTypes {
		e.put(t, w, true)
	}
	c, x := w.Ctx(), must(shmem.Calloc[int64](w, 3))(t)
	wantError(t, shmem.PutNBI(c, x, make([]int64, 4), 0), shmem.ErrBounds, "PutNBI")
	wantError(t, shmem.PutNBI(c, x, nil, -1), shmem.ErrPERange, "PutNBI")
	ok(t, shmem.Free(w, x))
})

// put tests several lengths at several offsets, to the right neighbor and to this PE.
func (rmaOf[T]) put(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	const room = 300
	c, me := w.Ctx(), w.MyPE()
	left, right := neighbors(w)
	x := must(shmem.Calloc[T](w, 2*room))(t) // the second half is for puts of a PE to itself
	want := make([]T, 2*room)
	for r, at := range []struct{ off, n int }{{0, 0}, {1, 1}, {2, 2}, {4, 3}, {7, 7}, {17, 64}, {103, 196}, {0, room}} {
		src, own := values[T](me, r*room, at.n), values[T](me, r*room+7, at.n)
		if nbi {
			ok(t, shmem.PutNBI(c, x.Slice(at.off, room), src, right))
			ok(t, shmem.PutNBI(c, x.Slice(room+at.off, 2*room), own, me))
			ok(t, c.Quiet()) // after it, the source may be reused
			clear(src)
		} else {
			ok(t, shmem.Put(c, x.Slice(at.off, room), src, right))
			clear(src)
			ok(t, shmem.Put(c, x.Slice(room+at.off, 2*room), own, me))
		}
		copy(want[at.off:], values[T](left, r*room, at.n))
		copy(want[room+at.off:], own)
		quietAndCheck(t, w, "after a put", x, want)
	}
	ok(t, shmem.Free(w, x))
}

var _ = routine("shmem_get", func(t *testing.T, w *shmem.World) {
	for _, e := range rmaTypes {
		e.get(t, w, false)
	}
	c, x := w.Ctx(), must(shmem.Calloc[int64](w, 3))(t)
	wantError(t, shmem.Get(c, make([]int64, 4), x, 0), shmem.ErrBounds, "Get")
	wantError(t, shmem.Get(c, nil, x, w.NPEs()), shmem.ErrPERange, "Get")
	ok(t, shmem.Free(w, x))
})

var _ = routine("shmem_get_nbi", func(t *testing.T, w *shmem.World) {
	for _, e := range rmaTypes {
		e.get(t, w, true)
	}
	c, x := w.Ctx(), must(shmem.Calloc[int64](w, 3))(t)
	wantError(t, errOf(shmem.GetNBI(c, make([]int64, 4), x, 0)), shmem.ErrBounds, "GetNBI")
	p, err := shmem.GetNBI(c, nil, x, w.NPEs())
	wantError(t, err, shmem.ErrPERange, "GetNBI")
	wantError(t, errOf(p.Wait()), shmem.ErrArgument, "Pending.Wait")
	ok(t, shmem.Free(w, x))
})

// get tests several lengths at several offsets, into the middle of a slice.
func (rmaOf[T]) get(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	const room = 300
	c, me := w.Ctx(), w.MyPE()
	_, right := neighbors(w)
	x := must(shmem.Calloc[T](w, room))(t)
	mine := values[T](me, 0, room)
	copy(x.Local(), mine)
	ok(t, w.Barrier())
	for _, pe := range []int{right, me} {
		for _, at := range []struct{ off, n int }{{5, 0}, {1, 1}, {2, 2}, {4, 3}, {7, 7}, {17, 64}, {103, 196}, {0, room}} {
			got, want := values[T](me, 1000, room+2), values[T](me, 1000, room+2)
			if dst, src := got[1:1+at.n], x.Slice(at.off, room); nbi {
				p := must(shmem.GetNBI(c, dst, src, pe))(t)
				for range 2 {
					if v := must(p.Wait())(t); len(v) != at.n || at.n > 0 && &v[0] != &dst[0] {
						t.Fatal("Wait returned a different slice than the one passed to GetNBI")
					}
				}
			} else {
				ok(t, shmem.Get(c, dst, src, pe))
			}
			copy(want[1:], values[T](pe, at.off, at.n))
			checkElements(t, "the slice that was read into", got, want)
		}
	}
	quietAndCheck(t, w, "the source after gets", x, mine)
	ok(t, shmem.Free(w, x))
}

var _ = routine("shmem_p", func(t *testing.T, w *shmem.World) {
	for _, e := range rmaTypes {
		e.p(t, w)
	}
})

func (rmaOf[T]) p(t *testing.T, w *shmem.World) {
	t.Helper()
	const room = 5
	c, me := w.Ctx(), w.MyPE()
	left, right := neighbors(w)
	x := must(shmem.Calloc[T](w, room))(t)
	want := make([]T, room)
	for _, i := range []int{2, 0, 4} {
		ok(t, shmem.P(c, x.At(i), elem[T](me, i), right))
		want[i] = elem[T](left, i)
		quietAndCheck(t, w, "after p", x, want)
	}
	ok(t, shmem.P(c, x.Slice(1, 4), elem[T](me, 9), me)) // the first of three elements
	want[1] = elem[T](me, 9)
	quietAndCheck(t, w, "after p", x, want)
	ok(t, shmem.Free(w, x))
}

var _ = routine("shmem_g", func(t *testing.T, w *shmem.World) {
	for _, e := range rmaTypes {
		e.g(t, w)
	}
})

func (rmaOf[T]) g(t *testing.T, w *shmem.World) {
	t.Helper()
	const room = 5
	c, me := w.Ctx(), w.MyPE()
	_, right := neighbors(w)
	x := must(shmem.Calloc[T](w, room))(t)
	mine := values[T](me, 0, room)
	copy(x.Local(), mine)
	ok(t, w.Barrier())
	for _, pe := range []int{right, me} {
		for i := range room {
			if v := must(shmem.G(c, x.Slice(i, room), pe))(t); v != elem[T](pe, i) {
				t.Errorf("%T: G of element %d of PE %d returned %v, want %v", v, i, pe, v, elem[T](pe, i))
			}
		}
	}
	quietAndCheck(t, w, "the source after G", x, mine)
	ok(t, shmem.Free(w, x))
}
