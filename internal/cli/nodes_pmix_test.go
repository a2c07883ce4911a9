package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// linesOf returns what a job has printed, sorted.
func linesOf(j *job) []string {
	lines := strings.Split(strings.TrimSpace(j.stdout.String()), "\n")
	slices.Sort(lines)
	return lines
}

// Processes of different nodes find each other by published names, and connect.
func TestEmulatedPublish(t *testing.T) {
	t.Parallel()
	j := start(t, "--emulate", "2", "-n", "2", namesProgram(t))
	j.expectNames()
}

// namesProgram publishes and looks up names, on two ranks.
func namesProgram(t *testing.T) string {
	t.Helper()
	return testenv.CompileC(t, testenv.OpenMPI, filepath.Join("..", "..", "pmix", "server", "testdata", "names.c"))
}

// expectNames checks what namesProgram has printed.
func (j *job) expectNames() {
	j.t.Helper()
	j.expect(0)
	want := []string{
		"0: nothing MPI_ERR_NAME: invalid name argument", "0: service found",
		"1: nothing MPI_ERR_NAME: invalid name argument", "1: received 0 over the port", "1: service found",
		"again: MPI_ERR_SERVICE: unknown service name", "twice: refused", "unpublish: found",
	}
	if got := linesOf(j); !slices.Equal(got, want) {
		j.t.Errorf("got %q, want %q", got, want)
	}
}

// Processes of all nodes share published names, whether their library publishes by PMIx or by PMI-1.
func TestEmulatedServices(t *testing.T) {
	t.Parallel()
	for _, lib := range []testenv.Capability{testenv.OpenMPI, testenv.MPICH} {
		t.Run(string(lib), func(t *testing.T) {
			program := testenv.CompileC(t, lib, filepath.Join("testdata", "services.c"))
			j := start(t, "--emulate", "3", "-n", "3", program)
			j.expect(0)
			var want []string
			for rank := range 3 {
				want = append(want,
					fmt.Sprintf("%d: finds the next then no", rank), fmt.Sprintf("%d: finds the next yes", rank),
					fmt.Sprintf("%d: published yes", rank), fmt.Sprintf("%d: publishes the next again no", rank), fmt.Sprintf("%d: withdrawn yes", rank))
			}
			if got := linesOf(j); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A name that is published by PMI-1 stands for the same on all nodes.
func TestEmulatedPorts(t *testing.T) {
	t.Parallel()
	j := start(t, "--emulate", "2", "-n", "2", "sh", "-c", speakPMI+`
[ $PMI_RANK = 0 ] && say 'publish_name service=sea ice port=of PE 0'
say barrier_in
say 'lookup_name service=sea ice'
echo "$answer"
say barrier_in
[ $PMI_RANK = 1 ] && say 'unpublish_name service=sea ice' && echo "$answer"
say finalize`)
	j.expect(0)
	const found = "cmd=lookup_result port=of PE 0 info=ok rc=0 msg=success"
	if got, want := linesOf(j), []string{found, found, "cmd=unpublish_result rc=0 msg=success"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// speakPMI begins a shell script that speaks PMI-1.
const speakPMI = `
say() { printf 'cmd=%s\n' "$1" >&$PMI_FD; read -r answer <&$PMI_FD; }
say 'init pmi_version=1 pmi_subversion=1'
`

// Ranges, waiting and lifetimes of published data mean on two nodes what they mean on one; only the range "local" does not
// reach the other node.
func TestEmulatedExchange(t *testing.T) {
	t.Parallel()
	program := testenv.CompileC(t, testenv.CC, filepath.Join("..", "..", "pmix", "server", "testdata", "exchange.c"), testenv.LibPMIx)
	j := start(t, "--emulate", "2", "-n", "2", program)
	j.expect(0)
	want := []string{
		"awaited: NOT-FOUND", "awaited: SUCCESS", "for 0: NOT-FOUND", "for 1: SUCCESS",
		"of the application that has not: NOT-FOUND", "of the application: NOT-FOUND",
		"of the process that has ended: NOT-FOUND", "of the process: SUCCESS",
		"own: NOT-FOUND", "own: SUCCESS", "what never comes: TIMEOUT",
	}
	if got := linesOf(j); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The range of an event decides which processes of which nodes hear it.
func TestEmulatedEvents(t *testing.T) {
	t.Parallel()
	j := start(t, "--emulate", "2", "-n", "4", eventsProgram(t), "ranges")
	j.expectRanges(2)
}

// eventsProgram has handlers of events, on four ranks.
func eventsProgram(t *testing.T) string {
	t.Helper()
	return testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "events.c"), testenv.LibPMIx)
}

// expectRanges checks what eventsProgram has printed of events with several ranges, with some ranks on each node. Event 4
// is for the node of rank 0 alone.
func (j *job) expectRanges(perNode int) {
	j.t.Helper()
	j.expect(0)
	var want []string
	for rank, codes := range []string{"1 2 4 5 6", "1 2 4 6", "1 2 4 6", "1 2 3 4 6"} {
		for code := range strings.FieldsSeq(codes) {
			if code != "4" || rank < perNode {
				want = append(want, fmt.Sprintf("rank %d hears -300%s from 0", rank, code))
			}
		}
	}
	if got := linesOf(j); !slices.Equal(got, want) {
		j.t.Errorf("got %q, want %q", got, want)
	}
}

// Processes of other nodes hear that a node is down, once for all that were on it, and go on.
func TestEmulatedNodeDown(t *testing.T) {
	t.Parallel()
	j := start(t, "--emulate", "3", "-n", "6", "--recover", eventsProgram(t), "lost")
	j.expect(3, "node node2 is lost with 2 PEs, 4 to 5", "2 of 6 PEs failed:")
	var want []string
	for rank := range 4 {
		want = append(want, fmt.Sprintf("rank %d hears -231 about 2", rank))
	}
	if got := linesOf(j); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Processes of all nodes hear the same about an end, also why a process was ended.
func TestEmulatedEndsAreEvents(t *testing.T) {
	prog := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "news.c"), testenv.LibPMIx)
	for how, want := range ends {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			hearOfEnd(t, how, want.code, want.said, "--emulate", "2", "--map-by", "node", prog, how)
		})
	}
}

// A PE can end, signal, stop and continue PEs of other nodes, and the job.
func TestEmulatedControl(t *testing.T) {
	t.Parallel()
	prog := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "control.c"), testenv.LibPMIx)
	for _, what := range []string{"abort", "kill", "terminate"} {
		t.Run(what, func(t *testing.T) {
			j := start(t, "--emulate", "3", "-n", "3", prog, what)
			j.expect(3, "PE 1 (pid ", "was killed by signal 9 (SIGKILL) at PE 0's request after", "1 of 3 PEs failed:")
		})
	}
	j := start(t, "--emulate", "3", "-n", "3", prog, "abort-all")
	j.expect(9, "PE 0 (pid ", "ended the job with status 9", "nobody is wanted")
	j = start(t, "--emulate", "3", "-n", "3", prog, "signal")
	j.expect(0)
	pauseAndResume(t, "--emulate", "2", "-n", "2", prog)
}

