package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

// usableTiers returns the values of --watchdog that work here. As root, all must work.
func usableTiers(t *testing.T) (names []string) {
	t.Helper()
	for tier := kernel.BPF; tier <= kernel.SIGCHLD; tier++ {
		w, err := kernel.Open(kernel.Config{Tier: tier, Report: func(kernel.Report) {}, Logger: zerolog.Nop()})
		if err != nil {
			if os.Geteuid() == 0 {
				t.Errorf("%v does not work as root: %v", tier, err)
			}
			t.Logf("%v does not work: %v", tier, err)
			continue
		}
		check(t, w.Close())
		names = append(names, tier.String())
	}
	return append(names, watchdogOff)
}

// On every tier a killed PE is reported, with how the death was detected.
func TestWatchdog(t *testing.T) {
	for _, tier := range usableTiers(t) {
		t.Run(tier, func(t *testing.T) {
			gate := t.TempDir() + "/gate"
			j := start(t, "-n", "3", "--recover", "-v", "--stats", "--watchdog", tier, "sh", "-c", waiter, gate)
			pid := j.ready(3)[1]
			check(t, syscall.Kill(pid, syscall.SIGKILL))
			<-j.stderr.says("; 2 PEs go on")
			check(t, os.WriteFile(gate, nil, 0o600))
			learnt := "learnt by " + tier
			if tier == watchdogOff {
				learnt = "learnt when its process could be reaped"
			}
			j.expect(3, "1 of 3 PEs failed:", fmt.Sprintf("(pid %d) was killed by signal 9 (SIGKILL) after ", pid), learnt, "watchdog: "+tier, "watchdog  "+tier)
		})
	}
}

// Without --watchdog the best tier takes over in time, for PEs that are running already, too.
func TestBestWatchdogTakesOver(t *testing.T) {
	t.Parallel()
	best := usableTiers(t)[0]
	for _, args := range [][]string{{"t-pe", "wait"}, {"sh", "-c", `"$0" pe t-pe wait; exit $?`, self(t)}, {"sh", "-c", `echo "ready $$"; sleep 1000`}} {
		j := start(t, append([]string{"-n", "2", "--recover", "-v"}, args...)...)
		pids := j.ready(2)
		<-j.stderr.says("watchdog: " + best)
		killTogether(t, pids)
		j.expect(137, "2 of 2 PEs failed:", "(learnt by "+best+")\n")
	}
}

// killTogether kills processes so that none ends because of another one's death.
func killTogether(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		stopped(t, pid)
	}
	for _, pid := range pids {
		check(t, syscall.Kill(pid, syscall.SIGKILL))
	}
}

// stopped stops a process, and returns once all of its threads have stopped.
func stopped(t *testing.T, pid int) {
	t.Helper()
	check(t, syscall.Kill(pid, syscall.SIGSTOP))
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	check(t, err)
	for _, thread := range threads {
		for begun := time.Now(); ; runtime.Gosched() {
			stat, err := os.ReadFile(thread)
			if err != nil || strings.Contains(string(stat), ") T ") { // an error: the process has ended
				break
			}
			if time.Since(begun) > testPatience {
				t.Fatalf("%s after %v: %s, want state T", thread, testPatience, stat)
			}
		}
	}
}

// If a tier is asked for and not permitted, the error names what is missing.
func TestWatchdogNotPermitted(t *testing.T) {
	testenv.Need(t, testenv.User)
	j := start(t, "-n", "2", "--watchdog", "bpf", "true")
	j.expect(4, "CAP_BPF", "hint: --watchdog bpf takes CAP_BPF")
}

func TestWatchdogErrors(t *testing.T) {
	for args, want := range map[string]string{
		"--watchdog ebpf true":                 `2 --watchdog: "ebpf", want bpf, procconn, pidfd, sigchld or off`,
		"--watchdog= true":                     `2 --watchdog: "", want bpf`,
		"--hang-timeout soon true":             `2 --hang-timeout: "soon", want a positive number of seconds or a duration`,
		"--hang-timeout 0 true":                `2 --hang-timeout: "0", want`,
		"--hang-timeout= true":                 `2 --hang-timeout: "", want`,
		"--hang-timeout=-3s true":              `2 --hang-timeout: "-3s", want`,
		"-n 1 true : -n 1 --watchdog off true": "2 program 2 of the job: --watchdog is for the whole job",
	} {
		status, _, said := execute(t, strings.Fields(args)...)
		if code, words, _ := strings.Cut(want, " "); fmt.Sprint(status) != code || !strings.Contains(said, words) {
			t.Errorf("oshrun %s: status %d, want %s; %s", args, status, want, said)
		}
	}
}

