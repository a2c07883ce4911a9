package launch

import (
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
)

// Each PE without its profiles is reported with the reason, and where those on other hosts are.
func TestMissingProfiles(t *testing.T) {
	l := pairLayout(8)
	p := newProfiles(&Options{Pprof: "/dir", Layout: l})
	p.expectJob(0, 8)
	p.expectJob(1, 2)
	p.expectJob(2, 2)
	p.dropJob(2) // job 2 could not be started
	p.silent[daemon.ID{PE: 2}] = true
	for pe, end := range map[int]ending.End{
		0: {}, 1: {Signal: 9}, 2: {Signal: 9}, 3: {Signal: 9}, 4: {Code: 3}, 5: {Unfinished: true}, 7: {},
	} {
		p.noteEnd(daemon.Event{ID: daemon.ID{PE: pe}, End: end, Profiled: pe == 0 || pe == 5}, pe%2)
	}
	p.noteEnd(daemon.Event{ID: daemon.ID{Job: 1}, End: ending.End{Code: 4}}, 0)
	p.noteEnd(daemon.Event{ID: daemon.ID{Job: 1, PE: 1}, Profiled: true}, 1)
	want := []string{
		"--pprof: no profile of PEs 1, 3: it was killed by signal 9 (SIGKILL)",
		"--pprof: no profile of PE 2: it was asked for it at the end of the job and did not answer within 500ms",
		"--pprof: no profile of PE 4: it exited with status 3 without Finalize",
		"--pprof: no profile of PE 6: it was not started",
		"--pprof: no profile of PE 7: it called neither shmem.Init nor mpi.Init, or could not write the files",
		"--pprof: no profile of PE 0 of job 1: it exited with status 4 without Finalize",
	}
	if got := p.missing(); !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	want = []string{"--pprof: profiles of PE 5 are in /dir on b", "--pprof: profiles of PE 1 of job 1 are in /dir on b"}
	if got := p.elsewhere(); !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	l.Allocation.Emulated = true
	if got := p.elsewhere(); got != nil {
		t.Errorf("on emulated nodes: %q, want nothing: all is on this machine", got)
	}
}

func TestListPEs(t *testing.T) {
	for want, pes := range map[string][]int{"PE 3": {3}, "PEs 0-1": {0, 1}, "PEs 0-2, 5, 7-8": {0, 1, 2, 5, 7, 8}} {
		if got := listPEs(pes); got != want {
			t.Errorf("%v: %q, want %q", pes, got, want)
		}
	}
}
