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

// sleepy returns a waiter that goes to sleep at once and stays asleep: a lost
// wake-up is then a hang, not a delay that the timeout hides.
func sleepy(bell *layout.Bell) *Waiter {
	return NewWaiter(bell, Policy{Polls: 1, First: time.Hour, Most: time.Hour})
}

// side is one of two that wake each other.
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

// lasts is how long a test goes on with its rounds at most: where all share one processor
// with others, a round may take milliseconds.
const lasts = 20 * time.Second

// lockSlow takes n results. The test fails if what moves has stood still for a minute
// meanwhile: however slow the rounds are, none takes that long unless somebody sleeps.
func await(t *testing.T, done <-chan error, n int, moves func() uint64) (ok bool) {
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

// Two threads write to each other by plain stores and look at the bell behind
// them, going to sleep in between: no wake-up is lost in any phase.
func TestNoWakeUpIsLost(t *testing.T) {
	const rounds = 100_000
	sides := (*[2]side)(mapped(t))
	ws := [2]*Waiter{sleepy(&sides[0].bell), sleepy(&sides[1].bell)}
	if !ws[0].barrier {
		t.Skip("no membarrier here: TestLockedBell has the other way")
	}
	run := func(me int, done chan<- error) {
		mine, theirs := &sides[me], &sides[1-me]
		pause := uint64(me + 1)
		for r := uint64(1); r <= rounds; r++ {
			if r%2 == uint64(me) {
				pause = pause*6364136223846793005 + 1442695040888963407
				for range pause >> 55 { // meet the other in every phase of its falling asleep
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
	if !await(t, done, 2, func() uint64 { return load(unsafe.Pointer(&sides[0].word)) + load(unsafe.Pointer(&sides[1].word)) }) {
		t.Fatalf("a wake-up was lost: words %d and %d, bells %d and %d", sides[0].word, sides[1].word,
			sides[0].bell.Sleeping, sides[1].bell.Sleeping)
	}
	if sides[0].bell.Sleeping != 0 || sides[1].bell.Sleeping != 0 {
		t.Error("a bell is still set although nobody sleeps: every put would ring it")
	}
}

// Several sleepers of one process share a bell: one that leaves does not take
// the others' wake-up with it.
func TestSleepersShareBell(t *testing.T) {
	const sleepers, rounds = 3, 20_000
	s := (*struct {
		bell  layout.Bell
		words [sleepers]uint64
	})(mapped(t))
	w := sleepy(&s.bell)
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
	if !await(t, done, sleepers, func() uint64 { return reached[0].Load() + reached[1].Load() + reached[2].Load() }) {
		t.Fatalf("a wake-up was lost: %d %d %d of %d rounds", reached[0].Load(), reached[1].Load(), reached[2].Load(), rounds)
	}
	<-writer
}

// Close ends a wait that nothing else would end.
func TestCloseEndsWaits(t *testing.T) {
	s := (*side)(mapped(t))
	w := sleepy(&s.bell)
	done := make(chan error)
	go func() {
		_, err := w.Wait(&Cond{Addr: unsafe.Pointer(&s.word), Val: 1, Width: 8}, nil)
		done <- err
	}()
	w.Close()
	if err := <-done; err != ErrClosed { //nolint:errorlint // it is returned as it is
		t.Errorf("wait ended with %v, want %v", err, ErrClosed)
	}
}

// deadPage returns a failure page and what the waiter of a PE knows of it.
func deadPage(t *testing.T, npes int) (*failure.Page, *failure.View) {
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

// A death that is published while a PE is in any phase of falling asleep ends its
// wait, once for each.
func TestNoFailureIsSleptOver(t *testing.T) {
	const rounds = 50_000
	s := (*side)(mapped(t))
	p, v := deadPage(t, 1)
	w := sleepy(&s.bell)
	w.Watch(v)
	done := make(chan error, 1)
	var at atomic.Uint64
	go func() {
		defer at.Store(rounds + 1) // the other one is to end, too
		begun := time.Now()
		for r := uint64(1); r <= rounds && time.Since(begun) < lasts; r++ {
			at.Store(r)
			x, err := w.Wait(&Cond{Addr: unsafe.Pointer(&s.word), Val: 1, Width: 8, Seen: r - 1}, nil)
			if err != ErrFailure || x != 0 { //nolint:errorlint // it is returned as it is
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
	if !await(t, done, 1, at.Load) {
		t.Fatalf("a failure was slept over in round %d of epoch %d, bell %d", at.Load(), v.Epoch(), s.bell.Sleeping)
	}
	if s.bell.Sleeping&layout.BellAsleep != 0 {
		t.Error("the bell is still set although nobody sleeps")
	}
}

// Without a ring, the time-out of the sleep finds the failure.
func TestTimeoutFindsFailure(t *testing.T) {
	s := (*side)(mapped(t))
	p, v := deadPage(t, 1)
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
	if err := <-done; err != ErrFailure { //nolint:errorlint // it is returned as it is
		t.Errorf("wait ended with %v, want %v", err, ErrFailure)
	}
}

// A condition that holds comes before a failure; a failure that was seen does not
// count; and without a page none does.
func TestConditionBeforeFailure(t *testing.T) {
	s := (*side)(mapped(t))
	p, v := deadPage(t, 1)
	w := NewWaiter(&s.bell, Policy{First: time.Hour, Most: time.Hour}) // no poll, no yield
	w.Watch(v)
	p.Publish(0, 1, failure.ByExit(1), 0)
	cond := Cond{Addr: unsafe.Pointer(&s.word), Val: 1, Width: 8, Cmp: GE}
	if _, err := w.Wait(&cond, nil); err != ErrFailure { //nolint:errorlint // it is returned as it is
		t.Errorf("wait ended with %v, want %v", err, ErrFailure)
	}
	s.word = 2
	for _, polls := range []int{0, 1} {
		w.Polls, w.Yields = polls, polls
		if x, err := w.Wait(&cond, nil); x != 2 || err != nil {
			t.Errorf("wait ended with %d, %v, want 2", x, err)
		}
	}
	if x, err := w.giveUp(&cond); x != 2 || err != nil {
		t.Errorf("given up with %d, %v, want 2", x, err)
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
		t.Errorf("wait with a failure that was seen ended with %d, %v, want 3", x, err)
	}
}

const cells, batches = 512, 200

// litmus runs two bodies on all cells side by side, batch after batch, and
// returns in how many cells weak says that the forbidden outcome was seen.
func litmus(bodies [2]func(cell int, batch uint64), weak func(cell int, batch uint64) bool) (n int) {
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

// Store buffering with Drain between store and load, on lines of their own so
// that the two threads really meet. Without the drain the forbidden outcome
// shows in a good part of the cells.
func TestDrainOrders(t *testing.T) {
	mem := (*[cells][2]struct {
		word uint64
		_    [56]byte
	})(mapped(t))
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
	n := litmus([2]func(int, uint64){body(0), body(1)}, func(i int, b uint64) bool { return saw[0][i] < b && saw[1][i] < b })
	if n > 0 {
		t.Errorf("in %d of %d cells neither thread saw the other's store behind its drain", n, cells*batches)
	}
}

// The same between a writer, who stores and looks at the bell without a fence,
// and a waiter, who arms and looks at the data.
func TestArmOrders(t *testing.T) {
	mem := (*[cells]side)(mapped(t))
	var waiters [cells]*Waiter
	for i := range waiters {
		waiters[i] = sleepy(&mem[i].bell)
	}
	if !waiters[0].barrier {
		t.Skip("no membarrier here")
	}
	var rang [cells]uint32
	var saw [cells]uint64
	n := litmus([2]func(int, uint64){
		func(i int, b uint64) {
			store(unsafe.Pointer(&mem[i].word), b)
			rang[i] = atomic.LoadUint32(&mem[i].bell.Sleeping)
		},
		func(i int, _ uint64) {
			waiters[i].armBell()
			saw[i] = load(unsafe.Pointer(&mem[i].word))
		},
	}, func(i int, b uint64) bool {
		lost := rang[i] == 0 && saw[i] < b
		mem[i].bell.Sleeping = 0
		return lost
	})
	if n > 0 {
		t.Errorf("in %d of %d cells the writer did not see the bell nor the waiter the data", n, cells*batches)
	}
}

// The same between the step, who stores an epoch and looks at the bell by locked
// instructions, and a waiter who is without membarrier.
func TestRouseOrders(t *testing.T) {
	mem := (*[cells]side)(mapped(t))
	var waiters [cells]*Waiter
	for i := range waiters {
		waiters[i] = sleepy(&mem[i].bell)
		waiters[i].barrier = false
	}
	var rang [cells]uint32
	var saw [cells]uint64
	n := litmus([2]func(int, uint64){
		func(i int, b uint64) {
			atomic.SwapUint64(&mem[i].word, b)                                       // as failure.Page does
			rang[i] = atomic.AddUint32(&mem[i].bell.Sleeping, 0) & layout.BellAsleep // as ring does
		},
		func(i int, _ uint64) {
			waiters[i].armBell()
			saw[i] = atomic.LoadUint64(&mem[i].word)
		},
	}, func(i int, b uint64) bool {
		lost := rang[i] == 0 && saw[i] < b
		mem[i].bell.Sleeping = 0
		return lost
	})
	if n > 0 {
		t.Errorf("in %d of %d cells the step did not see the bell nor the waiter the epoch", n, cells*batches)
	}
}

// A waiter that is satisfied before it sleeps clears the bell that it had set:
// otherwise the next put pays for a wake-up of nobody.
func TestBellIsCleared(t *testing.T) {
	s := (*side)(mapped(t))
	w := sleepy(&s.bell)
	timeout := w.First
	if _, err := w.sleep(&Cond{Addr: unsafe.Pointer(&s.word), Val: 0, Width: 8}, nil, &timeout); err != nil {
		t.Fatal(err)
	}
	if s.bell.Sleeping != 0 {
		t.Error("the bell is still set")
	}
}
