package transporttest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goshmem/goshmem/transport"
)

// A post of these tests is a header and a body. The header says which post it is; the body follows from the header. So
// a receiver knows without anybody's help whether bytes are lost, doubled, changed, out of order, or of a connection
// that has ended.
//
//	u32 mark | u32 sender | u32 lane | u32 epoch | u64 number | u64 bytes of the body
//
// Epoch is the number of ends of the lane that the sender has seen. Number counts the lane's posts in this epoch.
const (
	headerSize = 32
	mark       = 0x7ac5_9e01
	mostBody   = 1 << 20
)

// filler has the bytes of all bodies. Its length is no power of two, so that a body that is moved by one looks different.
var filler = func() []byte {
	b := make([]byte, 2*mostBody)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}()

// body returns the body of a post. It is never written to.
func body(number uint64, size int) []byte {
	at := int(number * 4099 % (mostBody - 1))
	return filler[at : at+size]
}

// address names a lane of a node.
type address struct {
	node int
	kind transport.Lane
}

// side is what an endpoint knows of a lane.
type side struct {
	open       bool
	generation uint32
	epoch      uint32
	last       error // of the latest end

	posted uint64   // posts in this epoch
	tokens []uint64 // posts without a Sent event, in order
	total  struct{ posted, sent, dropped, opened, ended, refused uint64 }

	// Of the present connection: what has been received.
	header   []byte
	left     int    // bytes of the body that is coming
	done     int    // bytes of it that have come
	number   uint64 // of the post that is coming
	epochIn  uint32
	started  bool
	bytes    uint64
	received uint64 // posts, of all connections
}

// endpoint is a node with a transport, which checks all that it says.
type endpoint struct {
	t     testing.TB
	self  int
	tr    transport.Transport
	sides map[address]*side
	token uint64
	buf   []transport.Event
	pool  [][]byte // free headers
	used  map[uint64][]byte
	on    func(transport.Event) // called for each event, after the check
	polls int                   // so far: every other one comes after a Flush, if the transport has it
}

func newEndpoint(t testing.TB, self int, tr transport.Transport) *endpoint {
	t.Helper()
	return &endpoint{t: t, self: self, tr: tr, sides: map[address]*side{}, used: map[uint64][]byte{}}
}

func (e *endpoint) side(node int, kind transport.Lane) *side {
	a := address{node, kind}
	if e.sides[a] == nil {
		e.sides[a] = &side{}
	}
	return e.sides[a]
}

// post posts a body of some size, cut into parts at the given places.
func (e *endpoint) post(node int, kind transport.Lane, size int, cuts ...int) {
	e.t.Helper()
	if err := e.tryPost(node, kind, size, cuts...); err != nil {
		e.t.Fatalf("node %d: post to node %d, lane %s: %v", e.self, node, kind, err)
	}
}

func (e *endpoint) tryPost(node int, kind transport.Lane, size int, cuts ...int) error {
	s := e.side(node, kind)
	var head []byte
	if n := len(e.pool); n > 0 {
		head, e.pool = e.pool[n-1], e.pool[:n-1]
	} else {
		head = make([]byte, headerSize)
	}
	for i, v := range []uint32{mark, uint32(e.self), uint32(kind), s.epoch} {
		binary.LittleEndian.PutUint32(head[4*i:], v)
	}
	binary.LittleEndian.PutUint64(head[16:], s.posted)
	binary.LittleEndian.PutUint64(head[24:], uint64(size))
	parts := [][]byte{head}
	b, from := body(s.posted, size), 0
	for _, c := range cuts {
		c = min(max(c, from), size)
		parts = append(parts, b[from:c])
		from = c
	}
	parts = append(parts, b[from:])
	if err := e.tr.Post(node, kind, e.token, parts...); err != nil {
		e.pool = append(e.pool, head)
		return err
	}
	clear(parts) // the list is the caller's again
	e.used[e.token] = head
	s.tokens = append(s.tokens, e.token)
	e.token++
	s.posted++
	s.total.posted++
	return nil
}

// release has the header of a post back.
func (e *endpoint) release(token uint64) {
	head := e.used[token]
	delete(e.used, token)
	clear(head) // whoever still sends it is found out
	e.pool = append(e.pool, head)
}

// poll polls once and returns the number of events.
func (e *endpoint) poll(timeout time.Duration) int {
	e.t.Helper()
	n, err := e.tryPoll(timeout)
	if err != nil {
		e.t.Fatal(err)
	}
	return n
}

// tryPoll polls once and returns the number of events, or what is wrong.
func (e *endpoint) tryPoll(timeout time.Duration) (int, error) {
	flushed := 0
	var err error
	if e.polls++; e.polls%2 == 0 {
		if flushed, err = e.flush(); err != nil {
			return 0, err
		}
	}
	if flushed > 0 { // there may be nothing left to wait for
		timeout = 0
	}
	e.buf, err = e.tr.Poll(e.buf[:0], timeout)
	if err != nil {
		return 0, fmt.Errorf("node %d: Poll: %w", e.self, err)
	}
	for i, ev := range e.buf {
		var why string
		if (ev.Kind == transport.Broken || ev.Kind == transport.Refused) && i > 0 {
			why = "want an end to be the first event of its Poll"
		} else {
			why = e.take(ev)
		}
		if why != "" {
			return 0, fmt.Errorf("node %d: event %d, %s: %s", e.self, i, describe(ev), why)
		}
		if e.on != nil {
			e.on(ev)
		}
	}
	return flushed + len(e.buf), nil
}

