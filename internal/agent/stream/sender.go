package stream

import (
	"fmt"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// SenderConfig describes a Sender.
type SenderConfig struct {
	Near   int           // PEs of this node
	Nodes  int           // nodes of the job
	Blocks int           // blocks of a PE; zero: layout.WireBlocks
	Limits record.Limits // of this node's segments, to which answers go
	Window Window        // of each connection; zero: DefaultWindow
}

// Sender carries the records of the PEs of a node to other nodes.
type Sender struct {
	c      SenderConfig
	pes    []outPE
	nodes  []outNode
	turns  turns         // nodes for which Next may have something
	record record.Record // the one that is being looked at
	fault  *Fault        // that Fault has not returned
}

// Fault is what is wrong with the memory of a PE.
type Fault struct {
	Local layout.Local
	Err   error
}

// outPE is a PE of this node.
type outPE struct {
	dropped     bool
	classes     uint8 // bit c: the records of class c are dropped
	incarnation uint32
	blocks      []outBlock // by number of the block in the PE's pool; made at the first one
}

// outBlock is a block of a PE, from its first record until all of them are done.
type outBlock struct {
	body      []byte // what is filled
	first     uint64 // number of the first record
	node      int32
	stream    int32 // index in the streams of the node
	records   int   // records in body
	sent      int   // records of it that are posted on the current connection
	sentBytes int   // their bytes
	next      int16 // 1 + the block behind it in the stream; 0: none
	listed    bool  // the block is in the list of its stream
	putsFrom  bool  // there are puts from the heap in body
}

// end returns the number behind the block's last record.
func (b *outBlock) end() uint64 { return b.first + uint64(b.records) }

// outStream is a stream from a PE of this node.
type outStream struct {
	next     uint64 // number of the record that the PE adds next
	sent     uint64 // records below are posted on the current connection, or known to be executed
	done     uint64 // as the receiver says
	answered uint64 // the answers to all requests below are here
	resume   uint64 // while a greeting is under way: the executed records, as the receiver says
	first    int16  // 1 + the first block that is kept; 0: none
	last     int16  // 1 + the last one
	unsent   int16  // 1 + the first block with records to post; 0: none
	busy     bool   // there are records that are not done
}

// outNode is another node.
type outNode struct {
	state      state
	generation uint32 // of the newest connection that was opened or has broken
	opened     bool   // that connection is open
	cursor     int    // the next stream to name in the greeting
	busy       int    // streams with records that are not done
	streams    []outStream
	turns      turns // streams with records to post
	flight     flight
	parser     parser
	skip       bool // the rest of the data under way is not wanted
}

// state is how far a connection has come.
type state uint8

const (
	idle     state = iota // no connection is wanted
	held                  // the last connection has broken; Retry lifts it
	greeting              // what the other side must know first is being sent
	waiting               // for the welcome
	running               // records may go
	failed                // the other side sends nonsense: all is ignored until the next connection
	dead                  // the node is
)

// NewSender returns a Sender without streams. All PEs have incarnation 0.
func NewSender(c SenderConfig) *Sender {
	if c.Window == (Window{}) {
		c.Window = DefaultWindow
	}
	if c.Blocks == 0 {
		c.Blocks = layout.WireBlocks
	}
	s := &Sender{c: c, pes: make([]outPE, c.Near), nodes: make([]outNode, c.Nodes)}
	s.turns.grow(c.Nodes)
	return s
}

// Block is what a PE has written into a block.
type Block struct {
	Local  layout.Local
	Number int // in the PE's pool
	Node   int // as the PE has written them
	Class  int
	First  uint64
	Body   []byte // the filled part, from the start
}

func (b *Block) bad(field string, got uint64, want string, args ...any) error {
	return fmt.Errorf("block %d of local PE %d: %s is %d, want %s", b.Number, b.Local, field, got, fmt.Sprintf(want, args...))
}

// Add takes what is new in a block. The driver calls it with the whole filled part each time that the block
// was ready, in the order of the ready ring. What goes to a dead node, or comes of a PE that was dropped, is
// ignored. After an error the PE's memory is not what a PE writes; the driver drops the PE.
func (s *Sender) Add(b *Block) error {
	if b.Local < 0 || int(b.Local) >= s.c.Near {
		return b.bad("local PE", uint64(b.Local), "less than %d", s.c.Near)
	}
	switch {
	case b.Number < 0 || b.Number >= s.c.Blocks:
		return b.bad("number", uint64(b.Number), "less than %d", s.c.Blocks)
	case b.Node < 0 || b.Node >= s.c.Nodes:
		return b.bad("node", uint64(b.Node), "less than %d", s.c.Nodes)
	case b.Class < 0 || b.Class >= layout.WireClasses:
		return b.bad("class", uint64(b.Class), "less than %d", layout.WireClasses)
	case len(b.Body) > layout.WireBody:
		return b.bad("fill", uint64(len(b.Body)), "at most %d", layout.WireBody)
	}
	pe, n := &s.pes[b.Local], &s.nodes[b.Node]
	if pe.hasDropped(b.Class) || n.state == dead {
		return nil
	}
	if pe.blocks == nil {
		pe.blocks = make([]outBlock, s.c.Blocks)
	}
	n.makeStreams(s.c.Near)
	at := streamIndex(b.Local, b.Class)
	st, kept := &n.streams[at], &pe.blocks[b.Number]
	if !kept.isUsedBy(b, at) {
		if kept.listed {
			return b.bad("first", b.First, "%d, because records of that use are not done", kept.first)
		}
		*kept = outBlock{first: b.First, node: int32(b.Node), stream: int32(at)}
	}
	if kept.end() != st.next {
		return b.bad("first", b.First, "%d, so that the number after %d records is the stream's next one", st.next-uint64(kept.records), kept.records)
	}
	fresh, putsFrom, err := record.Survey(b.Body[len(kept.body):])
	if putsFrom && err == nil {
		err = s.checkSources(b.Body[len(kept.body):])
	}
	if err != nil {
		return fmt.Errorf("block %d of local PE %d, record %d of its stream to node %d: %w", b.Number, b.Local, st.next+uint64(fresh), b.Node, err)
	}
	kept.body = b.Body
	kept.putsFrom = kept.putsFrom || putsFrom
	if fresh == 0 {
		return nil
	}
	kept.records += fresh
	st.next += uint64(fresh)
	s.link(n, at, b.Local, b.Number)
	if !st.busy {
		st.busy = true
		n.busy++
	}
	if n.state == running {
		n.turns.add(at)
	}
	if n.state != held && n.state != failed {
		s.turns.add(b.Node)
	}
	return nil
}

// checkSources checks where puts from the heap have their data.
func (s *Sender) checkSources(b []byte) (err error) {
	for len(b) > 0 {
		if b, err = record.Parse(b, &s.record); err != nil {
			return err
		}
		if s.record.Op == record.OpPutFrom {
			if err := s.c.Limits.CheckSource(&s.record); err != nil {
				return err
			}
		}
	}
	return nil
}

// isUsedBy reports whether now is the use of the block that is known already, with as much in it or more.
func (b *outBlock) isUsedBy(now *Block, at int) bool {
	return b.records > 0 && b.first == now.First && int(b.node) == now.Node && int(b.stream) == at && len(now.Body) >= len(b.body)
}

// streamIndex returns the index of a stream among those of a node.
func streamIndex(local layout.Local, class int) int { return int(local)*layout.WireClasses + class }

// localOf returns the PE of a stream.
func localOf(at int) layout.Local { return layout.Local(at / layout.WireClasses) }

// makeStreams makes room for the streams to the node.
func (n *outNode) makeStreams(near int) {
	if n.streams == nil {
		n.streams = make([]outStream, near*layout.WireClasses)
		n.turns.grow(len(n.streams))
	}
}

// link puts a block with new records at the end of its stream's list, if it is not there yet.
func (s *Sender) link(n *outNode, at int, local layout.Local, number int) {
	st, blocks := &n.streams[at], s.pes[local].blocks
	if b := &blocks[number]; !b.listed {
		b.listed, b.next = true, 0
		if st.last != 0 {
			blocks[st.last-1].next = int16(number) + 1
		} else {
			st.first = int16(number) + 1
		}
		st.last = int16(number) + 1
	}
	if st.unsent == 0 {
		st.unsent = int16(number) + 1
	}
}

// release unlinks the blocks whose records are all done.
func (s *Sender) release(n *outNode, at int) {
	st, blocks := &n.streams[at], s.pes[localOf(at)].blocks
	for st.first != 0 {
		b := &blocks[st.first-1]
		if b.end() > st.done {
			return
		}
		st.first, b.listed = b.next, false
	}
	st.last = 0
}

// Turn returns a node for which Next may have something, and takes it off the list.
func (s *Sender) Turn() (node int, ok bool) { return s.turns.pop() }

// HasTurn reports whether Turn would return a node.
func (s *Sender) HasTurn() bool { return !s.turns.isEmpty() }

// Next makes f the next frame to the node, on the connection that this node opens. It returns false if there
// is none, or if the window is full.
func (s *Sender) Next(node int, f *Frame) bool {
	n := &s.nodes[node]
	if n.flight.isFull(s.c.Window) {
		return false
	}
	if n.state == idle && n.busy > 0 {
		n.beginGreeting()
	}
	ok := false
	switch n.state {
	case greeting:
		ok = s.greet(n, f)
	case running:
		ok = s.nextRecords(n, f)
	default:
	}
	if ok {
		n.flight.post(&f.Header)
	}
	return ok
}

// beginGreeting begins the greeting of a new connection.
func (n *outNode) beginGreeting() {
	n.state, n.cursor = greeting, 0
	n.parser.reset()
	for i := range n.streams {
		n.streams[i].resume = 0
	}
}

// greet makes f the next frame of the greeting. A stream without answers need not be named: the receiver
// then gives all again that it has, and the sender drops what it knows.
func (s *Sender) greet(n *outNode, f *Frame) bool {
	for ; n.cursor < len(n.streams); n.cursor++ {
		if st := &n.streams[n.cursor]; st.answered > 0 {
			*f = Frame{Header: s.header(KindAnswered, n.cursor)}
			f.Number = st.answered
			n.cursor++
			return true
		}
	}
	*f = Frame{Header: Header{Kind: KindHello}}
	n.state = waiting
	return true
}

// header returns the header of a frame of a stream.
func (s *Sender) header(kind Kind, at int) Header {
	local := localOf(at)
	return Header{Kind: kind, Class: uint8(at % layout.WireClasses), Local: uint16(local), Incarnation: s.pes[local].incarnation}
}

// nextRecords makes f the next frame of records: what is not posted yet of one block. Streams take turns.
func (s *Sender) nextRecords(n *outNode, f *Frame) bool {
	for {
		at, ok := n.turns.pop()
		if !ok {
			return false
		}
		st := &n.streams[at]
		if st.unsent == 0 {
			continue
		}
		b := &s.pes[localOf(at)].blocks[st.unsent-1]
		*f = Frame{Header: s.header(KindRecords, at), Body: b.body[b.sentBytes:]}
		f.Number, f.Word = b.first+uint64(b.sent), st.answered
		records, size := b.records-b.sent, len(f.Body)
		if b.putsFrom {
			var err error
			if records, size, err = s.cut(localOf(at), records, f); err != nil {
				s.fault = &Fault{localOf(at), fmt.Errorf("block %d has changed since it was added: %w", st.unsent-1, err)}
				s.DropPE(localOf(at))
				continue
			}
		}
		f.N, f.Bytes = uint32(records), uint32(len(f.Body))
		if f.Read.Length > 0 {
			f.Bytes = uint32(len(f.Lead)) + f.Read.Length
		}
		b.sent += records
		b.sentBytes += size
		st.sent = b.first + uint64(b.sent)
		if b.sent == b.records {
			st.unsent = b.next
		}
		if st.unsent != 0 {
			n.turns.add(at)
		}
		return true
	}
}

// cut makes f, whose Body is the rest of a block, the put from the heap at the start of that, or else the records before
// the first one. It returns how many records these are, and their bytes in the block.
func (s *Sender) cut(local layout.Local, records int, f *Frame) (n, size int, err error) {
	for rest := f.Body; n < records; n++ {
		if rest, err = record.Parse(rest, &s.record); err != nil {
			return 0, 0, err
		}
		if s.record.Op != record.OpPutFrom {
			size += s.record.Size()
			continue
		}
		if n > 0 {
			break
		}
		if err := s.c.Limits.CheckSource(&s.record); err != nil {
			return 0, 0, err
		}
		f.Body, f.Read = nil, Read{Local: local, Offset: s.record.From(), Length: s.record.Length}
		record.AppendPutHead(f.Lead[:0], &s.record)
		return 1, record.SizePutFrom, nil
	}
	f.Body = f.Body[:size]
	return n, size, nil
}

// Fault returns the PE, if there is one, whose records were no longer those that Add has seen. The Sender has dropped it.
func (s *Sender) Fault() *Fault {
	f := s.fault
	s.fault = nil
	return f
}

// Sent says that frames of this many bytes in all are the kernel's.
func (s *Sender) Sent(node int, generation uint32, frames, bytes int) {
	n := &s.nodes[node]
	if n.opened && n.generation == generation {
		n.flight.sent(frames, bytes)
		s.turns.add(node)
	}
}

// Opened says that the connection that this node wanted is open.
func (s *Sender) Opened(node int, generation uint32) {
	n := &s.nodes[node]
	if n.state != dead && (generation > n.generation || !n.opened) {
		n.generation, n.opened = generation, true
	}
}

// Broken says that the connection is no more, or that it was not to be had. The node is held until Retry.
func (s *Sender) Broken(node int, generation uint32) {
	n := &s.nodes[node]
	if n.state == dead || n.opened && generation < n.generation {
		return
	}
	n.state, n.opened, n.generation, n.flight = held, false, generation, flight{}
	n.turns.clear()
}

// Retry lets a new connection be opened after Broken, if there are records that are not done.
func (s *Sender) Retry(node int) {
	if n := &s.nodes[node]; n.state == held {
		n.state = idle
		s.turns.add(node)
	}
}

// IsBusy reports whether there are records to the node that are not done.
func (s *Sender) IsBusy(node int) bool { return s.nodes[node].busy > 0 }

// DropNode forgets all that goes to a dead node. Its blocks are the PEs' again.
func (s *Sender) DropNode(node int) {
	n := &s.nodes[node]
	for at := range n.streams {
		s.dropStream(n, at)
	}
	*n = outNode{state: dead}
}

// DropPE forgets all records of a PE of this node, which is dead. Frames that are posted still go out.
func (s *Sender) DropPE(local layout.Local) {
	if pe := &s.pes[local]; !pe.dropped {
		pe.dropped = true
		for i := range s.nodes {
			n := &s.nodes[i]
			for class := 0; class < layout.WireClasses && n.streams != nil; class++ {
				s.dropStream(n, streamIndex(local, class))
			}
		}
	}
}

// DropClass forgets the records of one class of a PE of this node, for good. The others go on.
func (s *Sender) DropClass(local layout.Local, class int) {
	s.pes[local].classes |= 1 << class
	for i := range s.nodes {
		if n := &s.nodes[i]; n.streams != nil {
			s.dropStream(n, streamIndex(local, class))
		}
	}
}

// hasDropped reports whether the records of a class are dropped. What is still said of them is ignored: their counts are forgotten.
func (pe *outPE) hasDropped(class int) bool { return pe.dropped || pe.classes>>class&1 != 0 }

// HasRecords reports whether there are records of a PE of this node that are not done.
func (s *Sender) HasRecords(local layout.Local) bool {
	for i := range s.nodes {
		for class := 0; class < layout.WireClasses && s.nodes[i].streams != nil; class++ {
			if s.nodes[i].streams[streamIndex(local, class)].busy {
				return true
			}
		}
	}
	return false
}

// StartPE begins a new incarnation of a PE, which is dropped or has no records yet.
func (s *Sender) StartPE(local layout.Local, incarnation uint32) {
	s.DropPE(local)
	s.pes[local] = outPE{incarnation: incarnation}
}

// Grow makes room for PEs with local indices below near. Those that are new have no records, and incarnation 0.
func (s *Sender) Grow(near int) {
	if near <= s.c.Near {
		return
	}
	s.pes = append(s.pes, make([]outPE, near-s.c.Near)...)
	s.c.Near, s.c.Limits.Near = near, near
	for i := range s.nodes {
		if n := &s.nodes[i]; n.streams != nil {
			n.streams = append(n.streams, make([]outStream, near*layout.WireClasses-len(n.streams))...)
			n.turns.grow(len(n.streams))
		}
	}
}

// dropStream forgets a stream and its blocks.
func (s *Sender) dropStream(n *outNode, at int) {
	st, blocks := &n.streams[at], s.pes[localOf(at)].blocks
	for i := st.first; i != 0; {
		b := &blocks[i-1]
		i = b.next
		*b = outBlock{}
	}
	if st.busy {
		n.busy--
	}
	*st = outStream{}
}
