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

// nextOf returns the next event, which must be of the given kind.
func nextOf(t *testing.T, s *Step, kind Kind) Event {
	t.Helper()
	select {
	case e := <-s.Events():
		if e.Kind != kind {
			t.Fatalf("event %#v, want one of kind %d", e, kind)
		}
		return e
	case <-time.After(10 * time.Second):
		t.Fatalf("no event of kind %d", kind)
	}
	return Event{}
}

// When a death is reported, it is on the page already, and the process is not reaped yet. Each death is reported once,
// however the step learns of it.
func TestDeathIsPublished(t *testing.T) {
	for name, dog := range map[string]Watchdog{"off": {Off: true}, "pidfd": {Tier: kernel.PIDFD}, "default": {}} {
		t.Run(name, func(t *testing.T) {
			s := startSleepers(t, 3, func(c *settings) { c.Watchdog = dog })
			j := s.table.jobs[0]
			view, err := failure.Attach(int(j.memory.page.File().Fd()), j.key, 3)
			if err != nil {
				t.Fatal(err)
			}
			p := j.procs[1]
			if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
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
			if e := nextOf(t, s, Exited); e.PE != 1 || e.End.Signal != 9 || e.Usage.MaxRSS == 0 {
				t.Errorf("event %+v, want the end of PE 1's process", e)
			}
			if !s.table.hasFailed(p) || s.table.hasFailed(j.procs[0]) {
				t.Error("want PE 1 failed on the page, and PE 0 not")
			}
			if _, epoch := view.All(); epoch != 1 {
				t.Errorf("epoch %d after one death", epoch)
			}
		})
	}
}

// A job that the front end has lost makes no death known to PEs any more. The front end hears of it.
func TestDeathAfterTheJobIsLost(t *testing.T) {
	s := startSleepers(t, 3, func(*settings) {})
	j := s.table.jobs[0]
	view, err := failure.Attach(int(j.memory.page.File().Fd()), j.key, 3)
	if err != nil {
		t.Fatal(err)
	}
	s.Refuse(true)
	if err := syscall.Kill(j.procs[1].pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := nextOf(t, s, Failed); e.PE != 1 || e.End != (ending.End{Signal: 9}) {
		t.Errorf("event %+v, want PE 1 killed by signal 9", e)
	}
	nextOf(t, s, Exited)
	if all, epoch := view.All(); len(all) > 0 || epoch != 0 {
		t.Errorf("page has %v in epoch %d, want nothing", all, epoch)
	}
}

// A shell that exits well after its program decides how the PE has ended, even before the watch or the connection
// reports the program's end. A program that goes on without its shell decides it itself.
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
			s := startSleepers(t, 2, func(c *settings) { c.Watchdog = Watchdog{Off: true} })
			p := s.table.jobs[0].procs[1]
			s.table.mu.Lock()
			s.table.noteJoin(p)
			s.table.mu.Unlock()
			if _, kind := s.table.setMember(p, program.Process.Pid, true); kind != life.WatchedMember {
				t.Errorf("a program of the PE is member %d", kind)
			}
			s.failures.noteDeath(p, death{pid: p.pid})
			if s.table.hasFailed(p) == x.goesOn {
				t.Errorf("the end of the shell counts as that of the PE: %v", !x.goesOn)
			}
			s.failures.noteMemberDeath(p, death{end: killed, pid: program.Process.Pid})
			if e := nextOf(t, s, Failed); e.PE != 1 || e.End != x.want || e.GoesOn {
				t.Errorf("event %+v, want PE 1 and %+v", e, x.want)
			}
		})
	}
}

// With EndsFirst, PEs do not learn of the failure that ends the job.
func TestEndsFirst(t *testing.T) {
	s := startSleepers(t, 2, func(c *settings) { c.EndsFirst = true })
	j := s.table.jobs[0]
	view, err := failure.Attach(int(j.memory.page.File().Fd()), j.key, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(j.procs[1].pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	nextOf(t, s, Failed)
	if view.Epoch() != 0 {
		t.Error("the failure is on the page")
	}
}

// The page has the causes that PMIx and the user are told.
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

// A PE counts as waiting if its bell is armed, if it meets others through PMIx, or if it is still in Init.
func TestReadProgress(t *testing.T) {
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
		g := readProgress(symheap.Vitals{Progress: &c.progress, Bell: &bell})
		if g.Waits != c.waits || g.Count != c.progress.Count {
			t.Errorf("%s: waits %t and count %d, want %t and %d", name, g.Waits, g.Count, c.waits, c.progress.Count)
		}
	}
}

// If the watch stops seeing a PE, the PE's death is known when it can be reaped.
func TestWatchFails(t *testing.T) {
	s := startSleepers(t, 2, func(c *settings) { c.Watchdog = Watchdog{Tier: kernel.PIDFD} })
	p := s.table.jobs[0].procs[1]
	s.watch.current.Remove(p.pid)
	s.watch.report(kernel.Report{Kind: kernel.Unseen, PID: p.pid, Tag: s.watch.tag(p)})
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := nextOf(t, s, Failed); e.PE != 1 || e.End.Signal != 9 || e.Tier != "" {
		t.Errorf("event %+v, want PE 1 killed, learnt by no watch", e)
	}
	nextOf(t, s, Exited)
}

// Adding a process to a watch that was replaced meanwhile is no failure: the new watch was handed all processes.
func TestAddToReplacedWatch(t *testing.T) {
	s := startSleepers(t, 1, func(c *settings) { c.Watchdog = Watchdog{Tier: kernel.PIDFD} })
	old, err := kernel.Open(kernel.Config{Tier: kernel.PIDFD, Report: func(kernel.Report) {}})
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	pid := s.table.jobs[0].procs[0].pid
	if err := s.watch.addProcess(old, pid, 99); err != nil {
		t.Error(err)
	}
	if err := s.watch.addProcess(s.watch.current, pid, 99); err == nil { // exists already
		t.Error("added twice")
	}
}

// A new watch may be handed a PE that it has been told of already. The PE is reaped when the watch reports it, not
// before.
func TestHandOverOfWatched(t *testing.T) {
	s := startSleepers(t, 1, func(c *settings) { c.Watchdog = Watchdog{Tier: kernel.PIDFD} })
	p := s.table.jobs[0].procs[0]
	s.watch.handOver(s.watch.current, p)
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if p.life.Freed() {
		t.Error("the PE may be reaped before the watch has seen its end")
	}
}

// If a watch finds a PE reaped, it does not know how the PE ended. What reaping showed counts, even if it is reported
// second.
func TestUnknownEndIsNotTheLastWord(t *testing.T) {
	s := startSleepers(t, 1, func(c *settings) { c.Watchdog = Watchdog{Off: true} })
	p := s.table.jobs[0].procs[0]
	tag := s.watch.tag(p)
	s.watch.report(kernel.Report{Kind: kernel.Dead, PID: p.pid, Tag: tag, Tier: kernel.PIDFD})
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := nextOf(t, s, Failed); e.End.Signal != int(syscall.SIGKILL) {
		t.Errorf("event %+v, want one of a PE that was killed by signal 9", e)
	}
	nextOf(t, s, Exited)
}
