package kernel

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Watch reports what becomes of processes.
type Watch struct {
	tier   Tier
	passed []error
	cfg    Config
	poll   *xunix.Poller
	source source
	stop   chan struct{}
	over   sync.WaitGroup

	// reporting is held from a decision about a process to the return of the
	// Report about it, so that what is reported of one process keeps its order.
	// It is taken before mu.
	reporting sync.Mutex
	mail      []Report // to be sent, of who holds reporting

	mu     sync.Mutex
	byPID  map[int]*entry
	byID   map[uint64]*entry
	last   uint64 // id; the first ones are those of sources
	closed bool
	failed bool // no news can be had
}

// entry is a process that is watched and not released yet.
type entry struct {
	id      uint64
	pid     int
	tag     uint64
	fd      int    // pidfd, -1 where the tier has none
	start   uint64 // bpf: ticks since the machine was started, 0 if not known
	gone    bool   // it was over when it was added
	dead    bool   // Dead has been reported
	exit    Exit
	hang    Kind
	samples []sample

	// Of the tier ProcConn.
	threads threads       // threads whose ends have not been told yet
	since   time.Duration // when threads was listed, or the process executed a program
	ending  notice        // the latest notice of a thread's end
}

// reusable says whether the number may belong to another process by now.
func (e *entry) reusable() bool { return e.fd >= 0 && xunix.ProcessOver(e.fd) }

// source is what distinguishes the tiers. Its methods are called with mu held.
type source interface {
	// attach is called when the process is in the tables. Deaths from now on are seen.
	attach(w *Watch, e *entry) error
	// detach is called when the process is no longer in byPID.
	detach(e *entry)
	// drainNews reads all news that are there, and calls noteDeath and noteRelease.
	drainNews(w *Watch) error
	// handleOver is called when the pidfd says that the process is over. News from before were drained.
	handleOver(w *Watch, e *entry)
	// nextDrain returns when drainNews is to be called although nothing has happened; zero: never.
	nextDrain() time.Time
	close() error
}

// sampler is a source that sees what threads do. It is called without locks.
type sampler interface {
	sample(out []sample, pids []int) ([]sample, error)
}

// Ids of the Poller that are no process's.
const (
	idSource  = 1
	firstID   = 2
	closeOnce = true
)

// Open begins a watch of no process. Only the processes that Add names are
// reported. What Open costs is said in the documentation of the package.
func Open(cfg Config) (*Watch, error) {
	if cfg.Report == nil {
		return nil, errors.New("watch processes: Config.Report is nil, want a function")
	}
	if cfg.Poll < 0 {
		return nil, fmt.Errorf("watch processes: Config.Poll is %v, want 0 or more", cfg.Poll)
	}
	if cfg.Tier > SIGCHLD {
		return nil, fmt.Errorf("watch processes: Config.Tier is %v, want one of the four or 0", cfg.Tier)
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
	cfg.Logger.Debug().Stringer("tier", w.tier).Errs("passed", w.passed).Msg("deaths of processes are learnt of")
	w.over.Go(w.listen)
	if cfg.Poll > 0 {
		w.over.Go(w.sampleThreads)
	}
	return w, nil
}

// openTier opens the wanted tier, or the best one that works.
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

// Add begins to watch a process. If it has ended already and was not reaped
// yet, that is reported at once. The cost is some system calls and, until
// Released, one descriptor.
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
		// From here on the kernel tells of its end by whatever comes first: an
		// end before begin makes the descriptor ready.
		e.gone = xunix.ProcessOver(e.fd)
		err = w.poll.Watch(e.fd, e.id, closeOnce)
	}
	if err != nil {
		w.drop(e)
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	return nil
}

// Remove ends the watch of a process. A Report that is under way may still
// arrive.
func (w *Watch) Remove(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.byPID[pid]; e != nil {
		w.drop(e)
	}
}

