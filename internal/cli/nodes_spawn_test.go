package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// Processes that MPI_Comm_spawn starts on several nodes merge with their parents, sum with them, and disconnect.
func TestEmulatedMPISpawn(t *testing.T) { // its processes keep all processors busy, so nothing runs beside it
	program := spawnProgram(t)
	for _, x := range []struct{ nodes, pes int }{{1, 2}, {2, 2}, {2, 3}, {4, 4}} {
		j := start(t, "--emulate", fmt.Sprint(x.nodes), "-n", fmt.Sprint(x.pes), "--output", "tag", program)
		j.expectSpawned(x.pes)
	}
}

// spawnProgram spawns two processes of itself.
func spawnProgram(t *testing.T) string {
	t.Helper()
	return testenv.CompileC(t, testenv.OpenMPI, filepath.Join("..", "..", "pmix", "server", "testdata", "mpispawn.c"))
}

// expectSpawned checks what spawnProgram has printed on some ranks, with --output tag.
func (j *job) expectSpawned(n int) {
	j.t.Helper()
	j.expect(0)
	all := n + 2
	var want []string
	for rank := range all {
		who := fmt.Sprintf("[%d]<stdout>: parent", rank)
		if rank >= n {
			who = fmt.Sprintf("[1.%d]<stdout>: child", rank-n)
			want = append(want, fmt.Sprintf("[1.%d]<stdout>: argument: an argument", rank-n))
		}
		want = append(want, fmt.Sprintf("%s %d of %d, sum %d", who, rank, all, all*(all-1)/2))
	}
	slices.Sort(want)
	if got := lines(j.stdout.String()); !slices.Equal(got, want) {
		j.t.Errorf("%d ranks: got %q, want %q", n, got, want)
	}
}

// The info of MPI_Comm_spawn says on which hosts the processes run.
func TestEmulatedMPISpawnOnHosts(t *testing.T) { // its processes keep all processors busy, so nothing runs beside it
	program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "placed.c"))
	for _, x := range []struct {
		request string
		hosts   []string // by rank
	}{
		{"3 host node0:1,node2:2", []string{"node0", "node2", "node2"}},
		{"3 map_by node", []string{"node0", "node1", "node2"}},
		{"2 host node2,node1", []string{"node2", "node1"}}, // parents and children find each other by published data
		{"2 npernode 1", []string{"node0", "node1"}},
		{"4 rank_by node", []string{"node0", "node1", "node2", "node0"}},
	} {
		j := start(t, slices.Concat([]string{"--host", "node0:2,node1:2,node2:2", "--launch", "local", "-n", "3", "--map-by", "node", program}, strings.Fields(x.request))...)
		j.expectPlaced(x.hosts...)
	}
	j := start(t, "--emulate", "2", "-n", "2", program, "1", "host", "node7")
	j.expect(50, "spawn for PE 0: ", "host node7, want one of the hosts of this job: node0, node1")
}

// expectPlaced waits for the good end of placed.c, and checks on which hosts its children ran, by rank.
func (j *job) expectPlaced(hosts ...string) {
	j.t.Helper()
	j.expect(0)
	var want []string
	for rank, host := range hosts {
		want = append(want, fmt.Sprintf("%d: %s", rank, host))
	}
	if got := lines(j.stdout.String()); !slices.Equal(got, want) {
		j.t.Errorf("got %q, want %q", got, want)
	}
}

// PEs of any node spawn jobs, which go to all nodes, inherit from their spawner, and are waited for.
func TestEmulatedSpawn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := start(t, "--emulate", "2", "-n", "2", "-x", "COLOR=red", "--wdir", dir, "--output", "tag", spawner(t), "2",
		"sh", "-c", `echo "$PMIX_HOSTNAME $COLOR $PWD $1"`, "name", "two words")
	j.expect(0)
	rest := " red " + dir + " two words"
	want := []string{"[0]<stdout>: spawn: well", "[1]<stdout>: spawn: well"}
	for job := 1; job <= 2; job++ {
		for pe, host := range []string{"node0", "node1"} { // no slot is free: each has one more
			want = append(want, fmt.Sprintf("[%d.%d]<stdout>: %s%s", job, pe, host, rest))
		}
	}
	slices.Sort(want)
	if got := lines(j.stdout.String()); !slices.Equal(got, want) {
		t.Errorf("output %q, want %q", got, want)
	}
}

