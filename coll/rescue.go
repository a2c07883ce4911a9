package coll

import (
	"context"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// reduction is a large reduction or scan of symmetric memory, of which this member makes a part. The
// part is made of pieces, each of which fits into a slot.
//
//   - Writes: the log of its pieces in this member's own slots, how far it is in its own word Part,
//     and finished pieces in all members' destinations. Package board argues the order.
//   - Reads: the sources of all contributors; of those that died, also log and Part.
type reduction[T any] struct {
	t   *Team
	b   Buffers
	op  Op[T]
	seq uint64 // the first step; sources may be read after it
	who []int  // the contributors of the first step
}

// eachPiece calls f with all pieces of what the k-th contributor makes.
func (r *reduction[T]) eachPiece(k int, f func(piece, lo, n int)) {
	size := layout.SlotSize / bytesOf[T](1)
	lo, hi := board.Share(r.b.N, len(r.who), k)
	for piece := 0; lo < hi; piece, lo = piece+1, lo+size {
		f(piece, lo, min(size, hi-lo))
	}
}

// logOf returns where member i makes the k-th of its pieces: in its own slots. No other member reads
// them in these steps unless member i is dead.
func (r *reduction[T]) logOf(i, k, n int) []T {
	return view[T](r.t.contributionOf(i, r.seq+uint64(k), layout.SlotSize), n)
}

// elements returns elements lo to lo+n of the object at offset off in member i's segment.
func (r *reduction[T]) elements(i int, off uint64, lo, n int) []T {
	return elements[T](r.t, i, off+uint64(bytesOf[T](lo)), n)
}

// foldSources makes a piece from the sources of some contributors, at least one.
func (r *reduction[T]) foldSources(acc []T, lo int, who []int) {
	copy(acc, r.elements(who[0], r.b.Src, lo, len(acc)))
	r.foldMore(acc, lo, who[1:])
}

// foldMore folds further sources into a piece.
func (r *reduction[T]) foldMore(acc []T, lo int, who []int) {
	for _, i := range who {
		r.op(acc, r.elements(i, r.b.Src, lo, len(acc)))
	}
}

// pushPart makes this member's part and puts it to all. It publishes before and after each piece
// how far it is.
func (r *reduction[T]) pushPart(k int) {
	said := r.t.progressOf(r.t.me)
	r.eachPiece(k, func(piece, lo, n int) {
		acc := r.logOf(r.t.me, 0, n)
		r.foldSources(acc, lo, r.who)
		rma.StoreRelease(said, board.Logged(piece))
		for _, i := range r.who {
			copy(r.elements(i, r.b.Dst, lo, n), acc)
		}
		rma.StoreRelease(said, board.Pushed(piece))
	})
}

// lacksPart says whether a contributor died before it had made its part.
func (r *reduction[T]) lacksPart() bool {
	for _, i := range r.who {
		if !r.t.hasEntered(i, r.seq+1) {
			return true
		}
	}
	return false
}

// rescued is a piece that was made aside.
type rescued[T any] struct {
	lo    int
	bytes []T
}

// rescueParts makes what dead members have left undone. Each survivor makes all of it for itself,
// from the same sources. It makes it aside, because its own source may be its destination, and
// others still read that. After the step of installAside no member does.
func (r *reduction[T]) rescueParts(ctx context.Context) error {
	var aside []rescued[T]
	for k, i := range r.who {
		if r.t.hasEntered(i, r.seq+1) {
			continue
		}
		said := atomic.LoadUint64(r.t.progressOf(i))
		r.eachPiece(k, func(piece, lo, n int) {
			switch means := board.Recover(said, piece); means {
			case board.Have:
			case board.Log:
				aside = append(aside, rescued[T]{lo, append([]T(nil), r.logOf(i, 0, n)...)})
			case board.Make:
				acc := make([]T, n)
				r.foldSources(acc, lo, r.who)
				aside = append(aside, rescued[T]{lo, acc})
			}
		})
	}
	return r.installAside(ctx, aside)
}

// installAside copies what was made aside to this member's destination, when no member reads a
// source any more.
func (r *reduction[T]) installAside(ctx context.Context, aside []rescued[T]) error {
	r.t.state.Seq++
	if err := r.t.meetLast(ctx, r.t.state.Seq); err != nil {
		return err
	}
	for _, p := range aside {
		copy(r.elements(r.t.me, r.b.Dst, p.lo, len(p.bytes)), p.bytes)
	}
	return nil
}

// progressOf returns the word in which member i publishes how far it is: in its part of a large
// reduction, or with the blocks of a large exchange by turns. Only the member writes it.
func (t *Team) progressOf(i int) *uint64 { return &t.members[i].Teams[t.id].Part }
