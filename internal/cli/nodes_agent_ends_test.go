package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Nothing of an agent is left after a job, however that ends: neither its process nor its port.
func TestEmulatedAgentsEnd(t *testing.T) {
	t.Parallel()
	const (
		waits = `"$1" pe t-pe wait`
		works = `"$1" pe t-shmem`
	)
	for name, x := range map[string]struct {
		does string // what PEs do when they may go on
		end  func(j *job)
	}{
		"well":           {works, func(*job) {}},
		"an error":       {"exit 7", func(*job) {}},
		"a PE is killed": {`kill -9 $$`, func(*job) {}},
		"SIGTERM":        {waits, func(j *job) { check(t, j.cmd.Process.Signal(syscall.SIGTERM)) }},
		"oshrun is lost": {waits, func(j *job) { check(t, j.cmd.Process.Kill()) }},
		"a daemon is":    {waits, func(j *job) { check(t, syscall.Kill(daemonsBelow(j.cmd.Process.Pid)[1], syscall.SIGKILL)) }},
		"an agent is": {waits, func(j *job) {
			check(t, syscall.Kill(j.agents()[0], syscall.SIGKILL))
			_ = j.cmd.Process.Signal(syscall.SIGTERM)
		}},
		"an agent hangs": {waits, func(j *job) {
			check(t, syscall.Kill(j.agents()[0], syscall.SIGSTOP))
			check(t, j.cmd.Process.Signal(syscall.SIGTERM))
		}},
		"before any work": {"true", func(*job) {}},
	} {
		t.Run(name, func(t *testing.T) {
			gate := filepath.Join(t.TempDir(), "gate")
			j := start(t, "--emulate", "2", "--port-range", testPorts, "-n", "4", "sh", "-c", waiter+x.does, gate, self(t))
			j.ready(4)
			agents, doors := j.agents(), j.agentDoors()
			if len(agents) != 2 {
				t.Fatalf("agents %v, want 2", agents)
			}
			check(t, os.WriteFile(gate, nil, 0o600))
			if x.does == waits {
				j.ready(4)
			}
			x.end(j)
			_, said := j.ended(testPatience)
			for began := time.Now(); ; {
				left := slices.DeleteFunc(slices.Clone(agents), isDead)
				if len(left) == 0 {
					break
				}
				if time.Since(began) > testPatience {
					t.Fatalf("agents %v run after the job, which said:\n%s", left, said)
				}
				runtime.Gosched()
			}
			for _, d := range doors {
				if conn, err := net.Dial(d.network, d.address); err == nil {
					t.Errorf("somebody listens at %v after the job", d)
					_ = conn.Close()
				}
			}
		})
	}
}

// An agent has precedence over processes that poll, where that is allowed.
func TestEmulatedAgentNiceness(t *testing.T) {
	t.Parallel()
	allowed := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		allowed <- syscall.Setpriority(syscall.PRIO_PROCESS, 0, -10)
	}()
	want := "-10"
	if err := <-allowed; err != nil {
		stat, err := os.ReadFile("/proc/self/stat")
		check(t, err)
		want = niceIn(t, stat)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	j := start(t, "--emulate", "2", "-n", "2", "sh", "-c", waiter, gate)
	j.ready(2)
	for _, pid := range j.agents() {
		found := false
		for _, thread := range threadsOf(t, pid) {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, thread))
			check(t, err)
			found = found || niceIn(t, stat) == want
		}
		if !found {
			t.Errorf("no thread of agent %d has the nice value %s", pid, want)
		}
	}
	check(t, os.WriteFile(gate, nil, 0o600))
	j.expect(0)
}

// threadsOf returns the threads of a process.
func threadsOf(t *testing.T, pid int) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	check(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// niceIn returns the nice value in a file stat of /proc.
func niceIn(t *testing.T, stat []byte) string {
	t.Helper()
	text := string(stat)
	words := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const nice = 16 // behind the name
	if len(words) <= nice {
		t.Fatalf("/proc has %q", text)
	}
	return words[nice]
}
