package daemon

import (
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/detector/kernel"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// The best watch takes the place of the first when all PEs have joined, and no end is missed or told twice, whichever watch
// knew of the process.
func TestWatchIsReplaced(t *testing.T) {
	s := startTest(t, []App{shell(2, `sleep 1000 & echo $!; wait; exec sleep 1000`), shell(1, "exec sleep 1000")}, func(c *settings) {
		c.Watchdog = Watchdog{Tier: kernel.PIDFD} // which nobody replaces but this test
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
	s.watch.openBest(time.Hour) // all have joined: it comes soon
	if s.watch.current == old {
		t.Error("no other watch takes the place of the first")
	}
	kill(t, programs[0], syscall.SIGSEGV) // a program, and its shell goes on
	if e := s.next(Failed); e.PE != 0 || e.End.Signal != int(syscall.SIGSEGV) || !e.GoesOn || e.PID != s.pe(0).pid {
		t.Errorf("event %+v, want PE 0 with SIGSEGV, whose process goes on", e)
	}
	kill(t, s.pe(0).pid, syscall.SIGTERM)
	s.awaitExit(0)
	kill(t, s.pe(1).pid, syscall.SIGKILL) // a shell: its program is killed, too, before the failure is told
	if e := s.next(Failed); e.PE != 1 || e.End.Signal != int(syscall.SIGKILL) {
		t.Errorf("event %+v, want PE 1 killed", e)
	}
	awaitState(t, programs[1], "gone", process.over)
	host.ClientLost(s.name(1)) // the end of its connection
	for kinds := map[Kind]bool{}; !kinds[Lost] || !kinds[Exited]; {
		e := <-s.Events() // in any order
		kinds[e.Kind] = true
	}
	kill(t, s.pe(2).pid, syscall.SIGTERM)
	if e := s.next(Failed); e.PE != 2 || e.Tier == "" {
		t.Errorf("event %+v, want PE 2, learnt of by the watch", e)
	}
	s.awaitExit(2)
}

// Of the programs of a shell, the one that has joined last is watched. One whose end nobody will tell counts as the PE does.
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
	kill(t, first, syscall.SIGKILL) // which is not the PE's program any more
	s.watch.report(kernel.Report{Kind: kernel.Dead, PID: first, Tag: p.tag, Exit: kernel.Exit{Known: true, Status: 9}})
	if s.table.hasFailed(p) {
		t.Error("the PE has failed with a program that another one has replaced")
	}
	s.watch.report(kernel.Report{Kind: kernel.Dead, PID: second, Tag: 99}) // of nobody
	s.watch.report(kernel.Report{Kind: kernel.Unseen, PID: second, Tag: p.tag})
	if _, watched := member(); watched {
		t.Error("a member is watched that nobody sees")
	}
	host.ClientConnected(s.name(0), 1<<30) // a number of no process cannot be watched
	if _, watched := member(); watched {
		t.Error("a process is watched that is not there")
	}
	s.Signal(syscall.SIGKILL)
	s.awaitExit(0)
}
