package logp

// wheel holds timers by the step in which they expire, modulo its size. Timers
// that are further away than it is round stay in their slot for another round.
type wheel struct {
	slots [wheelSize][]timer
	count int
}

const wheelSize = 1 << 12

type timer struct {
	at   int32
	a, b int32
	kind timerKind
}

type timerKind uint8

const (
	timerWake   timerKind = iota // a
	timerStart                   // of a
	timerDeath                   // of a
	timerNotice                  // to a that b is dead
	timerNews                    // to everybody that a is dead
)

func (w *wheel) reset() {
	for i := range w.slots {
		w.slots[i] = w.slots[i][:0]
	}
	w.count = 0
}

func (w *wheel) empty() bool { return w.count == 0 }

func (w *wheel) push(t timer) {
	i := t.at % wheelSize
	w.slots[i] = append(w.slots[i], t)
	w.count++
}

// expire calls f for all timers of a step, which may push others, later ones.
func (w *wheel) expire(now int32, f func(timer)) {
	slot := &w.slots[now%wheelSize]
	due := *slot
	if len(due) == 0 {
		return
	}
	*slot = nil // pushes for a later round go to a new one
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
