package wait

import (
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/rma"
)

// yielding decides whether a process yields the processor while it waits. All its
// times come from the caller's clock.
//
// A yield is the cheapest way to let another PE of the job run: a PE that waits as
// well yields back within microseconds. A process that computes keeps the processor
// until the next tick of the kernel's clock, 1 to 10 ms later. No writer can cut that
// short, because a process that yields is not asleep. A sleeper is woken at once, and
// the kernel prefers it to processes that have had their share. So a long yield pauses
// all yields of the process: its waits go from their polls straight to sleep.
//
// A single long yield means little: on a quiet machine, other processes run for a
// millisecond now and then. Nor do strangers matter that the kernel gives their share
// without a yield, those of another session: between their slices, PEs make thousands
// of short yields. What waits must get out of is that nearly each yield is long. So
// long yields add up to a debt, which a number of short ones in a row pays off. Yields
// pause when the debt reaches a limit.
//
// A pause ends by itself, and the next wait tries a yield, with a debt just below the
// limit. If one of the first yields is long, the next pause follows and is twice as
// long. The longest pause limits the price of both mistakes: one slice of a stranger
// for each pause while the load lasts, and one pause of sleeps after the load has ended.
//
// PEs of the job that compute make long yields as well. What tells them from strangers is
// the processor time that all PEs have used since the latest long yield: where they have had
// nearly all that there was, nobody else can have had the time of this yield.
//
// Concurrent calls are allowed. A lost update costs one more long yield.
type yielding struct {
	long  time.Duration // a yield of this length went to a stranger, or to a PE that computes; 0: all yields are short
	until atomic.Int64  // when the latest pause ends or has ended
	pause atomic.Int64  // how long the latest pause is
	debt  atomic.Int64  // what long yields have cost
	short atomic.Int64  // short yields since the latest long one or the latest pause
	fresh atomic.Bool   // no yield has been long since the latest pause
	blind uint64        // waits since the latest one whose first yields were timed

	spent func() time.Duration // processor time of the job's PEs here; nil: not known
	cores int                  // that they have
	asked atomic.Int64         // when spent was asked last, 0: never
	used  atomic.Int64         // what it said then
}

const (
	firstPause   = 5 * time.Millisecond
	longestPause = 40 * time.Millisecond
	mostDebt     = 6 * time.Millisecond // less than two slices where the kernel's clock ticks every 4 ms
	shortYields  = 32                   // pay the debt off
	untimedTurns = 2                    // first yields of a wait that go without a clock, while nothing is owed
	timedWaits   = 4                    // one wait in so many times them all the same
)

// paused says whether yields pause.
func (y *yielding) paused(now time.Duration) bool { return now < time.Duration(y.until.Load()) }

// owes says that long yields have cost something that short ones have not paid off yet.
func (y *yielding) owes() bool { return y.debt.Load() != 0 && y.short.Load() < shortYields }

// calm says that a wait may leave its first yields untimed. Two looks at a clock cost
// a good part of a yield that finds nobody, and most waits end behind their first or second
// yield. When strangers come, some waits lose a slice or two before one is timed.
func (y *yielding) calm() bool {
	if y.owes() {
		return false
	}
	n := atomic.LoadUint64(&y.blind) + 1
	if n == timedWaits {
		n = 0
	}
	rma.StoreRelease(&y.blind, n)
	return n != 0
}

// note takes the length of a yield that ends now. It says whether yields pause from
// now on.
func (y *yielding) note(length, now time.Duration) bool {
	if y.long == 0 || length < y.long {
		if y.owes() {
			y.short.Store(y.short.Load() + 1)
		}
		return false
	}
	if y.paused(now) { // another goroutine's yield has said so
		return true
	}
	if y.ours(length, now) {
		return false
	}
	rest := time.Duration(y.debt.Load())
	if y.short.Swap(0) >= shortYields {
		rest = 0
	}
	again := y.fresh.Swap(false) && rest > 0
	if rest+length < mostDebt {
		y.debt.Store(int64(rest + length))
		return false
	}
	pause := firstPause
	if again {
		pause = min(2*time.Duration(y.pause.Load()), longestPause)
	}
	y.pause.Store(int64(pause))
	y.debt.Store(int64(mostDebt - 1))
	y.fresh.Store(true)
	y.until.Store(int64(now + pause))
	return true
}

