package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The tests run nodes: each is a Sender and a Receiver as shipped, PEs that fill blocks by the rules of
// layout.Block, and a memory that notices each record that is executed twice, out of order or too late.

const (
	testBody = 160 // bytes of a block, so that a few records fill it
	cellSize = 64  // bytes of a cell, which one get reads
	cells    = 8

	mostRecords = 1 << 12 // of a stream
	base        = layout.HeapOffset
)

var testLimits = record.Limits{Near: 4, SegmentSize: base + 4<<20 + layout.WireSize}

// shape is what a test may choose.
type shape struct {
	nodes, near, blocks, slots int
	window                     Window
}

// modelBlock is a block of a PE.
type modelBlock struct {
	Block
	records int
	used    bool
	closed  bool
}

// modelStream is what a PE knows of one of its streams.
type modelStream struct {
	next uint64 // number of the next record
	done uint64 // the word Done
	open int    // 1 + the block that takes records; 0: none
	adds uint64 // fetching and other additions so far
}

// modelSlot is a slot of a PE.
type modelSlot struct {
	busy   bool
	number uint64
	at     int    // the stream, in modelPE.streams
	get    bool   // a get; otherwise a fetch-add
	value  uint64 // what a fetch-add must return
	have   int    // bytes of a get that have come
}

// modelPE is a PE.
type modelPE struct {
	incarnation uint32
	dead        bool
	blocks      []modelBlock
	streams     []modelStream // by node*WireClasses + class
	slots       []modelSlot
	ready       []int // numbers of blocks that the agent is to look at
}

// executed is what a node's memory knows of one source.
type executed struct {
	records uint64
	adds    uint64
	late    bool // nothing of it may be executed any more
}

// modelNode is a node.
type modelNode struct {
	shape
	me     int
	s      *Sender
	r      *Receiver
	pes    []modelPE
	memory map[Source]executed
	err    error // the first thing that was wrong
}

// newNode returns a node at rest.
func newNode(sh shape, me int) *modelNode {
	n := &modelNode{
		shape: sh, me: me, memory: map[Source]executed{}, pes: make([]modelPE, sh.near),
		s: NewSender(SenderConfig{Near: sh.near, Nodes: sh.nodes, Blocks: sh.blocks, Limits: testLimits, Window: sh.window}),
		r: NewReceiver(ReceiverConfig{Nodes: sh.nodes, Window: sh.window}),
	}
	for i := range n.pes {
		n.pes[i] = newPE(sh, 0)
	}
	return n
}

// newPE returns a PE without records.
func newPE(sh shape, incarnation uint32) modelPE {
	return modelPE{
		incarnation: incarnation, blocks: make([]modelBlock, sh.blocks), slots: make([]modelSlot, sh.slots),
		streams: make([]modelStream, sh.nodes*layout.WireClasses),
	}
}

// fail notes what is wrong.
func (n *modelNode) fail(format string, args ...any) {
	if n.err == nil {
		n.err = fmt.Errorf("node %d: "+format, append([]any{n.me}, args...)...)
	}
}

// opKind is what a PE does.
type opKind int

const (
	doPut opKind = iota
	doAdd
	doFetch
	doGet
	doSignal
	doPutFrom
	doTeam // a message whose done may wait
	opKinds
)

