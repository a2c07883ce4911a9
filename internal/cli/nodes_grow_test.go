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

// A PE that is alone on its host spawns on hosts that have no PE, and on hosts that are new to the job.
func TestEmulatedSpawnOnFreeHosts(t *testing.T) {
	t.Parallel()
	program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "placed.c"))
	dir := t.TempDir()
	check(t, os.WriteFile(dir+"/hosts", []byte("node2 slots=2\nnode1 # with all its slots\n"), 0o600))
	check(t, os.WriteFile(dir+"/more", []byte("node8 slots=1\nnode9 slots=2\n"), 0o600))
	base := []string{"--host", "node0:1,node1:2,node2:2", "--launch", "local", "--wdir", dir, "-n", "1", program}
	for _, x := range []struct {
		request string
		hosts   []string // by rank
	}{
		{"3", []string{"node1", "node1", "node2"}},
		{"3 map_by node", []string{"node1", "node2", "node1"}},
		{"2 host node2:2", []string{"node2", "node2"}},
		{"3 hostfile hosts", []string{"node2", "node2", "node1"}},
		{"3 hostfile " + dir + "/hosts", []string{"node2", "node2", "node1"}},
		{"3 add-host node7:2,node8", []string{"node7", "node7", "node8"}},
		{"3 add-hostfile more", []string{"node8", "node9", "node9"}},
	} {
		t.Run(x.request, func(t *testing.T) {
			t.Parallel()
			start(t, slices.Concat(base, strings.Fields(x.request))...).expectPlaced(x.hosts...)
		})
	}
	for request, words := range map[string]string{
		"1 host node7":              "host node7, want one of the hosts of this job: node0, node1, node2",
		"1 hostfile nowhere":        `hostfile "nowhere": open ` + dir + "/nowhere: no such file",
		"1 hostfile .":              "is not a regular file",
		"1 add-hostfile " + program: "add-hostfile " + program + ": line 1",
		"1 add-host me@node7":       "host node7: a user and a port are for --launch ssh",
	} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			start(t, slices.Concat(base, strings.Fields(request))...).expect(50, "spawn for PE 0: ", words)
		})
	}
}

// On hosts with networks of their own, processes that are spawned on a new node reach their parent.
func TestNetworkSpawnOnFreeHost(t *testing.T) {
	t.Parallel()
	needNetworks(t)
	program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "placed.c"))
	start(t, "--emulate", "3:netns", "-n", "1", program, "2").expectPlaced("node1", "node2")
	start(t, "--emulate", "1:netns", "-n", "1", program, "2", "add-host", "node4,node3").expectPlaced("node4", "node3")
}

// Several spawns at once share the nodes that are added for them.
func TestEmulatedSpawnsTogether(t *testing.T) {
	t.Parallel()
	goOn := t.TempDir() + "/go-on"
	j := start(t, "--host", "node0:4,node1:2,node2:2,node3:4", "--launch", "local", "-n", "4", spawner(t), "2",
		"sh", "-c", `echo "ready $$"; until [ -e "$0" ]; do sleep 0.1; done; echo "$PMIX_HOSTNAME"`, goOn)
	j.ready(8) // all have their slots until then
	check(t, os.WriteFile(goOn, nil, 0o600))
	j.expect(0)
	var want []string
	for _, host := range []string{"node1", "node2", "node3", "node3"} {
		want = append(want, host, host)
	}
	want = append(want, slices.Repeat([]string{"spawn: well"}, 4)...)
	got := slices.DeleteFunc(lines(j.stdout.String()), func(line string) bool { return strings.HasPrefix(line, "ready ") })
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// agentScript returns the option that starts daemons by a shell script, which has the host's name and the command.
func agentScript(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	check(t, os.WriteFile(path, []byte("#!/bin/sh\nhost=$1; shift\n"+script), 0o700)) //nolint:gosec // it is executed
	return "exec:" + path + " {host}"
}

// A spawn fails if the daemon of a host that it needs does not come up: the job goes on, also with other spawns there.
func TestEmulatedSpawnWithoutDaemon(t *testing.T) {
	t.Parallel()
	const twice = `"$0" "$@" && "$0" "$@"`
	for name, x := range map[string]struct{ script, timeout, spawns, words string }{
		"fails":  {`[ $host = node0 ] || { echo no such host >&2; exit 7; }; exec "$@"`, "20", twice, "exit status 7: no such host"},
		"killed": {`[ $host = node0 ] || { "$@" & kill -9 $!; wait $!; exit; }; exec "$@"`, "20", twice, "exit status 137"},
		// The timeout is that of node0, too, which may take a second on a busy machine.
		"silent": {`[ $host = node0 ] || exec sleep 1000; exec "$@"`, "6", `"$0" "$@"`, "it has not reported itself within 6s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := start(t, "--host", "node0,node1:4", "--launch", agentScript(t, x.script), "--launch-timeout", x.timeout, "-n", "1", "sh", "-c",
				x.spawns, spawner(t), "2", "true")
			j.expect(0, "spawn for PE 0: start a daemon for the spawned job: daemon on node1", x.words)
			got := lines(j.stdout.String())
			if len(got) != strings.Count(x.spawns, "$0") || got[0] != got[len(got)-1] || !strings.Contains(got[0], "FAILED") {
				t.Errorf("output %q, want an error of each spawn", got)
			}
		})
	}
}

