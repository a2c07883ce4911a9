package coll

import (
	"context"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Scan combines N elements of the sources of all members up to this one, in the
// order of the group, into its destination: with its own one, or without it if
// exclusive, when the first member gets zeros. Source and destination may be the
// same object.
//
// Small data: everybody combines what it needs. Large data: member i combines the
// i-th part of all and puts each intermediate result to whom it belongs. An element
// has at most layout.SlotSize bytes.
func Scan[T any](ctx context.Context, t *Team, b Buffers, op Folder[T], exclusive bool) error {
	size := bytesOf[T](b.N)
	if size > t.small {
		return scanLarge(ctx, t, b, op, exclusive)
	}
	seq, err := t.exchange(ctx, view[byte](t.at(t.me, b.Src), size))
	if err != nil {
		return err
	}
	dst := view[T](t.at(t.me, b.Dst), b.N)
	end := t.me + 1
	if exclusive {
		end = t.me
	}
	if end == 0 {
		clear(dst)
		return nil
	}
	copy(dst, view[T](t.slot(0, seq, size), b.N))
	for i := 1; i < end; i++ {
		op.Fold(dst, view[T](t.slot(i, seq, size), b.N))
	}
	return nil
}

// scanLarge has this member's slots hold a piece of the result while it is made:
// nobody reads them in these steps. As no other member reads this part of a source,
// and this one has read it when it writes that of the destination, the two objects
// may be one.
func scanLarge[T any](ctx context.Context, t *Team, b Buffers, op Folder[T], exclusive bool) (err error) {
	seq, err := t.begin(2)
	if err != nil {
		return err
	}
	defer t.end(&err)
	if err := t.meet(ctx, seq); err != nil {
		return err
	}
	piece := layout.SlotSize / bytesOf[T](1)
	lo, hi := share(b.N, len(t.members), t.me)
	for ; lo < hi; lo += piece {
		n := min(piece, hi-lo)
		at := uint64(bytesOf[T](lo))
		acc := view[T](t.slot(t.me, seq, layout.SlotSize), n)
		before := view[T](t.slot(t.me, seq+1, layout.SlotSize), n)
		clear(before)
		for i := range t.members {
			out := acc
			if exclusive {
				out = before
			}
			if i == 0 {
				copy(acc, view[T](t.at(0, b.Src+at), n))
			} else {
				if exclusive {
					copy(before, acc)
				}
				op.Fold(acc, view[T](t.at(i, b.Src+at), n))
			}
			copy(view[T](t.at(i, b.Dst+at), n), out)
		}
	}
	return t.meet(ctx, seq+1)
}
