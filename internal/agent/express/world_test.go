package express

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// world is a PE and the agent of another node, with sockets between them and the PE's stream, which executes each record
// once. The PE runs a program, one letter for each operation:
//
//	u  an update, given to the stream: nobody waits for it
//	f  a fetch, by a socket if the cores say so; the PE waits for its value
//
// Each operation appends its index to what is executed. Its value is how many were executed before.
type world struct {
	program string
	mistake mistake

	client Client
	server Server
	links  []link  // in the order of their ids
	queue  []entry // records of the stream that are not executed
	pc     int     // the operation that is next, or that the PE waits for
	phase  phase
	number uint64 // of the request under way
	offer  offer  // a socket that is on its way to the PE

	executed string
	dead     bool // the agent has acknowledged the death
	cuts     int  // that may still happen
	cancels  int
	deaths   int
	err      error
}

// phase is what the PE does.
type phase uint8

const (
	ready      phase = iota // begins the next operation
	byLink                  // waits for a reply
	byStream                // waits for an answer of the stream
	terminated              // the program is over
)

// link is a socket.
type link struct {
	id       uint64
	requests []request // unread
	replies  []reply   // unread
	peHas    bool      // the PE has its end open
	agentHas bool      // the agent has its end open
}

type request struct {
	number uint64
	op     int
}

type reply struct{ number, value uint64 }

// entry is a record of the stream.
type entry struct {
	op     int
	number uint64 // of a repeat; 0: none
	waits  bool   // the PE waits for the answer
}

// offer is a socket that the agent has admitted, and the PE has not got yet.
type offer struct {
	there bool
	id    uint64
	last  uint64
}

// mistake is what an implementation could do wrong. The search has to find each of them.
type mistake uint8

const (
	none         mistake = iota
	plainRepeat          // a repeat is executed without a look at the number
	eager                // a request does not wait for the stream
	noSettle             // a fetch that is given up is not put into the stream
	keepsOld             // a new socket leaves the one before as it is
	lateDeath            // the socket of a dead PE is not closed, and its owner not checked
	freshNumbers         // a new socket begins with number 1
	mistakes
)

func newWorld(program string, m mistake, cuts, cancels, deaths int) *world {
	return &world{
		program: program, mistake: m, client: *NewClient(1), server: *NewServer(1, 4), cuts: cuts, cancels: cancels, deaths: deaths,
	}
}

// clone returns a copy that shares nothing.
func (w *world) clone() *world {
	c := *w
	c.client.peers = slices.Clone(w.client.peers)
	c.server.nodes = slices.Clone(w.server.nodes)
	for i := range c.server.nodes {
		c.server.nodes[i].pes = slices.Clone(w.server.nodes[i].pes)
	}
	c.links = slices.Clone(w.links)
	for i := range c.links {
		c.links[i].requests = slices.Clone(w.links[i].requests)
		c.links[i].replies = slices.Clone(w.links[i].replies)
	}
	c.queue = slices.Clone(w.queue)
	return &c
}

// key names the state.
func (w *world) key() string {
	return fmt.Sprintf("%v %v %v %v %d %d %d %v %s %v %d %d %d", w.client.peers, w.client.asked, w.server.nodes, w.links, w.pc, w.phase, w.number,
		w.offer, w.executed, w.dead, w.cuts, w.cancels, w.deaths) + fmt.Sprint(w.queue)
}

var me = Caller{Node: 0, Local: 0, Incarnation: 1}

// executor executes the operation that the operand of a record names.
type executor struct{ w *world }

func (x executor) Execute(r *record.Record) Answer {
	w := x.w
	if w.dead {
		w.err = errors.New("an operation is executed after the death was acknowledged")
	}
	value := uint64(len(w.executed))
	w.executed += string(rune('0' + r.Operand()))
	return Answer{Status: record.StatusOK, Value: value}
}

// recordOf returns the record of an operation, as the agent parses it.
func recordOf(op int, number uint64) (r record.Record) {
	code := record.CodeOf(record.AtomicAdd, 8)
	b := record.AppendAtomicFetch(nil, 0, layout.HeapOffset, code, uint64(op), 0, 0)
	if number > 0 {
		b = record.AppendFetchOnce(nil, 0, layout.HeapOffset, code, uint64(op), 0, number, 0)
	}
	if _, err := record.Parse(b, &r); err != nil {
		panic(err)
	}
	return r
}

