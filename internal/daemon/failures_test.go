package daemon

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/daemon/life"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// nextOf returns the next event of a kind, and fails at one of another.
func nextOf(t *testing.T, s *Step, kind Kind) Event {
	t.Helper()
	select {
	case e := <-s.Events():
		if e.Kind != kind {
			t.Fatalf("event %+v, want one of kind %d", e, kind)
		}
		return e
	case <-time.After(10 * time.Second):
		t.Fatalf("no event of kind %d", kind)
	}
	return Event{}
}

// A death stands on the page when it is told, once, and before the process is
// reaped, however it is learnt of.
func TestDeathIsPublished(t *testing.T) {
	for name, dog := range map[string]Watchdog{"off": {Off: true}, "pidfd": {Tier: kernel.PIDFD}, "default": {}} {
		t.Run(name, func(t *testing.T) {
			s := startSleepers(t, 3, func(c *Config) { c.Watchdog = dog })
			j := s.jobs[0]
			view, err := failure.Attach(j.pageFD, j.key, 3)
			if err != nil {
				t.Fatal(err)
			}
			p := j.procs[1]
			if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			e := nextOf(t, s, Failed)
			if e.PE != 1 || e.End != (ending.End{Signal: 9}) || e.GoesOn {
				t.Errorf("event %+v, want PE 1 killed by signal 9", e)
			}
			all, epoch := view.All()
			if len(all) != 1 || epoch != 1 || all[0].PE != 1 || all[0].Cause != failure.BySignal(9, false, false) {
				t.Errorf("page has %v in epoch %d, want PE 1 in epoch 1", all, epoch)
			}
			if e := nextOf(t, s, Exited); e.PE != 1 || e.End.Signal != 9 || e.Process == nil {
				t.Errorf("event %+v, want the end of PE 1's process", e)
			}
			if !s.hasFailed(p) || s.hasFailed(j.procs[0]) {
				t.Error("PE 1 has not failed, or PE 0 has")
			}
			if _, epoch := view.All(); epoch != 1 {
				t.Errorf("epoch %d after one death", epoch)
			}
		})
	}
}

// A shell that ends well after its program, before the watch or the connection has told
// of the program's end, says how the PE has ended; the end of a program that goes on
// without its shell says it itself.
func TestShellEndsWell(t *testing.T) {
	killed := ending.End{Signal: int(syscall.SIGKILL)}
	for name, x := range map[string]struct {
		goesOn bool
		want   ending.End
	}{
		"waited":  {want: ending.End{Unfinished: true}},
		"goes on": {goesOn: true, want: ending.End{Signal: killed.Signal, Unfinished: true}},
	} {
		t.Run(name, func(t *testing.T) {
			program := exec.Command("sleep", "1000")
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			end := func() { _ = program.Process.Kill(); _ = program.Wait() }
			defer end()
			if !x.goesOn {
				end()
			}
			s := startSleepers(t, 2, func(c *Config) { c.Watchdog = Watchdog{Off: true} })
			s.mu.Lock()
			p := s.jobs[0].procs[1]
			s.noteJoin(p)
			p.member = program.Process.Pid
			p.life.SetMember(life.WatchedMember)
			s.died(p, news{pid: p.pid()})
			if p.life.Failed() == x.goesOn {
				t.Errorf("the end of the shell is taken for that of the PE: %v", p.life.Failed())
			}
			s.carryOut(p, news{end: killed, pid: p.member}, p.life.EndMember(killed))
			s.mu.Unlock()
			if e := nextOf(t, s, Failed); e.PE != 1 || e.End != x.want || e.GoesOn {
				t.Errorf("event %+v, want PE 1 and %+v", e, x.want)
			}
		})
	}
}

