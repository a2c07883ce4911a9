package failure

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goshmem/goshmem/symheap/layout"
)

// readLog reads the log of a page as Since does.
func readLog(v *View, after, last uint64) (all []Failure, isComplete bool) {
	return v.readLog(atomic.LoadUint64(&v.page.Log(v.npes).Count), after, last)
}

// The log has what a look at every PE finds, for each earlier epoch that it goes back to. For the others readLog says
// that it does not, and Since looks at every PE.
func TestLogIsScan(t *testing.T) {
	const npes = 2 * layout.LogLength
	p, v := newPage(t, npes)
	random := rand.New(rand.NewPCG(1, 2))
	incarnations := make([]uint32, npes)
	var logged []uint64 // the epochs of all deaths so far, in order
	for range 3 * layout.LogLength {
		var pes []int
		for range 1 + random.IntN(3) { // one PE, or several that are lost together; some die again
			pe := random.IntN(npes)
			if incarnation := incarnations[pe] + 1; !slices.Contains(pes, pe) && (len(pes) == 0 || incarnation == incarnations[pes[0]]+1) {
				pes = append(pes, pe)
			}
		}
		incarnation := incarnations[pes[0]] + 1
		epoch := p.PublishAll(pes, incarnation, Of(NodeLost), 0)
		for _, pe := range pes {
			incarnations[pe] = incarnation
			logged = append(logged, epoch)
		}
		for _, after := range []uint64{0, epoch - 1, uint64(random.Int64N(int64(epoch)))} {
			all, isComplete := readLog(v, after, epoch)
			newer := 0
			for newer < len(logged) && logged[len(logged)-1-newer] > after {
				newer++
			}
			// The log tells that it is complete by an older death, or by its beginning.
			if want := newer < layout.LogLength-1 || len(logged) == newer && newer == layout.LogLength-1; isComplete != want {
				t.Fatalf("%d of %d deaths after epoch %d: log is complete: %v, want %v", newer, len(logged), after, isComplete, want)
			}
			want := v.scan(after, epoch)
			if isComplete && !slices.Equal(all, want) {
				t.Fatalf("since epoch %d of %d, the log has %v, want %v", after, epoch, all, want)
			}
			if all, last := v.Since(after); last != epoch || !slices.Equal(all, want) {
				t.Fatalf("since epoch %d: got %v up to epoch %d, want %v up to epoch %d", after, all, last, want, epoch)
			}
		}
	}
}

// A node with more PEs than the log has room for is lost as a whole.
func TestLostNodeBeyondLog(t *testing.T) {
	for _, size := range []int{layout.LogLength - 1, layout.LogLength, layout.LogLength + 1, 4 * layout.LogLength} {
		p, v := newPage(t, size+1)
		p.Publish(size, 1, ByExit(1), 0)
		pes := make([]int, size)
		for i := range pes {
			pes[i] = i
		}
		p.PublishAll(pes, 1, Of(NodeLost), 0)
		all, last := v.Since(1)
		if len(all) != size || last != 2 || all[0].PE != 0 || all[size-1].PE != size-1 {
			t.Errorf("of %d PEs of a lost node, Since has %d up to epoch %d", size, len(all), last)
		}
		if _, isComplete := readLog(v, 1, 2); isComplete {
			t.Errorf("the log says that it has %d deaths and the one before", size)
		}
	}
}

