package kernel

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Watch reports deaths, stops and hangs of processes.
type Watch struct {
	tier   Tier
	passed []error // a *TierError for each better tier that does not work here
	cfg    Config
	poll   *xunix.Poller
	source source
	stop   chan struct{}  // closed by Close
	over   sync.WaitGroup // goroutines of the watch

	// reporting is held from a decision about a process until its Report has returned. So the reports
	// of one process keep their order. reporting is locked before mu.
	reporting sync.Mutex
	queued    []Report // reports to send next, guarded by reporting

	mu     sync.Mutex
	byPID  map[int]*entry
	byID   map[uint64]*entry
	last   uint64 // next id of an entry
	closed bool
	failed bool // the Poller has failed: no event can be read any more
}

// entry is a process from Add until Released or Remove.
type entry struct {
	id      uint64 // of this watch, never reused
	pid     int
	tag     uint64 // argument of Add
	fd      int    // pidfd; -1: the tier has none
	start   uint64 // bpf: start time in ticks since boot; 0: unknown
	gone    bool   // the process was over when it was added
	dead    bool   // Dead has been reported
	exit    Exit
	hang    Kind     // hang state that was reported last; 0: none
	samples []sample // samples of the threads in the latest walk

	// The tier ProcConn keeps these fields.
	threads threads       // live threads, as far as notices were read
	since   time.Duration // when threads was listed, or when the process called exec
	ending  notice        // the latest notice of a thread's exit
}

// reusable says whether the number may belong to another process by now.
func (e *entry) reusable() bool { return e.fd >= 0 && xunix.ProcessOver(e.fd) }

// source is a tier's way to learn of deaths. Its methods are called with mu held.
type source interface {
	// attach begins to watch a process that is in the tables already. It sees deaths from now on.
	attach(w *Watch, e *entry) error
	// detach ends the watch of a process that is no longer in byPID.
	detach(e *entry)
	// drainEvents reads all events that are there, and calls noteDeath and noteRelease for them.
	drainEvents(w *Watch) error
	// handleOver handles a ready pidfd: the process is over. Earlier events were drained.
	handleOver(w *Watch, e *entry)
	// nextDrain returns when drainEvents is due without an event; zero: never.
	nextDrain() time.Time
	close() error
}

// sampler is a source that can sample threads. sample is called without locks.
type sampler interface {
	sample(out []sample, pids []int) ([]sample, error)
}

// Ids for the Poller.
const (
	idSource  = 1 // the descriptor of the source
	firstID   = 2 // the first process
	closeOnce = true
)

// Open opens a watch. It reports only the processes that Add names.
//
//   - Cost: see "Tiers" in the package documentation.
//   - Errors: a *TierError for each tier that was tried, if none of them works.
func Open(cfg Config) (*Watch, error) {
	if cfg.Report == nil {
		return nil, errors.New("watch processes: Config.Report is nil, want a function")
	}
	if cfg.Poll < 0 {
		return nil, fmt.Errorf("watch processes: Config.Poll is %v, want 0 or more", cfg.Poll)
	}
	if cfg.Tier > SIGCHLD {
		return nil, fmt.Errorf("watch processes: Config.Tier is %v, want BPF, ProcConn, PIDFD, SIGCHLD, or 0 for the best", cfg.Tier)
	}
	w := &Watch{
		cfg: cfg, stop: make(chan struct{}),
		byPID: map[int]*entry{}, byID: map[uint64]*entry{}, last: firstID,
	}
	var err error
	if w.poll, err = xunix.NewPoller(); err != nil {
		return nil, fmt.Errorf("watch processes: %w", err)
	}
	if err := w.openTier(); err != nil {
		return nil, errors.Join(err, w.poll.Close())
	}
	cfg.Logger.Debug().Stringer("tier", w.tier).Errs("passed", w.passed).Msg("watching for process deaths")
	w.over.Go(w.listen)
	if cfg.Poll > 0 {
		w.over.Go(w.sampleThreads)
	}
	return w, nil
}

