package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// stepNodes returns two nodes whose agents run when the test calls step.
func stepNodes(t *testing.T) (nodes []*testNode, step func()) {
	t.Helper()
	nodes = []*testNode{newNode(t, 0, 2), newNode(t, 1, 2)}
	for i, node := range nodes {
		check(t, node.transport.SetPeer(1-i, nodeIncarnation, nodes[1-i].transport.Addrs()))
		node.prepare(t, 2)
		t.Cleanup(func() { check(t, node.transport.Close()) })
	}
	return nodes, func() {
		for _, node := range nodes {
			node.agent.disarm() // so that the pass does not wait
			check(t, node.agent.pass())
		}
	}
}

// An agent makes no memory for puts and atomic operations once it has served some: neither the one that sends them nor the
// one that executes them.
func TestPassMakesNoMemory(t *testing.T) {
	nodes, step := stepNodes(t)
	port, ctx := nodes[0].ports[0], context.Background()
	var touched far.Touched
	done := &nodes[0].segments.Wire(0).Done[layout.ClassOneSided][1]
	v, sent := uint64(7), uint64(0)
	round := func() {
		for range 50 {
			check(t, port.Put(ctx, &touched, 3, layout.HeapOffset, unsafe.Pointer(&v), 8))
			check(t, port.Update(ctx, &touched, 3, layout.HeapOffset+8, record.AtomicAdd, 8, 1, 0))
			sent += 2
		}
		for atomic.LoadUint64(done) < sent {
			step()
		}
	}
	for range 20 {
		round()
	}
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Errorf("100 operations make %v pieces of memory, want none", n)
	}
	if got := *nodes[1].at(1, 8); got != sent/2 {
		t.Errorf("%d additions count %d", sent/2, got)
	}
}

// A pass reads again after it has sent. A block goes back to the PE when it has brought nothing new then, and the agent sleeps
// only when it has found nothing at all.
func TestSecondLook(t *testing.T) {
	nodes, step := stepNodes(t)
	var touched far.Touched
	v := uint64(1)
	check(t, nodes[0].ports[0].Put(t.Context(), &touched, 2, layout.HeapOffset, unsafe.Pointer(&v), 8))
	a, w := nodes[0].agent, nodes[0].segments.Wire(0)
	block := &w.Blocks[w.Ready[0]]
	if state := atomic.LoadUint32(&block.State); state != layout.BlockQueued {
		t.Fatalf("state %d after a put, want queued", state)
	}
	a.flusher = nil // the transport sends in the next Poll
	check(t, a.pass())
	if len(a.held) != 1 || a.armed {
		t.Fatalf("after the first pass the agent holds %d blocks and sleeps: %t, want 1 and false", len(a.held), a.armed)
	}
	for done := &w.Done[layout.ClassOneSided][1]; atomic.LoadUint64(done) == 0 || !a.armed; {
		step()
	}
	expectAsleep(t, nodes[0], block)
	a.flusher = nodes[0].transport
	check(t, nodes[0].ports[0].Put(t.Context(), &touched, 2, layout.HeapOffset, unsafe.Pointer(&v), 8))
	check(t, a.pass())
	expectAsleep(t, nodes[0], block)
}

// expectAsleep checks that a node's agent is about to sleep, and has given a block back.
func expectAsleep(t *testing.T, n *testNode, block *layout.Block) {
	t.Helper()
	a := n.agent
	if state := atomic.LoadUint32(&block.State); state != layout.BlockIdle || len(a.held) != 0 || !a.armed {
		t.Errorf("state %d, %d blocks are held, the agent sleeps: %t; want idle, 0 and true", state, len(a.held), a.armed)
	}
	if bell := atomic.LoadUint32(&n.page.Bell.Sleeping); bell&layout.BellAsleep == 0 {
		t.Errorf("the bell is %#x, want asleep", bell)
	}
}

