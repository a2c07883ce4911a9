package daemon

import (
	"errors"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// alerts tells PEs that their page has a new failure, over the connections on which they take orders. A PE that waits for
// nothing learns of the failure only so. Then its callbacks are called.
type alerts struct {
	table   *table
	raised  chan struct{} // has an element when a job has an alert that is due
	closing <-chan struct{}
	logger  zerolog.Logger
}

// raise wakes run, which looks for alerts that are due.
func (a *alerts) raise() {
	select {
	case a.raised <- struct{}{}:
	default:
	}
}

// run sends alerts until the step closes.
func (a *alerts) run() {
	packet := (&wire.OrderPacket{Order: wire.OrderNews}).Append(nil)
	for {
		select {
		case <-a.raised:
		case <-a.closing:
			return
		}
		for _, line := range a.receivers() {
			// One that has no room has an unread alert.
			if err := xunix.SendAtOnce(line.conn, packet); err != nil && !errors.Is(err, syscall.EAGAIN) {
				a.logger.Debug().Err(err).Msg("alert of a failure")
			}
		}
	}
}

// receivers returns the order connections of the PEs of jobs that have an alert due. The alerts are due no longer then.
func (a *alerts) receivers() (lines []*orderLine) {
	t := a.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.jobs {
		if !j.alertDue {
			continue
		}
		j.alertDue = false
		for _, p := range j.started() {
			if p.orders != nil && p.orders.replied && !p.life.Failed() {
				lines = append(lines, p.orders)
			}
		}
	}
	return lines
}
