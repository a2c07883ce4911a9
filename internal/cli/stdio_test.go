package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// apart returns a command that starts a daemon in a network of its own, which has loopback alone.
func apart(t *testing.T) string {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Namespaces, testenv.SSH) // for ip
	file := filepath.Join(t.TempDir(), "apart")
	script := "#!/bin/sh\necho some words of {host}\nexec unshare --net sh -c 'ip link set lo up && exec \"$@\"' sh \"$@\"\n"
	check(t, os.WriteFile(file, []byte(script), 0o700))
	return "exec:" + file
}

// Nodes without any way to the front end run a job by the standard input and output of what starts them.
func TestControlStdio(t *testing.T) {
	t.Parallel()
	launch := apart(t)
	const size = 4 << 20
	script := fmt.Sprintf(`tail -n +3 /proc/net/dev | cut -d: -f1; head -c %d /dev/zero | tr "\0" x`, size)
	j := start(t, "--control", "stdio", "--launch", launch, "--host", "a,b", "-n", "2", "--output", "tag", "sh", "-c", script)
	j.expect(0)
	text := j.stdout.String()
	if n := strings.Count(text, "x"); n != 2*size {
		t.Errorf("%d bytes have come, want %d", n, 2*size)
	}
	for pe := range 2 {
		if line := fmt.Sprintf("[%d]<stdout>:     lo\n", pe); !strings.Contains(text, line) {
			t.Errorf("PE %d has not said %q", pe, line)
		}
	}
	if strings.Contains(text, "eth") {
		t.Error("a node has another interface than loopback")
	}
}

// Standard input reaches a PE on such a node, and its status the front end.
func TestControlStdioInput(t *testing.T) {
	t.Parallel()
	j := prepare(t, "--control", "stdio", "--launch", "exec:env", "--host", "a,b", "-n", "2", "--stdin", "1", "sh", "-c", `wc -c; exit $(($PMIX_RANK * 7))`)
	const size = 1 << 20
	j.cmd.Stdin = strings.NewReader(strings.Repeat("x", size))
	j.begin()
	j.expect(7, "PE 1 (pid ")
	if want := fmt.Sprint(size, "\n"); !strings.Contains(j.stdout.String(), want) {
		t.Errorf("output %q, want %q in it", &j.stdout, want)
	}
}

// Whatever is killed, all ends, and the front end says what it has lost.
func TestControlStdioKills(t *testing.T) {
	t.Parallel()
	launch := apart(t)
	for victim, says := range map[string]string{"daemon": "is lost with PE ", "front end": ""} {
		for _, recovers := range []bool{false, true} {
			t.Run(fmt.Sprint(victim, recovers), func(t *testing.T) {
				t.Parallel()
				var options []string
				if recovers {
					options = append(options, "--recover")
				}
				j := start(t, append(options, "--control", "stdio", "--launch", launch, "--host", "a,b", "-n", "2",
					"sh", "-c", `echo "ready $$"; while :; do :; done`)...)
				j.ready(2)
				if victim == "front end" {
					check(t, j.cmd.Process.Kill())
					j.over(testPatience, func() {}) // the next job removes the files of the killed process
					return
				}
				check(t, syscall.Kill(daemonsBelow(j.cmd.Process.Pid)[0], syscall.SIGKILL))
				rest := j.rest()
				if recovers {
					<-j.stderr.says(says)
					check(t, j.cmd.Process.Signal(syscall.SIGINT))
				}
				_, said := j.endedAfter(testPatience, func() { <-rest })
				if !strings.Contains(said, says) || !strings.Contains(said, "signal: killed") {
					t.Errorf("said %q, want %q and how the daemon has ended", said, says)
				}
			})
		}
	}
}

// Programs of MPI whose nodes reach each other run so, too, on several levels of what would be a tree.
func TestControlStdioMPI(t *testing.T) { // its processes keep all processors busy, so nothing runs beside it
	for _, lib := range []testenv.Capability{testenv.OpenMPI, testenv.MPICH} {
		t.Run(string(lib), func(t *testing.T) {
			program := testenv.CompileC(t, lib, filepath.Join("testdata", "cluster.c"))
			name, err := os.Hostname()
			check(t, err)
			nodeOf := func(rank int) (node, host string) { return fmt.Sprintf("node%d", rank), name }
			for _, word := range []string{"hello", "ring", "abort", "exit"} {
				start(t, "--emulate", "4", "--control", "stdio", "--launch-radix", "1", "-n", "4", program, word).expectRanks(word, 4, nodeOf)
			}
		})
	}
}

// What starts all daemons by one process, or listens, is refused.
func TestControlOptions(t *testing.T) {
	noSlurm(t)
	for line, want := range map[string]string{
		"--control pipe --emulate 2":                 `--control: "pipe", want tcp or stdio`,
		"--control stdio --launch srun --host a,b":   "--control stdio: srun starts all daemons by one process, want one for each",
		"--control stdio --emulate 2:netns":          "--control stdio: --emulate 2:netns starts all daemons by one process",
		"--control stdio --emulate 2 --interface lo": `--interface: "lo", want nothing with --control stdio`,
		"--control= --emulate 2":                     `--control: "", want tcp or stdio`,
	} {
		status, _, said := execute(t, slices.Concat(strings.Fields(line), []string{"-n", "2", "true"})...)
		if status != 2 || !strings.Contains(said, want) || !strings.Contains(said, "hint: ") {
			t.Errorf("%s: status %d, %s; want %s", line, status, said, want)
		}
	}
}
