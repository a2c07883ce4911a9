package wait

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

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

// Waiter waits for peers on behalf of one process. A process has one Waiter for its job. Any goroutine may
// call its methods.
type Waiter struct {
	Policy
	bell     *layout.Bell           // this PE's bell: peers ring it, goroutines of this process sleep on it
	failures *failure.View          // the failure page; nil: deaths do not end waits
	progress *layout.Progress       // where Beat counts
	sleepers atomic.Int32           // goroutines of this process in the sleep phase
	awaited  atomic.Uint64          // see awaited.go
	armings  atomic.Uint32          // how often the bell was armed
	closed   atomic.Bool            // Close was called
	servers  hook.List[func() bool] // functions given to Serve
	barrier  bool                   // membarrier works: writers need no fence before they read the bell
	single   bool                   // the Go runtime has one processor: see giveWay
	parking  parking
	yields   yielding
	yield    func()               // sched_yield; tests replace it
	clock    func() time.Duration // time since the start of the process; tests replace it
}

// NewWaiter returns a Waiter for the PE that owns the bell. It registers the process for membarrier.
//
// If membarrier is missing, NewWaiter marks the bell (AskLocked): its writers read it a second time after a
// locked instruction. The caller must then mark the bells of all PEs that this process writes to.
func NewWaiter(bell *layout.Bell, p Policy) *Waiter {
	w := &Waiter{
		Policy: p, bell: bell, progress: new(layout.Progress), barrier: xunix.MembarrierRegister() == nil, single: runtime.GOMAXPROCS(0) == 1,
		yields: yielding{long: p.Long}, yield: xunix.SchedYield, clock: clock,
	}
	w.parking.driver.bell = bell
	if !w.barrier {
		rma.AskLocked(bell)
	}
	return w
}

// Watch makes the deaths in v end waits with ErrFailure. It must be called before the first wait.
func (w *Waiter) Watch(v *failure.View) { w.failures = v }

// Beats makes Beat count in p. It must be called before the first wait.
func (w *Waiter) Beats(p *layout.Progress) { w.progress = p }

// Spends tells the waiter how much processor time the job uses: spent returns the time that the job's PEs
// on this node have used so far, cores is the number of their processors. With it, the waiter tells a long
// yield to the job's own PEs from one to strangers (yield.go). It must be called before the first wait.
func (w *Waiter) Spends(spent func() time.Duration, cores int) {
	w.yields.spent, w.yields.cores = spent, cores
}

// Beat counts progress of the program. The watch for hangs checks whether the count changes. Every wait
// beats once when it begins, and so does every call that may wait in another way.
//
//   - Concurrent calls: allowed; beats at the same moment may count as one, which saves a locked instruction.
//   - Cost: a load and a store, on a cache line that this PE owns.
func (w *Waiter) Beat() {
	rma.StoreRelease(&w.progress.Count, atomic.LoadUint64(&w.progress.Count)+1)
}

// Close ends all present and future waits of this process with ErrClosed.
func (w *Waiter) Close() {
	w.closed.Store(true)
	rma.WakeOwner(w.bell)
	w.wakeParked()
}

// Epoch returns the epoch of the failure page, or 0 without one: the number of publications of deaths so far. A
// caller that loads it, looks for deaths that matter to it, and waits with it in Cond.Seen misses no death.
func (w *Waiter) Epoch() uint64 { return w.failures.Epoch() }

// Expedited says whether membarrier works here.
func (w *Waiter) Expedited() bool { return w.barrier }

