package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// # Large exchanges of private memory
//
// Blocks that do not fit into a slot go through the members' areas (area.go), piece by piece. A piece has a slice of each
// block that the member gives to others. In the first step, members also tell each other whether they have their areas.
// If one has none, nothing is moved.
//
//   - Piece k is for step first+k. It lies in the place of that step, whatever collective the step belongs to.
//   - Members read a piece, of these collectives and of reductions (shared.go), before they enter the second step after
//     the one that it was written for. So its place is written again when all have entered that: awaitAreaPlace.
//   - A member that waits for nobody else may so be several pieces ahead.

// pieces is a large exchange, as one member makes it.
//
//   - Writes: this member's own area.
//   - Reads: those of all members.
type pieces struct {
	t      *Team
	n      int    // bytes of a block
	slice  int    // bytes of a block in a piece
	first  uint64 // the step of the first piece
	places uint64 // of an area
}

// newPieces returns an exchange in which pieces have slices of so many blocks, of n bytes each. A slice is a whole number of
// elements. If it has none, pieces are of no use.
func newPieces(t *Team, n, blocks, element int) pieces {
	slice := pieceBytes / blocks &^ 63
	return pieces{t: t, n: n, slice: slice / element * element, places: countPlaces(t)}
}

// count returns how many pieces there are.
func (p *pieces) count() int { return (p.n + p.slice - 1) / p.slice }

// bounds returns which bytes of a block are in piece k.
func (p *pieces) bounds(k int) (lo, hi int) { return k * p.slice, min((k+1)*p.slice, p.n) }

// placeOf returns where the slice of a block is in member i's piece k.
func (p *pieces) placeOf(i, k, block int) unsafe.Pointer {
	place := (p.first + uint64(k)) % p.places
	return unsafe.Add(unsafe.Pointer(&p.t.members[i].Area), int(place)*pieceBytes+block*p.slice)
}

// copyTo copies bytes to this member's piece k, as the slice of a block.
func (p *pieces) copyTo(k, block int, bytes []byte) {
	copy(unsafe.Slice((*byte)(p.placeOf(p.t.me, k, block)), len(bytes)), bytes)
}

// awaitAreaPlace returns when no member reads any more what the place of a step holds.
func (t *Team) awaitAreaPlace(ctx context.Context, seq, places uint64) error {
	if seq+2 <= places {
		return nil
	}
	return t.awaitAll(ctx, seq+2-places)
}

// exchange is a large exchange, as one member makes it.
type exchange struct {
	pieces
	heading heading
	lent    lent // what the others may read instead of pieces
}

// run makes an exchange: give puts this member's slices of piece k into its area, take copies those of the others, and read
// reads from what all have lent.
func (x *exchange) run(ctx context.Context, give, take func(k int), read func(from []word) bool) (done bool, err error) {
	if x.slice == 0 || x.t.tolerant {
		return x.t.compareOnly(ctx, x.heading)
	}
	t, last := x.t, uint64(x.count())
	seq, err := t.beginCollective(last + 1)
	if err != nil {
		return true, err
	}
	defer t.endCollective(&err)
	x.first, last = seq, seq+last
	until, mine := last, x.lent.word(t)
	switch {
	case mine.lends():
	case (area{t}).claim():
		defer func() { area{t}.release(until) }()
		if err := t.awaitAreaPlace(ctx, seq, x.places); err != nil {
			return true, err
		}
		give(0)
		mine = inPieces
	}
	all, err := t.tellWords(ctx, x.heading, seq, mine)
	if err != nil {
		return true, err
	}
	switch wayOf(all) {
	case inPieces:
		return true, x.movePieces(ctx, last, give, take)
	case lentMemory:
		t.state.Seq = seq + 1
		return loans{t}.end(ctx, seq+1, all, read)
	}
	until = seq       // nobody has looked into it
	t.state.Seq = seq // nobody enters the other steps
	t.lending.lent = nil
	return false, nil
}

// movePieces gives and takes the pieces. This member has given the first one.
func (x *exchange) movePieces(ctx context.Context, last uint64, give, take func(k int)) error {
	t := x.t
	for k := range x.count() {
		seq := x.first + uint64(k)
		if k > 0 {
			if err := t.awaitAreaPlace(ctx, seq, x.places); err != nil {
				return err
			}
			give(k)
			if err := t.meet(ctx, seq); err != nil {
				return err
			}
		}
		take(k)
	}
	return x.end(ctx, last)
}

