package wait

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Yields pause if they take long, and only then. Short yields never cause a pause, an occasional
// long one does not either, and under lasting load the pauses grow up to the longest.
func TestYieldsPause(t *testing.T) {
	const ms = time.Millisecond
	type yield struct {
		short  int           // yields of 0.1 ms before this one
		length time.Duration // of this yield
		pause  time.Duration // begins when this yield ends
	}
	repeated := func(n int, y yield) (all []yield) {
		for range n {
			all = append(all, y)
		}
		return all
	}
	for name, yields := range map[string][]yield{
		"peers that wait yield back at once":   {{10_000, ms / 10, 0}},
		"others run for a moment now and then": repeated(100, yield{40, 2 * ms, 0}),
		"strangers of another session":         repeated(100, yield{40, 4 * ms, 0}),
		"many slices at once":                  {{0, 12 * ms, 5 * ms}},
		"a pause, and later one slice":         {{0, 12 * ms, 5 * ms}, {40, 4 * ms, 0}},
		"a pause, and later a short one": {
			{0, 12 * ms, 5 * ms}, {0, 4 * ms, 10 * ms}, {40, 4 * ms, 0}, {3, 4 * ms, 5 * ms},
		},
		"load that lasts": {
			{0, 4 * ms, 0},
			{3, 4 * ms, 5 * ms},
			{3, 4 * ms, 10 * ms},
			{0, 4 * ms, 20 * ms},
			{31, 4 * ms, 40 * ms},
			{0, 4 * ms, 40 * ms},
			{3, 4 * ms, 40 * ms},
		},
	} {
		y, now := yielding{long: ms / 2}, time.Second
		for i, x := range yields {
			for range x.short {
				if now += ms / 10; y.recordYield(ms/10, now) {
					t.Errorf("%s: a short yield before yield %d starts a pause", name, i)
				}
			}
			now += x.length
			if paused := y.recordYield(x.length, now); paused != (x.pause > 0) || y.paused(now) != paused {
				t.Errorf("%s: yield %d of %v starts a pause: %v, want %v", name, i, x.length, paused, x.pause > 0)
			}
			now += x.pause
			if x.pause > 0 && (!y.paused(now-1) || y.paused(now)) {
				t.Errorf("%s: the pause after yield %d does not last %v", name, i, x.pause)
			}
		}
	}
	var untimed yielding
	if untimed.recordYield(time.Hour, 2*time.Hour) {
		t.Error("a yield starts a pause although no yield counts as long")
	}
}

// Long yields to PEs of the job that compute do not start a pause, because these PEs had the
// processors meanwhile. What the processors did during a pause says nothing about the yields after
// it.
func TestYieldsToPEsThatCompute(t *testing.T) {
	const ms, cores = time.Millisecond, 2
	for name, x := range map[string]struct {
		had    time.Duration // processor time of the job, per millisecond and processor
		pauses bool
	}{
		"all":                             {ms, false},
		"all but what a launcher needs":   {ms - ms/20, false},
		"one processor of two":            {ms / 2, true},
		"next to nothing":                 {ms / 50, true},
		"what is left beside one program": {ms * 6 / 10, true},
	} {
		now, used := time.Second, 700*ms
		y := yielding{long: ms / 2, cores: cores, spent: func() time.Duration { return used }}
		paused := false
		for range 40 {
			y.refreshSpent(now)
			now += 2 * ms
			used += 2 * cores * x.had
			if y.recordYield(2*ms, now) {
				paused = true
				now = time.Duration(y.until.Load()) // nothing has run
			}
		}
		if paused != x.pauses {
			t.Errorf("the job had %s: yields paused is %v, want %v", name, paused, x.pauses)
		}
		if !x.pauses {
			continue
		}
		y.refreshSpent(now) // the other programs have ended
		for range 10 {
			now += 2 * ms
			if used += 2 * cores * ms; y.recordYield(2*ms, now) {
				t.Errorf("the job had %s, then all: a yield starts a pause", name)
			}
		}
	}
}

