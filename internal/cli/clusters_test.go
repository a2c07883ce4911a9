package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// A job of MPI on hosts that ssh reaches: each rank runs on its host, the job's status is the program's, and a lost
// daemon has the name of its host.
func TestSSHCluster(t *testing.T) { // its processes keep all processors busy, so nothing runs beside it
	needCluster(t, testenv.SSH)
	dir, ssh, sshd := t.TempDir(), pathOf(t, "ssh"), pathOf(t, "sshd")
	check(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o700))
	// A home without files: what shells of this machine's user do first is not part of the test.
	c := startCluster(t, "sshd.sh", dir, ssh, sshd, fmt.Sprintf("%s=1 TMPDIR=%s HOME=%[2]s", asOshrun, filepath.Join(dir, "tmp")))
	c.env = []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")}
	c.hostVariable = "CLUSTER_HOST"
	launch := []string{"--launch", "ssh", "--host", "g0,g1,g2,g3"}
	for _, lib := range []testenv.Capability{testenv.OpenMPI, testenv.MPICH} {
		t.Run(string(lib), func(t *testing.T) {
			program := testenv.CompileC(t, lib, filepath.Join("testdata", "cluster.c"))
			hostOf := func(rank int) (node, host string) { node = fmt.Sprintf("g%d", rank); return node, node }
			c.testPrograms(t, hostOf, launch, program, "hello", "allreduce", "ring", "abort", "exit")
			c.testLoss(t, launch, program, "g1")
			c.testLoss(t, append([]string{"--recover"}, launch...), program, "g2")
		})
	}
	c.testSpawn(t, []string{"--launch", "ssh", "--host", "g0,g1:2", "-n", "1"}, []string{"3", "add-host", "g2,g1:2"}, "g2", "g1", "g1")
	t.Run("stdio", func(t *testing.T) {
		program := testenv.CompileC(t, testenv.MPICH, filepath.Join("testdata", "cluster.c"))
		hostOf := func(rank int) (node, host string) { node = fmt.Sprintf("g%d", rank); return node, node }
		launch := append([]string{"--control", "stdio"}, launch...)
		c.testPrograms(t, hostOf, launch, program, "hello", "ring", "abort")
		c.testLoss(t, launch, program, "g1")
		c.testLoss(t, append([]string{"--recover"}, launch...), program, "g2")
	})
	c.testHeartbeats(t, launch, "g3")
	testMeetings(t, func(t *testing.T, hosts int, args ...string) *job {
		return c.prepare(t, slices.Concat(launch, []string{"-n", fmt.Sprint(hosts)}, args)...)
	})
	c.expectIdle(t)
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("left in the hosts' temporary directory: %v, %v", left, err)
	}
}

// A job of MPI in a job of Slurm: each of Slurm's nodes runs its rank.
func TestSlurmCluster(t *testing.T) { // its processes keep all processors busy, so nothing runs beside it
	needCluster(t, testenv.Slurm)
	dir := t.TempDir()
	c := startCluster(t, "slurm.sh", dir)
	c.env = []string{"SLURM_CONF=" + filepath.Join(dir, "slurm.conf")}
	c.front = []string{pathOf(t, "salloc"), "--quiet", "-N4", "-n4"}
	c.hostVariable = "SLURMD_NODENAME"
	name, err := os.Hostname()
	check(t, err)
	for _, lib := range []testenv.Capability{testenv.OpenMPI, testenv.MPICH} {
		t.Run(string(lib), func(t *testing.T) {
			program := testenv.CompileC(t, lib, filepath.Join("testdata", "cluster.c"))
			hostOf := func(rank int) (node, host string) { return fmt.Sprintf("n%d", rank), name }
			c.testPrograms(t, hostOf, nil, program, "hello", "allreduce", "ring", "abort", "exit")
			c.testLoss(t, nil, program, "n1")
		})
	}
	c.testSpawn(t, []string{"-n", "1"}, []string{"3"}, "n1", "n2", "n3")
	t.Run("spawn outside", func(t *testing.T) {
		program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "placed.c"))
		j := c.prepare(t, "-n", "1", program, "1", "add-host", "elsewhere")
		j.begin()
		j.expect(50, "spawn for PE 0: host elsewhere is not in Slurm's allocation")
	})
	c.testHeartbeats(t, nil, "n2")
	testMeetings(t, func(t *testing.T, hosts int, args ...string) *job {
		return c.prepare(t, slices.Concat([]string{"-n", fmt.Sprint(hosts)}, args)...)
	})
	c.expectIdle(t)
}

