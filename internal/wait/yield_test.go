package wait

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Yields pause when they cost much, and only then: short ones never do, long ones now and
// then do not, and beside lasting load pauses grow up to the longest.
func TestYieldsPause(t *testing.T) {
	const ms = time.Millisecond
	type yield struct {
		short  int           // yields of 0.1 ms before it
		length time.Duration // its own
		pause  time.Duration // that begins with its end
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
					t.Errorf("%s: a short yield before yield %d pauses yields", name, i)
				}
			}
			now += x.length
			if paused := y.recordYield(x.length, now); paused != (x.pause > 0) || y.paused(now) != paused {
				t.Errorf("%s: yield %d of %v pauses yields: %v, want %v", name, i, x.length, paused, x.pause > 0)
			}
			now += x.pause
			if x.pause > 0 && (!y.paused(now-1) || y.paused(now)) {
				t.Errorf("%s: the pause behind yield %d is not of %v", name, i, x.pause)
			}
		}
	}
	var untimed yielding
	if untimed.recordYield(time.Hour, 2*time.Hour) {
		t.Error("yields pause without a limit for their length")
	}
}

// Long yields to PEs of the job that compute do not pause yields: these have had the
// processors meanwhile. What the processors did in a pause says nothing of the yields behind it.
func TestYieldsToPEsThatCompute(t *testing.T) {
	const ms, cores = time.Millisecond, 2
	for name, x := range map[string]struct {
		had    time.Duration // by the job, of each millisecond of each processor
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
				now = time.Duration(y.until.Load()) // nobody has run
			}
		}
		if paused != x.pauses {
			t.Errorf("the job had %s: yields paused is %v, want %v", name, paused, x.pauses)
		}
		if !x.pauses {
			continue
		}
		y.refreshSpent(now) // the others have gone
		for range 10 {
			now += 2 * ms
			if used += 2 * cores * ms; y.recordYield(2*ms, now) {
				t.Errorf("the job had %s, then all: yields pause", name)
			}
		}
	}
}

// Yields are timed while few PEs share a processor, as otherwise their own turns take as
// long as a stranger's slice.
func TestLongYieldAmong(t *testing.T) {
	for n, timed := range map[int]bool{1: true, 2: true, 4: true, 8: true, 9: false, 32: false, 128: false} {
		if long := PolicyFor(n, 2).Long; (long != 0) != timed {
			t.Errorf("%d PEs on 2 processors: a yield of %v is long, want a limit: %v", n, long, timed)
		}
	}
}

// loaded is a machine with a clock of its own, on which each yield costs a stranger's slice
// while busy is set. It counts yields.
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

// Beside load, every kind of wait sleeps after a few yields, and waits go on to do so while
// the load lasts; 100 ms after its end they yield as before.
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
			t.Errorf("%s: %d yields in 20 waits beside load, want %d at most", kind, m.yields, most)
		}
		m.busy, m.yields = false, 0
		m.now += 100 * time.Millisecond
		words[0] = 0
		wait(w, &words, 60)
		if m.yields < p.Yields {
			t.Errorf("%s: %d yields in a wait 100 ms after the load, want %d or more", kind, m.yields, p.Yields)
		}
	}
}

// endAfter returns what sets a word to 1 when it is called so many times.
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

// What Serve's function does between two yields is not taken for a long yield.
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
