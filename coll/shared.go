package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Large reductions of private memory
//
// Members share out the folding, as in a reduction of symmetric memory. Each member puts what the
// others need of a piece into its area, folds its share of the piece, and collects the shares of
// all. While piece k is folded, the shares of piece k-1 are there already. So there is one step for
// each piece and one more. In the first step, members also tell each other whether they have their
// areas.
//
// An area has places, which hold pieces by turns. A place begins with the owner's share of the piece;
// the owner's contributions to the others' shares are behind it. Three places are enough:
//
//   - A member writes its contributions to piece k when all have entered the step before last. That
//     is after the last look at the contributions to piece k-2.
//   - It writes its share of piece k after its step, when all have done with the share of piece k-2.
//   - The next reduction or exchange (pieces.go) of the team may begin before the others have read all. A member writes
//     to the place of a step when all have entered the step after the ones in which its last contents were read:
//     awaitAreaPlace. With three places that is known already, unless collectives without such waits came before.
//   - Another team gets the area when all have entered one more step, by which they say that they
//     have done with it. Members wait for that step only if areas do go from team to team.
//
// A reduction that has failed leaves the area to no other team until the other members have
// entered that step or given it up.

// sharing is a large reduction of private memory, as one member makes it. A member writes into its
// own area, and reads those of all.
type sharing[T any] struct {
	t         *Team
	op        Op[T]
	dst, src  []T    // dst is nil where the result is not wanted
	room      int    // bytes of a place that the share may have
	most      int    // elements of a piece; all shares have as many
	places    uint64 // of an area: see countPlaces
	firstTurn uint64 // the step in which the first piece is contributed
}

// pieceBytes is the size of a place. A piece has as many bytes, or a few less where they are not
// shared out evenly.
const pieceBytes = 64 << 10

// countPlaces returns how many places for pieces the members of a team use by turns. Three would do.
// But to write to lines that others have just read, and still have in their caches, takes four
// times as long as to fetch them from a cache that all share. So there are as many places as
// make it likely that the lines have left the others' own caches. On a node with many members,
// who share those caches anyway, there is not more memory for that.
func countPlaces(t *Team) uint64 {
	const most, all = (layout.AreaSize - layout.StreamSize) / pieceBytes, 64
	return uint64(min(most, max(3, all/len(t.members))))
}

// newSharing returns a reduction of the team. Members share pieces out alike, whatever its
// elements are. So shares and contributions never are at each other's place.
func newSharing[T any](t *Team, dst, src []T, op Op[T]) sharing[T] {
	members := len(t.members)
	s := sharing[T]{t: t, op: op, dst: dst, src: src, room: pieceBytes / members &^ 63, places: countPlaces(t)}
	s.most = s.room / bytesOf[T](1) * members
	return s
}

// reduceShared is ReducePrivate for more than fits into a slot. It does nothing, and
// says so, if an element is too large to be a share, or if some member's area is in use.
func reduceShared[T any](ctx context.Context, t *Team, h heading, dst, src []T, op Op[T]) (done bool, err error) {
	s := newSharing(t, dst, src, op)
	if s.most == 0 {
		return false, nil
	}
	last := uint64(s.countPieces()) + 1
	seq, err := t.beginCollective(last + 1)
	if err != nil {
		return true, err
	}
	defer t.endCollective(&err)
	s.firstTurn, last = seq, seq+last
	mine, until := uint64(0), last
	if (area{t}).claim() {
		defer func() { area{t}.release(until) }()
		mine = 1
		if err := t.awaitAreaPlace(ctx, seq, s.places); err != nil {
			return true, err
		}
		s.contribute(0)
	}
	all, err := t.agreeOnAreas(ctx, h, seq, mine)
	if err != nil {
		return true, err
	}
	if !all {
		until = seq       // nobody has looked into it
		t.state.Seq = seq // nobody enters the other steps
		return false, nil
	}
	return true, s.reducePieces(ctx, last)
}

// agreeOnAreas says whether all members have the areas that they need, as mine says of this one's. It is a step.
func (t *Team) agreeOnAreas(ctx context.Context, h heading, seq, mine uint64) (all bool, err error) {
	to, err := t.awaitPlace(ctx, seq, headingBytes+8)
	if err != nil {
		return false, err
	}
	*(*uint64)(h.writeTo(to, seq)) = mine
	if err := t.meet(ctx, seq); err != nil {
		return false, err
	}
	who := t.contributors(seq)
	all = len(who) == len(t.members)
	for _, i := range who {
		data, ok := h.match(t.contributionOf(i, seq, headingBytes+8), seq)
		if !ok {
			return false, t.breakOnMismatch(i)
		}
		all = all && *(*uint64)(data) != 0
	}
	return all, nil
}

