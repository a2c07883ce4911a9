package daemon

import (
	"runtime"
	"slices"

	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// binder restricts the processors of the calling thread, and so of the processes that the thread starts.
type binder struct {
	home []int // of the thread before the first change
	now  []int // nil: home
}

// bindThread changes the thread's processors; nil stands for those that it had first.
func (b *binder) bindThread(cpus []int) (err error) {
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
func (c *Config) place(j *localJob, pe int) plan.Place {
	if j.number > 0 || pe >= len(c.Places) {
		return plan.Place{CPUs: c.Binding.CPUs, Sharers: j.sharers()}
	}
	return c.Places[pe]
}

// processors returns how many processors the near PEs of a job have between them.
func (c *Config) processors(j *localJob) int {
	switch {
	case j.number > 0 && c.Binding.CPUs != nil:
		return max(1, len(c.Binding.CPUs)*len(j.near)/j.sharers())
	case j.number > 0 || c.Places == nil:
		return max(1, runtime.NumCPU()*len(j.near)/j.sharers())
	}
	places := make([]plan.Place, 0, len(j.near))
	for _, pe := range j.near {
		places = append(places, c.place(j, pe))
	}
	all := plan.Union(places, runtime.NumCPU())
	if j.sharers() == len(j.near) {
		return all
	}
	mine := 0.0 // PEs of other nodes may have the same processors
	for i := range places {
		has := len(places[i].CPUs)
		if has == 0 {
			has = runtime.NumCPU()
		}
		mine += float64(has) / float64(max(1, places[i].Sharers))
	}
	return max(1, min(all, int(mine)))
}
