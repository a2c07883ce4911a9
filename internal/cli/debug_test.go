package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// awaited waits for oshrun's message that a PE waits for a debugger. It returns the PE's process number once the
// process is stopped, and the command that attaches a debugger.
func (j *job) awaited(pe int) (pid int, command string) {
	j.t.Helper()
	<-j.stderr.says(fmt.Sprintf("PE %d (pid ", pe)) // oshrun writes whole lines
	for line := range strings.Lines(j.stderr.String()) {
		_, rest, found := strings.Cut(line, fmt.Sprintf("PE %d (pid ", pe))
		if n, _ := fmt.Sscanf(rest, "%d)", &pid); !found || n != 1 {
			continue
		}
		_, command, _ = strings.Cut(strings.TrimSpace(line), " waits for a debugger: ")
		command, last, _ := strings.Cut(command, "; without one it goes on by: ")
		if want := fmt.Sprintf("kill -CONT %d", pid); last != want {
			j.t.Errorf("message %q, want %q at its end", line, want)
		}
		until(j.t, "the stop of a PE", func() bool { return stat(fmt.Sprint(pid))[0] == "T" })
		return pid, command
	}
	j.t.Fatalf("no message on PE %d:\n%s", pe, &j.stderr)
	return 0, ""
}

// A PE with a debugger waits before its program begins. No timeout and no watch reports it, and SIGCONT continues it.
func TestDebugWaits(t *testing.T) {
	t.Parallel()
	gate := t.TempDir() + "/gate"
	j := start(t, "-n", "2", "--debug", "1", "--timeout", "0.1", "--hang-timeout", "0.1", "sh", "-c", waiter, gate)
	other := j.ready(1)[0]
	pid, command := j.awaited(1)
	if want := fmt.Sprintf("gdb -p %d -ex 'handle SIGCONT nostop noprint'", pid); command != want {
		t.Errorf("command %q, want %q", command, want)
	}
	if cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); !strings.HasPrefix(string(cmdline), "sh\x00") {
		t.Errorf("the process is %q, want the program", cmdline)
	}
	check(t, syscall.Kill(other, syscall.SIGSTOP)) // once this is reported, the watch has looked at both PEs
	<-j.stderr.says(fmt.Sprintf("(pid %d) is stopped\n", other))
	check(t, syscall.Kill(other, syscall.SIGCONT))
	if state := stat(fmt.Sprint(pid))[0]; state != "T" {
		t.Errorf("the PE is in state %s, want T", state)
	}
	check(t, syscall.Kill(pid, syscall.SIGCONT))
	if got := j.ready(1)[0]; got != pid {
		t.Errorf("process %d is ready, want %d", got, pid)
	}
	check(t, os.WriteFile(gate, nil, 0o600))
	status, said := j.ended(testPatience)
	if status != 0 || strings.Contains(said, fmt.Sprintf("(pid %d) is stopped", pid)) || strings.Contains(said, "hangs") ||
		!strings.Contains(said, "--timeout 100ms does not count with --debug") {
		t.Errorf("status %d, want 0 and, on process %d, only the message that it waits:\n%s", status, pid, said)
	}
}

// A Go program joins its job when it is continued. The other PEs wait for it and are not reported as hung.
func TestDebugGo(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "3", "--debug", "0,2", "--hang-timeout", "0.1", "t-pe", "barrier-ok")
	for _, pe := range []int{0, 2} {
		pid, command := j.awaited(pe)
		if want := fmt.Sprintf("dlv attach %d", pid); command != want {
			t.Errorf("command %q, want %q", command, want)
		}
		check(t, syscall.Kill(pid, syscall.SIGCONT))
	}
	if status, said := j.ended(testPatience); status != 0 || strings.Contains(said, "hangs") {
		t.Errorf("status %d, want 0 and no PE reported as hung:\n%s", status, said)
	}
}

