package daemon

import (
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/xunix"
)

// debugState returns how far the wait of a PE for its debugger is.
func (s *testStep) debugState(pe int) debugging {
	p := s.pe(pe)
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return p.debug
}

// A PE for a debugger is stopped at its first instruction, whatever the user sends to the job, until somebody lets it go on
// by SIGCONT. At the end of the job it is continued as all PEs are.
func TestPEAwaitsDebugger(t *testing.T) {
	s := startTest(t, []App{shell(3, "echo runs; exec sleep 1000")}, func(c *settings) { c.Debug = []int{0, 1} })
	if line := s.line(); line != "2: runs" {
		t.Fatalf("line %q, want one of the PE that waits for no debugger", line)
	}
	s.Signal(xunix.SIGCONT)
	for pe := range 2 {
		if is := look(s.pe(pe).pid); !is.stopped || s.debugState(pe) != awaitDebugger {
			t.Errorf("PE %d is %+v and waits %v, want it stopped", pe, is, s.debugState(pe))
		}
	}
	kill(t, s.pe(0).pid, xunix.SIGCONT)
	if line := s.line(); line != "0: runs" {
		t.Errorf("line %q, want PE 0 to run", line)
	}
	p := s.pe(0)
	d := &debuggers{table: s.table, closing: s.background.closing, logger: s.reporter.logger}
	if !d.lookAt(p) || s.debugState(0) != debugged {
		t.Error("PE 0 runs, and is taken for one that waits")
	}
	if d.lookAt(s.pe(1)) {
		t.Error("PE 1 does not wait any more")
	}
	s.Refuse() // the job ends
	s.Signal(xunix.SIGCONT)
	if line := s.line(); line != "1: runs" {
		t.Errorf("line %q, want PE 1 to run", line)
	}
	kill(t, p.pid, syscall.SIGKILL)
	s.awaitExit(0)
	p.debug = awaitDebugger
	if !d.lookAt(p) || p.debug != awaitDebugger {
		t.Error("a PE that has ended waits for its debugger, or has one")
	}
}
