package server_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// Control sends real signals.
func (s *stage) Control(_ codec.Proc, targets []codec.Proc, a server.ControlAction) {
	sig := syscall.Signal(a.Signal)
	if a.Kill {
		sig = syscall.SIGKILL
	}
	for _, p := range targets {
		s.mu.Lock()
		process := s.procs[p]
		s.mu.Unlock()
		_ = process.Signal(sig) // the process may have ended
	}
}

func exitOf(state *os.ProcessState) server.Exit {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return server.Exit{Signal: int(ws.Signal())}
	}
	return server.Exit{Code: state.ExitCode()}
}

// actors runs n processes of a real PMIx library that execute commands.
func actors(t *testing.T, n int) *stage {
	t.Helper()
	s := newStageOf(t, "testdata/act.c")
	s.must("job-1", n)
	for rank := range n {
		s.await(of("job-1", codec.Rank(rank)), "init: SUCCESS")
	}
	return s
}

// tell sends commands to a process, without waiting.
func (s *stage) tell(rank codec.Rank, commands ...string) {
	for _, c := range commands {
		s.Stdin([]codec.Proc{of("job-1", rank)}, []byte(c+"\n"), false)
	}
}

// says compares the next lines of a process with want, in this order.
func (s *stage) says(rank codec.Rank, want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.next(rank, len(want))); diff != "" {
		s.t.Fatalf("output of process %d (-want +got):\n%s", rank, diff)
	}
}

// saysMixed compares the next lines of a process with want, in any order, because handlers run concurrently with
// commands.
func (s *stage) saysMixed(rank codec.Rank, want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(s.next(rank, len(want))))); diff != "" {
		s.t.Fatalf("output of process %d (-want +got):\n%s", rank, diff)
	}
}

// next returns the next n lines of a process.
func (s *stage) next(rank codec.Rank, n int) []string {
	s.t.Helper()
	p := of("job-1", rank)
	for {
		s.mu.Lock()
		got, changed := s.lines[p], s.changed
		if len(got) >= n {
			s.lines[p] = got[n:]
			s.mu.Unlock()
			return got[:n:n]
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-s.ctx.Done():
			s.t.Fatalf("process %d printed %q, want %d lines", rank, got, n)
		}
	}
}

// begin drops the output so far, for several processes.
func (s *stage) begin(n int) {
	for rank := range n {
		s.says(codec.Rank(rank), "init: SUCCESS")
	}
}

// leave ends processes in an orderly way.
func (s *stage) leave(list ...codec.Rank) {
	s.t.Helper()
	for _, rank := range list {
		s.Stdin([]codec.Proc{of("job-1", rank)}, nil, true)
		s.says(rank, "finalize: SUCCESS")
	}
}

func TestLibPMIxEvents(t *testing.T) {
	s := actors(t, 3)
	s.begin(3)
	s.tell(0, "register one -9999", "register both -9999 -9998", "register any", "register end last")
	s.says(0, "register: SUCCESS", "register: SUCCESS", "register: SUCCESS", "register: SUCCESS")
	s.tell(2, "register stop -9999", "register both -9999 -9998")
	s.says(2, "register: SUCCESS", "register: SUCCESS")
	s.tell(1, "notify -9999 about 2", "notify -9998 to 0 reserved", "notify -9997 session", "notify -9999 to 2")
	s.says(1, "notify: SUCCESS", "notify: SUCCESS", "notify: SUCCESS", "notify: SUCCESS")
	s.says(0, "one: -9999 from 1 about 2 after 0", "both: -9999 from 1 about 2 after 1", "any: -9999 from 1 about 2 after 2",
		"end: -9999 from 1 about 2 after 3", "both: -9998 from 1 after 0", "end: -9998 from 1 after 1",
		"any: -9997 from 1 after 0", "end: -9997 from 1 after 1")
	s.says(2, "stop: -9999 from 1 about 2 after 0", "stop: -9999 from 1 after 0")
	// A late handler gets the events that were kept, and no others.
	s.tell(1, "notify -9995 nocache", "notify -9996", "fence")
	s.tell(0, "fence")
	s.tell(2, "fence", "register late -9995 -9996 -9997 -9998")
	s.says(1, "notify: SUCCESS", "notify: SUCCESS", "fence: SUCCESS")
	s.saysMixed(2, "fence: SUCCESS", "register: SUCCESS", "late: -9997 from 1 after 0", "late: -9996 from 1 after 0")
	s.leave(1, 2)
}

func TestLibPMIxEndOfProcesses(t *testing.T) {
	s := actors(t, 6)
	s.begin(6)
	s.tell(0, "register ends -400 -402 -404 -200 -8", "register any")
	s.says(0, "register: SUCCESS", "register: SUCCESS")
	s.tell(1, "exit 3")
	s.says(0, "ends: -404 from 1 about 1 code 3 after 0")
	s.tell(2, "exit 0")
	s.says(0, "ends: -200 from 2 about 2 code 0 after 0")
	s.tell(0, "kill 3")
	s.saysMixed(0, "kill: SUCCESS", "ends: -400 from 3 about 3 code 137 after 0")
	if err := s.procs[of("job-1", 4)].Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.says(0, "ends: -402 from 4 about 4 code 143 after 0")
	s.tell(0, "register late -402")
	s.says(0, "register: SUCCESS")
	s.tell(5, "fence") // cannot succeed
	s.says(5, "fence: PROC TERMINATED WITHOUT SYNC")
	s.tell(5, "register late -402 -200")
	s.saysMixed(5, "register: SUCCESS", "late: -200 from 2 about 2 code 0 after 0", "late: -402 from 4 about 4 code 143 after 0")
	s.leave(5)
	s.tell(0, "notify -9999 proc")
	s.saysMixed(0, "notify: SUCCESS", "any: -9999 from 0 after 0")
}

