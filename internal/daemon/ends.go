package daemon

import (
	"errors"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/xunix"
)

// ends follows each PE to its end, and each spawned job.
type ends struct {
	table      *table
	events     *announcer
	failures   *failures
	servers    *servers
	watch      *deathWatch
	background *background
	reporter   *reporter
	agent      *nodeAgent
	noteEnd    func(pid int) // as Hooks.Ended
}

// followPE reports when nothing is left of a PE: of its process and, if that ended
// well, of its connection, which a program started by a shell may keep longer than
// the shell, unless it was killed, too. What was a failure has been told before.
func (e *ends) followPE(p *localPE) {
	e.awaitEnd(p)
	ran := time.Since(p.began)
	e.noteEnd(p.pid)
	own := e.reapProcess(p)
	e.table.mu.Lock()
	p.life.Reap()
	close(p.reaped)
	e.table.mu.Unlock()
	e.failures.noteDeath(p, death{end: own, pid: p.pid}) // unless the watch has seen it
	e.table.mu.Lock()
	waits, departed := !e.table.killed && p.life.AwaitsLeave(own == ending.End{}), p.departed
	e.table.mu.Unlock()
	if waits {
		<-departed
	}
	e.concludePE(p, ran, p.profiles.left())
}

// reapProcess takes the status of a process that has ended.
func (e *ends) reapProcess(p *localPE) ending.End {
	err := p.cmd.Wait()
	if p.cmd.ProcessState == nil {
		e.reporter.notice("how PE %v (pid %d) ended is not known, which counts as status 1: %v", p.id, p.pid, err)
		return ending.End{Code: 1}
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return ending.End{Code: 1}
	}
	return endOf(status)
}

// concludePE announces that nothing is left of a PE.
func (e *ends) concludePE(p *localPE, ran time.Duration, profiled bool) {
	far, agent := e.agent.traffic(p.id)
	e.table.mu.Lock()
	o := p.life.Conclude()
	rung := e.failures.carryOut(p, p.last, o)
	unconnected := false
	if o.Well {
		unconnected = e.failures.noteUnconnected(p, &p.last)
		e.events.append(announcement{of: p, exited: true})
	}
	e.countEnd(p.job)
	if !p.job.failed {
		end := p.last.end
		end.Unfinished = p.life.Unfinished()
		e.events.append(announcement{of: p, withOut: true, event: &Event{
			Kind: Exited, ID: p.id, PID: p.pid, Usage: usageOf(p.cmd.ProcessState), Ran: ran, End: end, Tier: p.learnt, By: p.wantedBy(end),
			Memory: Memory{Peak: p.memory.peak.Load(), Floor: p.memory.floor}, Profiled: profiled, Unconnected: unconnected, Far: far, Agent: agent,
		}})
	}
	e.table.mu.Unlock()
	e.failures.makeKnown(rung)
}

// awaitEnd returns when a PE's process can be reaped. From then on its number may be somebody else's. Whether a watch
// looks after the process was decided before: the starter has told the watch of it first.
func (e *ends) awaitEnd(p *localPE) {
	e.table.mu.Lock()
	watched := p.life.Watched()
	e.table.mu.Unlock()
	if watched {
		<-p.released
	}
	e.table.mu.Lock()
	zombie := p.life.Seen()
	e.table.mu.Unlock()
	if !zombie {
		if err := xunix.WaitExited(p.pid); err != nil {
			e.reporter.logger.Error().Err(err).Stringer("pe", p.id).Msg("wait")
		}
	}
	e.table.mu.Lock()
	p.life.End()
	e.table.mu.Unlock()
}

// countEnd notes that one more process of a job has ended. A spawned job that has
// none left is over: nothing of it is kept. If the job has several nodes, only the root knows when it is over: see
// spawner.endJob. The caller holds the lock of the table.
func (e *ends) countEnd(j *localJob) {
	if j.left--; j.left == 0 && j.number > 0 && !j.failed && !j.share.spans() {
		e.retireJob(j)
	}
}

// retireJob frees what a spawned job had, beside the caller, and ends what its processes have left in
// their groups. The job is known until its output has been passed on.
func (e *ends) retireJob(j *localJob) {
	e.background.retiring.Go(func() {
		e.servers.removeJob(j.nspace)
		pes := e.startedOf(j)
		for _, p := range pes {
			p.leash.release()
		}
		j.endGuests(e.agent)
		if err := errors.Join(j.memory.close(), e.failures.passages.drop(j.number)); err != nil {
			e.reporter.logger.Error().Err(err).Str("nspace", j.nspace).Msg("close segments")
		}
		for _, p := range pes {
			p.outputs.Wait()
		}
		e.table.remove(j)
		e.watch.dropTags(pes)
	})
}

// startedOf returns the PEs of a job that were started.
func (e *ends) startedOf(j *localJob) []*localPE {
	e.table.mu.Lock()
	defer e.table.mu.Unlock()
	return j.started()
}

// dropJob ends a job that could not be started as a whole, and frees it. If the job has several nodes, the root says that
// it is dropped.
func (e *ends) dropJob(j *localJob) {
	e.table.mu.Lock()
	if j.failed || j.ended {
		e.table.mu.Unlock()
		return
	}
	j.failed = true
	started := j.started()
	for _, p := range started {
		p.signal(syscall.SIGKILL)
	}
	e.table.mu.Unlock()
	for _, p := range started {
		within(time.Now().Add(closeAtMost), func() { <-p.reaped })
	}
	e.retireJob(j)
	if !j.share.spans() {
		e.events.emit(Event{Kind: Dropped, ID: ID{Job: j.number}})
	}
}

// drainTick is how often drainOutputs looks.
const drainTick = 20 * time.Millisecond

// drainOutputs waits until a PE's output has been passed on, and returns how much of
// its patience is left. A process that escaped the sweep could hold the pipes
// open: then they are cut. Time for which somebody takes output does not count.
func (e *ends) drainOutputs(p *localPE, patience time.Duration) time.Duration {
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
			e.cutOutputs(p)
			<-done
			return patience
		}
	}
}

// cutOutputs ends a PE's outputs.
func (e *ends) cutOutputs(p *localPE) {
	e.reporter.notice("output of PE %v is held open by a process that left the job: it is cut", p.id)
	for _, o := range p.outlets {
		_ = o.Close()
	}
}
