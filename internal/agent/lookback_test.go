package agent

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/symheap/layout"
)

// leftWithRecord returns nodes with a block that the agent of node 0 has left while its PE took it for queued: a record lies in it, and the block is
// idle. So it is when membarrier has not reached the PE.
func leftWithRecord(t *testing.T) (nodes []*testNode, step, put func(), done *uint64) {
	t.Helper()
	nodes, step = stepNodes(t)
	var touched far.Touched
	v := uint64(1)
	put = func() {
		check(t, nodes[0].ports[0].Put(t.Context(), &touched, 2, layout.HeapOffset, unsafe.Pointer(&v), 8))
	}
	put()
	w := nodes[0].segments.Wire(0)
	block := &w.Blocks[w.Ready[0]]
	done = &w.Done[layout.ClassOneSided][1]
	for atomic.LoadUint64(done) == 0 || atomic.LoadUint32(&block.State) != layout.BlockIdle {
		step()
	}
	atomic.StoreUint32(&block.State, layout.BlockQueued)
	put()
	atomic.StoreUint32(&block.State, layout.BlockIdle)
	return nodes, step, put, done
}

// awaitDone steps until a stream has so many records executed, and checks that no PE was dropped.
func awaitDone(t *testing.T, nodes []*testNode, step func(), done *uint64, want uint64) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); atomic.LoadUint64(done) < want; step() {
		if time.Now().After(end) || nodes[0].agent.sources[0].dead {
			t.Fatalf("%d records are executed, the PE is dropped: %t; want %d and false", atomic.LoadUint64(done), nodes[0].agent.sources[0].dead, want)
		}
	}
}

// A record in a block that was left is found after a while, without another one.
func TestLookBack(t *testing.T) {
	nodes, step, put, done := leftWithRecord(t)
	awaitDone(t, nodes, step, done, 2)
	put()
	awaitDone(t, nodes, step, done, 3)
}

// A record in a block that was left comes before those of the stream's next block, and without a wait.
func TestLookBackBeforeNext(t *testing.T) {
	nodes, step, put, done := leftWithRecord(t)
	a := nodes[0].agent
	a.lookedBack = time.Now().Add(time.Hour)
	const full = layout.WireBody / 24 // puts in a block
	w := nodes[0].segments.Wire(0)
	block := &w.Blocks[w.Ready[0]]
	atomic.StoreUint32(&block.State, layout.BlockQueued)
	for range full - 2 {
		put()
	}
	atomic.StoreUint32(&block.State, layout.BlockIdle)
	put() // in another block
	awaitDone(t, nodes, step, done, full+1)
}

// A dead PE's last messages lie in a block that was left, too.
func TestLookBackOfDead(t *testing.T) {
	nodes, _, _, _ := leftWithRecord(t)
	a := nodes[0].agent
	takeLast(a, 0)
	if len(a.held) != 1 || a.held[0].taken != 48 {
		t.Errorf("the agent holds %+v, want the block with two records", a.held)
	}
}

// Blocks that were left are forgotten once the agent has looked back at them, and at most one entry is kept of each.
func TestLookBackForgets(t *testing.T) {
	nodes, step := stepNodes(t)
	a, w := nodes[0].agent, nodes[0].segments.Wire(0)
	var touched far.Touched
	v := uint64(1)
	most := 0
	for n := range uint64(1000) {
		check(t, nodes[0].ports[0].Put(t.Context(), &touched, 2, layout.HeapOffset, unsafe.Pointer(&v), 8))
		for atomic.LoadUint64(&w.Done[layout.ClassOneSided][1]) <= n {
			step()
		}
		if l := a.sources[0].left; l != nil {
			most = max(most, len(l.all))
		}
	}
	if most == 0 || most > layout.WireBlocks {
		t.Errorf("%d blocks are remembered at most, want 1 to %d", most, layout.WireBlocks)
	}
	now := time.Now().Add(time.Minute)
	for i := range 3 {
		lookBack(a, now.Add(time.Duration(i)*time.Minute))
	}
	if l := a.sources[0].left; len(l.all) != 0 || l.where != [layout.WireBlocks]uint16{} {
		t.Errorf("%d blocks are remembered after two looks, want none", len(l.all))
	}
}