// Wait waits until the condition holds. It returns the word as it was read last, extended to 64 bits.
//
//   - Phases: Wait polls, then yields the processor (unless strangers would get it), then sleeps on this
//     PE's bell. A wait that is woken polls again before the next sleep, because the next write often
//     follows soon.
//   - Errors: the cause of ctx if ctx (which may be nil) ends first; ErrFailure if a death beyond c.Seen is
//     published; ErrClosed after Close. If the condition holds as well, Wait returns no error: nothing that
//     a PE wrote before its death is missed.
//   - Timeout: each sleep has one, because a writer may die between its store and its wake-up.
//
// # Failures
//
// Wait reads the failure page only in its slow half: after the polls, after each yield, and before each
// sleep. No death is slept over:
//
//   - The step stores the epoch, then reads the bell (Rouse).
//   - The sleeper sets the bell, then reads the epoch.
//   - All four accesses are sequentially consistent, because both stores are locked instructions. So the
//     step sees the bell set, or the sleeper sees the new epoch.
//   - A step that sees the bell set clears it, then wakes. If that happens between the sleeper's read and
//     its sleep, the futex compares another value and the sleeper does not sleep.
//
// This argument does not use the sleeper's membarrier. That serves writers which store without a fence. It
// does not reach the step, which maps the bells but may not be registered. The step needs no BellAsk
// either, as its read of the bell is locked anyway. If the step dies between its two accesses, the job
// ends, and the sleep ends by its timeout.
func (w *Waiter) Wait(c *Cond, ctx context.Context) (uint64, error) { //nolint:revive // the condition is the subject, the context optional
	w.Beat()
	polls := w.Polls
	if c.Alone {
		polls = min(polls, agentPolls)
	}
	for timeout := w.First; ; {
		for range polls {
			if x := c.Load(); c.holds(x) {
				return x, nil
			}
		}
		if w.diedSince(c.Seen) {
			return w.giveUp(c)
		}
		_, over := w.serveAndLook(ctx)
		for t := w.turns(); over == nil && !c.Alone && t.next(); {
			var worked bool
			if worked, over = w.serveAndLook(ctx); worked {
				t.restartTiming()
			}
			if x := c.Load(); c.holds(x) {
				return x, nil
			}
			if w.diedSince(c.Seen) {
				return w.giveUp(c)
			}
		}
		if over != nil {
			x := c.Load()
			if c.holds(x) {
				over = nil
			}
			return x, over
		}
		if x, err := w.sleep(c, ctx, &timeout); err != nil || c.holds(x) {
			return x, err
		}
	}
}

// serveAndLook serves peers, and looks whether the wait is over if there was work: it may have ended ctx.
func (w *Waiter) serveAndLook(ctx context.Context) (worked bool, over error) {
	if !w.ServePeers() {
		return false, nil
	}
	return true, w.expired(ctx)
}

// AwaitDeaths waits until known returns true. It looks again after each death.
//
//   - Errors: the cause of ctx; ErrClosed.
func (w *Waiter) AwaitDeaths(ctx context.Context, known func() bool) error {
	var never uint64
	for {
		c := Cond{Addr: unsafe.Pointer(&never), Val: 1, Width: 8, Seen: w.Epoch()}
		if known() {
			return nil
		}
		if _, err := w.Wait(&c, ctx); !errors.Is(err, ErrFailure) {
			return err
		}
	}
}

// agentPolls is how often a wait for the agent alone polls before it sleeps.
const agentPolls = 20

// soon bounds the first sleep of a wait for the agent: see giveWay.
const soon = 400 * time.Microsecond

// giveWay comes before a sleep whose end is near. It says whether the sleep goes past the Go scheduler.
//
//   - In a process with GOMAXPROCS=1 the runtime's monitor thread takes the processor away from each system call of 20 us, and is
//     woken by the end of each. This costs more than a round trip to another agent. So such a sleep keeps the processor.
//   - Other goroutines have their turn first. So many of them have their round trips under way together.
//   - With more processors the runtime leaves a call alone while one of them is idle.
func (w *Waiter) giveWay() bool {
	if w.single {
		runtime.Gosched()
	}
	return w.single
}