// Yields are timed only while few PEs share a processor: with many, the PEs' own turns take as
// long as another program's slice.
func TestLongYieldAmong(t *testing.T) {
	for n, timed := range map[int]bool{1: true, 2: true, 4: true, 8: true, 9: false, 32: false, 128: false} {
		if long := PolicyFor(n, 2).Long; (long != 0) != timed {
			t.Errorf("%d PEs on 2 processors: yields are long from %v on, want a limit: %v", n, long, timed)
		}
	}
}

// loaded is a machine with its own clock. While busy is set, each yield costs a slice of another
// program. loaded counts the yields.
type loaded struct {
	busy   bool
	now    time.Duration
	yields int
}

func (l *loaded) waiter(bell *layout.Bell, p Policy) *Waiter {
	w := NewWaiter(bell, p)
	w.clock = func() time.Duration { return l.now }
	w.yield = func() {
		l.yields++
		l.now += time.Microsecond
		if l.busy {
			l.now += 4 * time.Millisecond
		}
	}
	return w
}

// Under load every kind of wait sleeps after a few yields, as long as the load lasts. 100 ms after
// its end waits yield as before.
func TestWaitsBesideLoad(t *testing.T) {
	p := PolicyFor(4, 2)
	p.First, p.Most = time.Microsecond, time.Microsecond
	for kind, wait := range map[string]func(w *Waiter, words *[2]uint64, rounds int){
		"Wait": func(w *Waiter, words *[2]uint64, rounds int) {
			w.Serve(endAfter(words, rounds))
			_, _ = w.Wait(&Cond{Addr: unsafe.Pointer(words), Val: 1, Width: 8}, nil)
		},
		"WaitAny": func(w *Waiter, words *[2]uint64, rounds int) {
			w.Serve(endAfter(words, rounds))
			_, _ = w.WaitAny(&Set{Cond: Cond{Addr: unsafe.Pointer(words), Val: 1, Width: 8}, N: 2}, nil)
		},
		"WaitPoll": func(w *Waiter, words *[2]uint64, rounds int) {
			serve := endAfter(words, rounds)
			_ = w.WaitPoll(pollFunc(func() Look {
				if serve(); atomic.LoadUint64(&words[0]) == 1 {
					return Over
				}
				return Nothing
			}), nil)
		},
	} {
		var words [2]uint64
		var bell layout.Bell
		m := loaded{busy: true, now: time.Second}
		w := m.waiter(&bell, p)
		for range 20 {
			words[0] = 0
			wait(w, &words, 60)
		}
		if most := timedWaits*untimedTurns + 4; m.yields > most {
			t.Errorf("%s: %d yields in 20 waits under load, want at most %d", kind, m.yields, most)
		}
		m.busy, m.yields = false, 0
		m.now += 100 * time.Millisecond
		words[0] = 0
		wait(w, &words, 60)
		if m.yields < p.Yields {
			t.Errorf("%s: %d yields in a wait 100 ms after the load, want at least %d", kind, m.yields, p.Yields)
		}
	}
}

// endAfter returns a function whose calls-th call sets a word to 1.
func endAfter(words *[2]uint64, calls int) func() bool {
	return func() bool {
		if calls--; calls == 0 {
			atomic.StoreUint64(&words[0], 1)
		}
		return false
	}
}

type pollFunc func() Look

func (f pollFunc) Poll() Look { return f() }

// The time of Serve's function between two yields does not count as a long yield.
func TestWorkIsNoYield(t *testing.T) {
	var word uint64
	var bell layout.Bell
	var m loaded
	w, calls := m.waiter(&bell, PolicyFor(4, 2)), 0
	w.Serve(func() bool {
		m.now += 10 * time.Millisecond
		if calls++; calls == 10 {
			word = 1
		}
		return true
	})
	if _, err := w.Wait(&Cond{Addr: unsafe.Pointer(&word), Val: 1, Width: 8}, nil); err != nil || m.yields != 9 {
		t.Errorf("error %v after %d yields, want none after 9", err, m.yields)
	}
}
