package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// until polls until a condition holds, and fails the test if that takes too long.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testPatience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("condition still false at the deadline: %s", what)
		}
	}
}

// stat returns the fields of /proc/PID/stat after the name: state, parent, ...
func stat(pid string) []string {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return []string{"", ""}
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// behind starts a job of two PEs whose processes are shells. The shells exit with status 0 and leave their programs in
// the background.
func behind(t *testing.T, background, mode string, flags ...string) *job {
	t.Helper()
	gate := t.TempDir() + "/gate"
	args := append(flags, "-n", "2", "sh", "-c",
		`echo "ready $$"; `+background+` "$0" pe t-pe `+mode+` & while [ ! -e "$1" ]; do sleep 0.02; done; exit 0`, self(t), gate)
	j := start(t, args...)
	pids := j.ready(4)
	check(t, os.WriteFile(gate, nil, 0o600))
	for _, pid := range pids {
		if cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(cmdline), "sh\x00") {
			until(t, "the end of a shell", func() bool { return stat(fmt.Sprint(pid))[0] == "" })
		}
	}
	return j
}

// A job can be ended when its PEs' processes have ended and only their programs run.
func TestEndOfBackgroundPEs(t *testing.T) {
	t.Parallel()
	for name, background := range map[string]string{"in its group": "", "in a session of its own": "setsid"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := behind(t, background, "spin", "--timeout", "2")
			j.expect(124, "is over")

			j = behind(t, background, "ignore")
			check(t, j.cmd.Process.Signal(os.Interrupt))
			<-j.stderr.says("SIGINT: ending 2 PEs")
			check(t, j.cmd.Process.Signal(os.Interrupt))
			j.expect(130, "interrupted twice")

			j = behind(t, background, "wait") // ends at the first signal
			check(t, j.cmd.Process.Signal(os.Interrupt))
			j.expect(130)

			signal := t.TempDir() + "/signal"
			j = behind(t, background, "lateexit 9 "+signal)
			check(t, os.WriteFile(signal, nil, 0o600))
			j.expect(9, "ended the job with status 9")
		})
	}
}

// A reader that does not read delays neither the end of a job nor oshrun's messages on it.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	t.Run("timeout", func(t *testing.T) {
		t.Parallel()
		start(t, "-n", "2", "--timeout", "0.5", "yes").expectUnread(124, "--timeout 500ms is over", "output is cut")
	})
	t.Run("failure", func(t *testing.T) {
		t.Parallel()
		j := start(t, "-n", "2", "sh", "-c", `if [ $PMIX_RANK = 1 ]; then sleep 0.3; exit 3; fi; exec yes`)
		j.expectUnread(3, "exited with status 3")
	})
	t.Run("interrupts", func(t *testing.T) {
		t.Parallel()
		j := start(t, "-n", "2", "sh", "-c", `trap "" INT TERM; yes`)
		_, err := j.out.Peek(100)
		check(t, err)
		check(t, j.cmd.Process.Signal(os.Interrupt))
		<-j.stderr.says("SIGINT: ending 2 PEs")
		check(t, j.cmd.Process.Signal(os.Interrupt))
		j.expectUnread(130, "interrupted twice")
	})
	// More than one pipe holds, and less than the two pipes on the way hold.
	const some = `head -c 100000 /dev/zero | tr "\0" "\n"`
	t.Run("well and interrupted", func(t *testing.T) {
		t.Parallel()
		j := start(t, "-v", "-n", "1", "sh", "-c", some)
		<-j.stderr.says("finished after")
		check(t, j.cmd.Process.Signal(os.Interrupt))
		j.expectUnread(130, "SIGINT: output that nobody has read is cut")
	})
	t.Run("well and read later", func(t *testing.T) {
		t.Parallel()
		j := start(t, "-v", "-n", "1", "sh", "-c", some)
		<-j.stderr.says("finished after")
		time.Sleep(3 * time.Second) // longer than a failed job would wait
		j.expect(0)
		if n := j.stdout.Len(); n != 100000 {
			t.Errorf("got %d bytes, want 100000", n)
		}
	})
}

// If the reader has gone, like head, the job ends without a message.
func TestReaderGone(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "2", "yes")
	_, err := j.out.Peek(100)
	check(t, err)
	j.closeOut()
	status, said := j.endedAfter(testPatience, func() {})
	if status != 141 || said != "" {
		t.Errorf("status %d, stderr %q, want 141 and nothing", status, said)
	}
	// The PEs' processes do not inherit that the signal is ignored.
	j = start(t, "-n", "1", "sh", "-c", `(sleep 0.1; kill -PIPE $$) & sleep 5; sleep 5`)
	j.expect(141, "SIGPIPE")
}

// A program that closes unknown descriptors does not outlive oshrun.
func TestLeashWithoutProgram(t *testing.T) {
	j := start(t, "-n", "2", "sh", "-c", `exec 3<&-; sleep 1000 & echo "ready $$"; wait`)
	j.ready(2)
	check(t, j.cmd.Process.Kill())
	j.expect(-1)
}

// A process that left its group and dropped its environment ends with the job. Orphans are reaped when they end.
func TestOrphans(t *testing.T) {
	j := start(t, "-n", "1", "sh", "-c", `for i in 1 2 3 4; do (setsid true &); done
		(env -i setsid sleep 1000 &) ; echo "ready $$"`)
	j.ready(1)
	j.expect(0)
	j = start(t, "-n", "1", "sh", "-c", `for i in 1 2 3 4; do (setsid true &); done; echo "ready $$"; sleep 1000`)
	j.ready(1)
	oshrun := fmt.Sprint(j.cmd.Process.Pid)
	until(t, "the end of zombies", func() bool {
		dirs, err := os.ReadDir("/proc")
		check(t, err)
		for _, d := range dirs {
			if s := stat(d.Name()); s[0] == "Z" && s[1] == oshrun {
				return false
			}
		}
		return true
	})
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	j.expect(143)
}

// A PE may lose one program and go on with another, also after it has worked for a while.
func TestSecondProgram(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]string{"at once": ":", "late": `timeout 4 sh -c "while :; do :; done"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := start(t, "-n", "1", "sh", "-c", `"$0" pe t-pe lose; `+between+`; "$0" pe t-pe ok; sleep 2.5`, self(t))
			j.expect(0)
		})
	}
}

// A prompt is passed on although its line does not end.
func TestPrompt(t *testing.T) {
	t.Parallel()
	j := start(t, "-n", "1", "--output", "tag", "sh", "-c", `printf "name? "; read x </dev/null; sleep 1; echo done`)
	got := make([]byte, len("[0]<stdout>: name? "))
	_, err := io.ReadFull(j.out, got)
	check(t, err)
	if string(got) != "[0]<stdout>: name? " {
		t.Errorf("prompt %q", got)
	}
	j.expect(0)
	if j.stdout.String() != "done\n" {
		t.Errorf("rest %q, want the end of the line", &j.stdout)
	}
}

// A program is found in a working directory that is itself a relative path.
func TestRelativeDir(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Mkdir(dir+"/sub", 0o700))
	check(t, os.WriteFile(dir+"/sub/prog", []byte("#!/bin/sh\npwd\n"), 0o700))
	t.Chdir(dir)
	j := start(t, "-n", "1", "--wdir", "sub", "./prog")
	j.expect(0)
	if got := j.stdout.String(); got != dir+"/sub\n" {
		t.Errorf("working directory %q, want %q", got, dir+"/sub")
	}
}
