package shmem

import (
	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/fold"
)

// SumInScan adds up, in the order of PE numbers, the src of this PE and of all with
// lower numbers into dst. What it gives depends on no timing: floating-point numbers
// are added in that order always.
//
//   - Shape: as Broadcast.
//   - Completion: on return.
//   - Errors: those of collectives, see the package documentation.
//   - Collective: over the team, with the same arguments; lengths of dst may differ.
//   - Source: shmem_sum_inscan.
func SumInScan[T Number](t *Team, dst, src Sym[T]) error {
	return scan(t, "SumInScan", dst, src, false)
}

// SumExScan adds up, in the order of PE numbers, the src of all PEs with lower numbers
// than this one's into dst. That of PE 0 becomes zeros.
//
//   - Shape: as Broadcast.
//   - Completion: on return.
//   - Errors: those of collectives, see the package documentation.
//   - Collective: over the team, with the same arguments; lengths of dst may differ.
//   - Source: shmem_sum_exscan.
func SumExScan[T Number](t *Team, dst, src Sym[T]) error {
	return scan(t, "SumExScan", dst, src, true)
}

func scan[T Number](t *Team, op string, dst, src Sym[T], exclusive bool) error {
	if err := checkPair(t, op, dst, src, src.n, true); err != nil {
		return t.refuse(op, err)
	}
	if t.h.checks {
		if err := t.compare(op, dst.off, src.off, "%s of %s", op, coll.NameElements[T](src.n)); err != nil {
			return err
		}
	}
	return t.fail(op, coll.Scan(t.ctx, t.t, buffers(dst, src, src.n), fold.Sum[T], exclusive))
}
