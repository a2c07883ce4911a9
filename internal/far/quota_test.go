package far

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The rule of quota: a node alone has half of what is not reserved, nodes that take all they can have leave something to
// further ones, and nothing is ever free of a node that may have none.
func TestQuota(t *testing.T) {
	for _, x := range []struct{ things, nodes, reserve, alone, next int }{
		{256, 2, 64, 128, 0}, // the other node is this PE's own
		{256, 3, 64, 128, 64},
		{256, 1000, 64, 96, 48},
		{8, 3, 0, 4, 2},
	} {
		q := newQuota(x.things, x.nodes, x.reserve)
		fill := func(node int) (n int) {
			for ; q.may(node); n++ {
				q.take(node)
			}
			return n
		}
		if n := fill(1); n != x.alone {
			t.Errorf("%d things, %d nodes: the first node takes %d, want %d", x.things, x.nodes, n, x.alone)
		}
		if x.next > 0 {
			if n := fill(2); n != x.next {
				t.Errorf("%d things, %d nodes: the second node takes %d, want %d", x.things, x.nodes, n, x.next)
			}
		}
	}
	const nodes = reserveSlots + 1 // as many others as the reserve
	q := newQuota(layout.WireSlots, nodes, reserveSlots)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 100_000 {
		if node := 1 + rng.IntN(nodes-1); rng.IntN(4) > 0 && q.may(node) {
			q.take(node)
		} else if q.holds(node) {
			q.give(node)
		}
		for node := 1; node < nodes; node++ {
			if !q.holds(node) && !q.may(node) {
				t.Fatalf("step %d: node %d has nothing and may have nothing", i, node)
			}
		}
	}
}

// sleepSoundly makes waits sleep at once, for so long that a wake-up that is lost fails the test.
func (r *rig) sleepSoundly() {
	const long = time.Minute
	r.c.Waiter.Policy = wait.Policy{First: long, Most: long}
	begin := time.Now()
	r.t.Cleanup(func() {
		if time.Since(begin) >= long {
			r.t.Error("a wait was woken by the end of its sleep")
		}
	})
}

// awaitWaiters waits until n goroutines wait for slots of a node.
func (r *rig) awaitWaiters(ctx context.Context, node, n int) {
	r.t.Helper()
	for {
		r.mu.Lock()
		waiting := int(r.waits.of[node])
		r.mu.Unlock()
		if waiting == n {
			return
		}
		if ctx.Err() != nil {
			r.t.Fatalf("%d goroutines wait for slots of node %d, want %d", waiting, node, n)
		}
		runtime.Gosched()
	}
}

// use makes requests of all kinds to a PE, whose memory is want, and checks what they bring.
func (r *rig) use(ctx context.Context, t *Touched, pe layout.PE, want []byte, counter *uint64) error {
	old, err := r.Fetch(ctx, t, pe, layout.HeapOffset+r.heap-64, record.AtomicAdd, 8, 1, 0)
	if err != nil || old != *counter {
		return fmt.Errorf("fetch of PE %d: %d, %w, want %d", pe, old, err, *counter)
	}
	*counter++
	for _, n := range []int{8, layout.WireRoom, layout.WireRoom + 1, layout.WirePiece, 2*layout.WirePiece + 7} {
		b := make([]byte, n)
		if err := r.Get(ctx, t, pe, layout.HeapOffset, at(b), n); err != nil || !bytes.Equal(b, want[:n]) {
			return fmt.Errorf("get of %d bytes of PE %d: %w, right data: %v", n, pe, err, bytes.Equal(b, want[:n]))
		}
		clear(b)
		p, err := r.StartGet(ctx, t, pe, layout.HeapOffset, at(b), n)
		if err == nil {
			_, err = p.Wait(ctx)
		}
		if err != nil || !bytes.Equal(b, want[:n]) {
			return fmt.Errorf("pending get of %d bytes of PE %d: %w, right data: %v", n, pe, err, bytes.Equal(b, want[:n]))
		}
	}
	for _, block := range []int{8, layout.WireRoom + 8, layout.WirePiece} { // of some, one fits into a room, of others none
		n := 3
		b := make([]byte, n*block)
		if err := r.GetStrided(ctx, t, pe, layout.HeapOffset, at(b), 8, block/8, block/8+1, block/8, n); err != nil {
			return err
		}
		for i := range n {
			if !bytes.Equal(b[i*block:][:block], want[i*(block+8):][:block]) {
				return fmt.Errorf("strided get of blocks of %d bytes of PE %d: block %d is wrong", block, pe, i)
			}
		}
	}
	return nil
}

// prepare fills the first MiB of a PE's heap, and returns it.
func (r *rig) prepare(pe int) []byte {
	m := r.memory(pe)[:1<<20]
	copy(m, random(rand.New(rand.NewPCG(uint64(pe), 1)), len(m)))
	return m
}

