package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

var _ = routine("shmem_atomic_fetch", func(t *testing.T, w *shmem.World) {
	for _, e := range extTypes() {
		e.fetch(t, w, false)
	}
})

var _ = routine("shmem_atomic_fetch_nbi", func(t *testing.T, w *shmem.World) {
	for _, e := range extTypes() {
		e.fetch(t, w, true)
	}
})

var _ = routine("shmem_atomic_set", func(t *testing.T, w *shmem.World) {
	for _, e := range extTypes() {
		e.set(t, w)
	}
})

var _ = routine("shmem_atomic_swap", func(t *testing.T, w *shmem.World) {
	for _, e := range extTypes() {
		e.swap(t, w, false)
	}
})

var _ = routine("shmem_atomic_swap_nbi", func(t *testing.T, w *shmem.World) {
	for _, e := range extTypes() {
		e.swap(t, w, true)
	}
})

var _ = routine("shmem_atomic_compare_swap", func(t *testing.T, w *shmem.World) {
	for _, e := range amoTypes {
		e.compareSwap(t, w, false)
	}
})

var _ = routine("shmem_atomic_compare_swap_nbi", func(t *testing.T, w *shmem.World) {
	for _, e := range amoTypes {
		e.compareSwap(t, w, true)
	}
})

var _ = routine("shmem_atomic_fetch_inc", func(t *testing.T, w *shmem.World) {
	for _, e := range amoTypes {
		e.fetchInc(t, w, false)
	}
})

var _ = routine("shmem_atomic_fetch_inc_nbi", func(t *testing.T, w *shmem.World) {
	for _, e := range amoTypes {
		e.fetchInc(t, w, true)
	}
})

var _ = routine("shmem_atomic_inc", func(t *testing.T, w *shmem.World) {
	for _, e := range amoTypes {
		e.inc(t, w)
	}
})

var _ = routine("shmem_atomic_fetch_add", func(t *testing.T, w *shmem.World) {
	for _, e := range amoTypes {
		e.fetchAdd(t, w, false)
	}
})

var _ = routine("shmem_atomic_fetch_add_nbi", func(t *testing.T, w *shmem.World) {
	for _, e := range amoTypes {
		e.fetchAdd(t, w, true)
	}
})

var _ = routine("shmem_atomic_add", func(t *testing.T, w *shmem.World) {
	for _, e := range amoTypes {
		e.add(t, w)
	}
})

var _ = routine("shmem_atomic_fetch_and", func(t *testing.T, w *shmem.World) {
	for _, e := range bitsTypes {
		e.fetchAnd(t, w, false)
	}
})

var _ = routine("shmem_atomic_fetch_and_nbi", func(t *testing.T, w *shmem.World) {
	for _, e := range bitsTypes {
		e.fetchAnd(t, w, true)
	}
})

var _ = routine("shmem_atomic_and", func(t *testing.T, w *shmem.World) {
	for _, e := range bitsTypes {
		e.and(t, w)
	}
})

var _ = routine("shmem_atomic_fetch_or", func(t *testing.T, w *shmem.World) {
	for _, e := range bitsTypes {
		e.fetchOr(t, w, false)
	}
})

var _ = routine("shmem_atomic_fetch_or_nbi", func(t *testing.T, w *shmem.World) {
	for _, e := range bitsTypes {
		e.fetchOr(t, w, true)
	}
})

var _ = routine("shmem_atomic_or", func(t *testing.T, w *shmem.World) {
	for _, e := range bitsTypes {
		e.or(t, w)
	}
})

var _ = routine("shmem_atomic_fetch_xor", func(t *testing.T, w *shmem.World) {
	for _, e := range bitsTypes {
		e.fetchXor(t, w, false)
	}
})

var _ = routine("shmem_atomic_fetch_xor_nbi", func(t *testing.T, w *shmem.World) {
	for _, e := range bitsTypes {
		e.fetchXor(t, w, true)
	}
})

var _ = routine("shmem_atomic_xor", func(t *testing.T, w *shmem.World) {
	for _, e := range bitsTypes {
		e.xor(t, w)
	}
})