// Queries tell the states and pids of processes of all nodes.
func TestEmulatedQueries(t *testing.T) {
	t.Parallel()
	program := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "query.c"), testenv.LibPMIx)
	j := start(t, "--emulate", "2", "-n", "4", "--recover", program, "node1")
	j.expect(3, "PE 3 (pid ", "exited with status 7")
	want := []string{
		"all: rank 0 on node0, state 6, its pid", "all: rank 1 on node0, state 6, its pid",
		"all: rank 2 on node1, state 6, its pid", "all: rank 3 on node1, state 6, its pid",
		"host: rank 2 on node1, state 6, its pid", "host: rank 3 on node1, state 6, its pid",
		"job: 0", "last: state 6", "then: -404",
	}
	if got := linesOf(j); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A group of processes of several nodes has one number.
func TestEmulatedGroup(t *testing.T) {
	t.Parallel()
	program := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "group.c"), testenv.LibPMIx)
	j := start(t, "--emulate", "4", "-n", "8", "--map-by", "node", program)
	j.expect(0)
	if got, want := linesOf(j), slices.Repeat([]string{"number 1"}, 8); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	j = start(t, "--emulate", "4", "-n", "8", "--map-by", "node", program, "leave")
	j.expect(0)
	if got, want := linesOf(j), slices.Concat(slices.Repeat([]string{"number 1"}, 8), slices.Repeat([]string{"number 2"}, 8)); !slices.Equal(got, want) {
		t.Errorf("after all members of a node have left the group got %q, want %q", got, want)
	}
}

// PEs that speak PMI-1 find the dead of other nodes.
func TestEmulatedDeadPEs(t *testing.T) {
	t.Parallel()
	const script = speakPMI + `
if [ $PMI_RANK != 0 ]; then
	[ $PMI_RANK = 1 ] || kill -9 $$
	say finalize
	exit
fi
while say 'get kvsname='$PMIX_NAMESPACE' key=PMI_dead_processes'; do
	case $answer in *'value=2,3'|*'value=3,2') break ;; esac
done
echo dead
say finalize`
	j := start(t, "--emulate", "2", "-n", "4", "--recover", "sh", "-c", script)
	j.expect(3, "PE 2 (pid ", "PE 3 (pid ")
	if got, want := linesOf(j), []string{"dead"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