// end enters the last step, which says that this member has read all. A member waits for the others only if its area goes
// from team to team.
func (p *pieces) end(ctx context.Context, last uint64) error {
	p.t.enterStep(last, false)
	if (area{p.t}).moves() {
		_ = p.t.awaitAll(ctx, last) // the result is there, whatever becomes of the others
	}
	return p.t.Whole()
}

// allgatherPieces is AllgatherPrivate for what does not fit into a slot.
func allgatherPieces(ctx context.Context, t *Team, dst, src []byte) (done bool, err error) {
	p := newPieces(t, len(src), 1, 1)
	if &dst[t.me*p.n] != &src[0] {
		copy(dst[t.me*p.n:(t.me+1)*p.n], src)
	}
	x := exchange{pieces: p, heading: headingOf(whatAllgatherPieces, -1, p.n), lent: lend(src, p.n)}
	return x.run(ctx, func(k int) { x.giveSlice(src, k) }, func(k int) { x.takeBlocks(dst, k, 0) }, func(from []word) bool { return loans{t}.copyBlocks(dst, x.n, from, 0) })
}

// giveSlice copies the slice of the only block to piece k.
func (p *pieces) giveSlice(src []byte, k int) {
	lo, hi := p.bounds(k)
	p.copyTo(k, 0, src[lo:hi])
}

// takeBlocks copies the others' slices of piece k of a block to their parts of dst.
func (p *pieces) takeBlocks(dst []byte, k, block int) {
	lo, hi := p.bounds(k)
	for j := 1; j < len(p.t.members); j++ {
		i := (p.t.me + j) % len(p.t.members) // not everybody at the same area at once
		rma.CopyOut(dst[i*p.n+lo:i*p.n+hi], p.placeOf(i, k, block))
	}
}

// alltoallPieces is AlltoallPrivate for what does not fit into a slot.
func alltoallPieces(ctx context.Context, t *Team, dst, src []byte) (done bool, err error) {
	p := newPieces(t, len(src)/len(t.members), len(t.members), 1)
	own := t.me * p.n
	x := exchange{pieces: p, heading: headingOf(whatAlltoallPieces, -1, p.n)}
	if &dst[0] != &src[0] { // others may not read what this member writes to
		copy(dst[own:own+p.n], src[own:own+p.n])
		x.lent = lend(src, p.n)
	}
	return x.run(ctx, func(k int) { x.giveBlocks(src, k) }, func(k int) { x.takeBlocks(dst, k, t.me) }, func(from []word) bool { return loans{t}.copyBlocks(dst, x.n, from, own) })
}

// giveBlocks copies the slices of all other members' blocks to piece k.
func (p *pieces) giveBlocks(src []byte, k int) {
	lo, hi := p.bounds(k)
	for i := range p.t.members {
		if i != p.t.me {
			p.copyTo(k, i, src[i*p.n+lo:i*p.n+hi])
		}
	}
}

// reduceScatterPieces is ReduceScatterPrivate for what does not fit into a slot.
func reduceScatterPieces[T any](ctx context.Context, t *Team, dst, src []T, op Op[T]) (done bool, err error) {
	p := newPieces(t, bytesOf[T](len(dst)), len(t.members), bytesOf[T](1))
	bytes, own := view[byte](unsafe.Pointer(unsafe.SliceData(src)), bytesOf[T](len(src))), t.me*len(dst)
	x := exchange{pieces: p, heading: headingOf(whatReduceScatterPieces, -1, p.n).of(bytesOf[T](1))}
	return x.run(ctx, func(k int) { x.giveBlocks(bytes, k) }, func(k int) {
		foldPiece(&x.pieces, k, dst, src[own:own+len(dst)], op)
	}, nil)
}

// foldPiece combines the slices of piece k of all members' blocks for this one, one small part after the other, so that it
// stays in the first cache.
func foldPiece[T any](p *pieces, k int, dst, own []T, op Op[T]) {
	lo, hi := p.bounds(k)
	size := bytesOf[T](1)
	part := max(1, blockBytes/size) * size
	for at := lo; at < hi; at += part {
		end := min(at+part, hi)
		acc := dst[at/size : end/size]
		for i := range p.t.members {
			in := own[at/size : end/size]
			if i != p.t.me {
				in = view[T](unsafe.Add(p.placeOf(i, k, p.t.me), at-lo), len(acc))
			}
			if i == 0 {
				copy(acc, in)
			} else {
				op(acc, in)
			}
		}
	}
}
