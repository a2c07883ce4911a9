package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// screen is a terminal that a job runs on.
type screen struct {
	t      *testing.T
	person *os.File // the user's end
	modes  string   // modes at the start
	keep   *os.File // keeps the terminal open
	speech          // what the terminal shows
	end    sync.WaitGroup
}

// onTerminal makes a job, or a shell around it, lead a session with its own terminal.
func onTerminal(t *testing.T, j *job) *screen {
	t.Helper()
	s := openScreen(t)
	s.show(j)
	return s
}

// openScreen opens a terminal.
func openScreen(t *testing.T) *screen {
	t.Helper()
	person, terminal, err := xunix.OpenPTY()
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	modes, err := xunix.TerminalModes(terminal)
	check(t, err)
	return &screen{t: t, person: person, modes: modes, keep: terminal}
}

// show makes a job run on the terminal.
func (s *screen) show(j *job) {
	s.t.Helper()
	j.cmd.Stdin, j.cmd.Stdout, j.cmd.Stderr = s.keep, s.keep, s.keep
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	j.begin()
	s.end.Go(func() {
		if _, err := io.Copy(s, s.person); err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, os.ErrClosed) {
			s.t.Error(err)
		}
	})
}

// ended waits for the end of the job and returns its status. It checks that the modes of the terminal have not changed.
func (s *screen) ended(j *job) int {
	s.t.Helper()
	status, _ := j.endedAfter(testPatience, func() {})
	s.sameModes()
	_ = s.keep.Close()
	s.end.Wait()
	_ = s.person.Close()
	return status
}

func (s *screen) sameModes() {
	s.t.Helper()
	now, err := xunix.TerminalModes(s.keep)
	check(s.t, err)
	if now != s.modes {
		s.t.Errorf("modes of the terminal are %s, were %s", now, s.modes)
	}
}

func (s *screen) wait(words string) {
	s.t.Helper()
	select {
	case <-s.says(words):
	case <-time.After(testPatience):
		s.t.Fatalf("the terminal does not show %q:\n%s", words, s.String())
	}
}

func (s *screen) write(text string) {
	s.t.Helper()
	_, err := io.WriteString(s.person, text)
	check(s.t, err)
}

// On a terminal, PEs get pipes or their own terminals. A PE that reads from the terminal can write to the terminal
// itself. Each PE gets one interrupt when one is typed. The modes of the terminal do not change.
func TestTerminal(t *testing.T) {
	for flag, output := range map[string]string{"--pty": "terminal", "--no-pty": "pipe"} {
		t.Run(output, func(t *testing.T) {
			j := prepare(t, "-n", "3", flag, "--stdin", "all", "t-say", "tty")
			s := onTerminal(t, j)
			for pe := range 3 {
				s.wait(fmt.Sprintf("ready %d <nil>", pe))
				s.wait(fmt.Sprintf("<tty of %d>", pe))
				s.wait(fmt.Sprintf("PE %d: pipe %s pipe", pe, output))
			}
			s.sameModes()
			s.write("\x03")
			if status := s.ended(j); status != 130 {
				t.Errorf("status %d, want 130", status)
			}
			for pe := range 3 { // a second interrupt would have been printed before the PE was killed
				one, two := fmt.Sprintf("PE %d: interrupt 1\r\n", pe), fmt.Sprintf("PE %d: interrupt 2", pe)
				if text := s.String(); strings.Count(text, one) != 1 || strings.Contains(text, two) {
					t.Errorf("the terminal does not show %q alone", one)
				}
			}
			if t.Failed() {
				t.Log(s.String())
			}
		})
	}
}

// The PE gets typed input in lines, and its end, too. A prompt is shown.
func TestTyping(t *testing.T) {
	j := prepare(t, "-n", "2", "--stdin", "1", "sh", "-c", `if [ $PMIX_RANK = 1 ]; then printf "name? "; read name; echo "hello $name"; cat; fi`)
	s := onTerminal(t, j)
	s.wait("name? ")
	s.write("you\n")
	s.wait("hello you")
	s.write("more\n\x04")
	if status := s.ended(j); status != 0 || strings.Count(s.String(), "more\r\n") != 2 { // echo and output
		t.Errorf("status %d, the terminal shows %q", status, s.String())
	}
}

// Lines are whole on a terminal, too.
func TestLinesOnTerminal(t *testing.T) {
	const lines = 1000
	j := prepare(t, "-n", "4", "t-say", "lines", fmt.Sprint(lines))
	s := onTerminal(t, j)
	if status := s.ended(j); status != 0 {
		t.Errorf("status %d", status)
	}
	all(t, checkLines(t, bytes.NewBufferString(s.String()), "", 4), lines)
}

// A job in the background of a shell does not read from the terminal, and so is not stopped. In the foreground again,
// it reads.
func TestBackground(t *testing.T) {
	j, gate := prepare(t), t.TempDir()+"/gate"
	program := `if [ $PMIX_RANK = 0 ]; then echo "first"; while read x; do echo "got $x"; [ $x != end ] || exit 0; done
		else while [ ! -e "$0.pe" ]; do sleep 0.02; done; echo alive; fi`
	script := `set -m
"$0" -n 2 sh -c '` + program + `' "$1"
bg; echo "behind"; while [ ! -e "$1.sh" ]; do sleep 0.02; done
read x; echo "shell got $x"; fg; echo "status $?"`
	j.cmd.Path, j.cmd.Args = "/bin/sh", []string{"sh", "-c", script, self(t), gate}
	s := onTerminal(t, j)
	s.wait("first")
	s.write("one\n")
	s.wait("got one")
	pids := children(t, j.cmd.Process.Pid)
	if len(pids) != 1 {
		t.Fatalf("children of the shell: %v", pids)
	}
	check(t, syscall.Kill(pids[0], syscall.SIGSTOP))
	s.wait("behind")
	s.write("two\n")                     // no process may read it yet
	<-time.After(200 * time.Millisecond) // a reader would be stopped
	check(t, os.WriteFile(gate+".pe", nil, 0o600))
	s.wait("alive\r\n") // the shell also prints the command line
	check(t, os.WriteFile(gate+".sh", nil, 0o600))
	s.wait("shell got two")
	s.write("three\nend\n")
	s.wait("got three")
	s.wait("status 0")
	if status := s.ended(j); status != 0 || strings.Contains(s.String(), "\ngot two") {
		t.Errorf("status %d, the terminal shows %q", status, s.String())
	}
}

// children returns the child processes of pid.
func children(t *testing.T, pid int) (all []int) {
	t.Helper()
	dirs, err := os.ReadDir("/proc")
	check(t, err)
	for _, d := range dirs {
		if strings.Trim(d.Name(), "0123456789") == "" && stat(d.Name())[1] == fmt.Sprint(pid) {
			all = append(all, number(d.Name()))
		}
	}
	slices.Sort(all)
	return all
}

// pesBelow returns the PEs of an oshrun, or of its daemons.
func pesBelow(t *testing.T, pid int) (all []int) {
	t.Helper()
	for _, child := range children(t, pid) {
		switch {
		case runs(child, "daemon", "--stdin"):
			all = append(all, pesBelow(t, child)...)
		case !runs(child, "agent"):
			all = append(all, child)
		}
	}
	return all
}
