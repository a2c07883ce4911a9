package agent

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/lane"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
)

// opened gives nodes a page that lists all PEs, and opens the inboxes.
func opened(nodes int) func(*testNode) {
	return func(n *testNode) {
		for i := range nodes {
			n.page.Parts[i] = layout.NodePart{First: uint32(i * nearPEs), Count: nearPEs}
		}
		for i := range layout.Local(nearPEs) {
			n.segments.Wire(i).Inbox.Open = 1
		}
	}
}

// reader is the receiving end of an inbox.
type reader struct {
	node  *testNode
	inbox *layout.Inbox
	port  *far.Port
	cells uint64
	data  lane.Cursor
}

func newReader(n *testNode, pe layout.Local) *reader {
	return &reader{node: n, inbox: &n.segments.Wire(pe).Inbox, port: n.ports[pe]}
}

// next reads the next cell, if there is one. The data are a copy.
func (r *reader) next() (l lane.Letter, ok bool) {
	first, room := r.inbox.Cells()
	c := first.At(int(r.cells) % layout.InboxCells)
	mark := atomic.LoadUint64(&c.Mark)
	if uint32(mark) != uint32(r.cells+1) {
		return l, false
	}
	l = lane.Letter{Kind: uint8(mark >> 32), From: layout.PE(mark >> layout.InboxPE), Match: c.Match, Size: c.Size}
	n := int(c.Size)
	switch {
	case l.Kind != lane.Eager:
		l.Body = slices.Clone(c.Body[:])
		fallthrough
	case n > layout.CellBody:
		if n > 0 {
			l.Data = slices.Clone(unsafe.Slice((*byte)(unsafe.Add(room, r.data.Advance(n, layout.InboxData))), n))
		}
	default:
		l.Data = slices.Clone(c.Body[:n])
	}
	r.cells++
	rma.StoreRelease(&r.inbox.Head.Data, r.data.Pos)
	rma.StoreRelease(&r.inbox.Head.Cells, r.cells)
	far.RingAgent(r.port, &r.inbox.Head.Want)
	return l, true
}

// await reads the next cell.
func (r *reader) await(t *testing.T) lane.Letter {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); runtime.Gosched() {
		if l, ok := r.next(); ok {
			return l
		}
	}
	t.Fatalf("cell %d does not come", r.cells+1)
	return lane.Letter{}
}

// testMessage is message number k of a PE to another one.
func testMessage(from, to layout.PE, k, n int) (m far.Message, data []byte, body *[layout.CellBody]byte) {
	data = make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + k + int(from)*31)
	}
	m = far.Message{Kind: lane.Eager, Match: uint64(k), Size: uint64(n), N: n}
	if k%3 == 1 {
		body = new([layout.CellBody]byte)
		binary.LittleEndian.PutUint64(body[:], uint64(k)<<16|uint64(to))
		m.Kind, m.Body = lane.Data, body
	}
	if n > 0 {
		m.Data = unsafe.Pointer(&data[0])
	}
	return m, data, body
}

// send sends a message, as soon as there is room.
func send(t *testing.T, p *far.Port, from, to layout.PE, k, n int) {
	t.Helper()
	m, _, _ := testMessage(from, to, k, n)
	for end := time.Now().Add(30 * time.Second); !far.TrySend(p, to, &m, false); runtime.Gosched() {
		if time.Now().After(end) {
			t.Errorf("no room for message %d of PE %d to PE %d", k, from, to)
			return
		}
	}
}

// checkLetter checks that a letter is message number k.
func checkLetter(t *testing.T, l *lane.Letter, to layout.PE, k, n int) {
	t.Helper()
	m, data, body := testMessage(l.From, to, k, n)
	if l.Kind != m.Kind || l.Match != m.Match || l.Size != m.Size || string(l.Data) != string(data) || body != nil && string(l.Body) != string(body[:]) {
		t.Fatalf("message of PE %d to PE %d: kind %d, number %d, %d bytes, want message %d of %d bytes", l.From, to, l.Kind, l.Match, l.Size, k, n)
	}
}

