package far

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// reserveSlots is how many slots at most are kept for nodes that hold none. So many nodes can be reached whatever other
// nodes have.
const reserveSlots = layout.WireSlots / 4

// quota divides things of which the Port has a limited number, slots or pieces, among the nodes that requests go to. A
// node that has stopped keeps what it holds. It must leave enough to the others:
//
//   - A node that holds none may take any that is free.
//   - A node that holds some may take another one while it holds fewer than are free. Of these, one for each node that
//     holds none does not count, up to the reserve.
//
// So a single node can have half of what is not reserved. Each further one finds less, but something: a fixed share of a
// quarter would be used up by four nodes that have stopped.
//
// Nothing is free only while more nodes than the reserve hold some, never in a job of fewer nodes. This is because free plus the
// nodes that hold some is above the reserve, or at least the number of nodes. A first thing moves one from the left to the
// right. Each further one leaves one free, and those that are kept. What is given back lowers neither sum.
//
// The Port's lock guards the changes. Waits read the words without it, so changes are stores with release order.
type quota struct {
	free    uint32   // things that no node holds
	without uint32   // nodes that hold none, this PE's own not counted
	reserve uint32   // how many of those may have a thing reserved
	held    []uint32 // by node: things that it holds
}

func newQuota(things, nodes, reserve int) quota {
	return quota{free: uint32(things), without: uint32(nodes - 1), reserve: uint32(reserve), held: make([]uint32, nodes)}
}

// may says whether a node may take one more.
func (q *quota) may(node int) bool {
	return isWithin(atomic.LoadUint32(&q.held[node]), atomic.LoadUint32(&q.free), min(atomic.LoadUint32(&q.without), q.reserve))
}

// isWithin is the rule of quota, for a node that holds so many while so many are free and so many of these are kept for nodes
// that hold none.
func isWithin(held, free, kept uint32) bool {
	if held == 0 {
		return free > 0
	}
	return held+kept < free
}

// holds says whether a node holds any.
func (q *quota) holds(node int) bool { return atomic.LoadUint32(&q.held[node]) > 0 }

// take gives the node one that is free.
func (q *quota) take(node int) {
	if q.held[node] == 0 {
		rma.StoreRelease32(&q.without, q.without-1)
	}
	rma.StoreRelease32(&q.held[node], q.held[node]+1)
	rma.StoreRelease32(&q.free, q.free-1)
}

// give takes one back from the node.
func (q *quota) give(node int) {
	rma.StoreRelease32(&q.held[node], q.held[node]-1)
	if q.held[node] == 0 {
		rma.StoreRelease32(&q.without, q.without+1)
	}
	rma.StoreRelease32(&q.free, q.free+1)
}

// quotas are those of slots and of pieces.
type quotas struct{ slots, pieces quota }

// may says whether a request to a node may have a slot now, and whether a piece comes with it.
func (q *quotas) may(node int, wantsPiece bool) (piece, ok bool) {
	switch {
	case !q.slots.may(node):
		return false, false
	case !wantsPiece:
		return false, true
	case q.pieces.may(node):
		return true, true
	default:
		return false, !q.pieces.holds(node)
	}
}
