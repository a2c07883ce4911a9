package agent

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
)

// An agent that nobody wakes sends what PEs put: a PE may be stopped when it has cleared the agent's bell and has not yet
// written to the event descriptor.
func TestLostWakeUp(t *testing.T) {
	silent, err := xunix.NewEvent() // at which no agent looks
	check(t, err)
	defer xunix.CloseSocket(silent)
	nodes := startNodes(t, 2, func(n *testNode) { n.event = silent })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var touched far.Touched
	for v := range uint64(5) {
		for atomic.LoadUint32(&nodes[0].page.Bell.Sleeping)&layout.BellAsleep == 0 {
			check(t, ctx.Err())
			runtime.Gosched()
		}
		check(t, nodes[0].ports[0].Put(ctx, &touched, 2, layout.HeapOffset, unsafe.Pointer(&v), 8))
		if err := nodes[0].ports[0].Quiet(ctx, &touched); err != nil {
			t.Fatalf("quiet after put %d: %v", v, err)
		}
	}
}

// putOne puts a word to PE 2, of node 1.
func (n *testNode) putOne(t *testing.T) {
	t.Helper()
	v := uint64(1)
	check(t, n.ports[0].Put(t.Context(), new(far.Touched), 2, layout.HeapOffset, unsafe.Pointer(&v), 8))
}

// expectEnd runs the agent of node 0, which ends because of node 1, after its patience.
func (n *testNode) expectEnd(t *testing.T, want string) {
	t.Helper()
	patience := n.agent.waits.limit
	ended, began := make(chan error, 1), time.Now()
	go func() {
		runtime.LockOSThread()
		ended <- n.agent.Run()
	}()
	select {
	case err := <-ended:
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), want) || took < patience {
			t.Errorf("after %v the agent ends with %v, want %q after more than %v", took, err, want, patience)
		}
	case <-time.After(20 * time.Second):
		n.stop.Store(true)
		n.transport.Wake()
		t.Errorf("the agent waits with a patience of %v: %v", patience, <-ended)
	}
}

// An agent that is stopped keeps its connections, and the kernel takes what comes. Who waits for it ends nevertheless.
func TestStoppedAgent(t *testing.T) {
	nodes, step := stepNodes(t)
	nodes[0].putOne(t)
	for done := &nodes[0].segments.Wire(0).Done[layout.ClassOneSided][1]; atomic.LoadUint64(done) < 1; {
		step()
	}
	nodes[0].putOne(t)
	nodes[0].agent.waits.limit = 100 * time.Millisecond
	nodes[0].expectEnd(t, "the agent of node 1 has executed and answered nothing for ")
}

// An agent that opens connections and executes nothing is waited for no longer than one that cannot be reached.
func TestOpeningIsNoProgress(t *testing.T) {
	node, other := newNode(t, 0, 2), newNode(t, 1, 2)
	check(t, node.transport.SetPeer(1, nodeIncarnation, other.transport.Addrs()))
	check(t, other.transport.SetPeer(0, nodeIncarnation, node.transport.Addrs()))
	node.patience = 2 * retryLast // longer than any time between two attempts
	node.prepare(t, 2)
	defer func() { check(t, node.transport.Close()) }()
	over := make(chan int)
	go func() {
		opened := 0
		for !other.stop.Load() {
			events, err := other.transport.Poll(nil, 20*time.Millisecond)
			if err != nil {
				t.Error(err)
				break
			}
			for _, e := range events {
				if e.Kind == transport.Opened {
					opened++
					other.transport.Cut(0, e.Lane, errCut)
				}
			}
		}
		over <- opened
	}()
	node.putOne(t)
	node.expectEnd(t, "the agent of node 1 ")
	other.stop.Store(true)
	if opened := <-over; opened < 2 {
		t.Errorf("%d connections were opened, want several", opened)
	}
	check(t, other.transport.Close())
}

// A count, data and a value are progress.
func TestProgress(t *testing.T) {
	nodes, step := stepNodes(t)
	a := nodes[0].agent
	for name, reply := range map[string]func(s *sink){
		"count": func(s *sink) { s.Done(1, layout.ClassMessage, 1, 0) },
		"data":  func(s *sink) { s.Data(1, layout.HeapOffset, make([]byte, 8)) },
		"value": func(s *sink) { s.Answer(1, 0, 0, record.StatusOK, 0) },
	} {
		a.progress = false
		if reply((*sink)(a)); !a.progress {
			t.Errorf("a %s is no progress", name)
		}
	}
	a.waits.nodes[1].waiting, a.retries[1].tries = true, 5
	nodes[0].putOne(t)
	for done := &nodes[0].segments.Wire(0).Done[layout.ClassOneSided][1]; atomic.LoadUint64(done) < 1; {
		step()
	}
	if a.waits.nodes[1].waiting || a.retries[1].tries != 0 {
		t.Errorf("after a count the node is waited for: %t, tries %d; want false and 0", a.waits.nodes[1].waiting, a.retries[1].tries)
	}
}

// Only time counts in which records wait, nothing comes, and this agent runs.
func TestWaits(t *testing.T) {
	const tick = 100 * time.Millisecond
	w := waits{limit: time.Second, nodes: make([]nodeWait, 3)}
	now := time.Unix(1000, 0)
	busy := []bool{false, true, false}
	// look lets time pass, in looks that are tick apart, and returns after how much of it a node is silent for too long.
	look := func(d time.Duration) (node int, after time.Duration) {
		for after < d {
			now, after = now.Add(tick), after+tick
			if node, _, ok := w.look(now, func(node int) bool { return busy[node] }); ok {
				return node, after
			}
		}
		return -1, after
	}
	w.look(now, func(int) bool { return false })
	for range 5 {
		if node, after := look(9 * tick); node != -1 {
			t.Fatalf("node %d is silent after %v, want none before %v", node, after, w.limit)
		}
		w.progress(1)
	}
	busy[1] = false
	look(tick)
	busy[1], busy[2] = true, true
	now = now.Add(time.Hour) // the agent was stopped
	if node, after := look(5 * tick); node != -1 {
		t.Errorf("node %d is silent %v after an hour in which the agent was stopped", node, after)
	}
	now = now.Add(time.Hour)
	if node, after := look(4 * tick); node != -1 {
		t.Errorf("node %d is silent %v after another hour, want at most %v of it to count", node, after, longestStep)
	}
	w.progress(1)
	if node, _ := look(5 * tick); node != 2 {
		t.Errorf("node %d is silent, want 2", node)
	}
	w.limit = 0
	if node, after := look(100 * tick); node != -1 {
		t.Errorf("without a limit node %d is silent after %v", node, after)
	}
}
