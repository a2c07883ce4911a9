package wait

// The word Waiter.awaited says whom the latest sleeper of this process waits for: a PE, by its number
// plus 1, or the grant of a lock, by its address, which is larger than any PE's number. The watch for
// hangs asks for it.

// awaiter is a Poller that knows whom it waits for. Awaits returns the PE's number plus 1, or 0 if
// the PE is not known.
type awaiter interface{ Awaits() int }

// publish stores whom a wait is for, before the wait sleeps.
//
//   - Cost: a store.
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

// firstAddress is larger than any PE's number plus 1 and smaller than any address.
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
