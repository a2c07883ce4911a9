package shmem_test

import (
	"errors"
	"math"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// particle has fields of several widths, at offsets that are not multiples of its size.
type particle struct {
	Kind   uint8
	Charge int32
	Bonds  [3]uint32
	Where  struct{ X, Y float64 }
	Ready  uint64
}

var (
	kind   = shmem.FieldOf(func(p *particle) *uint8 { return &p.Kind })
	charge = shmem.FieldOf(func(p *particle) *int32 { return &p.Charge })
	bonds  = shmem.FieldOf(func(p *particle) *[3]uint32 { return &p.Bonds })
	bond2  = shmem.FieldOf(func(p *particle) *uint32 { return &p.Bonds[2] })
	whereY = shmem.FieldOf(func(p *particle) *float64 { return &p.Where.Y })
	ready  = shmem.FieldOf(func(p *particle) *uint64 { return &p.Ready })
	whole  = shmem.FieldOf(func(p *particle) *particle { return p })
)

// Each PE changes fields of the second element on its right neighbor, with each kind of operation
// that takes fields. The rest of that element and all other elements stay unchanged.
func TestFieldOperations(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
		x := must(shmem.Calloc[particle](w, 3))(t)
		right, left := (me+1)%n, (me+n-1)%n
		ok(t, shmem.P(c, kind.At(x, 1), uint8(200+me), right))
		ok(t, shmem.AtomicAdd(c, charge.At(x, 1), int32(-5-me), right))
		ok(t, shmem.P(c, bonds.At(x, 1), [3]uint32{1, 2, 3}, right))
		ok(t, c.Fence())
		old := must(shmem.AtomicFetchAdd(c, bond2.At(x, 1), 10, right))(t)
		if old != 3 {
			t.Errorf("AtomicFetchAdd of the third bond returned %d, want 3", old)
		}
		ok(t, shmem.P(c, whereY.At(x, 1), float64(me)/2, right))
		ok(t, c.Fence())
		ok(t, c.SignalSet(ready.At(x, 1), uint64(7+me), right))

		ok(t, shmem.WaitUntil(c, ready.At(x, 1), shmem.EQ, uint64(7+left)))
		want := particle{Kind: uint8(200 + left), Charge: int32(-5 - left), Bonds: [3]uint32{1, 2, 13}, Ready: uint64(7 + left)}
		want.Where.Y = float64(left) / 2
		if got := x.Local()[1]; got != want {
			t.Errorf("element 1 is %+v, want %+v", got, want)
		}
		if x.Local()[0] != (particle{}) || x.Local()[2] != (particle{}) {
			t.Errorf("elements 0 and 2 are %+v and %+v, want zeros", x.Local()[0], x.Local()[2])
		}
		if got := must(shmem.G(c, whole.At(x, 1), me))(t); got != want {
			t.Errorf("the field of the whole element is %+v, want %+v", got, want)
		}
		if local := bond2.At(x, 1).Local(); len(local) != 1 || &local[0] != &x.Local()[1].Bonds[2] {
			t.Error("Local of a field and the field of Local have different addresses")
		}
	})
}

// A handle of an invalid field fails at its first use and says what is wrong.
func TestFieldRefused(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		c := w.Ctx()
		x := must(shmem.Calloc[particle](w, 3))(t)
		for _, i := range []int{-1, 3, 1 << 60} {
			wantError(t, shmem.P(c, ready.At(x, i), 1, 0), shmem.ErrBounds, "index", "of 3 elements")
		}
		wantError(t, shmem.P(c, ready.At(x.At(5), 0), 1, 0), shmem.ErrBounds, "index 5 of 3 elements")
		wantError(t, shmem.P(c, ready.At(shmem.Sym[particle]{}, 0), 1, 0), shmem.ErrForeignHandle, "zero value")
		var elsewhere uint64
		var none shmem.Field[particle, uint64]
		for name, bad := range map[string]shmem.Field[particle, uint64]{
			"zero Field":       none,
			"address outside":  shmem.FieldOf(func(*particle) *uint64 { return &elsewhere }),
			"nil":              shmem.FieldOf(func(*particle) *uint64 { return nil }),
			"element past end": shmem.FieldOf(func(p *particle) *uint64 { return (*uint64)(unsafe.Add(unsafe.Pointer(&p.Ready), 8)) }),
		} {
			h := bad.At(x, 0)
			wantError(t, shmem.P(c, h, 1, 0), shmem.ErrArgument, "FieldOf")
			_, err := shmem.AtomicFetchAdd(c, h.At(0), 1, 0)
			wantError(t, err, shmem.ErrArgument, "FieldOf")
			if h.Len() != 0 || h.Local() != nil {
				t.Errorf("%s: Len() = %d, want 0", name, h.Len())
			}
		}
		ok(t, shmem.Free(w, x))
		wantError(t, shmem.P(c, ready.At(x, 0), 1, 0), shmem.ErrFreed)
	})
}

// Operations on the bits of elements are those on the elements. Elements of another size have no such handle, and a bad index
// stays bad.
func TestBits(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c := w.Ctx()
		x := must(shmem.Calloc[float64](w, 3))(t)
		y := must(shmem.Calloc[float32](w, 3))(t)
		if w.MyPE() == 0 {
			ok(t, shmem.AtomicSet(c, x.At(1), 1.5, 1))
			old := must(shmem.AtomicCompareSwap(c, shmem.Bits64(x).At(1), math.Float64bits(1.5), math.Float64bits(-2), 1))(t)
			if old != math.Float64bits(1.5) {
				t.Errorf("the bits were %#x, want %#x", old, math.Float64bits(1.5))
			}
			ok(t, shmem.AtomicSet(c, shmem.Bits32(y.At(2)), math.Float32bits(0.25), 1))
		}
		ok(t, w.Barrier())
		if w.MyPE() == 1 && (x.Local()[1] != -2 || y.Local()[2] != 0.25) {
			t.Errorf("elements %v and %v, want -2 and 0.25", x.Local()[1], y.Local()[2])
		}
		if err := shmem.AtomicSet(c, shmem.Bits32(x), 1, 0); !errors.Is(err, shmem.ErrForeignHandle) {
			t.Errorf("Bits32 of 64 bits: error %v, want %v", err, shmem.ErrForeignHandle)
		}
		if err := shmem.AtomicSet(c, shmem.Bits64(y), 1, 0); !errors.Is(err, shmem.ErrForeignHandle) {
			t.Errorf("Bits64 of 32 bits: error %v, want %v", err, shmem.ErrForeignHandle)
		}
		if err := shmem.AtomicSet(c, shmem.Bits64(x.At(3)), 1, 0); !errors.Is(err, shmem.ErrBounds) {
			t.Errorf("Bits64 of a bad index: error %v, want %v", err, shmem.ErrBounds)
		}
	})
}
