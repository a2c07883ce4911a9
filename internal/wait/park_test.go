package wait

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goshmem/goshmem/symheap/layout"
)

// parker is a wait for a flag. Whoever sets the flag wakes it.
type parker struct {
	mu    sync.Mutex
	over  atomic.Bool
	g     *Parked
	idles *atomic.Int64
}

func (p *parker) Poll() Look {
	if p.over.Load() {
		return Over
	}
	return Nothing
}

func (p *parker) Park(g *Parked) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over.Load() {
		return false
	}
	p.g = g
	return true
}

func (p *parker) Unpark() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.g = nil
}

func (p *parker) Idle(time.Duration) { p.idles.Add(1) }

func (p *parker) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over.Store(true)
	if p.g != nil {
		p.g.Wake()
	}
}

// waiters begins a wait for each of n parkers, and returns when all but the driver are parked.
func waiters(t *testing.T, w *Waiter, ctx context.Context, n int) (all []*parker, errs []error, done *sync.WaitGroup) { //nolint:revive // the test comes first
	t.Helper()
	errs, done = make([]error, n), new(sync.WaitGroup)
	idles := new(atomic.Int64)
	for i := range n {
		p := &parker{idles: idles}
		all = append(all, p)
		done.Go(func() { errs[i] = w.WaitPoll(p, ctx) })
	}
	for int(w.parking.count.Load()) < n-1 || idles.Load() == 0 {
		time.Sleep(100 * time.Microsecond)
	}
	return all, errs, done
}

// All waits end, in whatever order, and each wait sleeps at the driver's or is parked: one alone sleeps on the bell.
func TestParking(t *testing.T) {
	const n = 60
	for round := range 20 {
		var bell layout.Bell
		w := NewWaiter(&bell, Policy{Polls: 3, Yields: 2, First: 100 * time.Microsecond, Most: time.Millisecond})
		all, errs, done := waiters(t, w, nil, n)
		if s := w.sleepers.Load(); s > 1 {
			t.Errorf("%d goroutines sleep on the bell, want one", s)
		}
		if pe, _ := w.Awaited(); pe != -1 {
			t.Errorf("%d goroutines wait for PE %d", n, pe)
		}
		for _, i := range rand.New(rand.NewPCG(uint64(round), 1)).Perm(n) {
			all[i].end()
		}
		done.Wait()
		if err := errors.Join(errs...); err != nil || w.parking.driven || w.HasParked() {
			t.Fatalf("round %d: %v; a driver is left: %v, or parked goroutines: %v", round, err, w.parking.driven, w.HasParked())
		}
	}
}

// The end of the context, and Close, end the waits of parked goroutines.
func TestParkedExpire(t *testing.T) {
	for _, closes := range []bool{false, true} {
		t.Run(map[bool]string{false: "context", true: "Close"}[closes], func(t *testing.T) {
			var bell layout.Bell
			w := NewWaiter(&bell, Policy{Polls: 3, Yields: 2, First: 100 * time.Microsecond, Most: time.Millisecond})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, errs, done := waiters(t, w, ctx, 20)
			want := context.Canceled
			if closes {
				want = ErrClosed
				w.Close()
			} else {
				cancel()
			}
			done.Wait()
			for i, err := range errs {
				if !errors.Is(err, want) {
					t.Errorf("wait %d ended with %v, want %v", i, err, want)
				}
			}
		})
	}
}

// A driver whose Poll panics passes its role on.
func TestPanicOfDriver(t *testing.T) {
	var bell layout.Bell
	w := NewWaiter(&bell, Policy{Polls: 3, Yields: 2, First: 100 * time.Microsecond, Most: time.Millisecond})
	p := &panicking{parker{idles: new(atomic.Int64)}, new(atomic.Bool)}
	var done sync.WaitGroup
	done.Go(func() {
		defer func() { _ = recover() }()
		_ = w.WaitPoll(p, nil)
	})
	for p.idles.Load() == 0 {
		time.Sleep(100 * time.Microsecond)
	}
	other := &parker{idles: p.idles}
	done.Go(func() {
		if err := w.WaitPoll(other, nil); err != nil {
			t.Error(err)
		}
	})
	for !w.HasParked() {
		time.Sleep(100 * time.Microsecond)
	}
	p.now.Store(true)
	for w.HasParked() {
		time.Sleep(100 * time.Microsecond)
	}
	other.end()
	done.Wait()
}

// panicking is a parker whose Poll panics from some time on.
type panicking struct {
	parker
	now *atomic.Bool
}

func (p *panicking) Poll() Look {
	if p.now.Load() {
		panic("operator")
	}
	return p.parker.Poll()
}