// sleep is the last phase of Wait. It returns when the condition holds, when the wait is over, or when a
// writer has rung the bell.
func (w *Waiter) sleep(c *Cond, ctx context.Context, timeout *time.Duration) (uint64, error) { //nolint:revive // as Wait
	briefly := c.Agent && w.giveWay()
	w.sleepers.Add(1)
	defer w.leaveSleep()
	w.publishAwaited(c)
	for ; ; *timeout = min(2**timeout, w.Most) {
		armed := w.armBell(c.Agent && len(w.servers.All()) == 0) // peers that are served ring the bell, too
		x := c.Load()
		if c.holds(x) {
			return x, nil
		}
		if err := w.expired(ctx); err != nil {
			return x, err
		}
		if w.diedSince(c.Seen) {
			return w.giveUp(c)
		}
		if worked, over := w.serveAndLook(ctx); worked {
			if x = c.Load(); c.holds(x) {
				over = nil
			}
			return x, over
		}
		err := xunix.ErrTimeout
		if briefly {
			briefly = false
			err = xunix.FutexWaitSoon(&w.bell.Sleeping, armed, soon)
		}
		if errors.Is(err, xunix.ErrTimeout) {
			err = xunix.FutexWait(&w.bell.Sleeping, armed, *timeout)
		}
		if !errors.Is(err, xunix.ErrTimeout) {
			return c.Load(), err
		}
	}
}

// diedSince says whether a death was published after epoch seen. View.Epoch of a nil View is 0.
func (w *Waiter) diedSince(seen uint64) bool { return w.failures.Epoch() > seen }

// giveUp ends a wait because of a death, unless the condition holds. It reads the word after the failure
// page was read, so nothing that the dead PE wrote is missed.
func (w *Waiter) giveUp(c *Cond) (uint64, error) {
	x := c.Load()
	if c.holds(x) {
		return x, nil
	}
	return x, ErrFailure
}

// armBell sets the bell and returns its value. After armBell, a writer's data are visible here, or the writer will
// see the bell set.
//
//   - fenced says that the writers order their stores before their reads of the bell by themselves, as this goroutine orders
//     the two accesses here. It sees the data, or the writer sees the bell.
//   - With membarrier: the call puts a barrier into every running writer. A writer's store comes before
//     the barrier and is visible here, or its read of the bell comes after the barrier and sees it set.
//   - Without membarrier: the bell has BellAsk, and writers read it after a locked instruction.
//   - Each arming after a ring stores another number. A goroutine that armed the bell earlier and is about
//     to sleep then finds another value in the futex than its own, and looks again: the ring was for it.
//   - The store is a locked instruction, so this goroutine's earlier stores are visible before it.
func (w *Waiter) armBell(fenced bool) (armed uint32) {
	for {
		old := atomic.LoadUint32(&w.bell.Sleeping)
		if armed = old; old&layout.BellAsleep == 0 {
			armed |= layout.BellAsleep | w.armings.Add(1)<<layout.BellBits
		}
		if atomic.CompareAndSwapUint32(&w.bell.Sleeping, old, armed) {
			break
		}
	}
	if w.barrier && !fenced {
		_ = xunix.Membarrier() // registered, so it cannot fail
	}
	return armed
}

// leaveSleep ends the sleep phase of a goroutine. The last one clears the bell, to spare the next writer a system
// call.
//
// Another goroutine may begin to sleep meanwhile. It counts itself in sleepers before it arms the bell; leaveSleep
// clears the bell before it reads sleepers.
//
//   - It arms after the clear: the bell is set, as it should be.
//   - It arms before the clear: leaveSleep reads sleepers above 0 and wakes all sleepers, which look again and
//     arm the bell anew.
func (w *Waiter) leaveSleep() {
	if w.sleepers.Add(-1) > 0 {
		return
	}
	atomic.AndUint32(&w.bell.Sleeping, layout.BellAsk) // a locked instruction: ordered before the load
	if w.sleepers.Load() > 0 {
		xunix.FutexWake(&w.bell.Sleeping, 1<<30)
	}
}

// expired returns an error if the process has finalized or ctx has ended. It compares the deadline with the
// clock as well: in a process whose only processor is busy, the timer of ctx may be late.
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
