package shmem

import (
	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/fold"
)

// SumInScan stores in dst the sum of src over this PE and all PEs with lower numbers. It adds in the order of PE
// numbers, floating-point numbers too, so the result does not depend on timing.
//
//   - Shape: as Broadcast.
//   - Completion: on return.
//   - Errors: those of collectives, see the package documentation.
//   - Collective: over the team, with the same arguments; lengths of dst may differ.
//   - Source: shmem_sum_inscan.
func SumInScan[T Number](t *Team, dst, src Sym[T]) error {
	return scan(t, "SumInScan", dst, src, false)
}

// SumExScan stores in dst the sum of src over all PEs with lower numbers than this one. On PE 0 dst becomes zeros. It
// adds as SumInScan does.
//
//   - Shape: as Broadcast.
//   - Completion: on return.
//   - Errors: those of collectives, see the package documentation.
//   - Collective: over the team, with the same arguments; lengths of dst may differ.
//   - Source: shmem_sum_exscan.
func SumExScan[T Number](t *Team, dst, src Sym[T]) error {
	return scan(t, "SumExScan", dst, src, true)
}

// scan is SumInScan, or SumExScan if exclusive.
func scan[T Number](t *Team, op string, dst, src Sym[T], exclusive bool) error {
	if err := checkPair(t, op, dst, src, src.n, true); err != nil {
		return t.reportRefusal(op, err)
	}
	if t.h.checks {
		if err := t.compare(op, dst.off, src.off, "%s of %s", op, coll.NameElements[T](src.n)); err != nil {
			return err
		}
	}
	if t.upper != nil {
		call, n := callInScan, t.me+1
		if exclusive {
			call, n = callExScan, t.me
		}
		return foldSpanning(t.spanning(op, call, sizeOf[T]()), dst, src, fold.Sum[T], n)
	}
	return t.publicError(op, coll.Scan(t.ctx, t.coll, buffersOf(dst, src, src.n), fold.Sum[T], exclusive))
}
