package kernel

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// connector is the tier ProcConn. The kernel sends a notice of the begin and the end of every thread of the
// machine. The notice of an end comes after the pidfd of the process is ready.
//
// The exit of a process is that of its last thread. Neither the pidfd nor an empty queue says which notice
// that is:
//
//   - A ready pidfd: the notice of an earlier thread may still be in the queue.
//   - An empty queue: the notice of the last thread may not have been sent yet.
//
// So the connector keeps the set of live threads of each watched process (entry.threads).
type connector struct {
	pidfds
	fd      int
	packet  [256]byte
	lost    bool      // the kernel has dropped packets; earlier packets are still being read
	waiting []waiting // processes that are over and lack notices, in the order of until
	clocks  offsets
}

// waiting is a process that is over by its pidfd and lacks notices of its threads.
type waiting struct {
	*entry
	until time.Time // when the death is reported without them
}

// noticeTimeout is how long the connector waits for the notices of a process that is over by its pidfd.
// They normally come some microseconds after the pidfd. They come later, or never, in two cases:
//
//   - The kernel had no memory for a notice.
//   - The exiting thread lost its processor between the two (it wakes the poller of the pidfd), and a busy
//     machine gave it back late.
//
// The death is then reported without a time, because knowing it early is worth more than its time.
const noticeTimeout = 20 * time.Millisecond

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
		return nil, errors.Join(&TierError{ProcConn, "the clock offsets of this time namespace (/proc/self/timens_offsets)", err}, c.close())
	}
	if err := c.subscribe(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if err := w.poll.Watch(fd, idSource, !closeOnce); err != nil {
		return nil, errors.Join(&TierError{ProcConn, "a socket that can be polled", err}, c.close())
	}
	return c, nil
}

// subscribe asks the kernel for notices and reads its answer. The kernel answers while the request is
// sent. Notices of other processes may come before the answer; subscribe drops them.
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

// learnThreads lists the threads of the process. Notices may be read after the listing that are about
// events before, during or after it:
//
//   - Before: handleNotice ignores them. A notice carries the time of its event, and since is read first.
//   - During or after: they may repeat what the listing saw. A begin then adds a listed thread, or an end
//     removes a thread that is not listed. Neither changes the set.
func (e *entry) learnThreads() {
	e.since = xunix.Monotonic()
	e.threads = listLiveThreads(e.pid)
}

// drainEvents reads all packets, then reports processes whose notices are overdue. It reads the clock before
// the packets. So a notice that was sent within noticeTimeout is found, even if this thread loses its
// processor in between.
func (c *connector) drainEvents(w *Watch) error {
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
		event, err := parseNotice(c.packet[:n])
		if err != nil {
			return err
		}
		event.at += c.clocks.monotonic
		c.handleNotice(w, event)
	}
}

// handleNotice applies a notice to the set of live threads. A process is over when the set is empty and
// its pidfd is ready: a debugger may delay the end of a process whose threads have all exited.
//
// Notices older than since are ignored. An exec sets since as well, because its notice may overtake the
// exit notice of the leader whose number the executing thread has taken.
func (c *connector) handleNotice(w *Watch, n notice) {
	e := w.byPID[int(n.process)]
	if e == nil || n.at < e.since {
		return
	}
	switch n.what {
	case procFork:
		e.threads[n.thread] = struct{}{}
	case procExec:
		// All other threads have ended, and the remaining one has the leader's number.
		clear(e.threads)
		e.threads[n.process] = struct{}{}
		e.since = n.at
	case procExit:
		delete(e.threads, n.thread)
		e.ending = n
		if len(e.threads) == 0 && xunix.ProcessOver(e.fd) {
			c.noteOver(w, e)
		}
	}
}

// relearnThreads lists the threads of all processes anew if packets were lost. It is called when all
// earlier packets were read, because the kernel drops packets until then.
func (c *connector) relearnThreads(w *Watch) {
	if !c.lost {
		return
	}
	c.lost = false
	for _, e := range w.byPID {
		e.learnThreads()
	}
}

// noteOver reports that a process is over. Its exit is that of its last thread, if that thread's notice
// has come; otherwise status and time are unknown.
func (c *connector) noteOver(w *Watch, e *entry) {
	var at time.Duration
	if len(e.threads) == 0 {
		e.exit, at = Exit{Status: syscall.WaitStatus(e.ending.status), Known: true}, e.ending.at
	}
	w.noteRelease(e, at)
}

// handleOver reports a process that is over by its pidfd, or waits for its notices. A process that was over
// when it was added has no notices: they were sent before.
func (c *connector) handleOver(w *Watch, e *entry) {
	if e.gone || len(e.threads) == 0 {
		c.noteOver(w, e)
		return
	}
	c.waiting = append(c.waiting, waiting{e, time.Now().Add(noticeTimeout)})
}

// expireWaiting reports processes whose notices have not come within noticeTimeout.
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

// close ends the subscription and closes the socket. Without the request, a kernel before 6.6 would go on
// producing events that no process reads.
func (c *connector) close() error {
	err := xunix.SendPacket(c.fd, request(procIgnore, 0))
	xunix.CloseFD(c.fd)
	if errors.Is(err, os.ErrPermission) {
		return nil // the subscription was refused as well, so there is nothing to end
	}
	return err
}
