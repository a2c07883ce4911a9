package courier

import (
	"fmt"
	"sync"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/pmix/pmi1"
	"github.com/goshmem/goshmem/pmix/server"
)

// Root serves the job's board, in the front end, and the names that processes publish by PMI-1.
//
//   - Concurrent calls: all methods.
type Root struct {
	board *server.Board
	nodes int
	send  func(to int, f wire.Frame)

	mu       sync.Mutex
	names    *pmi1.NameTable
	dead     map[int]bool
	arriving mail
}

// NewRoot returns a root of a job on some nodes, with an empty board. Send sends a frame of server.Root to a node, as
// Config.Send.
func NewRoot(nodes int, send func(to int, f wire.Frame)) *Root {
	return &Root{board: server.NewBoard(), nodes: nodes, send: send, names: pmi1.NewNameTable(), dead: map[int]bool{}, arriving: mail{}}
}

// Close ends the board.
func (r *Root) Close() { r.board.Close() }

// Grow tells the root that the job has so many nodes from now on. It has never fewer than before.
func (r *Root) Grow(nodes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = max(r.nodes, nodes)
}

// Take takes a frame of a node for server.Root.
//
//   - Errors: a frame that no server sends.
func (r *Root) Take(from int, f wire.Frame) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead[from] {
		return nil
	}
	if from < 0 || from >= r.nodes || f.Kind != wire.KindQuestion && f.Kind != wire.KindTell {
		return fmt.Errorf("frame of kind %#x of node %d for the board, want a question or news of a node from 0 to %d", f.Kind, from, r.nodes-1)
	}
	message, whole, err := r.arriving.add(from, f)
	if err != nil || !whole {
		return err
	}
	if f.Kind == wire.KindTell {
		return r.board.Told(from, message)
	}
	number, body, err := cutNumber(message)
	if err != nil {
		return err
	}
	reply := func(answer []byte) {
		for _, body := range wire.Split(numbered(number, answer)) {
			r.send(from, wire.Frame{Kind: wire.KindReply, Body: body})
		}
	}
	if !pmi1.IsNameQuestion(number) {
		r.board.Asked(from, number, body, reply)
		return nil
	}
	answer, err := r.names.Answer(body)
	if err == nil {
		reply(answer)
	}
	return err
}

// NodeDead tells the board that a node has died. The root takes no frame of the node after that.
func (r *Root) NodeDead(node int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead[node] {
		return
	}
	r.dead[node] = true
	r.arriving.drop(node)
	r.board.NodeDead(node)
}
