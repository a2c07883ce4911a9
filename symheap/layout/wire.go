package layout

import "unsafe"

// What a PE and the agent of its node tell each other about operations on PEs of other nodes lies in the PE's segment,
// behind the heap, in jobs of several nodes (RegionWire).
const (
	RegionWire = 3

	WireSize      = 4 << 20 // bytes of the region
	WireNodes     = 1024    // nodes that a job with agents can have
	WireClasses   = 2       // streams from a PE to a node: one-sided operations, messages
	WireBlocks    = 256     // of a PE
	WireBlockSize = 4096
	WireBody      = WireBlockSize - 64 // bytes of records in a block
	WireSlots     = 256                // answers that a PE may wait for
	WireRoom      = 2048               // bytes of data for each slot
	WirePieces    = 8                  // buffers for long data that go to private memory
	WirePiece     = 64 << 10
	InboxSize     = 256 << 10 // bytes of the lane from the agent
)

// How that lane is cut: see LaneShape.
const (
	InboxCells = MaxCells
	InboxData  = InboxSize - InboxCells*CellSize
)

// Classes of streams.
const (
	ClassOneSided = iota
	ClassMessage
)

// Block holds records of one stream. The PE fills it from the start; the agent sends what is there, and keeps it until
// the far agent has executed all of it.
type Block struct {
	Node   uint32 // the PE; before the block's first Fill
	Class  uint32 // the PE; as Node
	Fill   uint32 // bytes of Body that hold whole records; the PE (release), after the records
	State  uint32 // BlockIdle, BlockQueued, BlockLeaving; the PE by compare-and-swap, the agent to BlockLeaving by a store
	First  uint64 // number of the block's first record in its stream; the PE, as Node
	Closed uint32 // 1: no record will be added; the PE (release), after the last Fill
	_      uint32
	_      [32]byte
	Body   [WireBody]byte
}

// States of a block.
const (
	BlockIdle    = iota // the agent does not look at the block
	BlockQueued         // the block's number is in Ready, or the agent is at it
	BlockLeaving        // the agent looks at Fill once more, and changes the state by compare-and-swap
)

// Slot is where the agent says that the answer to a request is there.
type Slot struct {
	Seq    uint64 // number of the request in its stream plus 1; the agent (release), after all else
	Status uint32 // see internal/agent/record; the agent
	_      uint32
	Value  uint64 // of atomic operations that fetch; the agent
	_      [40]byte
}

// Wire is the region.
type Wire struct {
	Tail   uint64 // block numbers put into Ready so far; the PE (sequentially consistent), after the number
	Teams  uint64 // bit t: words of team t have changed (Upper); the PE sets it (sequentially consistent), after these; the agent clears it before it looks
	_      [48]byte
	Ready  [WireBlocks]uint32 // number i at i % WireBlocks; a block is in it once at most, so it never overflows
	Done   [WireClasses][WireNodes]uint64
	Slots  [WireSlots]Slot
	Rooms  [WireSlots][WireRoom]byte
	Pieces [WirePieces][WirePiece]byte
	_      [4096]byte
	Blocks [WireBlocks]Block
	Inbox  Inbox
}

// Inbox is how the agent gives the PE the messages from other nodes: by a lane of which it is the sender. The mark of a cell has the PE
// that sends the message (InboxPE). What finds no room waits in the agent's memory, and follows in its order.
type Inbox struct {
	Head   Lane
	Open   uint32 // 1: the PE takes messages, otherwise the agent drops them; the PE (sequentially consistent)
	_      uint32
	Queued uint64 // number of the newest cell that the agent has for the PE, whether it is written or waits; the agent (release)
	_      [48]byte
	Lane   [InboxSize]byte
}

// InboxPE is the place of the sender's PE in the mark of an inbox's cell, above the kind.
const InboxPE = 40

// InboxPEs is how many PEs there is room for.
const InboxPEs = 1 << (64 - InboxPE)

// Cells returns the first cell of the lane, and its room for data.
func (b *Inbox) Cells() (first *Cell, room unsafe.Pointer) {
	at := unsafe.Pointer(&b.Lane)
	return (*Cell)(at), unsafe.Add(at, InboxCells*CellSize)
}

// Reset makes the region that of a PE that has sent nothing. The agent calls it for the successor of a dead PE, before that one
// uses the segment, and when nothing is under way from or to the region any more. The words of Upper stay as they are.
func (w *Wire) Reset() {
	w.Tail, w.Teams, w.Ready, w.Done, w.Slots = 0, 0, [WireBlocks]uint32{}, [WireClasses][WireNodes]uint64{}, [WireSlots]Slot{}
	for i := range w.Blocks {
		b := &w.Blocks[i]
		b.Node, b.Class, b.Fill, b.State, b.First, b.Closed = 0, 0, 0, BlockIdle, 0, 0
	}
	w.Inbox = Inbox{}
}

// AgentPage is a file of its own, which the agent and the PEs of its node map.
//
// If the PEs of some node do not have consecutive numbers, a list of all PEs lies behind the page: node after node, those of a
// node ascending. Otherwise Listed is 0, and there is no list.
type AgentPage struct {
	Bell    Bell         // the agent's: PEs that find it asleep write to the agent's event descriptor
	Carried AgentTraffic // the agent
	Listed  uint32       // PEs in the list; the step, as Parts
	_       [4096 - 132]byte
	Parts   [WireNodes]NodePart // by node: the PEs that it has; the step, before it hands the file out
	Traffic [MaxLocal]Traffic   // by local index
}

// AgentTraffic counts what the agent has exchanged with other agents. It only grows. The step reads it for statistics, in
// which a count may be a little behind.
type AgentTraffic struct {
	Batches  uint64 // how often it has given something to the transport
	Sent     uint64 // bytes of that, headers included
	Received uint64 // bytes that have come
	_        [40]byte
}

// Traffic counts what a PE does on PEs of other nodes. It only grows, and is read as AgentTraffic is. Each half has one
// writer and a cache line of its own.
type Traffic struct {
	Operations uint64         // that have begun; the PE
	Express    ExpressTraffic // what has gone past the agent; the PE
	_          [40]byte
	Batches    uint64 // frames of records, each with some records of one block; the agent, as those below
	Sent       uint64 // bytes of these frames, headers included
	Received   uint64 // bytes of the answers and counts that have come
	_          [40]byte
}

// ExpressTraffic counts bytes of a PE's express sockets, headers included.
type ExpressTraffic struct {
	Sent     uint64
	Received uint64
}

// NodePart is the PEs of a node. They are First to First+Count-1, or those at these places of the list of all PEs if
// AgentPage has one. A node without PEs has Count 0.
type NodePart struct{ First, Count uint32 }

// List returns the list behind the page, or nil if there is none. MapAgentPage has checked that it is as long as Listed says.
func (p *AgentPage) List() []uint32 {
	if p.Listed == 0 {
		return nil
	}
	return unsafe.Slice((*uint32)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))), p.Listed)
}