// messageSize returns the bytes of message number k.
func messageSize(k int) int {
	sizes := []int{0, 1, 8, 39, 40, 41, 500, 3900, 4016, 4032, 5000, 9999, 16383, 16384}
	return sizes[rand.New(rand.NewPCG(uint64(k), 3)).IntN(len(sizes))]
}

// Messages of all PEs to all of another node come once, whole and in the order of their sender, also while connections break.
func TestMessages(t *testing.T) {
	const each = 600
	nodes := startNodes(t, 2, opened(2))
	for _, node := range nodes {
		for i := range layout.Local(nearPEs) {
			go func() {
				me := layout.PE(node.index*nearPEs) + layout.PE(i)
				for k := range each {
					for other := range layout.PE(nearPEs) {
						send(t, node.ports[i], me, layout.PE((1-node.index)*nearPEs)+other, k, messageSize(k))
					}
				}
			}()
		}
	}
	var readers []*reader
	for _, node := range nodes {
		for i := range layout.Local(nearPEs) {
			readers = append(readers, newReader(node, i))
		}
	}
	counts := make([][2 * nearPEs]int, len(readers))
	for left, cut := each*nearPEs*len(readers), 0; left > 0; {
		for pe, r := range readers {
			l := r.await(t)
			checkLetter(t, &l, layout.PE(pe), counts[pe][l.From], messageSize(counts[pe][l.From]))
			counts[pe][l.From]++
			left--
		}
		if cut++; cut%100 == 0 {
			from := nodes[cut/100%2]
			from.do(func(a *Agent) { a.cfg.Transport.Cut(1-from.index, transport.Lane(cut/200%2), errCut) })
		}
	}
	for pe, r := range readers {
		if l, ok := r.next(); ok {
			t.Errorf("PE %d gets one more message: %+v", pe, l)
		}
		if q := atomic.LoadUint64(&r.inbox.Queued); q != r.cells {
			t.Errorf("PE %d: Queued is %d, want the %d cells that have come", pe, q, r.cells)
		}
	}
	for _, node := range nodes {
		for _, p := range node.ports {
			for end := time.Now().Add(10 * time.Second); !far.Taken(p); runtime.Gosched() {
				if time.Now().After(end) {
					t.Fatal("a port has messages that are not taken, want none")
				}
			}
		}
	}
}

// A PE that takes no messages stops those who send to it, when their quota is used up, and nobody else: neither one-sided operations, nor
// other sources, nor the agents, which are impatient. When it takes messages, all come.
func TestReceiverStopped(t *testing.T) {
	const long = 16 << 10
	const patience = 3 * remindEvery
	nodes := startNodes(t, 2, opened(2), func(n *testNode) { n.patience = patience })
	port, ctx := nodes[0].ports[0], patient(t)
	sent := 0
	var stuck time.Time // since when there is no room
	for stuck.IsZero() || time.Since(stuck) < patience+remindEvery {
		m, _, _ := testMessage(0, 2, sent, long)
		if far.TrySend(port, 2, &m, false) {
			sent++
			stuck = time.Time{}
			continue
		}
		if stuck.IsZero() {
			stuck = time.Now()
		}
		runtime.Gosched()
	}
	if bytes := sent * long; bytes < overflowMost || bytes > overflowMost+layout.WireBlocks*layout.WireBody {
		t.Errorf("%d messages of %d bytes were sent before there was no room, want %d bytes and a quota of blocks", sent, long, overflowMost)
	}
	nodes[1].do(func(a *Agent) {
		if x := &a.inboxes.of[0]; x.bytes > overflowMost+layout.WireBlocks*layout.WireBody || len(x.holds) != 1 {
			t.Errorf("%d bytes wait, %d sources are held, want one source", x.bytes, len(x.holds))
		}
	})
	var touched far.Touched
	word := uint64(77)
	check(t, port.Put(ctx, &touched, 2, layout.HeapOffset, unsafe.Pointer(&word), 8))
	check(t, port.Quiet(ctx, &touched))
	send(t, nodes[0].ports[1], 1, 3, 0, 100)
	r3 := newReader(nodes[1], 1)
	l := r3.await(t)
	checkLetter(t, &l, 3, 0, 100)
	r := newReader(nodes[1], 0)
	for k := range sent {
		l := r.await(t)
		checkLetter(t, &l, 2, k, long)
	}
	send(t, port, 0, 2, sent, 8)
	l = r.await(t)
	checkLetter(t, &l, 2, sent, 8)
	nodes[1].do(func(a *Agent) {
		if x := &a.inboxes.of[0]; x.bytes != 0 || len(x.waiting) != 0 || x.holds != nil || a.inboxes.full != 0 {
			t.Errorf("%d bytes and %d messages wait, %d sources are held, %d inboxes are full, want none", x.bytes, len(x.waiting), len(x.holds), a.inboxes.full)
		}
	})
}

