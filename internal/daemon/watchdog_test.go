package daemon

import (
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/detector/kernel"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// The best watch replaces the first when all PEs have joined. No end is missed or reported twice, whichever watch had the
// process.
func TestWatchIsReplaced(t *testing.T) {
	s := startTest(t, []App{shell(2, `sleep 1000 & echo $!; wait; exec sleep 1000`), shell(1, "exec sleep 1000")}, func(c *settings) {
		c.Watchdog = Watchdog{Tier: kernel.PIDFD} // only this test replaces it
	})
	if s.Tier() != kernel.PIDFD.String() {
		t.Errorf("the first watch is %s, want %v", s.Tier(), kernel.PIDFD)
	}
	programs := map[int]int{}
	for range 2 {
		line := s.line()
		programs[int(line[0]-'0')] = numberOf(t, line)
	}
	host := pmixHost{s.clients}
	for pe := range 3 {
		pid := s.pe(pe).pid
		if programs[pe] != 0 {
			pid = programs[pe]
		}
		host.ClientConnected(s.name(pmix.Rank(pe)), pid)
	}
	old := s.watch.current
	s.watch.openBest(time.Hour) // all have joined, so it opens soon
	if s.watch.current == old {
		t.Error("no other watch replaces the first")
	}
	kill(t, programs[0], syscall.SIGSEGV) // the program; its shell goes on
	if e := s.next(Failed); e.PE != 0 || e.End.Signal != int(syscall.SIGSEGV) || !e.GoesOn || e.PID != s.pe(0).pid {
		t.Errorf("event %+v, want PE 0 with SIGSEGV, whose process goes on", e)
	}
	kill(t, s.pe(0).pid, syscall.SIGTERM)
	s.awaitExit(0)
	kill(t, s.pe(1).pid, syscall.SIGKILL) // the shell; its program is killed, too, before the failure is reported
	if e := s.next(Failed); e.PE != 1 || e.End.Signal != int(syscall.SIGKILL) {
		t.Errorf("event %+v, want PE 1 killed", e)
	}
	awaitState(t, programs[1], "gone", process.over)
	host.ClientLost(s.name(1)) // its connection ends
	for kinds := map[Kind]bool{}; !kinds[Lost] || !kinds[Exited]; {
		e := <-s.Events() // in any order
		kinds[e.Kind] = true
	}
	kill(t, s.pe(2).pid, syscall.SIGTERM)
	if e := s.next(Failed); e.PE != 2 || e.Tier == "" {
		t.Errorf("event %+v, want PE 2, reported by the watch", e)
	}
	s.awaitExit(2)
}

// Of a shell's programs, the one that joined last is watched. If the watch cannot report its end, the end of the PE's
// process counts.
func TestMemberIsReplaced(t *testing.T) {
	s := startTest(t, []App{shell(1, `sleep 1000 & echo $!; sleep 1000 & echo $!; wait`)}, func(c *settings) {
		c.Watchdog = Watchdog{Tier: kernel.PIDFD}
	})
	first, second := s.number(), s.number()
	host, p := pmixHost{s.clients}, s.pe(0)
	member := func() (pid int, watched bool) {
		s.table.mu.Lock()
		defer s.table.mu.Unlock()
		return p.member, p.life.MemberWatched()
	}
	host.ClientConnected(s.name(0), first)
	host.ClientConnected(s.name(0), second)
	if pid, watched := member(); pid != second || !watched {
		t.Errorf("the member is %d, watched %v; want %d, watched", pid, watched, second)
	}
	kill(t, first, syscall.SIGKILL) // no longer the PE's program
	s.watch.report(kernel.Report{Kind: kernel.Dead, PID: first, Tag: p.tag, Exit: kernel.Exit{Known: true, Status: 9}})
	if s.table.hasFailed(p) {
		t.Error("the PE has failed with a program that another one has replaced")
	}
	s.watch.report(kernel.Report{Kind: kernel.Dead, PID: second, Tag: 99}) // no such PE
	s.watch.report(kernel.Report{Kind: kernel.Unseen, PID: second, Tag: p.tag})
	if _, watched := member(); watched {
		t.Error("a member counts as watched that the watch no longer has")
	}
	host.ClientConnected(s.name(0), 1<<30) // a number of no process cannot be watched
	if _, watched := member(); watched {
		t.Error("a process counts as watched that does not exist")
	}
	s.Signal(syscall.SIGKILL)
	s.awaitExit(0)
}

// The steps of many emulated nodes keep the first watch, which looks for what ails PEs, too. One that is asked for is taken.
func TestWatchOfManyNodes(t *testing.T) {
	for _, x := range []struct {
		homes []int
		tier  kernel.Tier
		want  bool // the first watch stays
	}{
		{[]int{0, 1, 2}, 0, true},
		{[]int{0, 1}, 0, false},
	} {
		c := startCluster(t, []App{shell(len(x.homes), "exec sleep 1000")}, x.homes)
		s := c.steps[0]
		if s.watch.cheap != x.want || s.Tier() != kernel.PIDFD.String() {
			t.Errorf("%d nodes: the watch is %s, and stays: %t; want %v, %t", len(x.homes), s.Tier(), s.watch.cheap, kernel.PIDFD, x.want)
		}
	}
	c := startCluster(t, []App{shell(3, "exec sleep 1000")}, []int{0, 1, 2}, func(s *settings) { s.Watchdog.Tier = kernel.SIGCHLD })
	if got := c.steps[0].Tier(); got != kernel.SIGCHLD.String() {
		t.Errorf("the watch is %s, want %v", got, kernel.SIGCHLD)
	}
}
