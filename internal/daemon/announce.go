package daemon

import (
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/ending"
)

// announcer tells the PMIx servers and the launcher what has happened to PEs, in two steps: append and deliver.
//
// Append puts an announcement into the queue. The caller holds the lock of the table, under which the life of the PE has
// changed, so the queue has the announcements of a PE in the order of its changes. Append does not wait for anything.
//
// Deliver passes the queue on, without the lock of the table. One caller at a time delivers, always the oldest
// announcement first, so the order of the queue is the order in which everybody hears. A caller that finds another one
// delivering leaves its announcements to that one: it looks at the queue again, under the lock of the queue, before it
// stops. So nothing stays in the queue when the last deliver has returned. An announcement that has to wait for something, and what
// is behind it, stays: who makes that happen calls deliver afterwards.
type announcer struct {
	servers *servers
	mailbox *Mailbox
	began   time.Time          // of the job
	spread  func(f FarFailure) // as Hooks.Failed; nil: nobody wants to know

	mu         sync.Mutex
	queue      []announcement
	delivering bool
}

// announcement is an event for the launcher, an exit or a failure of other nodes for the servers, or both; the servers hear
// first.
type announcement struct {
	event   *Event     // nil: nothing for the launcher
	of      *localPE   // whom the event or the exit is about; nil: a job
	exited  bool       // the servers are told that the PE has ended
	end     ending.End // how it has ended
	withOut bool       // the event says how much the PE has written: Event.Written
	far     *farNews   // a failure on other nodes, for the servers; nil: none

	spread *FarFailure // a failure here, for other nodes; nil: none, or they need not know

	after <-chan struct{} // nobody is told before it is closed; nil: it need not be
}

// waits says whether it is too early to tell anybody.
func (x *announcement) waits() bool {
	if x.after == nil {
		return false
	}
	select {
	case <-x.after:
		return false
	default:
		return true
	}
}

// append queues an announcement. The caller holds the lock of the table if the announcement is about a PE.
func (a *announcer) append(x announcement) {
	if x.event != nil {
		x.event.At = time.Since(a.began)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = append(a.queue, x)
}

// deliver passes on what is queued, unless another caller is at it and so does the same. The caller holds no lock.
func (a *announcer) deliver() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.delivering {
		return
	}
	a.delivering = true
	for len(a.queue) > 0 && !a.queue[0].waits() {
		next := a.queue[0]
		a.queue = a.queue[1:]
		a.mu.Unlock()
		a.announce(next)
		a.mu.Lock()
	}
	if a.delivering = false; len(a.queue) == 0 {
		a.queue = nil
	}
}

// announce tells everybody about one thing.
func (a *announcer) announce(x announcement) {
	if x.spread != nil && a.spread != nil {
		a.spread(*x.spread)
	}
	if x.exited {
		a.servers.processExited(x.of, x.end)
	}
	if x.far != nil {
		a.servers.announceFar(x.far)
	}
	if x.event == nil {
		return
	}
	if x.withOut {
		x.event.Written = x.of.written()
	}
	a.mailbox.Put(*x.event)
}

// emit announces an event that is about no PE's life.
func (a *announcer) emit(e Event) {
	a.append(announcement{event: &e})
	a.deliver()
}