// A held source goes on when its receiver dies, or takes no messages any more.
func TestReceiverEnds(t *testing.T) {
	for name, end := range map[string]func(*testNode){
		"dies":   func(n *testNode) { n.do(func(a *Agent) { a.DropPE(1, 0) }) },
		"closes": func(n *testNode) { atomic.StoreUint32(&n.segments.Wire(0).Inbox.Open, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			nodes := startNodes(t, 2, opened(2))
			port := nodes[0].ports[0]
			k := 0
			isHeld := func() (held bool) {
				nodes[1].do(func(a *Agent) { held = len(a.inboxes.of[0].holds) > 0 })
				return held
			}
			for !isHeld() {
				for range 8 {
					if m, _, _ := testMessage(0, 2, k, 16<<10); far.TrySend(port, 2, &m, false) {
						k++
					}
				}
			}
			end(nodes[1])
			for last := k + 100; k < last; k++ {
				send(t, port, 0, 2, k, 16<<10)
			}
			send(t, port, 0, 3, 0, 8)
			r := newReader(nodes[1], 1)
			l := r.await(t)
			checkLetter(t, &l, 3, 0, 8)
			nodes[1].do(func(a *Agent) {
				if x := &a.inboxes.of[0]; x.bytes != 0 || x.holds != nil || a.inboxes.full != 0 {
					t.Errorf("%d bytes wait, %d sources are held, %d inboxes are full, want none", x.bytes, len(x.holds), a.inboxes.full)
				}
			})
		})
	}
}

// What a PE has sent before it dies comes, although its agent learns of the death first.
func TestLastMessages(t *testing.T) {
	nodes := startNodes(t, 2, opened(2))
	const n = 60
	nodes[0].do(func(a *Agent) { // it is busy, so it sends nothing meanwhile
		for k := range n {
			send(t, nodes[0].ports[0], 0, 2, k, 4000)
		}
		a.DropPE(0, 0)
		if !a.isParting(0) {
			t.Error("nothing of the dead PE is under way, want its last messages")
		}
	})
	r := newReader(nodes[1], 0)
	for k := range n {
		l := r.await(t)
		checkLetter(t, &l, 2, k, 4000)
	}
	for end := time.Now().Add(partingMost / 2); ; runtime.Gosched() {
		parting := true
		nodes[0].do(func(a *Agent) { parting = a.isParting(0) })
		if !parting {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the messages have come, and the agent still sends them")
		}
	}
}

