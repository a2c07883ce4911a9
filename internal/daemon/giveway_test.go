package daemon

import (
	"runtime"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/envvar"
)

// All PEs of a job are told the same, whether others have ended before they are
// started or not; those of a later job count what runs then.
func TestAllGiveWayAlike(t *testing.T) {
	cpus := runtime.NumCPU()
	s := &Step{jobs: map[int]*job{}}
	begin := func(npes int) *job {
		j := newJob([]App{{NPEs: npes}})
		s.enlist(j)
		return j
	}
	told := func(j *job) bool { return slices.Equal(j.giveWay(nil), []string{envvar.Oversubscribe + "=1"}) }

	first := begin(cpus + 1)
	for ended := range cpus + 1 {
		if !told(first) {
			t.Errorf("a PE that starts when %d of %d have ended is not told", ended, cpus+1)
		}
		s.ended(first)
	}
	for npes, want := range map[int]bool{cpus: false, cpus + 1: true} {
		if alone := begin(npes); told(alone) != want {
			t.Errorf("%d PEs on %d processors: told %t, want %t", npes, cpus, told(alone), want)
		} else {
			delete(s.jobs, alone.number)
		}
	}
	begin(cpus)
	if !told(begin(1)) {
		t.Errorf("one PE beside %d is not told", cpus)
	}
	if got := first.giveWay([]string{envvar.Oversubscribe + "=0"}); got != nil {
		t.Errorf("%v in spite of what the user says", got)
	}
}
