package wait

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// newSleepyWaiter returns a waiter that goes to sleep at once and has no timeout, so a lost
// wake-up is a hang.
func newSleepyWaiter(bell *layout.Bell) *Waiter {
	return NewWaiter(bell, Policy{Polls: 1, First: time.Hour, Most: time.Hour})
}

// side is one of two sides that wake each other.
type side struct {
	bell layout.Bell
	word uint64
	_    [56]byte
}

// store writes a word as a put does.
func store(dst unsafe.Pointer, v uint64) { rma.One[uint64](dst, unsafe.Pointer(&v)) }

// load reads a word as a get does.
func load(src unsafe.Pointer) (v uint64) {
	rma.One[uint64](unsafe.Pointer(&v), src)
	return v
}

func (s *side) sleeping() uint32 { return atomic.LoadUint32(&s.bell.Sleeping) & layout.BellAsleep }

// maxTime limits how long a test runs its rounds: if all share one processor with others, a round
// may take milliseconds.
const maxTime = 20 * time.Second

// awaitResults receives n results. It returns false if progress has not changed for a minute:
// however slow the rounds are, no round takes that long unless a goroutine sleeps.
func awaitResults(t *testing.T, done <-chan error, n int, moves func() uint64) (ok bool) {
	t.Helper()
	at := moves()
	for n > 0 {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			n--
		case <-time.After(time.Minute):
			now := moves()
			if now == at {
				return false
			}
			at = now
		}
	}
	return true
}