// Records that no PE sends are refused, and what follows is taken.
func TestBadMessages(t *testing.T) {
	node := startNodes(t, 2, opened(2))[0]
	source := stream.Source{Node: 1, Local: 1, Class: layout.ClassMessage, Incarnation: 1}
	message := func(pe layout.Local, code uint8, n int) []byte {
		b, _ := record.ReserveMessage(nil, pe, code, 0, uint64(n), nil, n)
		return b
	}
	part := func(pe layout.Local, code uint8, n int) []byte {
		b, _ := record.ReserveMessagePart(nil, pe, code, n)
		return b
	}
	const cut = lane.Eager | record.MessageCut
	for name, x := range map[string]struct {
		records [][]byte
		source  stream.Source
		says    string
	}{
		"part alone":         {[][]byte{part(0, 0, 8)}, source, "not what follows"},
		"message in another": {[][]byte{message(0, cut, 8), message(0, lane.Eager, 8)}, source, "not what follows"},
		"part for another":   {[][]byte{message(0, cut, 8), part(1, 0, 8)}, source, "not what follows"},
		"too long":           {append([][]byte{message(0, cut, 4000)}, slices.Repeat([][]byte{part(0, record.MessageCut, 4000)}, 4)...), source, "want at most"},
		"no such PE here":    {[][]byte{message(nearPEs, lane.Eager, 8)}, source, "local PE"},
		"no such PE there":   {[][]byte{message(0, lane.Eager, 8)}, stream.Source{Node: 1, Local: nearPEs}, "not in the agent's page"},
	} {
		t.Run(name, func(t *testing.T) {
			node.do(func(a *Agent) {
				var logged []string
				before := a.cfg.Log
				a.cfg.Log = func(err error) { logged = append(logged, err.Error()) }
				defer func() { a.cfg.Log = before }()
				take := func(b []byte, from stream.Source) (status record.Status) {
					var r record.Record
					if _, err := record.Parse(b, &r); err != nil {
						t.Fatal(err)
					}
					status, _ = (*executor)(a).Execute(from, &r)
					return status
				}
				status := record.StatusOK
				for _, b := range x.records {
					if status != record.StatusOK {
						t.Error("an earlier record than the last one is refused")
					}
					status = take(b, x.source)
				}
				if status != record.StatusBad || len(logged) != 1 || !strings.Contains(logged[0], x.says) {
					t.Errorf("status %v, log %q, want one with %q", status, logged, x.says)
				}
				queued := a.sources[0].wire.Inbox.Queued
				if s := take(message(0, lane.Eager, 8), source); s != record.StatusOK || a.sources[0].wire.Inbox.Queued != queued+1 {
					t.Errorf("the next message: status %v, Queued %d, want %d", s, a.sources[0].wire.Inbox.Queued, queued+1)
				}
			})
		})
	}
}

// A message of which parts are missing when its sender dies, or has a successor, is no message.
func TestCutMessages(t *testing.T) {
	node := startNodes(t, 2, opened(2))[0]
	node.do(func(a *Agent) {
		take := func(op string, incarnation uint32) record.Status {
			b, _ := record.ReserveMessage(nil, 0, lane.Eager|record.MessageCut, 0, 16, nil, 8)
			switch op {
			case "part":
				b, _ = record.ReserveMessagePart(nil, 0, 0, 8)
			case "whole":
				b, _ = record.ReserveMessage(nil, 0, lane.Eager, 0, 8, nil, 8)
			}
			var r record.Record
			if _, err := record.Parse(b, &r); err != nil {
				t.Fatal(err)
			}
			s, _ := (*executor)(a).Execute(stream.Source{Node: 1, Class: layout.ClassMessage, Incarnation: incarnation}, &r)
			return s
		}
		queued := func() uint64 { return a.sources[0].wire.Inbox.Queued }
		if s := fmt.Sprint(take("begin", 1), take("whole", 2), queued()); s != "ok ok 1" {
			t.Errorf("a successor's message after half of one: %s", s)
		}
		take("begin", 2)
		a.DropIncarnation(1, 0, 2)
		if len(a.inboxes.parts) != 0 || queued() != 1 {
			t.Errorf("%d messages are kept of a dead PE, and %d have come", len(a.inboxes.parts), queued())
		}
		take("begin", 3)
		a.DropNode(1)
		if len(a.inboxes.parts) != 0 {
			t.Error("a message is kept of a lost node")
		}
	})
}
