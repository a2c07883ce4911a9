package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// Programs of MPI libraries run on emulated nodes as on one.
func TestEmulatedMPI(t *testing.T) { // its processes keep all processors busy, so nothing runs beside it
	for _, lib := range []testenv.Capability{testenv.OpenMPI, testenv.MPICH} {
		t.Run(string(lib), func(t *testing.T) {
			program := testenv.CompileC(t, lib, filepath.Join("..", "..", "pmix", "server", "testdata", "hello.c"))
			for _, nodes := range []string{"1", "2", "4"} {
				j := start(t, "--emulate", nodes, "-n", "4", program)
				j.expect(0)
				var want []string
				for rank := range 4 {
					want = append(want, fmt.Sprintf("%d of 4, sum 6", rank))
				}
				got := strings.Split(strings.TrimSpace(j.stdout.String()), "\n")
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("%s nodes: got %q, want %q", nodes, got, want)
				}
			}
		})
	}
}

// Status, output, input and time limits mean the same on several nodes.
func TestEmulatedHabits(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		line   string
		script string
		status int
		stdout string
		said   string
	}{
		{"-n 4", `[ $PMIX_RANK != 2 ] || exit 7; sleep 60`, 7, "", "PE 2 (pid "},
		{"-n 4 --recover", `[ $PMIX_RANK != 2 ] || exit 7`, 3, "", "PE 2 (pid "},
		{"-n 4", `[ $PMIX_RANK != 3 ] || kill -9 $$; sleep 60`, 137, "", "was killed by signal 9 (SIGKILL)"},
		{"-n 4 --timeout 1", `sleep 60`, 124, "", "still running: PE 0 (pid "},
		{"-n 2 --stdin 1 --output tag", `cat`, 0, "[1]<stdout>: text\n", ""},
		{"-n 2 --stdin 1 --output tag", `cat >&2`, 0, "", "[1]<stderr>: text\n"},
		{"-n 2", "exec ./no-such-program", 127, "", "exited with status 127"},
	} {
		t.Run(x.line, func(t *testing.T) {
			t.Parallel()
			j := prepare(t, slices.Concat([]string{"--emulate", "2"}, strings.Fields(x.line), []string{"sh", "-c", x.script})...)
			j.cmd.Stdin = strings.NewReader("text\n")
			j.begin()
			j.expect(x.status, x.said)
			if got := j.stdout.String(); got != x.stdout {
				t.Errorf("output %q, want %q", got, x.stdout)
			}
		})
	}
	start(t, "--emulate", "2", "-n", "2", "./no-such-program").expect(4, "node0: program: ", "; and 1 more of the same kind: node1\n", "hint: is it built")
	for _, bad := range []string{"--emulate 0 -n 2", "--emulate 65 -n 65", "--emulate 2 -n 2 --launch exec:", "--emulate 2 -n 2 --launch rsh", "--emulate 2 -n 2 --lease never", "--emulate 2 -n 2 --lease 0.5", "--emulate 2 -n 2 --launch-radix 0", "--emulate 2 -n 2 --port-range 5-4", "--emulate 2 -n 2 --prefix here"} {
		if status, _, said := execute(t, append(strings.Fields(bad), "true")...); status != 2 || !strings.Contains(said, "want") || !strings.Contains(said, "hint: ") {
			t.Errorf("%s: status %d, %s", bad, status, said)
		}
	}
}

// A program of shmem runs on several nodes: its PEs meet, and add to a word of the last one.
func TestEmulatedShmem(t *testing.T) {
	t.Parallel()
	for _, nodes := range []string{"2", "3"} {
		start(t, "--emulate", nodes, "-n", "6", "t-pe", "barrier-ok").expect(0)
	}
}