// openTier opens the tier in Config.Tier, or the best one that works.
func (w *Watch) openTier() error {
	ways := []func(*Watch) (source, error){BPF: openBPF, ProcConn: openProcConn, PIDFD: openPIDFD, SIGCHLD: openSIGCHLD}
	for t := BPF; t <= SIGCHLD; t++ {
		if w.cfg.Tier != 0 && w.cfg.Tier != t {
			continue
		}
		w.tier = t
		var err error
		if w.source, err = ways[t](w); err == nil {
			return nil
		}
		w.passed = append(w.passed, err)
	}
	return errors.Join(w.passed...)
}

// Tier returns the tier in use.
func (w *Watch) Tier() Tier { return w.tier }

// Passed returns, for each tier that is better than the one in use and was
// tried, a *TierError that says why it cannot be used.
func (w *Watch) Passed() []error { return w.passed }

// Add begins to watch a process. A process that has ended and was not reaped is reported at once.
//
//   - Cost: some system calls, and one descriptor until Released (none with SIGCHLD).
//   - Errors: ErrWatched, if the Watch has the process already.
func (w *Watch) Add(pid int, tag uint64) error {
	if pid <= 0 {
		return fmt.Errorf("watch process %d: want a number above 0", pid)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return fmt.Errorf("watch process %d: the watch is closed", pid)
	case w.failed:
		return fmt.Errorf("watch process %d: the watch has failed", pid)
	case w.byPID[pid] != nil && !w.byPID[pid].reusable():
		return fmt.Errorf("watch process %d: %w", pid, ErrWatched)
	}
	e := &entry{id: w.last, pid: pid, tag: tag, fd: -1}
	w.last++
	if w.tier != SIGCHLD {
		fd, err := xunix.OpenProcess(pid)
		if err != nil {
			return fmt.Errorf("watch process: %w", err)
		}
		e.fd = fd
	}
	w.byPID[pid], w.byID[e.id] = e, e
	err := w.source.attach(w, e)
	if err == nil && e.fd >= 0 {
		// No death is missed: attach sees an exit from now on, and an exit before attach
		// makes the pidfd ready.
		e.gone = xunix.ProcessOver(e.fd)
		err = w.poll.Watch(e.fd, e.id, closeOnce)
	}
	if err != nil {
		w.removeEntry(e)
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	return nil
}

// Remove ends the watch of a process. A Report of it that has begun may still arrive.
func (w *Watch) Remove(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.byPID[pid]; e != nil {
		w.removeEntry(e)
	}
}

// removeEntry removes an entry from the tables. The caller holds mu.
func (w *Watch) removeEntry(e *entry) {
	if w.byID[e.id] == nil {
		return
	}
	delete(w.byID, e.id)
	if w.byPID[e.pid] == e {
		delete(w.byPID, e.pid)
		w.source.detach(e)
	}
	if e.fd >= 0 {
		w.poll.Forget(e.fd)
		xunix.CloseFD(e.fd)
	}
}

// Close ends the watch. Nothing is reported after Close has returned. Report must not call Close, which
// waits for it.
func (w *Watch) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	w.mu.Unlock()
	close(w.stop)
	w.poll.Wake()
	w.over.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.byID {
		w.removeEntry(e)
	}
	return errors.Join(w.source.close(), w.poll.Close())
}

// listen waits for events and reports them, until Close.
func (w *Watch) listen() {
	for {
		w.mu.Lock()
		until := w.source.nextDrain()
		w.mu.Unlock()
		ready, err := w.poll.Wait(until)
		if err != nil {
			w.cfg.Logger.Error().Err(err).Msg("watching for process deaths has failed; all processes are reported as unseen")
			w.reportFindings(w.reportAllUnseen)
			return
		}
		if !w.reportFindings(func() { w.handleReady(ready) }) {
			return
		}
	}
}

