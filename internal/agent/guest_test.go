package agent

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/lane"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// newGuest makes the segment of a guest, and the message that the daemon sends with it.
func newGuest(t *testing.T, pe, index int, options ...symheap.Option) (*os.File, wire.AgentGuest) {
	t.Helper()
	job := [16]byte{9}
	f, err := symheap.Create(symheap.Identity{Job: job, PE: uint32(pe), NPEs: 8, Incarnation: 1}, testHeap, options...)
	check(t, err)
	t.Cleanup(func() { check(t, f.Close()) })
	info, err := f.Stat()
	check(t, err)
	return f, wire.AgentGuest{Job: job, PE: pe, Index: index, SegmentSize: uint64(info.Size())}
}

// A guest gets messages before it has said anything, by the names of their senders as guests. Those from a guest to a PE of the first job are named so, too. A guest
// that is dead gets none, and the agent's own index and those without a guest are nobody's.
func TestGuest(t *testing.T) {
	const first, index = nearPEs + 1, nearPEs + 3
	node := startNodes(t, 2, opened(2))[0]
	f, m := newGuest(t, 5, index, symheap.WithWire())
	message := func(pe layout.Local) *record.Record {
		b, _ := record.ReserveMessage(nil, pe, lane.Eager, 0, 8, nil, 8)
		var r record.Record
		if _, err := record.Parse(b, &r); err != nil {
			t.Fatal(err)
		}
		return &r
	}
	node.do(func(a *Agent) {
		check(t, a.AddGuest(&m, int(f.Fd())))
		send := func(from, to layout.Local) record.Status {
			status, _ := (*executor)(a).Execute(stream.Source{Node: 1, Local: from, Class: layout.ClassMessage, Incarnation: 1}, message(to))
			return status
		}
		newest := func(to layout.Local) layout.PE {
			inbox := &a.sources[to].wire.Inbox
			cells, _ := inbox.Cells()
			return layout.PE(cells.At(int(inbox.Queued-1)&(layout.InboxCells-1)).Mark >> layout.InboxPE)
		}
		for _, x := range []struct {
			from, to layout.Local
			name     layout.PE
		}{
			{1, index, layout.GuestName(1, 1)}, {first + 4, index, layout.GuestName(1, first+4)}, {first + 4, 0, layout.GuestName(1, first+4)}, {1, 0, nearPEs + 1},
		} {
			if status := send(x.from, x.to); status != record.StatusOK || newest(x.to) != x.name {
				t.Errorf("message of PE %d to PE %d: status %v from %#x, want one from %#x", x.from, x.to, status, newest(x.to), x.name)
			}
		}
		queued := a.sources[index].wire.Inbox.Queued
		a.DropPE(0, index)
		for _, to := range []layout.Local{index, nearPEs, first} {
			if status := send(1, to); status != record.StatusOK {
				t.Errorf("message to PE %d, which is dead or none: status %v, want it dropped", to, status)
			}
		}
		if now := a.sources[index].wire.Inbox.Queued; now != queued {
			t.Errorf("%d messages for a dead guest, want %d", now, queued)
		}
		if status := send(1, index+1); status != record.StatusBad {
			t.Errorf("message to an index behind all: status %v, want %v", status, record.StatusBad)
		}
	})
}

// Guests that do not fit are refused.
func TestBadGuest(t *testing.T) {
	node := startNodes(t, 2, opened(2))[0]
	for name, x := range map[string]struct {
		index int
		plain bool
		spoil func(m *wire.AgentGuest)
		says  string
	}{
		"the agent's own index": {index: nearPEs, says: "has index 2"},
		"too high":              {index: layout.MaxLocal, says: "has index 1024"},
		"other size":            {index: nearPEs + 1, plain: true, says: "segment of"},
		"other job":             {index: nearPEs + 1, spoil: func(m *wire.AgentGuest) { m.Job[0]++ }, says: "PE 3"},
	} {
		t.Run(name, func(t *testing.T) {
			options := []symheap.Option{symheap.WithWire()}
			if x.plain {
				options = nil
			}
			f, m := newGuest(t, 3, x.index, options...)
			if x.spoil != nil {
				x.spoil(&m)
			}
			node.do(func(a *Agent) {
				if err := a.AddGuest(&m, int(f.Fd())); err == nil || !strings.Contains(err.Error(), x.says) {
					t.Errorf("AddGuest: %v, want an error with %q", err, x.says)
				}
			})
		})
	}
	f, m := newGuest(t, 3, nearPEs+1, symheap.WithWire())
	node.do(func(a *Agent) {
		check(t, a.AddGuest(&m, int(f.Fd())))
		if err := a.AddGuest(&m, int(f.Fd())); err == nil {
			t.Error("a second guest with the index of the first one")
		}
	})
}

