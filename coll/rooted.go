package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// # Gathers and reductions to a root
//
// All but the root give their pieces, and wait for nobody (relay.go).

// gatherLarge is GatherPrivate for what does not fit into a slot.
func gatherLarge(ctx context.Context, t *Team, dst, src []byte, root int) (done bool, err error) {
	n := len(src)
	if t.tolerant {
		return t.compareOnly(ctx, headingOf(whatGatherSlots, root, n))
	}
	if n >= lendLeast {
		of := lend(src, n)
		if t.me == root {
			of = lent{}
		}
		done, err = loans{t}.run(ctx, headingOf(whatGatherLent, root, n), of, func(from []word) bool {
			if t.me == root && &dst[root*n] != &src[0] {
				copy(dst[root*n:(root+1)*n], src)
			}
			return t.me != root || loans{t}.copyBlocks(dst, n, from, 0)
		})
		if done || err != nil {
			return true, err
		}
	}
	return true, gatherRelay(ctx, t, dst, src, root)
}

// gatherRelay is gatherLarge by pieces.
func gatherRelay(ctx context.Context, t *Team, dst, src []byte, root int) error {
	n := len(src)
	r := newRelay(t, whatGatherArea, root, n, 1)
	if t.me == root {
		if &dst[root*n] != &src[0] {
			copy(dst[root*n:(root+1)*n], src)
		}
	} else {
		r.hasArea = area{t}.claim()
	}
	defer r.release()
	for at := 0; at < n; at += relayBytes {
		end := min(at+relayBytes, n)
		if t.me != root {
			if err := givePiece(ctx, &r, src[at:end]); err != nil {
				return err
			}
		} else if err := r.gatherPieces(ctx, dst, n, root, at, end); err != nil {
			return err
		}
	}
	r.leave()
	return nil
}

// gatherPieces is the root's step for bytes lo to hi of each block of n bytes.
func (r *relay) gatherPieces(ctx context.Context, dst []byte, n, root, lo, hi int) (err error) {
	t := r.t
	seq, err := t.beginCollective(1)
	if err != nil {
		return err
	}
	defer t.endCollective(&err)
	t.enterStep(seq, false)
	for i := range t.members {
		if i == root {
			continue
		}
		from, err := r.awaitPiece(ctx, i, seq, hi-lo)
		if err != nil {
			return err
		}
		rma.CopyOut(dst[i*n+lo:i*n+hi], from)
	}
	return nil
}

// A reduction to a root in which the root folds alone has fewer steps. Where folding is most of the work, members share it
// out instead (shared.go, direct.go).
const (
	rootFolds   = 32 << 10 // the most bytes, or:
	rootMembers = 4        // the most members where they take turns on the processors
)

// FoldsAtRoot says whether the root folds alone. Survivors of a tolerant team have to find the same contributors, so all
// members have to meet there.
func (t *Team) FoldsAtRoot(bytes, element int) bool {
	return !t.tolerant && element <= relayBytes && (bytes <= rootFolds || t.crowded && len(t.members) <= rootMembers)
}

// reduceRelay is ReducePrivate to a root that folds alone.
func reduceRelay[T any](ctx context.Context, t *Team, dst, src []T, op Op[T], root int) error {
	most, bytes := relayBytes/bytesOf[T](1), bytesOf[T](len(src))
	r := newRelay(t, whatReduceArea, root, bytes, bytesOf[T](1))
	several := len(src) > most // a single piece goes through a slot, and leaves the area to others
	if several {
		r.hasArea = t.me != root && area{t}.claim()
		defer r.release()
	}
	for at, first := 0, true; first || at < len(src); at, first = at+most, false {
		end := min(at+most, len(src))
		if t.me != root {
			if err := givePiece(ctx, &r, src[at:end]); err != nil {
				return err
			}
		} else if err := foldAtRoot(ctx, &r, dst[at:end], src[at:end], op, end == len(src)); err != nil {
			return err
		}
	}
	if several {
		r.leave()
	}
	return nil
}

// givePiece is a member's step for a piece that the root takes.
func givePiece[T any](ctx context.Context, r *relay, piece []T) (err error) {
	t, bytes := r.t, bytesOf[T](len(piece))
	seq, err := t.beginCollective(1)
	if err != nil {
		return err
	}
	defer t.endCollective(&err)
	heading, at, err := r.awaitPlaces(ctx, seq, bytes)
	if err != nil {
		return err
	}
	rma.Copy(at, piece)
	r.writeHeading(heading, seq)
	t.enterStep(seq, true) // the root may be waiting for this member alone
	return nil
}

// foldAtRoot is the root's step for a piece of a reduction. If the operator panics, the root breaks the team, unless the
// piece was the last one.
func foldAtRoot[T any](ctx context.Context, r *relay, dst, src []T, op Op[T], last bool) (err error) {
	t, bytes := r.t, bytesOf[T](len(src))
	seq, err := t.beginCollective(1)
	if err != nil {
		return err
	}
	folded := last
	defer func() {
		if !folded {
			t.breakTeam()
		}
		t.endCollective(&err)
	}()
	t.enterStep(seq, false)
	acc := dst
	if t.me > 0 && len(dst) > 0 && &dst[0] == &src[0] { // those before come first
		if t.folding == nil {
			t.folding = make([]uint64, (relayBytes+7)/8)
		}
		acc = view[T](unsafe.Pointer(&t.folding[0]), len(src))
	}
	for i := range t.members {
		in := src
		if i != t.me {
			from, err := r.awaitPiece(ctx, i, seq, bytes)
			if err != nil {
				return err
			}
			in = view[T](from, len(src))
		}
		if i == 0 {
			copy(acc, in)
		} else {
			op(acc, in)
		}
	}
	if len(dst) > 0 && &acc[0] != &dst[0] {
		copy(dst, acc)
	}
	folded = true
	return nil
}
