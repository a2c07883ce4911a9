package shmem

import (
	"errors"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Sync returns when all PEs have called it. Unlike Barrier, it completes no operations.
//
//   - Errors: those of collectives, see the package documentation.
//   - Collective: over all PEs of the job.
//   - Source: shmem_sync_all.
func (w *World) Sync() error {
	if err := w.checkUsable("Sync"); err != nil {
		return err
	}
	return w.team.sync("Sync")
}

// Broadcast copies the root's src to dst on all PEs, the root included. root is a PE number of the team.
//
//   - Shape: as many elements as src has. dst has at least as many; further elements stay as they are. dst and src
//     may be the same object, or begin at the same element.
//   - Completion: dst on return; src may be changed on return.
//   - Errors: those of collectives, see the package documentation. The death of the root is an error on a tolerant
//     team too. On a strict team, survivors that already have the data may get no error.
//   - Collective: over the team, with the same arguments; lengths of dst may differ.
//   - Source: shmem_broadcast.
func Broadcast[T any](t *Team, dst, src Sym[T], root int) error {
	const op = "Broadcast"
	if err := checkPair(t, op, dst, src, src.n, true); err != nil {
		return t.reportRefusal(op, err)
	}
	if root < 0 || root >= t.NPEs() {
		return t.reportRefusal(op, usage(op, ErrPERange, "root %d of a team of %d, want 0 to %d", root, t.NPEs(), t.NPEs()-1))
	}
	if t.h.checks {
		if err := t.compare(op, dst.off, src.off, "Broadcast of %s, root %d", coll.NameElements[T](src.n), root); err != nil {
			return err
		}
	}
	if t.upper != nil {
		return t.spanning(op, callBroadcast, sizeOf[T]()).broadcast(dst.off, src.off, src.n, root)
	}
	return t.publicError(op, coll.Broadcast[T](t.ctx, t.coll, buffersOf(dst, src, src.n), root))
}

// Reduce combines the src of all PEs, in the order of PE numbers, into dst on all PEs: Reduce(w.Team(), dst, src,
// shmem.Sum). All PEs get the same bytes.
//
//   - Shape: as Broadcast.
//   - Completion: on return.
//   - Errors: those of collectives, see the package documentation; ErrElementType for elements of more than 8192
//     bytes, and ErrArgument for an operator that is nil.
//   - Collective: over the team, with the same arguments; lengths of dst may differ.
//
// The operators name the routines of the specification: see Sum, Prod, Min, Max, And, Or, Xor.
func Reduce[T any](t *Team, dst, src Sym[T], op Op[T]) error {
	const name = "Reduce"
	if err := checkPair(t, name, dst, src, src.n, true); err != nil {
		return t.reportRefusal(name, err)
	}
	if op == nil {
		return t.reportRefusal(name, usage(name, ErrArgument, "operator is nil, want Sum, Max or another one"))
	}
	if sizeOf[T]() > layout.SlotSize {
		return t.reportRefusal(name, usage(name, ErrElementType, "element of %d bytes, want at most %d", sizeOf[T](), layout.SlotSize))
	}
	if t.h.checks {
		which := coll.NameOperator(coll.Op[T](op))
		if err := t.compare(name, dst.off, src.off, "Reduce(%s) of %s", which, coll.NameElements[T](src.n)); err != nil {
			return err
		}
	}
	if t.upper != nil {
		return reduceLarge(t.spanning(name, callReduce, sizeOf[T]()), dst, src, op)
	}
	return t.publicError(name, coll.Reduce[T](t.ctx, t.coll, buffersOf(dst, src, src.n), coll.Op[T](op)))
}

// FCollect concatenates the src of all PEs, in the order of PE numbers, in dst on all PEs.
//
//   - Shape: dst has at least NPEs times as many elements as src; further elements stay as they are.
//   - Completion: on return.
//   - Errors: those of collectives, see the package documentation.
//   - Collective: over the team, with the same arguments; lengths of dst may differ.
//   - Source: shmem_fcollect.
func FCollect[T any](t *Team, dst, src Sym[T]) error {
	const op = "FCollect"
	if err := checkPair(t, op, dst, src, src.n*t.NPEs(), false); err != nil {
		return t.reportRefusal(op, err)
	}
	if t.h.checks {
		if err := t.compare(op, dst.off, src.off, "FCollect of %s", coll.NameElements[T](src.n)); err != nil {
			return err
		}
	}
	if t.upper != nil {
		return t.spanning(op, callFCollect, sizeOf[T]()).fcollect(dst.off, src.off, src.n)
	}
	return t.publicError(op, coll.FCollect[T](t.ctx, t.coll, buffersOf(dst, src, src.n)))
}

// Collect concatenates the src of all PEs, in the order of PE numbers, in dst on all PEs. PEs may pass different
// numbers of elements, 0 included: each PE passes a Slice of one object. Further elements of dst stay as they are.
//
//   - Shape: dst has at least as many elements as all src together.
//   - Completion: on return.
//   - Errors: those of collectives, see the package documentation; on all PEs alike ErrArgument if dst is too short
//     on any of them, and ErrMismatch if one called another collective or has another type.
//   - Collective: over the team; lengths, and the beginning of src, may differ.
//   - Source: shmem_collect.
func Collect[T any](t *Team, dst, src Sym[T]) error {
	const op = "Collect"
	if err := checkPair(t, op, dst, src, max(dst.n, 0), false); err != nil {
		return t.reportRefusal(op, err)
	}
	if t.h.checks {
		if err := t.compare(op, 0, 0, "Collect of %s", coll.NameElements[T](-1)); err != nil {
			return err
		}
	}
	if t.upper != nil {
		return t.spanning(op, callCollect, sizeOf[T]()).collect(dst.off, src.off, src.n, dst.n)
	}
	err := coll.Collect[T](t.ctx, t.coll, buffersOf(dst, src, src.n), dst.n)
	if room, ok := errors.AsType[*coll.RoomError](err); ok {
		return roomError(op, room.Member, room.Room, room.Total)
	}
	if other, ok := errors.AsType[*coll.OtherError](err); ok {
		return usage(op, ErrMismatch, "PE %d of the team called another collective or has another element type, want the same on all", other.Member)
	}
	return t.publicError(op, err)
}

// roomError returns the error of a Collect whose destination is too short on a PE of the team.
func roomError(op string, pe, room, total int) error {
	return usage(op, ErrArgument, "destination of PE %d of the team has %d elements, want at least %d, the number of all sources together", pe, room, total)
}

// Alltoall sends block i of src to PE i, where it becomes the block of dst with the sender's number.
//
//   - Shape: src has NPEs blocks of any one length; dst has at least as many elements, and further elements stay as
//     they are.
//   - Completion: on return.
//   - Errors: those of collectives, see the package documentation.
//   - Collective: over the team, with the same arguments; lengths of dst may differ.
//   - Source: shmem_alltoall.
func Alltoall[T any](t *Team, dst, src Sym[T]) error {
	const op = "Alltoall"
	if err := checkPair(t, op, dst, src, src.n, false); err != nil {
		return t.reportRefusal(op, err)
	}
	npes := t.NPEs()
	n := src.n / npes
	if n*npes != src.n {
		return t.reportRefusal(op, usage(op, ErrArgument, "%d elements for a team of %[2]d, want a multiple of %[2]d", src.n, npes))
	}
	if t.h.checks {
		if err := t.compare(op, dst.off, src.off, "Alltoall of %s", coll.NameElements[T](src.n)); err != nil {
			return err
		}
	}
	if t.upper != nil {
		return t.spanning(op, callAlltoall, sizeOf[T]()).alltoall(dst.off, src.off, Stride{Dst: 1, Src: 1, N: n})
	}
	return t.publicError(op, coll.Alltoall[T](t.ctx, t.coll, buffersOf(dst, src, n)))
}

// buffersOf describes the objects of a collective to package coll.
func buffersOf[T any](dst, src Sym[T], n int) coll.Buffers {
	return coll.Buffers{Dst: dst.off, Src: src.off, N: n}
}

// checkPair checks the objects of a collective, which writes the first want elements of dst. These must not overlap
// src; if inPlace, they may begin where src begins. Further elements of dst take no part, and src may overlap them.
func checkPair[T any](t *Team, op string, dst, src Sym[T], want int, inPlace bool) error {
	size := sizeOf[T]()
	if t != nil && t.coll != nil && dst.n >= want && src.n > 0 &&
		t.h.isLive(dst.tag) && t.h.isLive(src.tag) &&
		(dst.off+uint64(want)*size <= src.off || src.off+uint64(src.n)*size <= dst.off || inPlace && dst.off == src.off) {
		return nil
	}
	return t.checkRefs(op, dst.ref(), src.ref(), want, inPlace, size)
}

// checkRefs is the slow path of checkPair: it returns the error that says which argument is bad. It returns nil for
// good objects without elements, which fail the fast test.
func (t *Team) checkRefs(op string, dst, src ref, want int, inPlace bool, size uint64) error {
	if err := t.checkUsable(op); err != nil {
		return err
	}
	for _, r := range []ref{dst, src} {
		if err := t.h.checkRef(op, r, 0); err != nil {
			return err
		}
	}
	if dst.n < want {
		return usage(op, ErrArgument, "destination has %d elements, want at least %d (source has %d, team %d PEs)", dst.n, want, src.n, t.NPEs())
	}
	d, s := dst.off, src.off
	overlap := want > 0 && src.n > 0 && d < s+uint64(src.n)*size && s < d+uint64(want)*size
	if overlap && (!inPlace || d != s) {
		wanted := "want disjoint elements"
		if inPlace {
			wanted += " or the same offset"
		}
		return usage(op, ErrOverlap, "source and destination overlap (offsets %d and %d, %d elements written), %s", s, d, want, wanted)
	}
	return nil
}
