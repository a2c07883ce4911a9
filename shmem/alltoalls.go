package shmem

import "github.com/goshmem/goshmem/coll"

// AlltoallS is Alltoall for elements that do not lie next to each other. Each PE sends s.N elements to each PE: every
// s.Src-th of src goes to every s.Dst-th of dst. The stride continues from one block to the next: element k for PE i
// is element (i*s.N+k)*s.Src of src, and becomes element (j*s.N+k)*s.Dst of PE i's dst, where j is the sender. The
// elements between are neither read nor written.
//
//   - Shape: s.N is at least 0, s.Dst and s.Src are at least 1, s.Block is 0 or 1; dst and src have at least the
//     elements named above, and may have more.
//   - Completion: on return.
//   - Errors: those of collectives, see the package documentation.
//   - Collective: over the team, with the same arguments; lengths of dst may differ.
//   - Source: shmem_alltoalls.
func AlltoallS[T any](t *Team, dst, src Sym[T], s Stride) error {
	const op = "AlltoallS"
	if err := t.checkUsable(op); err != nil {
		return err
	}
	if s.N < 0 || s.Dst < 1 || s.Src < 1 || s.Block < 0 || s.Block > 1 {
		return t.reportRefusal(op, usage(op, ErrArgument, "stride %+v, want N at least 0, Dst and Src at least 1, Block 0 or 1", s))
	}
	for _, x := range []struct {
		what   string
		length int
		stride int
	}{{"destination", dst.n, s.Dst}, {"source", src.n, s.Src}} {
		if x.length >= 0 && !fitsStrided(x.length, s.N, t.NPEs(), x.stride) {
			return t.reportRefusal(op, usage(op, ErrArgument, "%s has %d elements, want at least (%d*%d-1)*%d+1: %d for each of %d PEs, %d apart",
				x.what, x.length, s.N, t.NPEs(), x.stride, s.N, t.NPEs(), x.stride))
		}
	}
	all := s.N * t.NPEs()
	d, f := spanOf(dst, all, s.Dst), spanOf(src, all, s.Src)
	if err := checkPair(t, op, d, f, max(d.n, 0), false); err != nil {
		return t.reportRefusal(op, err)
	}
	if t.h.checks {
		if err := t.compare(op, d.off, f.off, "AlltoallS of %s with N %d, Dst %d and Src %d", coll.NameElements[T](-1), s.N, s.Dst, s.Src); err != nil {
			return err
		}
	}
	if t.upper != nil {
		return t.spanning(op, callAlltoallS, sizeOf[T]()).alltoall(d.off, f.off, s)
	}
	return t.publicError(op, coll.AlltoallS[T](t.ctx, t.coll, buffersOf(d, f, s.N), coll.Strides{Dst: s.Dst, Src: s.Src}))
}

// fitsStrided reports whether n elements for each of npes PEs, stride apart, fit into length elements.
func fitsStrided(length, n, npes, stride int) bool {
	return n == 0 || n <= length/npes && (length-1)/stride >= n*npes-1
}

// spanOf returns the part of x from the first to the last of n elements that are stride apart. A handle that was made
// with a bad index stays as it is.
func spanOf[T any](x Sym[T], n, stride int) Sym[T] {
	if x.n >= 0 && n == 0 {
		x.n = 0
	} else if x.n >= 0 {
		x.n = (n-1)*stride + 1
	}
	return x
}
