package daemon

import (
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/xunix"
)

// debugState returns the stage of a PE's wait for its debugger.
func (s *testStep) debugState(pe int) debugging {
	p := s.pe(pe)
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return p.debug
}

// A PE with a debugger stops at its first instruction, whatever the user sends to the job, until it gets SIGCONT. At
// the end of the job it is continued like all PEs.
func TestPEAwaitsDebugger(t *testing.T) {
	s := startTest(t, []App{shell(3, "echo runs; exec sleep 1000")}, func(c *settings) { c.Debug = []int{0, 1} })
	if line := s.line(); line != "2: runs" {
		t.Fatalf("line %q, want one from PE 2, which waits for no debugger", line)
	}
	s.Signal(xunix.SIGCONT)
	for pe := range 2 {
		if is := look(s.pe(pe).pid); !is.stopped || s.debugState(pe) != awaitDebugger {
			t.Errorf("PE %d is %+v and its wait is %v, want it stopped", pe, is, s.debugState(pe))
		}
	}
	kill(t, s.pe(0).pid, xunix.SIGCONT)
	if line := s.line(); line != "0: runs" {
		t.Errorf("line %q, want PE 0 to run", line)
	}
	p := s.pe(0)
	d := &debuggers{table: s.table, closing: s.background.closing, logger: s.reporter.logger}
	if !d.lookAt(p) || s.debugState(0) != debugged {
		t.Error("PE 0 runs, and still counts as waiting")
	}
	if d.lookAt(s.pe(1)) {
		t.Error("PE 1 no longer waits")
	}
	s.Refuse(false) // the job ends
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
