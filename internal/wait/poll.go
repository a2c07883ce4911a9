package wait

import (
	"context"
	"errors"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Look is the result of one look of a Poller.
type Look uint8

// What a look finds.
const (
	Nothing Look = iota // there was nothing to do
	Moved               // the look has moved something, and more may come at once
	Over                // the wait is over
)

// Poller is polled by waits that are for more than one word, such as those for messages.
type Poller interface {
	// Poll looks once, does what there is to do, and returns what it has found. It is called very
	// often. A Poll that begins after a writer has looked at the bell must find what that writer
	// stored before.
	Poll() Look
}

// lookEvery is the number of polls with result Moved after which a wait looks whether it has expired.
const lookEvery = 16

// WaitPoll is Wait for a Poller: it returns when Poll has returned Over, or with the cause when ctx
// ends first. A death does not end it, unless Poll says so. A Poll that reads the epoch of the
// failure page sleeps over no death, because Poll is called after the bell is armed.
//
// Unlike Wait, WaitPoll does not call what Serve was given. Every Poller is of package mpi, which is
// also the only package that serves, and each Poll makes the progress that mpi's server would make. It
// makes less of it on purpose: a receive leaves messages that it does not wait for in their lanes. A
// second package that serves has to be called here as well.
//
// The polls of the first phase are counted from the latest one that moved something. So a wait does
// not fall asleep in the middle of a transfer that comes part by part: a sleep costs as much as
// copying a hundred kilobytes, and the peer would find no room meanwhile and fall asleep as well.
func (w *Waiter) WaitPoll(p Poller, ctx context.Context) error { //nolint:revive // as Wait
	w.Beat()
	moved := 0
	for timeout := w.First; ; {
		for i := 0; i < w.Polls; i++ {
			look := p.Poll()
			if look == Nothing {
				continue
			}
			if look == Over {
				return nil
			}
			if i, moved = -1, moved+1; moved%lookEvery == 0 {
				w.Beat() // a wait that always finds something never arms the bell
				if err := w.expired(ctx); err != nil {
					return err
				}
			}
		}
		look := w.yieldPoll(p)
		switch look {
		case Moved: // perhaps whenever a peer has had the processor
			if err := w.expired(ctx); err != nil {
				return err
			}
		case Nothing:
			var err error
			if look, err = w.sleepPoll(p, ctx, &timeout); err != nil {
				return err
			}
		}
		if look == Over {
			return nil
		}
	}
}

// yieldPoll is the second phase of WaitPoll: it yields until a look finds something.
func (w *Waiter) yieldPoll(p Poller) (look Look) {
	for t := w.turns(); look == Nothing && t.next(); {
		look = p.Poll()
	}
	return look
}

// sleepPoll is sleep for a Poller. It returns the result of the last look.
func (w *Waiter) sleepPoll(p Poller, ctx context.Context, timeout *time.Duration) (look Look, err error) { //nolint:revive // as Wait
	w.sleepers.Add(1)
	defer w.leave()
	w.publishPoll(p)
	for ; ; *timeout = min(2**timeout, w.Most) {
		armed := w.arm()
		if look = p.Poll(); look == Over {
			return look, nil
		}
		if err := w.expired(ctx); err != nil {
			return look, err
		}
		if look == Moved {
			return look, nil
		}
		err := xunix.FutexWait(&w.bell.Sleeping, armed, *timeout)
		if !errors.Is(err, xunix.ErrTimeout) {
			return look, err
		}
	}
}

// Serve makes all waits of this process call f from now on: whenever polls have been in vain, and
// before they sleep. f does what peers may wait for that this process has to do, whatever the
// waits themselves are for. It says whether there was anything, or may be more: then the wait
// looks again before it sleeps. Several functions may serve at a time.
//
// A call of f that began before remove may still be under way when remove returns.
func (w *Waiter) Serve(f func() bool) (remove func()) { return w.servers.Add(f) }

// ServePeers calls what Serve was given, and says whether any of it had something to do. Waits call it
// by themselves. Calls that look at a condition once call it when the condition does not hold: a
// program may poll with such a call instead of waiting, and its peers may wait meanwhile for what this
// process has to do for them.
//
//   - Cost: a call and an atomic load where nothing serves.
func (w *Waiter) ServePeers() (worked bool) {
	for _, f := range w.servers.All() {
		if (*f)() {
			worked = true
		}
	}
	return worked
}
