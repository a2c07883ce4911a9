package shmem_test

import "github.com/goshmem/goshmem/shmem"

const stressWaits = 1

func (s *stress) hear(c *shmem.Ctx, from []int, how int) {
	for _, pe := range from {
		s.ok(shmem.WaitUntil(c, s.flags.x.At(pe), shmem.GE, s.flags.model[s.me][pe]))
	}
}
func (s *stress) drop(at int) {}
