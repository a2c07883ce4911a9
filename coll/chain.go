package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// # Large scans of private memory
//
// The members are a chain: each takes what those before it have combined, adds its own elements, and gives that to the next
// one (relay.go). So each member folds once, whatever their number, and no member waits for those behind it.

// scanChain is ScanPrivate for what does not fit into a slot. It moves nothing, and says so, if an element does not either.
func scanChain[T any](ctx context.Context, t *Team, dst, src []T, op Op[T], exclusive bool) (done bool, err error) {
	most := relayBytes / bytesOf[T](1)
	if most == 0 || t.tolerant {
		return t.compareOnly(ctx, headingOf(whatScanArea, -1, bytesOf[T](len(src))).of(bytesOf[T](1)))
	}
	what, bytes := whatScanArea, bytesOf[T](len(src))
	if exclusive && len(t.members) == 2 {
		buf := src
		if t.me == 1 {
			buf = dst
		}
		return true, exscanOfTwo(ctx, t, view[byte](unsafe.Pointer(unsafe.SliceData(buf)), bytes))
	}
	if exclusive {
		what = whatExscanArea
	}
	r := newRelay(t, what, -1, bytes, bytesOf[T](1))
	r.hasArea = area{t}.claim()
	defer r.release()
	for at := 0; at < len(src); at += most {
		end := min(at+most, len(src))
		if err := scanPiece(ctx, &r, dst[at:end], src[at:end], op, exclusive); err != nil {
			return true, err
		}
	}
	r.leave()
	return true, nil
}

// exscanOfTwo is an exclusive scan of two members: buf is the first one's source, and the second one's destination.
func exscanOfTwo(ctx context.Context, t *Team, buf []byte) error {
	n, of := len(buf), lent{}
	if n >= lendLeast {
		if t.me == 0 {
			of = lend(buf, n)
		}
		done, err := loans{t}.run(ctx, headingOf(whatExscanLent, -1, n), of, func(from []word) bool {
			return t.me == 0 || loans{t}.copy(buf, 0, from[0], 0)
		})
		if done || err != nil {
			return err
		}
	}
	s := stream{t, 0, headingOf(whatExscanArea, -1, n), headingOf(whatExscanSlots, -1, n)}
	return s.move(ctx, buf)
}

// scanPiece is this member's step for one piece.
func scanPiece[T any](ctx context.Context, r *relay, dst, src []T, op Op[T], exclusive bool) (err error) {
	t, bytes := r.t, bytesOf[T](len(src))
	seq, err := t.beginCollective(1)
	if err != nil {
		return err
	}
	defer t.endCollective(&err)
	heading, at, err := r.awaitPlaces(ctx, seq, bytes)
	if err != nil {
		return err
	}
	acc, before := view[T](at, len(src)), unsafe.Pointer(nil)
	if t.me == 0 {
		copy(acc, src)
	} else {
		if before, err = r.awaitPiece(ctx, t.me-1, seq, bytes); err != nil {
			return err
		}
		if !exclusive || t.me < len(t.members)-1 {
			rma.CopyOut(acc, before)
			op(acc, src)
		}
	}
	r.writeHeading(heading, seq)
	t.enterStep(seq, true) // the next member may be waiting for this one alone
	switch {
	case !exclusive:
		copy(dst, acc)
	case t.me > 0:
		rma.CopyOut(dst, before)
	}
	return nil
}
