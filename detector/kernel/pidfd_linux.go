package kernel

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// pidfds is the tier PIDFD. The other tiers embed it for the methods that they do not need.
type pidfds struct{}

func openPIDFD(*Watch) (source, error) {
	if err := needPIDFD(PIDFD); err != nil {
		return nil, err
	}
	return pidfds{}, nil
}

// needPIDFD checks that the kernel has pidfds.
func needPIDFD(t Tier) error {
	fd, err := xunix.OpenProcess(os.Getpid())
	if err != nil {
		return &TierError{t, "pidfd_open (Linux 5.3)", err}
	}
	xunix.CloseFD(fd)
	return nil
}

func (pidfds) attach(*Watch, *entry) error   { return nil }
func (pidfds) detach(*entry)                 {}
func (pidfds) drainEvents(*Watch) error      { return nil }
func (pidfds) handleOver(w *Watch, e *entry) { w.noteRelease(e, 0) }
func (pidfds) nextDrain() time.Time          { return time.Time{} }
func (pidfds) close() error                  { return nil }

// children is the tier SIGCHLD.
type children struct {
	pidfds
	signals chan os.Signal
	over    chan struct{}
}

func openSIGCHLD(w *Watch) (source, error) {
	c := &children{signals: make(chan os.Signal, 1), over: make(chan struct{})}
	signal.Notify(c.signals, syscall.SIGCHLD)
	go func() {
		defer close(c.over)
		for range c.signals {
			w.poll.Wake()
		}
	}()
	return c, nil
}

func (c *children) attach(w *Watch, e *entry) error {
	_, over, err := xunix.ChildStatus(e.pid)
	if over {
		w.poll.Wake() // SIGCHLD may have come before this process was in the tables
	}
	return err
}

// drainEvents asks for the status of every child: the kernel merges signals, so one SIGCHLD may stand for
// several deaths.
func (c *children) drainEvents(w *Watch) error {
	for _, e := range w.byID {
		if _, over, err := xunix.ChildStatus(e.pid); over || err != nil { // an error: the child was reaped, so it is over
			w.noteRelease(e, 0)
		}
	}
	return nil
}

func (c *children) close() error {
	signal.Stop(c.signals)
	close(c.signals)
	<-c.over
	return nil
}
