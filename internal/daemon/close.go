package daemon

import (
	"errors"
	"syscall"
	"time"
)

// closeAtMost bounds each part of Close. The kernel needs time to free the
// memory of killed processes, and outputs end when their last writer does.
const closeAtMost = 10 * time.Second

// Close ends every process of the job, passes on what they had written, however
// long Hooks.Output takes for it, and frees everything.
func (s *Step) Close() error {
	s.Refuse(false)
	s.agent.closing.Store(true)
	s.Signal(syscall.SIGKILL)
	s.background.spawns.Wait()
	deadline := time.Now().Add(closeAtMost)
	s.endProcesses(deadline)
	errs := []error{s.attach.close(), s.agent.close(deadline), s.servers.close()}
	s.table.releaseAll()
	close(s.background.closing)
	s.background.serving.Wait()
	within(deadline, s.background.retiring.Wait) // what cannot be killed was spoken of
	errs = append(errs, s.watch.close(), s.private.remove())
	for _, j := range s.table.allJobs() {
		errs = append(errs, j.memory.close(), s.attach.passages.drop(j.number))
	}
	return errors.Join(errs...)
}

// endProcesses waits for the ends of all processes, which were killed, and for the ends of their outputs.
func (s *Step) endProcesses(deadline time.Time) {
	pes := s.table.allStarted()
	for _, p := range pes {
		p.leash.release()
	}
	s.orphans.sweep(pes, deadline)
	patience := closeAtMost
	for _, p := range pes {
		patience = s.ends.drainOutputs(p, patience)
	}
	s.input.close()
	close(s.starter.work)
}

// releaseAll puts all PEs out of their jobs: nobody waits for their farewells any more.
func (t *table) releaseAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.started() {
		p.noteLeave()
	}
}

// allJobs returns the jobs in order.
func (t *table) allJobs() []*localJob {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.inOrder()
}
