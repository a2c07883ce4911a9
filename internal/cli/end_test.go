package cli

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/detector/kernel"
)

// A killed PE ends the job, whatever the others do: with a message, status 128+n, and nothing left behind.
func TestKillPE(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"barrier", "wait", "spin", "ignore"} {
		t.Run(mode, func(t *testing.T) {
			j := start(t, "-n", "3", "t-pe", mode)
			pids := j.ready(3)
			check(t, syscall.Kill(pids[1], syscall.SIGKILL))
			j.expect(137, fmt.Sprintf("(pid %d) was killed by signal 9 (SIGKILL)", pids[1]), "after")
		})
	}
}

// The status is that of the PE's own signal.
func TestKillPEBySegv(t *testing.T) {
	j := start(t, "-n", "2", "-x", "GOTRACEBACK=crash", "t-pe", "wait")
	check(t, syscall.Kill(j.ready(2)[0], syscall.SIGBUS))
	status, said := j.ended(testPatience)
	// The Go runtime turns a fatal signal into a traceback. If asked to crash, it then aborts.
	if status != 128+int(syscall.SIGABRT) && status != 2 && status != 128+int(syscall.SIGBUS) {
		t.Errorf("status %d, stderr:\n%s", status, said)
	}
}

// A PE may be the child of a shell that does not replace itself by it. The shell's status then says how the PE ended.
func TestKillPEInShell(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "2", "sh", "-c", `"$0" pe t-pe wait; exit $?`, self(t))
	check(t, syscall.Kill(j.ready(2)[0], syscall.SIGKILL))
	j.expect(137, "exited with status 137", "killed by signal 9, SIGKILL")
}

// The job also ends if the shell hides the status and goes on.
func TestKillPEInShellThatGoesOn(t *testing.T) {
	t.Parallel()
	for _, tier := range usableTiers(t) {
		how := "ended without Finalize"
		if tier == kernel.BPF.String() || tier == kernel.ProcConn.String() { // these learn the status of children of others
			how = "was killed by signal 9 (SIGKILL)"
		}
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			j := start(t, "-n", "2", "--watchdog", tier, "sh", "-c", `"$0" pe t-pe wait; sleep 1000`, self(t))
			check(t, syscall.Kill(j.ready(2)[0], syscall.SIGKILL))
			j.expect(1, "lost its program after", ": that "+how+", and the process that started it goes on")
		})
	}
}

// When the shell is killed, its PE ends, too.
func TestKillShell(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "2", "sh", "-c", `echo "ready $$"; "$0" pe t-pe wait; exit $?`, self(t))
	shells := j.ready(4)
	check(t, syscall.Kill(shells[0], syscall.SIGKILL))
	j.expect(137, "SIGKILL")
}

// When oshrun is killed, no process is left: neither PEs nor what shells started, whether a goshmem program or not.
func TestKillOshrun(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"PEs":           {"t-pe", "wait"},
		"spinning":      {"t-pe", "spin"},
		"grandchildren": {"sh", "-c", `"$0" pe t-pe wait; :`, self(t)},
		"foreign":       {"sh", "-c", `echo "ready $$"; sleep 1000; :`},
		"backgrounded":  {"sh", "-c", `sleep 1000 & sleep 1000 & echo "ready $$"; wait`},
	} {
		t.Run(name, func(t *testing.T) {
			j := start(t, append([]string{"-n", "3"}, args...)...)
			j.ready(3)
			check(t, j.cmd.Process.Kill())
			j.expect(-1)
		})
	}
}

// When a job ends with status 0, background processes of its PEs end with it. Their output up to then is not lost.
func TestBackgroundEndsWithJob(t *testing.T) {
	j := start(t, "-n", "2", "sh", "-c", `(setsid sleep 1000 &) ; sleep 1000 & echo "ready $$"; "$0" pe t-pe ok`, self(t))
	j.ready(4)
	j.expect(0)
}

// GlobalExit on one PE ends all PEs with its status, even with 0.
func TestGlobalExit(t *testing.T) {
	t.Parallel()
	for _, status := range []int{0, 7, 255} {
		j := start(t, "-n", "16", "t-pe", "globalexit", fmt.Sprint(status))
		j.ready(16)
		if status == 0 {
			j.expect(0)
			continue
		}
		j.expect(status, fmt.Sprintf("ended the job with status %d", status), "PE 15 (pid")
	}
}

// A failing PE's status becomes the job's, and the other PEs do not go on.
func TestExitStatus(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "3", "t-pe", "exit", "42")
	j.expect(42, "PE 2 (pid", "exited with status 42")
	j = start(t, "-n", "3", "t-pe", "exit", "0")
	j.expect(1, "PE 2 (pid", "exited with status 0 without Finalize")
	j = start(t, "-n", "3", "t-pe", "ok")
	j.expect(0)
	j = start(t, "-n", "3", "sh", "-c", "exit $PMIX_RANK")
	status, said := j.ended(testPatience)
	if status != 1 && status != 2 {
		t.Errorf("status %d, want that of PE 1 or 2; stderr:\n%s", status, said)
	}
}