// flush has a transport.Flusher send. It returns the number of events, or what is wrong.
func (e *endpoint) flush() (int, error) {
	f, ok := e.tr.(transport.Flusher)
	if !ok {
		return 0, nil
	}
	e.buf = f.Flush(e.buf[:0])
	for _, ev := range e.buf {
		why := e.take(ev)
		if ev.Kind != transport.Sent {
			why = "want Flush to say only what was sent"
		}
		if why != "" {
			return 0, fmt.Errorf("node %d: Flush: %s: %s", e.self, describe(ev), why)
		}
		if e.on != nil {
			e.on(ev)
		}
	}
	return len(e.buf), nil
}

// describe returns all of an event but its data.
func describe(ev transport.Event) string {
	return fmt.Sprintf("%s of node %d, lane %s, generation %d, token %d, %d bytes, error %v",
		ev.Kind, ev.Node, ev.Lane, ev.Generation, ev.Token, len(ev.Data), ev.Err)
}

// take checks an event and returns what is wrong.
func (e *endpoint) take(ev transport.Event) string {
	s := e.side(ev.Node, ev.Lane)
	if ev.Kind != transport.Opened && ev.Kind != transport.Refused && (!s.open || ev.Generation != s.generation) {
		return "no connection of this generation is open"
	}
	switch ev.Kind {
	case transport.Opened:
		if s.open || ev.Generation <= s.generation {
			return "want a closed lane, and a greater generation than the one before"
		}
		s.open, s.generation = true, ev.Generation
		s.header, s.left, s.done, s.number, s.started = s.header[:0], 0, 0, 0, false
		s.total.opened++
	case transport.Received:
		if len(ev.Data) == 0 {
			return "no data"
		}
		s.bytes += uint64(len(ev.Data))
		return s.check(ev)
	case transport.Sent:
		if len(s.tokens) == 0 || s.tokens[0] != ev.Token {
			return "want the tokens in the order of the posts"
		}
		s.tokens = s.tokens[1:]
		s.total.sent++
		e.release(ev.Token)
	case transport.Broken, transport.Refused:
		if ev.Kind == transport.Refused && (s.open || ev.Lane != transport.Out || ev.Generation <= s.generation) {
			return "want an Out lane that is not open, and a greater generation than the one before"
		}
		if ev.Err == nil {
			return "want an error"
		}
		s.end(ev)
		for _, token := range s.tokens {
			e.release(token)
			s.total.dropped++
		}
		s.tokens = s.tokens[:0]
	default:
		return "want another kind"
	}
	return ""
}

// end notes the end of a connection.
func (s *side) end(ev transport.Event) {
	s.open, s.generation, s.last = false, ev.Generation, ev.Err
	s.epoch++
	s.posted = 0
	s.total.ended++
	if ev.Kind == transport.Refused {
		s.total.refused++
	}
}

// check checks received data and returns what is wrong.
func (s *side) check(ev transport.Event) string {
	b := ev.Data
	for len(b) > 0 {
		if s.left > 0 {
			n := min(s.left, len(b))
			if !bytes.Equal(b[:n], body(s.number-1, s.done+s.left)[s.done:s.done+n]) {
				return "bytes of a body are wrong"
			}
			b, s.left, s.done = b[n:], s.left-n, s.done+n
		} else {
			n := min(headerSize-len(s.header), len(b))
			s.header = append(s.header, b[:n]...)
			b = b[n:]
			if len(s.header) < headerSize {
				continue
			}
			if why := s.begin(ev); why != "" {
				return why
			}
			s.header = s.header[:0]
		}
		if s.left == 0 {
			s.received++
		}
	}
	return ""
}

// begin checks the header of a post.
func (s *side) begin(ev transport.Event) string {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(s.header[4*i:]) }
	number, size := binary.LittleEndian.Uint64(s.header[16:]), binary.LittleEndian.Uint64(s.header[24:])
	switch {
	case word(0) != mark:
		return "a header is wrong"
	case word(1) != uint32(ev.Node):
		return "the bytes are of another node"
	case transport.Lane(word(2)) != 1-ev.Lane:
		return "the bytes are of another lane"
	case s.started && word(3) != s.epochIn:
		return "the bytes were posted for another connection"
	case number != s.number:
		return "posts are lost, doubled or out of order"
	case size > mostBody:
		return "a size is wrong"
	}
	s.started, s.epochIn = true, word(3)
	s.number++
	s.left, s.done = int(size), 0
	return ""
}

// limit is how long a step of a test may take.
const limit = 60 * time.Second

// drive polls endpoints until done returns true.
func drive(t testing.TB, done func() bool, nodes ...*endpoint) {
	t.Helper()
	begin := time.Now()
	for wait := time.Duration(0); !done(); {
		n := 0
		for _, e := range nodes {
			n += e.poll(wait)
		}
		if wait = 0; n == 0 {
			wait = time.Millisecond
		}
		if time.Since(begin) > limit {
			t.Fatalf("not done after %v", limit)
		}
	}
}

// settled says whether all posts of endpoints have been received. No connection may have ended.
func settled(nodes ...*endpoint) bool {
	var sent, received, open uint64
	for _, e := range nodes {
		for _, s := range e.sides {
			sent += s.total.posted
			received += s.received
			open += uint64(len(s.tokens))
		}
	}
	return open == 0 && sent == received
}

var errTest = errors.New("cut by the test")
