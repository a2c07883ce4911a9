package launch

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
)

func writeProfiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name+".new"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// Each PE without both profiles is reported with the reason. Files of an earlier job do not count.
func TestMissingProfiles(t *testing.T) {
	dir := t.TempDir()
	writeProfiles(t, dir, "pe.1.cpu.pprof", "pe.1.heap.pprof", "pe.0.cpu.pprof", "pe.0.heap.pprof",
		"job.1.pe.0.cpu.pprof", "job.1.pe.0.heap.pprof")
	p := newProfiles(&Options{Pprof: dir})
	p.expectJob(0, 8)
	p.expectJob(1, 2)
	p.expectJob(2, 2)
	p.dropJob(2) // job 2 could not be started
	writeProfiles(t, dir, "pe.0.cpu.pprof", "pe.0.heap.pprof", "pe.7.cpu.pprof", "job.1.pe.1.cpu.pprof", "job.1.pe.1.heap.pprof")
	p.silent[daemon.ID{PE: 2}] = true
	for pe, end := range map[int]ending.End{
		0: {}, 1: {Signal: 9}, 2: {Signal: 9}, 3: {Signal: 9}, 4: {Code: 3}, 5: {Unfinished: true}, 7: {},
	} {
		p.noteEnd(daemon.Event{ID: daemon.ID{PE: pe}, End: end})
	}
	p.noteEnd(daemon.Event{ID: daemon.ID{Job: 1}, End: ending.End{Code: 4}})
	p.noteEnd(daemon.Event{ID: daemon.ID{Job: 1, PE: 1}})
	want := []string{
		"--pprof: no profile of PEs 1, 3: it was killed by signal 9 (SIGKILL)",
		"--pprof: no profile of PE 2: it was asked for it at the end of the job and did not answer within 500ms",
		"--pprof: no profile of PE 4: it exited with status 3 without Finalize",
		"--pprof: no profile of PE 5: it exited without Finalize",
		"--pprof: no profile of PE 6: it was not started",
		"--pprof: no profile of PE 7: it called neither shmem.Init nor mpi.Init, or could not write the files",
		"--pprof: no profile of PE 0 of job 1: it exited with status 4 without Finalize",
	}
	if got := p.missing(); !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

func TestListPEs(t *testing.T) {
	for want, pes := range map[string][]int{"PE 3": {3}, "PEs 0-1": {0, 1}, "PEs 0-2, 5, 7-8": {0, 1, 2, 5, 7, 8}} {
		if got := listPEs(pes); got != want {
			t.Errorf("%v: %q, want %q", pes, got, want)
		}
	}
}