// issue lets a PE write one record, if it has a slot and a block for it.
func (n *modelNode) issue(local, node, class int, kind opKind) bool {
	pe := &n.pes[local]
	at := node*layout.WireClasses + class
	st := &pe.streams[at]
	slot := -1
	if kind == doFetch || kind == doGet {
		for i := range pe.slots {
			if !pe.slots[i].busy {
				slot = i
			}
		}
		if slot < 0 {
			return false
		}
	}
	number := st.next
	code := record.CodeOf(record.AtomicAdd, 8)
	var b []byte
	switch kind { // each record holds its number, by which the memory knows it
	case doPut:
		b = record.AppendPut(nil, 0, base, binary.LittleEndian.AppendUint64(nil, number))
	case doAdd:
		b = record.AppendAtomic(nil, 0, base, code, 1, number)
	case doFetch:
		b = record.AppendAtomicFetch(nil, 0, base, code, 1, number, uint64(slot))
	case doGet:
		b = record.AppendGet(nil, 0, base+number%cells*cellSize, cellSize, base+(uint64(at)*mostRecords+number)*cellSize, uint64(slot))
	case doPutFrom:
		b = record.AppendPutFrom(nil, 0, base, 8, base+8*(uint64(local)*mostRecords+number))
	case doSignal:
		b = record.AppendSignal(nil, 0, base, record.SignalSet, number)
	case doTeam:
		b = record.AppendTeam(nil, record.TeamLater, binary.LittleEndian.AppendUint64(nil, number))
	}
	block := pe.openBlock(st, node, class, len(b))
	if block == nil {
		return false
	}
	block.Local = layout.Local(local)
	block.Body = append(block.Body, b...)
	block.records++
	pe.ready = append(pe.ready, block.Number)
	st.next++
	if slot >= 0 {
		pe.slots[slot] = modelSlot{busy: true, number: number, at: at, get: kind == doGet, value: st.adds}
	}
	if kind == doAdd || kind == doFetch {
		st.adds++
	}
	return true
}

// openBlock returns the stream's open block with room for size bytes, or nil if no block is free.
func (pe *modelPE) openBlock(st *modelStream, node, class, size int) *modelBlock {
	if st.open != 0 {
		if b := &pe.blocks[st.open-1]; cap(b.Body)-len(b.Body) >= size {
			return b
		}
	}
	for i := range pe.blocks {
		b := &pe.blocks[i]
		owner := &pe.streams[b.Node*layout.WireClasses+b.Class]
		if b.used && (!b.closed || owner.done < b.First+uint64(b.records)) {
			continue
		}
		if slices.Contains(pe.ready, i) { // the block of a dead node, which the agent has still to take: not idle
			continue
		}
		if st.open != 0 {
			pe.blocks[st.open-1].closed = true
		}
		body := b.Body[:0]
		if body == nil {
			body = make([]byte, 0, testBody)
		}
		*b = modelBlock{used: true, Block: Block{Number: i, Node: node, Class: class, First: st.next, Body: body}}
		st.open = i + 1
		return b
	}
	return nil
}

// collect gives the Sender what the PEs have written.
func (n *modelNode) collect() {
	for i := range n.pes {
		pe := &n.pes[i]
		for _, number := range pe.ready {
			b := pe.blocks[number].Block
			if err := n.s.Add(&b); err != nil {
				n.fail("Add: %v", err)
			}
		}
		pe.ready = pe.ready[:0]
	}
}

// Execute implements Executor.
func (n *modelNode) Execute(source Source, r *record.Record) (status record.Status, value uint64) {
	if err := testLimits.Check(r); err != nil && r.Op != record.OpTeam {
		n.fail("Check: %v", err)
	}
	m := n.memory[source]
	if m.late {
		n.fail("a record of %+v is executed after its death", source)
	}
	tag := r.Operand()
	switch r.Op {
	case record.OpPut, record.OpTeam:
		tag = binary.LittleEndian.Uint64(r.Data())
	case record.OpAtomic, record.OpAtomicFetch:
		tag, value = r.Cond(), m.adds
		m.adds++
	case record.OpGet:
		tag = (r.To() - base) / cellSize % mostRecords
	default:
	}
	if tag != m.records {
		n.fail("record %d of %+v is executed, want %d", tag, source, m.records)
	}
	m.records++
	n.memory[source] = m
	return record.StatusOK, value
}

// PutWords implements Executor.
func (n *modelNode) PutWords(source Source, body []byte, most int) (done int) {
	for ; done < most; done++ {
		if _, _, _, ok := record.PutWordAt(body); !ok {
			break
		}
		var r record.Record
		rest, err := record.Parse(body, &r)
		if err != nil {
			n.fail("Parse: %v", err)
		}
		n.Execute(source, &r)
		body = rest
	}
	return done
}

// read returns the data of an answer.
func read(r Read) []byte {
	b := make([]byte, r.Length)
	for i := range b {
		b[i] = byte(r.Offset/cellSize) ^ byte(i*7)
	}
	return b
}