// A stopped PE is reported once, and again when it is continued. It does not count as dead.
func TestStoppedIsReported(t *testing.T) {
	t.Parallel()
	gate := t.TempDir() + "/gate"
	j := start(t, "-n", "2", "sh", "-c", waiter, gate)
	pid := j.ready(2)[0]
	check(t, syscall.Kill(pid, syscall.SIGSTOP))
	<-j.stderr.says(fmt.Sprintf("(pid %d) is stopped\n", pid))
	check(t, syscall.Kill(pid, syscall.SIGCONT))
	<-j.stderr.says(fmt.Sprintf("(pid %d) goes on\n", pid))
	check(t, os.WriteFile(gate, nil, 0o600))
	status, said := j.ended(testPatience)
	if status != 0 || strings.Count(said, "is stopped") != 1 || strings.Count(said, "goes on") != 1 {
		t.Errorf("status %d, want 0 and each state reported once:\n%s", status, said)
	}
}

// With --hang-timeout, a PE that computes without a call of the library hangs. A PE that waits for others does not,
// however long.
func TestHangTimeout(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "2", "--hang-timeout", "0.3", "t-pe", "spin")
	pids := j.ready(2)
	for _, pid := range pids {
		<-j.stderr.says(fmt.Sprintf("(pid %d) hangs: no call of the library but Put for 300ms", pid))
	}
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	status, said := j.ended(testPatience)
	if status != 143 {
		t.Errorf("status %d, want 143:\n%s", status, said)
	}
	for _, pid := range pids { // a PE that was without a processor may be reported as hung again
		hangs, between := strings.Count(said, fmt.Sprintf("(pid %d) hangs", pid)), strings.Count(said, fmt.Sprintf("(pid %d) runs again", pid))
		if hangs > 1+between {
			t.Errorf("process %d is reported as hung %d times, and as running again %d times in between:\n%s", pid, hangs, between, said)
		}
	}
	j = start(t, "-n", "2", "--hang-timeout", "0.3", "--timeout", "2", "t-pe", "wait")
	status, said = j.ended(testPatience)
	if status != 124 || strings.Contains(said, "hangs") {
		t.Errorf("status %d, want 124 and no PE reported as hung:\n%s", status, said)
	}
}

// TestStartShortOfDescriptors starts jobs with too few descriptors. At whatever point the start fails, oshrun names the
// limit that helps. Go itself needs some 8 descriptors.
func TestStartShortOfDescriptors(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{16, 20, 24, 32} {
		j := prepare(t)
		j.cmd.Path = "/bin/sh"
		j.cmd.Args = []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" -n 8 true`, limit), self(t)}
		j.begin()
		j.expect(4, "too many open files", "hint: fewer PEs, or a higher limit: ulimit -n")
	}
}

// PEs that make progress are not reported as hung, however many share a processor.
func TestHealthyDoNotHang(t *testing.T) { // its processes keep all processors busy, so nothing runs beside it
	j := start(t, "-n", "48", "--hang-timeout", "0.1", "bench", "barrier", "-i", "200")
	if status, said := j.ended(testPatience); status != 0 || strings.Contains(said, "hangs") {
		t.Errorf("status %d, want 0 and no PE reported as hung:\n%s", status, said)
	}
}

// With enough descriptors to start the PEs but too few to open the better watch, the job still ends.
func TestWatchdogShortOfDescriptors(t *testing.T) {
	t.Parallel()
	limits := []int{168, 172, 176, 180, 184, 188, 192} // from too few to start the job to enough
	jobs := make([]*job, len(limits))
	for i, limit := range limits {
		jobs[i] = prepare(t)
		jobs[i].cmd.Path = "/bin/sh"
		jobs[i].cmd.Args = []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" -n 20 sleep 2.5`, limit), self(t)}
		jobs[i].begin()
	}
	for i, j := range jobs {
		if status, said := j.ended(testPatience); status != 0 && status != 4 {
			t.Errorf("with %d descriptors: status %d, want 0 or 4:\n%s", limits[i], status, said)
		}
	}
}

// On many emulated nodes the watch that costs least stays, unless the user asks for another one.
func TestWatchdogOfEmulated(t *testing.T) {
	t.Parallel()
	best := usableTiers(t)[0]
	const patient = "sleep 2" // by then a better one would have taken over, see daemon.deathWatch
	start(t, "--emulate", "3", "-n", "3", "--stats", "sh", "-c", patient).expect(0, "watchdog  pidfd\n")
	start(t, "--emulate", "3", "-n", "3", "--stats", "--watchdog", best, "sh", "-c", patient).expect(0, "watchdog  "+best+"\n")
}
