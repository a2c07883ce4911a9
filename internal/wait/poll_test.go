package wait

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// stream is a Poller for which something arrives at every gap-th poll, until it has arrived more times.
type stream struct {
	bell      *layout.Bell
	gap, more int
	looks     int
	armed     bool // the bell was found set
}

func (s *stream) Poll() Look {
	s.armed = s.armed || atomic.LoadUint32(&s.bell.Sleeping)&layout.BellAsleep != 0
	if s.looks++; s.looks%s.gap != 0 {
		return Nothing
	}
	if s.more--; s.more == 0 {
		return Over
	}
	return Moved
}

// While something arrives, a wait neither yields nor sleeps, however long it takes as a whole.
func TestWaitPollStaysAwake(t *testing.T) {
	var bell layout.Bell
	w := NewWaiter(&bell, Policy{Polls: 100, Yields: 2, First: time.Millisecond, Most: time.Millisecond})
	for _, x := range []struct {
		gap   int
		armed bool
	}{{1, false}, {100, false}, {103, true}} { // the last gap is longer than the polls and yields
		s := &stream{bell: &bell, gap: x.gap, more: 1000}
		if err := w.WaitPoll(s, t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.more != 0 || s.armed != x.armed {
			t.Errorf("gap %d: %d parts left, fell asleep: %v, want 0 and %v", x.gap, s.more, s.armed, x.armed)
		}
	}
}

// A wait ends with its context even if something arrives at every poll, or at every yield.
func TestWaitPollExpires(t *testing.T) {
	var bell layout.Bell
	w := NewWaiter(&bell, PolicyFor(2, 2))
	for _, gap := range []int{1, w.Polls + 1} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := w.WaitPoll(&stream{bell: &bell, gap: gap, more: -1}, ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait past its deadline returned %v", err)
		}
	}
	w.Close()
	if err := w.WaitPoll(&stream{bell: &bell, gap: 1, more: -1}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("wait after Close returned %v", err)
	}
}

// polled is a Poller that knows which PE it waits for.
type polled struct {
	over *atomic.Bool
	pe   int
}

func (p polled) Poll() Look {
	if p.over.Load() {
		return Over
	}
	return Nothing
}

func (p polled) Awaits() int { return p.pe + 1 }

// Others can ask what a goroutine sleeps for: a PE, the holder of a lock, or nothing known.
func TestAwaited(t *testing.T) {
	var word uint64
	var over atomic.Bool
	at := unsafe.Pointer(&word)
	for name, x := range map[string]struct {
		wait  func(w *Waiter) error
		pe    int
		grant uintptr
	}{
		"member": {func(w *Waiter) error {
			_, err := w.Wait(&Cond{Addr: at, Val: 1, Width: 8, Peer: 4}, t.Context())
			return err
		}, 3, 0},
		"lock": {func(w *Waiter) error {
			_, err := w.Wait(&Cond{Addr: at, Val: 1, Width: 8, Peer: AwaitsLock}, t.Context())
			return err
		}, -1, uintptr(at)},
		"word":    {func(w *Waiter) error { _, err := w.Wait(&Cond{Addr: at, Val: 1, Width: 8}, t.Context()); return err }, -1, 0},
		"message": {func(w *Waiter) error { return w.WaitPoll(polled{&over, 7}, t.Context()) }, 7, 0},
	} {
		atomic.StoreUint64(&word, 0)
		over.Store(false)
		bell := new(layout.Bell)
		w := NewWaiter(bell, PolicyFor(1, 2))
		done := make(chan error)
		go func() { done <- x.wait(w) }()
		for atomic.LoadUint32(&bell.Sleeping)&layout.BellAsleep == 0 {
			runtime.Gosched()
		}
		if pe, grant := w.Awaited(); pe != x.pe || grant != x.grant {
			t.Errorf("%s: waits for PE %d and lock %#x, want %d and %#x", name, pe, grant, x.pe, x.grant)
		}
		atomic.StoreUint64(&word, 1)
		over.Store(true)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if pe, grant := w.Awaited(); pe >= 0 || grant != 0 {
			t.Errorf("%s: no goroutine sleeps, but PE %d or lock %#x is waited for", name, pe, grant)
		}
	}
}
