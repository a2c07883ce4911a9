package shmem_test

import (
	"runtime"

	"github.com/goshmem/goshmem/shmem"
)

// stressWaits is the number of ways to wait.
const stressWaits = 7

// awaitSignals waits in some way until the flags of the given PEs have their expected values.
func (s *stress) awaitSignals(c *shmem.Ctx, from []int, how int) {
	s.t.Helper()
	want, skip := s.flags.model[s.me], make([]bool, s.n)
	for pe := range skip {
		skip[pe] = true
	}
	for _, pe := range from {
		skip[pe] = false
	}
	idx := make([]int, 1+s.n/2)
	left := len(from)
	found := func(pes ...int) {
		for _, pe := range pes {
			if pe < 0 || pe >= s.n || skip[pe] {
				s.fatalf("way %d of waiting returned %d; want an element that is not skipped: %v", how, pe, skip)
			}
			skip[pe] = true
			left--
		}
	}
	switch how {
	case 0:
		for _, pe := range from {
			s.ok(shmem.WaitUntil(c, s.flags.x.At(pe), shmem.GE, want[pe]))
		}
		return
	case 1:
		s.ok(shmem.WaitUntilAllVector(c, s.flags.x, skip, shmem.EQ, want))
		return
	case 2:
		for done := false; !done; runtime.Gosched() {
			done = must(shmem.TestAllVector(c, s.flags.x, skip, shmem.GE, want))(s.t)
		}
		return
	}
	for left > 0 {
		switch how {
		case 3:
			found(must(shmem.WaitUntilAnyVector(c, s.flags.x, skip, shmem.EQ, want))(s.t))
		case 4:
			found(idx[:must(shmem.WaitUntilSomeVector(c, s.flags.x, idx, skip, shmem.GE, want))(s.t)]...)
		case 5:
			if i := must(shmem.TestAnyVector(c, s.flags.x, skip, shmem.EQ, want))(s.t); i >= 0 {
				found(i)
			}
		case 6:
			found(idx[:must(shmem.TestSomeVector(c, s.flags.x, idx, skip, shmem.GE, want))(s.t)]...)
		}
		if how > 4 {
			runtime.Gosched()
		}
	}
	if i := must(shmem.WaitUntilAnyVector(c, s.flags.x, skip, shmem.EQ, want))(s.t); i != -1 {
		s.fatalf("a wait for any of no elements returned %d, want -1", i)
	}
	if n := must(shmem.WaitUntilSomeVector(c, s.flags.x, idx, skip, shmem.EQ, want))(s.t); n != 0 {
		s.fatalf("a wait for some of no elements returned %d, want 0", n)
	}
}