// The second reading of a pass finds the records of a stream in their order, also in a block that had brought nothing new in the
// first one.
func TestReadAgain(t *testing.T) {
	nodes, _ := stepNodes(t)
	a, port := nodes[0].agent, nodes[0].ports[0]
	var touched far.Touched
	v := uint64(1)
	put := func(n int) {
		for range n {
			check(t, port.Put(t.Context(), &touched, 2, layout.HeapOffset, unsafe.Pointer(&v), 8))
		}
	}
	const full = layout.WireBody / 24 // puts in a block
	put(1)
	if !a.takeReady() || !a.readHeld() || a.readHeld() || len(a.settling) != 1 {
		t.Fatalf("%d blocks have brought nothing new in a second reading, want 1", len(a.settling))
	}
	put(full + 1) // the block's other records, and two of another one
	if !a.readAgain() || a.sources[0].dead || len(a.held) != 2 || len(a.settling) != 0 {
		t.Errorf("the PE is dropped: %t; %d blocks are held, %d have brought nothing new, want 2 and 0", a.sources[0].dead, len(a.held), len(a.settling))
	}
}

// Puts of words are executed together up to the first record that needs a closer look.
func TestPutWords(t *testing.T) {
	n := newNode(t, 0, 2)
	n.prepare(t, 2)
	m := n.agent.memory
	t.Cleanup(func() { check(t, n.transport.Close()) })
	var good []byte
	for i := range 4 {
		good, _ = record.ReservePut(good, layout.Local(i%2), layout.HeapOffset+8*uint64(i), 8)
	}
	last := layout.HeapOffset + testHeap - 8
	for name, x := range map[string]struct {
		rest []byte
		most int
		dead bool // the second PE
		want int
	}{
		"all":          {most: 9, want: 4},
		"few":          {most: 3, want: 3},
		"end":          {record.AppendPut(nil, 1, uint64(last), make([]byte, 8)), 9, false, 5},
		"beyond":       {record.AppendPut(nil, 1, uint64(last)+8, make([]byte, 8)), 9, false, 4},
		"control":      {record.AppendPut(nil, 1, layout.HeapOffset-8, make([]byte, 8)), 9, false, 4},
		"not aligned":  {record.AppendPut(nil, 1, layout.HeapOffset+4, make([]byte, 8)), 9, false, 4},
		"other length": {record.AppendPut(nil, 1, layout.HeapOffset, make([]byte, 16)), 9, false, 4},
		"other record": {record.AppendSignal(nil, 1, layout.HeapOffset, record.SignalAdd, 1), 9, false, 4},
		"no such PE":   {record.AppendPut(nil, nearPEs, layout.HeapOffset, make([]byte, 8)), 9, false, 4},
		"cut":          {good[:16], 9, false, 4},
		"dead":         {nil, 9, true, 1},
	} {
		m.dead[1] = x.dead
		clear(m.touched)
		if got := m.putWords(append(bytes.Clone(good), x.rest...), x.most); got != x.want {
			t.Errorf("%s: %d puts are executed, want %d", name, got, x.want)
		}
		if want := uint64(3); !x.dead && m.touched[0] != want {
			t.Errorf("%s: touched are %b, want %b", name, m.touched[0], want)
		}
	}
}

// A PE whose words are wrong is dropped. The agent serves the others.
func TestSpoiledWords(t *testing.T) {
	for name, spoil := range map[string]func(w *layout.Wire){
		"block number": func(w *layout.Wire) { w.Ready[0] = layout.WireBlocks },
		"tail":         func(w *layout.Wire) { atomic.StoreUint64(&w.Tail, 1<<40) },
		"fill":         func(w *layout.Wire) { w.Blocks[w.Ready[0]].Fill = layout.WireBody + 8 },
		"node":         func(w *layout.Wire) { w.Blocks[w.Ready[0]].Node = 2 },
		"own node":     func(w *layout.Wire) { w.Blocks[w.Ready[0]].Node = 0 },
		"record":       func(w *layout.Wire) { w.Blocks[w.Ready[0]].Body[0] = 99 },
	} {
		t.Run(name, func(t *testing.T) {
			nodes, step := stepNodes(t)
			v := uint64(9)
			for i, port := range nodes[0].ports {
				var touched far.Touched
				check(t, port.Put(t.Context(), &touched, 2, layout.HeapOffset+8*uint64(i), unsafe.Pointer(&v), 8))
			}
			spoil(nodes[0].segments.Wire(0))
			for range 10_000 {
				if step(); atomic.LoadUint64(nodes[1].at(0, 8)) == 9 {
					break
				}
			}
			if first, second := *nodes[1].at(0, 0), *nodes[1].at(0, 8); first != 0 || second != 9 || !nodes[0].agent.sources[0].dead {
				t.Errorf("the put of the spoiled PE has stored %d, that of the other %d; want 0 and 9", first, second)
			}
		})
	}
}