// finish gives the PE the value of its fetch.
func (w *world) finish(value uint64) {
	if want := uint64(w.pc); value != want {
		w.err = fmt.Errorf("operation %d returns %d, want %d", w.pc, value, want)
	}
	w.next()
}

func (w *world) next() {
	w.phase = ready
	if w.pc++; w.pc == len(w.program) {
		w.phase = terminated
	}
}

// current returns the socket that the PE uses; nil: none.
func (w *world) current() *link {
	for i := range w.links {
		if w.links[i].peHas {
			return &w.links[i]
		}
	}
	return nil
}

// begin begins the next operation of the PE.
func (w *world) begin() {
	if w.program[w.pc] == 'u' {
		w.queue = append(w.queue, entry{op: w.pc})
		w.next()
		return
	}
	if w.client.IsOpen(0) && (len(w.queue) == 0 || w.mistake == eager) {
		if n, ok := w.client.Begin(0); ok {
			w.number, w.phase = n, byLink
			if l := w.current(); l.agentHas {
				l.requests = append(l.requests, request{n, w.pc})
			}
			return
		}
	}
	w.queue = append(w.queue, entry{op: w.pc, waits: true})
	w.phase = byStream
}

// loseLink makes the PE notice that its socket is lost.
func (w *world) loseLink(l *link) {
	l.peHas, l.replies = false, nil
	w.client.Lost(0)
	if w.phase == byLink {
		w.queue = append(w.queue, entry{op: w.pc, number: w.number, waits: true})
		w.phase = byStream
	}
}

// cancel ends the wait of the PE for a reply.
func (w *world) cancel(l *link) {
	l.peHas, l.replies = false, nil
	w.client.Lost(0)
	if w.mistake != noSettle {
		w.queue = append(w.queue, entry{op: w.pc, number: w.number})
	}
	w.next()
}

// serve makes the agent read a request.
func (w *world) serve(l *link) {
	q := Request{Caller: me, Number: l.requests[0].number, Record: recordOf(l.requests[0].op, 0)}
	l.requests = l.requests[1:]
	id := l.id
	if p := w.server.of(0, 0); w.mistake == keepsOld || w.mistake == lateDeath {
		before := p.socket
		p.socket = id // the check does not exist
		defer func() { p.socket = before }()
	}
	a, err := w.server.Request(me, id, &q, executor{w})
	if err != nil {
		l.agentHas, l.requests = false, nil
		w.server.Closed(me, id)
		return
	}
	if l.peHas {
		l.replies = append(l.replies, reply{q.Number, a.Value})
	}
}

// execute executes the first record of the stream.
func (w *world) execute() {
	e := w.queue[0]
	w.queue = w.queue[1:]
	r := recordOf(e.op, e.number)
	var a Answer
	if e.number > 0 && w.mistake != plainRepeat {
		a = w.server.Repeat(me, &r, executor{w})
	} else {
		a = executor{w}.Execute(&r)
	}
	if e.waits {
		w.finish(a.Value)
	}
}

// admit makes the agent admit a socket that the PE has asked for.
func (w *world) admit() {
	id := uint64(len(w.links) + 1)
	last, old, v := w.server.Admit(me, id)
	if v != Admitted {
		w.client.Refused()
		return
	}
	if w.mistake == freshNumbers {
		last = 0
		w.client.peers[0].number = 0
	}
	for i := range w.links {
		if l := &w.links[i]; l.id == old && w.mistake != keepsOld {
			l.agentHas, l.requests = false, nil
		}
	}
	w.links = append(w.links, link{id: id, agentHas: true})
	w.offer = offer{true, id, last}
}

// take makes the PE get the socket.
func (w *world) take() {
	if keep, _ := w.client.Given(0, w.offer.last); keep {
		w.links[w.offer.id-1].peHas = true
	}
	w.offer = offer{}
}

// die makes the agent learn of the PE's death, and acknowledge it.
func (w *world) die() {
	socket := w.server.DropPE(me)
	for i := range w.links {
		if l := &w.links[i]; l.id == socket && w.mistake != lateDeath {
			l.agentHas, l.requests = false, nil
		}
	}
	w.dead = true
	w.queue = nil // the stream drops what it has (package stream)
	w.phase = terminated
}
