package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// clusterHosts is how many hosts a cluster has.
const clusterHosts = 4

// cluster is a set of hosts with a launcher, which a test has for itself: a script makes them, in namespaces of
// networks, mounts and processes of their own. The kernel ends all of its processes with the first one, and removes
// its links and mounts with the last one, so nothing outlives the test, even if that is killed.
type cluster struct {
	t    *testing.T
	cmd  *exec.Cmd // unshare, whose child is the first process
	said speech    // of the script
	over chan struct{}
	pids string // the namespace of its processes
	idle []int  // its processes while it runs no job

	env          []string // variables of oshrun
	front        []string // the command that runs oshrun; empty: oshrun itself
	hostVariable string   // the variable of a daemon that has the name of its host
}

// startCluster starts a script of testdata and returns when it has printed "ready".
func startCluster(t *testing.T, script string, args ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, over: make(chan struct{})}
	words := []string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", filepath.Join("testdata", script)}
	c.cmd = exec.Command("unshare", append(words, args...)...)
	c.cmd.Stdout, c.cmd.Stderr = &c.said, &c.said
	check(t, startChild(c.cmd))
	go func() { _ = c.cmd.Wait(); close(c.over) }() // what the script has said is what matters
	t.Cleanup(c.stop)
	select {
	case <-c.said.says("ready\n"):
	case <-c.over:
		t.Fatalf("%s has ended:\n%s\n%s", script, &c.said, logsIn(args[0]))
	case <-time.After(testPatience):
		t.Fatalf("%s is not ready after %v:\n%s\n%s", script, time.Duration(testPatience), &c.said, logsIn(args[0]))
	}
	var err error
	c.pids, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid_for_children", c.cmd.Process.Pid))
	check(t, err)
	c.idle = c.processes()
	return c
}

// logsIn returns the logs in a directory.
func logsIn(dir string) string {
	var all bytes.Buffer
	files, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is good
	for _, file := range files {
		text, err := os.ReadFile(file)
		fmt.Fprintf(&all, "%s: %v\n%s\n", file, err, text)
	}
	return all.String()
}

// stop ends the cluster.
func (c *cluster) stop() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.over
	c.await("a process of the cluster outlives it", func() []int { return c.processes() })
}

// processes returns the processes of the cluster, as this process numbers them. One that has ended may wait for a parent
// that reaps it: its command line is empty.
func (c *cluster) processes() (all []int) {
	files, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, file := range files {
		link, _ := os.Readlink(filepath.Join(file, "ns", "pid")) // it may have ended
		line, _ := os.ReadFile(filepath.Join(file, "cmdline"))
		if link == c.pids && link != "" && len(line) > 0 {
			pid, err := strconv.Atoi(filepath.Base(file))
			check(c.t, err)
			all = append(all, pid)
		}
	}
	return all
}

// expectIdle waits until only processes are left that were there before the first job.
func (c *cluster) expectIdle(t *testing.T) {
	t.Helper()
	c.await("a process outlives its job", func() []int {
		return slices.DeleteFunc(c.processes(), func(pid int) bool { return slices.Contains(c.idle, pid) })
	})
}

// await waits until there are no such processes.
func (c *cluster) await(otherwise string, such func() []int) {
	c.t.Helper()
	var pids []int
	for begin := time.Now(); time.Since(begin) < testPatience; time.Sleep(10 * time.Millisecond) {
		if pids = such(); len(pids) == 0 {
			return
		}
	}
	for _, pid := range pids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		c.t.Errorf("%s: %d %q", otherwise, pid, line)
	}
}

// prepare makes an oshrun in the cluster's network that begin will start.
func (c *cluster) prepare(t *testing.T, args ...string) *job {
	t.Helper()
	j := prepare(t, args...)
	self := j.cmd.Path
	j.cmd.Path = pathOf(t, "nsenter")
	j.cmd.Args = slices.Concat([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", c.cmd.Process.Pid)}, c.front, []string{self}, args)
	j.cmd.Env = append(j.cmd.Env, c.env...)
	return j
}

// daemonOn returns the daemon on a host that runs a program.
func (c *cluster) daemonOn(t *testing.T, host, program string) int {
	t.Helper()
	for _, pid := range c.processes() {
		if runs(pid, "daemon", "--stdin") && hasVariable(pid, c.hostVariable+"="+host) && len(childrenThatRun(pid, program, "wait")) > 0 {
			return pid
		}
	}
	t.Fatalf("no daemon on %s has a PE", host)
	return 0
}

// hasVariable says whether a process was started with a variable of some value.
func hasVariable(pid int, variable string) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // empty: it has ended
	return strings.Contains("\x00"+string(text), "\x00"+variable+"\x00")
}
