package wait

import (
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/rma"
)

// yielding decides whether a process yields the processor while it waits. All times come from the caller's
// clock.
//
// Why yields pause:
//
//   - A yield is the cheapest way to let another PE of the job run. A PE that waits as well yields back
//     within microseconds.
//   - A process that computes keeps the processor until the next tick of the kernel's clock, 1 to 10 ms
//     later. A writer cannot shorten that, because a process that yields is not asleep.
//   - A sleeper is woken at once, and the kernel prefers it to processes that have had their share.
//   - So long yields pause all yields of the process: its waits go from their polls straight to sleep.
//
// When yields pause:
//
//   - A single long yield means little. On a quiet machine, other processes run for a millisecond now and
//     then.
//   - Strangers of another session get their share from the kernel without a yield. PEs make thousands of
//     short yields between their slices, so these strangers do not matter either.
//   - The state to avoid is that nearly every yield is long. So long yields add up to a debt, and
//     shortYields short ones in a row pay it off. Yields pause when the debt reaches mostDebt.
//
// How a pause ends:
//
//   - A pause ends by itself. The next wait tries a yield, with a debt just below the limit.
//   - If one of the first yields is long, the next pause follows and is twice as long, up to longestPause.
//   - longestPause limits the cost of both mistakes: one slice of a stranger for each pause while the load
//     lasts, and one pause with sleeps after the load has ended.
//
// PEs of the job that compute make yields long as well, and yields to them should go on. The processor time
// that all PEs have used since the latest long yield tells them from strangers: if the PEs have used nearly
// all of it, no stranger can have had the time of this yield.
//
// Concurrent calls are allowed. A lost update costs one more long yield.
type yielding struct {
	long         time.Duration // a yield of this length went to a stranger or to a PE that computes; 0: all yields are short
	until        atomic.Int64  // when the latest pause ends or has ended
	pause        atomic.Int64  // length of the latest pause
	debt         atomic.Int64  // time that long yields have cost
	short        atomic.Int64  // short yields since the latest long one or the latest pause
	fresh        atomic.Bool   // no yield has been long since the latest pause
	untimedWaits uint64        // waits since the latest one whose first yields were timed

	spent     func() time.Duration // processor time that the job's PEs have used on this node; nil: unknown
	cores     int                  // processors of these PEs
	spentAt   atomic.Int64         // when spent was called last; 0: never
	spentThen atomic.Int64         // its result then
}

const (
	firstPause   = 5 * time.Millisecond
	longestPause = 40 * time.Millisecond
	mostDebt     = 6 * time.Millisecond // less than two slices with a kernel clock of 4 ms
	shortYields  = 32                   // short yields in a row that pay the debt off
	untimedTurns = 2                    // first yields of a wait that are not timed, while there is no debt
	timedWaits   = 4                    // every timedWaits-th wait times its first yields all the same
)

// paused says whether yields pause.
func (y *yielding) paused(now time.Duration) bool { return now < time.Duration(y.until.Load()) }

// hasDebt says whether there is a debt that short yields have not paid off yet.
func (y *yielding) hasDebt() bool { return y.debt.Load() != 0 && y.short.Load() < shortYields }

// skipsTiming says whether a wait may leave its first yields untimed. Reading the clock twice costs a good part of a
// yield that finds no other process, and most waits end after their first or second yield. The price:
// when strangers come, some waits lose a slice or two before one is timed.
func (y *yielding) skipsTiming() bool {
	if y.hasDebt() {
		return false
	}
	n := atomic.LoadUint64(&y.untimedWaits) + 1
	if n == timedWaits {
		n = 0
	}
	rma.StoreRelease(&y.untimedWaits, n)
	return n != 0
}