// The end of a spawned process means the same on several nodes as on one, and jobs that cannot be spawned leave nothing.
func TestEmulatedSpawnEnds(t *testing.T) {
	t.Parallel()
	garbage := t.TempDir() + "/garbage"
	check(t, os.WriteFile(garbage, []byte("no program\n"), 0o700))
	for _, x := range []struct {
		flags  string
		spawn  []string
		status int
		words  []string
	}{
		{"", []string{"2", "sh", "-c", "[ $PMIX_RANK = 0 ] || exit 5; sleep 1000"}, 5, []string{"PE 1.1 (pid", "exited with status 5"}},
		{"--recover", []string{"2", "sh", "-c", "[ $PMIX_RANK = 0 ] || exit 5"}, 3, []string{"PE 1.1 (pid", "1 of 4 PEs failed:"}},
		{"--timeout 1", []string{"2", "sleep", "1000"}, 124, []string{"still running: PE 1.0 (pid", "PE 1.1 (pid"}},
		{"", []string{"2", "no-such-program"}, 0, []string{`spawn for PE 0: node0: program "no-such-program"`}},
		{"", []string{"2", "sleep", "1000", ",", "2", garbage}, 0, []string{"spawn for PE 0: node", ": start PE 1."}},
	} {
		args := slices.Concat([]string{"--emulate", "2"}, strings.Fields(x.flags), []string{"-n", "1", spawner(t)}, x.spawn, []string{":", "-n", "1", "true"})
		start(t, args...).expect(x.status, x.words...)
	}
	j := start(t, "--emulate", "2", "-n", "1", spawner(t), "2", "sh", "-c", `echo "ready $$"; sleep 1000`, ":", "-n", "1", "true")
	check(t, syscall.Kill(j.ready(2)[1], syscall.SIGKILL))
	j.expect(137, "PE 1.", "SIGKILL")
}

// When a node is lost, the PEs of spawned jobs there are lost with it. With --recover the others go on.
func TestEmulatedSpawnLosesNode(t *testing.T) {
	t.Parallel()
	for _, recovers := range []bool{false, true} {
		goOn := t.TempDir() + "/go-on"
		args := []string{
			"--emulate", "2", "-n", "1", spawner(t), "1", "sh", "-c", `echo "ready $$"; until [ -e "$0" ]; do sleep 0.1; done`, goOn,
			",", "1", "sh", "-c", `echo "ready $$"; sleep 1000`, ":", "-n", "1", "sleep", "1000",
		}
		status, words := 1, []string{"node node1 is lost with 2 PEs, 1 to 1.1"}
		if recovers {
			args = append([]string{"--recover"}, args...)
			status, words = 3, append(words, "2 of 4 PEs failed:", "PE 1.1 (pid ", "was lost with its node, node1")
		}
		j := start(t, args...)
		j.readLines(3) // of both jobs: the spawn is over
		daemons := childrenThatRun(j.cmd.Process.Pid, "daemon", "--stdin")
		at := slices.IndexFunc(daemons, func(pid int) bool { return len(childrenThatRun(pid, goOn)) == 0 })
		check(t, syscall.Kill(daemons[at], syscall.SIGKILL))
		if recovers {
			select {
			case <-j.stderr.says("is lost with"):
			case <-time.After(nodeKillPatience):
				t.Error("nothing was said of the lost node")
			}
			check(t, os.WriteFile(goOn, nil, 0o600))
		}
		j.expect(status, words...)
	}
}
