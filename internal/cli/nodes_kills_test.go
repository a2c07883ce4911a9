package cli

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// nodeKills is how many processes TestEmulatedKills kills.
var nodeKills = flag.Int("node-kills", someNodeKills, "how many front ends, daemons and PEs are killed on emulated nodes; with more than the default, nothing else may run: each time the job is over in 2 s, and nothing is left in /dev/shm")

const someNodeKills = 12

// nodeKillPatience is how long a death may go unsaid.
const nodeKillPatience = 20 * time.Second

// nodeKill is a kill of some process of a job on four nodes at some moment.
type nodeKill struct {
	victim   string // front end, daemon or PE
	recovers bool   // the job has --recover
	apart    bool   // the nodes have networks of their own
	after    time.Duration
}

// Whichever process is killed, and whenever, the job is over soon, with the right words and status, and nothing of it is
// left.
func TestEmulatedKills(t *testing.T) {
	t.Parallel()
	program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "wait.c"))
	apart := testenv.Has(networkRights())
	var took []time.Duration
	for i := range *nodeKills {
		k := nodeKill{victim: []string{"front end", "daemon", "PE"}[i%3], apart: apart && i/6%2 == 1}
		k.recovers = i/3%2 == 1 && k.victim != "front end"
		k.after = time.Duration(rand.Int64N(int64(1500 * time.Millisecond)))
		t.Run(fmt.Sprintf("%d: %s", i, k.victim), func(t *testing.T) {
			t.Logf("killed after %v, --recover: %t, networks: %t", k.after, k.recovers, k.apart)
			took = append(took, k.test(t, program))
		})
	}
	slices.Sort(took)
	t.Logf("%d kills, over after %v, and %v at most", len(took), took[len(took)/2], took[len(took)-1])
}

// test kills, and returns how long the end has taken.
func (k *nodeKill) test(t *testing.T, program string) time.Duration {
	t.Helper()
	alone := *nodeKills > someNodeKills
	memory, networks := sharedMemory(t), networksHere(t)
	nodes := "4"
	if k.apart {
		nodes = "4:netns"
	}
	args := []string{"--emulate", nodes, "-n", "8", program}
	if k.recovers {
		args = append([]string{"--recover"}, args...)
	}
	j := start(t, args...)
	<-time.After(k.after) // any moment will do
	victim, pid := k.victim, j.pick(k.victim, program)
	if pid == 0 {
		t.Log("there is none yet")
		pid, victim = j.cmd.Process.Pid, "front end"
	}
	sockets := j.sockets(t)
	check(t, syscall.Kill(pid, syscall.SIGKILL))
	began := time.Now()
	rest := j.rest()
	words := map[string]string{"daemon": "is lost with", "PE": "was killed by signal 9 (SIGKILL)"}[victim]
	if k.recovers && victim != "front end" {
		select {
		case <-j.stderr.says(words):
			began = time.Now()
			_ = j.cmd.Process.Signal(syscall.SIGINT) // it may be over
		case <-rest: // it was over before it had begun
		case <-time.After(nodeKillPatience):
			_ = j.cmd.Process.Kill()
			t.Errorf("nothing was said of the %s %d within %v", victim, pid, nodeKillPatience)
		}
	}
	j.over(10*time.Second, func() { <-rest })
	took := time.Since(began)
	if soon := 2 * time.Second; alone && took > soon {
		t.Errorf("over after %v, want %v at most", took, soon)
	}
	t.Logf("%s: over after %v, status %d, said %q", victim, took, j.cmd.ProcessState.ExitCode(), j.stderr.String())
	if victim != "front end" {
		k.expectEnd(t, j, victim, words)
	}
	j.expectNothingLeft(t, victim == "front end" && k.apart, sockets)
	if after := sharedMemory(t); alone && !slices.Equal(after, memory) {
		t.Errorf("/dev/shm has %v, and had %v", after, memory)
	}
	if after := networksHere(t); !slices.Equal(after, networks) {
		t.Errorf("interfaces and named networks are %v, and were %v", after, networks)
	}
	return took
}

// duringStart finds what oshrun says of a daemon that ends before the PEs have started.
var duringStart = regexp.MustCompile(`(?m)^oshrun: (daemon on )?node[0-3](, started by .*)?: |node[0-3]: its daemon has ended: `)

// abortedByMPI finds what Open MPI and then oshrun say of a PE that could not reduce, as one of the others had died before it
// was reached, and the status that Open MPI gave it.
var abortedByMPI = regexp.MustCompile(`(?sm)An error occurred in MPI_Allreduce\b.*^oshrun: PE \d+ \(pid \d+\) ended the job with status ([1-9]\d*) `)

// firstVerdict finds what oshrun says first of the end of a job: by the test's signal, or by a PE.
var firstVerdict = regexp.MustCompile(`(?m)^oshrun: (SIGINT: ending|PE \d+ )`)

