package wait

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/hook"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// ErrClosed is the error of a wait whose own PE has finalized.
var ErrClosed = errors.New("the PE has finalized meanwhile")

// ErrFailure is the error of a wait during which a PE of the job has died: the failure page has an
// epoch beyond Cond.Seen.
var ErrFailure = errors.New("a PE of the job has died meanwhile")

// Waiter is how one process waits for its peers. There is one per process and
// job; its methods may be called by any goroutine.
type Waiter struct {
	Policy
	bell     *layout.Bell  // of this PE
	failures *failure.View // nil: waits are not ended by deaths
	progress *layout.Progress
	sleepers atomic.Int32 // goroutines of this process that want the bell
	awaited  atomic.Uint64
	armings  atomic.Uint32
	closed   atomic.Bool
	servers  hook.List[func() bool]
	barrier  bool // membarrier works: writers need no fence before they look at the bell
	yields   yielding
	yield    func() // sched_yield, unless a test has its own
	clock    func() time.Duration
}

// NewWaiter returns the waiter of the PE whose bell is given.
//
// It registers the process for membarrier. Where that is missing, the bell asks
// for a look behind a locked instruction, and so must those of all to whom this
// process writes (AskLocked).
func NewWaiter(bell *layout.Bell, p Policy) *Waiter {
	w := &Waiter{
		Policy: p, bell: bell, progress: new(layout.Progress), barrier: xunix.MembarrierRegister() == nil,
		yields: yielding{long: p.Long}, yield: xunix.SchedYield, clock: clock,
	}
	if !w.barrier {
		rma.AskLocked(bell)
	}
	return w
}

// Watch makes deaths that v tells of end waits with ErrFailure. It is called before the first wait.
func (w *Waiter) Watch(v *failure.View) { w.failures = v }

// Beats makes p the words in which Beat counts. It is called before the first wait.
func (w *Waiter) Beats(p *layout.Progress) { w.progress = p }

// Spends gives the waiter a function that returns the processor time which the job's PEs on this
// node have used so far, and the number of their processors. By it, the waiter tells long turns of
// the job's own PEs from those of strangers. It is called before the first wait.
func (w *Waiter) Spends(spent func() time.Duration, cores int) {
	w.yields.spent, w.yields.cores = spent, cores
}

// Beat counts progress of the program; the watch for hangs looks whether the count moves. Every wait
// beats once when it begins, and so does every call that may wait in another way. Beats of several
// goroutines at the same time may count as one: that saves a locked instruction.
//
//   - Cost: a load and a store, on a line that is this PE's.
func (w *Waiter) Beat() {
	rma.StoreRelease(&w.progress.Count, atomic.LoadUint64(&w.progress.Count)+1)
}

// Close ends all waits of this process, now and later, with ErrClosed.
func (w *Waiter) Close() {
	w.closed.Store(true)
	rma.WakeOwner(w.bell)
}

// Expedited says whether membarrier works here.
func (w *Waiter) Expedited() bool { return w.barrier }

// Wait returns when the condition holds, or with the cause when ctx, which may
// be nil, ends first, or with ErrFailure when a death is published that c.Seen does
// not cover; in all cases with the word as it was read last, extended to 64 bits.
// When the condition holds, that comes first: nothing that a PE has written before
// its death is missed.
//
// It is the one wait function of the project: it polls, then yields the
// processor unless strangers would get it, then sleeps on the PE's bell. A wait that
// is woken polls again before the next sleep, because what comes next is often near.
// The sleep has a timeout because a writer may die between its store and its wake-up.
//
// # Failures
//
// The failure page is looked at in the slow half of a wait only: when polls have
// been in vain, after each yield, and before each sleep. No publication is slept
// over. The step stores the epoch and then looks at the bell (Rouse), the sleeper
// sets the bell and then looks at the epoch, and all four accesses are sequentially
// consistent: the two stores are locked instructions. So either the step sees the
// bell, and clears it and wakes, or the sleeper sees the epoch. If the step comes
// between the sleeper's look and its sleep, it changes the word that the futex
// compares. The sleeper's membarrier has no part in this: it is for writers that
// store without a fence, and does not reach the step, which maps the bells but may
// not be registered. Nor need the step's look at the bell ask for BellAsk, as it is
// locked in any case. A step that dies between store and look is an end of the job;
// and the sleep ends by its timeout.
func (w *Waiter) Wait(c *Cond, ctx context.Context) (uint64, error) { //nolint:revive // the condition is the subject, the context optional
	w.Beat()
	for timeout := w.First; ; {
		for range w.Polls {
			if x := c.Load(); c.holds(x) {
				return x, nil
			}
		}
		if w.news(c.Seen) {
			return w.giveUp(c)
		}
		w.ServePeers()
		for t := w.turns(); t.next(); {
			if w.ServePeers() {
				t.worked()
			}
			if x := c.Load(); c.holds(x) {
				return x, nil
			}
			if w.news(c.Seen) {
				return w.giveUp(c)
			}
		}
		if x, err := w.sleep(c, ctx, &timeout); err != nil || c.holds(x) {
			return x, err
		}
	}
}