// A node that was added is lost: with PEs that ends the job, without it does not.
func TestEmulatedSpawnLosesAddedNode(t *testing.T) {
	t.Parallel()
	lose := func(j *job) {
		daemons := daemonsBelow(j.cmd.Process.Pid)
		at := slices.IndexFunc(daemons, func(pid int) bool { return strings.Contains(environOf(j.t, pid), "NODE=node1") })
		if at < 0 {
			j.t.Fatal("there is no daemon of node1")
		}
		check(j.t, syscall.Kill(daemons[at], syscall.SIGKILL))
	}
	for _, x := range []struct {
		flags  string
		status int
		words  []string
	}{
		{"", 1, []string{"node node1 is lost with PE 1.0"}},
		{"--recover", 3, []string{"node node1 is lost with PE 1.0", "1 of 2 PEs failed:", "was lost with its node, node1"}},
	} {
		t.Run("with PEs"+x.flags, func(t *testing.T) {
			t.Parallel()
			goOn := t.TempDir() + "/go-on"
			j := start(t, slices.Concat(strings.Fields(x.flags), []string{
				"--host", "node0,node1:4", "--launch", agentScript(t, `NODE=$host exec "$@"`), "-n", "1", "sh", "-c",
				`"$0" "$@"; until [ -e "` + goOn + `" ]; do sleep 0.1; done`, spawner(t), "1", "sh", "-c", `echo "ready $$"; sleep 1000`,
			})...)
			j.readLines(2) // of both jobs: the spawn is over
			lose(j)
			if x.status == 3 {
				j.awaitWord("is lost with")
				check(t, os.WriteFile(goOn, nil, 0o600))
			}
			j.expect(x.status, x.words...)
		})
	}
	t.Run("without PEs", func(t *testing.T) {
		t.Parallel()
		goOn := t.TempDir() + "/go-on"
		j := start(t, "-v", "--host", "node0,node1:4", "--launch", agentScript(t, `NODE=$host exec "$@"`), "-n", "1", "sh", "-c",
			`"$0" "$@"; until [ -e "`+goOn+`" ]; do sleep 0.1; done`, spawner(t), "1", "true")
		j.awaitWord("PE 1.0 (pid ")
		<-j.stderr.says("finished after")
		j.readLines(1) // the spawn is over
		lose(j)
		j.awaitWord("node node1 is lost with no PE that runs")
		check(t, os.WriteFile(goOn, nil, 0o600))
		j.expect(1, "node node1 is lost before it has said that all output had come")
	})
}

