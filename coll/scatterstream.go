package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// # Large scatters of private memory
//
// They go through the end of the root's area, as large broadcasts do (stream.go). A piece has a slice of each member's
// block. The root may be as many pieces ahead of the slowest member as there are places.

// scattering is a large scatter, as one member makes it.
type scattering struct {
	stream
	n int // bytes of a block
}

// sliceOf returns how many bytes of each block are in a piece of so many bytes.
func (s *scattering) sliceOf(room int) int { return room / len(s.t.members) &^ 7 }

// scatterStream is ScatterPrivate for what does not fit into a slot. It moves nothing, and says so, if there are too many
// members for slices.
func scatterStream(ctx context.Context, t *Team, dst, src []byte, root int) (done bool, err error) {
	n := len(dst)
	s := scattering{stream{t, root, headingOf(whatScatterArea, root, n), headingOf(whatScatterSlots, root, n)}, n}
	if s.sliceOf(MaxPrivate) == 0 || t.tolerant {
		return t.compareOnly(ctx, s.slots)
	}
	if n >= lendLeast {
		if done, err := scatterLent(ctx, t, dst, src, root); done || err != nil {
			return done, err
		}
	}
	if t.me != root {
		for len(dst) > 0 {
			took, err := s.take(ctx, dst)
			if err != nil {
				return true, err
			}
			dst = dst[took:]
		}
		return true, nil
	}
	room, through := MaxPrivate, s.claim()
	if through {
		defer s.release()
		room = streamPiece
	}
	slice := s.sliceOf(room)
	for lo := 0; lo < n; lo += slice {
		if err := s.give(ctx, src, lo, min(lo+slice, n), through); err != nil {
			return true, err
		}
	}
	if n > 0 && &dst[0] != &src[root*n] {
		copy(dst, src[root*n:(root+1)*n])
	}
	return true, nil
}

// scatterLent is a scatter in which the others read from the root's source, if they can.
func scatterLent(ctx context.Context, t *Team, dst, src []byte, root int) (done bool, err error) {
	n, of := len(dst), lent{}
	if t.me == root {
		of = lend(src, n)
	}
	return loans{t}.run(ctx, headingOf(whatScatterLent, root, n), of, func(from []word) bool {
		if t.me != root {
			return loans{t}.copy(dst, root, from[root], t.me*n)
		}
		if &dst[0] != &src[root*n] {
			copy(dst, src[root*n:(root+1)*n])
		}
		return true
	})
}

// give is the root's step for bytes lo to hi of each block.
func (s *scattering) give(ctx context.Context, src []byte, lo, hi int, through bool) (err error) {
	t := s.t
	seq, err := t.beginCollective(1)
	if err != nil {
		return err
	}
	defer t.endCollective(&err)
	t.onlyContributor = t.me
	size := aCell
	if !through {
		size = max(aCell, headingBytes+(hi-lo)*len(t.members))
	}
	to, err := t.awaitPlace(ctx, seq, size)
	if err != nil {
		return err
	}
	h, at := s.slots, unsafe.Add(to, headingBytes)
	if through {
		h, at = s.through, s.placeOf(seq)
	}
	for i := range t.members {
		if i != t.me {
			copy(unsafe.Slice((*byte)(unsafe.Add(at, i*(hi-lo))), hi-lo), src[i*s.n+lo:i*s.n+hi])
		}
	}
	h.writeTo(to, seq)
	t.enterStep(seq, true)
	return nil
}

// take copies the next slice of this member's block to the beginning of dst, whichever way the piece comes. It returns how
// many bytes that is.
func (s *scattering) take(ctx context.Context, dst []byte) (n int, err error) {
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
	n = min(len(dst), s.sliceOf(streamPiece))
	data := s.placeOf(seq)
	if _, ok := s.through.match(t.contributionOf(s.root, seq, aCell), seq); !ok {
		n = min(len(dst), s.sliceOf(MaxPrivate))
		if data, ok = s.slots.match(t.contributionOf(s.root, seq, max(aCell, headingBytes+n*len(t.members))), seq); !ok {
			return 0, &OtherError{Member: s.root}
		}
	}
	rma.CopyOut(dst[:n], unsafe.Add(data, t.me*n))
	return n, nil
}
