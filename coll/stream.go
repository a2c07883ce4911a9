package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A large broadcast of private memory goes through the end of the root's area, piece by piece
// in places by turns: the root may be as many pieces ahead of the slowest member as there are
// places, where the slots have room for two. A piece has a heading as all private data, in a
// cell of the root's slot, so that members see by themselves which way it comes.
//
// What a place held was read in the step that it was written for: so whoever has entered the step behind
// that is done with it. Within a team that is all that has to be waited for, and the cell of the heading
// waits for it. Another team gets the places when all members are past the last step.

// The places are together more than the private caches of most processors: to write to lines that
// others still have in theirs takes several times as long (see turns).
const (
	streamPiece  = 16 << 10
	streamPlaces = layout.StreamSize / streamPiece
)

// There are as many places as a member has cells by turns, or more: whoever may write the cell of a
// heading may write its place.
var _ [streamPlaces - 2*board.SlotCells]struct{}

// takeStream takes the places of this member's area, if no other team uses them.
func (t *Team) takeStream() bool {
	areas.Lock()
	defer areas.Unlock()
	me := t.members[t.me]
	if l, used := areas.streams[me]; used && (l.until == 0 || l.t != t && !l.t.past(l.until)) {
		return false
	}
	if areas.streams == nil {
		areas.streams = map[*layout.Control]lease{}
	}
	areas.streams[me] = lease{t: t}
	return true
}

// returnStream gives them back when all others are past the steps so far.
func (t *Team) returnStream() {
	areas.Lock()
	defer areas.Unlock()
	areas.streams[t.members[t.me]] = lease{t: t, until: t.state.Seq + 1}
}

// stream returns where the piece of a root's step is.
func (t *Team) stream(root int, seq uint64) unsafe.Pointer {
	end := unsafe.Add(unsafe.Pointer(&t.members[root].Area), layout.AreaSize-layout.StreamSize)
	return unsafe.Add(end, seq%streamPlaces*streamPiece)
}

// broadcastStream is BroadcastPrivate for more than fits into a slot.
func broadcastStream(ctx context.Context, t *Team, buf []byte, root int) error {
	through, slots := headingOf(whatStream, root, len(buf)), headingOf(whatBroadcast, root, len(buf))
	if t.me == root && t.takeStream() {
		defer t.returnStream()
		for at := 0; at < len(buf); at += streamPiece {
			if err := t.pour(ctx, through, buf[at:min(at+streamPiece, len(buf))]); err != nil {
				return err
			}
		}
		return nil
	}
	for len(buf) > 0 {
		var err error
		n := min(len(buf), MaxPrivate)
		if t.me == root {
			err = t.spread(ctx, slots, buf[:n], root)
		} else {
			n, err = t.draw(ctx, through, slots, buf, root)
		}
		if err != nil {
			return err
		}
		buf = buf[n:]
	}
	return nil
}

// pour is one step of a root's broadcast through its area.
func (t *Team) pour(ctx context.Context, h heading, piece []byte) (err error) {
	seq, err := t.begin(1)
	if err != nil {
		return err
	}
	defer t.end(&err)
	t.only = t.me
	to, err := t.take(ctx, seq, aCell)
	if err != nil {
		return err
	}
	copy(unsafe.Slice((*byte)(t.stream(t.me, seq)), len(piece)), piece)
	h.put(to, seq)
	t.enter(seq, true)
	return nil
}

// draw takes what comes next of a root's broadcast, whichever way, and returns how much that is.
func (t *Team) draw(ctx context.Context, through, slots heading, buf []byte, root int) (n int, err error) {
	seq, err := t.begin(1)
	if err != nil {
		return 0, err
	}
	defer t.end(&err)
	t.only = root
	t.enter(seq, false)
	if _, err := t.awaitRoot(ctx, root, seq); err != nil {
		return 0, err
	}
	if _, ok := through.of(t.slot(root, seq, aCell), seq); ok {
		n = min(len(buf), streamPiece)
		rma.CopyOut(buf[:n], t.stream(root, seq))
		return n, nil
	}
	n = min(len(buf), MaxPrivate)
	data, ok := slots.of(t.slot(root, seq, max(headingBytes+n, aCell)), seq)
	if !ok {
		return 0, &OtherError{Member: root}
	}
	rma.CopyOut(buf[:n], data)
	return n, nil
}