// drop removes an entry from the tables. The caller holds mu.
func (w *Watch) drop(e *entry) {
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

// Close ends the watch; nothing is reported after it has returned. It must not
// be called by Report.
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
		w.drop(e)
	}
	return errors.Join(w.source.close(), w.poll.Close())
}

// listen waits for news and reports them.
func (w *Watch) listen() {
	for {
		w.mu.Lock()
		until := w.source.nextDrain()
		w.mu.Unlock()
		ready, err := w.poll.Wait(until)
		if err != nil {
			w.cfg.Logger.Error().Err(err).Msg("deaths of processes are no longer seen")
			w.reportFindings(w.reportAllUnseen)
			return
		}
		if !w.reportFindings(func() { w.handleReady(ready) }) {
			return
		}
	}
}

// handleReady finds out what the descriptors that are ready mean. The caller holds mu.
func (w *Watch) handleReady(ready []uint64) {
	// A source has the news of an end before the pidfd of that process is ready. It is drained
	// after the pidfd was found ready, so what the source knows of an end is used.
	if err := w.source.drainNews(w); err != nil {
		w.cfg.Logger.Error().Err(err).Stringer("tier", w.tier).Msg("news of processes cannot be read")
	}
	for _, id := range ready {
		if e := w.byID[id]; e != nil {
			w.source.handleOver(w, e)
		}
	}
}

// reportAllUnseen reports of all processes that their ends will not be seen. The caller holds mu.
func (w *Watch) reportAllUnseen() {
	for _, e := range w.byID {
		w.queueReport(Unseen, e, 0)
		w.drop(e)
	}
	w.failed = true
}

// reportFindings calls decide with mu held, and sends the reports that it queues without. It says
// whether the watch goes on.
func (w *Watch) reportFindings(decide func()) bool {
	w.reporting.Lock()
	defer w.reporting.Unlock()
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return false
	}
	w.mail = w.mail[:0]
	decide()
	w.mu.Unlock()
	for i := range w.mail {
		w.cfg.Report(w.mail[i])
	}
	return true
}

// queueReport queues a report for reportFindings to send.
func (w *Watch) queueReport(k Kind, e *entry, at time.Duration) {
	r := Report{Kind: k, PID: e.pid, Tag: e.tag, At: at, Tier: w.tier}
	if k == Dead || k == Released {
		r.Exit = e.exit
	}
	w.mail = append(w.mail, r)
}

// noteDeath reports a death. The first one of a process counts.
func (w *Watch) noteDeath(e *entry, exit Exit, at time.Duration) {
	if e.dead {
		return
	}
	e.dead, e.exit = true, exit
	w.queueReport(Dead, e, at)
}

// noteRelease reports that a process has given back its memory, and ends its watch. at is when it
// died, or 0 if that is not known; it is used if Dead was not reported yet.
func (w *Watch) noteRelease(e *entry, at time.Duration) {
	if status, over, err := xunix.ChildStatus(e.pid); err == nil && over && w.byPID[e.pid] == e {
		e.exit.Status, e.exit.Known = status, true // what wait will say
	}
	w.noteDeath(e, e.exit, at)
	w.queueReport(Released, e, 0)
	w.drop(e)
}

// sampleThreads looks at all threads every Config.Poll.
func (w *Watch) sampleThreads() {
	eyes, ok := w.source.(sampler)
	if !ok {
		eyes = procSampler{}
	}
	timer := time.NewTimer(w.cfg.Poll)
	defer timer.Stop()
	var all []sample
	var pids []int
	blind := false
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
		all, err = eyes.sample(all[:0], pids)
		if err != nil && !blind {
			w.cfg.Logger.Error().Err(err).Msg("threads of processes cannot be looked at")
		}
		if blind = err != nil; !blind {
			w.reportFindings(func() { w.diagnoseAll(all) })
		}
		timer.Reset(w.cfg.Poll)
	}
}

// diagnoseAll compares the latest samples of each process with those before, and reports changes.
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
