package rma

import (
	"context"
	"errors"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Poller is what a wait polls that is for more than one word.
type Poller interface {
	// Poll looks, does what there is to do, and says whether the wait is over. It
	// is called very often, and must find whatever a writer has stored that looked
	// at the bell afterwards.
	Poll() bool
}

// WaitPoll is Wait for a Poller. Deaths do not end it unless p says so: Poll is
// called behind the arming of the bell, so that one which looks at the epoch of the
// failure page sleeps over none.
func (w *Waiter) WaitPoll(p Poller, ctx context.Context) error { //nolint:revive // as Wait
	w.Beat()
	for timeout := w.First; ; {
		for range w.Polls {
			if p.Poll() {
				return nil
			}
		}
		for range w.Yields {
			xunix.SchedYield()
			if p.Poll() {
				return nil
			}
		}
		if over, err := w.sleepPoll(p, ctx, &timeout); over || err != nil {
			return err
		}
	}
}

// sleepPoll is sleep for a Poller.
func (w *Waiter) sleepPoll(p Poller, ctx context.Context, timeout *time.Duration) (over bool, err error) { //nolint:revive // as Wait
	w.sleepers.Add(1)
	defer w.leave()
	for ; ; *timeout = min(2**timeout, w.Most) {
		armed := w.arm()
		if p.Poll() {
			return true, nil
		}
		if err := w.expired(ctx); err != nil {
			return false, err
		}
		err := xunix.FutexWait(&w.bell.Sleeping, armed, *timeout)
		if !errors.Is(err, xunix.ErrTimeout) {
			return false, err
		}
	}
}

// Serve has f called by all waits of this process that last: whenever polls have been
// in vain, and before they sleep. It does what peers may wait for that this process
// has to do, whatever it waits for itself, and says whether there was anything, or
// may be more: then the wait looks again before it sleeps. Nil: nothing, any more.
func (w *Waiter) Serve(f func() bool) {
	if f == nil {
		w.serve.Store(nil)
		return
	}
	w.serve.Store(&f)
}

// served calls what Serve was given.
func (w *Waiter) served() bool {
	f := w.serve.Load()
	return f != nil && (*f)()
}