// recordYield records the length of a yield that ends now. It returns true if yields pause from now on.
func (y *yielding) recordYield(length, now time.Duration) bool {
	if y.long == 0 || length < y.long {
		if y.hasDebt() {
			y.short.Store(y.short.Load() + 1)
		}
		return false
	}
	if y.paused(now) { // another goroutine's yield has begun the pause
		return true
	}
	if y.wentToOwnPEs(length, now) {
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

// wentToOwnPEs says whether a long yield that ends now went to the job's own PEs: the processor time that they did
// not use since spent was called last is less than three quarters of the yield. The missing quarter allows
// for a stranger's short turns. Idle time of a processor counts as a stranger's, because it may have been
// this processor for all that is known.
//
//   - Cost: a system call for each PE, only after a long yield.
func (y *yielding) wentToOwnPEs(length, now time.Duration) bool {
	if y.spent == nil {
		return false
	}
	asked, before := time.Duration(y.spentAt.Load()), time.Duration(y.spentThen.Load())
	used := y.readSpent(now)
	others := time.Duration(y.cores)*(now-asked) - (used - before)
	return asked != 0 && now-asked >= length && others < length*3/4
}

// readSpent records the processor time that the PEs have used up to now.
func (y *yielding) readSpent(now time.Duration) time.Duration {
	used := y.spent()
	y.spentAt.Store(int64(now))
	y.spentThen.Store(int64(used))
	return used
}

// refreshSpent is called before timed yields. After a pause it calls spent anew, because processors were idle
// during the pause, and wentToOwnPEs would take that time for a stranger's.
func (y *yielding) refreshSpent(now time.Duration) {
	if y.spent != nil && y.spentAt.Load() < y.until.Load() {
		y.readSpent(now)
	}
}

// A yield to the job's own waiting PEs lasts until each PE on the same processor has had a turn.
const (
	longYield = 500 * time.Microsecond // shortest slice of a stranger
	longTurn  = 20 * time.Microsecond  // longest turn of a PE that waits
	mostTurns = 4                      // most PEs on a processor for which yields can be told from slices
)

// longYieldAmong returns the shortest length of a yield that went to a stranger, or 0 if the length does not
// tell. With more than mostTurns PEs on a processor, a round of their turns takes as long as a slice. A pause
// would then prolong itself, because PEs that sleep and wake take longer turns than PEs that yield: 128 PEs on
// 2 processors took 0.3 ms for a barrier with yields, and did not get out of such a pause for 25 s.
func longYieldAmong(localPEs, cores int) time.Duration {
	turns := (localPEs + cores - 1) / cores
	if turns > mostTurns {
		return 0
	}
	return longYield + time.Duration(turns)*longTurn
}

// mostLost is the time that one wait gives to the job's PEs by long yields before it checks its context.
const mostLost = 20 * time.Millisecond

// turns is the yield phase of one wait.
type turns struct {
	w       *Waiter
	left    int           // yields that are left
	untimed int           // yields that are left before the clock is read
	last    time.Duration // when the latest timed yield ended, or when timing began
	lost    time.Duration // time of long yields to the job's PEs
}

// turns begins the yield phase of a wait. The phase is empty while yields pause.
func (w *Waiter) turns() turns {
	t := turns{w: w, left: w.Yields}
	if w.yields.skipsTiming() {
		t.untimed = min(untimedTurns, t.left)
		return t
	}
	if t.last = w.clock(); w.yields.paused(t.last) {
		t.left = 0
	} else {
		w.yields.refreshSpent(t.last)
	}
	return t
}

// next yields the processor and returns true, or false when the phase is over. Work of the caller between two
// calls counts as part of the yield, unless the caller calls restartTiming after it.
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
	if t.w.yields.recordYield(length, t.last) {
		t.left = 0 // the caller still checks its condition once
	} else if long != 0 && length >= long {
		if t.lost += length; t.lost >= mostLost {
			t.left = 0
		}
	}
	return true
}

// restartTiming restarts the timing: the caller has worked since the latest yield.
func (t *turns) restartTiming() { t.last = t.w.clock() }

// started is the zero of clock.
var started = time.Now()

func clock() time.Duration { return time.Since(started) }

// Yielder yields the processor outside of waits. The zero value is ready to use.
type Yielder struct{ yielding }

// GiveWay yields the processor, so that processes which Rouse has woken run first if they wait for it. It
// does nothing while yields pause.
func (y *Yielder) GiveWay() {
	y.long = longYield
	began := clock()
	if y.paused(began) {
		return
	}
	xunix.SchedYield()
	now := clock()
	y.recordYield(now-began, now)
}
