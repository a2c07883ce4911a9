package cli

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// sayGroup is a shell program that says which group and session it is in.
const sayGroup = `read -r line </proc/$$/stat; set -- ${line##*) }; echo "group $3 session $4 of $$."`

// groupLine is what sayGroup says, in a session of its own or in that of another
// process.
func groupLine(pid, session int) string {
	return fmt.Sprintf("group %d session %d of %d.", pid, session, pid)
}

// A PE leads a session of its own where every PE has a processor, and stays in
// oshrun's session where PEs take turns. It leads a group in any case.
func TestSessions(t *testing.T) {
	for npes, own := range map[int]bool{1: true, runtime.NumCPU() + 1: false} {
		j := start(t, "-n", fmt.Sprint(npes), "sh", "-c", `echo "ready $$"; `+sayGroup)
		j.expect(0)
		theirs := number(stat(fmt.Sprint(os.Getpid()))[3]) // the session of this test, and so of oshrun
		lines := strings.Split(strings.TrimSpace(j.stdout.String()), "\n")
		said := 0
		for _, line := range lines {
			var pid, group, session int
			if n, _ := fmt.Sscanf(line, "group %d session %d of %d.", &group, &session, &pid); n != 3 {
				continue
			}
			said++
			want := groupLine(pid, theirs)
			if own {
				want = groupLine(pid, pid)
			}
			if line != want {
				t.Errorf("%d PEs: %q, want %q", npes, line, want)
			}
		}
		if said != npes {
			t.Errorf("%d of %d PEs said where they are:\n%s", said, npes, j.stdout.String())
		}
	}
}

// The PE that reads a terminal stays in its session and can open /dev/tty; one
// that does not read it leads a session without a terminal.
func TestSessionsOnTerminal(t *testing.T) {
	for stdin, want := range map[string]string{"0": "has a", "none": "has no"} {
		t.Run(stdin, func(t *testing.T) {
			j := prepare(t, "-n", "1", "--stdin", stdin, "sh", "-c", sayGroup+`
				if (: >/dev/tty) 2>/dev/null; then echo "$$ has a terminal"; else echo "$$ has no terminal"; fi`)
			s := onTerminal(t, j)
			if status := s.ended(j); status != 0 {
				t.Errorf("status %d", status)
			}
			var pid, group, session int
			text := s.String()
			if i := strings.Index(text, "group"); i >= 0 {
				_, _ = fmt.Sscanf(text[i:], "group %d session %d of %d.", &group, &session, &pid)
			}
			leader := j.cmd.Process.Pid
			if stdin == "none" {
				leader = pid
			}
			for _, words := range []string{groupLine(pid, leader), fmt.Sprintf("%d %s terminal", pid, want)} {
				if !strings.Contains(text, words) {
					t.Errorf("the terminal does not show %q:\n%s", words, text)
				}
			}
		})
	}
}

// underShell makes a shell with job control the parent of oshrun. It says that
// oshrun has stopped, lets it go on in the foreground when a line is typed, and
// says how it ended.
func (j *job) underShell() {
	oshrun := j.cmd.Args[1:]
	script := `set -m; "$0" "$@"; echo "stopped $?"; read x; fg >/dev/null; echo "status $?"`
	j.cmd.Path, j.cmd.Args = "/bin/sh", append([]string{"sh", "-c", script, self(j.t)}, oshrun...)
}

// readyOn returns the process numbers that n PEs say on a terminal.
func (s *screen) readyOn(n int) (pids []int) {
	s.t.Helper()
	until(s.t, "PEs that are ready", func() bool {
		pids = pids[:0]
		for _, part := range strings.Split(s.String(), "ready ")[1:] {
			if pid, _, whole := strings.Cut(part, "\r\n"); whole {
				pids = append(pids, number(pid))
			}
		}
		return len(pids) == n
	})
	return pids
}