func TestLibPMIxGroups(t *testing.T) {
	s := actors(t, 4)
	s.begin(4)
	for rank := range codec.Rank(3) {
		s.tell(rank, "construct g 0 1 2 number notify tolerant", "register group -160 -170")
	}
	for rank := range codec.Rank(3) {
		s.says(rank, "context 1", "construct: SUCCESS", "register: SUCCESS")
	}
	s.tell(3, "construct g 3", "destruct g", "destruct g")
	s.says(3, "construct: SUCCESS", "destruct: SUCCESS", "destruct: NOT-FOUND")
	s.tell(2, "exit 7")
	s.says(0, "group: -170 from 2 about 2 group g after 0")
	s.says(1, "group: -170 from 2 about 2 group g after 0")
	s.tell(0, "destruct g")
	s.tell(1, "destruct g")
	s.says(0, "destruct: SUCCESS")
	s.says(1, "destruct: SUCCESS")
	s.tell(0, "construct h 0 1 2", "construct i 0 1", "leave i")
	s.tell(1, "construct i 0 1", "fence")
	s.says(0, "construct: PROC TERMINATED WITHOUT SYNC", "construct: SUCCESS", "leave: SUCCESS")
	s.saysMixed(1, "construct: SUCCESS", "group: -160 from 0 about 0 group i after 0", "fence: PROC TERMINATED WITHOUT SYNC")
}

func TestLibPMIxInvitation(t *testing.T) {
	s := actors(t, 3)
	s.begin(3)
	for rank := range codec.Rank(3) {
		s.tell(rank, "register news -159 -166 -168")
		s.says(rank, "register: SUCCESS")
	}
	s.tell(0, "invite g 0 1 2")
	s.says(0, "news: -159 from 0 group g after 0")
	for _, rank := range []codec.Rank{1, 2} {
		s.says(rank, "news: -159 from 0 group g after 0")
	}
	s.tell(1, "join g 0")
	s.says(1, "join: SUCCESS")
	s.tell(2, "join g 0")
	s.saysMixed(2, "join: SUCCESS", "news: -166 from 0 group g after 0")
	s.says(1, "news: -166 from 0 group g after 0")
	s.saysMixed(0, "invite: SUCCESS", "news: -166 from 0 group g after 0")
	for rank := range codec.Rank(3) {
		s.tell(rank, "destruct g")
	}
	for rank := range codec.Rank(3) {
		s.says(rank, "destruct: SUCCESS")
	}
}

func TestLibPMIxLeaderDies(t *testing.T) {
	s := actors(t, 3)
	s.begin(3)
	for _, rank := range []codec.Rank{1, 2} {
		s.tell(rank, "register news -159 -166 -168")
		s.says(rank, "register: SUCCESS")
	}
	s.tell(0, "invite g 0 1 2")
	s.says(1, "news: -159 from 0 group g after 0")
	s.says(2, "news: -159 from 0 group g after 0")
	s.tell(1, "join g 0")
	s.says(1, "join: SUCCESS")
	if err := s.procs[of("job-1", 0)].Kill(); err != nil {
		t.Fatal(err)
	}
	s.says(1, "news: -168 from 0 about 0 group g after 0")
	s.says(2, "news: -168 from 0 about 0 group g after 0")
}

func TestLibPMIxCleanup(t *testing.T) {
	s := actors(t, 2)
	s.begin(2)
	top := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mine, ours := write("mine"), write("ours/a/b")
	kept := write("ours/kept")
	s.tell(0, "cleanup file "+mine+" me", "cleanup ignore "+kept, "cleanup dir "+filepath.Join(top, "ours")+" recursive",
		"cleanup dir /", "cleanup file x", "cleanup file "+kept)
	s.says(0, "cleanup: SUCCESS", "cleanup: SUCCESS", "cleanup: SUCCESS", "cleanup: BAD-PARAM", "cleanup: BAD-PARAM",
		"cleanup: PMIX CONFLICTING CLEANUP DIRECTIVES")
	s.leave(0, 1)
	s.running.Wait()
	if err := s.srv.Close(); err != nil { // Close waits for the removal
		t.Fatal(err)
	}
	for path, want := range map[string]bool{mine: false, ours: false, filepath.Dir(ours): false, kept: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it to exist: %v", path, err, want)
		}
	}
}

func TestLibPMIxHeartbeats(t *testing.T) {
	s := actors(t, 2)
	s.begin(2)
	s.tell(1, "register alert -109")
	s.says(1, "register: SUCCESS")
	s.tell(0, "monitor 1 0", "beat")
	s.says(0, "monitor: SUCCESS", "beat: SUCCESS")
	s.says(1, "alert: -109 from 0 about 0 after 0")
	s.tell(0, "beat")
	s.says(0, "beat: SUCCESS")
	s.says(1, "alert: -109 from 0 about 0 after 0") // again, as beats had resumed
	s.leave(0, 1)
}