// crowd starts 1,000 fetches and gets of many sizes of each of some stopped nodes, by so many goroutines for each, 5 at most.
// Each has to wait for slots. The function that it returns waits for their ends, and checks the values that they have fetched.
func (r *rig) crowd(ctx context.Context, goroutines int, nodes ...int) (end func(check func(node int, err error))) {
	const total = 1000
	fetches := total / goroutines // more than the slots that a node can have
	var wg sync.WaitGroup
	type outcome struct {
		node int
		err  error
	}
	var mu sync.Mutex
	var all []outcome
	olds := map[int][]uint64{}
	for _, node := range nodes {
		pe := layout.PE(node * r.near)
		want := r.prepare(int(pe))
		for g := range goroutines {
			wg.Go(func() {
				var mine []uint64
				err := func() error {
					var touched Touched
					var pendings []*Pending
					sizes := []int{8, 5000, 100, 3*layout.WirePiece + 1, layout.WireRoom}
					n := sizes[(g+node)%len(sizes)]
					into := make([]byte, n)
					got, err := r.StartGet(ctx, &touched, pe, layout.HeapOffset, at(into), n)
					if err != nil {
						return err
					}
					for range fetches {
						p, err := r.StartFetch(ctx, &touched, pe, layout.HeapOffset+r.heap-8, record.AtomicAdd, 8, 1, 0)
						if err != nil {
							return err
						}
						pendings = append(pendings, p)
					}
					for _, p := range pendings {
						v, err := p.Wait(ctx)
						if err != nil {
							return err
						}
						mine = append(mine, v)
					}
					if _, err := got.Wait(ctx); err != nil {
						return err
					}
					if !bytes.Equal(into, want[:n]) {
						return fmt.Errorf("get of %d bytes: wrong data", n)
					}
					return r.Quiet(ctx, &touched)
				}()
				mu.Lock()
				defer mu.Unlock()
				all = append(all, outcome{node, err})
				olds[node] = append(olds[node], mine...)
			})
		}
		r.awaitWaiters(ctx, node, goroutines)
	}
	return func(check func(node int, err error)) {
		wg.Wait()
		for _, o := range all {
			check(o.node, o.err)
		}
		for node, values := range olds {
			seen := make([]bool, total)
			for _, v := range values {
				if v >= uint64(len(seen)) || seen[v] {
					r.t.Errorf("a fetch of node %d returned %d, twice or too much", node, v)
					return
				}
				seen[v] = true
			}
		}
	}
}

// While thousands of fetches and gets wait for stopped nodes, requests of all kinds to another node end at once. When the
// nodes go on, all ends with the right values. When they are lost, all ends with an error that says so.
func TestStoppedNodesStopNoOther(t *testing.T) {
	for _, stopped := range []int{1, 12} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d stopped, lost %v", stopped, lost), func(t *testing.T) {
				r := newRig(t, stopped+2, 1)
				r.sleepSoundly()
				healthy := layout.PE(stopped + 1)
				want := bytes.Clone(r.prepare(int(healthy)))
				ctx, cancel := limit(t)
				defer cancel()
				var nodes []int
				for node := 1; node <= stopped; node++ {
					r.stop(node, true)
					nodes = append(nodes, node)
				}
				end := r.crowd(ctx, max(1, 5/stopped), nodes...)
				var touched Touched
				counter := uint64(0)
				for range 2 {
					if err := r.use(ctx, &touched, healthy, want, &counter); err != nil {
						t.Fatal(err)
					}
				}
				r.quietOf(&touched)
				for _, node := range nodes {
					if lost {
						r.lose(node)
					} else {
						r.stop(node, false)
					}
				}
				end(func(node int, err error) {
					if lost {
						wantDead(t, err, layout.PE(node))
					} else if err != nil {
						t.Errorf("node %d: %v", node, err)
					}
				})
				r.wantAllFree()
			})
		}
	}
}