// An interrupt ends a job with a PE that waits for a debugger.
func TestDebugInterrupt(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "2", "--debug", "0", "t-pe", "wait")
	j.awaited(0)
	check(t, j.cmd.Process.Signal(os.Interrupt))
	j.expect(130, "SIGINT: ending 2 PEs")
}

// If the user stops and continues the job, the PE goes on waiting.
func TestDebugSuspend(t *testing.T) {
	t.Parallel()
	gate := t.TempDir() + "/gate"
	j := start(t, "-n", "2", "--debug", "0", "sh", "-c", waiter, gate)
	other := j.ready(1)[0]
	pid, _ := j.awaited(0)
	oshrun := j.cmd.Process
	check(t, oshrun.Signal(syscall.SIGTSTP))
	until(t, "the stop of oshrun", func() bool { return stat(fmt.Sprint(oshrun.Pid))[0] == "T" })
	check(t, oshrun.Signal(syscall.SIGCONT))
	until(t, "PE 1 to go on", func() bool { return stat(fmt.Sprint(other))[0] != "T" }) // PE 0 would have been continued before
	if state := stat(fmt.Sprint(pid))[0]; state != "T" {
		t.Errorf("PE 0 is in state %s, want T", state)
	}
	check(t, syscall.Kill(pid, syscall.SIGCONT))
	j.ready(1)
	check(t, os.WriteFile(gate, nil, 0o600))
	j.expect(0)
}

// gdb attaches to a PE of each kind of program with the command that oshrun prints, finds the PE before its main
// function, and lets it run to its end, with no stop signal reported for any thread.
func TestDebugAttach(t *testing.T) {
	testenv.Need(t, testenv.GDB)
	for _, kind := range []testenv.Capability{"go", testenv.OpenMPI, testenv.MPICH} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			program := []string{"t-pe", "barrier-ok"}
			if kind != "go" {
				program = []string{testenv.CompileC(t, kind, filepath.Join("testdata", "appnum.c"))}
			}
			j := start(t, append([]string{"-n", "2", "--debug", "1"}, program...)...)
			pid, command := j.awaited(1)
			if kind == "go" {
				command = fmt.Sprintf("gdb -p %d -ex 'handle SIGCONT nostop noprint'", pid)
			} else {
				command += " -ex 'break main' -ex continue -ex 'delete'"
			}
			ctx, cancel := context.WithTimeout(t.Context(), testPatience)
			defer cancel()
			gdb := exec.CommandContext(ctx, "sh", "-c", "exec "+command+" -nx -batch -ex continue")
			text, err := gdb.CombinedOutput()
			check(t, err)
			said := string(text)
			if !strings.Contains(said, "exited normally") {
				t.Errorf("gdb did not see the program exit with status 0:\n%s", said)
			}
			if kind != "go" && !strings.Contains(said, "Breakpoint 1, ") {
				t.Errorf("gdb did not stop in main:\n%s", said)
			}
			if strings.Contains(said, "received signal") {
				t.Errorf("a signal stopped the program in gdb:\n%s", said)
			}
			j.expect(0)
		})
	}
}

// Values that name no PE of the job are refused.
func TestDebugErrors(t *testing.T) {
	for args, want := range map[string]string{
		"-n 2 --debug 2 true":             `2 --debug: "2", want PEs from 0 to 1, such as 3 or 0,2-4`,
		"-n 2 --debug=-1 true":            `2 --debug: "-1", want PEs`,
		"-n 2 --debug all true":           `2 --debug: "all", want PEs`,
		"-n 2 --debug , true":             `2 --debug: ",", want PEs`,
		"-n 2 --debug= true":              `2 --debug: "", want PEs`,
		"-n 1 true : -n 1 --debug 0 true": "2 program 2 of the job: --debug is for the whole job",
	} {
		status, _, said := execute(t, strings.Fields(args)...)
		if code, words, _ := strings.Cut(want, " "); fmt.Sprint(status) != code || !strings.Contains(said, words) {
			t.Errorf("oshrun %s: status %d, want %s; %s", args, status, want, said)
		}
	}
}