// handleReady drains the source, then handles the ready pidfds. The caller holds mu.
//
// The order keeps the time and status of each death: the source has the event of an exit before the pidfd
// becomes ready, and the drain comes after the pidfd was found ready. So the drain finds the event.
func (w *Watch) handleReady(ready []uint64) {
	if err := w.source.drainEvents(w); err != nil {
		w.cfg.Logger.Error().Err(err).Stringer("tier", w.tier).Msg("events of processes cannot be read")
	}
	for _, id := range ready {
		if e := w.byID[id]; e != nil {
			w.source.handleOver(w, e)
		}
	}
}

// reportAllUnseen reports Unseen for all processes and ends their watch. The caller holds mu.
func (w *Watch) reportAllUnseen() {
	for _, e := range w.byID {
		w.queueReport(Unseen, e, 0)
		w.removeEntry(e)
	}
	w.failed = true
}

// reportFindings calls decide with mu held, and then, without mu, sends the reports that decide has
// queued. It returns false if the watch is closed.
func (w *Watch) reportFindings(decide func()) bool {
	w.reporting.Lock()
	defer w.reporting.Unlock()
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return false
	}
	w.queued = w.queued[:0]
	decide()
	w.mu.Unlock()
	for i := range w.queued {
		w.cfg.Report(w.queued[i])
	}
	return true
}

// queueReport queues a report, which reportFindings sends.
func (w *Watch) queueReport(k Kind, e *entry, at time.Duration) {
	r := Report{Kind: k, PID: e.pid, Tag: e.tag, At: at, Tier: w.tier}
	if k == Dead || k == Released {
		r.Exit = e.exit
	}
	w.queued = append(w.queued, r)
}

// noteDeath reports a death. Only the first call for a process counts.
func (w *Watch) noteDeath(e *entry, exit Exit, at time.Duration) {
	if e.dead {
		return
	}
	e.dead, e.exit = true, exit
	w.queueReport(Dead, e, at)
}

// noteRelease reports that the memory of a process is freed, and ends its watch. It reports Dead first, if
// noteDeath has not. at is the time for that report: when the process died, or 0 if unknown.
func (w *Watch) noteRelease(e *entry, at time.Duration) {
	if status, over, err := xunix.ChildStatus(e.pid); err == nil && over && w.byPID[e.pid] == e {
		e.exit.Status, e.exit.Known = status, true // wait will return the same
	}
	w.noteDeath(e, e.exit, at)
	w.queueReport(Released, e, 0)
	w.removeEntry(e)
}

// sampleThreads samples the threads of all processes every Config.Poll. It logs the first error of a row.
func (w *Watch) sampleThreads() {
	threads, ok := w.source.(sampler)
	if !ok {
		threads = procSampler{}
	}
	timer := time.NewTimer(w.cfg.Poll)
	defer timer.Stop()
	var all []sample
	var pids []int
	failing := false
	for {
		select {
		case <-w.stop:
			return
		case <-timer.C:
		}
		pids = pids[:0]
		w.mu.Lock()
		for pid := range w.byPID {
			pids = append(pids, pid)
		}
		w.mu.Unlock()
		var err error
		all, err = threads.sample(all[:0], pids)
		if err != nil && !failing {
			w.cfg.Logger.Error().Err(err).Msg("threads of processes cannot be sampled; hangs are not seen")
		}
		if failing = err != nil; !failing {
			w.reportFindings(func() { w.diagnoseAll(all) })
		}
		timer.Reset(w.cfg.Poll)
	}
}

// diagnoseAll compares the samples of each process with those of the walk before, and reports changes.
func (w *Watch) diagnoseAll(all []sample) {
	for _, e := range w.byPID {
		before := e.samples
		e.samples = nil
		for _, s := range all {
			if int(s.pid) == e.pid {
				e.samples = append(e.samples, s)
			}
		}
		if e.dead || len(e.samples) == 0 {
			continue
		}
		now := diagnose(before, e.samples)
		end, begin := transition(e.hang, now)
		e.hang = now
		for _, k := range []Kind{end, begin} {
			if k != 0 {
				w.queueReport(k, e, 0)
			}
		}
	}
}
