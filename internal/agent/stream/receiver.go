package stream

import (
	"fmt"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// ReceiverConfig describes a Receiver.
type ReceiverConfig struct {
	Nodes  int    // nodes of the job
	Window Window // of each connection; zero: DefaultWindow
}

// Receiver executes the records of the PEs of other nodes.
type Receiver struct {
	c      ReceiverConfig
	nodes  []inNode
	turns  turns         // nodes for which Next may have something
	later  turns         // nodes with streams in later
	record record.Record // the one that is being executed
}

// inNode is another node.
type inNode struct {
	state      state // idle: no connection; greeting: it is being received; waiting: the reply is being sent
	generation uint32
	cursor     int // the next stream to name in the reply
	streams    []inStream
	turns      turns // streams with something to send
	later      turns // streams of which only a done is to be sent, which may wait for what else goes to the node
	flight     flight
	parser     parser
}

// inStream is a stream of a PE of another node.
type inStream struct {
	incarnation uint32 // of the PE; valid if known
	known       bool
	dropped     bool   // incarnations up to floor are dropped
	floor       uint32 // valid if dropped
	executed    uint64 // records below are executed
	told        uint64 // the last done of the current connection
	held        bool   // records above told are executed, and not done until Release
	remind      bool   // told is to be said again
	answers     ring
}

// Executor executes records on the segments of this node.
type Executor interface {
	// Execute executes r, unless its target is dead or r does not pass Limits.Check; the status says which.
	// It reads nothing for gets: their answer says what is to be read. The value is that of OpAtomicFetch. r is
	// valid until Execute returns.
	Execute(source Source, r *record.Record) (status record.Status, value uint64)
	// PutWords executes puts of 8 bytes (record.PutWordAt) that body begins with, and returns how many: at most most, and none
	// that Execute would not execute. It is quicker than Execute for each. It may return 0 at any time.
	PutWords(source Source, body []byte, most int) int
}

// Source is the PE of another node that a record comes from.
type Source struct {
	Node        int
	Local       layout.Local
	Class       int
	Incarnation uint32
}

// NewReceiver returns a Receiver that has seen no records.
func NewReceiver(c ReceiverConfig) *Receiver {
	if c.Window == (Window{}) {
		c.Window = DefaultWindow
	}
	r := &Receiver{c: c, nodes: make([]inNode, c.Nodes)}
	for i := range r.nodes {
		r.nodes[i].parser.ofSender = true
	}
	r.turns.grow(c.Nodes)
	r.later.grow(c.Nodes)
	return r
}

// Opened says that the node has opened a connection. It replaces the earlier one.
func (r *Receiver) Opened(node int, generation uint32) {
	n := &r.nodes[node]
	if n.state != dead && (generation > n.generation || n.state == idle) {
		n.reset(greeting, generation)
	}
}

// Broken says that the connection is no more.
func (r *Receiver) Broken(node int, generation uint32) {
	if n := &r.nodes[node]; n.state != dead && generation >= n.generation {
		n.reset(idle, generation)
	}
}

// reset forgets all about a connection.
func (n *inNode) reset(s state, generation uint32) {
	n.state, n.generation, n.cursor, n.flight = s, generation, 0, flight{}
	n.parser.reset()
	n.turns.clear()
	n.later.clear()
}

// Received takes bytes that have come on the connection that the other node opened, and executes the records
// in them. After an error, all that comes on this connection is ignored: the node does not keep to the protocol.
func (r *Receiver) Received(node int, generation uint32, data []byte, x Executor) error {
	n := &r.nodes[node]
	if generation != n.generation || n.state < greeting || n.state > running {
		return nil
	}
	if err := n.parser.each(data, func(p *piece) error { return r.handle(node, p, x) }); err != nil {
		n.state = failed
		n.turns.clear()
		n.later.clear()
		return fmt.Errorf("node %d: %w", node, err)
	}
	return nil
}

// handle handles a frame.
func (r *Receiver) handle(node int, p *piece, x Executor) error {
	n := &r.nodes[node]
	if (n.state == greeting) != (p.Kind != KindRecords) || n.state == waiting {
		return p.bad("kind", uint64(p.Kind), "a greeting before all else, and records only after the welcome")
	}
	if p.Kind == KindHello {
		n.state = waiting
		r.turns.add(node)
		return nil
	}
	at := streamIndex(layout.Local(p.Local), int(p.Class))
	st := n.stream(at)
	if st.dropped && p.Incarnation <= st.floor || st.known && p.Incarnation < st.incarnation {
		return nil // of an earlier incarnation
	}
	if !st.known || p.Incarnation > st.incarnation {
		st.begin(p.Incarnation)
	}
	answered := p.Number
	if p.Kind == KindRecords {
		answered = p.Word
	}
	if answered > st.executed {
		return p.bad("answered", answered, "at most the %d records that are executed", st.executed)
	}
	st.answers.acknowledge(answered)
	if p.Kind == KindRecords {
		return r.execute(node, at, p, x)
	}
	return nil
}

// stream returns a stream of the node, and makes room for it.
func (n *inNode) stream(at int) *inStream {
	if at >= len(n.streams) {
		n.streams = append(n.streams, make([]inStream, at+1-len(n.streams))...)
		n.turns.grow(len(n.streams))
		n.later.grow(len(n.streams))
	}
	return &n.streams[at]
}

// begin begins the stream of an incarnation.
func (st *inStream) begin(incarnation uint32) {
	*st = inStream{incarnation: incarnation, known: true, dropped: st.dropped, floor: st.floor}
}

// execute executes the records of a frame that were not executed before.
func (r *Receiver) execute(node, at int, p *piece, x Executor) error {
	n := &r.nodes[node]
	st := &n.streams[at]
	if p.Number > st.executed {
		return p.bad("first number", p.Number, "at most the %d records that are executed", st.executed)
	}
	source := Source{Node: node, Local: layout.Local(p.Local), Class: int(p.Class), Incarnation: p.Incarnation}
	body, waits := p.body, false // waits: the source waits for the records
	for number, end := p.Number, p.Number+uint64(p.N); number < end; number++ {
		if number == st.executed {
			n := x.PutWords(source, body, int(end-number))
			body, waits = body[n*record.SizePutWord:], waits || n > 0
			st.executed += uint64(n)
			if number += uint64(n); number == end {
				break
			}
		}
		rest, err := record.Parse(body, &r.record)
		if err != nil {
			return fmt.Errorf("%w: record %d of local PE %d: %w", ErrFrame, number, p.Local, err)
		}
		body, waits = rest, waits || !r.record.MayWait()
		if r.record.Op == record.OpPutFrom {
			return p.bad("op", uint64(r.record.Op), "a put with its data, as the agent of the source sends it")
		}
		if number < st.executed {
			continue
		}
		answers := r.record.Op.Answers()
		if answers && st.answers.isFull() {
			return p.bad("answers to wait for", maxAnswers+1, "at most %d", maxAnswers)
		}
		status, value := x.Execute(source, &r.record)
		if answers {
			st.answers.push(newAnswer(number, &r.record, status, value))
		}
		st.executed++
	}
	if len(body) > 0 {
		return p.bad("bytes", uint64(p.Bytes), "%d, the size of its %d records", int(p.Bytes)-len(body), p.N)
	}
	if st.held {
		return nil
	}
	if !waits {
		n.later.add(at)
		r.later.add(node)
		return nil
	}
	n.turns.add(at)
	n.tellAll()
	r.turns.add(node)
	return nil
}

// tellAll gives a turn to the streams that wait for what else goes to the node.
func (n *inNode) tellAll() {
	for at, ok := n.later.pop(); ok; at, ok = n.later.pop() {
		n.turns.add(at)
	}
}

// Owes reports whether there are records of which no node has been told that they are executed, as that may wait (record.MayWait).
func (r *Receiver) Owes() bool { return !r.later.isEmpty() }

// TellAll lets Next tell all nodes what is executed.
func (r *Receiver) TellAll() {
	for node, ok := r.later.pop(); ok; node, ok = r.later.pop() {
		r.nodes[node].tellAll()
		r.turns.add(node)
	}
}

// Turn returns a node for which Next may have something, and takes it off the list.
func (r *Receiver) Turn() (node int, ok bool) { return r.turns.pop() }

// Next makes f the next frame to the node, on the connection that the other node opened. It returns false if
// there is none, or if the window is full.
func (r *Receiver) Next(node int, f *Frame) bool {
	n := &r.nodes[node]
	if n.flight.isFull(r.c.Window) {
		return false
	}
	ok := false
	switch n.state {
	case waiting:
		ok = n.welcome(f)
	case running:
		ok = n.nextReply(f)
	default:
	}
	if ok {
		n.flight.post(&f.Header)
	}
	return ok
}

// welcome makes f the next frame of the reply to the greeting.
func (n *inNode) welcome(f *Frame) bool {
	for ; n.cursor < len(n.streams); n.cursor++ {
		st := &n.streams[n.cursor]
		if !st.known {
			continue
		}
		st.answers.rewind()
		st.told = st.done()
		*f = Frame{Header: st.header(KindExecuted, n.cursor)}
		f.Number, f.Word = st.executed, st.told
		if st.told < st.executed {
			n.turns.add(n.cursor)
		}
		n.cursor++
		return true
	}
	*f = Frame{Header: Header{Kind: KindWelcome}}
	n.state = running
	return true
}

// done returns how many records are done: executed, and their answers sent. The records of a stream that is held are not.
func (st *inStream) done() uint64 {
	if st.held {
		return st.told
	}
	if a := st.answers.unsent(); a != nil {
		return a.number
	}
	return st.executed
}

// header returns the header of a frame of the stream.
func (st *inStream) header(kind Kind, at int) Header {
	return Header{Kind: kind, Class: uint8(at % layout.WireClasses), Local: uint16(localOf(at)), Incarnation: st.incarnation}
}

// nextReply makes f the next answer or done. Streams take turns.
func (n *inNode) nextReply(f *Frame) bool {
	for {
		at, ok := n.turns.pop()
		if !ok {
			return false
		}
		st := &n.streams[at]
		if a := st.answers.unsent(); a != nil {
			*f = Frame{Header: st.header(KindValue, at)}
			a.fill(f)
			st.answers.markSent()
			n.turns.add(at)
			return true
		}
		if done := st.done(); st.known && (done > st.told || st.remind) {
			*f = Frame{Header: st.header(KindDone, at)}
			f.Number = done
			st.told, st.remind = done, false
			return true
		}
	}
}

// Hold is called from Execute: the records of the source count as executed from now on, and as done only after Release. So the source
// keeps their blocks, and stops when it has filled as many as it may. It is for records without answers.
func (r *Receiver) Hold(s Source) {
	if n := &r.nodes[s.Node]; n.state != dead {
		n.stream(streamIndex(s.Local, s.Class)).held = true
	}
}

// Release ends a Hold, unless the source is another incarnation by now.
func (r *Receiver) Release(s Source) {
	if st := r.heldStream(s); st != nil {
		st.held = false
		r.giveTurn(s)
	}
}

// Remind says again to the node of a held source what is done: this node lives, although nothing more is done.
func (r *Receiver) Remind(s Source) {
	if st := r.heldStream(s); st != nil {
		st.remind = true
		r.giveTurn(s)
	}
}

// heldStream returns the stream of a source, or nil if it is not held.
func (r *Receiver) heldStream(s Source) *inStream {
	n, at := &r.nodes[s.Node], streamIndex(s.Local, s.Class)
	if n.state == dead || at >= len(n.streams) || !n.streams[at].held || n.streams[at].incarnation != s.Incarnation {
		return nil
	}
	return &n.streams[at]
}

// giveTurn lets Next look at the stream of a source, if there is a connection. A new one begins with what is done.
func (r *Receiver) giveTurn(s Source) {
	if n := &r.nodes[s.Node]; n.state == running || n.state == waiting {
		n.turns.add(streamIndex(s.Local, s.Class))
		r.turns.add(s.Node)
	}
}

// Sent says that frames of this many bytes in all are the kernel's.
func (r *Receiver) Sent(node int, generation uint32, frames, bytes int) {
	if n := &r.nodes[node]; n.state != dead && n.generation == generation {
		n.flight.sent(frames, bytes)
		r.turns.add(node)
	}
}

// DropPE forgets a PE of another node. No record of this incarnation or an earlier one is executed any more.
func (r *Receiver) DropPE(node int, local layout.Local, incarnation uint32) {
	n := &r.nodes[node]
	if n.state == dead {
		return
	}
	for class := range layout.WireClasses {
		st := n.stream(streamIndex(local, class))
		if !st.dropped || incarnation > st.floor {
			st.dropped, st.floor = true, incarnation
		}
		st.held, st.remind = st.held && st.incarnation > st.floor, false
		if st.known && st.incarnation <= st.floor {
			// The counts stay: the sender, which may not know of the death yet, compares them with its own.
			st.answers, st.told = ring{}, st.executed
		}
	}
}

// DropNode forgets a dead node. No record of it is executed any more.
func (r *Receiver) DropNode(node int) { r.nodes[node] = inNode{state: dead} }
