package shmem_test

import (
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// The litmus tests run the shapes of the memory model between processes that synchronize before
// every round, so that all sides start it at about the same time. Message passing and store
// buffering run four million rounds each, the others fewer.

const maxLitmusRounds = 4_000_000

// litmusRounds returns a smaller number where the full one would show nothing more.
func litmusRounds() int {
	if testing.Short() {
		return maxLitmusRounds / 200
	}
	return maxLitmusRounds
}

// litmusTimeLimit is the time after which no further batch of rounds begins. If other programs
// want the processors, the PEs run late, and a round takes a hundred times as long. Between nodes
// it always does.
func litmusTimeLimit(w *shmem.World) time.Duration {
	if spans(w) {
		return 3 * time.Second
	}
	return 15 * time.Second
}

// runLitmus runs up to so many rounds, numbered from 1, on all PEs, in batches.
func runLitmus(t *testing.T, w *shmem.World, rounds int, round func(r uint64)) {
	t.Helper()
	more := must(shmem.Calloc[int64](w, 2))(t)
	batch := max(rounds/100, 1)
	if spans(w) {
		batch = max(rounds/10_000, 1)
	}
	begun := time.Now()
	for r := uint64(1); r <= uint64(rounds); {
		for range batch {
			round(r)
			r++
		}
		if w.MyPE() == 0 && time.Since(begun) < litmusTimeLimit(w) {
			more.Local()[0] = int64(r)
		}
		ok(t, shmem.Broadcast(w.Team(), more.Slice(1, 2), more.Slice(0, 1), 0))
		if more.Local()[1] != int64(r) {
			t.Logf("%d rounds", r-1)
			return
		}
	}
}

// Message passing: put data, fence, put a flag. A PE that sees the flag sees the data. In every
// eighth round the data are a block.
func TestLitmusMessagePassingByFlag(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c, me := w.Ctx(), w.MyPE()
		data := must(shmem.Calloc[uint64](w, 64))(t)
		flag := must(shmem.Calloc[uint64](w, 1))(t)
		block := make([]uint64, 64)
		runLitmus(t, w, litmusRounds(), func(r uint64) {
			if r%2 == uint64(me) { // the writer of this round
				n := 1
				if r%8 < 2 {
					n = len(block)
				}
				for i := range block[:n] {
					block[i] = r
				}
				ok(t, shmem.Put(c, data, block[:n], 1-me))
				ok(t, c.Fence())
				ok(t, shmem.P(c, flag, r, 1-me))
				return
			}
			ok(t, shmem.WaitUntil(c, flag, shmem.GE, r))
			got := data.Local()
			n := 1
			if r%8 < 2 {
				n = len(got)
			}
			for i, v := range got[:n] {
				if v != r {
					t.Fatalf("round %d: element %d is %d although the flag is set, want %[1]d", r, i, v)
				}
			}
		})
	})
}

// Message passing by a put with a signal.
func TestLitmusMessagePassingBySignal(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c, me := w.Ctx(), w.MyPE()
		data := must(shmem.Calloc[uint32](w, 33))(t)
		sig := must(shmem.Calloc[uint64](w, 1))(t)
		block := make([]uint32, 33)
		runLitmus(t, w, litmusRounds(), func(r uint64) {
			n := 1 + int(r/2)%len(block)
			if r%2 == uint64(me) {
				for i := range block[:n] {
					block[i] = uint32(r)
				}
				ok(t, shmem.PutSignal(c, data, block[:n], sig, 2, shmem.SignalAdd, 1-me))
				return
			}
			// PE 1 gets its k-th signal in round 2k, PE 0 in round 2k-1.
			want := r + 1 - uint64(me)
			if _, err := c.SignalWaitUntil(sig, shmem.GE, want); err != nil {
				t.Fatal(err)
			}
			for i, v := range data.Local()[:n] {
				if v != uint32(r) {
					t.Fatalf("round %d: element %d is %d although the signal arrived, want %[1]d", r, i, v)
				}
			}
		})
	})
}

// Store buffering: each PE puts a flag to the other, calls Quiet and reads its own flag. At least
// one of the two sees the other's put. Batches over many cells, each on a line of its own, make
// the PEs really run side by side: without Quiet's instruction one cell in four shows the
// forbidden outcome.
func TestLitmusStoreBuffering(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		storeBuffering(t, w, [2]int{1, 0})
		if spans(w) { // both flags are near for one PE, and far for the other
			storeBuffering(t, w, [2]int{0, 0})
			storeBuffering(t, w, [2]int{1, 1})
		}
	})
}

