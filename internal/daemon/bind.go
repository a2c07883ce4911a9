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

// place returns where a PE runs: one of a spawned job anywhere among the processors
// that the jobs may use.
func (s *Step) place(j *job, pe int) plan.Place {
	if j.number > 0 || pe >= len(s.cfg.Places) {
		return plan.Place{CPUs: s.cfg.CPUs, Sharers: j.npes()}
	}
	return s.cfg.Places[pe]
}

// processors returns how many processors the PEs of a job have between them.
func (s *Step) processors(j *job) int {
	switch {
	case j.number > 0 && s.cfg.CPUs != nil:
		return len(s.cfg.CPUs)
	case j.number > 0 || s.cfg.Places == nil:
		return runtime.NumCPU()
	}
	return plan.Union(s.cfg.Places, runtime.NumCPU())
}