// sleep is the last phase of Wait. It returns when the condition holds, the
// wait is over, or somebody has rung the bell.
func (w *Waiter) sleep(c *Cond, ctx context.Context, timeout *time.Duration) (uint64, error) { //nolint:revive // as Wait
	w.sleepers.Add(1)
	defer w.leave()
	w.publish(c)
	for ; ; *timeout = min(2**timeout, w.Most) {
		armed := w.arm()
		x := c.Load()
		if c.holds(x) {
			return x, nil
		}
		if err := w.expired(ctx); err != nil {
			return x, err
		}
		if w.news(c.Seen) {
			return w.giveUp(c)
		}
		if w.ServePeers() {
			return x, nil
		}
		err := xunix.FutexWait(&w.bell.Sleeping, armed, *timeout)
		if !errors.Is(err, xunix.ErrTimeout) {
			return c.Load(), err
		}
	}
}

// news says whether a death was published after epoch seen.
func (w *Waiter) news(seen uint64) bool { return w.failures.Epoch() > seen }

// giveUp ends a wait because of a death, unless the condition holds. The word is read after the page,
// so nothing that the dead PE wrote is missed.
func (w *Waiter) giveUp(c *Cond) (uint64, error) {
	x := c.Load()
	if c.holds(x) {
		return x, nil
	}
	return x, ErrFailure
}

// arm sets the bell and returns what it is then. Behind it, either a writer's data
// are visible here or the writer will see the bell.
//
// A bell that is armed again is another word than before, as the number in it is another
// one: a goroutine of this process that was about to sleep when it was rung must not take it
// for the bell that it has armed itself. The instruction is a locked one in any case, which
// what this goroutine has stored before is seen behind.
func (w *Waiter) arm() (armed uint32) {
	for {
		old := atomic.LoadUint32(&w.bell.Sleeping)
		if armed = old; old&layout.BellAsleep == 0 {
			armed |= layout.BellAsleep | w.armings.Add(1)<<layout.BellBits
		}
		if atomic.CompareAndSwapUint32(&w.bell.Sleeping, old, armed) {
			break
		}
	}
	if w.barrier {
		_ = xunix.Membarrier() // registered, so it cannot fail
	}
	return armed
}

// leave clears the bell when nobody of this process sleeps any more, so that
// the next writer is spared a system call. A goroutine that began to sleep in
// between has set the word before or after the store here: if before, it is
// set again and everybody is woken to look once more.
func (w *Waiter) leave() {
	if w.sleepers.Add(-1) > 0 {
		return
	}
	atomic.AndUint32(&w.bell.Sleeping, layout.BellAsk) // ordered before the load
	if w.sleepers.Load() > 0 {
		xunix.FutexWake(&w.bell.Sleeping, 1<<30)
	}
}

// expired returns the cause when ctx has ended or its deadline has passed (a
// timer may be late in a process whose only processor is busy), or when the
// process has finalized.
func (w *Waiter) expired(ctx context.Context) error {
	if w.closed.Load() {
		return ErrClosed
	}
	if ctx == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return context.DeadlineExceeded
	}
	return nil
}
