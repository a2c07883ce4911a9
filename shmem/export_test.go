package shmem

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Asleep says whether a PE sleeps in a wait.
func Asleep(w *World, pe int) bool {
	return atomic.LoadUint32(&w.s.h.job.Map.Control(pe).Bell.Sleeping)&layout.BellAsleep != 0
}

// Noticed says whether this process knows of a death and its data path is closed.
func Noticed(w *World) bool { return w.s.h.wary.Load() }

// Queued returns how many PEs hold a lock or wait for it, or have left its queue and
// are not passed over yet.
func Queued(w *World, l Lock) int {
	q, err := l.queue(w.Ctx(), "Queued")
	if err != nil {
		return -1
	}
	return int((atomic.LoadUint64(q.tail()) - ticketOf(atomic.LoadUint64(q.head()))) & ticketMask)
}
