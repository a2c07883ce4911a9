package wait

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Parked goroutines
//
// A goroutine that sleeps on the bell occupies a thread, and each ring wakes all that do. So of all waits for
// Parkers in a process, one at a time sleeps on the bell: the driver. The others park: they occupy no thread,
// and what ends their waits wakes them (Parked.Wake). Mostly that is the driver, whose looks make progress for all.
//
//   - Role: the first wait that comes to its sleep phase becomes the driver, and stays it until it is over. Then
//     it passes the role on to the goroutine that has parked last, whose data are most likely cached.
//   - Invariant: while goroutines are parked there is a driver, or one of them is about to become it.
//   - No wake-up is lost: Parker.Park and whatever ends the wait exclude each other. What the driver does not
//     see (the end of ctx, Close) wakes by itself.
//   - Polls and yields come before. So a wait that is short, as most are, knows nothing of all this.

// Parker is a Poller whose wait can be left to the driver.
type Parker interface {
	Poller
	// Park has g woken when the wait may be over, unless that is so already: then Park returns false.
	Park(g *Parked) bool
	// Unpark ends what Park has begun.
	Unpark()
	// Idle is called on the driver after each sleep that nothing has ended, with its length.
	Idle(slept time.Duration)
}

// Parked is a goroutine that has parked, or the driver asleep.
type Parked struct {
	bell   *layout.Bell  // of the driver; nil: of a goroutine that has parked
	wake   chan struct{} // of a goroutine that has parked
	drives bool          // it has got the role. Guarded by parking.mu
}

// Wake wakes the goroutine if it sleeps. It does not wait. One Wake too many costs the goroutine a look.
func (g *Parked) Wake() {
	if g.bell != nil {
		rma.WakeOwner(g.bell)
		return
	}
	select {
	case g.wake <- struct{}{}:
	default: // it was woken already
	}
}

// parking has the parked goroutines of a Waiter.
type parking struct {
	mu     sync.Mutex
	driven bool         // there is a driver
	parked []*Parked    // in the order in which they have parked
	count  atomic.Int32 // of parked
	driver Parked       // the driver asleep
}

// parkedPool has what goroutines have used that are parked no more.
var parkedPool = sync.Pool{New: func() any { return &Parked{wake: make(chan struct{}, 1)} }}

// sleepOrPark is the sleep phase of a wait that can be left to the driver. It sleeps on the bell as the driver, or parks until the
// wait may be over. drives says whether the wait is the driver, before and after.
func (w *Waiter) sleepOrPark(p Parker, ctx context.Context, timeout *time.Duration, drives *bool) (Look, error) { //nolint:revive // as Wait
	if !*drives {
		k := &w.parking
		k.mu.Lock()
		if k.driven {
			g := parkedPool.Get().(*Parked) //nolint:errcheck,forcetypeassert // New makes nothing else
			k.parked = append(k.parked, g)
			k.count.Add(1)
			k.mu.Unlock()
			return w.park(g, p, ctx, drives)
		}
		k.driven, *drives = true, true
		k.mu.Unlock()
	}
	if !p.Park(&w.parking.driver) {
		return Over, nil
	}
	look, err := w.sleepPoll(p, ctx, timeout)
	p.Unpark()
	return look, err
}

// park sleeps as g until the wait may be over, or g gets the role of the driver.
func (w *Waiter) park(g *Parked, p Parker, ctx context.Context, drives *bool) (look Look, err error) { //nolint:revive // as Wait
	if look = Over; p.Park(g) {
		stop := func() bool { return true }
		if ctx != nil && ctx.Done() != nil {
			stop = context.AfterFunc(ctx, g.Wake)
		}
		if look = p.Poll(); look == Nothing && w.expired(ctx) == nil { // what came before Park has woken nobody
			<-g.wake
			look = p.Poll()
		}
		stop()
		p.Unpark()
	}
	*drives = w.unpark(g)
	if look != Over {
		err = w.expired(ctx)
	}
	return look, err
}

// unpark takes a goroutine from the parked ones, and says whether it is the driver now.
func (w *Waiter) unpark(g *Parked) (drives bool) {
	k := &w.parking
	k.mu.Lock()
	if drives = g.drives; !drives {
		i := slices.Index(k.parked, g)
		k.parked = slices.Delete(k.parked, i, i+1)
		k.count.Add(-1)
	}
	k.mu.Unlock()
	g.drives = false
	parkedPool.Put(g)
	return drives
}

// passOn ends the driver's role, as its wait is over.
func (w *Waiter) passOn() {
	k := &w.parking
	k.mu.Lock()
	defer k.mu.Unlock()
	last := len(k.parked) - 1
	if last < 0 {
		k.driven = false
		return
	}
	g := k.parked[last]
	k.parked[last], k.parked = nil, k.parked[:last]
	k.count.Add(-1)
	g.drives = true
	g.Wake()
}

// wakeParked wakes all parked goroutines.
func (w *Waiter) wakeParked() {
	k := &w.parking
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range k.parked {
		g.Wake()
	}
}

// HasParked reports whether goroutines are parked.
func (w *Waiter) HasParked() bool { return w.parking.count.Load() > 0 }
