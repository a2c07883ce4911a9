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

// sayGroup is a shell program that prints its process group and session.
const sayGroup = `read -r line </proc/$$/stat; set -- ${line##*) }; echo "group $3 session $4 of $$."`

// groupLine returns the line that sayGroup prints if process pid leads its group, in the given session.
func groupLine(pid, session int) string {
	return fmt.Sprintf("group %d session %d of %d.", pid, session, pid)
}

// A PE leads its own session if every PE has a processor, and stays in oshrun's session if PEs take turns. It leads a
// group in either case.
func TestSessions(t *testing.T) {
	for npes, own := range map[int]bool{1: true, runtime.NumCPU() + 1: false} {
		j := start(t, "-n", fmt.Sprint(npes), "sh", "-c", `echo "ready $$"; `+sayGroup)
		j.expect(0)
		theirs := number(stat(fmt.Sprint(os.Getpid()))[3]) // the session of this test, and thus of oshrun
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
			t.Errorf("%d of %d PEs printed their group:\n%s", said, npes, j.stdout.String())
		}
	}
}

// The PE that reads from a terminal stays in its session and can open /dev/tty. A PE that does not read from it leads a
// session without a terminal.
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

// underShell makes a shell with job control the parent of oshrun. The shell prints that oshrun has stopped, continues
// it in the foreground after a line of input, and prints how it ended.
func (j *job) underShell() {
	oshrun := j.cmd.Args[1:]
	script := `set -m; "$0" "$@"; echo "stopped $?"; read x; fg >/dev/null; echo "status $?"`
	j.cmd.Path, j.cmd.Args = "/bin/sh", append([]string{"sh", "-c", script, self(j.t)}, oshrun...)
}

// readyOn returns the process numbers that n PEs print on a terminal.
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

// Ctrl-Z, fg and Ctrl-C work under a shell with job control, for a PE that reads from the terminal and for one in its
// own session.
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
			s.wait(fmt.Sprintf("stopped %d", 128+int(syscall.SIGSTOP))) // the signal by which oshrun stops itself
			s.write("\n")
			inState(t, "RSD", append(pids, oshrun)...)
			s.write("\x03")
			s.wait("status 130")
			if status := s.ended(j); status != 0 {
				t.Errorf("the shell's status is %d, want 0", status)
			}
		})
	}
}

// A job ends when its terminal does, whether running or stopped, and whichever session its PEs are in.
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
				_ = s.person.Close() // hang up
				j.over(testPatience, func() {})
				s.end.Wait()
			})
		}
	}
}

// A PE in its own session that handles SIGTSTP, in a child of a shell, gets the signal and has time to handle it. Then
// it is stopped.
func TestStopHandler(t *testing.T) {
	j := start(t, "-n", "1", "sh", "-c",
		`sh -c 'trap "echo got TSTP" TSTP; echo "ready $$"; while :; do :; done'; exit $?`) // a shell in vfork is in state D
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

// A PE's session has the nice value of oshrun, which is higher than this test's.
func TestSessionNice(t *testing.T) {
	if _, err := os.Stat("/proc/self/autogroup"); err != nil {
		t.Skipf("the kernel has no weights for sessions: %v", err)
	}
	want := min(xunix.SessionNice()+7, 19)
	const npes = 1 // so that each PE has a processor
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