// The room of an outbox is given in the order in which it is asked for, and never twice.
func TestRing(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var r ring
	type piece struct {
		data []byte
		used int
		mark byte
	}
	var all []piece
	for i := range 200_000 {
		if len(all) > 0 && random.IntN(100) < 48 {
			p := all[0]
			all = all[1:]
			for _, b := range p.data {
				if b != p.mark {
					t.Fatalf("step %d: a byte of %d that are in use has changed", i, len(p.data))
				}
			}
			r.free(p.used)
			continue
		}
		before := r.used
		p := piece{data: r.alloc(1 + random.IntN(2000)), mark: byte(i)}
		p.used = r.used - before
		for k := range p.data {
			p.data[k] = p.mark
		}
		all = append(all, p)
	}
}

// Log lines of what other nodes send are few.
func TestBrief(t *testing.T) {
	var out bytes.Buffer
	b := brief{to: &out, node: 3}
	for range 1000 {
		b.log(errors.New("nonsense"))
	}
	if n := strings.Count(out.String(), "agent of node 3: nonsense\n"); n < 1 || n > 2*mostLines {
		t.Errorf("1000 errors make %d lines, want %d a second", n, mostLines)
	}
}

// Orders that make no sense end the agent with an error. Deaths of what does not exist do nothing.
func TestOrders(t *testing.T) {
	nodes, _ := stepNodes(t)
	o := &orders{transport: nodes[0].transport}
	a := nodes[0].agent
	for name, m := range map[string]interface{ Append(b []byte) []byte }{
		"few":     &wire.AgentPeers{Addrs: []string{""}},
		"address": &wire.AgentPeers{Addrs: []string{"", "nowhere"}},
		"kind":    &wire.AgentReady{},
	} {
		if err := o.carryOut(a, m.Append(nil), -1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, m := range []wire.AgentDrop{{Node: 7, PE: 0}, {Node: -1, PE: -1}, {Node: 0, PE: 1 << 20}, {Node: 1, PE: 1 << 20}, {Node: 0, PE: -1}} {
		check(t, o.carryOut(a, m.Append(nil), -1))
	}
	if a.sources[0].dead || a.memory.dead[0] {
		t.Error("PE 0 is dropped, which nobody has asked for")
	}
	drop := wire.AgentDrop{Node: 0, PE: 1}
	check(t, o.carryOut(a, drop.Append(nil), -1))
	if !a.sources[1].dead || !a.memory.dead[1] {
		t.Error("PE 1 is not dropped")
	}
}

// An agent ends without a word if its daemon has ended, and only then: the end of another agent's socket is no reason.
func TestVerdict(t *testing.T) {
	here, there, err := xunix.PacketPair()
	check(t, err)
	check(t, there.Close())
	defer func() { _ = here.Close() }()
	o := &orders{line: here, packet: make([]byte, wire.AgentPacket)}
	if err := o.receive(nil); err == nil || verdict(err) != nil {
		t.Errorf("after the end of the daemon: %v, %v, want an error that is no news", err, verdict(err))
	}
	a := &Agent{retries: []retry{{}, {err: fmt.Errorf("the other end has closed it: %w", io.EOF)}}}
	a.waits = waits{limit: time.Nanosecond, nodes: []nodeWait{{}, {waiting: true}}}
	a.sender = stream.NewSender(stream.SenderConfig{Near: 1, Nodes: 2})
	body := record.AppendPut(nil, 0, 0, []byte{1})
	check(t, a.sender.Add(&stream.Block{Node: 1, Body: body}))
	err = a.checkWaits(time.Now())
	if !errors.Is(err, io.EOF) || verdict(err) == nil {
		t.Errorf("after the end of a connection with another agent: %v, %v, want an error that is told", err, verdict(err))
	}
}