// If a PE ends before it joins, the others' fence returns an error.
func TestExitBeforeJoining(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "3", "sh", "-c", `[ $PMIX_RANK = 1 ] || exec "$0" pe t-pe ok`, self(t))
	j.expect(1, "shmem.Init", "fence")
}

// A first interrupt asks the PEs to end, and a second one kills them at once.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "3", "t-pe", "wait")
	j.ready(3)
	check(t, j.cmd.Process.Signal(os.Interrupt))
	j.expect(130, "SIGINT: ending 3 PEs", "interrupt again")

	j = start(t, "-n", "3", "t-pe", "ignore")
	j.ready(3)
	check(t, j.cmd.Process.Signal(os.Interrupt))
	<-j.stderr.says("SIGINT: ending 3 PEs") // two pending signals of one kind would merge
	check(t, j.cmd.Process.Signal(os.Interrupt))
	j.expect(130, "interrupted twice: killing all PEs")

	j = start(t, "-n", "3", "t-pe", "ignore")
	j.ready(3)
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	j.expect(143, "SIGTERM: ending 3 PEs")
}

// After a timeout, oshrun says in which library call each PE is, with one line for all PEs in the same call.
func TestTimeoutTellsCalls(t *testing.T) {
	for name, x := range map[string]struct {
		args  []string
		stop  bool // stop the first PE that is ready
		words []string
	}{
		"wait": {[]string{"-n", "3", "t-pe", "barrier"}, false, []string{
			"PEs 0-1 are in shmem.(*World).Barrier, called at main_test.go:", "PE 2 is in shmem.WaitUntil[...], called at main_test.go:",
			", and wait for PE 2\n",
		}},
		"lock":     {[]string{"-n", "3", "t-awaits", "lock"}, false, []string{"PEs 0, 2 are in shmem.Lock.Acquire, called at awaits_test.go:", ", and wait for PE 1\n"}},
		"receive":  {[]string{"-n", "3", "t-awaits", "receive"}, false, []string{"mpi.Recv[...], called at awaits_test.go:", ": PE 2 waits for PE 0, PE 0 waits for PE 1, PE 1 waits for PE 2\n"}},
		"left":     {[]string{"-n", "1", "t-pe", "linger"}, false, []string{"still running: PE 0", "PE 0 has left the job (Finalize) and still runs\n"}},
		"alone":    {[]string{"-n", "2", "t-pe", "spin"}, false, []string{"PEs 0-1 are in ", "(cli.compute)"}}, // with a processor for each
		"compute":  {[]string{"-n", "1", "t-pe", "spin"}, false, []string{"PE 0 is in ", "(cli.compute)"}},
		"stranger": {[]string{"-n", "2", "sh", "-c", "echo ready $$; exec sleep 1000"}, false, []string{"PEs 0-1 are not Go programs that have joined"}},
		"stopped":  {[]string{"-n", "2", "t-pe", "ignore"}, true, []string{"did not say within 500ms where it is", "is in shmem.WaitUntil[...]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := start(t, append([]string{"--timeout", "5"}, x.args...)...)
			pids := j.ready(number(x.args[1]))
			if x.stop {
				check(t, syscall.Kill(pids[0], syscall.SIGSTOP))
			}
			status, said := j.ended(testPatience)
			switch { // what may also be true on a machine under load
			case x.stop && strings.Contains(said, "PEs 0-1 did not say within 500ms where they are: they are stopped, or have no processor"):
				x.words = nil
			case !x.stop && strings.Contains(said, "did not say within 500ms where "):
				x.words = nil
			}
			j.check(status, said, 124, x.words)
		})
	}
}

// A timeout ends the job and lists the PEs that were still running.
func TestTimeout(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "2", "--timeout", "0.5", "t-pe", "wait")
	j.expect(124, "--timeout 500ms is over", "PE 0 (pid", "PE 1 (pid")
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	check(t, err)
	return path
}

const testPatience = 20e9 // nanoseconds

// Output is passed on completely, in order for each PE, with the requested tags.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	j := start(t, "-n", "2", "--output", "tag,timestamp,dir="+dir, "sh", "-c",
		`for i in 1 2 3; do echo "line $i of $PMIX_RANK"; echo "error $i" >&2; done; printf "no end"`)
	j.expect(0, "[0]<stderr>: error 1\n", "[1]<stderr>: error 3\n")
	for pe := range 2 {
		for _, line := range []string{fmt.Sprintf("[%d]<stdout>: line 3 of %d\n", pe, pe), fmt.Sprintf("[%d]<stdout>: no end", pe)} {
			if !strings.Contains(j.stdout.String(), line) {
				t.Errorf("output lacks %q:\n%s", line, &j.stdout)
			}
		}
		got, err := os.ReadFile(fmt.Sprintf("%s/rank.%d/stdout", dir, pe))
		check(t, err)
		if want := fmt.Sprintf("line 1 of %d\nline 2 of %d\nline 3 of %d\nno end", pe, pe, pe); string(got) != want {
			t.Errorf("file of PE %d contains %q, want %q", pe, got, want)
		}
	}
}