// Goroutines that have many requests under way to each of two nodes at the same time wait for each other in no order.
func TestSlotsOfTwoNodes(t *testing.T) {
	r := newRig(t, 3, 1)
	r.sleepSoundly()
	r.agent.change(func() { r.agent.slow = true })
	ctx, cancel := limit(t)
	defer cancel()
	rounds := 2000
	if testing.Short() {
		rounds = 400
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			var touched Touched
			b := make([]byte, 3*layout.WirePiece)
			for i := range rounds {
				pe := layout.PE(1 + (g+i/100)%2)
				var err error
				if i%50 == 0 {
					err = r.Get(ctx, &touched, pe, layout.HeapOffset, at(b), len(b))
				} else {
					_, err = r.StartFetch(ctx, &touched, pe, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
				}
				if err != nil {
					t.Errorf("goroutine %d, round %d: %v", g, i, err)
					return
				}
			}
			if err := r.Quiet(ctx, &touched); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	sum := uint64(0)
	for pe := 1; pe < 3; pe++ {
		sum += *(*uint64)(unsafe.Pointer(&r.memory(pe)[0]))
	}
	if want := uint64(8 * (rounds - rounds/50)); sum != want {
		t.Errorf("the sum is %d, want %d", sum, want)
	}
	r.wantAllFree()
}

// A wait for a slot ends with its context, and one for the slot of a dead PE of a living node with an error that names it. The
// node is stopped: another PE there waits on.
func TestSlotWaitsEnd(t *testing.T) {
	r := newRig(t, 3, 2)
	r.stop(1, true)
	ctx, cancel := limit(t)
	defer cancel()
	var touched Touched
	for {
		short, cancel := brief(t)
		_, err := r.StartFetch(short, &touched, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
		cancel()
		if err != nil {
			break
		}
	}
	if used := layout.WireSlots - len(r.freeSlots); used != layout.WireSlots/2 {
		t.Errorf("the node has %d slots, want %d", used, layout.WireSlots/2)
	}
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := r.Fetch(ctx, nil, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0); first <- err }()
	go func() { _, err := r.Fetch(ctx, nil, 3, layout.HeapOffset, record.AtomicAdd, 8, 1, 0); second <- err }()
	r.awaitWaiters(ctx, 1, 2)
	r.kill(2)
	wantDead(t, <-first, 2)
	r.awaitWaiters(ctx, 1, 1)
	r.stop(1, false)
	if err := <-second; err != nil {
		t.Errorf("fetch of a living PE: %v", err)
	}
	r.quietOf(&touched)
	r.wantAllFree()
}

// fill claims all slots that a node can have, and returns them.
func (r *rig) fill(node int) (all []int) {
	for {
		k, ok := r.claimNow(target{layout.PE(node * r.near), node, 0}, false)
		if !ok {
			return all
		}
		all = append(all, k)
	}
}

// awaitSlotOf claims a slot of a node that can have none now. What it returns has the end of the wait.
func (r *rig) awaitSlotOf(ctx context.Context, node int) <-chan error {
	ended := make(chan error, 1)
	go func() {
		k, err := r.claim(ctx, target{layout.PE(node * r.near), node, 0}, false)
		if err == nil {
			r.leave(k)
		}
		ended <- err
	}()
	r.awaitWaiters(ctx, node, 1)
	r.awaitAsleep(ctx)
	return ended
}

// A wait for a slot is woken by a goroutine that leaves one of its node, and if its node has none, by one that leaves any.
func TestLeavingWakes(t *testing.T) {
	r := newRig(t, reserveSlots+20, 1)
	r.sleepSoundly()
	ctx, cancel := limit(t)
	defer cancel()
	const waiter = reserveSlots + 19
	all := r.fill(waiter)
	ended := r.awaitSlotOf(ctx, waiter)
	r.leave(all[0])
	must(t, <-ended)
	for _, k := range all[1:] {
		r.leave(k)
	}
	all = nil
	for node := 1; len(r.freeSlots) > 0; node++ {
		all = append(all, r.fill(node)...)
	}
	ended = r.awaitSlotOf(ctx, waiter)
	r.leave(all[len(all)-1])
	must(t, <-ended)
	for _, k := range all[:len(all)-1] {
		r.leave(k)
	}
	r.wantAllFree()
}

// A wait watches the oldest request of its node. When another goroutine has taken its answer, and its slot has gone to another
// node, the wait watches the next one.
func TestWatchedSlotIsTaken(t *testing.T) {
	r := newRig(t, 3, 1)
	r.sleepSoundly()
	r.stop(1, true)
	ctx, cancel := limit(t)
	defer cancel()
	var pendings []*Pending
	for range 2 {
		g, err := r.StartFetch(ctx, nil, 1, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
		must(t, err)
		pendings = append(pendings, g)
	}
	claimed := r.fill(1)
	ended := r.awaitSlotOf(ctx, 1)
	answer := func(i int) { atomic.StoreUint64(&r.wire.Slots[pendings[i].slot].Seq, uint64(i)+1) } // as the agent does
	r.mu.Lock()
	answer(0)
	r.harvest()
	for r.quotas.slots.may(1) {
		claimed = append(claimed, r.takeSlot(r.target(2), false))
	}
	r.mu.Unlock()
	answer(1)
	rma.RingBell(&r.own.Control(0).Bell)
	must(t, <-ended)
	for _, k := range claimed {
		r.leave(k)
	}
}

// Transfers that together want more pieces than their node can have end. One that has some gives way to those that have
// none.
func TestTransfersShare(t *testing.T) {
	r := newRig(t, 2, 1)
	want := r.prepare(1)
	ctx, cancel := limit(t)
	defer cancel()
	r.stop(1, true)
	ends := make(chan error, 3)
	n := len(want)
	get := func() {
		b := make([]byte, n)
		err := r.Get(ctx, nil, 1, layout.HeapOffset, at(b), n)
		if err == nil && !bytes.Equal(b, want[:n]) {
			err = errors.New("wrong data")
		}
		ends <- err
	}
	go get()
	for r.quotas.pieces.may(1) && ctx.Err() == nil { // until it has all pieces that the node can have
		runtime.Gosched()
	}
	for range cap(ends) - 1 {
		go get()
	}
	r.awaitWaiters(ctx, 1, cap(ends)-1)
	if k, ok := r.claimMore(r.target(1), false); ok {
		r.leave(k)
		t.Error("a transfer gets a second slot while others wait for their first one")
	}
	r.stop(1, false)
	for range cap(ends) {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	r.wantAllFree()
}
