package wait

// Waiter.awaited holds what the latest sleeper of this process waits for. The watch for hangs reads it.
//
//	value                meaning
//	0                    unknown
//	below firstAddress   a PE: its number plus 1
//	otherwise            the grant of a lock: its address

// awaiter is a Poller that knows which PE it waits for. Awaits returns the PE's number plus 1, or 0 if it
// is unknown.
type awaiter interface{ Awaits() int }

// publishAwaited stores what a wait is for, before the wait sleeps.
//
//   - Cost: a store.
func (w *Waiter) publishAwaited(c *Cond) {
	if c.Peer == AwaitsLock {
		w.awaited.Store(uint64(uintptr(c.Addr)))
		return
	}
	w.awaited.Store(uint64(c.Peer))
}

// publishAwaitedPoll is publishAwaited for a Poller.
func (w *Waiter) publishAwaitedPoll(p Poller) {
	pe := 0
	if a, ok := p.(awaiter); ok {
		pe = a.Awaits()
	}
	w.awaited.Store(uint64(pe))
}

// firstAddress is larger than any PE's number plus 1 and smaller than any address of data: 1,024 nodes with 1,024 PEs each
// have 1 << 20 PEs, and programs are loaded from 1 << 22 on.
const firstAddress = 1 << 21

// Awaited returns what this process waits for, if exactly one of its goroutines sleeps or is parked.
//
//   - pe: the PE, or -1 if unknown.
//   - grant: the address of the lock's grant, or 0 if the wait is not for a lock or unknown.
func (w *Waiter) Awaited() (pe int, grant uintptr) {
	x := w.awaited.Load()
	switch {
	case w.sleepers.Load() != 1 || w.parking.count.Load() > 0 || x == 0:
		return -1, 0
	case x < firstAddress:
		return int(x) - 1, 0
	default:
		return -1, uintptr(x)
	}
}
