package daemon

import (
	"fmt"

	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/pmi1"
	"github.com/goshmem/goshmem/pmix/server"
)

// NodeServer is this node's side of what the servers of a job's nodes ask each other. Hooks.Remote is the other
// side. Whoever connects the nodes calls these methods with what comes from other nodes; they do not block.
//
//   - Concurrent calls: all methods.
type NodeServer interface {
	// FenceCalled tells that another node has handed in its part of a fence.
	FenceCalled(call server.FenceCall)
	// FenceExpired tells that the deadline of a fence has passed on another node.
	FenceExpired(call server.FenceCall)
	// FenceDone answers Remote.Fence, with the same on all nodes.
	FenceDone(id server.FenceID, status pmix.Status, data []byte)
	// Fetched answers Remote.Fetch with what Serve has replied on the node of the process.
	Fetched(p pmix.Proc, key string, status pmix.Status, packed []byte)
	// Serve has reply called with the data of a process of this node, when it is there or can no longer come.
	Serve(p pmix.Proc, key string, reply func(status pmix.Status, packed []byte))
	// Answered answers Peers.Ask; nil: the other side has died.
	Answered(number uint64, body []byte)
	// Asked has reply called with the answer to a question of another node.
	Asked(node int, number uint64, body []byte, reply func(body []byte))
	// Told takes news of another node.
	Told(node int, body []byte)
}

// barrierOp is the collective by which the fences that are barriers of PMI-1 are told from those of PMIx.
const barrierOp server.Collective = "pmi1-barrier"

// crossing passes barriers of PMI-1 on as fences, its published names to the front end, and what comes from other nodes to
// the server that it is for.
type crossing struct {
	*server.Server // nil until the PMIx server is started
	pmi            *pmi1.Server
	remote         server.Remote
	peers          server.Peers
	table          *table
}

// Barrier hands in this node's part of a barrier of PMI-1, as a part of a fence.
func (c *crossing) Barrier(part pmi1.BarrierPart) {
	j := c.table.jobOf(part.Nspace)
	if j == nil {
		return // the job is over, and its processes are gone
	}
	call := server.FenceCall{
		ID:    server.FenceID{FenceSet: server.FenceSet{Op: barrierOp, Procs: part.Nspace + ":*"}, Seq: part.Seq},
		Procs: j.everyone(),
	}
	status := pmix.StatusSuccess
	if part.Failed {
		status = pmix.StatusErrProcTermWoSync
	}
	c.remote.Fence(server.FencePart{FenceCall: call, Status: status, Data: part.Data})
}

// AskNames passes a question about the names that processes publish by PMI-1 on to the front end.
func (c *crossing) AskNames(number uint64, question []byte) {
	c.peers.Ask(server.Root, number, question)
}

// Answered is NodeServer.Answered.
func (c *crossing) Answered(number uint64, body []byte) {
	if pmi1.IsNameQuestion(number) {
		c.pmi.NamesAnswered(number, body)
		return
	}
	c.Server.Answered(number, body)
}

// FenceCalled is NodeServer.FenceCalled.
func (c *crossing) FenceCalled(call server.FenceCall) {
	if call.ID.Op != barrierOp {
		c.Server.FenceCalled(call)
	} else if len(call.Procs) > 0 {
		c.pmi.BarrierCalled(call.Procs[0].Nspace, call.ID.Seq)
	}
}

// FenceExpired is NodeServer.FenceExpired. A barrier of PMI-1 has no deadline.
func (c *crossing) FenceExpired(call server.FenceCall) {
	if call.ID.Op != barrierOp {
		c.Server.FenceExpired(call)
	}
}

// FenceDone is NodeServer.FenceDone.
func (c *crossing) FenceDone(id server.FenceID, status pmix.Status, data []byte) {
	if id.Op != barrierOp {
		c.Server.FenceDone(id, status, data)
		return
	}
	var err error
	if status != pmix.StatusSuccess {
		err = fmt.Errorf("barrier of all nodes: %v", status)
	}
	nspace := id.Procs[:max(0, len(id.Procs)-len(":*"))]
	c.pmi.BarrierDone(nspace, id.Seq, data, err)
}

// NodeServer returns this node's side of what the servers of the job's nodes ask each other; nil if the job has one node.
func (s *Step) NodeServer() NodeServer {
	if s.servers.crossing == nil {
		return nil
	}
	return s.servers.crossing
}
