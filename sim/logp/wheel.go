package logp

// wheel holds timers by the step in which they expire, modulo its size. A timer that expires more than
// one turn of the wheel away stays in its slot for another turn.
type wheel struct {
	slots [wheelSize][]timer
	count int
}

// wheelSize is the number of slots.
const wheelSize = 1 << 12

// timer is something that happens to the nodes a and b in step at.
type timer struct {
	at   int32
	a, b int32
	kind timerKind
}

// timerKind is what happens when a timer expires.
type timerKind uint8

// The kinds of timers.
const (
	timerWake   timerKind = iota // a may have something to do
	timerStart                   // a calls the collective
	timerDeath                   // a dies
	timerNotice                  // a learns that b is dead
	timerNews                    // all nodes learn that a is dead
)

// reset drops all timers.
func (w *wheel) reset() {
	for i := range w.slots {
		w.slots[i] = w.slots[i][:0]
	}
	w.count = 0
}

// isEmpty reports whether there is no timer.
func (w *wheel) isEmpty() bool { return w.count == 0 }

// push adds a timer.
func (w *wheel) push(t timer) {
	i := t.at % wheelSize
	w.slots[i] = append(w.slots[i], t)
	w.count++
}

// expire calls f for all timers of a step. f may push timers for later steps.
func (w *wheel) expire(now int32, f func(timer)) {
	slot := &w.slots[now%wheelSize]
	due := *slot
	if len(due) == 0 {
		return
	}
	*slot = nil // f's pushes for a later turn go to a new slice
	keep := due[:0]
	for _, t := range due {
		if t.at != now {
			keep = append(keep, t)
			continue
		}
		w.count--
		f(t)
	}
	*slot = append(keep, *slot...)
}