// Two threads write to each other with plain stores, read the other's bell after them, and sleep
// in between. No wake-up is lost in any phase.
func TestNoWakeUpIsLost(t *testing.T) {
	const rounds = 100_000
	sides := (*[2]side)(mapShared(t))
	ws := [2]*Waiter{newSleepyWaiter(&sides[0].bell), newSleepyWaiter(&sides[1].bell)}
	if !ws[0].barrier {
		t.Skip("no membarrier here: TestLockedBell tests the other way")
	}
	run := func(me int, done chan<- error) {
		mine, theirs := &sides[me], &sides[1-me]
		pause := uint64(me + 1)
		for r := uint64(1); r <= rounds; r++ {
			if r%2 == uint64(me) {
				pause = pause*6364136223846793005 + 1442695040888963407
				for range pause >> 55 { // hits the other in every phase of falling asleep
					atomic.LoadUint64(&mine.word)
				}
				store(unsafe.Pointer(&theirs.word), r)
				rma.RingBell(&theirs.bell)
				continue
			}
			if _, err := ws[me].Wait(&Cond{Addr: unsafe.Pointer(&mine.word), Val: r, Width: 8, Cmp: GE}, nil); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}
	done := make(chan error, 2)
	go run(0, done)
	go run(1, done)
	if !awaitResults(t, done, 2, func() uint64 { return load(unsafe.Pointer(&sides[0].word)) + load(unsafe.Pointer(&sides[1].word)) }) {
		t.Fatalf("a wake-up was lost: words %d and %d, bells %d and %d", sides[0].word, sides[1].word,
			sides[0].bell.Sleeping, sides[1].bell.Sleeping)
	}
	if sides[0].bell.Sleeping != 0 || sides[1].bell.Sleeping != 0 {
		t.Error("a bell is still set although no goroutine sleeps: every put would ring it")
	}
}

// Several sleepers of one process share a bell. One that leaves does not take the others' wake-ups
// with it.
func TestSleepersShareBell(t *testing.T) {
	const sleepers, rounds = 3, 20_000
	s := (*struct {
		bell  layout.Bell
		words [sleepers]uint64
	})(mapShared(t))
	w := newSleepyWaiter(&s.bell)
	done := make(chan error, sleepers)
	var reached [sleepers]atomic.Uint64
	for i := range sleepers {
		go func() {
			for r := uint64(1); r <= rounds; r++ {
				if _, err := w.Wait(&Cond{Addr: unsafe.Pointer(&s.words[i]), Val: r, Width: 8, Cmp: GE}, nil); err != nil {
					done <- err
					return
				}
				reached[i].Store(r)
			}
			done <- nil
		}()
	}
	writer := make(chan struct{})
	go func() {
		defer close(writer)
		for r := uint64(1); r <= rounds; r++ {
			for i := range sleepers {
				store(unsafe.Pointer(&s.words[i]), r)
				rma.RingBell(&s.bell)
			}
		}
	}()
	if !awaitResults(t, done, sleepers, func() uint64 { return reached[0].Load() + reached[1].Load() + reached[2].Load() }) {
		t.Fatalf("a wake-up was lost: %d %d %d of %d rounds", reached[0].Load(), reached[1].Load(), reached[2].Load(), rounds)
	}
	<-writer
}

// Close ends a wait that nothing else would end.
func TestCloseEndsWaits(t *testing.T) {
	s := (*side)(mapShared(t))
	w := newSleepyWaiter(&s.bell)
	done := make(chan error)
	go func() {
		_, err := w.Wait(&Cond{Addr: unsafe.Pointer(&s.word), Val: 1, Width: 8}, nil)
		done <- err
	}()
	w.Close()
	if err := <-done; err != ErrClosed { //nolint:errorlint // Wait returns it unwrapped
		t.Errorf("wait returned %v, want %v", err, ErrClosed)
	}
}

// newFailurePage returns a failure page and the view of it that a PE's waiter uses.
func newFailurePage(t *testing.T, npes int) (*failure.Page, *failure.View) {
	t.Helper()
	p, err := failure.Create([16]byte{1}, npes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	v, err := failure.Attach(int(p.File().Fd()), [16]byte{1}, npes)
	if err != nil {
		t.Fatal(err)
	}
	return p, v
}

// A death that is published while a PE is in any phase of falling asleep ends its wait, once for
// each death.
func TestNoFailureIsSleptOver(t *testing.T) {
	const rounds = 50_000
	s := (*side)(mapShared(t))
	p, v := newFailurePage(t, 1)
	w := newSleepyWaiter(&s.bell)
	w.Watch(v)
	done := make(chan error, 1)
	var at atomic.Uint64
	go func() {
		defer at.Store(rounds + 1) // ends the other side as well
		begun := time.Now()
		for r := uint64(1); r <= rounds && time.Since(begun) < maxTime; r++ {
			at.Store(r)
			x, err := w.Wait(&Cond{Addr: unsafe.Pointer(&s.word), Val: 1, Width: 8, Seen: r - 1}, nil)
			if err != ErrFailure || x != 0 { //nolint:errorlint // Wait returns it unwrapped
				done <- fmt.Errorf("round %d: word %d, %w, want 0 and %w", r, x, err, ErrFailure)
				return
			}
		}
		done <- nil
	}()
	go func() {
		pause := uint64(1)
		for r := uint64(1); r <= rounds; r++ {
			for at.Load() < r {
				runtime.Gosched()
			}
			if at.Load() > rounds {
				return
			}
			pause = pause*6364136223846793005 + 1442695040888963407
			for range pause >> 53 {
				atomic.LoadUint64(&s.word)
			}
			p.Publish(0, uint32(r), failure.ByExit(1), 0)
			rma.Rouse(&s.bell)
		}
	}()
	if !awaitResults(t, done, 1, at.Load) {
		t.Fatalf("a failure was slept over in round %d of epoch %d, bell %d", at.Load(), v.Epoch(), s.bell.Sleeping)
	}
	if s.bell.Sleeping&layout.BellAsleep != 0 {
		t.Error("the bell is still set although no goroutine sleeps")
	}
}

// Without a ring, the sleep's timeout finds the failure.
func TestTimeoutFindsFailure(t *testing.T) {
	s := (*side)(mapShared(t))
	p, v := newFailurePage(t, 1)
	w := NewWaiter(&s.bell, Policy{Polls: 1, First: time.Millisecond, Most: time.Millisecond})
	w.Watch(v)
	done := make(chan error)
	go func() {
		_, err := w.Wait(&Cond{Addr: unsafe.Pointer(&s.word), Val: 1, Width: 8}, nil)
		done <- err
	}()
	for s.sleeping() == 0 {
		runtime.Gosched()
	}
	p.Publish(0, 1, failure.ByExit(1), 0)
	if err := <-done; err != ErrFailure { //nolint:errorlint // Wait returns it unwrapped
		t.Errorf("wait returned %v, want %v", err, ErrFailure)
	}
}

// A condition that holds comes before a failure. A failure that was seen before does not count,
// and without a page there is none.
func TestConditionBeforeFailure(t *testing.T) {
	s := (*side)(mapShared(t))
	p, v := newFailurePage(t, 1)
	w := NewWaiter(&s.bell, Policy{First: time.Hour, Most: time.Hour}) // no poll, no yield
	w.Watch(v)
	p.Publish(0, 1, failure.ByExit(1), 0)
	cond := Cond{Addr: unsafe.Pointer(&s.word), Val: 1, Width: 8, Cmp: GE}
	if _, err := w.Wait(&cond, nil); err != ErrFailure { //nolint:errorlint // Wait returns it unwrapped
		t.Errorf("wait returned %v, want %v", err, ErrFailure)
	}
	s.word = 2
	for _, polls := range []int{0, 1} {
		w.Polls, w.Yields = polls, polls
		if x, err := w.Wait(&cond, nil); x != 2 || err != nil {
			t.Errorf("wait returned %d, %v, want 2", x, err)
		}
	}
	if x, err := w.giveUp(&cond); x != 2 || err != nil {
		t.Errorf("giveUp returned %d, %v, want 2", x, err)
	}
	cond.Val, cond.Seen = 3, 1
	go func() {
		for s.sleeping() == 0 {
			runtime.Gosched()
		}
		store(unsafe.Pointer(&s.word), uint64(3))
		rma.RingBell(&s.bell)
	}()
	if x, err := w.Wait(&cond, nil); x != 3 || err != nil {
		t.Errorf("wait with a failure that was seen before returned %d, %v, want 3", x, err)
	}
}

const cells, batches = 512, 200

// runLitmus runs two bodies on all cells in parallel, batch after batch. It returns the number of
// cells for which weak reports the forbidden outcome.
func runLitmus(bodies [2]func(cell int, batch uint64), weak func(cell int, batch uint64) bool) (n int) {
	var arrived [2]struct {
		at atomic.Uint64
		_  [56]byte
	}
	meet := func(me int, at uint64) {
		arrived[me].at.Store(at)
		for arrived[1-me].at.Load() < at {
		}
	}
	run := func(me int) {
		for b := uint64(1); b <= batches; b++ {
			meet(me, 3*b-2)
			for i := range cells {
				bodies[me](i, b)
			}
			meet(me, 3*b-1)
			if me == 0 {
				for i := range cells {
					if weak(i, b) {
						n++
					}
				}
			}
			meet(me, 3*b)
		}
	}
	done := make(chan struct{})
	go func() { run(1); close(done) }()
	run(0)
	<-done
	return n
}

// Store buffering with Drain between store and load, on lines of their own so that the two threads
// really overlap. Without the drain the forbidden outcome shows in many cells.
func TestDrainOrders(t *testing.T) {
	mem := (*[cells][2]struct {
		word uint64
		_    [56]byte
	})(mapShared(t))
	var saw [2][cells]uint64
	var drain [2]struct {
		word uint64
		_    [56]byte
	}
	body := func(me int) func(int, uint64) {
		return func(i int, b uint64) {
			store(unsafe.Pointer(&mem[i][me].word), b)
			rma.Drain(&drain[me].word)
			saw[me][i] = load(unsafe.Pointer(&mem[i][1-me].word))
		}
	}
	n := runLitmus([2]func(int, uint64){body(0), body(1)}, func(i int, b uint64) bool { return saw[0][i] < b && saw[1][i] < b })
	if n > 0 {
		t.Errorf("in %d of %d cells neither thread saw the other's store after its drain", n, cells*batches)
	}
}

// testBellOrders is the same between a writer, which stores a word and reads the bell, and a waiter, which arms the bell
// and reads the word. If the writer sees no bell and the waiter not the word, a wake-up would be lost. prepare gets the
// waiter of each cell before the test.
func testBellOrders(t *testing.T, prepare func(*Waiter), write func(s *side, v uint64) (bell uint32), armAndRead func(*Waiter, *side) uint64) {
	t.Helper()
	mem := (*[cells]side)(mapShared(t))
	var waiters [cells]*Waiter
	for i := range waiters {
		waiters[i] = newSleepyWaiter(&mem[i].bell)
		prepare(waiters[i])
	}
	var bell [cells]uint32
	var saw [cells]uint64
	n := runLitmus([2]func(int, uint64){
		func(i int, b uint64) { bell[i] = write(&mem[i], b) },
		func(i int, _ uint64) { saw[i] = armAndRead(waiters[i], &mem[i]) },
	}, func(i int, b uint64) bool {
		lost := bell[i] == 0 && saw[i] < b
		mem[i].bell.Sleeping = 0
		return lost
	})
	if n > 0 {
		t.Errorf("in %d of %d cells the writer did not see the bell nor the waiter the word", n, cells*batches)
	}
}

// A put stores and reads the bell without a fence. The waiter's membarrier orders these two.
func TestArmOrders(t *testing.T) {
	needMembarrier := func(w *Waiter) {
		if !w.barrier {
			t.Skip("no membarrier here")
		}
	}
	testBellOrders(t, needMembarrier, func(s *side, v uint64) uint32 {
		store(unsafe.Pointer(&s.word), v)
		return atomic.LoadUint32(&s.bell.Sleeping)
	}, func(w *Waiter, s *side) uint64 {
		w.armBell(false)
		return load(unsafe.Pointer(&s.word))
	})
}

// The agent swaps the word, and then loads the bell. The waiter does without membarrier for it. With a Store instead of
// the swap the test fails now and then in a build with the race detector, where a Store of mapped memory is a plain one.
func TestFencedOrders(t *testing.T) {
	testBellOrders(t, func(*Waiter) {}, func(s *side, v uint64) uint32 {
		atomic.SwapUint64(&s.word, v)
		return atomic.LoadUint32(&s.bell.Sleeping)
	}, func(w *Waiter, s *side) uint64 {
		w.armBell(true)
		return atomic.LoadUint64(&s.word)
	})
}

// The step stores an epoch and reads the bell with locked instructions. The waiter has no membarrier.
func TestRouseOrders(t *testing.T) {
	testBellOrders(t, func(w *Waiter) { w.barrier = false }, func(s *side, v uint64) uint32 {
		atomic.SwapUint64(&s.word, v)                                    // as failure.Page does
		return atomic.AddUint32(&s.bell.Sleeping, 0) & layout.BellAsleep // as rma.Rouse does
	}, func(w *Waiter, s *side) uint64 {
		w.armBell(false)
		return atomic.LoadUint64(&s.word)
	})
}

// A waiter that succeeds before it sleeps clears the bell that it had set: otherwise the next put
// would wake a sleeper that does not exist.
func TestBellIsCleared(t *testing.T) {
	s := (*side)(mapShared(t))
	w := newSleepyWaiter(&s.bell)
	timeout := w.First
	if _, err := w.sleep(&Cond{Addr: unsafe.Pointer(&s.word), Val: 0, Width: 8}, nil, &timeout); err != nil {
		t.Fatal(err)
	}
	if s.bell.Sleeping != 0 {
		t.Error("the bell is still set")
	}
}
