package far

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// All operations, of all sizes, do what they do in plain memory.
func TestOperations(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 3, 2)
			r.agent.change(func() { r.agent.slow = seed%2 == 1 })
			rng := rand.New(rand.NewPCG(seed, 7))
			want := map[int][]byte{}
			for pe := 2; pe < 6; pe++ {
				want[pe] = make([]byte, r.heap)
			}
			rounds := 1500
			if testing.Short() {
				rounds = 200
			}
			var touched Touched
			for i := range rounds {
				pe := 2 + rng.IntN(4)
				if err := operate(t.Context(), r, &touched, rng, pe, want[pe]); err != nil {
					t.Fatalf("seed %d, operation %d: %v", seed, i, err)
				}
			}
			r.quietOf(&touched)
			for pe, want := range want {
				if !bytes.Equal(r.memory(pe), want) {
					t.Errorf("seed %d: the memory of PE %d is wrong", seed, pe)
				}
			}
			if len(touched.nodes) > 0 {
				t.Errorf("nodes %v are still touched after Quiet", touched.nodes)
			}
		})
	}
}

// sizes are around the limits of blocks, rooms and pieces.
func sizeOf(rng *rand.Rand) int {
	limits := []int{8, 16, 100, record.MaxPut, layout.WireRoom, layout.WirePiece, 3 * layout.WirePiece, record.MaxGet}
	n := limits[rng.IntN(len(limits))]
	switch rng.IntN(3) {
	case 0:
		return n
	case 1:
		return max(1, n-8+rng.IntN(17))
	default:
		return 1 + rng.IntN(n+n/4)
	}
}

