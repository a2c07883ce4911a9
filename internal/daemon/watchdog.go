package daemon

import (
	"errors"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/daemon/life"
	"github.com/goshmem/goshmem/internal/ending"
)

// Watchdog says how the step learns of ends, and of what else may ail a PE.
type Watchdog struct {
	Off  bool          // ends are learnt of when processes can be reaped
	Tier kernel.Tier   // that is wanted; 0: the best that works
	Hang time.Duration // that a PE may go without a call of the library; 0: any time
}

// pollEvery is how often the watch looks for processes that are stopped, stuck
// or starved.
const pollEvery = time.Second

// A better watch than the first one is opened when the PEs have joined, and have
// had calm to begin, or when they seem not to be going to: eBPF takes some 70 ms of
// a processor, which a job of a few milliseconds should not pay for.
const (
	calm   = 100 * time.Millisecond
	atLast = time.Second
	eachPE = 10 * time.Millisecond // more
)

// openWatch starts the watch: the one that is wanted, or one that costs nothing
// and is replaced by the best that works.
func (s *Step) openWatch() error {
	switch {
	case s.cfg.Watchdog.Off:
		s.cfg.Logger.Info().Msg("watchdog: off")
		return nil
	case s.cfg.Watchdog.Tier != 0:
		return s.openTier(s.cfg.Watchdog.Tier, pollEvery)
	}
	if err := s.openTier(kernel.PIDFD, 0); err != nil {
		return s.openTier(0, pollEvery)
	}
	s.serving.Go(s.improve)
	return nil
}

// improve replaces the first watch by the best that works, when there is time
// for it.
func (s *Step) improve() {
	patience := atLast
	for i := range s.cfg.Apps {
		patience += time.Duration(s.cfg.Apps[i].NPEs) * eachPE
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-s.joined:
		late.Reset(calm)
		select {
		case <-late.C:
		case <-s.closing:
			return
		}
	case <-late.C:
	case <-s.closing:
		return
	}
	if err := s.openTier(0, pollEvery); err != nil {
		s.cfg.Logger.Error().Err(err).Msg("watchdog")
	}
}

// openTier opens a watch, 0: the best that works, and lets it take the place of
// the one before: that one ends when the new one knows of all processes.
func (s *Step) openTier(tier kernel.Tier, poll time.Duration) error {
	w, err := kernel.Open(kernel.Config{Tier: tier, Poll: poll, Report: s.report, Logger: s.cfg.Logger})
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.watch
	s.watch = w
	early := s.started()
	s.mu.Unlock()
	for _, p := range early {
		s.handOver(w, p)
	}
	if old != nil {
		err = old.Close()
	}
	said := s.cfg.Logger.Info()
	if passed := w.Passed(); len(passed) > 0 {
		said = said.Errs("passed", passed)
	}
	said.Msgf("watchdog: %v", w.Tier())
	return err
}

// handOver has a new watch look after the processes of a PE, too. What both watches
// report counts once.
func (s *Step) handOver(w *kernel.Watch, p *proc) {
	s.mu.Lock()
	over, pids, tag := p.life.Ended() || !p.life.Watched(), []int{p.pid()}, s.tag(p)
	if p.life.MemberWatched() {
		pids = append(pids, p.member)
	}
	s.mu.Unlock()
	if over {
		return
	}
	for i, pid := range pids {
		err := w.Add(pid, tag)
		if err == nil || errors.Is(err, kernel.ErrWatched) { // follow has added it meanwhile
			continue
		}
		s.cfg.Logger.Debug().Err(err).Stringer("pe", p.id).Msg("watchdog") // it has just ended, was added in between, or there are no descriptors
		if i == 0 {
			s.free(p) // nobody may be left to say so
		}
	}
	s.mu.Lock()
	over = p.life.Ended()
	s.mu.Unlock()
	if over { // reaped before it was added: the number may be somebody else's
		w.Remove(pids[0])
	}
}

// Tier says how the step learns of ends.
func (s *Step) Tier() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch == nil {
		return "off"
	}
	return s.watch.Tier().String()
}

// closeWatch ends the watch: nothing is reported any more.
func (s *Step) closeWatch() error {
	s.mu.Lock()
	w := s.watch
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.Close() // without the lock, which a report may wait for
}

// follow has a PE's process watched from now on, unless it is already.
func (s *Step) follow(p *proc) {
	s.mu.Lock()
	w := s.watch
	if w == nil || p.life.Watched() || p.life.Ended() {
		s.mu.Unlock()
		return
	}
	p.life.Watch()
	pid, tag := p.pid(), s.tag(p)
	s.mu.Unlock()
	if err := s.add(w, pid, tag); err != nil {
		s.cfg.Logger.Error().Err(err).Stringer("pe", p.id).Msg("watchdog: its end is learnt of when it can be reaped")
		s.free(p)
	}
}

// add has a watch look after a process that was marked as watched. If another watch has
// taken its place in between, that one was handed all processes with the mark.
func (s *Step) add(w *kernel.Watch, pid int, tag uint64) error {
	err := w.Add(pid, tag)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch != w {
		return nil
	}
	return err
}

// free lets a PE's process be reaped when it has ended, though no watch has said so.
func (s *Step) free(p *proc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.life.LoseSight() {
		close(p.released)
	}
}

