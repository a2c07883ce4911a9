package daemon

import (
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/daemon/life"
)

// Watchdog says how the step learns of ends, and of what else may ail a PE.
type Watchdog struct {
	Off  bool          // no watch: the step learns of an end when it can reap the process
	Tier kernel.Tier   // the tier that is wanted; 0: the best that works
	Hang time.Duration // how long a PE may go without a call of the library; 0: as long as it likes
	// NewsDelay is how long the news of each death is held back where it comes in: in a job of one node from the end of the
	// process, on several nodes from the word of another node. 0: it is told at once. Only experiments set it.
	NewsDelay time.Duration
}

// pollEvery is how often the watch looks for processes that are stopped, stuck
// or starved.
const pollEvery = time.Second

// A better watch replaces the first one some time after the PEs have joined, or when they are unlikely to join. It is
// late, because eBPF takes some 20 ms of a processor to set up, which a job of a few milliseconds should not pay for.
const (
	calm   = 100 * time.Millisecond // from the joining of the last PE on
	atLast = time.Second            // from the start on, if PEs do not join
	eachPE = 10 * time.Millisecond  // added to atLast for each PE
)

// deathWatch learns from the kernel how the processes of PEs fare.
//
// # The watch is replaced
//
// A watch that costs nothing serves until the PEs have joined; then the best one takes its place. No process is missed in
// between. openTier makes the new watch the current one and lists the PEs, in one section under mu. addOwn and addMember
// read which watch is current and mark the process as watched in the PE's life, in one section under mu, too. So if addOwn
// comes first, the PE has its mark when it is listed, and is handed over. If openTier comes first, addOwn adds the process
// to the new watch. Both may happen to one process: a watch refuses the second time with ErrWatched, and what two watches
// report counts once.
//
// A caller that holds mu may take the lock of the table. The other way round is forbidden. A watch is opened, closed and
// told of processes without either lock.
type deathWatch struct {
	cfg        Watchdog
	cheap      bool // the first watch stays: many steps on this kernel would each load a better one
	table      *table
	failures   *failures
	ailments   *ailments
	background *background
	logger     zerolog.Logger

	mu      sync.Mutex
	current *kernel.Watch       // nil: not open yet, or there is none
	tags    map[uint64]*localPE // PEs by the tags by which the watch names them
	lastTag uint64
}

// open starts the watch: the one that is wanted, or one that costs nothing
// and is replaced by the best that works, unless it is to stay. The first job has npes PEs.
func (w *deathWatch) open(npes int) error {
	switch {
	case w.cfg.Off:
		w.logger.Info().Msg("watchdog: off")
		return nil
	case w.cfg.Tier != 0:
		return w.openTier(w.cfg.Tier, pollEvery)
	}
	if w.cheap {
		if err := w.openTier(kernel.PIDFD, pollEvery); err != nil {
			return w.openTier(0, pollEvery)
		}
		return nil
	}
	if err := w.openTier(kernel.PIDFD, 0); err != nil {
		return w.openTier(0, pollEvery)
	}
	w.background.serve(func() { w.openBest(atLast + time.Duration(npes)*eachPE) })
	return nil
}

// openBest replaces the first watch by the best that works, when there is time
// for it, or when patience is over.
func (w *deathWatch) openBest(patience time.Duration) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-w.table.joined:
		late.Reset(calm)
		select {
		case <-late.C:
		case <-w.background.closing:
			return
		}
	case <-late.C:
	case <-w.background.closing:
		return
	}
	if err := w.openTier(0, pollEvery); err != nil {
		w.logger.Error().Err(err).Msg("watchdog")
	}
}

// openTier opens a watch of a tier, or the best that works if tier is 0. It takes the place of the watch before, which
// ends when the new one knows of all processes.
func (w *deathWatch) openTier(tier kernel.Tier, poll time.Duration) error {
	next, err := kernel.Open(kernel.Config{Tier: tier, Poll: poll, Report: w.report, Logger: w.logger})
	if err != nil {
		return err
	}
	w.mu.Lock()
	old := w.current
	w.current = next
	early := w.table.allStarted()
	w.mu.Unlock()
	for _, p := range early {
		w.handOver(next, p)
	}
	if old != nil {
		err = old.Close()
	}
	said := w.logger.Info()
	if passed := next.Passed(); len(passed) > 0 {
		said = said.Errs("passed", passed)
	}
	said.Msgf("watchdog: %v", next.Tier())
	return err
}

// handOver has a new watch look after the processes of a PE, too.
func (w *deathWatch) handOver(next *kernel.Watch, p *localPE) {
	tag := w.tag(p)
	w.table.mu.Lock()
	over, pids := p.life.Ended() || !p.life.Watched(), []int{p.pid}
	if p.life.MemberWatched() {
		pids = append(pids, p.member)
	}
	w.table.mu.Unlock()
	if over {
		return
	}
	for i, pid := range pids {
		err := next.Add(pid, tag)
		if err == nil || errors.Is(err, kernel.ErrWatched) { // addOwn has added it meanwhile
			continue
		}
		w.logger.Debug().Err(err).Stringer("pe", p.id).Msg("watchdog") // it has just ended, was added in between, or there are no descriptors
		if i == 0 {                                                    // nobody may be left to report its end
			w.loseSight(p)
		} else {
			w.failures.noteMemberUnseen(p, pid)
		}
	}
	w.table.mu.Lock()
	over = p.life.Ended()
	w.table.mu.Unlock()
	if over { // reaped before it was added: the number may be somebody else's
		next.Remove(pids[0])
	}
}