// ours says whether a long yield that ends now went to the job's own PEs. A processor that was
// idle meanwhile may have been this one for all that is known, so a quarter of the yield
// may be missing.
//
//   - Cost: a system call for each PE, where a yield was long.
func (y *yielding) ours(length, now time.Duration) bool {
	if y.spent == nil {
		return false
	}
	asked, before := time.Duration(y.asked.Load()), time.Duration(y.used.Load())
	used := y.ask(now)
	others := time.Duration(y.cores)*(now-asked) - (used - before)
	return asked != 0 && now-asked >= length && others < length*3/4
}

// ask notes what the PEs have spent up to now.
func (y *yielding) ask(now time.Duration) time.Duration {
	used := y.spent()
	y.asked.Store(int64(now))
	y.used.Store(int64(used))
	return used
}

// resume is called before yields that are timed. Behind a pause, in which processors were
// idle, it asks anew.
func (y *yielding) resume(now time.Duration) {
	if y.spent != nil && y.asked.Load() < y.until.Load() {
		y.ask(now)
	}
}

// A yield to the job's own PEs, if these wait as well, lasts until each of those on the same
// processor has had a turn.
const (
	longYield = 500 * time.Microsecond // no stranger's slice is shorter
	longTurn  = 20 * time.Microsecond  // of a PE that waits
	mostTurns = 4                      // PEs on a processor, with which yields can be told from slices
)

// longYieldAmong returns from which length on a yield went to a stranger, or 0 if that
// cannot be told: where very many PEs share a processor, a round of their turns takes as
// long as a slice. A pause would then prolong itself, because PEs that sleep and wake make
// longer turns than PEs that yield. 128 PEs on 2 processors took 0.3 ms for a barrier
// with yields and did not get out of such a pause for 25 s.
func longYieldAmong(localPEs, cores int) time.Duration {
	turns := (localPEs + cores - 1) / cores
	if turns > mostTurns {
		return 0
	}
	return longYield + time.Duration(turns)*longTurn
}

// mostLost is how much time one wait gives to the job's PEs by long yields before it looks
// whether its context has ended.
const mostLost = 20 * time.Millisecond

// turns is the second phase of one wait: a number of yields.
type turns struct {
	w       *Waiter
	left    int
	untimed int           // of those: how many come before the clock is looked at
	last    time.Duration // when the latest timed yield ended, or timing began
	lost    time.Duration // by long yields
}

// turns begins the second phase of a wait.
func (w *Waiter) turns() turns {
	t := turns{w: w, left: w.Yields}
	if w.yields.calm() {
		t.untimed = min(untimedTurns, t.left)
		return t
	}
	if t.last = w.clock(); w.yields.paused(t.last) {
		t.left = 0
	} else {
		w.yields.resume(t.last)
	}
	return t
}

// next yields the processor and returns true, or false when the phase is over. What
// the caller does between two calls counts as a part of the yield, unless it says so by
// worked.
func (t *turns) next() bool {
	if t.left == 0 {
		return false
	}
	t.left--
	if t.untimed > 0 {
		t.w.yield()
		if t.untimed--; t.untimed == 0 {
			t.last = t.w.clock()
		}
		return true
	}
	t.w.yield()
	began := t.last
	t.last = t.w.clock()
	length, long := t.last-began, t.w.yields.long
	if t.w.yields.note(length, t.last) {
		t.left = 0 // the caller looks once more
	} else if long != 0 && length >= long {
		if t.lost += length; t.lost >= mostLost {
			t.left = 0
		}
	}
	return true
}

// worked says that the caller has done something since the latest yield.
func (t *turns) worked() { t.last = t.w.clock() }

// started is when clocks began to run.
var started = time.Now()

func clock() time.Duration { return time.Since(started) }

// Yielder gives way to other processes outside of waits. The zero value is ready.
type Yielder struct{ yielding }

// GiveWay lets those processes go first that Rouse has woken, if they wait for the
// processor of the caller. It does nothing while yields go to strangers.
func (y *Yielder) GiveWay() {
	y.long = longYield
	began := clock()
	if y.paused(began) {
		return
	}
	xunix.SchedYield()
	now := clock()
	y.note(now-began, now)
}