// source returns what lies in the heap of a PE: at each place the number of the record that puts from there.
func source(r Read) []byte {
	place := (r.Offset - base) / 8
	number := place % mostRecords
	if place/mostRecords != uint64(r.Local) || r.Length != 8 {
		number = mostRecords // no record has it
	}
	return binary.LittleEndian.AppendUint64(nil, number)
}

// sink is a node that takes replies from another node.
type sink struct {
	*modelNode
	from int
}

// Done implements Sink.
func (k sink) Done(local layout.Local, class, node int, count uint64) {
	pe := &k.pes[local]
	st := &pe.streams[node*layout.WireClasses+class]
	if node != k.from || count <= st.done || count > st.next || pe.dead {
		k.fail("Done of PE %d, class %d, node %d is %d, from node %d; it was %d, and %d records are out", local, class, node, count, k.from, st.done, st.next)
	}
	st.done = count
	for _, s := range pe.slots {
		if s.busy && s.at == node*layout.WireClasses+class && s.number < count {
			k.fail("Done of PE %d is %d, but request %d has no answer", local, count, s.number)
		}
	}
}

// Data implements Sink.
func (k sink) Data(local layout.Local, to uint64, data []byte) {
	pe := &k.pes[local]
	stream, number := int((to-base)/cellSize/mostRecords), (to-base)/cellSize%mostRecords
	for i := range pe.slots {
		s := &pe.slots[i]
		if s.busy && s.get && s.number == number && s.at == stream && stream/layout.WireClasses == k.from {
			at := int(to-base) % cellSize
			if at != s.have && at != 0 { // an answer that was cut begins again
				k.fail("data of get %d at %d after %d bytes", number, at, s.have)
			}
			want := read(Read{Offset: base + number%cells*cellSize, Length: cellSize})[at:][:len(data)]
			if string(want) != string(data) {
				k.fail("data of get %d: %x, want %x", number, data, want)
			}
			s.have = at + len(data)
			return
		}
	}
	k.fail("data for get %d of PE %d, which does not wait for it", number, local)
}

// Answer implements Sink.
func (k sink) Answer(local layout.Local, slot uint32, number uint64, status record.Status, value uint64) {
	pe := &k.pes[local]
	if int(slot) >= len(pe.slots) {
		k.fail("answer for slot %d", slot)
		return
	}
	s := &pe.slots[slot]
	switch {
	case !s.busy || s.number != number || s.at/layout.WireClasses != k.from || status != record.StatusOK || pe.dead:
		k.fail("answer to request %d from node %d, status %v, for slot %+v", number, k.from, status, *s)
	case s.get && s.have != cellSize:
		k.fail("answer to get %d with %d bytes, want %d", number, s.have, cellSize)
	case !s.get && value != s.value:
		k.fail("fetch-add %d of PE %d returns %d, want %d", number, local, value, s.value)
	}
	*s = modelSlot{}
}

// unfinished returns what is not complete at the end, or nil. Nodes in the set dead are.
func (n *modelNode) unfinished(dead uint64) error {
	for i := range n.pes {
		pe := &n.pes[i]
		for at, st := range pe.streams {
			if node := at / layout.WireClasses; dead>>node&1 == 0 && !pe.dead && st.done != st.next {
				return fmt.Errorf("node %d, PE %d, node %d, class %d: %d of %d records are done", n.me, i, node, at%layout.WireClasses, st.done, st.next)
			}
		}
		for _, s := range pe.slots {
			if s.busy && dead>>(s.at/layout.WireClasses)&1 == 0 && !pe.dead {
				return fmt.Errorf("node %d, PE %d: request %d has no answer", n.me, i, s.number)
			}
		}
	}
	for node := range n.nodes {
		if n.s.IsBusy(node) {
			return fmt.Errorf("node %d: IsBusy(%d) is true, want false when all is done", n.me, node)
		}
	}
	return nil
}

// post appends the bytes of a frame of Next.
func post(b []byte, f *Frame) ([]byte, error) {
	at := len(b)
	b = f.Append(b)
	b = append(b, f.Body...)
	switch {
	case f.Kind == KindData:
		b = append(b, read(f.Read)...)
	case f.Read.Length > 0:
		b = append(append(b, f.Lead[:]...), source(f.Read)...)
	}
	if len(b)-at != f.Size() {
		return b, errors.New("the bytes of a frame are not as many as Size says")
	}
	return b, nil
}
