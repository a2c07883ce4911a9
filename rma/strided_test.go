package rma

import (
	"fmt"
	"testing"
	"unsafe"
)

// Scatter and Gather move exactly the elements of their blocks, for element types and blocks that
// use each of their methods.
func TestStrided(t *testing.T) {
	stridedOf[byte](t)
	stridedOf[uint16](t)
	stridedOf[[3]byte](t)
	stridedOf[float64](t)
	stridedOf[complex128](t)
	stridedOf[[5]uint64](t)
}

func stridedOf[T comparable](t *testing.T) {
	t.Helper()
	var count byte
	fill := func(room int) []T {
		all := make([]T, room)
		size := int(unsafe.Sizeof(all[0]))
		for i := range room * size {
			count = count%63 + 1 // no bit pattern of it is a NaN
			*(*byte)(unsafe.Add(unsafe.Pointer(&all[0]), i)) = count
		}
		return all
	}
	for _, block := range []int{1, 2, 3, 4, 5, 17} {
		for _, n := range []int{0, 1, 2, 7} {
			for _, wider := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {3, 5}} {
				dstStep, srcStep := block+wider[0], block+wider[1]
				src, dst := fill(n*srcStep+1), fill(n*dstStep+1)
				want := append([]T(nil), dst...)
				for b := range n {
					copy(want[b*dstStep:b*dstStep+block], src[b*srcStep:])
				}
				got, untyped := append([]T(nil), dst...), append([]T(nil), dst...)
				Scatter(unsafe.Pointer(&got[0]), src, dstStep, srcStep, block, n)
				Gather(dst, unsafe.Pointer(&src[0]), dstStep, srcStep, block, n)
				CopyStrided(unsafe.Pointer(&untyped[0]), unsafe.Pointer(&src[0]), unsafe.Sizeof(src[0]), dstStep, srcStep, block, n)
				name := fmt.Sprintf("%T: %d blocks of %d, steps %d and %d", src[0], n, block, dstStep, srcStep)
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: Scatter wrote %v, want %v", name, got, want)
				}
				if fmt.Sprint(untyped) != fmt.Sprint(want) {
					t.Errorf("%s: CopyStrided wrote %v, want %v", name, untyped, want)
				}
				if fmt.Sprint(dst) != fmt.Sprint(want) {
					t.Errorf("%s: Gather read %v, want %v", name, dst, want)
				}
			}
		}
	}
}
