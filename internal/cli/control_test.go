package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// A PE can end others through PMIx, and the job goes on. A PE that ends the whole job does end it.
func TestControlEnds(t *testing.T) {
	t.Parallel()
	prog := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "control.c"), testenv.LibPMIx)
	for _, what := range []string{"abort", "kill", "terminate"} {
		t.Run(what, func(t *testing.T) {
			j := start(t, "-n", "3", prog, what)
			j.expect(3, "PE 1 (pid ", "was killed by signal 9 (SIGKILL) at PE 0's request after", "1 of 3 PEs failed:")
		})
	}
	j := start(t, "-n", "3", prog, "abort-all")
	j.expect(9, "PE 0 (pid ", "ended the job with status 9", "nobody is wanted")
}

// A PE can signal, stop and continue another PE.
func TestControlSignals(t *testing.T) {
	t.Parallel()
	prog := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "control.c"), testenv.LibPMIx)
	j := start(t, "-n", "3", prog, "signal")
	j.expect(0)
	pauseAndResume(t, "-n", "2", prog)
}

// pauseAndResume runs testdata/control.c, in which PE 0 stops PE 1 and lets it go on.
func pauseAndResume(t *testing.T, args ...string) {
	t.Helper()
	j := start(t, append([]string{"--output", "tag"}, append(args, "pause")...)...)
	pids, paused := map[string]int{}, false
	for len(pids) < 2 || !paused { // in any order, as the lines come from different PEs
		line, err := j.out.ReadString('\n')
		check(t, err)
		if who, pid, ok := strings.Cut(strings.TrimSpace(line), "<stdout>: ready "); ok {
			pids[who] = number(pid)
			continue
		}
		if paused = line == "[0]<stdout>: paused\n"; !paused {
			t.Fatalf("line %q", line)
		}
	}
	inState(t, "T", pids["[1]"])
	check(t, syscall.Kill(pids["[0]"], syscall.SIGUSR2))
	j.expect(0)
}