// Ctrl-Z, fg and Ctrl-C do what they should under a shell with job control, for
// a PE that reads the terminal and for one in a session of its own.
func TestJobControl(t *testing.T) {
	for _, stdin := range []string{"0", "none"} {
		t.Run(stdin, func(t *testing.T) {
			j := prepare(t, "-n", "1", "--stdin", stdin, "t-pe", "spin")
			j.underShell()
			s := onTerminal(t, j)
			pids := s.readyOn(1)
			oshrun := number(stat(fmt.Sprint(pids[0]))[1])
			s.write("\x1a")
			inState(t, "T", append(pids, oshrun)...)
			s.wait(fmt.Sprintf("stopped %d", 128+int(syscall.SIGSTOP))) // by which oshrun stops itself
			s.write("\n")
			inState(t, "RSD", append(pids, oshrun)...)
			s.write("\x03")
			s.wait("status 130")
			if status := s.ended(j); status != 0 {
				t.Errorf("status %d of the shell", status)
			}
		})
	}
}

// The end of its terminal ends a job, running or stopped, whichever session its
// PEs are in.
func TestHangup(t *testing.T) {
	for _, stdin := range []string{"0", "none"} {
		for _, stopped := range []bool{false, true} {
			t.Run(fmt.Sprintf("stdin %s, stopped %v", stdin, stopped), func(t *testing.T) {
				j := prepare(t, "-n", "1", "--stdin", stdin, "t-pe", "spin")
				j.cmd.Path, j.cmd.Args = "/bin/sh", append([]string{"sh", "-c", `set -m; "$0" "$@"; echo stopped; read x`, self(t)}, j.cmd.Args[1:]...)
				s := onTerminal(t, j)
				pids := s.readyOn(1)
				if stopped {
					s.write("\x1a")
					inState(t, "T", pids...)
					s.wait("stopped\r\n")
				}
				_ = s.keep.Close()
				_ = s.person.Close() // the line is dead
				j.over(testPatience, func() {})
				s.end.Wait()
			})
		}
	}
}

// A PE in a session of its own that handles SIGTSTP, in a process below a shell,
// gets it and has time to act on it; then it is stopped.
func TestStopHandler(t *testing.T) {
	j := start(t, "-n", "1", "sh", "-c",
		`sh -c 'trap "echo got TSTP" TSTP; echo "ready $$"; while :; do :; done'; exit $?`) // in vfork a shell is in state D
	pids := j.ready(1)
	for range 2 {
		check(t, j.cmd.Process.Signal(syscall.SIGTSTP))
		j.hears(1, "TSTP")
		inState(t, "T", append(pids, j.cmd.Process.Pid)...)
		check(t, j.cmd.Process.Signal(syscall.SIGCONT))
		inState(t, "RSD", append(pids, j.cmd.Process.Pid)...)
	}
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	j.expect(143)
}

// A session of a PE is as nice to others as oshrun is, which is nicer than this test.
func TestSessionNice(t *testing.T) {
	if _, err := os.Stat("/proc/self/autogroup"); err != nil {
		t.Skipf("sessions have no weight: %v", err)
	}
	want := min(xunix.SessionNice()+7, 19)
	const npes = 1 // each has a processor
	j := prepare(t, "-n", fmt.Sprint(npes), "sh", "-c",
		fmt.Sprintf(`while ! grep -q "nice %d$" /proc/$$/autogroup; do sleep 0.02; done; cat /proc/$$/autogroup`, want))
	j.cmd.Path, j.cmd.Args = "/bin/sh", append([]string{"sh", "-c", `exec nice -n 7 "$0" "$@"`, self(t)}, j.cmd.Args[1:]...)
	j.begin()
	begin := time.Now()
	j.expect(0)
	if text := j.stdout.String(); strings.Count(text, fmt.Sprintf(" nice %d\n", want)) != npes {
		t.Errorf("after %v: %q, want the nice value of oshrun, %d", time.Since(begin), text, want)
	}
}
