package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// Strides are the distances, in elements, between the elements that a strided exchange moves: 1 when
// they are next to each other.
type Strides struct{ Dst, Src int }

// AlltoallS is Alltoall with strides between the elements of source and destination, within blocks
// and from one block to the next alike. Element k of the block for member i is i*N+k strides from
// the start of the source.
//
// Small data are packed into slots; large data are read where they lie.
func AlltoallS[T any](ctx context.Context, t *Team, b Buffers, s Strides) (err error) {
	all := b.N * len(t.members)
	size := bytesOf[T](all)
	if size > t.slotBytes {
		return alltoallsLarge[T](ctx, t, b, s)
	}
	seq, err := t.beginCollective(1)
	if err != nil {
		return err
	}
	defer t.endCollective(&err)
	to, err := t.awaitPlace(ctx, seq, size)
	if err != nil {
		return err
	}
	copyStrided[T](to, 1, t.address(t.me, b.Src), s.Src, all)
	if err := t.meet(ctx, seq); err != nil {
		return err
	}
	for _, i := range t.contributors(seq) {
		from := unsafe.Add(t.contributionOf(i, seq, size), bytesOf[T](t.me*b.N))
		copyStrided[T](t.address(t.me, b.Dst+uint64(bytesOf[T](i*b.N*s.Dst))), s.Dst, from, 1, b.N)
	}
	return nil
}

// alltoallsLarge lets each member read its blocks where they lie.
func alltoallsLarge[T any](ctx context.Context, t *Team, b Buffers, s Strides) (err error) {
	seq, err := t.beginCollective(2)
	if err != nil {
		return err
	}
	defer t.endCollective(&err)
	said := t.announceCall(seq, call{kindOf[T](callAlltoallS, mix(uint64(s.Src))), uint64(b.N), b.Src, uint64(s.Dst)})
	t.enterStep(seq, false)
	at := uint64(bytesOf[T](t.me * b.N * s.Src))
	for k := range t.members {
		i := (t.me + k) % len(t.members) // not everybody at the same source at once
		v, err := t.awaitMember(ctx, i, seq)
		if err != nil {
			return err
		}
		if v == 0 {
			continue // dead short of it
		}
		if err := t.checkCallOf(i, said); err != nil {
			return err
		}
		copyStrided[T](t.address(t.me, b.Dst+uint64(bytesOf[T](i*b.N*s.Dst))), s.Dst, t.address(i, b.Src+at), s.Src, b.N)
	}
	return t.meetLast(ctx, seq+1)
}

// copyStrided copies n elements that are strides apart.
func copyStrided[T any](dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, n int) {
	if dstStride == 1 && srcStride == 1 {
		rma.MoveOut(view[T](dst, n), src)
		return
	}
	d, s := uintptr(bytesOf[T](dstStride)), uintptr(bytesOf[T](srcStride))
	for i := range uintptr(n) {
		*(*T)(unsafe.Add(dst, i*d)) = *(*T)(unsafe.Add(src, i*s))
	}
}