// storeBuffering runs store buffering with the flags that each PE puts on a PE.
func storeBuffering(t *testing.T, w *shmem.World, on [2]int) {
	t.Helper()
	const cells, line = 512, 8
	c, me := w.Ctx(), w.MyPE()
	x := must(shmem.Calloc[uint64](w, 2*cells*line))(t)
	saw := must(shmem.Calloc[uint64](w, cells))(t)
	theirs := make([]uint64, cells)
	mine, other := x.Slice(me*cells*line, (me+1)*cells*line), x.Slice((1-me)*cells*line, (2-me)*cells*line)
	runLitmus(t, w, litmusRounds()/cells, func(b uint64) {
		ok(t, w.Team().Sync())
		for i := range cells {
			_ = shmem.P(c, mine.At(i*line), b, on[me])
			_ = c.Quiet()
			saw.Local()[i], _ = shmem.G(c, other.At(i*line), on[1-me])
		}
		ok(t, w.Barrier())
		ok(t, shmem.Get(c, theirs, saw, 1-me))
		for i, v := range saw.Local() {
			if v < b && theirs[i] < b {
				t.Fatalf("flags on %v, batch %d, cell %d: neither PE saw the other's put after quiet", on, b, i)
			}
		}
		ok(t, w.Team().Sync())
	})
}

// Independent reads of independent writes, by atomics: two readers never see two writes in
// opposite orders.
func TestLitmusIndependentReads(t *testing.T) {
	shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
		independentReads(t, w, 0, 0)
		if spans(w) { // on two nodes, PEs 0 and 1 write from the first one, 2 and 3 read on the second one
			independentReads(t, w, 2, 2)
			independentReads(t, w, 0, 2)
			independentReads(t, w, 2, 0)
		}
	})
}

// independentReads runs independent reads with the word that PE 0 writes, and the one that PE 1 writes, each on a PE.
func independentReads(t *testing.T, w *shmem.World, xOn, yOn int) {
	t.Helper()
	type word struct {
		at shmem.Sym[uint64]
		on int
	}
	c, me := w.Ctx(), w.MyPE()
	x := word{must(shmem.Calloc[uint64](w, 16))(t), xOn}
	y := word{must(shmem.Calloc[uint64](w, 16))(t), yOn}
	saw := must(shmem.Calloc[uint64](w, 2))(t)
	runLitmus(t, w, litmusRounds()/20, func(r uint64) {
		switch me {
		case 0:
			ok(t, shmem.AtomicSet(c, x.at, r, x.on))
		case 1:
			ok(t, shmem.AtomicSet(c, y.at, r, y.on))
		default:
			first, second := x, y
			if me == 3 {
				first, second = y, x
			}
			a, err := shmem.AtomicFetch(c, first.at, first.on)
			ok(t, err)
			b, err := shmem.AtomicFetch(c, second.at, second.on)
			ok(t, err)
			bit := uint64(0)
			if a == r && b != r { // saw only its first write
				bit = 1
			}
			ok(t, shmem.P(c, saw.At(me-2), r<<1|bit, 2))
		}
		ok(t, w.Barrier())
		if me == 2 && saw.Local()[0]&1 == 1 && saw.Local()[1]&1 == 1 {
			t.Fatalf("words on PEs %d and %d, round %d: the readers saw the writes in opposite orders", xOn, yOn, r)
		}
		ok(t, w.Barrier())
	})
}

// spinSink keeps the compiler from removing the loop of spinFor.
var spinSink uint64

// spinFor passes time: half a millisecond for a million turns. Under the race detector each turn
// would take a hundred times as long.
//
//go:norace
func spinFor(turns uint64) {
	for i := range turns {
		spinSink ^= i
	}
}

// Waking: a writer that puts once and then does nothing wakes a sleeper. Pauses of random lengths
// up to a millisecond hit every phase of the sleeper's wait, the first of which are a thousand
// times shorter than the last.
func TestLitmusSleeperIsWoken(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c, me := w.Ctx(), w.MyPE()
		flag := must(shmem.Calloc[int64](w, 1))(t)
		spin := uint64(1)
		runLitmus(t, w, litmusRounds()/400, func(r uint64) {
			if r%2 == uint64(me) {
				spin = spin*6364136223846793005 + 1442695040888963407
				spinFor(spin >> 44 >> (spin >> 40 & 7))
				ok(t, shmem.P(c, flag, int64(r), 1-me))
				return
			}
			ok(t, shmem.WaitUntil(c, flag, shmem.EQ, int64(r)))
		})
	})
}
