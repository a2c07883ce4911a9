package kernel

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// connector is the tier ProcConn: the kernel tells of the begin and end of every
// thread of the machine; of an end after the pidfd has told.
//
// What a process ends by is what its last thread says. Neither the pidfd nor an
// empty queue say which one that is: when the queue is read, the process may be
// over while the end of an earlier thread is still in it, and that of the last
// one not yet. So the threads of watched processes are kept count of.
type connector struct {
	pidfds
	fd      int
	packet  [256]byte
	lost    bool      // packets were; what came before is still being read
	waiting []waiting // in the order of their times
	clocks  offsets
}

// waiting is a process whose pidfd says that it is over, before the notices of its threads have come.
type waiting struct {
	*entry
	until time.Time
}

// patience is how long the connector waits for the notices of a process whose pidfd says that it is
// over. They come some microseconds later as a rule. They come later than patience, or never, in two
// cases: the kernel had no memory for them, or the ending thread lost its processor between the two,
// which it may when it wakes who polls the pidfd, and got it back late because the machine is busy.
// The report goes out then without a time: knowing the death early is worth more than its time.
const patience = 20 * time.Millisecond

func openProcConn(w *Watch) (_ source, err error) {
	if err := needPIDFD(ProcConn); err != nil {
		return nil, err
	}
	ns, err := pidNamespace()
	if err == nil && ns != 0 {
		err = &TierError{ProcConn, "the machine's own pid namespace", nil}
	}
	if err != nil {
		return nil, err
	}
	fd, err := xunix.ProcessEvents()
	if err != nil {
		missing := "the process connector in this network namespace (CONFIG_PROC_EVENTS)"
		if errors.Is(err, os.ErrPermission) {
			missing = "CAP_NET_ADMIN"
		}
		return nil, &TierError{ProcConn, missing, err}
	}
	c := &connector{fd: fd}
	if c.clocks, err = clockOffsets(); err != nil {
		return nil, errors.Join(&TierError{ProcConn, "the offsets of this time namespace", err}, c.close())
	}
	if err := c.subscribe(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if err := w.poll.Watch(fd, idSource, !closeOnce); err != nil {
		return nil, errors.Join(&TierError{ProcConn, "a socket that can be polled", err}, c.close())
	}
	return c, nil
}

// subscribe asks for events. The kernel answers while the request is sent; notices of other
// processes may come before the answer.
func (c *connector) subscribe() error {
	token := uint32(os.Getpid())
	if err := xunix.SendPacket(c.fd, request(procListen, token)); err != nil {
		return &TierError{ProcConn, "CAP_NET_ADMIN", err}
	}
	for {
		n, err := xunix.ReadPacket(c.fd, c.packet[:])
		if errors.Is(err, xunix.ErrLost) {
			continue
		}
		if err != nil {
			return &TierError{ProcConn, "the process connector (CONFIG_PROC_EVENTS)", err}
		}
		answer, err := parseNotice(c.packet[:n])
		switch {
		case err != nil:
			return &TierError{ProcConn, "a process connector that this program understands", err}
		case answer.what != procAck || answer.token != token:
		case answer.errno != 0:
			return &TierError{ProcConn, "CAP_NET_ADMIN", syscall.Errno(answer.errno)}
		default:
			return nil
		}
	}
}

// attach lists the threads of the process.
func (c *connector) attach(_ *Watch, e *entry) error {
	e.learnThreads()
	return nil
}

// learnThreads lists the threads of the process. A notice carries the time of what it tells. Notices
// from before the listing may be read after it; they say nothing new, and their time shows it. Notices
// from after it may repeat what the listing has seen, which does no harm: a listed thread begins again,
// or one that is not listed ends again.
func (e *entry) learnThreads() {
	e.since = xunix.Monotonic()
	e.threads = listLiveThreads(e.pid)
}

// drainNews reads all packets. It takes the time before it reads, so that a notice which was sent within
// patience is found, even if this thread loses its processor between two steps.
func (c *connector) drainNews(w *Watch) error {
	now := time.Now()
	for {
		n, err := xunix.ReadPacket(c.fd, c.packet[:])
		switch {
		case errors.Is(err, xunix.ErrAgain):
			c.relearnThreads(w)
			c.expireWaiting(w, now)
			return nil
		case errors.Is(err, xunix.ErrLost):
			c.lost = true
			continue
		case err != nil:
			return err
		}
		told, err := parseNotice(c.packet[:n])
		if err != nil {
			return err
		}
		told.at += c.clocks.monotonic
		c.handleNotice(w, told)
	}
}

// handleNotice applies a notice to the table of threads. A process is over when all its threads have
// ended and its pidfd says so as well: a debugger may hold back the end of a process.
func (c *connector) handleNotice(w *Watch, told notice) {
	e := w.byPID[int(told.process)]
	if e == nil || told.at < e.since { // an exec overtakes the end of the thread that had the number before
		return
	}
	switch told.what {
	case procFork:
		e.threads[told.thread] = struct{}{}
	case procExec:
		// All other threads have ended, and the one that is left has the first one's
		// number, whichever it had before.
		clear(e.threads)
		e.threads[told.process] = struct{}{}
		e.since = told.at
	case procExit:
		delete(e.threads, told.thread)
		e.ending = told
		if len(e.threads) == 0 && xunix.ProcessOver(e.fd) {
			c.noteOver(w, e)
		}
	}
}

// relearnThreads lists the threads of all processes anew if packets were lost. The kernel drops packets
// until all earlier ones were read, so it is called then.
func (c *connector) relearnThreads(w *Watch) {
	if !c.lost {
		return
	}
	c.lost = false
	for _, e := range w.byPID {
		e.learnThreads()
	}
}

// noteOver reports that a process is over. Its exit is that of its last thread, if a notice told it.
func (c *connector) noteOver(w *Watch, e *entry) {
	var at time.Duration
	if len(e.threads) == 0 {
		e.exit, at = Exit{Status: syscall.WaitStatus(e.ending.status), Known: true}, e.ending.at
	}
	w.noteRelease(e, at)
}

func (c *connector) handleOver(w *Watch, e *entry) {
	if e.gone || len(e.threads) == 0 { // ends of what was gone were told to those who listened then
		c.noteOver(w, e)
		return
	}
	c.waiting = append(c.waiting, waiting{e, time.Now().Add(patience)})
}

// expireWaiting reports processes whose notices have not come within patience.
func (c *connector) expireWaiting(w *Watch, now time.Time) {
	for len(c.waiting) > 0 {
		first := c.waiting[0]
		if w.byID[first.id] != nil {
			if now.Before(first.until) {
				return
			}
			c.noteOver(w, first.entry)
		}
		c.waiting = c.waiting[1:]
	}
}

func (c *connector) nextDrain() time.Time {
	if len(c.waiting) == 0 {
		return time.Time{}
	}
	return c.waiting[0].until
}

func (c *connector) close() error {
	// Kernels before 6.6 go on making events for nobody otherwise.
	err := xunix.SendPacket(c.fd, request(procIgnore, 0))
	xunix.CloseFD(c.fd)
	if errors.Is(err, os.ErrPermission) {
		return nil // they were not made
	}
	return err
}