// With EndsFirst, PEs do not learn of the failure that ends the job.
func TestEndsFirst(t *testing.T) {
	s := startSleepers(t, 2, func(c *Config) { c.EndsFirst = true })
	j := s.jobs[0]
	view, err := failure.Attach(j.pageFD, j.key, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(j.procs[1].pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	nextOf(t, s, Failed)
	if view.Epoch() != 0 {
		t.Error("it is on the page")
	}
}

// Causes on the page are those that PMIx and the user are told.
func TestCauseOf(t *testing.T) {
	for want, e := range map[failure.Cause]ending.End{
		failure.BySignal(11, true, false): {Signal: 11, Core: true, Unfinished: true},
		failure.BySignal(9, false, true):  {Signal: 9, OOM: true},
		failure.ByExit(7):                 {Code: 7, Unfinished: true},
		failure.ByLeaving(0):              {Unfinished: true},
		failure.Of(failure.Left):          {Unfinished: true, Unknown: true},
		failure.Of(failure.Unknown):       {},
	} {
		if got := causeOf(e); got != want {
			t.Errorf("%+v: %v, want %v", e, got, want)
		}
	}
}

// A PE hangs that neither moves its word nor waits for others, once. While it is ready to
// run, only the time counts in which it had a processor.
func TestPulse(t *testing.T) {
	begin := time.Now()
	var b pulse
	for i, step := range []struct {
		after       time.Duration
		look        glance
		moved, hung bool
	}{
		{after: 0, look: glance{count: 1}},
		{after: 9, look: glance{count: 1}},
		{after: 10, look: glance{count: 1}, hung: true},
		{after: 30, look: glance{count: 1}},
		{after: 31, look: glance{count: 2}, moved: true},
		{after: 40, look: glance{count: 2}},
		{after: 41, look: glance{count: 2}, hung: true},
		{after: 50, look: glance{count: 2, waits: true}, moved: true},
		{after: 90, look: glance{count: 2, waits: true}},
		{after: 99, look: glance{count: 2}}, // its wait has just ended
		{after: 100, look: glance{count: 2, ready: true}},
		{after: 200, look: glance{count: 2, ready: true}}, // without a processor
		{after: 210, look: glance{count: 2, ready: true, used: 1}, hung: true},
		{after: 300, look: glance{count: 3, ready: true, used: 31}, moved: true},
		{after: 309, look: glance{count: 3, used: 31}},
		{after: 320, look: glance{count: 3, ready: true, used: 31}},
		{after: 321, look: glance{count: 3, used: 31}, hung: true},
	} {
		if moved, hung := b.beat(step.look, begin.Add(step.after), 10); moved != step.moved || hung != step.hung {
			t.Errorf("step %d: moved %t, hung %t; want %t, %t", i, moved, hung, step.moved, step.hung)
		}
	}
}

// What the PE says of itself is waiting: an armed bell, a meeting through PMIx, and all
// the time before Init has met the others.
func TestGlance(t *testing.T) {
	for name, c := range map[string]struct {
		progress layout.Progress
		sleeping uint32
		waits    bool
	}{
		"before Init":    {waits: true},
		"in the program": {progress: layout.Progress{Count: 5}},
		"asleep":         {progress: layout.Progress{Count: 5}, sleeping: layout.BellAsleep, waits: true},
		"meets others":   {progress: layout.Progress{Count: 5, Meets: 1}, waits: true},
	} {
		bell := layout.Bell{Sleeping: c.sleeping}
		g := glanceAt(symheap.Vitals{Progress: &c.progress, Bell: &bell})
		if g.waits != c.waits || g.count != c.progress.Count {
			t.Errorf("%s: waits %t and count %d, want %t and %d", name, g.waits, g.count, c.waits, c.progress.Count)
		}
	}
}

// A PE that the watch has lost sight of is known dead when it can be reaped.
func TestWatchFails(t *testing.T) {
	s := startSleepers(t, 2, func(c *Config) { c.Watchdog = Watchdog{Tier: kernel.PIDFD} })
	p := s.jobs[0].procs[1]
	s.mu.Lock()
	w, r := s.watch, kernel.Report{Kind: kernel.Unseen, PID: p.pid(), Tag: p.tag}
	s.mu.Unlock()
	w.Remove(p.pid())
	s.report(r)
	if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := nextOf(t, s, Failed); e.PE != 1 || e.End.Signal != 9 || e.Tier != "" {
		t.Errorf("event %+v, want PE 1 killed, learnt by nobody", e)
	}
	nextOf(t, s, Exited)
}

// Adding to a watch that another has replaced meanwhile is no failure: that one was
// handed everybody.
func TestAddToReplacedWatch(t *testing.T) {
	s := startSleepers(t, 1, func(c *Config) { c.Watchdog = Watchdog{Tier: kernel.PIDFD} })
	old, err := kernel.Open(kernel.Config{Tier: kernel.PIDFD, Report: func(kernel.Report) {}})
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	pid := s.jobs[0].procs[0].pid()
	if err := s.add(old, pid, 99); err != nil {
		t.Error(err)
	}
	if err := s.add(s.watch, pid, 99); err == nil { // it is there
		t.Error("added twice")
	}
}

// A watch that replaces another one may be handed a PE that it was told of meanwhile. The
// PE is reaped when the watch says so, and not before.
func TestHandOverOfWatched(t *testing.T) {
	s := startSleepers(t, 1, func(c *Config) { c.Watchdog = Watchdog{Tier: kernel.PIDFD} })
	p := s.jobs[0].procs[0]
	s.handOver(s.watch, p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.life.Freed() {
		t.Error("the PE may be reaped before the watch has seen its end")
	}
}

// A watch that finds a PE reaped does not know how it ended. What was learnt when it was
// reaped counts, also if that is told second.
func TestUnknownEndIsNotTheLastWord(t *testing.T) {
	s := startSleepers(t, 1, func(c *Config) { c.Watchdog = Watchdog{Off: true} })
	s.mu.Lock()
	p := s.jobs[0].procs[0]
	tag := s.tag(p)
	s.mu.Unlock()
	s.report(kernel.Report{Kind: kernel.Dead, PID: p.pid(), Tag: tag, Tier: kernel.PIDFD})
	if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := nextOf(t, s, Failed); e.End.Signal != int(syscall.SIGKILL) {
		t.Errorf("event %+v, want one of a PE that was killed by signal 9", e)
	}
	nextOf(t, s, Exited)
}