// tierName returns the name of the tier by which the step learns of ends.
func (w *deathWatch) tierName() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current == nil {
		return "off"
	}
	return w.current.Tier().String()
}

// close ends the watch: nothing is reported any more. It does not hold mu meanwhile, because a report under way may wait
// for mu.
func (w *deathWatch) close() error {
	w.mu.Lock()
	last := w.current
	w.mu.Unlock()
	if last == nil {
		return nil
	}
	return last.Close()
}

// addOwn has a PE's process watched from now on, unless it is already.
func (w *deathWatch) addOwn(p *localPE) {
	tag := w.tag(p)
	w.mu.Lock()
	current := w.current
	watches := current != nil && w.table.beginWatch(p)
	w.mu.Unlock()
	if !watches {
		return
	}
	if err := w.addProcess(current, p.pid, tag); err != nil {
		w.logger.Error().Err(err).Stringer("pe", p.id).Msg("watchdog: its end is learnt of when it can be reaped")
		w.loseSight(p)
	}
}

// beginWatch marks the own process of a PE as watched; false: it is already, or has ended.
func (t *table) beginWatch(p *localPE) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.life.Watched() || p.life.Ended() {
		return false
	}
	p.life.Watch()
	return true
}

// addProcess has a watch look after a process that was marked as watched. If another watch has
// taken its place in between, that one was handed all processes with the mark.
func (w *deathWatch) addProcess(to *kernel.Watch, pid int, tag uint64) error {
	err := to.Add(pid, tag)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != to {
		return nil
	}
	return err
}

// loseSight lets a PE's process be reaped when it has ended, though no watch has reported it.
func (w *deathWatch) loseSight(p *localPE) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	if p.life.LoseSight() {
		close(p.released)
	}
}

// addMember begins to watch the process that has joined for a PE, unless it is the PE's own. Another one is a shell's
// child.
func (w *deathWatch) addMember(p *localPE, pid int) {
	tag := w.tag(p)
	w.mu.Lock()
	current := w.current
	old, kind := w.table.setMember(p, pid, current != nil)
	w.mu.Unlock()
	if current != nil && old != 0 && old != p.pid && old != pid {
		current.Remove(old)
	}
	if kind != life.WatchedMember {
		return
	}
	if err := w.addProcess(current, pid, tag); err != nil {
		w.logger.Warn().Err(err).Stringer("pe", p.id).Int("pid", pid).Msg("watchdog")
		w.table.mu.Lock()
		if p.member == pid { // otherwise another one has joined since
			p.life.SetMember(life.OtherMember)
		}
		w.table.mu.Unlock()
	}
}

// setMember notes which process has joined for a PE, and returns the one before. pid is 0 for an unknown process. watches
// says whether a watch will tell its end, if it is not the PE's own.
func (t *table) setMember(p *localPE, pid int, watches bool) (old int, kind life.Member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kind = life.OtherMember
	switch {
	case pid == 0:
		kind = life.UnknownMember
	case pid == p.pid:
		kind = life.OwnMember
	case watches:
		kind = life.WatchedMember
	}
	old, p.member = p.member, pid
	p.life.SetMember(kind)
	return old, kind
}

// tag returns the number by which the watch speaks of a PE.
func (w *deathWatch) tag(p *localPE) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.tag == 0 {
		w.lastTag++
		p.tag = w.lastTag
		w.tags[p.tag] = p
	}
	return p.tag
}

// dropTags drops what the watch calls PEs of a job that is over.
func (w *deathWatch) dropTags(pes []*localPE) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range pes {
		delete(w.tags, p.tag)
	}
}

// tagged returns the PE with a tag, nil if its job is over.
func (w *deathWatch) tagged(tag uint64) *localPE {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tags[tag]
}

// report handles a report of the watch. The PE's tag says which PE it is about.
func (w *deathWatch) report(r kernel.Report) {
	p := w.tagged(r.Tag)
	if p == nil {
		return
	}
	switch r.Kind {
	case kernel.Dead:
		w.reportDeath(p, r)
	case kernel.Released:
		if r.PID == p.pid {
			w.table.mu.Lock()
			if p.life.Free() {
				close(p.released)
			}
			w.table.mu.Unlock()
		}
	case kernel.Unseen:
		if r.PID == p.pid {
			w.loseSight(p)
		}
		w.failures.noteMemberUnseen(p, r.PID)
	case kernel.Stopped, kernel.Continued, kernel.Stuck, kernel.Starved, kernel.Running:
		w.ailments.noteReport(p, r.PID, r.Kind)
	}
}

// reportDeath handles the death of a process of a PE: the PE's own process, or one that has joined for it.
func (w *deathWatch) reportDeath(p *localPE, r kernel.Report) {
	d := death{end: endOf(r.Exit.Status), pid: r.PID, at: r.At, tier: r.Tier.String()}
	d.end.OOM, d.end.Unknown = r.Exit.OOM, !r.Exit.Known
	switch {
	case r.PID == p.pid && d.end.Unknown:
		// The process was reaped before the watch asked for its status. Whoever has
		// reaped it knows the status and is about to tell it: see ends.followPE.
	case r.PID == p.pid:
		w.failures.noteDeath(p, d)
	default:
		w.failures.noteMemberDeath(p, d)
	}
}
