package coll

import (
	"context"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A large reduction of private memory shares out the folding, as one of symmetric
// memory does. Members put what the others need of a piece into their areas, fold a
// share of it each, and take the shares of all. While piece k is folded, the shares of
// piece k-1 are there already, so that there is one step for each piece and one more. The first
// one is also that in which members tell each other whether they have their areas.
//
// The places of an area hold pieces by turns. The owner's share of a piece is at the beginning of a
// place, its contributions to the others' shares are behind it. There are two places at least. With
// two, a member writes its contributions to piece k when all have entered the step before last, behind
// the last look at those to piece k-2; and its share of piece k behind its step, when all have done
// with that of piece k-2. The next reduction of the team begins alike: a member writes contributions
// to its first piece when all have entered the last step that was waited for, behind all looks at
// contributions, and its share behind the next step, behind all looks at shares. Another team gets the
// area when all have entered one more step, which says that they have done with it. Nobody waits for
// that one unless areas do go from team to team.

// A reduction that has failed leaves the area to nobody else until the others have got to that
// step or given it up.

// areas has who uses the areas of the PEs of this process: one reduction at a time, and one
// broadcast. Another one of the same PE, on another team, goes through slots.
var areas struct {
	sync.Mutex
	taken   map[*layout.Control]lease
	streams map[*layout.Control]lease // of the end of an area, for broadcasts
}

// lease is a team's use of an area.
type lease struct {
	t     *Team
	until uint64 // in this step of the team nobody looks any more; 0: it is under way
	moves bool   // the area has had other teams, and will have
}

// takeArea takes this member's area, if no other team uses it.
func (t *Team) takeArea() bool {
	areas.Lock()
	defer areas.Unlock()
	me := t.members[t.me]
	l, used := areas.taken[me]
	if l.moves = l.moves || used && l.t != t && !l.t.released.Load(); used {
		areas.taken[me] = l
	}
	if used && (l.until == 0 || l.t != t && !l.t.past(l.until)) {
		return false
	}
	if areas.taken == nil {
		areas.taken = map[*layout.Control]lease{}
	}
	areas.taken[me] = lease{t: t, moves: l.moves}
	return true
}

// areaMoves says whether this member's area, which the team has, has had other teams.
func (t *Team) areaMoves() bool {
	areas.Lock()
	defer areas.Unlock()
	return areas.taken[t.members[t.me]].moves
}

// returnArea leaves it to this team, and to others when all members are past a step.
func (t *Team) returnArea(until uint64) {
	areas.Lock()
	defer areas.Unlock()
	me := t.members[t.me]
	areas.taken[me] = lease{t, until, areas.taken[me].moves}
}

// past says whether all other members have entered step seq, or never will.
func (t *Team) past(seq uint64) bool {
	for i := range t.members {
		if i != t.me && atomic.LoadUint64(t.word(i)) < seq && !t.dead(i) {
			return false
		}
	}
	return true
}

// sharing is a large reduction of private memory.
type sharing[T any] struct {
	t        *Team
	op       Folder[T]
	dst, src []T    // dst is nil where the result is not wanted
	room     int    // bytes of a place for the share
	most     int    // elements of a piece, as many in each share
	turns    uint64 // see there
	turn     uint64 // of the first piece
}

// pieceBytes is the size of a place: a piece has as many bytes, or, where they are not shared out
// evenly, a few less.
const pieceBytes = 64 << 10

// turns is how many places for pieces the members of a team use in turn. Two would do; but
// to write to lines that others have read just before, and have in their caches still,
// takes four times as long as to fetch them from a cache that all share. So it is as
// many as make it likely that they have left the others' own caches, and on a node with many
// members, who share those anyway, not more memory for that.
func (t *Team) turns() uint64 {
	const most, all = (layout.AreaSize - layout.StreamSize) / pieceBytes, 64
	return uint64(min(most, max(2, all/len(t.members))))
}

// newSharing returns a reduction of the team. Each member shares pieces out alike, whatever its
// elements are, so that shares and contributions never are at each other's place.
func newSharing[T any](t *Team, dst, src []T, op Folder[T]) sharing[T] {
	members := len(t.members)
	s := sharing[T]{t: t, op: op, dst: dst, src: src, room: pieceBytes / members &^ 63, turns: t.turns()}
	s.most = s.room / bytesOf[T](1) * members
	return s
}

// reduceShared is ReducePrivate for more than fits into a slot. It does nothing, and
// says so, if an element is too large to be a share, or some member's area is in use.
func reduceShared[T any](ctx context.Context, t *Team, h heading, dst, src []T, op Folder[T]) (done bool, err error) {
	s := newSharing(t, dst, src, op)
	if s.most == 0 {
		return false, nil
	}
	last := uint64(s.pieces()) + 1
	seq, err := t.begin(last + 1)
	if err != nil {
		return true, err
	}
	defer t.end(&err)
	s.turn, last = seq, seq+last
	mine, until := uint64(0), last
	if t.takeArea() {
		defer func() { t.returnArea(until) }()
		mine = 1
		s.give(0)
	}
	all, err := s.agree(ctx, h, mine)
	if err != nil {
		return true, err
	}
	if !all {
		until = seq       // nobody has looked into it
		t.state.Seq = seq // nobody enters the other steps
		return false, nil
	}
	return true, s.run(ctx, last)
}

// agree says whether all members have their areas. It is the step of the first piece.
func (s *sharing[T]) agree(ctx context.Context, h heading, mine uint64) (all bool, err error) {
	t, seq := s.t, s.turn
	to, err := t.take(ctx, seq, headingBytes+8)
	if err != nil {
		return false, err
	}
	*(*uint64)(h.put(to, seq)) = mine
	if err := t.meet(ctx, seq); err != nil {
		return false, err
	}
	who := t.present(seq)
	all = len(who) == len(t.members)
	for _, i := range who {
		data, ok := h.of(t.slot(i, seq, headingBytes+8), seq)
		if !ok {
			return false, t.differs(i)
		}
		all = all && *(*uint64)(data) != 0
	}
	return all, nil
}

// pieces returns how many there are.
func (s *sharing[T]) pieces() int { return (len(s.src) + s.most - 1) / s.most }

// run makes all pieces. The contributions to the first one are there.
func (s *sharing[T]) run(ctx context.Context, last uint64) (err error) {
	seq := s.turn
	for k := range s.pieces() {
		// Where somebody is dead a share will be missing, which the steps to come say to all.
		if s.absent(seq) == nil {
			s.fold(k)
		}
		s.give(k + 1)
		seq++
		if err := s.t.meet(ctx, seq); err != nil {
			return err
		}
		if s.absent(seq) == nil {
			s.collect(k)
		}
	}
	s.t.enter(last, false)
	if dead := s.absent(seq); dead != nil {
		return &DeadError{Members: dead}
	}
	if s.t.areaMoves() {
		_ = s.t.awaitAll(ctx, last) // the result is there, whatever becomes of the others
	}
	return nil
}

// absent returns the members of a tolerant team that died short of a step that was
// waited for. All survivors find the same.
func (s *sharing[T]) absent(seq uint64) (dead []int) {
	if s.t.gone == nil {
		return nil
	}
	for i := range s.t.members {
		if !s.t.in(i, seq) {
			dead = append(dead, i)
		}
	}
	return dead
}

// piece returns where piece k begins and how many elements it has, none beyond the last.
func (s *sharing[T]) piece(k int) (lo, n int) {
	lo = min(k*s.most, len(s.src))
	return lo, min(s.most, len(s.src)-lo)
}

// place returns where member i has what it makes of piece k. It begins with the share.
func (s *sharing[T]) place(i, k int) unsafe.Pointer {
	place := (s.turn + uint64(k)) % s.turns
	return unsafe.Add(unsafe.Pointer(&s.t.members[i].Area), place*pieceBytes)
}

// contribution returns elements lo to hi of what member i contributes to piece k, which lack its own share.
func (s *sharing[T]) contribution(i, k, lo, hi int) []T {
	_, n := s.piece(k)
	if own, end := board.Share(n, len(s.t.members), i); lo >= end {
		lo, hi = lo-(end-own), hi-(end-own)
	}
	return view[T](unsafe.Add(s.place(i, k), s.room), hi)[lo:]
}

// give puts what the others fold of piece k into this member's area.
func (s *sharing[T]) give(k int) {
	first, n := s.piece(k)
	lo, hi := board.Share(n, len(s.t.members), s.t.me)
	copy(s.contribution(s.t.me, k, 0, lo), s.src[first:first+lo])
	copy(s.contribution(s.t.me, k, hi, n), s.src[first+hi:first+n])
}

// blockBytes is what a share is folded by, so that it is still in the first cache when it is
// copied to the destination.
const blockBytes = 4096

// fold makes this member's share of piece k, for the others and in the destination.
func (s *sharing[T]) fold(k int) {
	first, n := s.piece(k)
	lo, hi := board.Share(n, len(s.t.members), s.t.me)
	share, block := view[T](s.place(s.t.me, k), hi-lo), max(1, blockBytes/bytesOf[T](1))
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
				s.op.Fold(acc, in)
			}
		}
		if s.dst != nil {
			copy(s.dst[first+at:first+end], acc)
		}
	}
}

// collect takes the others' shares of piece k.
func (s *sharing[T]) collect(k int) {
	if s.dst == nil {
		return
	}
	first, n := s.piece(k)
	for i := range s.t.members {
		if i == s.t.me {
			continue
		}
		lo, hi := board.Share(n, len(s.t.members), i)
		copy(s.dst[first+lo:first+hi], view[T](s.place(i, k), hi-lo))
	}
}
