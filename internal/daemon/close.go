package daemon

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// closeAtMost bounds each part of Close. The kernel needs time to free the
// memory of killed processes, and outputs end when their last writer does.
const closeAtMost = 10 * time.Second

// Close ends every process of the job, passes on what they had written and
// frees everything.
func (s *Step) Close() error {
	s.Signal(syscall.SIGKILL)
	deadline := time.Now().Add(closeAtMost)
	s.mu.Lock()
	procs := slices.Clone(s.procs)
	s.mu.Unlock()
	for _, p := range procs {
		if p != nil {
			_ = p.leash.Close() // kills what is left of the group
		}
	}
	s.sweep(procs, deadline)
	for _, p := range procs {
		if p != nil {
			s.drain(p, deadline)
		}
	}
	s.input.close()
	close(s.start)
	var errs []error
	if s.attach != nil {
		errs = append(errs, s.attach.Close())
	}
	if s.pmix != nil {
		errs = append(errs, s.pmix.Close())
	}
	s.mu.Lock()
	for _, p := range procs {
		if p != nil {
			p.settle()
		}
	}
	s.mu.Unlock()
	s.serving.Wait()
	for _, f := range s.heaps {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// drain waits until a PE's output has been passed on. A process that escaped
// the sweep could hold the pipes open: then they are cut.
func (s *Step) drain(p *proc, deadline time.Time) {
	if within(deadline, p.outputs.Wait) {
		return
	}
	s.cfg.Logger.Error().Int("pe", p.pe).Msg("output is held open by a process outside the job and cut")
	for _, f := range p.readers {
		_ = f.Close()
	}
	p.outputs.Wait()
}

// sweep waits for the PEs to be reaped, then kills and reaps what else of the
// job this process has as children: orphans, inherited as a subreaper. Killing
// one may bring its own children here, so it looks until there are none.
func (s *Step) sweep(procs []*proc, deadline time.Time) {
	for _, p := range procs {
		if p != nil && !within(deadline, func() { <-p.reaped }) {
			s.cfg.Logger.Error().Int("pe", p.pe).Int("pid", p.pid()).Msg("does not end although killed")
		}
	}
	for found := s.orphans(procs); len(found) > 0 && time.Now().Before(deadline); found = s.orphans(procs) {
		for _, pid := range found {
			_ = xunix.Kill(pid, syscall.SIGKILL)
		}
		for _, pid := range found {
			within(deadline, func() { xunix.Reap(pid) })
		}
	}
}

// orphans returns the children of this process, other than PEs, that belong to
// the job: they are in the group of a PE or have the job's name in their
// environment.
func (s *Step) orphans(procs []*proc) (found []int) {
	leaders := map[int]bool{}
	for _, p := range procs {
		if p != nil {
			leaders[p.pid()] = true
		}
	}
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || leaders[pid] {
			continue
		}
		ppid, pgrp := parent(pid)
		if ppid == os.Getpid() && (leaders[pgrp] || s.marked(pid, -1)) {
			found = append(found, pid)
		}
	}
	return found
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
