package express

import (
	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// MaxSockets is how many express sockets an agent takes. At its limit it refuses further ones, and closes none.
const MaxSockets = 4096

// Verdict is what a Server says of a new socket.
type Verdict uint8

// The verdicts.
const (
	Admitted Verdict = iota
	Full             // the agent has MaxSockets
	Gone             // the PE is dead, or of an earlier incarnation
)

// Server is the part of an agent that serves express sockets. Sockets have ids, which the driver chooses; 0 is none.
type Server struct {
	limit   int
	sockets int
	nodes   []serverNode
}

// serverNode is another node.
type serverNode struct {
	dead bool
	pes  []calling // by local index, up to the last PE that has had a socket, or was dropped
}

// calling is a PE of another node.
type calling struct {
	incarnation uint32
	known       bool   // incarnation is valid
	dropped     bool   // incarnations up to floor are dead
	fetch       bool   // the last request was a fetch, and answer is valid
	floor       uint32 // valid if dropped
	socket      uint64 // 0: none
	last        uint64 // the greatest number that was executed
	answer      Answer // to it
}

// Answer is the answer to a fetch, or the status of a get.
type Answer struct {
	Status record.Status
	Value  uint64
}

// Executor executes fetches and checks gets on the segments of this node.
type Executor interface {
	// Execute executes r, unless its target is dead or r is wrong; the status says which. It reads nothing for gets.
	Execute(r *record.Record) Answer
}

// NewServer returns a Server for so many nodes, with room for limit sockets.
func NewServer(nodes, limit int) *Server {
	return &Server{limit: limit, nodes: make([]serverNode, nodes)}
}

// of returns a PE, and makes room for it.
func (s *Server) of(node int, local layout.Local) *calling {
	n := &s.nodes[node]
	if int(local) >= len(n.pes) {
		n.pes = append(n.pes, make([]calling, int(local)+1-len(n.pes))...)
	}
	return &n.pes[local]
}

// isGone reports whether the caller's incarnation is over.
func (p *calling) isGone(incarnation uint32) bool {
	return p.dropped && incarnation <= p.floor || p.known && incarnation < p.incarnation
}

// enter begins the numbers of an incarnation if it is new. It returns the socket of the one before.
func (s *Server) enter(p *calling, incarnation uint32) (old uint64) {
	if p.known && p.incarnation == incarnation {
		return 0
	}
	old = s.release(p)
	*p = calling{incarnation: incarnation, known: true, dropped: p.dropped, floor: p.floor}
	return old
}

// release takes the PE's socket away, and returns it.
func (s *Server) release(p *calling) (socket uint64) {
	if socket = p.socket; socket != 0 {
		p.socket = 0
		s.sockets--
	}
	return socket
}

// Admit gives a PE a socket that has proved to be of its node. It returns the last number that was executed. The driver
// closes the socket old unless that is 0.
func (s *Server) Admit(c Caller, socket uint64) (last, old uint64, v Verdict) {
	if s.nodes[c.Node].dead {
		return 0, 0, Gone
	}
	p := s.of(c.Node, c.Local)
	if p.isGone(c.Incarnation) {
		return 0, 0, Gone
	}
	if s.sockets >= s.limit && p.socket == 0 {
		return 0, 0, Full
	}
	if old = s.enter(p, c.Incarnation); old == 0 {
		old = s.release(p)
	}
	p.socket = socket
	s.sockets++
	return p.last, old, Admitted
}

// Closed says that a socket is no more.
func (s *Server) Closed(c Caller, socket uint64) {
	if n := &s.nodes[c.Node]; int(c.Local) < len(n.pes) && n.pes[c.Local].socket == socket {
		s.release(&n.pes[c.Local])
	}
}

// Request executes a request that has come on a socket of the caller. After an error the driver closes the socket.
func (s *Server) Request(c Caller, socket uint64, q *Request, x Executor) (Answer, error) {
	if q.Caller != c {
		return Answer{}, badRequest("local PE", uint64(q.Local), "local PE %d of node %d, incarnation %d, whose socket it is", c.Local, c.Node, c.Incarnation)
	}
	p := s.of(c.Node, c.Local)
	if p.socket != socket {
		return Answer{}, badRequest("number", q.Number, "none: the socket was replaced, or its PE is dead")
	}
	if q.Number < p.last {
		return Answer{}, badRequest("number", q.Number, "at least %d, which is executed", p.last)
	}
	if q.Record.Op == record.OpGet { // a get of a number that was executed is the same get: it is read again
		p.last, p.fetch = q.Number, false
		return x.Execute(&q.Record), nil
	}
	if q.Number == p.last && !p.fetch {
		return Answer{}, badRequest("number", q.Number, "more than that, which was a get")
	}
	return p.fetchOnce(q.Number, &q.Record, x), nil
}

// Repeat executes a record.OpFetchOnce, unless its request was executed before. It is called in the order of the stream.
func (s *Server) Repeat(c Caller, r *record.Record, x Executor) Answer {
	if s.nodes[c.Node].dead {
		return Answer{Status: record.StatusBad}
	}
	p := s.of(c.Node, c.Local)
	if p.isGone(c.Incarnation) {
		return Answer{Status: record.StatusBad}
	}
	s.enter(p, c.Incarnation)
	number := r.Number()
	if number < p.last || number == p.last && !p.fetch {
		return Answer{Status: record.StatusBad}
	}
	return p.fetchOnce(number, r, x)
}

// fetchOnce executes a fetch if its number is new, and returns the answer.
func (p *calling) fetchOnce(number uint64, r *record.Record, x Executor) Answer {
	if number > p.last {
		p.last, p.fetch = number, true
		p.answer = x.Execute(r)
	}
	return p.answer
}

// DropPE says that an incarnation of a PE, and all before it, are dead. The driver closes the socket, unless that is 0, before
// it acknowledges the death.
func (s *Server) DropPE(c Caller) (socket uint64) {
	if s.nodes[c.Node].dead {
		return 0
	}
	p := s.of(c.Node, c.Local)
	if !p.dropped || c.Incarnation > p.floor {
		p.dropped, p.floor = true, c.Incarnation
	}
	if p.known && p.incarnation <= p.floor {
		return s.release(p)
	}
	return 0
}

// DropNode says that a node is dead. The driver closes the sockets before it acknowledges the death.
func (s *Server) DropNode(node int) (sockets []uint64) {
	n := &s.nodes[node]
	for i := range n.pes {
		if socket := s.release(&n.pes[i]); socket != 0 {
			sockets = append(sockets, socket)
		}
	}
	*n = serverNode{dead: true}
	return sockets
}