// followMember has the process watched that has joined for a PE, if it is another
// than the PE's own: a shell's child.
func (s *Step) followMember(p *proc, pid int) {
	s.mu.Lock()
	w, old, own, tag := s.watch, p.member, p.pid(), s.tag(p)
	kind := life.OtherMember
	switch {
	case pid == 0:
		kind = life.UnknownMember
	case pid == own:
		kind = life.OwnMember
	case w != nil:
		kind = life.WatchedMember
	}
	p.member = pid
	p.life.SetMember(kind)
	s.mu.Unlock()
	if w != nil && old != 0 && old != own && old != pid {
		w.Remove(old)
	}
	if kind != life.WatchedMember {
		return
	}
	if err := s.add(w, pid, tag); err != nil {
		s.cfg.Logger.Warn().Err(err).Stringer("pe", p.id).Int("pid", pid).Msg("watchdog")
		s.mu.Lock()
		if p.member == pid { // otherwise another one has joined since
			p.life.SetMember(life.OtherMember)
		}
		s.mu.Unlock()
	}
}

// tag returns the number by which the watch speaks of a PE. The caller holds the
// lock.
func (s *Step) tag(p *proc) uint64 {
	if p.tag == 0 {
		s.lastTag++
		p.tag = s.lastTag
		s.tags[p.tag] = p
	}
	return p.tag
}

// report takes what the watch has seen.
func (s *Step) report(r kernel.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.tags[r.Tag]
	if p == nil {
		return
	}
	own := r.PID == p.pid()
	switch r.Kind {
	case kernel.Dead:
		n := news{end: endOf(r.Exit.Status), pid: r.PID, at: r.At, tier: r.Tier.String()}
		n.end.OOM, n.end.Unknown = r.Exit.OOM, !r.Exit.Known
		switch {
		case own && n.end.Unknown:
			// The process was reaped before the watch asked for its status. Whoever has
			// reaped it knows the status and is about to tell it: see wait.
		case own:
			s.died(p, n)
		case r.PID == p.member:
			s.carryOut(p, n, p.life.EndMember(n.end))
		}
	case kernel.Released:
		if own && p.life.Free() {
			close(p.released)
		}
	case kernel.Unseen:
		if own && p.life.LoseSight() {
			close(p.released)
		}
		if r.PID == p.member {
			s.carryOut(p, p.last, p.life.LoseSightOfMember())
		}
	case kernel.Stopped, kernel.Continued, kernel.Stuck, kernel.Starved, kernel.Running:
		if r.Kind == kernel.Continued || r.Kind == kernel.Running {
			p.ails = 0
			s.tellWell(p, r.PID, states[r.Kind])
			break
		}
		p.ails, p.ailing = r.Kind, r.PID
		s.tellAilment(p)
	}
}

// states are what the user is told of processes that do not run as they should, or
// do so again.
var states = map[kernel.Kind]string{
	kernel.Stopped:   "is stopped",
	kernel.Continued: "goes on",
	kernel.Stuck:     "is stuck in the kernel (uninterruptible sleep)",
	kernel.Starved:   "gets no processor (it could run)",
	kernel.Running:   "runs again",
}

// tellAilment reports what the watch has seen of a PE, unless the PE goes on again: a look at a
// stopped job may be told when the job goes on. The caller holds the lock.
func (s *Step) tellAilment(p *proc) {
	if p.ails == kernel.Stopped {
		if is := look(p.ailing); !is.stopped && !is.traced {
			return
		}
	}
	s.tellIll(p, p.ailing, states[p.ails])
}

// lookAgainAfter is when the watch has looked at all PEs since they were told to go on.
const lookAgainAfter = pollEvery + pollEvery/2

// goOn ends a suspension. The time in which the job was stopped is no PE's hang. PEs that do not
// run as they should later, without having run in between, are no news to the watch: they are told then.
func (s *Step) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.suspended {
		return
	}
	s.suspended = false
	for _, p := range s.started() {
		if !p.pulse.looked.IsZero() {
			p.pulse.looked = time.Now()
		}
	}
	time.AfterFunc(lookAgainAfter, s.tellAilments)
}

// tellAilments reports what PEs still ail of which was not told while the job was stopped.
func (s *Step) tellAilments() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.started() {
		if p.ails != 0 && !p.life.Ended() {
			s.tellAilment(p)
		}
	}
}

// tellIll reports that a PE does not run as it should. While the user has the job stopped, that is no
// news; that a debugger stops a PE is none, either. The caller holds the lock.
func (s *Step) tellIll(p *proc, pid int, what string) {
	if p.debug != notDebugged {
		return
	}
	if what != p.ill && !p.life.Dead() && !s.suspended {
		p.ill = what
		s.emit(Event{Kind: Changed, ID: p.id, PID: pid, State: what})
	}
}

// tellWell reports that a PE runs again of which the user was told that it does not. The caller
// holds the lock.
func (s *Step) tellWell(p *proc, pid int, what string) {
	if p.ill != "" && !p.life.Dead() {
		p.ill = ""
		s.emit(Event{Kind: Changed, ID: p.id, PID: pid, State: what})
	}
}

// endOf returns what a wait status says.
func endOf(ws syscall.WaitStatus) (e ending.End) {
	if ws.Signaled() {
		return ending.End{Signal: int(ws.Signal()), Core: ws.CoreDump()}
	}
	return ending.End{Code: ws.ExitStatus()}
}
