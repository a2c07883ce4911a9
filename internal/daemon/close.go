package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// closeAtMost bounds each part of Close. The kernel needs time to free the
// memory of killed processes, and outputs end when their last writer does.
const closeAtMost = 10 * time.Second

// Close ends every process of the job, passes on what they had written, however
// long Config.Output takes for it, and frees everything.
func (s *Step) Close() error {
	s.Refuse()
	s.Signal(syscall.SIGKILL)
	s.spawns.Wait()
	deadline := time.Now().Add(closeAtMost)
	s.mu.Lock()
	procs := s.started()
	s.mu.Unlock()
	for _, p := range procs {
		p.release()
	}
	s.sweep(procs, deadline)
	patience := closeAtMost
	for _, p := range procs {
		patience = s.drain(p, patience)
	}
	s.input.close()
	close(s.start)
	var errs []error
	if s.attach != nil {
		errs = append(errs, s.attach.Close())
		s.visitors.close()
	}
	if s.pmix != nil {
		errs = append(errs, s.pmix.Close())
	}
	s.mu.Lock()
	for _, p := range procs {
		p.noteLeave()
	}
	s.mu.Unlock()
	close(s.closing)
	s.serving.Wait()
	within(deadline, s.retiring.Wait) // what cannot be killed was spoken of
	errs = append(errs, s.closeWatch())
	if s.private != nil {
		errs = append(errs, s.private.remove())
	}
	s.mu.Lock()
	left := s.allJobs()
	s.mu.Unlock()
	for _, j := range left {
		errs = append(errs, j.closeHeaps(), s.freePage(j))
	}
	return errors.Join(errs...)
}

// drainTick is how often drain looks.
const drainTick = 20 * time.Millisecond

// drain waits until a PE's output has been passed on, and returns how much of
// its patience is left. A process that escaped the sweep could hold the pipes
// open: then they are cut. Time for which somebody takes output does not count.
func (s *Step) drain(p *proc, patience time.Duration) time.Duration {
	done := make(chan struct{})
	go func() { p.outputs.Wait(); close(done) }()
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return patience
		case <-tick.C:
		}
		if p.passing.Load() > 0 {
			continue
		}
		if patience -= drainTick; patience <= 0 {
			s.cut(p)
			<-done
			return patience
		}
	}
}

// cut ends a PE's outputs.
func (s *Step) cut(p *proc) {
	s.notice("output of PE %v is held open by a process that left the job: it is cut", p.id)
	for _, o := range p.outlets {
		_ = o.Close()
	}
}

// notice tells the user and the log.
func (s *Step) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.cfg.Logger.Error().Msg(text)
	if s.cfg.Notice != nil {
		s.cfg.Notice(text)
	}
}

// sweep waits for the PEs to be reaped, then kills and reaps what else of the
// job this process has as children: orphans, inherited as a subreaper. Killing
// one may bring its own children here, so it looks until there are none.
func (s *Step) sweep(procs []*proc, deadline time.Time) {
	for _, p := range procs {
		if !within(deadline, func() { <-p.reaped }) {
			s.notice("PE %v (pid %d) does not end although killed", p.id, p.pid())
		}
	}
	for time.Now().Before(deadline) {
		s.mu.Lock()
		found := s.orphans(lookAround())
		s.mu.Unlock()
		if len(found) == 0 {
			return
		}
		for _, pid := range found {
			_ = xunix.Kill(pid, syscall.SIGKILL)
		}
		for _, pid := range found {
			within(deadline, func() { xunix.Reap(pid) })
		}
	}
}

// reapPause is how long reapOrphans lets ends gather: a look at all processes
// costs something, and a zombie nothing but its number.
const reapPause = 100 * time.Millisecond

// reapOrphans collects children that the step inherited as they end, until it
// closes: a program that loses many should not run out of process numbers.
func (s *Step) reapOrphans() {
	ends := make(chan os.Signal, 1)
	xunix.NotifyEnds(ends)
	defer signal.Stop(ends)
	for {
		select {
		case <-ends:
		case <-s.closing:
			return
		}
		select {
		case <-time.After(reapPause):
		case <-s.closing:
			return
		}
		if !xunix.AnyEnded() {
			continue // a PE has stopped, was let go, or is reaped already
		}
		for pid, is := range lookAround() {
			if is.zombie && is.parent == os.Getpid() {
				s.reapOrphan(pid)
			}
		}
	}
}

// reapOrphan collects a child unless it is a PE, or one that is being started:
// those have somebody who waits for them.
func (s *Step) reapOrphan(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leads(pid) {
		xunix.ReapEnded(pid)
	}
}

// within runs f, which ends by itself some time, and says whether it did before
// the deadline.
func within(deadline time.Time, f func()) bool {
	done := make(chan struct{})
	go func() { f(); close(done) }()
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
