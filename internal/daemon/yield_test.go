package daemon

import (
	"runtime"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/envvar"
)

// All PEs of a job get the same word on oversubscription, whether or not others have ended before they start. For a
// later job, the PEs that run then count.
func TestAllGiveWayAlike(t *testing.T) {
	cpus := runtime.NumCPU()
	s := assemble(settings{}, "goshmem-test")
	begin := func(npes int) *localJob {
		j := newLocalJob([]App{{NPEs: npes}}, nil)
		s.table.enlist(j)
		return j
	}
	told := func(j *localJob) bool {
		return slices.Equal(j.yieldVariable(nil), []string{envvar.Oversubscribe + "=1"})
	}

	first := begin(cpus + 1)
	for ended := range cpus + 1 {
		if !told(first) {
			t.Errorf("a PE that starts when %d of %d have ended is not told of oversubscription", ended, cpus+1)
		}
		s.ends.countEnd(first)
	}
	for npes, want := range map[int]bool{cpus: false, cpus + 1: true} {
		if alone := begin(npes); told(alone) != want {
			t.Errorf("%d PEs on %d processors: told %t, want %t", npes, cpus, told(alone), want)
		} else {
			delete(s.table.jobs, alone.number)
		}
	}
	begin(cpus)
	if !told(begin(1)) {
		t.Errorf("one PE beside %d others is not told of oversubscription", cpus)
	}
	if got := first.yieldVariable([]string{envvar.Oversubscribe + "=0"}); got != nil {
		t.Errorf("got %v, want the user's setting", got)
	}
}
