package layout

import "unsafe"

// What messages between processes go through: in the segment of each PE one lane for
// each PE of the node, which that one alone writes messages into.
const (
	LanesSize = 2 << 20 // bytes of all lanes of a segment
	MaxLane   = 1 << 20 // bytes of one lane: more than most private caches
	MaxCells  = 256     // of a lane, so few that the sender's first cache holds those that are on their way
	CellSize  = 64
	CellBody  = 40  // bytes of a Cell that a short message has for its data
	Shares    = 512 // of a PE
)

// Lane is the head of a lane: what both sides tell each other about its cells and the room for
// data of messages that are longer than CellBody.
type Lane struct {
	Cells uint64 // number of cells that the owner of the segment is done with, said now and then
	Data  uint64 // bytes of data that it is done with, said with Cells
	Want  uint32 // not 0: the sender waits for room
	Hold  uint32 // not 0: the owner keeps much of the sender's, which announces messages that do not fit a cell
	_     [40]byte
}

// Share is what sender and receiver of one long message, which does not go through the
// lane, tell each other about copying it: in parts, the receiver from the first one on, the
// sender from the last one. It lies in the sender's segment, alone on its cache line.
type Share struct {
	Turn   uint64 // parts that the receiver has taken on, ShareBack times those of the sender, the state and the message
	Copied uint64 // parts that the sender has copied, and ShareFailed
	_      [48]byte
}

// The parts of a Share's words.
const (
	ShareBack    = 1 << 16 // in Turn: one part of the sender's
	ShareState   = 1 << 32 // in Turn: what states are multiples of
	ShareOpen    = 1 * ShareState
	ShareTaken   = 2 * ShareState // the receiver has the message
	ShareRevoked = 3 * ShareState // the sender has given it up: what was copied may be anything
	ShareRefused = 4 * ShareState // the receiver has given it up, or wants it through the lane: the sender takes no more parts
	ShareEnded   = 5 * ShareState // the sender has finalized or freed the communicator, as the receiver is to do
	ShareMessage = 8 * ShareState // in Turn: what numbers of messages are multiples of
	ShareFailed  = 1 << 63        // in Copied: the sender could not copy a part that it had taken on
)

// Reach is how other processes get at the private memory of a PE, if they may at all: who
// finds Cookie at that address of that process has the right one.
type Reach struct {
	PID    uint64 // 0: not known yet
	Addr   uint64
	Cookie uint64
	_      [40]byte
}

// Cell is one message or a part of one.
type Cell struct {
	Mark  uint64 // low half: number of the cell in the lane, from 1 on; then the kind of message
	Match uint64 // communicator and tag
	Size  uint64 // bytes, and the sender's rank
	Body  [CellBody]byte
}

// LaneShape is how the lanes of a job are cut.
type LaneShape struct {
	Size  int // bytes of a lane, a power of two
	Cells int // a power of two
	Data  int // bytes, a multiple of CellSize
}

// ShapeOfLanes returns the shape of the lanes of a job with so many PEs on a node.
func ShapeOfLanes(npes int) LaneShape {
	size := MaxLane
	for size*npes > LanesSize {
		size /= 2
	}
	cells := min(size/4/CellSize, MaxCells)
	return LaneShape{Size: size, Cells: cells, Data: size - cells*CellSize}
}

// Lane returns the lane of the sender with index i on the node: its head, its first cell, and its room
// for data.
func (c *Control) Lane(s LaneShape, i Local) (head *Lane, cells *Cell, room unsafe.Pointer) {
	at := unsafe.Add(unsafe.Pointer(&c.Lanes), int(i)*s.Size)
	return &c.LaneHeads[i], (*Cell)(at), unsafe.Add(at, s.Cells*CellSize)
}

// At returns cell i of a lane with this first one; i is below the number of its cells.
func (c *Cell) At(i int) *Cell { return (*Cell)(unsafe.Add(unsafe.Pointer(c), i*CellSize)) }
