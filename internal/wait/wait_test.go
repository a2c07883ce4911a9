package wait

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Conditions with all widths and signs at their limits.
func TestCond(t *testing.T) {
	var word [2]uint64
	p := unsafe.Pointer(&word)
	holds := func(c Cond, want bool) {
		t.Helper()
		if c.Ready() != want {
			t.Errorf("%d-byte word %x, signed %v, cmp %d with %x: %v, want %v", c.Width, c.Load(), c.Signed, c.Cmp, c.Val, !want, want)
		}
	}
	const minus = ^uint64(0)
	for _, width := range []uint8{2, 4, 8} {
		word[0] = minus // -1 in every width, and the largest unsigned number
		largest := minus >> (64 - 8*uint(width))
		signed := Cond{Addr: p, Width: width, Signed: true}
		unsigned := Cond{Addr: p, Width: width}
		for _, x := range []struct {
			cmp                Cmp
			val                uint64
			signedly, unsigned bool
		}{
			{EQ, minus, true, width == 8},
			{EQ, largest, width == 8, true},
			{NE, 0, true, true},
			{LT, 0, true, false},
			{LE, minus, true, true},
			{GT, 0, false, true},
			{GE, minus, true, width == 8},
			{GE, 1, false, true},
			{LT, 1, true, false},
			{LE, 0, true, false},
		} {
			signed.Cmp, signed.Val = x.cmp, x.val
			holds(signed, x.signedly)
			unsigned.Cmp, unsigned.Val = x.cmp, x.val
			holds(unsigned, x.unsigned)
		}
	}
	// The odd half of four aligned bytes.
	word[0] = 0x0000_0000_8001_7fff
	hi := Cond{Addr: unsafe.Add(p, 2), Width: 2, Signed: true, Cmp: EQ, Val: math.MaxUint64 - 0x7ffe}
	holds(hi, true)
	lo := Cond{Addr: p, Width: 2, Signed: true, Cmp: EQ, Val: 0x7fff}
	holds(lo, true)
}

// Every kind of wait calls Serve's function in each of its phases: the awaited value comes only
// from that function.
func TestWaitsServe(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for name, p := range map[string]Policy{
		"polls": {Polls: 1}, "yields": {Yields: 1}, "sleeps": {},
	} {
		p.First, p.Most = time.Millisecond, time.Millisecond
		for kind, wait := range map[string]func(w *Waiter, c Cond) error{
			"Wait":    func(w *Waiter, c Cond) error { _, err := w.Wait(&c, ctx); return err },
			"WaitAny": func(w *Waiter, c Cond) error { _, err := w.WaitAny(&Set{Cond: c, N: 2}, ctx); return err },
		} {
			words, bell, calls := [2]uint64{}, layout.Bell{}, 0
			w := NewWaiter(&bell, p)
			w.Serve(func() bool {
				if calls++; calls == 5 {
					words[0] = 1
				}
				return true
			})
			if err := wait(w, Cond{Addr: unsafe.Pointer(&words), Val: 1, Width: 8}); err != nil || calls != 5 {
				t.Errorf("%s that %s: error %v after %d calls, want none after 5", kind, name, err, calls)
			}
		}
	}
}

// A wait that Serve's function ends is over at once, in each of its phases: it calls the function no further time.
func TestServedWaitsEnd(t *testing.T) {
	cause := errors.New("ended by the function")
	for name, p := range map[string]Policy{
		"polls": {Polls: 1, Yields: 1000}, "yields": {Yields: 1000}, "sleeps": {},
	} {
		p.First, p.Most = time.Hour, time.Hour
		for kind, wait := range map[string]func(ctx context.Context, w *Waiter, c *Cond) error{
			"Wait": func(ctx context.Context, w *Waiter, c *Cond) error { _, err := w.Wait(c, ctx); return err },
			"WaitAny": func(ctx context.Context, w *Waiter, c *Cond) error {
				_, err := w.WaitAny(&Set{Cond: *c, N: 2}, ctx)
				return err
			},
		} {
			for _, holds := range []bool{false, true} {
				ctx, cancel := context.WithCancelCause(t.Context())
				words, bell, calls := [2]uint64{}, layout.Bell{}, 0
				w := NewWaiter(&bell, p)
				w.Serve(func() bool {
					if calls++; calls < 3 {
						return false
					}
					cancel(cause)
					if holds {
						words[0] = 1
					}
					return true
				})
				w.servers.Add(func() bool { // the bell is rung for each call, so that a sleeper comes back
					rma.RingBell(&bell)
					return false
				})
				want := cause
				if holds {
					want = nil
				}
				if err := wait(ctx, w, &Cond{Addr: unsafe.Pointer(&words), Val: 1, Width: 8}); !errors.Is(err, want) || calls != 3 {
					t.Errorf("%s that %s: error %v after %d calls, want %v after 3", kind, name, err, calls, want)
				}
			}
		}
	}
}

