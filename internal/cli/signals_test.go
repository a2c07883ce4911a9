package cli

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// talker is a shell program that prints the signals that it gets.
const talker = `for s in HUP INT QUIT TERM USR1 USR2 WINCH; do trap "echo got $s" $s; done
	echo "ready $$"; while :; do sleep 0.02; done`

// hears reads the output until n PEs have printed that they got a signal.
func (j *job) hears(n int, name string) {
	j.t.Helper()
	for seen := 0; seen < n; {
		line, err := j.out.ReadString('\n')
		if strings.TrimSpace(line) == "got "+name {
			seen++
		}
		if err != nil {
			j.t.Fatalf("%d of %d PEs got %s: %v; stderr:\n%s", seen, n, name, err, &j.stderr)
		}
	}
}

// Signals for the PEs reach them and do not end the job.
func TestSignalsReachPEs(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "3", "sh", "-c", talker)
	j.ready(3)
	for name, sig := range map[string]syscall.Signal{"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH} {
		check(t, j.cmd.Process.Signal(sig))
		j.hears(3, name)
	}
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	j.hears(3, "TERM")
	j.expect(143, "SIGTERM: ending 3 PEs")
	jobs := map[string]*job{}
	ending := map[string]syscall.Signal{"HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "INT": syscall.SIGINT}
	for name, sig := range ending { // in parallel, as each PE runs until it is killed
		jobs[name] = start(t, "-n", "2", "sh", "-c", talker)
		jobs[name].ready(2)
		check(t, jobs[name].cmd.Process.Signal(sig))
	}
	for name, j := range jobs {
		j.hears(2, name)
		j.expect(128+int(ending[name]), "SIG"+name+": ending 2 PEs")
	}
}

// inState waits until processes are in one of some states, in the notation of /proc.
func inState(t *testing.T, states string, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		until(t, fmt.Sprintf("state %s of process %d", states, pid), func() bool {
			state := stat(fmt.Sprint(pid))[0]
			return state != "" && strings.Contains(states, state)
		})
	}
}

// SIGTSTP stops the PEs, even those that ignore it, and then oshrun. SIGCONT continues all of them.
func TestStopAndContinue(t *testing.T) {
	for name, args := range map[string][]string{
		"plain":    {"t-pe", "spin"},
		"shell":    {"sh", "-c", `"$0" pe t-pe spin; exit $?`, self(t)},
		"stubborn": {"sh", "-c", `trap "" TSTP; echo "ready $$"; while :; do :; done`},
	} {
		t.Run(name, func(t *testing.T) {
			j := start(t, append([]string{"-n", "2"}, args...)...)
			pids := j.ready(2)
			for range 2 {
				check(t, j.cmd.Process.Signal(syscall.SIGTSTP))
				inState(t, "T", append(pids, j.cmd.Process.Pid)...)
				check(t, j.cmd.Process.Signal(syscall.SIGCONT))
				inState(t, "RSD", append(pids, j.cmd.Process.Pid)...)
			}
			check(t, j.cmd.Process.Signal(syscall.SIGTERM))
			j.expect(143)
		})
	}
}

// If the user stops the whole job, oshrun does not report that PEs are stopped or continued.
func TestStopIsNotReported(t *testing.T) {
	t.Parallel()
	const looks = 1100 * time.Millisecond // the watchdog looks at all PEs within this time, or as soon as it can
	j := start(t, "-n", "3", "t-pe", "spin")
	pids := j.ready(3)
	for range 3 {
		check(t, j.cmd.Process.Signal(syscall.SIGTSTP))
		inState(t, "T", append(pids, j.cmd.Process.Pid)...)
		<-time.After(looks)
		check(t, j.cmd.Process.Signal(syscall.SIGCONT))
		inState(t, "RSD", append(pids, j.cmd.Process.Pid)...)
		<-time.After(looks)
	}
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	status, said := j.ended(testPatience)
	if status != 143 || strings.Contains(said, "is stopped") || strings.Contains(said, "goes on") {
		t.Errorf("status %d, want 143 and no message on the states of PEs:\n%s", status, said)
	}
}

// A stopped job can be ended.
func TestEndOfStopped(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		j := start(t, "-n", "2", "t-pe", "spin")
		pids := j.ready(2)
		check(t, j.cmd.Process.Signal(syscall.SIGTSTP))
		inState(t, "T", append(pids, j.cmd.Process.Pid)...)
		check(t, j.cmd.Process.Signal(sig))
		if sig == syscall.SIGKILL {
			j.expect(-1)
			continue
		}
		check(t, j.cmd.Process.Signal(syscall.SIGCONT))
		j.expect(143)
	}
}

// A job that is about to stop can be ended, too. It does not stop then.
func TestEndOfStopping(t *testing.T) {
	j := start(t, "-n", "2", "sh", "-c", `trap "echo got TSTP" TSTP; trap "" TERM; echo "ready $$"; while :; do :; done`)
	j.ready(2)
	check(t, j.cmd.Process.Signal(syscall.SIGTSTP))
	j.hears(2, "TSTP") // they do not stop, and oshrun gives them some time to do so
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	if status, said := j.ended(2 * time.Second); status != 143 {
		t.Errorf("status %d; stderr:\n%s", status, said)
	}
}

// PEs that ignore every signal, and have used much memory, end in time.
func TestTermIsQuick(t *testing.T) {
	const heap = 256 << 20
	j := start(t, "-n", "2", "--heap-size", fmt.Sprint(2*heap), "t-pe", "touch", fmt.Sprint(heap))
	j.ready(2)
	begin := time.Now()
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	<-j.stderr.says("SIGTERM: ending 2 PEs")
	if status, said := j.ended(2 * time.Second); status != 143 {
		t.Errorf("status %d; stderr:\n%s", status, said)
	}
	t.Logf("the job ended after %v", time.Since(begin))
}

// A job under nohup does not end by SIGHUP.
func TestNoHangup(t *testing.T) {
	gate := t.TempDir() + "/gate"
	j := prepare(t, "-n", "1", "sh", "-c", `echo "ready $$"; while [ ! -e "$0" ]; do sleep 0.02; done`, gate)
	j.cmd.Path, j.cmd.Args = "/bin/sh", append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, self(t)}, j.cmd.Args[1:]...)
	j.begin()
	j.ready(1)
	check(t, j.cmd.Process.Signal(syscall.SIGHUP))
	check(t, j.cmd.Process.Signal(syscall.SIGWINCH)) // handled after SIGHUP would have been
	check(t, os.WriteFile(gate, nil, 0o600))
	j.expect(0)
}