// expectEnd checks status and words of a job of which a daemon or a PE was killed.
func (k *nodeKill) expectEnd(t *testing.T, j *job, victim, words string) {
	t.Helper()
	status, said := j.cmd.ProcessState.ExitCode(), j.stderr.String()
	want := map[string]int{"daemon": 1, "PE": 128 + int(syscall.SIGKILL)}[victim]
	switch {
	case victim == "daemon" && duringStart.MatchString(said):
		want, words = 4, ""
	case k.recovers && strings.Contains(said, "An error occurred in MPI_Init") && !strings.Contains(firstVerdict.FindString(said), "SIGINT"):
		want = 1 // the others had not come so far as to go on without the dead PE, and have ended before the signal has
	case k.recovers && abortedByMPI.MatchString(said):
		want, _ = strconv.Atoi(abortedByMPI.FindStringSubmatch(said)[1]) // Open MPI goes by its own error
	case k.recovers:
		want = 128 + int(syscall.SIGINT)
	}
	if status != want || !strings.Contains(said, words) {
		t.Errorf("status %d, want %d; said %q, want %q in it", status, want, said, words)
	}
}

// sockets returns the sockets at which oshrun's processes listen.
func (j *job) sockets(t *testing.T) (all []door) {
	t.Helper()
	for _, pid := range append(daemonsBelow(j.cmd.Process.Pid), j.cmd.Process.Pid) {
		all = append(all, doorsOf(t, pid)...)
	}
	return all
}

// expectNothingLeft checks that no file of a job whose processes have ended is left, or that the next job removes it, and
// that none of its sockets is.
func (j *job) expectNothingLeft(t *testing.T, forNext bool, sockets []door) {
	t.Helper()
	left := filesIn(t, j.tmp)
	if len(left) > 0 && !forNext {
		t.Errorf("files are left: %v", left)
	}
	if len(left) > 0 {
		j.another()
		if left = filesIn(t, j.tmp); len(left) > 0 {
			t.Errorf("after the next job, files are left: %v", left)
		}
	}
	open := doorsNear(t, "self")
	for _, d := range sockets {
		if slices.Contains(open, d) {
			t.Errorf("a socket is left: %v", d)
		}
	}
}

// sharedMemory returns the names in /dev/shm, without those of MPICH, which these jobs do not use.
func sharedMemory(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(filesIn(t, "/dev/shm"), func(name string) bool {
		return strings.HasPrefix(name, "mpich_") || strings.HasPrefix(name, "ucx_")
	})
}

// filesIn returns the names in a directory.
func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	check(t, err)
	for _, file := range files {
		names = append(names, file.Name())
	}
	return names
}

// pick returns a process of a job of several nodes whose PEs run a program; 0: there is none.
func (j *job) pick(victim, program string) int {
	daemons := daemonsBelow(j.cmd.Process.Pid)
	switch {
	case victim == "front end":
		return j.cmd.Process.Pid
	case len(daemons) == 0:
		return 0
	}
	daemon := daemons[rand.IntN(len(daemons))]
	if victim == "daemon" {
		return daemon
	}
	if pes := childrenThatRun(daemon, program); len(pes) > 0 {
		return pes[0]
	}
	return 0
}

// daemonsBelow returns the daemons that a process has started or the holder of its network has, and these.
func daemonsBelow(pid int) (all []int) {
	for _, holder := range childrenThatRun(pid, "daemon", "--network") {
		all = append(all, daemonsBelow(holder)...)
	}
	for _, child := range childrenThatRun(pid, "daemon", "--stdin") {
		all = append(append(all, child), daemonsBelow(child)...)
	}
	return all
}

// childrenThatRun returns the children of a process whose command line ends with some words. Others may be there for a
// moment: the Go runtime starts some to see what the kernel can do, and nobody misses them.
func childrenThatRun(pid int, words ...string) []int {
	return slices.DeleteFunc(childrenOf(pid), func(child int) bool { return !runs(child, words...) })
}

// runs says whether the command line of a process ends with some words. A child that has not begun its own program yet has
// the command line of its parent, and does not count: killed in place of a daemon, it would be the PE that it was to become.
func runs(pid int, words ...string) bool {
	if forkedOnly(pid) {
		return false
	}
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // after the look above, as exec changes it; empty: it has ended
	return strings.HasSuffix("\x00"+string(line), "\x00"+strings.Join(words, "\x00")+"\x00")
}

// forkedOnly says whether a process is between fork and exec.
func forkedOnly(pid int) bool {
	const noExec = 0x40 // PF_FORKNOEXEC of the kernel
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name before may have blanks
	if len(fields) < 7 {
		return false // it has ended
	}
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	return err == nil && flags&noExec != 0
}

