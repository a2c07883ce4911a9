package daemon

import (
	"slices"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/xunix"
)

// A suspension stops a session at once, unless one of its processes handles SIGTSTP. That process is asked, and may go
// on.
func TestSuspend(t *testing.T) {
	s := startTest(t, []App{
		sleepers(t, 1).Apps[0],
		shell(1, `trap "echo asked" TSTP; echo ready; while :; do read x; done`),
	}, func(c *settings) { c.Watchdog.Off = true })
	s.line()
	if !s.pe(0).session {
		t.Skip("PEs share a session on this machine")
	}
	s.Suspend()
	awaitState(t, s.pe(0).pid, "stopped", stopped)
	if line := s.line(); line != "1: asked" {
		t.Errorf("line %q, want PE 1 to be asked", line)
	}
	if s.Stopped() {
		t.Error("all PEs are stopped, want PE 1 to go on")
	}
	s.Signal(xunix.SIGSTOP)
	awaitState(t, s.pe(1).pid, "stopped", stopped)
	if !s.Stopped() {
		t.Error("not all PEs are stopped")
	}
	s.Signal(xunix.SIGCONT)
	awaitState(t, s.pe(0).pid, "running", runs)
	if s.Stopped() {
		t.Error("all PEs are stopped, want none")
	}
	s.Signal(syscall.SIGKILL)
	for left := 2; left > 0; {
		if e := <-s.Events(); e.Kind == Exited {
			left--
		}
	}
	if !s.Stopped() {
		t.Error("a PE that has ended counts as running")
	}
}

// A program that outlives its shell gets the job's signals, and SIGKILL ends its PE.
func TestSignalToProgramWithoutShell(t *testing.T) {
	for name, own := range map[string]bool{"children of the step": true, "children with the job's name": false} {
		t.Run(name, func(t *testing.T) {
			s := startTest(t, []App{shell(1, `(trap "echo asked" USR1; echo ready; while :; do sleep 0.01; done) & echo $!`)}, func(c *settings) {
				c.OwnsChildren = own
			})
			program := 0
			for range 2 { // in any order
				if line := s.line(); line != "0: ready" {
					program = numberOf(t, line)
				}
			}
			p := s.pe(0)
			pmixHost{s.clients}.ClientConnected(s.name(0), program)
			<-p.reaped
			if !p.descends(program) || p.descends(1) {
				t.Error("the orphan does not count as the PE's, or another process does")
			}
			found, _ := s.orphans.findOrphans()
			if !slices.ContainsFunc(found, func(i identity) bool { return i.pid == program }) {
				t.Errorf("orphans %v, want %d among them", found, program)
			}
			s.Signal(syscall.SIGUSR1)
			for line := s.line(); line != "0: asked"; line = s.line() {
				if line != "0: User defined signal 1" { // the shell reports its child, which gets the signal, too
					t.Errorf("line %q", line)
				}
			}
			s.Signal(syscall.SIGKILL)
			awaitState(t, program, "gone", process.over)
			s.awaitExit(0)
		})
	}
}

// When a PE asks for the end of another PE, the signal also reaches a program that has outlived its shell.
func TestKillProgramWithoutShell(t *testing.T) {
	s := startTest(t, []App{shell(1, `sleep 1000 & echo $!`), shell(1, "exec sleep 1000")})
	program := s.number()
	p := s.pe(0)
	pmixHost{s.clients}.ClientConnected(s.name(0), program)
	<-p.reaped
	pmixHost{s.clients}.Abort(s.name(1), procs(s.name(0)), 1, "")
	awaitState(t, program, "gone", process.over)
	s.awaitExit(0)
}