// A guest that the agent cannot map is refused in the answer to the last one of its job. The agent goes on, and serves the next job.
func TestRefusedGuest(t *testing.T) {
	node := startNodes(t, 2, opened(2))[0]
	here, there, err := xunix.PacketPair()
	check(t, err)
	defer func() { check(t, errors.Join(here.Close(), there.Close())) }()
	o := &orders{line: there}
	order := func(number uint64, f *os.File, m wire.AgentGuest, last bool) {
		t.Helper()
		m.Number, m.Last = number, last
		fd := -1 // as when the agent has none left
		if f != nil {
			fd, err = xunix.KeepFD(int(f.Fd()))
			check(t, err)
		}
		node.do(func(a *Agent) { check(t, o.carryOut(a, m.Append(nil), fd)) })
	}
	wantAnswer := func(number uint64, text string) {
		t.Helper()
		packet, _, err := xunix.RecvFDs(here, wire.AgentPacket, 1)
		check(t, err)
		var answer wire.AgentDropped
		check(t, answer.Parse(packet))
		if answer.Number != number || !strings.Contains(answer.Err, text) || (answer.Err == "") != (text == "") {
			t.Errorf("answer %+v, want one to %d with %q", answer, number, text)
		}
	}
	f, m := newGuest(t, 3, nearPEs+1, symheap.WithWire())
	g, n := newGuest(t, 4, nearPEs+2, symheap.WithWire())
	order(7, nil, m, false)
	order(8, g, n, true) // of another job, in between
	wantAnswer(8, "")
	_, last := newGuest(t, 5, nearPEs+3, symheap.WithWire())
	order(7, f, last, true)
	wantAnswer(7, "PE 3 of a spawned job: its segment has not arrived")
	m.Job[0]++
	order(9, f, m, true)
	wantAnswer(9, "PE 3 of a spawned job: ")
	m.Job[0]--
	order(10, f, m, true)
	wantAnswer(10, "")
	if len(o.refused) > 0 {
		t.Errorf("%d errors are kept", len(o.refused))
	}
}

// What a guest has sent arrives after the end of its job, but nothing comes for it any more, and the agent does not look at it. PEs of the first job are no guests.
func TestEndGuest(t *testing.T) {
	const index = nearPEs + 1
	nodes := startNodes(t, 2)
	node := nodes[0]
	f, m := newGuest(t, 5, index, symheap.WithWire())
	v := uint64(7)
	node.do(func(a *Agent) {
		check(t, a.AddGuest(&m, int(f.Fd())))
		segment := a.memory.guests[index-nearPEs]
		p, err := far.New(far.Config{
			Wire: segment.Wire(0), Base: segment.Segment(0), Size: segment.Size(), Agent: &node.page.Bell, Event: node.event, Operations: new(uint64), Express: new(layout.ExpressTraffic),
			Waiter: wait.NewWaiter(&segment.Control(0).Bell, wait.PolicyFor(1, 1)), Nodes: 2, PE: 5, Incarnation: 1,
			Home: func(pe layout.PE) (int, layout.Local) { return int(pe) / nearPEs, layout.Local(pe) % nearPEs }, Dead: func(layout.PE) error { return nil },
		})
		check(t, err)
		defer p.Close()
		var touched far.Touched
		check(t, p.Put(t.Context(), &touched, nearPEs, layout.HeapOffset, unsafe.Pointer(&v), 8))
		for _, end := range []layout.Local{index, index, 0, nearPEs, index + 1, -1} {
			endGuest(a, end)
		}
		if !a.sources[index].dead || !a.memory.dead[index] || a.sources[0].dead || a.memory.dead[0] {
			t.Errorf("dead are %v, want the guest among them, and PE 0 not", a.memory.dead)
		}
	})
	for began := time.Now(); rma.AtomicLoad[uint64](unsafe.Pointer(nodes[1].at(0, 0))) != v; runtime.Gosched() {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the put of the guest has not arrived")
		}
	}
}
