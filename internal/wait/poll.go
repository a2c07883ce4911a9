package wait

import (
	"context"
	"errors"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Look is the result of one look of a Poller.
type Look uint8

// The results of a look.
const (
	Nothing Look = iota // there was nothing to do
	Moved               // the look has made progress, and more may come at once
	Over                // the wait is over
)

// Poller is what WaitPoll polls: a wait for more than one word, such as one for messages.
type Poller interface {
	// Poll looks once, does the work that there is, and returns the result. It is called very often. A
	// Poll that begins after a writer has read the bell must find what that writer stored before.
	Poll() Look
}

// lookEvery is the number of Moved results after which a wait checks whether it has expired.
const lookEvery = 16

// WaitPoll is Wait for a Poller. It returns when Poll returns Over.
//
//   - Errors: the cause of ctx if ctx ends first; ErrClosed after Close.
//   - Deaths: they do not end the wait; Poll may return Over for one. A Poll that reads the epoch of the
//     failure page misses no death, because Poll is called once more after the bell was armed.
//   - Polls: the first phase starts anew after each Moved. So a wait does not fall asleep in the middle of
//     a transfer in parts. A sleep costs as much as copying a hundred kilobytes; the peer would find no
//     room meanwhile and fall asleep as well.
//   - Peers: unlike Wait, WaitPoll does not call the functions of Serve. Only package mpi serves, and each Poll of
//     package mpi makes the progress that its server would make. It makes less of it on purpose, as a receive leaves
//     messages that it does not wait for in their lanes. A Poller of another package calls ServePeers itself.
//   - Goroutines: of all waits for Parkers one sleeps, and the others park (park.go).
func (w *Waiter) WaitPoll(p Poller, ctx context.Context) error { //nolint:revive // as Wait
	w.Beat()
	drives := false
	defer func() { // also if a Poll panics, in an operator of the program
		if drives {
			w.passOn()
		}
	}()
	return w.waitPoll(p, ctx, &drives)
}

// waitPoll is WaitPoll of a wait that may become the driver.
func (w *Waiter) waitPoll(p Poller, ctx context.Context, drives *bool) error { //nolint:revive // as Wait
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
				w.Beat() // a wait that always makes progress never arms the bell
				if err := w.expired(ctx); err != nil {
					return err
				}
			}
		}
		look := w.yieldPoll(p)
		switch look {
		case Moved: // may come after every yield, so check here as well
			if err := w.expired(ctx); err != nil {
				return err
			}
		case Nothing:
			var err error
			if k, is := p.(Parker); is {
				look, err = w.sleepOrPark(k, ctx, &timeout, drives)
			} else {
				look, err = w.sleepPoll(p, ctx, &timeout)
			}
			if err != nil {
				return err
			}
		}
		if look == Over {
			return nil
		}
	}
}

// yieldPoll is the yield phase of WaitPoll. It ends when a look finds something.
func (w *Waiter) yieldPoll(p Poller) (look Look) {
	for t := w.turns(); look == Nothing && t.next(); {
		look = p.Poll()
	}
	return look
}

// idleFactor is how much longer than Policy.Most the sleeps of a driver become, whose context cannot end. Its timeouts are for rare accidents only, and a timeout
// costs far more than a look: the Go runtime wakes its monitor thread, which then looks around fifty times within a millisecond.
const idleFactor = 16

// sleepPoll is sleep for a Poller. It returns the result of the last look.
func (w *Waiter) sleepPoll(p Poller, ctx context.Context, timeout *time.Duration) (look Look, err error) { //nolint:revive // as Wait
	w.sleepers.Add(1)
	defer w.leaveSleep()
	w.publishAwaitedPoll(p)
	k, parks := p.(Parker)
	most := w.Most
	if parks && (ctx == nil || ctx.Done() == nil) {
		most *= idleFactor
	}
	for ; ; *timeout = min(2**timeout, most) {
		armed := w.armBell(false)
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
		if parks {
			k.Idle(*timeout)
		}
	}
}

// Serve makes Wait and WaitAny of this process call f from now on: after their polls, after each yield, and before
// each sleep. f does work that peers may wait for, whatever the waits themselves are for.
//
//   - Result of f: whether it did any work or may have more. The wait then checks again before it sleeps.
//   - Several functions may be registered at a time.
//   - remove: a call of f that began before remove may still run when remove returns.
func (w *Waiter) Serve(f func() bool) (remove func()) { return w.servers.Add(f) }

// ServePeers calls all functions given to Serve. It returns true if any of them did work. Waits call it
// themselves. A call that checks a condition once must call it if the condition does not hold: a program
// may poll with such calls instead of waiting, while its peers wait for work of this process.
//
//   - Cost: a call and an atomic load if no function is registered.
func (w *Waiter) ServePeers() (worked bool) {
	for _, f := range w.servers.All() {
		if (*f)() {
			worked = true
		}
	}
	return worked
}