// childrenOf returns the children of a process.
func childrenOf(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // none: the process has ended
	for _, file := range files {
		text, _ := os.ReadFile(file) // the thread may have ended
		for word := range bytes.FieldsSeq(text) {
			n, err := strconv.Atoi(string(word))
			if err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// A daemon that is killed as soon as it is there, before it can have connected, ends the start at once.
func TestEarlyKills(t *testing.T) {
	t.Parallel()
	layouts := []string{"4"}
	if testenv.Has(networkRights()) {
		layouts = append(layouts, "4:netns")
	}
	for _, nodes := range layouts {
		t.Run(nodes, func(t *testing.T) {
			for range 4 {
				j := start(t, "--emulate", nodes, "-n", "4", "sleep", "1000")
				var daemons []int
				for begin := time.Now(); len(daemons) == 0 && time.Since(begin) < testPatience; {
					daemons = daemonsBelow(j.cmd.Process.Pid)
				}
				if len(daemons) == 0 {
					t.Fatal("no daemon was started")
				}
				check(t, syscall.Kill(daemons[0], syscall.SIGKILL))
				j.over(testPatience, func() { <-j.rest() })
				status, said := j.cmd.ProcessState.ExitCode(), j.stderr.String()
				if status != 4 && status != 1 || !duringStart.MatchString(said) && !strings.Contains(said, "is lost with") {
					t.Errorf("status %d, said %q, want 4 and what has ended the start, or 1 and that the node is lost", status, said)
				}
			}
		})
	}
}

// No process of a node outlives its daemon or its agent: neither a PE, be it a script, nor what that has started. As the only
// job of the machine, they are dead within 100 ms.
func TestEmulatedEndOfNode(t *testing.T) {
	t.Parallel()
	alone := *nodeKills > someNodeKills
	scripts := map[string]string{
		"daemon": `sh -c 'sleep 1000 & sleep 1000 & wait' & echo "ready $$"; sleep 1000`,
		"agent":  `sh -c 'sleep 1000 & sleep 1000 & wait' & "$0" pe t-pe linger; true`, // which uses it, and waits for nobody
	}
	layouts := []string{"4"}
	if testenv.Has(networkRights()) {
		layouts = append(layouts, "4:netns")
	}
	for i := range max(4, *nodeKills/12) {
		nodes := layouts[i%len(layouts)]
		victim := []string{"daemon", "agent"}[i/len(layouts)%2]
		t.Run(victim+" of "+nodes, func(t *testing.T) {
			j := start(t, "--recover", "--launch-radix", "2", "--emulate", nodes, "-n", "8", "sh", "-c", scripts[victim], self(t))
			j.ready(8)
			daemons := daemonsBelow(j.cmd.Process.Pid)
			theirs := map[int][]int{}
			victims := map[int]int{}
			for _, daemon := range daemons {
				theirs[daemon] = descendantsOfPEs(t, daemon)
				victims[daemon] = daemon
				if victim == "agent" {
					victims[daemon] = childrenThatRun(daemon, "agent")[0]
				}
			}
			for _, daemon := range daemons {
				check(t, syscall.Kill(victims[daemon], syscall.SIGKILL))
				took := untilDead(t, theirs[daemon])
				if t.Logf("%d processes dead after %v", len(theirs[daemon]), took); alone && took > 100*time.Millisecond {
					t.Errorf("a process of the node lived for %v after its %s, want 100ms at most", took, victim)
				}
			}
			j.over(testPatience, func() { <-j.rest() })
			if status := j.cmd.ProcessState.ExitCode(); status != 1 {
				t.Errorf("status %d, want 1; stderr:\n%s", status, &j.stderr)
			}
			j.expectNothingLeft(t, nodes != "4", nil)
		})
	}
}

// descendantsOfPEs returns the two PEs of a daemon and what they have started, five processes each, and the agent, once all
// are there.
func descendantsOfPEs(t *testing.T, daemon int) (all []int) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < testPatience; time.Sleep(time.Millisecond) {
		all = nil
		for _, pid := range slices.DeleteFunc(childrenOf(daemon), func(pid int) bool { return runs(pid, "daemon", "--stdin") || runs(pid, "heartbeat") }) {
			all = append(append(all, pid), processesBelow(pid)...)
		}
		if len(all) == 11 {
			return all
		}
	}
	t.Fatalf("daemon %d has the processes %v, want 11", daemon, all)
	return nil
}

// untilDead waits until processes have ended, perhaps without having been reaped.
func untilDead(t *testing.T, pids []int) time.Duration {
	t.Helper()
	began := time.Now()
	for _, pid := range pids {
		for !isDead(pid) {
			if time.Since(began) > testPatience {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended just now
				t.Fatalf("process %d still runs after %v: %q", pid, time.Duration(testPatience), line)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return time.Since(began)
}

// isDead says whether a process has ended.
func isDead(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(text, []byte(") "))
	return err != nil || bytes.HasPrefix(rest, []byte("Z")) || bytes.HasPrefix(rest, []byte("X"))
}
