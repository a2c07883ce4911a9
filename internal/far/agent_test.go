package far

import (
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// testAgent plays the agents of all nodes for one PE, by the rules of package symheap/layout. It has mappings of its
// own of all segments.
type testAgent struct {
	t     testing.TB
	near  int            // PEs of a node
	maps  []*symheap.Map // by node
	pe    layout.Local   // whom it serves, on node 0
	wire  *layout.Wire
	page  *layout.AgentPage
	event *os.File
	fd    int // of event
	rng   *rand.Rand

	taken   uint64 // entries of Ready
	seen    [layout.WireBlocks]use
	streams map[[2]uint32]*agentStream // by node and class
	barrier bool                       // membarrier works
	repeat  func(r *record.Record) (record.Status, uint64)

	mu      sync.Mutex // for what tests change
	stopped map[int]bool
	dead    map[layout.PE]bool
	lost    map[int]bool
	over    bool
	slow    bool // executes a part of what is there at a time, of streams in any order
	sleeps  int
	passes  int
	ended   chan struct{}
}

// use is one use of a block, and how much of it the agent has seen.
type use struct {
	node, class uint32
	first       uint64
	fill        uint32
	number      uint64 // of the record at fill
}

// chunk is records that are not executed.
type chunk struct {
	number uint64
	bytes  []byte
}

type agentStream struct {
	next   uint64
	chunks []chunk // by number
}

func (a *testAgent) run() {
	defer close(a.ended)
	for {
		a.mu.Lock()
		if a.over {
			a.mu.Unlock()
			return
		}
		worked := a.pass()
		a.passes++
		a.mu.Unlock()
		if !worked {
			a.sleep()
		}
	}
}

// sleep arms the bell, looks once more, and sleeps until somebody posts the event.
func (a *testAgent) sleep() {
	atomic.OrUint32(&a.page.Bell.Sleeping, layout.BellAsleep)
	if a.barrier {
		_ = xunix.Membarrier()
	}
	if atomic.LoadUint64(&a.wire.Tail) == a.taken {
		a.mu.Lock()
		a.sleeps++
		a.mu.Unlock()
		var b [8]byte
		_, _ = a.event.Read(b[:])
	}
	atomic.AndUint32(&a.page.Bell.Sleeping, layout.BellAsk)
}

// change changes what the agent does, while it does nothing.
func (a *testAgent) change(f func()) {
	a.mu.Lock()
	f()
	a.mu.Unlock()
	xunix.PostEvent(a.fd)
}

// pass takes what is in Ready and executes records.
func (a *testAgent) pass() (worked bool) {
	for tail := atomic.LoadUint64(&a.wire.Tail); a.taken < tail; {
		i := atomic.LoadUint32(&a.wire.Ready[a.taken%layout.WireBlocks])
		a.taken++
		a.look(int(i))
		worked = true
	}
	for id, s := range a.streams { // any order
		if a.stopped[int(id[0])] {
			continue
		}
		if a.lost[int(id[0])] {
			s.chunks = nil
			continue
		}
		for len(s.chunks) > 0 && s.chunks[0].number == s.next {
			a.execute(id, s)
			worked = true
			if a.slow && a.rng.IntN(3) == 0 {
				break
			}
		}
	}
	return worked
}

// look takes over the new records of block i.
func (a *testAgent) look(i int) {
	b, u := &a.wire.Blocks[i], &a.seen[i]
	if b.Node != u.node || b.Class != u.class || b.First != u.first {
		*u = use{node: b.Node, class: b.Class, first: b.First, number: b.First}
	}
	for {
		fill := atomic.LoadUint32(&b.Fill)
		if fill > u.fill {
			bytes := b.Body[u.fill:fill]
			n, err := record.Count(bytes)
			if err != nil {
				a.t.Errorf("block %d, %d to %d: %v", i, u.fill, fill, err)
				return
			}
			id := [2]uint32{u.node, u.class}
			s := a.streams[id]
			if s == nil {
				s = new(agentStream)
				a.streams[id] = s
			}
			at, _ := slices.BinarySearchFunc(s.chunks, u.number, func(c chunk, n uint64) int { return int(int64(c.number - n)) })
			s.chunks = slices.Insert(s.chunks, at, chunk{u.number, bytes})
			u.fill, u.number = fill, u.number+uint64(n)
		}
		atomic.StoreUint32(&b.State, layout.BlockLeaving)
		if a.barrier {
			_ = xunix.Membarrier()
		}
		if atomic.LoadUint32(&b.Fill) == u.fill {
			atomic.CompareAndSwapUint32(&b.State, layout.BlockLeaving, layout.BlockIdle)
			return
		}
		if !atomic.CompareAndSwapUint32(&b.State, layout.BlockLeaving, layout.BlockQueued) {
			return
		}
	}
}

// execute executes the first records of a stream, and says so.
func (a *testAgent) execute(id [2]uint32, s *agentStream) {
	c := &s.chunks[0]
	limits := record.Limits{
		Near: a.near, SegmentSize: a.maps[0].Size(),
		Rooms: record.Range{From: a.maps[0].Size() - layout.WireSize, To: a.maps[0].Size()},
	}
	for len(c.bytes) > 0 {
		var r record.Record
		rest, err := record.Parse(c.bytes, &r)
		if err != nil {
			a.t.Error(err)
			return
		}
		if r.Op == record.OpPutFrom {
			r = a.putOf(&r, &limits)
		}
		status, value := record.StatusOK, uint64(0)
		var data []byte
		switch {
		case a.dead[layout.PE(int(id[0])*a.near+int(r.Local))]:
			status = record.StatusDead
		case limits.Check(&r) != nil:
			status = record.StatusBad
		case r.Op == record.OpFetchOnce:
			status, value = a.repeat(&r)
		default:
			data, value = a.perform(int(id[0]), &r)
		}
		if r.Op.Answers() {
			a.answer(&r, s.next, status, value, data, &limits)
		}
		c.bytes, c.number = rest, c.number+1
		s.next++
		if a.slow && a.rng.IntN(10) == 0 {
			break
		}
	}
	if len(c.bytes) == 0 {
		s.chunks = slices.Delete(s.chunks, 0, 1)
	}
	atomic.SwapUint64(&a.wire.Done[id[1]][id[0]], s.next)
	rma.Target{Segment: a.maps[0].Segment(a.pe)}.Ring()
}

// putOf returns the put that a put from the heap becomes.
func (a *testAgent) putOf(r *record.Record, limits *record.Limits) (put record.Record) {
	if err := limits.CheckSource(r); err != nil {
		a.t.Error(err)
		return *r // which the target refuses
	}
	data := unsafe.Slice((*byte)(unsafe.Add(a.maps[0].Segment(a.pe), int(r.From()))), int(r.Length))
	if _, err := record.Parse(append(record.AppendPutHead(nil, r), data...), &put); err != nil {
		a.t.Error(err)
	}
	return put
}

// perform does what a record asks for. data is a view of the target's memory, or a copy.
func (a *testAgent) perform(node int, r *record.Record) (data []byte, value uint64) {
	m := a.maps[node]
	at := unsafe.Add(m.Segment(layout.Local(r.Local)), int(r.Offset))
	switch r.Op {
	case record.OpPut:
		rma.CopyElements(at, unsafe.Pointer(unsafe.SliceData(r.Data())), 1, len(r.Data()))
	case record.OpPutStrided:
		s := r.Shape()
		rma.CopyStrided(at, unsafe.Pointer(unsafe.SliceData(r.Data())), 1, int(s.Step), int(s.Block), int(s.Block), int(s.N))
	case record.OpGet:
		return unsafe.Slice((*byte)(at), int(r.Length)), 0
	case record.OpGetStrided:
		s := r.Shape()
		data = make([]byte, s.Block*s.N)
		rma.CopyStrided(unsafe.Pointer(unsafe.SliceData(data)), at, 1, int(s.Block), int(s.Step), int(s.Block), int(s.N))
		return data, 0
	case record.OpAtomic, record.OpAtomicFetch, record.OpFetchOnce:
		code, width := r.Atomic()
		if width == 4 {
			return nil, uint64(atomically(code, at, uint32(r.Operand()), uint32(r.Cond())))
		}
		return nil, atomically(code, at, r.Operand(), r.Cond())
	case record.OpSignal:
		if r.Code == record.SignalSet {
			rma.AtomicStore(at, r.Operand())
		} else {
			rma.AtomicAdd(at, r.Operand())
		}
	}
	return nil, 0
}

func atomically[T uint32 | uint64](code record.AtomicCode, at unsafe.Pointer, v, cond T) T {
	switch code {
	case record.AtomicSet, record.AtomicSwap:
		return rma.AtomicSwap(at, v)
	case record.AtomicCompareSwap:
		return rma.AtomicCompareSwap(at, cond, v)
	case record.AtomicAdd:
		return rma.AtomicAdd(at, v)
	case record.AtomicAnd:
		return rma.AtomicAnd(at, v)
	case record.AtomicOr:
		return rma.AtomicOr(at, v)
	case record.AtomicXor:
		return rma.AtomicXor(at, v)
	default:
		return rma.AtomicLoad[T](at)
	}
}

// answer writes the answer to request number.
func (a *testAgent) answer(r *record.Record, number uint64, status record.Status, value uint64, data []byte, limits *record.Limits) {
	m := a.maps[0]
	if err := limits.CheckAnswer(r.To(), uint64(len(data))); err != nil {
		a.t.Error(err)
		return
	}
	rooms := limits.Rooms.From + uint64(unsafe.Offsetof(a.wire.Rooms))
	if at := r.To() - rooms; at < layout.WireSlots*layout.WireRoom && (at != r.Slot()*layout.WireRoom || len(data) > layout.WireRoom) {
		a.t.Errorf("answer of %d bytes at %d of the rooms, want at most %d in room %d", len(data), at, layout.WireRoom, r.Slot())
	}
	if len(data) > 0 {
		rma.CopyElements(unsafe.Add(m.Segment(a.pe), int(r.To())), unsafe.Pointer(&data[0]), 1, len(data))
	}
	s := &a.wire.Slots[r.Slot()]
	s.Value, s.Status = value, uint32(status)
	atomic.StoreUint64(&s.Seq, number+1)
	rma.Target{Segment: m.Segment(a.pe)}.Ring()
}
