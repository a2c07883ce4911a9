package rma

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

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
				Store(unsafe.Pointer(&theirs.word), r)
				RingBell(&theirs.bell)
				continue
			}
			if _, err := ws[me].Wait(Cond{Addr: unsafe.Pointer(&mine.word), Val: r, Width: 8, Cmp: GE}, nil); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}
	done := make(chan error, 2)
	go run(0, done)
	go run(1, done)
	limit := time.After(time.Minute)
	for range 2 {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-limit:
			t.Fatalf("a wake-up was lost: words %d and %d, bells %d and %d", sides[0].word, sides[1].word,
				sides[0].bell.Sleeping, sides[1].bell.Sleeping)
		}
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
				if _, err := w.Wait(Cond{Addr: unsafe.Pointer(&s.words[i]), Val: r, Width: 8, Cmp: GE}, nil); err != nil {
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
				Store(unsafe.Pointer(&s.words[i]), r)
				RingBell(&s.bell)
			}
		}
	}()
	limit := time.After(time.Minute)
	for range sleepers {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-limit:
			t.Fatalf("a wake-up was lost: %d %d %d of %d rounds", reached[0].Load(), reached[1].Load(), reached[2].Load(), rounds)
		}
	}
	<-writer
}

// Close ends a wait that nothing else would end.
func TestCloseEndsWaits(t *testing.T) {
	s := (*side)(mapped(t))
	w := sleepy(&s.bell)
	done := make(chan error)
	go func() {
		_, err := w.Wait(Cond{Addr: unsafe.Pointer(&s.word), Val: 1, Width: 8}, nil)
		done <- err
	}()
	w.Close()
	if err := <-done; err != ErrClosed { //nolint:errorlint // it is returned as it is
		t.Errorf("wait ended with %v, want %v", err, ErrClosed)
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
		word uint32
		_    [60]byte
	}
	body := func(me int) func(int, uint64) {
		return func(i int, b uint64) {
			Store(unsafe.Pointer(&mem[i][me].word), b)
			Drain(&drain[me].word)
			saw[me][i] = Load[uint64](unsafe.Pointer(&mem[i][1-me].word))
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
			Store(unsafe.Pointer(&mem[i].word), b)
			rang[i] = atomic.LoadUint32(&mem[i].bell.Sleeping)
		},
		func(i int, _ uint64) {
			waiters[i].arm()
			saw[i] = Load[uint64](unsafe.Pointer(&mem[i].word))
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