// countPieces returns how many pieces there are.
func (s *sharing[T]) countPieces() int { return (len(s.src) + s.most - 1) / s.most }

// reducePieces makes all pieces. The contributions to the first one are there already.
func (s *sharing[T]) reducePieces(ctx context.Context, last uint64) (err error) {
	seq := s.firstTurn
	for k := range s.countPieces() {
		// If a member is dead, its share will be missing. The steps to come tell all members.
		if s.diedBefore(seq) == nil {
			s.foldShare(k)
		}
		s.contribute(k + 1)
		seq++
		if err := s.t.meet(ctx, seq); err != nil {
			return err
		}
		if s.diedBefore(seq) == nil {
			s.collectShares(k)
		}
	}
	s.t.enterStep(last, false)
	if dead := s.diedBefore(seq); dead != nil {
		return &DeadError{Members: dead}
	}
	if (area{s.t}).moves() {
		_ = s.t.awaitAll(ctx, last) // the result is there, whatever becomes of the others
	}
	return nil
}

// diedBefore returns the members of a tolerant team that died short of step seq, which was
// waited for. All survivors find the same.
func (s *sharing[T]) diedBefore(seq uint64) (dead []int) {
	if s.t.dead == nil {
		return nil
	}
	for i := range s.t.members {
		if !s.t.hasEntered(i, seq) {
			dead = append(dead, i)
		}
	}
	return dead
}

// pieceBounds returns where piece k begins and how many elements it has: none beyond the last piece.
func (s *sharing[T]) pieceBounds(k int) (lo, n int) {
	lo = min(k*s.most, len(s.src))
	return lo, min(s.most, len(s.src)-lo)
}

// placeOf returns where member i has what it makes of piece k. The place begins with the share.
func (s *sharing[T]) placeOf(i, k int) unsafe.Pointer {
	place := (s.firstTurn + uint64(k)) % s.places
	return unsafe.Add(unsafe.Pointer(&s.t.members[i].Area), place*pieceBytes)
}

// contribution returns elements lo to hi of what member i contributes to piece k. The member's own
// share is not among its contributions.
func (s *sharing[T]) contribution(i, k, lo, hi int) []T {
	_, n := s.pieceBounds(k)
	if own, end := board.Share(n, len(s.t.members), i); lo >= end {
		lo, hi = lo-(end-own), hi-(end-own)
	}
	return view[T](unsafe.Add(s.placeOf(i, k), s.room), hi)[lo:]
}

// contribute puts what the others fold of piece k into this member's area.
func (s *sharing[T]) contribute(k int) {
	first, n := s.pieceBounds(k)
	lo, hi := board.Share(n, len(s.t.members), s.t.me)
	copy(s.contribution(s.t.me, k, 0, lo), s.src[first:first+lo])
	copy(s.contribution(s.t.me, k, hi, n), s.src[first+hi:first+n])
}

// blockBytes is by how many bytes a share is folded: so few that they are still in the first cache
// when they are copied to the destination.
const blockBytes = 4096

// foldShare makes this member's share of piece k, for the others and in the destination.
func (s *sharing[T]) foldShare(k int) {
	first, n := s.pieceBounds(k)
	lo, hi := board.Share(n, len(s.t.members), s.t.me)
	share, block := view[T](s.placeOf(s.t.me, k), hi-lo), max(1, blockBytes/bytesOf[T](1))
	for at := lo; at < hi; at += block {
		end := min(at+block, hi)
		acc := share[at-lo : end-lo]
		for i := range s.t.members {
			in := s.src[first+at : first+end]
			if i != s.t.me {
				in = s.contribution(i, k, at, end)
			}
			if i == 0 {
				copy(acc, in)
			} else {
				s.op(acc, in)
			}
		}
		if s.dst != nil {
			copy(s.dst[first+at:first+end], acc)
		}
	}
}

// collectShares copies the others' shares of piece k to the destination.
func (s *sharing[T]) collectShares(k int) {
	if s.dst == nil {
		return
	}
	first, n := s.pieceBounds(k)
	for i := range s.t.members {
		if i == s.t.me {
			continue
		}
		lo, hi := board.Share(n, len(s.t.members), i)
		copy(s.dst[first+lo:first+hi], view[T](s.placeOf(i, k), hi-lo))
	}
}
