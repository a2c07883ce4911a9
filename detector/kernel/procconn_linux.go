package kernel

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// connector is the tier ProcConn: the kernel tells of the end of every thread
// of the machine, after the thread's pidfd has told.
type connector struct {
	pidfds
	fd      int
	packet  [256]byte
	waiting []waiting // in the order of their times
}

// waiting is a process that its pidfd says is over, whose exit was not told yet.
type waiting struct {
	*entry
	until time.Time
}

// patience is how long the exit of a process whose pidfd has spoken is waited
// for. It comes some microseconds later, from the same thread, unless the
// kernel had no memory for it.
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
	if err := c.listen(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if err := w.poll.Watch(fd, idSource, !closeOnce); err != nil {
		return nil, errors.Join(&TierError{ProcConn, "a socket that can be polled", err}, c.close())
	}
	return c, nil
}

// listen asks for events. The answer is there when the request was sent, after
// what other processes do meanwhile.
func (c *connector) listen() error {
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

// drain reads all packets. A process is over when all its threads are; the
// last one of these is the one that says how.
func (c *connector) drain(w *Watch) error {
	for {
		n, err := xunix.ReadPacket(c.fd, c.packet[:])
		switch {
		case errors.Is(err, xunix.ErrAgain):
			c.expire(w, time.Now())
			return nil
		case errors.Is(err, xunix.ErrLost):
			continue // pidfds do not get lost
		case err != nil:
			return err
		}
		told, err := parseNotice(c.packet[:n])
		if err != nil {
			return err
		}
		if told.what != procExit {
			continue
		}
		if e := w.byPID[int(told.process)]; e != nil && xunix.ProcessOver(e.fd) {
			w.died(e, Exit{Status: syscall.WaitStatus(told.status), Known: true}, told.at)
			w.released(e)
		}
	}
}

func (c *connector) finished(w *Watch, e *entry) {
	if e.gone {
		w.released(e) // and its exit was told to those who listened then
		return
	}
	c.waiting = append(c.waiting, waiting{e, time.Now().Add(patience)})
}

// expire gives up waiting for exits that do not come.
func (c *connector) expire(w *Watch, now time.Time) {
	for len(c.waiting) > 0 {
		first := c.waiting[0]
		if w.byID[first.id] != nil {
			if now.Before(first.until) {
				return
			}
			w.released(first.entry)
		}
		c.waiting = c.waiting[1:]
	}
}

func (c *connector) due() time.Time {
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
