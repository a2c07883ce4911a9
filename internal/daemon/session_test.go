package daemon

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// handles sees a signal's handler, and its absence.
func TestHandles(t *testing.T) {
	if s := startSleepers(t, 1); handlesSignal(s.PID(ID{}), xunix.SIGTSTP) {
		t.Error("found a handler in a program that has none")
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, xunix.SIGTSTP)
	defer signal.Stop(c)
	if !handlesSignal(os.Getpid(), xunix.SIGTSTP) {
		t.Error("the handler is not seen")
	}
	if handlesSignal(1<<30, xunix.SIGTSTP) {
		t.Error("a process that does not exist has a handler")
	}
}

// Programs that are linked to MPICH are told apart from others.
func TestLinksMPICH(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{self, script, "/no/such/program"} {
		if linksMPICH(path) {
			t.Errorf("%s counts as linked to MPICH", path)
		}
	}
	testenv.Need(t, testenv.MPICH)
	source := filepath.Join(t.TempDir(), "program.c")
	text := "#include <mpi.h>\nint main(void) { MPI_Init(0, 0); return MPI_Finalize(); }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if path := testenv.CompileC(t, testenv.MPICH, source); !linksMPICH(path) {
		t.Errorf("%s does not count as linked to MPICH", path)
	}
}

// A PE leads a session if it has a processor of its own or never yields, and does not read from the terminal.
func TestLeadsSession(t *testing.T) {
	free, alone, crowd := plan.Place{}, plan.Place{CPUs: []int{3}, Sharers: 1}, plan.Place{CPUs: []int{3}, Sharers: 2}
	for _, x := range []struct {
		crowded, yieldless, terminal, reads bool
		at                                  plan.Place
		want                                bool
	}{
		{at: free, want: true},
		{at: alone, want: true},
		{at: crowd, want: false},
		{at: crowd, yieldless: true, want: true},
		{at: free, crowded: true, want: false},
		{at: free, crowded: true, yieldless: true, want: true},
		{at: free, terminal: true, want: true},
		{at: free, reads: true, want: true},
		{at: free, reads: true, terminal: true, want: false},
		{at: free, reads: true, terminal: true, yieldless: true, want: false},
	} {
		st := &starter{cfg: &Config{Places: []plan.Place{x.at}, Terminal: x.terminal}}
		j := newLocalJob([]App{{NPEs: 1}}, nil)
		j.crowded, j.yieldless = x.crowded, []bool{x.yieldless}
		if got := st.leadsSession(&localPE{job: j}, x.reads); got != x.want {
			t.Errorf("%+v: leads a session: got %v", x, got)
		}
	}
}

// Sessions get their nice values, including those that the kernel has deferred. Two processes get none: that of a PE
// that has ended, and this test, in whose session a PE without its own session runs.
func TestNiceness(t *testing.T) {
	s := startTest(t, []App{shell(2, "exec sleep 1000")})
	pes := s.table.allStarted()
	before, err := os.ReadFile("/proc/self/autogroup")
	switch {
	case err != nil:
		t.Skip("the kernel has no autogroups")
	case !pes[0].session:
		t.Skip("two PEs share one processor, and thus the session of this test")
	}
	kill(t, pes[1].pid, syscall.SIGKILL)
	s.awaitExit(1)
	pes = append(pes, &localPE{job: pes[0].job, identity: identity{pid: os.Getpid()}})
	n := &niceness{table: s.table, background: s.background, logger: zerolog.Nop(), waiting: pes}
	n.applyRest(7)
	if len(n.waiting) > 0 {
		t.Errorf("%d sessions wait, want none", len(n.waiting))
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", pes[0].pid))
	if err != nil || !strings.HasSuffix(string(text), " nice 7\n") {
		t.Errorf("PE 0 has autogroup %q, %v; want nice 7", text, err)
	}
	if after, err := os.ReadFile("/proc/self/autogroup"); err != nil || string(after) != string(before) {
		t.Errorf("this test has autogroup %q, %v; want %q as before", after, err, before)
	}
}
