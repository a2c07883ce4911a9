package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The collectives here are on private memory. Their data go through the slots, piece by piece, each
// piece in one step. Large data go through areas (shared.go, stream.go).

// heading stands before a member's data in its slot. It is the step, and the complement of the step
// with the rest of the call mixed in. It is so short that a number of 8 bytes still has room behind
// it beside the arrival word.
type heading struct{ seq, call uint64 }

// headingOf returns the heading, without a step, of a collective of a root with so many bytes in all
// pieces.
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
	whatDirect
	whatReduceDirect
	whatAllgather
	whatAlltoall
	whatGather
	whatScatter
	whatScan
	whatExscan
	whatReduceScatter
	whatAllgatherPieces
	whatAlltoallPieces
	whatGatherLent
	whatGatherArea
	whatGatherSlots // behind whatGatherArea
	whatReduceScatterPieces
	whatScanArea
	whatScanSlots // behind whatScanArea
	whatReduceArea
	whatReduceSlots // behind whatReduceArea
	whatExscanLent
	whatExscanArea
	whatExscanSlots // behind whatExscanArea
	whatScatterLent
	whatScatterArea
	whatScatterSlots
)

// of returns the heading of a collective whose steps depend on the size of an element.
func (h heading) of(size int) heading {
	const mix = 0x9e3779b97f4a7c15 // odd, so that different sizes stay different
	return heading{h.seq, h.call ^ uint64(size)*mix}
}

// stamp returns the heading with step seq in it.
func (h heading) stamp(seq uint64) heading { return heading{seq: seq, call: h.call ^ ^seq} }

// writeTo writes the heading for step seq to a slot, and returns where the data go.
func (h heading) writeTo(to unsafe.Pointer, seq uint64) unsafe.Pointer {
	*(*heading)(to) = h.stamp(seq)
	return unsafe.Add(to, headingBytes)
}

// match returns where the data in a member's slot are, and whether the member has called the same
// collective in step seq.
func (h heading) match(from unsafe.Pointer, seq uint64) (data unsafe.Pointer, ok bool) {
	return unsafe.Add(from, headingBytes), *(*heading)(from) == h.stamp(seq)
}

// BroadcastPrivate copies the root's bytes to all members' buffers, which have the same length.
//
//   - Errors: as Broadcast; *OtherError when the root has called something else.
func BroadcastPrivate(ctx context.Context, t *Team, buf []byte, root int) error {
	if len(buf) > MaxPrivate {
		return broadcastStream(ctx, t, buf, root)
	}
	return t.broadcastPiece(ctx, headingOf(whatBroadcast, root, len(buf)), buf, root)
}

// broadcastPiece is a broadcast of what fits into a slot.
func (s *slots) broadcastPiece(ctx context.Context, h heading, piece []byte, root int) (err error) {
	seq, err := s.beginCollective(1)
	if err != nil {
		return err
	}
	defer s.endCollective(&err)
	s.onlyContributor = root
	size := max(headingBytes+len(piece), aCell)
	if s.me != root {
		s.enterStep(seq, false)
		if _, err := s.awaitRoot(ctx, root, seq); err != nil {
			return err
		}
		data, ok := h.match(s.contributionOf(root, seq, size), seq)
		if !ok {
			return &OtherError{Member: root}
		}
		rma.CopyOut(piece, data)
		return nil
	}
	to, err := s.awaitPlace(ctx, seq, size)
	if err != nil {
		return err
	}
	copy(unsafe.Slice((*byte)(h.writeTo(to, seq)), len(piece)), piece)
	s.enterStep(seq, true)
	return nil
}

