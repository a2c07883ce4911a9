package cli

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// talker is a shell that says which signals it gets.
const talker = `for s in HUP INT QUIT TERM USR1 USR2 WINCH; do trap "echo got $s" $s; done
	echo "ready $$"; while :; do sleep 0.02; done`

// hears reads the output until every PE has said that it got a signal.
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
	for name, sig := range ending { // at the same time: none ends before it is killed
		jobs[name] = start(t, "-n", "2", "sh", "-c", talker)
		jobs[name].ready(2)
		check(t, jobs[name].cmd.Process.Signal(sig))
	}
	for name, j := range jobs {
		j.hears(2, name)
		j.expect(128+int(ending[name]), "SIG"+name+": ending 2 PEs")
	}
}

// inState waits until processes are in one of some states, as /proc has them.
func inState(t *testing.T, states string, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		until(t, fmt.Sprintf("state %s of process %d", states, pid), func() bool {
			state := stat(fmt.Sprint(pid))[0]
			return state != "" && strings.Contains(states, state)
		})
	}
}

// SIGTSTP stops the PEs, also those that do not want to, and then oshrun;
// SIGCONT lets all go on.
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

// Who has stopped the whole job is not told that PEs are stopped, nor that they go on.
func TestStopIsNotReported(t *testing.T) {
	t.Parallel()
	const looks = 1100 * time.Millisecond // the watchdog has looked at all PEs in between, or does so as soon as it can
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
		t.Errorf("status %d, want 143 and no word on the states of PEs:\n%s", status, said)
	}
}

// A job that is stopped can be ended.
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

// A job that is on its way to a standstill can be ended, too: it does not stop
// any more.
func TestEndOfStopping(t *testing.T) {
	j := start(t, "-n", "2", "sh", "-c", `trap "echo got TSTP" TSTP; trap "" TERM; echo "ready $$"; while :; do :; done`)
	j.ready(2)
	check(t, j.cmd.Process.Signal(syscall.SIGTSTP))
	j.hears(2, "TSTP") // they do not stop, which they are given some time for
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
	t.Logf("the end took %v", time.Since(begin))
}

// A job that nohup protects does not end by SIGHUP.
func TestNoHangup(t *testing.T) {
	gate := t.TempDir() + "/gate"
	j := prepare(t, "-n", "1", "sh", "-c", `echo "ready $$"; while [ ! -e "$0" ]; do sleep 0.02; done`, gate)
	j.cmd.Path, j.cmd.Args = "/bin/sh", append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, self(t)}, j.cmd.Args[1:]...)
	j.begin()
	j.ready(1)
	check(t, j.cmd.Process.Signal(syscall.SIGHUP))
	check(t, j.cmd.Process.Signal(syscall.SIGWINCH)) // handled later than it would have been
	check(t, os.WriteFile(gate, nil, 0o600))
	j.expect(0)
}
