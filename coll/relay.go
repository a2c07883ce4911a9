package coll

import (
	"context"
	"unsafe"
)

// # Relays
//
// In some collectives of private memory a member waits only for those whose data it takes, piece by piece, each piece in one
// step: in large scans, large gathers, and reductions to a root.
//
// A piece fits into a slot. Mostly it goes through the member's area instead, so that the member may be more pieces ahead.
// By the heading in its slot a reader sees which way it comes, as in a large broadcast (stream.go).

// relay is such a collective, as one member makes it.
//
//   - Writes: this member's own area or slots.
//   - Reads: those of the member before it, or, at a root, of all.
type relay struct {
	t              *Team
	through, slots heading // of a piece in the area, and of one in a slot
	places         uint64
	hasArea        bool
	left           uint64 // the step by which this member has said that it has read all
}

// relayBytes is the most bytes of a piece.
const relayBytes = min(MaxPrivate, pieceBytes)

// newRelay returns a collective with two headings.
func newRelay(t *Team, what, root, bytes, size int) relay {
	return relay{t: t, through: headingOf(what, root, bytes).of(size), slots: headingOf(what+1, root, bytes).of(size), places: countPlaces(t)}
}

// leave enters one more step, in which nobody waits. It says that this member has read all, so that other teams get the
// areas. All members have such a step if there are several pieces.
func (r *relay) leave() {
	t := r.t
	seq, err := t.beginCollective(1)
	if err != nil { // a death: the result is there, and the next collective fails
		return
	}
	t.enterStep(seq, false)
	t.endCollective(&err)
	r.left = seq
}

// release leaves this member's area to others when all have entered the step after the last piece.
func (r *relay) release() {
	if r.left == 0 {
		r.left = r.t.state.Seq + 1
	}
	if r.hasArea {
		area{r.t}.release(r.left)
	}
}

// awaitPlaces returns where this member's heading and its piece of a step go, when no member reads what was there before.
func (r *relay) awaitPlaces(ctx context.Context, seq uint64, bytes int) (heading, piece unsafe.Pointer, err error) {
	t := r.t
	if !r.hasArea {
		heading, err = t.awaitPlace(ctx, seq, max(aCell, headingBytes+bytes))
		return heading, unsafe.Add(heading, headingBytes), err
	}
	if heading, err = t.awaitPlace(ctx, seq, aCell); err == nil {
		err = t.awaitAreaPlace(ctx, seq, r.places)
	}
	return heading, r.placeOf(t.me, seq), err
}

// writeHeading says which way this member's piece goes, which is there already.
func (r *relay) writeHeading(to unsafe.Pointer, seq uint64) {
	if r.hasArea {
		r.through.writeTo(to, seq)
	} else {
		r.slots.writeTo(to, seq)
	}
}

// placeOf returns where member i's piece of a step is in its area.
func (r *relay) placeOf(i int, seq uint64) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(&r.t.members[i].Area), int(seq%r.places)*pieceBytes)
}

// awaitPiece returns where the piece of member i is, when it is there.
func (r *relay) awaitPiece(ctx context.Context, i int, seq uint64, bytes int) (unsafe.Pointer, error) {
	t := r.t
	if _, err := t.awaitRoot(ctx, i, seq); err != nil {
		return nil, err
	}
	if _, ok := r.through.match(t.contributionOf(i, seq, aCell), seq); ok {
		return r.placeOf(i, seq), nil
	}
	piece, ok := r.slots.match(t.contributionOf(i, seq, max(aCell, headingBytes+bytes)), seq)
	if !ok {
		return nil, &OtherError{Member: i}
	}
	return piece, nil
}
