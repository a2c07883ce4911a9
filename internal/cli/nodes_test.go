package cli

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// Programs of MPI libraries run on emulated nodes as on one.
func TestEmulatedMPI(t *testing.T) {
	t.Parallel()
	for _, lib := range []testenv.Capability{testenv.OpenMPI, testenv.MPICH} {
		t.Run(string(lib), func(t *testing.T) {
			program := testenv.CompileC(t, lib, filepath.Join("..", "..", "pmix", "server", "testdata", "hello.c"))
			for _, nodes := range []string{"1", "2", "4"} {
				j := start(t, "--emulate", nodes, "-n", "4", program)
				j.expect(0)
				var want []string
				for rank := range 4 {
					want = append(want, fmt.Sprintf("%d of 4, sum 6", rank))
				}
				got := strings.Split(strings.TrimSpace(j.stdout.String()), "\n")
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("%s nodes: got %q, want %q", nodes, got, want)
				}
			}
		})
	}
}

// Status, output, input and time limits mean the same on several nodes.
func TestEmulatedHabits(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		line   string
		script string
		status int
		stdout string
		said   string
	}{
		{"-n 4", `[ $PMIX_RANK != 2 ] || exit 7; sleep 60`, 7, "", "PE 2 (pid "},
		{"-n 4 --recover", `[ $PMIX_RANK != 2 ] || exit 7`, 3, "", "PE 2 (pid "},
		{"-n 4", `[ $PMIX_RANK != 3 ] || kill -9 $$; sleep 60`, 137, "", "was killed by signal 9 (SIGKILL)"},
		{"-n 4 --timeout 1", `sleep 60`, 124, "", "still running: PE 0 (pid "},
		{"-n 2 --stdin 1 --output tag", `cat`, 0, "[1]<stdout>: text\n", ""},
		{"-n 2 --stdin 1 --output tag", `cat >&2`, 0, "", "[1]<stderr>: text\n"},
		{"-n 2", "exec ./no-such-program", 127, "", "exited with status 127"},
	} {
		t.Run(x.line, func(t *testing.T) {
			t.Parallel()
			j := prepare(t, slices.Concat([]string{"--emulate", "2"}, strings.Fields(x.line), []string{"sh", "-c", x.script})...)
			j.cmd.Stdin = strings.NewReader("text\n")
			j.begin()
			j.expect(x.status, x.said)
			if got := j.stdout.String(); got != x.stdout {
				t.Errorf("output %q, want %q", got, x.stdout)
			}
		})
	}
	start(t, "--emulate", "2", "-n", "2", "./no-such-program").expect(4, "node0: program: ", "and so has another node\n", "hint: is it built")
	for _, bad := range []string{"--emulate 0 -n 2", "--emulate 65 -n 65", "--emulate 2 -n 2 --launch exec:", "--emulate 2 -n 2 --launch rsh", "--emulate 2 -n 2 --lease never", "--emulate 2 -n 2 --lease 0.5", "--emulate 2 -n 2 --launch-radix 0", "--emulate 2 -n 2 --port-range 5-4", "--emulate 2 -n 2 --prefix here"} {
		if status, _, said := execute(t, append(strings.Fields(bad), "true")...); status != 2 || !strings.Contains(said, "want") || !strings.Contains(said, "hint: ") {
			t.Errorf("%s: status %d, %s", bad, status, said)
		}
	}
}

// A program of shmem says that it does not reach memory on other nodes.
func TestEmulatedShmem(t *testing.T) {
	t.Parallel()
	j := start(t, "--emulate", "2", "-n", "4", "t-pe", "spin")
	_, said := j.ended(20 * time.Second)
	if want := "the job has 2 nodes, and this one has PEs "; !strings.Contains(said, want) {
		t.Errorf("said %q, want %q in it", said, want)
	}
}

// nodeKills is how many processes TestEmulatedKills kills.
var nodeKills = flag.Int("node-kills", someNodeKills, "how many front ends, daemons and PEs are killed on emulated nodes; with more than the default, each time the job is over in 2 s")

const someNodeKills = 9

// nodeKillPatience is how long a death may go unsaid.
const nodeKillPatience = 20 * time.Second

// Whichever process is killed, and whenever, the job is over soon, and nothing of it is left.
func TestEmulatedKills(t *testing.T) {
	t.Parallel()
	program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "wait.c"))
	soon := 8 * time.Second // beside other tests
	if *nodeKills > someNodeKills {
		soon = 2 * time.Second
	}
	words := map[string]string{"daemon": "is lost with", "PE": "was killed by signal 9 (SIGKILL)"}
	for i := range *nodeKills {
		victim := []string{"front end", "daemon", "PE"}[i%3]
		recovers := i/3%2 == 1 && victim != "front end"
		after := time.Duration(rand.Int64N(int64(1500 * time.Millisecond)))
		t.Run(fmt.Sprintf("%d: %s", i, victim), func(t *testing.T) {
			t.Logf("killed after %v, --recover: %t", after, recovers)
			args := []string{"--emulate", "4", "-n", "4", program}
			if recovers {
				args = append([]string{"--recover"}, args...)
			}
			j := start(t, args...)
			<-time.After(after) // any moment will do
			pid := j.pick(victim, program)
			if pid == 0 {
				t.Log("there is none yet")
				pid, victim = j.cmd.Process.Pid, "front end"
			}
			check(t, syscall.Kill(pid, syscall.SIGKILL))
			began := time.Now()
			rest := j.rest()
			if recovers && victim != "front end" {
				select {
				case <-j.stderr.says(words[victim]):
					began = time.Now()
					_ = j.cmd.Process.Signal(syscall.SIGINT) // it may be over
				case <-rest: // it was over before it had begun
				case <-time.After(nodeKillPatience):
					_ = j.cmd.Process.Kill()
					t.Errorf("nothing was said of the %s %d within %v", victim, pid, nodeKillPatience)
				}
			}
			status, said := j.endedAfter(10*time.Second, func() { <-rest })
			if took := time.Since(began); took > soon {
				t.Errorf("over after %v, want %v at most", took, soon)
			}
			want := words[victim]
			if victim != "front end" && !strings.Contains(said, want) && !strings.Contains(said, "daemon on node") {
				t.Errorf("status %d, said %q, want %q in it", status, said, want)
			}
		})
	}
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

// daemonsBelow returns the daemons that a process has started, and these.
func daemonsBelow(pid int) (all []int) {
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

// runs says whether the command line of a process ends with some words.
func runs(pid int, words ...string) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty: the process has ended
	return strings.HasSuffix("\x00"+string(line), "\x00"+strings.Join(words, "\x00")+"\x00")
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
