package server

import "github.com/goshmem/goshmem/pmix/codec"

// Where a message goes if not to one node.
const (
	Root     = -1 // the board of the job, at the front end
	Everyone = -2 // the servers of all other nodes
)

// Peers carries messages to the servers of the job's other nodes, and to the board. Calls must not block. Messages from one
// sender to one receiver keep their order, whichever of the methods sends them.
type Peers interface {
	// Ask sends a question to a node or to Root, where Server.Asked or Board.Asked gets it. The answer is Server.Answered
	// with the number, which no other question of this server has.
	Ask(to int, number uint64, body []byte)
	// Tell sends news to a node, to Root or to Everyone, where Server.Told or Board.Told gets it.
	Tell(to int, body []byte)
}

// Answered answers Peers.Ask with what the other side has replied; nil: it has died.
func (s *Server) Answered(number uint64, body []byte) {
	s.post(event{kind: evAnswered, request: number, payload: body})
}

// Asked serves a question of another node. The server calls reply once, as an upcall. It does not call reply if it is
// closed first.
func (s *Server) Asked(_ int, _ uint64, body []byte, reply func(body []byte)) {
	id := s.keepReply(func(_ codec.Status, body []byte) { reply(body) })
	s.post(event{kind: evAsked, request: id, payload: body})
}

// Told takes news of another node.
func (s *Server) Told(_ int, body []byte) { s.post(event{kind: evTold, payload: body}) }

// keepReply keeps the function that answers a request of another node, and returns the request's number.
func (s *Server) keepReply(reply func(codec.Status, []byte)) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastReq++
	s.requests[s.lastReq] = reply
	return s.lastReq
}