// ReducePrivate combines everybody's src, in the order of the group, into the dst of
// the root, or of everybody if root is -1. Small data: each member that gets the result combines
// all, and on a strict team nobody but the root waits. Large data: member i combines the i-th part for all.
//
//   - Shape: all members have as many elements, of MaxPrivate bytes at most. dst and src may be the
//     same.
//   - Deaths: what does not fit into a slot goes in several steps, and a member that dies between two of
//     them takes its part of the later ones with it. Then all survivors of a tolerant team get a
//     *DeadError with all that have died, so that no result is made of different contributors. The
//     team goes on, and dst is undefined.
//   - Errors: as Reduce; *OtherError when a member has called something else.
func ReducePrivate[T any](ctx context.Context, t *Team, dst, src []T, op Op[T], root int) error {
	if root >= 0 && root != t.me {
		dst = nil
	}
	if root >= 0 && len(t.members) > 1 && t.FoldsAtRoot(bytesOf[T](len(src)), bytesOf[T](1)) {
		return reduceRelay(ctx, t, dst, src, op, root)
	}
	if root < 0 || !t.mayPair(pairReduce, bytesOf[T](len(src)), directReduce) {
		return reduceUnpaired(ctx, t, dst, src, op, root)
	}
	l, done, err := reducePaired(ctx, t, dst, src, op, root)
	if done || err != nil {
		return err
	}
	if err = reduceUnpaired(ctx, t, dst, src, op, root); err == nil {
		l.end(throughAreas)
	}
	return err
}

// reduceUnpaired is ReducePrivate through areas, or through slots. dst is nil where the result is not wanted.
func reduceUnpaired[T any](ctx context.Context, t *Team, dst, src []T, op Op[T], root int) error {
	bytes := bytesOf[T](len(src))
	h := headingOf(whatReduce, root, bytes)
	if len(t.members) > 1 && bytes > MaxPrivate {
		if done, err := reduceShared(ctx, t, headingOf(whatShared, root, bytes), dst, src, op); done {
			return err
		}
	}
	most, who := MaxPrivate/bytesOf[T](1), 0
	for first := true; first || len(src) > 0; first = false {
		n := min(len(src), most)
		seq, err := t.exchangeHeaded(ctx, h, view[byte](unsafe.Pointer(unsafe.SliceData(src)), bytesOf[T](n)))
		if err != nil {
			return err
		}
		if now := len(t.contributors(seq)); first {
			who = now
		} else if now < who { // they only become fewer
			return t.Whole()
		}
		src = src[n:]
		if root < 0 || root == t.me {
			if err := foldOrBreak(t, h, dst[:n], seq, op, len(src) == 0); err != nil {
				return err
			}
			dst = dst[n:]
		}
	}
	return nil
}

// foldOrBreak is foldSlots. It breaks the team if the operator panics and the others wait for
// further pieces.
func foldOrBreak[T any](t *Team, h heading, acc []T, seq uint64, op Op[T], last bool) (err error) {
	folded := false
	defer func() {
		if !folded && !last {
			t.breakTeam()
		}
	}()
	err = foldSlots(t, h, acc, seq, op)
	folded = err == nil
	return err
}

// exchangeHeaded is exchange with a heading before the bytes.
func (s *slots) exchangeHeaded(ctx context.Context, h heading, bytes []byte) (seq uint64, err error) {
	if seq, err = s.beginCollective(1); err != nil {
		return 0, err
	}
	defer s.endCollective(&err)
	to, err := s.awaitPlace(ctx, seq, headingBytes+len(bytes))
	if err != nil {
		return 0, err
	}
	copy(unsafe.Slice((*byte)(h.writeTo(to, seq)), len(bytes)), bytes)
	return seq, s.meet(ctx, seq)
}

// foldSlots combines what is in the members' slots of a step.
func foldSlots[T any](t *Team, h heading, acc []T, seq uint64, op Op[T]) error {
	size := headingBytes + bytesOf[T](len(acc))
	for k, i := range t.contributors(seq) {
		data, ok := h.match(t.contributionOf(i, seq, size), seq)
		switch {
		case !ok:
			return t.breakOnMismatch(i)
		case k == 0:
			rma.CopyOut(acc, data)
		default:
			op(acc, view[T](data, len(acc)))
		}
	}
	return nil
}