// Readers find exactly the deaths since an epoch while more are published, so many that the log overflows again and
// again.
func TestConcurrentSince(t *testing.T) {
	const npes, rounds = layout.LogLength + 50, 60_000
	p, v := newPage(t, npes)
	published := func(pe int, epoch uint64) uint64 { // the epoch of the latest death of a PE up to an epoch; 0: none
		if epoch <= uint64(pe) {
			return 0
		}
		return epoch - (epoch-uint64(pe)-1)%npes
	}
	check := func(after uint64, all []Failure, last uint64) bool {
		at := 0
		for pe := range npes {
			if at < len(all) && all[at].PE == pe {
				f := all[at]
				if want := published(pe, last); f.Epoch != want || f.Epoch <= after || f.At != time.Duration(want) || f.Cause != Cause(want) {
					t.Errorf("since epoch %d of %d: got %+v, want epoch, time and cause %d", after, last, f, want)
					return false
				}
				at++
				continue
			}
			if published(pe, last) <= after {
				continue
			}
			// It must have died again by now, or be about to.
			if f, ok := v.Failure(pe); ok && f.Epoch <= last {
				t.Errorf("since epoch %d of %d: no death of PE %d, whose latest one is %+v", after, last, pe, f)
				return false
			}
		}
		if at != len(all) {
			t.Errorf("since epoch %d of %d: PEs not ascending, or not of the job: %v", after, last, all[at:])
			return false
		}
		return true
	}
	var ended atomic.Bool
	var complete, short atomic.Int64
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := uint64(0); !ended.Load(); {
				for _, after := range []uint64{last, last - min(last, layout.LogLength/2), last - min(last, layout.LogLength+20)} {
					all, now := v.Since(after)
					if now < last || !check(after, all, now) {
						t.Errorf("Since went from epoch %d to %d", last, now)
						return
					}
					if now > after {
						if logged, isComplete := readLog(v, after, now); isComplete {
							complete.Add(1)
							if !check(after, logged, now) {
								return
							}
						} else {
							short.Add(1)
						}
					}
					last = now
				}
			}
		})
	}
	for e := uint64(1); e <= rounds; e++ {
		pe := int((e - 1) % npes)
		if got := p.Publish(pe, uint32((e-1)/npes)+1, Cause(e), time.Duration(e)); got != e {
			t.Fatalf("published in epoch %d, want %d", got, e)
		}
	}
	ended.Store(true)
	readers.Wait()
	t.Logf("the log had all %d times, and was too short %d times", complete.Load(), short.Load())
}

// In a place that is being written, readLog takes no word for a death.
func TestLogBeingWritten(t *testing.T) {
	p, v := newPage(t, 3)
	for e := range uint32(2 * layout.LogLength) {
		p.Publish(1, e+1, ByExit(1), 0)
	}
	l := p.page.Log(3)
	// Half of the next death: the step has stored a PE, and neither its epoch in the log nor the count.
	l.Death(l.Count).PE = 1 << 63
	epoch := v.Epoch()
	if all, last := v.Since(epoch - 1); len(all) != 1 || all[0].PE != 1 || last != epoch {
		t.Errorf("got %v up to epoch %d, want PE 1", all, last)
	}
	if _, isComplete := readLog(v, epoch-layout.LogLength, epoch); isComplete {
		t.Error("the log says that it has more deaths than it has room for")
	}
}

// A reader that the step overtakes while it reads notices that, as soon as a place that it has read may be another one.
func TestLogOvertaken(t *testing.T) {
	p, v := newPage(t, 1)
	publish := func() uint64 { return p.Publish(0, uint32(v.Epoch())+1, ByExit(1), 0) }
	for v.Epoch() < 2*layout.LogLength {
		publish()
	}
	end, epoch := v.page.Log(1).Count, v.Epoch()
	// The reader is to read the places of 11 positions, of which end-11 is the lowest.
	for range layout.LogLength - 12 {
		publish()
	}
	if _, isComplete := v.readLog(end, epoch-10, epoch); !isComplete {
		t.Errorf("after %d further deaths, the log says that it does not have the 11 before", v.Epoch()-epoch)
	}
	publish() // now the next death's place is the lowest one: a reader cannot know whether it is being written
	if all, isComplete := v.readLog(end, epoch-10, epoch); isComplete {
		t.Errorf("after %d further deaths, the log says that it has the 11 before: %v", v.Epoch()-epoch, all)
	}
}
