package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
)

// A process that is about to be stopped holds its links, so that its peers do not take it for lost:
//
//	process to be stopped                     peer
//	Hold                     ------------>    takes it: from now on no silence breaks the connection
//	acknowledgment: the same <------------
//	stops
//	continues
//	Go                       ------------>    takes it: silence counts again
//
// Both frames are frames of the link as all are, so they arrive in order and once, also over a connection that breaks.
//
// Limits hold until the acknowledgment has come at the one end, and until Hold has come at the other. A link that is held
// has no keepalives, and its ends no deadlines. What they still learn of each other comes from their machines:
//
//   - The end of either process closes the connection.
//   - The end of a machine, or of the way to it, breaks the connection after some minutes, by the keepalives of TCP.
//
// A dialing end whose connection breaks dials again. The machine of a process that is stopped takes connections and does
// not answer on them: while one is taken so, no time counts. Otherwise the lease does.

// Hold takes the limits of time from both ends of the link until Go. It returns when the peer has taken that or the link
// has ended, or with an error after a time.
func (l *Link) Hold(atMost time.Duration) error {
	l.mu.Lock()
	if l.closing || l.ended || l.fatal != nil {
		l.mu.Unlock()
		return nil
	}
	if l.wanted == nil {
		l.frames.Push(wire.Frame{Kind: wire.KindHold})
		l.wanted = &hold{number: l.frames.Pushed(), taken: make(chan struct{})}
	}
	taken, addr := l.wanted.taken, l.addr
	l.mu.Unlock()
	l.signal()
	late := time.NewTimer(atMost)
	defer late.Stop()
	select {
	case <-taken:
		return nil
	case <-l.done:
		return nil
	case <-late.C:
		return fmt.Errorf("the peer at %s has not answered within %v", addr, atMost)
	}
}

// Go ends what Hold has begun. Without a Hold it does nothing.
func (l *Link) Go() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted == nil {
		return
	}
	l.wanted = nil
	l.setHeld(false)
	if !l.closing && !l.ended && l.fatal == nil {
		l.frames.Push(wire.Frame{Kind: wire.KindGo})
		l.signal()
	}
}

// noteHeld notes that the peer has taken the Hold. The caller holds the lock.
func (l *Link) noteHeld() {
	select {
	case <-l.wanted.taken:
	default:
		close(l.wanted.taken)
		l.setHeld(true)
	}
}

// takeHold takes a Hold or a Go of the peer, who waits for the acknowledgment.
func (l *Link) takeHold(f wire.Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setHeld(f.Kind == wire.KindHold)
	l.frames.Took(f)
	l.ackNow = true
	l.signal()
}

// setHeld takes the limits away, or sets them again. The caller holds the lock.
func (l *Link) setHeld(held bool) {
	if l.held == held {
		return
	}
	l.held = held
	put(l.turned)
	switch {
	case l.current == nil:
	case held:
		l.current.hold()
	default:
		l.current.resume(l.limits.silence())
	}
}

func (l *Link) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// within returns a context that ends with the link, or after a time. Time in which the link is held and the peer is not
// known to be out of reach does not count, and the time begins anew with Go.
func (l *Link) within(most time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(l.ctx)
	go func() {
		late := time.NewTimer(most)
		defer late.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.turned:
				late.Reset(most)
			case <-late.C:
				if (!l.isHeld() || l.dialer != nil && l.dialer.waits.Load() == 0) && len(l.turned) == 0 {
					cancel(errTooLate)
					return
				}
				late.Reset(most)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// errTooLate ends the wait for a connection.
var errTooLate = errors.New("the time is over")
