package coll

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/rma"
)

// Scan combines N elements of the sources of all contributors up to this member, in the
// order of the group, into this member's destination. An exclusive scan leaves out the member's own
// source; the first member gets zeros then. Source and destination may be the same object.
//
//   - Small data: each member combines what it needs.
//   - Large data: member i combines the i-th part for all, and puts each intermediate result to the
//     member that it belongs to.
//   - Shape: an element has at most layout.SlotSize bytes.
func Scan[T any](ctx context.Context, t *Team, b Buffers, op Op[T], exclusive bool) error {
	size := bytesOf[T](b.N)
	if size > t.slotBytes {
		return scanLarge(ctx, t, b, op, exclusive)
	}
	seq, err := t.exchange(ctx, elements[byte](t, t.me, b.Src, size))
	if err != nil {
		return err
	}
	dst, who := elements[T](t, t.me, b.Dst, b.N), t.contributors(seq)
	end, _ := slices.BinarySearch(who, t.me)
	if !exclusive {
		end++
	}
	if end == 0 {
		clear(dst)
		return nil
	}
	copy(dst, view[T](t.contributionOf(who[0], seq, size), b.N))
	for _, i := range who[1:end] {
		op(dst, view[T](t.contributionOf(i, seq, size), b.N))
	}
	return nil
}

// scanLarge is reduceLarge with as many results for each piece as there are members. No other member
// reads this part of a source, and this member has read it when it writes that part of a
// destination. So source and destination may be one object.
func scanLarge[T any](ctx context.Context, t *Team, b Buffers, op Op[T], exclusive bool) (err error) {
	seq, err := t.beginCollective(2)
	if err != nil {
		return err
	}
	defer t.endCollective(&err)
	rma.StoreRelease(t.progressOf(t.me), 0)
	kind := kindOf[T](callScan, 0)
	if exclusive {
		kind = kindOf[T](callScan, 1)
	}
	said := t.announceCall(seq, call{kind, uint64(b.N), b.Src, b.Dst})
	if err := t.meet(ctx, seq); err != nil {
		return err
	}
	s := scan[T]{reduction[T]{t: t, b: b, op: op, seq: seq, who: t.contributors(seq)}, exclusive}
	if err := t.checkCalls(s.who, said); err != nil {
		return err
	}
	k, _ := slices.BinarySearch(s.who, t.me)
	s.pushResults(k)
	if err := t.meetLast(ctx, seq+1); err != nil || t.dead == nil || !s.lacksPart() {
		return err
	}
	return s.rescueResults(ctx, k)
}

// scan is a large scan. What package board calls a piece is the result that one contributor gets of
// one piece of data here. The result of the k-th contributor of the i-th piece has number
// i*len(who)+k. The log holds the sum up to the k-th contributor, and the one before it, of which
// the next one is made.
type scan[T any] struct {
	reduction[T]
	exclusive bool
}

// pushResults makes this member's part, and puts each result to its contributor.
func (s *scan[T]) pushResults(mine int) {
	said, me := s.t.progressOf(s.t.me), s.t.me
	s.eachPiece(mine, func(piece, lo, n int) {
		for k, i := range s.who {
			step := piece*len(s.who) + k
			acc := s.logOf(me, step, n)
			if k == 0 {
				s.foldSources(acc, lo, s.who[:1])
			} else {
				copy(acc, s.logOf(me, step-1, n))
				s.foldMore(acc, lo, s.who[k:k+1])
			}
			rma.StoreRelease(said, board.Logged(step))
			s.copyResult(s.elements(i, s.b.Dst, lo, n), me, k, step)
			rma.StoreRelease(said, board.Pushed(step))
		}
	})
}

// copyResult copies the k-th contributor's result out of an owner's log.
func (s *scan[T]) copyResult(dst []T, owner, k, step int) {
	switch {
	case !s.exclusive:
		copy(dst, s.logOf(owner, step, len(dst)))
	case k > 0:
		copy(dst, s.logOf(owner, step-1, len(dst)))
	default:
		clear(dst)
	}
}

// rescueResults makes the results that dead members owe this one.
func (s *scan[T]) rescueResults(ctx context.Context, mine int) error {
	var aside []rescued[T]
	for k, i := range s.who {
		if s.t.hasEntered(i, s.seq+1) {
			continue
		}
		said := atomic.LoadUint64(s.t.progressOf(i))
		s.eachPiece(k, func(piece, lo, n int) {
			step := piece*len(s.who) + mine
			means := board.Recover(said, step)
			if means == board.Have {
				return
			}
			acc := make([]T, n)
			if means == board.Log {
				s.copyResult(acc, i, mine, step)
			} else {
				s.remakeResult(acc, i, lo, board.Last(said)-piece*len(s.who), mine, piece)
			}
			aside = append(aside, rescued[T]{lo, acc})
		})
	}
	return s.installAside(ctx, aside)
}

// remakeResult makes the k-th contributor's result of a piece. It begins with the sum in the dead
// owner's log, which is up to the last-th contributor, as the sources up to there may be lost. If
// last is negative, it begins with the sources.
func (s *scan[T]) remakeResult(acc []T, owner, lo, last, k, piece int) {
	end := k + 1
	if s.exclusive {
		end = k
	}
	switch {
	case end == 0:
		clear(acc)
	case last < 0:
		s.foldSources(acc, lo, s.who[:end])
	default:
		copy(acc, s.logOf(owner, piece*len(s.who)+last, len(acc)))
		s.foldMore(acc, lo, s.who[last+1:end])
	}
}
