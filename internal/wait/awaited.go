package wait

// What sleeping goroutines of this process wait for is kept in one word, which the latest of
// them has stored: a PE's number plus 1, or a lock's grant, whose address is larger.

// awaiter is a Poller that knows whom it waits for: a PE's number plus 1, or 0.
type awaiter interface{ Awaits() int }

// publish says what a wait is for that is about to sleep.
//
// Cost: a store.
func (w *Waiter) publish(c *Cond) {
	if c.Peer == AwaitsLock {
		w.awaited.Store(uint64(uintptr(c.Addr)))
		return
	}
	w.awaited.Store(uint64(c.Peer))
}

// publishPoll does the same for a Poller.
func (w *Waiter) publishPoll(p Poller) {
	pe := 0
	if a, ok := p.(awaiter); ok {
		pe = a.Awaits()
	}
	w.awaited.Store(uint64(pe))
}

// firstAddress is above the numbers of PEs and below all addresses of memory.
const firstAddress = 1 << 16

// Awaited returns what the only sleeping goroutine of this process waits for: a PE, or the
// address of a lock's grant; -1 and 0 if neither is known.
func (w *Waiter) Awaited() (pe int, grant uintptr) {
	x := w.awaited.Load()
	switch {
	case w.sleepers.Load() != 1 || x == 0:
		return -1, 0
	case x < firstAddress:
		return int(x) - 1, 0
	default:
		return -1, uintptr(x)
	}
}
