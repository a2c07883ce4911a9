package cli

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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

// Agents, daemons and oshrun have precedence over processes that poll, where that is allowed. PEs have none.
func TestEmulatedPriority(t *testing.T) {
	t.Parallel()
	stat, err := os.ReadFile("/proc/self/stat")
	check(t, err)
	own := niceIn(t, stat)
	first := max(own-10, -20)
	runtime.LockOSThread()
	if syscall.Setpriority(syscall.PRIO_PROCESS, 0, first) != nil {
		first = own
	}
	check(t, syscall.Setpriority(syscall.PRIO_PROCESS, 0, own))
	runtime.UnlockOSThread()
	for _, args := range [][]string{{"--emulate", "3", "--launch-radix", "1"}, {"--emulate", "2:netns"}} {
		if args[1] == "2:netns" && !canCut() {
			continue
		}
		t.Run(args[1], func(t *testing.T) {
			gate := filepath.Join(t.TempDir(), "gate")
			j := start(t, append(args, "-n", "3", "sh", "-c", waiter, gate)...)
			pes := j.ready(3)
			agents, daemons := j.agents(), map[int]bool{}
			for _, pid := range pes {
				if n := nicesOf(t, pid); len(n) != 1 || n[own] == 0 {
					t.Errorf("threads of a PE by their nice values: %v, want all at %d", n, own)
				}
				daemons[parentOf(t, pid)] = true
			}
			for _, pid := range agents {
				awaitNices(t, pid, first, first)
			}
			daemons[j.cmd.Process.Pid] = true // the front end
			for pid := range daemons {
				awaitNices(t, pid, first, own)
			}
			if want := len(agents) + 1; len(daemons) != want {
				t.Errorf("%d daemons and front ends, want %d", len(daemons), want)
			}
			check(t, os.WriteFile(gate, nil, 0o600))
			j.expect(0)
		})
	}
}

// The nice value of oshrun counts against other sessions for daemons, which lead some, and for PEs, in the session of their daemon
// or in their own.
func TestEmulatedNice(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/autogroup"); err != nil {
		t.Skip("the kernel has no autogroups")
	}
	stat, err := os.ReadFile("/proc/self/stat")
	check(t, err)
	nice, err := exec.LookPath("nice")
	check(t, err)
	want := niceIn(t, stat) + 5
	for _, n := range []int{2, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			script := fmt.Sprintf(`for p in $$ $PPID; do until grep -q " nice %d$" /proc/$p/autogroup; do sleep 0.02; done; done; echo "nice is $(nice)"`, want)
			j := prepare(t, "--emulate", "2", "--launch-radix", "1", "-n", fmt.Sprint(n), "sh", "-c", script)
			j.cmd.Path, j.cmd.Args = nice, append([]string{"nice", "-n", "5", j.cmd.Path}, j.cmd.Args[1:]...)
			j.begin()
			j.expect(0)
			if got := strings.Count(j.stdout.String(), fmt.Sprintf("nice is %d\n", want)); got != n {
				t.Errorf("%d PEs have the nice value %d, want %d; output:\n%s", got, want, n, &j.stdout)
			}
		})
	}
}

// awaitNices waits until all threads of a daemon have a nice value, but the one that starts PEs.
func awaitNices(t *testing.T, pid, want, starter int) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		n := nicesOf(t, pid)
		if all := slices.Sorted(maps.Keys(n)); all[0] == want && (len(n) == 1 || len(n) == 2 && n[starter] == 1) {
			return
		}
		if time.Since(began) > testPatience { // a thread that was being started is raised later
			t.Errorf("threads of a daemon by their nice values: %v, want all at %d, but the one that starts PEs at %d", n, want, starter)
			return
		}
	}
}

// nicesOf returns how many threads of a process have which nice value.
func nicesOf(t *testing.T, pid int) map[int]int {
	t.Helper()
	nices := map[int]int{}
	for _, thread := range threadsOf(t, pid) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, thread))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		check(t, err)
		nices[niceIn(t, stat)]++
	}
	return nices
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
func niceIn(t *testing.T, stat []byte) int {
	t.Helper()
	text := string(stat)
	words := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const nice = 16 // behind the name
	if len(words) <= nice {
		t.Fatalf("/proc has %q", text)
	}
	n, err := strconv.Atoi(words[nice])
	check(t, err)
	return n
}