// operate performs one operation on PE pe, and on want, its heap.
func operate(ctx context.Context, r *rig, t *Touched, rng *rand.Rand, pe int, want []byte) error {
	n := sizeOf(rng)
	off := rng.IntN(len(want) - n)
	target, place := layout.PE(pe), layout.HeapOffset+uint64(off)
	switch rng.IntN(8) {
	case 0, 1:
		b := random(rng, n)
		copy(want[off:], b)
		if rng.IntN(2) == 0 { // from the heap, which may change when Put has returned
			own := r.mine()[rng.IntN(len(want)-n):][:n]
			copy(own, b)
			b = own
		}
		return r.Put(ctx, t, target, place, at(b), n)
	case 2, 3:
		dst := make([]byte, n)
		if rng.IntN(2) == 0 {
			dst = r.mine()[off:][:n:n]
		}
		if rng.IntN(2) == 0 {
			p, err := r.StartGet(ctx, t, target, place, at(dst), n)
			if err != nil {
				return err
			}
			if rng.IntN(2) == 0 {
				err = r.Quiet(ctx, t)
			} else {
				_, err = p.Wait(ctx)
			}
			if err != nil {
				return err
			}
		} else if err := r.Get(ctx, t, target, place, at(dst), n); err != nil {
			return err
		}
		if !bytes.Equal(dst, want[off:][:n]) {
			return fmt.Errorf("get of %d bytes at %d: wrong data", n, off)
		}
		return nil
	case 4, 5:
		return operateStrided(ctx, r, t, rng, pe, want)
	case 6:
		place &^= 7
		word := (*uint64)(unsafe.Pointer(&want[off&^7]))
		v := rng.Uint64()
		if rng.IntN(2) == 0 {
			*word = v
			return r.Signal(ctx, t, target, place, v, false)
		}
		*word += v
		return r.Signal(ctx, t, target, place, v, true)
	default:
		return operateAtomic(ctx, r, t, rng, target, place&^7, want[off&^7:])
	}
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func operateStrided(ctx context.Context, r *rig, t *Touched, rng *rand.Rand, pe int, want []byte) error {
	elem := []int{1, 2, 4, 8, 16}[rng.IntN(5)]
	block := 1 + rng.IntN([]int{1, 4, 100, 6000}[rng.IntN(4)])
	if rng.IntN(20) == 0 {
		block = layout.WirePiece/elem + rng.IntN(20)
	}
	n := 1 + rng.IntN(max(1, min(2000, 200_000/(block*elem))))
	far, near := block+rng.IntN(3), block+rng.IntN(3)
	off := rng.IntN(len(want)-n*far*elem) &^ 15
	private := make([]byte, n*near*elem)
	place := layout.HeapOffset + uint64(off)
	if rng.IntN(2) == 0 {
		copy(private, random(rng, len(private)))
		for i := range n {
			copy(want[off+i*far*elem:], private[i*near*elem:][:block*elem])
		}
		return r.PutStrided(ctx, t, layout.PE(pe), place, at(private), uintptr(elem), far, near, block, n)
	}
	dst := private
	if rng.IntN(2) == 0 {
		dst = r.mine()[:len(private):len(private)]
		clear(dst)
	}
	if err := r.GetStrided(ctx, t, layout.PE(pe), place, at(dst), uintptr(elem), near, far, block, n); err != nil {
		return err
	}
	expect := make([]byte, len(dst))
	for i := range n {
		copy(expect[i*near*elem:], want[off+i*far*elem:][:block*elem])
	}
	if !bytes.Equal(dst, expect) {
		return fmt.Errorf("strided get of %d blocks of %d elements of %d bytes, steps %d and %d: wrong data", n, block, elem, far, near)
	}
	return nil
}

func operateAtomic(ctx context.Context, r *rig, t *Touched, rng *rand.Rand, pe layout.PE, place uint64, want []byte) error {
	code := record.AtomicCode(rng.IntN(int(record.AtomicXor) + 1))
	width := 4 << rng.IntN(2)
	v := rng.Uint64()
	var before, cond uint64
	if width == 4 {
		word := (*uint32)(at(want))
		before = uint64(*word)
		cond = before ^ uint64(rng.IntN(2))
		atomically(code, unsafe.Pointer(word), keep(code, *word, uint32(v)), uint32(cond))
		v = uint64(uint32(v))
	} else {
		word := (*uint64)(at(want))
		before = *word
		cond = before ^ uint64(rng.IntN(2))
		atomically(code, unsafe.Pointer(word), v, cond)
	}
	if code != record.AtomicLoad && rng.IntN(2) == 0 {
		return r.Update(ctx, t, pe, place, code, width, v, cond)
	}
	var got uint64
	var err error
	if rng.IntN(2) == 0 {
		got, err = r.Fetch(ctx, t, pe, place, code, width, v, cond)
	} else {
		var p *Pending
		if p, err = r.StartFetch(ctx, t, pe, place, code, width, v, cond); err == nil {
			got, err = p.Wait(ctx)
		}
	}
	if code == record.AtomicSet {
		before = got // the value that a set returns is not defined
	}
	if err == nil && got != before {
		err = fmt.Errorf("atomic operation %d of %d bytes returned %#x, want %#x", code, width, got, before)
	}
	return err
}

func keep(_ record.AtomicCode, _, v uint32) uint32 { return v }

// Many goroutines use one Port: their operations do not mix, and no atomic update is lost. The slow agent makes
// them wait for slots, pieces and blocks.
func TestManyGoroutines(t *testing.T) {
	for _, x := range []struct{ slow, barrier bool }{{false, true}, {true, true}, {false, false}} {
		t.Run(fmt.Sprintf("slow %v, membarrier %v", x.slow, x.barrier), func(t *testing.T) {
			r := newRigWith(t, 3, 2, x.barrier)
			if r.locked == x.barrier {
				t.Skip("no membarrier here")
			}
			r.agent.change(func() { r.agent.slow = x.slow })
			const goroutines, part = 64, 64 << 10
			rounds := 60
			if testing.Short() {
				rounds = 15
			}
			ctx, cancel := limit(t)
			defer cancel()
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					var touched Touched
					rng := rand.New(rand.NewPCG(uint64(g), 1))
					pe, place := layout.PE(2+g%4), layout.HeapOffset+uint64(g*part)
					for i := range rounds {
						n := 1 + rng.IntN([]int{16, 4000, part - 8}[rng.IntN(3)])
						b := random(rng, n)
						if err := r.Put(ctx, &touched, pe, place, at(b), n); err != nil {
							t.Error(err)
							return
						}
						if _, err := r.Fetch(ctx, &touched, 2, layout.HeapOffset+goroutines*part, record.AtomicAdd, 8, 1, 0); err != nil {
							t.Error(err)
							return
						}
						got := make([]byte, n)
						if err := r.Get(ctx, &touched, pe, place, at(got), n); err != nil || !bytes.Equal(got, b) {
							t.Errorf("goroutine %d, round %d: get of %d bytes: %v, equal: %v", g, i, n, err, bytes.Equal(got, b))
							return
						}
					}
					if err := r.Quiet(ctx, &touched); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			sum := (*uint64)(unsafe.Pointer(&r.memory(2)[goroutines*part]))
			if got := atomic.LoadUint64(sum); got != uint64(goroutines*rounds) {
				t.Errorf("the sum is %d, want %d", got, goroutines*rounds)
			}
			r.wantAllFree()
		})
	}
}

// wantAllFree checks that all slots, pieces and blocks become free: answers come before Done, and Done before the agent
// leaves a block.
func (r *rig) wantAllFree() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for ; ; runtime.Gosched() {
		r.mu.Lock()
		r.harvest()
		r.pool.sweep()
		slots, pieces, blocks, pendings := len(r.freeSlots), r.pieces, len(r.pool.free), r.pendings
		held := slices.Max(r.quotas.slots.held) + slices.Max(r.quotas.pieces.held)
		r.mu.Unlock()
		if slots == layout.WireSlots && pieces == 1<<layout.WirePieces-1 && blocks == layout.WireBlocks && pendings == 0 {
			if held > 0 || r.quotas.slots.free != layout.WireSlots || r.quotas.pieces.free != layout.WirePieces || r.waits.all != 0 {
				r.t.Errorf("all is free, and the quotas are %v and %v, with %d waits", r.quotas.slots, r.quotas.pieces, r.waits.all)
			}
			return
		}
		if ctx.Err() != nil {
			r.t.Fatalf("%d slots, pieces %b, %d blocks are free, %d Pendings, want all free", slots, pieces, blocks, pendings)
		}
	}
}

