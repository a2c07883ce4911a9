package daemon

import (
	"runtime"
	"slices"

	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// binder lets what the calling thread starts run on some processors only.
type binder struct {
	home []int // of the thread before the first change
	now  []int // nil: home
}

// set changes the thread's processors; nil stands for those that it had first.
func (b *binder) set(cpus []int) (err error) {
	if slices.Equal(cpus, b.now) {
		return nil
	}
	if b.home == nil {
		if b.home, err = xunix.Affinity(); err != nil {
			return err
		}
	}
	to := cpus
	if to == nil {
		to = b.home
	}
	if err := xunix.SetAffinity(to); err != nil {
		return err
	}
	b.now = cpus
	return nil
}

// place returns where a PE runs: nowhere special for spawned ones.
func (s *Step) place(id ID) plan.Place {
	if id.Job > 0 || id.PE >= len(s.cfg.Places) {
		return plan.Place{}
	}
	return s.cfg.Places[id.PE]
}

// processors returns how many processors the PEs of a job have between them.
func (s *Step) processors(j *job) int {
	if j.number > 0 || s.cfg.Places == nil {
		return runtime.NumCPU()
	}
	return plan.Union(s.cfg.Places, runtime.NumCPU())
}
