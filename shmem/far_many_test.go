package shmem_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// manyOperation says what operation i of many does: on how many words, from which one on.
type manyOperation struct{ at, n int }

// manyOperations returns so many operations, each on words of its own, and the number of words in all. Few of them are
// longer than a room for an answer, or a block.
func manyOperations(count int) (ops []manyOperation, words int) {
	for i := range count {
		n := 1
		if i%61 == 0 {
			n = 1500
		}
		ops = append(ops, manyOperation{words, n})
		words += n
	}
	return ops, words
}

// manyCounters is the number of words that fetches add to.
const manyCounters = 64

// One Quiet completes 100,000 puts, gets and fetches that were started before it, of both PEs at the same time. Each has
// done what it should, once, in bounded memory.
func TestFarManyOutstanding(t *testing.T) {
	count := 100_000
	if testing.Short() {
		count = 20_000
	}
	ops, words := manyOperations(count)
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		me, c := w.MyPE(), w.Ctx()
		other := 1 - me
		puts, gets := must(shmem.Calloc[uint64](w, words))(t), must(shmem.Alloc[uint64](w, words))(t)
		counters := must(shmem.Calloc[int64](w, manyCounters))(t)
		src, dst := make([]uint64, words), make([]uint64, words)
		fillLarge(src, me, 1)
		fillLarge(gets.Local(), me, 2)
		fetches := make([]shmem.Pending[int64], 0, count/3+1)
		ok(t, w.Barrier())
		for i, o := range ops {
			switch at, end := o.at, o.at+o.n; i % 3 {
			case 0:
				ok(t, shmem.PutNBI(c, puts.Slice(at, end), src[at:end], other))
			case 1:
				_, err := shmem.GetNBI(c, dst[at:end], gets.Slice(at, end), other)
				ok(t, err)
			default:
				fetches = append(fetches, must(shmem.AtomicFetchAddNBI(c, counters.At(len(fetches)%manyCounters), 1, other))(t))
			}
		}
		ok(t, c.Quiet())
		wantMany(t, "gets", ops, 1, dst, other, 2)
		for k, f := range fetches { // the operations of one PE on one node are executed in their order
			if old := must(f.Wait())(t); old != int64(k/manyCounters) {
				t.Fatalf("fetch %d returned %d, want %d", k, old, k/manyCounters)
			}
		}
		ok(t, w.Barrier())
		wantMany(t, "puts", ops, 0, puts.Local(), other, 1)
		for k, v := range counters.Local() {
			if want := int64((len(fetches) + manyCounters - 1 - k) / manyCounters); v != want {
				t.Errorf("counter %d is %d, want %d", k, v, want)
			}
		}
		if !testing.Short() {
			wantMemory(t, "after the Quiet", uint64(2*words)*8, uint64(2*words)*8)
		}
		ok(t, w.Barrier())
	}, shmemtest.Nodes(2), shmemtest.HeapSize(uint64(2*words)*8+16<<20), shmemtest.Timeout(3*time.Minute))
}

// wantMany fails the test unless the words of operations of one kind, and no others, are those that a PE has filled.
func wantMany(t *testing.T, what string, ops []manyOperation, kind int, x []uint64, pe, round int) {
	t.Helper()
	for i, o := range ops {
		for k := o.at; k < o.at+o.n; k++ {
			want := uint64(0)
			if i%3 == kind {
				want = largeWord(pe, round, k)
			}
			if x[k] != want {
				t.Fatalf("%s: word %d, of operation %d, is %#x, want %#x", what, k, i, x[k], want)
			}
		}
	}
}

// 64 goroutines of each PE put, get and fetch at the same time, on one context or on one each. Each of them finds what it
// has put, and all additions count once.
func TestFarGoroutines(t *testing.T) {
	const goroutines, room = 64, 3000
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		other := 1 - w.MyPE()
		x := must(shmem.Alloc[uint64](w, goroutines*room))(t)
		counters := must(shmem.Calloc[int64](w, 2))(t)
		for k, contexts := range []int{1, goroutines} {
			cs := []*shmem.Ctx{w.Ctx()}
			for len(cs) < contexts {
				cs = append(cs, must(w.NewCtx())(t))
			}
			ok(t, w.Barrier())
			olds, errs := make([][]int64, goroutines), make([]error, goroutines)
			var wg sync.WaitGroup
			for g := range goroutines {
				mine := farWorker{c: cs[g%contexts], x: x.Slice(g*room, (g+1)*room), counter: counters.At(k), other: other, me: w.MyPE(), g: g}
				wg.Go(func() { olds[g], errs[g] = mine.run(rounds) })
			}
			wg.Wait()
			ok(t, firstOf(errs...))
			all := slices.Concat(olds...)
			slices.Sort(all)
			for i, v := range all {
				if v != int64(i) {
					t.Fatalf("%d contexts: value %d of all that were fetched is %d", contexts, i, v)
				}
			}
			ok(t, w.Barrier())
			if v := counters.Local()[k]; v != int64(goroutines*rounds*2) {
				t.Errorf("%d contexts: counter is %d, want %d", contexts, v, goroutines*rounds*2)
			}
			if !testing.Short() {
				wantMemory(t, fmt.Sprintf("%d contexts", contexts), 0, goroutines*room*8)
			}
			for _, c := range cs[1:] {
				ok(t, c.Destroy())
			}
		}
		ok(t, w.Barrier())
	}, shmemtest.Nodes(2), shmemtest.Timeout(3*time.Minute))
}

// farWorker is what one of many goroutines works with.
type farWorker struct {
	c            *shmem.Ctx
	x            shmem.Sym[uint64] // its words on the other PE
	counter      shmem.Sym[int64]  // of all goroutines
	other, me, g int
}

// run makes rounds of operations and returns what its fetches have returned.
func (f *farWorker) run(rounds int) (olds []int64, err error) {
	src, dst, later := make([]uint64, f.x.Len()), make([]uint64, f.x.Len()), make([]uint64, f.x.Len())
	for r := range rounds {
		n := 1 + (r*977+f.g*131)%f.x.Len()
		for i := range n {
			src[i] = largeWord(f.me, r, f.g<<20|i)
		}
		put := shmem.Put[uint64]
		if r%2 == 0 {
			put = shmem.PutNBI[uint64]
		}
		err := firstOf(put(f.c, f.x, src[:n], f.other), f.c.Quiet())
		pending, err2 := shmem.AtomicFetchAddNBI(f.c, f.counter, 1, f.other)
		if err := firstOf(err, err2, shmem.Get(f.c, dst[:n], f.x, f.other)); err != nil {
			return nil, err
		}
		got, err := shmem.GetNBI(f.c, later[:n], f.x, f.other)
		old, err2 := shmem.AtomicFetchAdd(f.c, f.counter, 1, f.other)
		if err := firstOf(err, err2); err != nil {
			return nil, err
		}
		earlier, err := pending.Wait()
		all, err2 := got.Wait()
		if err := firstOf(err, err2); err != nil {
			return nil, err
		}
		if !slices.Equal(dst[:n], src[:n]) || !slices.Equal(all, src[:n]) {
			return nil, fmt.Errorf("goroutine %d, round %d: a get of %d words differs from what was put before", f.g, r, n)
		}
		olds = append(olds, earlier, old)
	}
	return olds, nil
}