// A stopped node stops only who talks to it: a stream gets a quarter of the blocks, and Quiet waits for the nodes
// that the context has touched.
func TestStoppedNode(t *testing.T) {
	r := newRig(t, 3, 1)
	r.stop(1, true)
	ctx, cancel := brief(t)
	defer cancel()
	var to1, to2 Touched
	b := random(rand.New(rand.NewPCG(1, 1)), 1<<20)
	err := r.Put(ctx, &to1, 1, layout.HeapOffset, at(b), len(b))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a put to a stopped node returned %v", err)
	}
	if used := layout.WireBlocks - len(r.pool.free); used != maxStream {
		t.Errorf("the stream has %d blocks, want %d", used, maxStream)
	}
	ctx, cancel = limit(t)
	defer cancel()
	if err := r.Put(ctx, &to2, 2, layout.HeapOffset, at(b), len(b)); err != nil {
		t.Fatal(err)
	}
	r.quietOf(&to2)
	if err := r.QuietPE(ctx, &to1, 2); err != nil {
		t.Error(err)
	}
	short, cancel := brief(t)
	defer cancel()
	if err := r.Quiet(short, &to1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Quiet of a context with records to a stopped node returned %v", err)
	}
	r.stop(1, false)
	if err := r.Put(ctx, &to1, 1, layout.HeapOffset, at(b), len(b)); err != nil {
		t.Fatal(err)
	}
	r.quietOf(&to1)
	for pe := 1; pe < 3; pe++ {
		if !bytes.Equal(r.memory(pe)[:len(b)], b) {
			t.Errorf("the memory of PE %d is wrong", pe)
		}
	}
	r.wantAllFree()
}

