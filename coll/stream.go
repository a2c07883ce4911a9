package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Large broadcasts of private memory
//
// The bytes go through the end of the root's area, piece by piece, in places by turns. So the root may
// be as many pieces ahead of the slowest member as there are places, where the slots have room for
// two. Each piece has a heading, as all private data, in a cell of the root's slot. By the heading,
// members see which way the piece comes: through the area, or through the slot.
//
// What a place held was read in the step that it was written for. So a member that has entered the
// step after that one is done with the place. Within a team no more has to be waited for, and
// the cell of the heading already waits for it. Another team gets the places when all members have
// entered the step after the last one.

// The places are together larger than the private caches of most processors: to write to lines that
// others still have in theirs takes several times as long (see countPlaces).
const (
	streamPiece  = 16 << 10
	streamPlaces = layout.StreamSize / streamPiece
)

// There are at least as many places as a member has cells by turns. So a root that may write the
// cell of a heading may write the place of its piece.
var _ [streamPlaces - 2*board.SlotCells]struct{}

// stream is a large broadcast of private memory, as one member makes it.
//
//   - Owns: nothing; areas has the leases.
//   - Writes: the root writes pieces into its own area, and headings into its own slots.
//   - Reads: all other members read both.
type stream struct {
	t              *Team
	root           int
	through, slots heading // of a piece that comes through the area, and of one in a slot
}

// claim takes the places of this member's area, if no other team uses them.
func (s *stream) claim() bool {
	areas.Lock()
	defer areas.Unlock()
	t, me := s.t, s.t.members[s.t.me]
	if l, used := areas.broadcasts[me]; used && l.inUse(t) {
		return false
	}
	if areas.broadcasts == nil {
		areas.broadcasts = map[*layout.Control]lease{}
	}
	areas.broadcasts[me] = lease{t: t}
	return true
}

// release leaves the places to this team, and to others when all members have entered the step
// after the last one so far.
func (s *stream) release() {
	areas.Lock()
	defer areas.Unlock()
	t := s.t
	areas.broadcasts[t.members[t.me]] = lease{t: t, until: t.state.Seq + 1}
}

// placeOf returns where the root's piece of a step is.
func (s *stream) placeOf(seq uint64) unsafe.Pointer {
	end := unsafe.Add(unsafe.Pointer(&s.t.members[s.root].Area), layout.AreaSize-layout.StreamSize)
	return unsafe.Add(end, seq%streamPlaces*streamPiece)
}

// broadcastStream is BroadcastPrivate for more than fits into a slot.
func broadcastStream(ctx context.Context, t *Team, buf []byte, root int) error {
	s := stream{t, root, headingOf(whatStream, root, len(buf)), headingOf(whatBroadcast, root, len(buf))}
	return s.move(ctx, buf)
}

// move copies the root's buf to those of the others.
func (s *stream) move(ctx context.Context, buf []byte) error {
	t, root := s.t, s.root
	if t.me == root && s.claim() {
		defer s.release()
		for at := 0; at < len(buf); at += streamPiece {
			if err := s.sendPiece(ctx, buf[at:min(at+streamPiece, len(buf))]); err != nil {
				return err
			}
		}
		return nil
	}
	for len(buf) > 0 {
		var err error
		n := min(len(buf), MaxPrivate)
		if t.me == root {
			err = t.broadcastPiece(ctx, s.slots, buf[:n], root)
		} else {
			n, err = s.receivePiece(ctx, buf)
		}
		if err != nil {
			return err
		}
		buf = buf[n:]
	}
	return nil
}

// sendPiece is one step of a root's broadcast through its area.
func (s *stream) sendPiece(ctx context.Context, piece []byte) (err error) {
	t := s.t
	seq, err := t.beginCollective(1)
	if err != nil {
		return err
	}
	defer t.endCollective(&err)
	t.onlyContributor = t.me
	to, err := t.awaitPlace(ctx, seq, aCell)
	if err != nil {
		return err
	}
	copy(unsafe.Slice((*byte)(s.placeOf(seq)), len(piece)), piece)
	s.through.writeTo(to, seq)
	t.enterStep(seq, true)
	return nil
}

// receivePiece copies the root's next piece to the beginning of buf, whichever way the piece comes.
// It returns how many bytes that is.
func (s *stream) receivePiece(ctx context.Context, buf []byte) (n int, err error) {
	t := s.t
	seq, err := t.beginCollective(1)
	if err != nil {
		return 0, err
	}
	defer t.endCollective(&err)
	t.onlyContributor = s.root
	t.enterStep(seq, false)
	if _, err := t.awaitRoot(ctx, s.root, seq); err != nil {
		return 0, err
	}
	if _, ok := s.through.match(t.contributionOf(s.root, seq, aCell), seq); ok {
		n = min(len(buf), streamPiece)
		rma.CopyOut(buf[:n], s.placeOf(seq))
		return n, nil
	}
	n = min(len(buf), MaxPrivate)
	data, ok := s.slots.match(t.contributionOf(s.root, seq, max(headingBytes+n, aCell)), seq)
	if !ok {
		return 0, &OtherError{Member: s.root}
	}
	rma.CopyOut(buf[:n], data)
	return n, nil
}