// A node that was added for a spawn hears of a failure of the first job, of which it has no PE, and goes on.
func TestEmulatedAddedNodeHearsOfFailure(t *testing.T) {
	t.Parallel()
	goOn := t.TempDir() + "/go-on"
	j := start(t, "--recover", "--host", "node0,node1,node2", "--launch", "local",
		"-n", "1", "sh", "-c", `echo "ready $$"; exec sleep 1000`,
		":", "-n", "1", "sh", "-c", `"$0" "$@"; until [ -e "`+goOn+`" ]; do sleep 0.1; done`, spawner(t), "1",
		"sh", "-c", `echo "ready $$"; until [ -e "$0" ]; do sleep 0.1; done`, goOn)
	pids := j.ready(2)
	at := slices.IndexFunc(pids, func(pid int) bool { return hasVariable(pid, "PMIX_HOSTNAME=node0") })
	if at < 0 || !hasVariable(pids[1-at], "PMIX_HOSTNAME=node2") {
		t.Fatalf("processes %v, want one on node0 and one on node2", pids)
	}
	check(t, syscall.Kill(pids[at], syscall.SIGKILL))
	j.awaitWord("was killed by signal 9")
	check(t, os.WriteFile(goOn, nil, 0o600))
	j.expect(3, "1 of 3 PEs failed:")
	if said := j.stderr.String(); strings.Contains(said, "is lost") {
		t.Errorf("a node is lost; stderr:\n%s", said)
	}
}

// awaitWord waits for something that oshrun says.
func (j *job) awaitWord(word string) {
	j.t.Helper()
	select {
	case <-j.stderr.says(word):
	case <-time.After(nodeKillPatience):
		j.t.Fatalf("nobody says %q: %s", word, &j.stderr)
	}
}

// environOf returns the environment with which a process was started.
func environOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	check(t, err)
	return string(text)
}

// A job that has PEs on this machine alone, and so no daemon, gets nodes for what its PEs spawn.
func TestSpawnElsewhere(t *testing.T) {
	t.Parallel()
	here, err := os.Hostname()
	check(t, err)
	program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "placed.c"))
	base := []string{"--host", here + ":1,node1:2,node2:1", "--launch", agentScript(t, `exec "$@"`), "-n", "1"}
	for _, x := range []struct {
		request string
		hosts   []string // by rank
	}{
		{"3", []string{"node1", "node1", "node2"}},
		{"4", []string{here, "node1", "node1", "node2"}},
		{"2 add-host node7,node8", []string{"node7", "node8"}},
	} {
		t.Run(x.request, func(t *testing.T) {
			t.Parallel()
			start(t, slices.Concat(base, []string{program}, strings.Fields(x.request))...).expectPlaced(x.hosts...)
		})
	}
	t.Run("environment", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		j := prepare(t, slices.Concat(base, []string{"--bind-to", "core", "-x", "COLOR=red", "--wdir", dir, spawner(t), "2", "sh", "-c", `echo "$PMIX_HOSTNAME $COLOR $PWD $DISPLAY $(umask) $(ulimit -Sn)"`})...)
		j.cmd.Env = append(j.cmd.Environ(), "DISPLAY=of-this-machine")
		j.cmd.Args = append([]string{"sh", "-c", `umask 027 && ulimit -Sn 500 && exec "$0" "$@"`, j.cmd.Path}, j.cmd.Args[1:]...)
		j.cmd.Path = "/bin/sh"
		j.begin()
		j.expect(0)
		line := "node1 red " + dir + "  0027 500"
		want := []string{line, line, "spawn: well"}
		if got := lines(j.stdout.String()); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("failure", func(t *testing.T) {
		t.Parallel()
		start(t, slices.Concat(base, []string{spawner(t), "2", "sh", "-c", "[ $PMIX_RANK = 0 ] || exit 5; sleep 1000"})...).expect(5, "PE 1.1 (pid", "exited with status 5")
	})
	t.Run("loss", func(t *testing.T) {
		t.Parallel()
		j := start(t, slices.Concat(base, []string{spawner(t), "1", "sh", "-c", `echo "ready $$"; sleep 1000`})...)
		j.readLines(2) // of both jobs: the spawn is over
		check(t, syscall.Kill(daemonsBelow(j.cmd.Process.Pid)[0], syscall.SIGKILL))
		j.expect(1, "node node1 is lost with PE 1.0")
	})
	t.Run("front end killed", func(t *testing.T) {
		t.Parallel()
		j := start(t, slices.Concat(base, []string{spawner(t), "1", "sh", "-c", `echo "ready $$"; sleep 1000`})...)
		j.ready(1)
		check(t, j.cmd.Process.Kill())
		j.over(10*time.Second, func() { <-j.rest() })
	})
}
