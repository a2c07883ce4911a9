package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The collectives here are on private memory. Their data go through the slots, piece
// by piece, one step each.

// heading stands before a member's data in its slot: the step, and its complement as in
// record, which has the rest mixed in. It is that short so that a number of 8 bytes still has
// room behind it beside the arrival word.
type heading struct{ seq, call uint64 }

// headingOf returns the heading of a collective of a root, with so many bytes in all
// pieces. It is without its step.
func headingOf(what, root, bytes int) heading {
	const whatBits, rootBits = 8, 16 // there are fewer roots, and no memory of 2^40 bytes
	return heading{call: uint64(what) | uint64(root+1)<<whatBits | uint64(bytes)<<(whatBits+rootBits)}
}

const (
	headingBytes = int(unsafe.Sizeof(heading{}))
	// MaxPrivate is the largest element of a ReducePrivate in bytes.
	MaxPrivate = layout.SlotSize - headingBytes
)

// The collectives that have headings.
const (
	whatBroadcast = 1 + iota
	whatReduce
	whatShared
	whatStream
)

// at returns the heading in step seq.
func (h heading) at(seq uint64) heading { return heading{seq: seq, call: h.call ^ ^seq} }

// put writes a heading for step seq to a slot, and returns where the data go.
func (h heading) put(to unsafe.Pointer, seq uint64) unsafe.Pointer {
	*(*heading)(to) = h.at(seq)
	return unsafe.Add(to, headingBytes)
}

// of returns where the data of a member's slot are, and whether it has called the same
// collective in step seq.
func (h heading) of(from unsafe.Pointer, seq uint64) (data unsafe.Pointer, ok bool) {
	return unsafe.Add(from, headingBytes), *(*heading)(from) == h.at(seq)
}

// BroadcastPrivate copies the root's bytes to everybody's, which are as many.
//
//   - Errors: as Broadcast; *OtherError when the root has called something else.
func BroadcastPrivate(ctx context.Context, t *Team, buf []byte, root int) error {
	if len(buf) > MaxPrivate {
		return broadcastStream(ctx, t, buf, root)
	}
	return t.spread(ctx, headingOf(whatBroadcast, root, len(buf)), buf, root)
}

// spread is a broadcast of what fits into a slot.
func (t *Team) spread(ctx context.Context, h heading, piece []byte, root int) (err error) {
	seq, err := t.begin(1)
	if err != nil {
		return err
	}
	defer t.end(&err)
	t.only = root
	size := max(headingBytes+len(piece), aCell)
	if t.me != root {
		t.enter(seq, false)
		if _, err := t.awaitRoot(ctx, root, seq); err != nil {
			return err
		}
		data, ok := h.of(t.slot(root, seq, size), seq)
		if !ok {
			return &OtherError{Member: root}
		}
		rma.CopyOut(piece, data)
		return nil
	}
	to, err := t.take(ctx, seq, size)
	if err != nil {
		return err
	}
	copy(unsafe.Slice((*byte)(h.put(to, seq)), len(piece)), piece)
	t.enter(seq, true)
	return nil
}

// ReducePrivate combines everybody's src, in the order of the group, into the dst of
// the root, or of everybody if root is -1. All have as many elements, of MaxPrivate
// bytes at most; dst and src may be the same.
//
// Of little data, everybody who gets the result combines all, of more, member i the
// i-th part for all.
//
// What does not fit into a slot goes in several steps, and a member that dies between two
// of them takes its part of the later ones with it. So that no result is of different
// contributors, this is a *DeadError on all survivors of a tolerant team, with all that
// have died; the team goes on, and dst is undefined.
//
//   - Errors: as Reduce; *OtherError when a member has called something else.
func ReducePrivate[T any](ctx context.Context, t *Team, dst, src []T, op Folder[T], root int) error {
	bytes := bytesOf[T](len(src))
	h := headingOf(whatReduce, root, bytes)
	if root >= 0 && root != t.me {
		dst = nil
	}
	if len(t.members) > 1 && bytes > MaxPrivate {
		if done, err := reduceShared(ctx, t, headingOf(whatShared, root, bytes), dst, src, op); done {
			return err
		}
	}
	most, who := MaxPrivate/bytesOf[T](1), 0
	for first := true; first || len(src) > 0; first = false {
		n := min(len(src), most)
		seq, err := t.offer(ctx, h, view[byte](unsafe.Pointer(unsafe.SliceData(src)), bytesOf[T](n)))
		if err != nil {
			return err
		}
		if now := len(t.present(seq)); first {
			who = now
		} else if now < who { // they only become fewer
			return t.Whole()
		}
		src = src[n:]
		if root < 0 || root == t.me {
			if err := foldPiece(t, h, dst[:n], seq, op, len(src) == 0); err != nil {
				return err
			}
			dst = dst[n:]
		}
	}
	return nil
}

// foldPiece is fold. If it does not get to its end by a panic of the operator, and others
// wait for further pieces, the team is broken.
func foldPiece[T any](t *Team, h heading, acc []T, seq uint64, op Folder[T], last bool) (err error) {
	folded := false
	defer func() {
		if !folded && !last {
			t.breakOff()
		}
	}()
	err = fold(t, h, acc, seq, op)
	folded = err == nil
	return err
}

// offer is exchange with a heading before the bytes.
func (t *Team) offer(ctx context.Context, h heading, bytes []byte) (seq uint64, err error) {
	if seq, err = t.begin(1); err != nil {
		return 0, err
	}
	defer t.end(&err)
	to, err := t.take(ctx, seq, headingBytes+len(bytes))
	if err != nil {
		return 0, err
	}
	copy(unsafe.Slice((*byte)(h.put(to, seq)), len(bytes)), bytes)
	return seq, t.meet(ctx, seq)
}

// fold combines what is in the slots of a step.
func fold[T any](t *Team, h heading, acc []T, seq uint64, op Folder[T]) error {
	size := headingBytes + bytesOf[T](len(acc))
	for k, i := range t.present(seq) {
		data, ok := h.of(t.slot(i, seq, size), seq)
		switch {
		case !ok:
			return t.differs(i)
		case k == 0:
			rma.CopyOut(acc, data)
		default:
			op.Fold(acc, view[T](data, len(acc)))
		}
	}
	return nil
}

// Gather returns the words of all members, in their order. It is strict: all
// survivors get a *DeadError if a member has died short of it.
//
//   - Errors: *OtherError when a member has called something else.
func (t *Team) Gather(ctx context.Context, w Words) ([]Words, error) {
	mine := record{seq: t.state.Seq + 1, check: ^(t.state.Seq + 1), w: w}
	seq, err := t.exchange(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&mine)), recordBytes))
	if err == nil {
		err = t.Whole()
	}
	if err != nil {
		return nil, err
	}
	all := make([]Words, len(t.members))
	for i := range all {
		r := (*record)(t.slot(i, seq, recordBytes))
		if r.seq != seq || r.check != ^seq {
			return nil, t.differs(i)
		}
		all[i] = r.w
	}
	return all, nil
}

// ID returns the team's.
func (t *Team) ID() int { return t.id }

// Me returns this member's index.
func (t *Team) Me() int { return t.me }