// testSpawn runs placed.c, whose children run on hosts that have no PEs of the job before.
func (c *cluster) testSpawn(t *testing.T, launch, request []string, hosts ...string) {
	t.Helper()
	t.Run("spawn", func(t *testing.T) {
		program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "placed.c"))
		j := c.prepare(t, slices.Concat(launch, []string{program}, request)...)
		j.begin()
		j.expectPlaced(hosts...)
		c.expectIdle(t)
	})
}

// needCluster skips the test unless the machine can have a cluster with a launcher.
func needCluster(t *testing.T, launcher testenv.Capability) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes ten seconds, and the race detector finds in it what it finds on emulated nodes")
	}
	testenv.Need(t, launcher, testenv.Namespaces)
}

// testPrograms runs cluster.c, a rank on each host, once for each of some words.
func (c *cluster) testPrograms(t *testing.T, hostOf func(rank int) (node, host string), launch []string, program string, words ...string) {
	t.Helper()
	for _, word := range words {
		t.Run(word, func(t *testing.T) {
			j := c.prepare(t, slices.Concat(launch, []string{program, word})...)
			j.begin()
			j.expectRanks(word, clusterHosts, hostOf)
			c.expectIdle(t)
		})
	}
}

// testMeetings runs programs whose processes meet others than by messages, a rank on each host: a spawned job, published
// names and events. Prepared makes an oshrun that runs what follows on some hosts.
func testMeetings(t *testing.T, prepared func(t *testing.T, hosts int, args ...string) *job) {
	t.Helper()
	t.Run("spawn", func(t *testing.T) {
		j := prepared(t, clusterHosts, "--output", "tag", spawnProgram(t))
		j.begin()
		j.expectSpawned(clusterHosts)
	})
	t.Run("names", func(t *testing.T) {
		j := prepared(t, 2, namesProgram(t))
		j.begin()
		j.expectNames()
	})
	t.Run("events", func(t *testing.T) {
		j := prepared(t, clusterHosts, eventsProgram(t), "ranges")
		j.begin()
		j.expectRanges(1)
	})
}

// testLoss kills the daemon on a host. Oshrun names the host; with --recover the job goes on until it is interrupted.
func (c *cluster) testLoss(t *testing.T, launch []string, program, host string) {
	t.Helper()
	recovers := slices.Contains(launch, "--recover")
	t.Run(fmt.Sprintf("daemon killed, recover=%t", recovers), func(t *testing.T) {
		j := c.prepare(t, slices.Concat(launch, []string{program, "wait"})...)
		j.begin()
		j.readLines(clusterHosts)
		check(t, syscall.Kill(c.daemonOn(t, host, program), syscall.SIGKILL))
		rest := j.rest()
		words := "node " + host + " is lost with PE "
		if recovers {
			select {
			case <-j.stderr.says(words):
				check(t, j.cmd.Process.Signal(syscall.SIGINT))
			case <-rest:
			}
		}
		j.over(testPatience, func() { <-rest })
		if status, said := j.cmd.ProcessState.ExitCode(), j.stderr.String(); !strings.Contains(said, words) || !recovers && status != 1 {
			t.Errorf("status %d, said %q, want %q in it", status, said, words)
		}
		c.expectIdle(t)
	})
}

// testHeartbeats runs jobs whose nodes watch each other.
func (c *cluster) testHeartbeats(t *testing.T, launch []string, host string) {
	t.Helper()
	t.Run("heartbeats", func(t *testing.T) {
		program := testenv.CompileC(t, testenv.MPICH, filepath.Join("testdata", "cluster.c"))
		launch := append([]string{"--heartbeat-period", "100ms", "-v"}, launch...)
		j := c.prepare(t, slices.Concat(launch, []string{program, "hello"})...)
		j.begin()
		j.expect(0, ", every 100ms")
		c.testLoss(t, launch, program, host)
		c.testLoss(t, append([]string{"--recover"}, launch...), program, host)
	})
}

// readLines reads lines of output.
func (j *job) readLines(n int) {
	j.t.Helper()
	for range n {
		line, err := j.out.ReadString('\n')
		j.stdout.WriteString(line)
		if err != nil {
			j.t.Fatalf("output %q, %v; stderr:\n%s", &j.stdout, err, &j.stderr)
		}
	}
}

// pathOf returns the path of a program that is installed.
func pathOf(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	check(t, err)
	return path
}
