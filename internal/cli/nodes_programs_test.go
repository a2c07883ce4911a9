package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// nodeRounds is how often tests run programs of MPI on emulated nodes.
var nodeRounds = flag.Int("node-rounds", 1, "how often the tests of MPI programs on emulated nodes run hello and allreduce; all else a twentieth of that, but once at least")

// mpiWords are what cluster.c can do, with the status that the job then has.
var mpiWords = map[string]int{"hello": 0, "allreduce": 0, "ring": 0, "abort": 42, "exit": 7}

// Programs of both MPI libraries run on emulated nodes, in a tree of three levels, however often.
func TestEmulatedPrograms(t *testing.T) { // its processes keep all processors busy, so nothing runs beside it
	name, err := os.Hostname()
	check(t, err)
	testRounds(t, "4", 1, func(node string) string { return name })
}

// testRounds runs cluster.c of both libraries on emulated nodes with two ranks each; hello and allreduce a part of
// nodeRounds times. HostOf returns the host name of a node.
func testRounds(t *testing.T, nodes string, part int, hostOf func(node string) string) {
	t.Helper()
	for _, lib := range []testenv.Capability{testenv.OpenMPI, testenv.MPICH} {
		t.Run(string(lib), func(t *testing.T) {
			program := testenv.CompileC(t, lib, filepath.Join("testdata", "cluster.c"))
			for word := range mpiWords {
				rounds := max(1, *nodeRounds/20)
				if word == "hello" || word == "allreduce" {
					rounds = max(1, *nodeRounds/part)
				}
				var took []time.Duration
				for i := range rounds {
					t.Run(fmt.Sprint(word, " ", i), func(t *testing.T) {
						began := time.Now()
						j := start(t, "--emulate", nodes, "--launch-radix", "2", "-n", fmt.Sprint(2*clusterHosts), program, word)
						j.expectRanks(word, 2*clusterHosts, func(rank int) (node, host string) {
							node = fmt.Sprintf("node%d", rank/2)
							return node, hostOf(node)
						})
						took = append(took, time.Since(began))
					})
				}
				slices.Sort(took)
				t.Logf("%s %s: %d times, median %v, at most %v", lib, word, rounds, took[len(took)/2], took[len(took)-1])
			}
		})
	}
}

// expectRanks checks the status and the output of cluster.c on n ranks that has got some word.
func (j *job) expectRanks(word string, n int, hostOf func(rank int) (node, host string)) {
	j.t.Helper()
	status := mpiWords[word]
	j.expect(status)
	var want []string
	for rank := range n {
		node, host := hostOf(rank)
		want = append(want, fmt.Sprintf("rank %d of %d, node %s, host %s, sum %d", rank, n, node, host, n*(n-1)/2))
	}
	got := strings.Split(strings.TrimSpace(j.stdout.String()), "\n")
	slices.Sort(got)
	same := slices.Equal(got, want)
	if status != 0 { // lines may be missing
		same = !slices.ContainsFunc(got, func(line string) bool { return line != "" && !slices.Contains(want, line) })
	}
	if !same {
		j.t.Errorf("output %q, want %q; stderr:\n%s", got, want, &j.stderr)
	}
}