// With more nodes than blocks, each gets one in turn: the open blocks of others are taken when their records are
// executed.
func TestMoreNodesThanBlocks(t *testing.T) {
	const nodes = layout.WireBlocks + 44
	r := newRig(t, nodes, 1)
	var touched Touched
	ctx, cancel := limit(t)
	defer cancel()
	for round := range uint64(20) {
		for pe := 1; pe < nodes; pe++ {
			v := round<<32 | uint64(pe)
			if err := r.Put(ctx, &touched, layout.PE(pe), layout.HeapOffset+8*round, unsafe.Pointer(&v), 8); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.quietOf(&touched)
	for pe := 1; pe < nodes; pe++ {
		for round := range uint64(20) {
			if got := *(*uint64)(unsafe.Pointer(&r.memory(pe)[8*round])); got != round<<32|uint64(pe) {
				t.Fatalf("word %d of PE %d is %#x", round, pe, got)
			}
		}
	}
	r.wantAllFree()
}

// A wait that ends by its context leaves the slot reserved until the answer is there.
func TestAbandonedSlots(t *testing.T) {
	r := newRig(t, 2, 2)
	r.stop(1, true)
	var touched Touched
	ends := func(name string, f func(ctx context.Context) error) {
		ctx, cancel := brief(t)
		defer cancel()
		if err := f(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s from a stopped node returned %v", name, err)
		}
	}
	b := make([]byte, 8*layout.WirePiece)
	ends("a get", func(ctx context.Context) error { return r.Get(ctx, &touched, 2, layout.HeapOffset, at(b), len(b)) })
	ends("a fetch", func(ctx context.Context) error {
		_, err := r.Fetch(ctx, &touched, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
		return err
	})
	p, err := r.StartFetch(t.Context(), &touched, 3, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends("a pending fetch", func(ctx context.Context) error { _, err := p.Wait(ctx); return err })
	r.mu.Lock()
	r.harvest()
	if used := layout.WireSlots - len(r.freeSlots); used != window+2 {
		t.Errorf("%d slots are in use, want %d", used, window+2)
	}
	r.mu.Unlock()
	r.stop(1, false)
	ctx, cancel := limit(t)
	defer cancel()
	if old, err := p.Wait(ctx); old != 0 || err != nil {
		t.Errorf("the second Wait returned %d, %v", old, err)
	}
	if old, err := p.Wait(ctx); old != 0 || err != nil {
		t.Errorf("the third Wait returned %d, %v", old, err)
	}
	r.quietOf(&touched)
	r.wantAllFree()
}

// A program may start more requests than there are slots, and wait for none of them before Quiet.
func TestMorePendingsThanSlots(t *testing.T) {
	r := newRig(t, 2, 1)
	const n = 3 * layout.WireSlots
	ctx, cancel := limit(t)
	defer cancel()
	mem := r.memory(1)
	for i := range mem {
		mem[i] = byte(i * 7)
	}
	var touched Touched
	var pendings [n]*Pending
	var got [n][16]byte
	for i := range n {
		var err error
		if pendings[i], err = r.StartGet(ctx, &touched, 1, layout.HeapOffset+uint64(16*i), unsafe.Pointer(&got[i]), 16); err != nil {
			t.Fatal(err)
		}
	}
	r.quietOf(&touched)
	for i := range n {
		if !bytes.Equal(got[i][:], mem[16*i:][:16]) || pendings[i].left != 0 {
			t.Fatalf("get %d: %d answers left, got %v, want %v", i, pendings[i].left, got[i], mem[16*i:][:16])
		}
		if _, err := pendings[i].Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	r.wantAllFree()
}

// A program may start long gets without a wait, too: those for which there is no piece take the answers of earlier ones.
func TestLongPendings(t *testing.T) {
	r := newRig(t, 2, 1)
	ctx, cancel := limit(t)
	defer cancel()
	mem := r.memory(1)
	copy(mem, random(rand.New(rand.NewPCG(1, 1)), len(mem)))
	var touched Touched
	var got [10][]byte
	for i := range got {
		got[i] = make([]byte, 300_000)
		if i%3 == 2 {
			got[i] = r.mine()[:3*record.MaxGet]
		}
		if _, err := r.StartGet(ctx, &touched, 1, layout.HeapOffset, at(got[i]), len(got[i])); err != nil {
			t.Fatal(err)
		}
	}
	r.quietOf(&touched)
	for i, b := range got {
		if !bytes.Equal(b, mem[:len(b)]) {
			t.Errorf("get %d: wrong data", i)
		}
	}
	r.wantAllFree()
	r.stop(1, true)
	short, cancel := brief(t)
	defer cancel()
	if _, err := r.StartGet(short, &touched, 1, layout.HeapOffset, at(make([]byte, len(mem)/2)), len(mem)/2); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a get of more than all pieces from a stopped node returned %v", err)
	}
	r.stop(1, false)
	r.quietOf(&touched)
	r.wantAllFree()
}

// Several goroutines may wait for one Pending.
func TestPendingWaitedTwice(t *testing.T) {
	r := newRig(t, 2, 1)
	ctx, cancel := limit(t)
	defer cancel()
	for i := range uint64(200) {
		r.stop(1, true)
		p, err := r.StartFetch(ctx, nil, 1, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if old, err := p.Wait(ctx); old != i || err != nil {
					t.Errorf("Wait returned %d, %v, want %d", old, err, i)
				}
			})
		}
		r.stop(1, false)
		wg.Wait()
	}
	r.wantAllFree()
}

// The answer to a bad request is an error.
func TestRefused(t *testing.T) {
	r := newRig(t, 2, 1)
	var b [64]byte
	if err := r.Get(t.Context(), nil, 1, layout.HeapOffset+r.heap-8, unsafe.Pointer(&b), 64); !errors.Is(err, ErrRefused) {
		t.Errorf("a get beyond the heap returned %v", err)
	}
	if _, err := r.Fetch(t.Context(), nil, 1, layout.HeapOffset+4, record.AtomicAdd, 8, 1, 0); !errors.Is(err, ErrRefused) {
		t.Errorf("a fetch of an unaligned word returned %v", err)
	}
	r.wantAllFree()
}

// A new Port goes on where an earlier one has stopped.
func TestResume(t *testing.T) {
	r := newRig(t, 3, 1)
	r.stop(1, true)
	var v [10_000]byte
	for pe := layout.PE(1); pe < 3; pe++ {
		if err := r.Put(t.Context(), nil, pe, layout.HeapOffset, unsafe.Pointer(&v), len(v)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := brief(t)
	defer cancel()
	if err := r.Get(ctx, nil, 1, layout.HeapOffset, unsafe.Pointer(&v), len(v)); err == nil {
		t.Error("a get from a stopped node returned no error")
	}
	old := r.Port
	port, err := New(r.c)
	if err != nil {
		t.Fatal(err)
	}
	r.Port = port
	for i := range port.streams {
		if port.streams[i].next != old.streams[i].next {
			t.Errorf("stream %d goes on with number %d, want %d", i, port.streams[i].next, old.streams[i].next)
		}
	}
	if len(port.freeSlots) != len(old.freeSlots) || port.pieces != old.pieces {
		t.Errorf("%d slots and pieces %b are free, want %d and %b", len(port.freeSlots), port.pieces, len(old.freeSlots), old.pieces)
	}
	if err := Settle(ctx, r.Port); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Settle while a node is stopped: %v, want the end of its context", err)
	}
	r.stop(1, false)
	if err := Settle(t.Context(), r.Port); err != nil {
		t.Errorf("Settle: %v", err)
	}
	for i := range port.streams {
		if s := &port.streams[i]; s.executed() != s.next {
			t.Errorf("after Settle, %d of %d records of stream %d are executed", s.executed(), s.next, i)
		}
	}
	var touched Touched
	for pe := layout.PE(1); pe < 3; pe++ {
		if _, err := r.Fetch(t.Context(), &touched, pe, layout.HeapOffset+16_000, record.AtomicAdd, 8, 5, 0); err != nil {
			t.Fatal(err)
		}
	}
	r.quietOf(&touched)
	r.wantAllFree()
}

// The agent, whose sleep has no timeout, is woken in each phase of falling asleep, and no record stays in a block that it
// leaves. Two goroutines make the second look find something.
func TestAgentIsWoken(t *testing.T) {
	r := newRig(t, 2, 1)
	ctx, cancel := limit(t)
	defer cancel()
	rounds := 20_000
	if testing.Short() {
		rounds = 2000
	}
	var wg sync.WaitGroup
	for g := range uint64(2) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(g, 3))
			var touched Touched
			for i := range rounds {
				for range rng.IntN(200) {
					atomic.LoadUint64(&r.wire.Tail)
				}
				if err := r.Signal(ctx, &touched, 1, layout.HeapOffset+8*g, 1, true); err != nil {
					t.Error(err)
					return
				}
				if err := r.Quiet(ctx, &touched); err != nil {
					t.Errorf("round %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for g := range 2 {
		if got := *(*uint64)(unsafe.Pointer(&r.memory(1)[8*g])); got != uint64(rounds) {
			t.Errorf("the sum of goroutine %d is %d, want %d", g, got, rounds)
		}
	}
	r.agent.change(func() { t.Logf("the agent slept %d times", r.agent.sleeps) })
	r.wantAllFree()
}