// Several goroutines of one process wait for different words and sleep. Each is woken by a ring
// for its own word.
func TestWaitersOfOneProcess(t *testing.T) {
	const waiters, rounds = 4, 300
	var seg struct {
		words [waiters]uint64
		bell  layout.Bell
	}
	w := NewWaiter(&seg.bell, PolicyFor(100, 1))
	var done [waiters]atomic.Int64
	fail := make(chan error, waiters)
	for i := range waiters {
		go func() {
			for r := uint64(1); r <= rounds; r++ {
				_, err := w.Wait(&Cond{Addr: unsafe.Pointer(&seg.words[i]), Val: r, Width: 8, Cmp: GE}, nil)
				if err != nil {
					fail <- err
					return
				}
				done[i].Store(int64(r))
			}
			fail <- nil
		}()
	}
	for r := uint64(1); r <= rounds; r++ {
		for i := range waiters {
			atomic.StoreUint64(&seg.words[i], r)
			rma.RingBell(&seg.bell)
		}
	}
	for range waiters {
		if err := <-fail; err != nil {
			t.Fatal(err)
		}
	}
	if n := w.sleepers.Load(); n != 0 {
		t.Errorf("%d goroutines still sleep", n)
	}
}

// A wait ends with its context, returns the context's cause, and returns the last value.
func TestWaitEnds(t *testing.T) {
	word, bell := uint64(5), layout.Bell{}
	w := NewWaiter(&bell, PolicyFor(1, 1))
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(5*time.Millisecond, func() { cancel(cause) })
	got, err := w.Wait(&Cond{Addr: unsafe.Pointer(&word), Val: 6, Width: 8}, ctx)
	if !errors.Is(err, cause) || got != 5 {
		t.Errorf("wait returned %d, %v, want 5, %v", got, err, cause)
	}
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	if _, err := w.Wait(&Cond{Addr: unsafe.Pointer(&word), Val: 6, Width: 8}, late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait past its deadline returned %v", err)
	}
}

// Without membarrier, writers read the bell after a locked instruction.
func TestLockedBell(t *testing.T) {
	s := (*side)(mapShared(t))
	w := newSleepyWaiter(&s.bell)
	w.barrier = false
	rma.AskLocked(&s.bell)
	done := make(chan error)
	go func() {
		for r := uint64(1); r <= 20_000; r++ {
			if _, err := w.Wait(&Cond{Addr: unsafe.Pointer(&s.word), Val: r, Width: 8, Cmp: GE}, nil); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for r := uint64(1); r <= 20_000; r++ {
		store(unsafe.Pointer(&s.word), r)
		rma.RingBell(&s.bell)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s.bell.Sleeping != layout.BellAsk {
		t.Errorf("the bell is %d although no goroutine sleeps, want %d, which is permanent", s.bell.Sleeping, layout.BellAsk)
	}
}

// onceAsked is a context that acts once when a wait looks at it: after the last read of the word,
// before the sleep.
type onceAsked struct {
	context.Context
	do func()
}

func (o onceAsked) Err() error {
	o.do()
	return nil
}

// If a bell is rung between a goroutine's last read and its sleep, the goroutine does not sleep
// on, even if another goroutine of the process has armed the bell again.
func TestRungAndArmedAgain(t *testing.T) {
	s := (*[2]side)(mapShared(t))
	w := newSleepyWaiter(&s[0].bell)
	wait := func(i int, ctx context.Context) {
		if _, err := w.Wait(&Cond{Addr: unsafe.Pointer(&s[i].word), Val: 1, Width: 8, Cmp: GE}, ctx); err != nil {
			t.Error(err)
		}
	}
	tell := func(i int) {
		store(unsafe.Pointer(&s[i].word), 1)
		rma.RingBell(&s[0].bell)
	}
	first, second := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(first)
		wait(0, onceAsked{t.Context(), sync.OnceFunc(func() {
			tell(0)
			go func() {
				defer close(second)
				wait(1, nil)
			}()
			for s[0].sleeping() == 0 {
				runtime.Gosched()
			}
		})})
	}()
	limit := time.After(time.Minute)
	for i, done := range []chan struct{}{first, second} {
		select {
		case <-done:
		case <-limit:
			t.Fatalf("goroutine %d sleeps although its bell was rung", i)
		}
		if i == 0 {
			tell(1)
		}
	}
}

// mapShared returns shared memory. Plain accesses to it race by design, and the race detector does
// not look there.
func mapShared(t *testing.T) unsafe.Pointer {
	t.Helper()
	f, err := symheap.Create(symheap.Identity{NPEs: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	size, err := layout.SegmentSize(1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := symheap.NewMap([16]byte{}, 1, size)
	if err == nil {
		err = m.Attach(0, 0, int(f.Fd()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return unsafe.Add(m.Segment(0), layout.HeapOffset)
}

// Each wait counts as progress, even one that does not have to wait.
func TestBeat(t *testing.T) {
	s := (*struct {
		side
		progress layout.Progress
	})(mapShared(t))
	w := NewWaiter(&s.bell, PolicyFor(1, 1))
	w.Beat() // no observer yet
	w.Beats(&s.progress)
	for want := uint64(1); want < 4; want++ {
		if _, err := w.Wait(&Cond{Addr: unsafe.Pointer(&s.word), Width: 8}, nil); err != nil {
			t.Fatal(err)
		}
		if s.progress.Count != want {
			t.Errorf("progress is %d after %d waits", s.progress.Count, want)
		}
	}
}
