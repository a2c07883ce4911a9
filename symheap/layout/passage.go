package layout

import "unsafe"

// Passage is what the PEs of one other job on the node write to a PE: a lane for each of them. The PEs of two jobs that exchange messages have one file of
// passages: first those of the PEs of the job with the lower number, then those of the other job's, each in the order of the PEs' indices on the node.
//
//	word       writer                                    readers
//	Callers    a PE of the other job, once, by a locked  the owner
//	           instruction, before its first message
//	Gone       the owner, once, after its last message   the PEs of the other job, which read the lane from it afterwards
//	           to the other job
//	LaneHeads  as Control.LaneHeads
//	Lanes      as Control.Lanes
type Passage struct {
	Callers   [MaxLocal / 64]uint64
	Gone      uint32
	_         [4096 - MaxLocal/8 - 4]byte
	LaneHeads [MaxLocal]Lane
	Lanes     [LanesSize]byte
}

// ShapeOfPassages returns the shape of the lanes between two jobs with so many PEs on the node.
func ShapeOfPassages(a, b int) LaneShape { return ShapeOfLanes(max(a, b)) }

// Lane returns the lane of the PE with index i on the node among those of the other job.
func (p *Passage) Lane(s LaneShape, i Local) (head *Lane, cells *Cell, room unsafe.Pointer) {
	at := unsafe.Add(unsafe.Pointer(&p.Lanes), int(i)*s.Size)
	return &p.LaneHeads[i], (*Cell)(at), unsafe.Add(at, s.Cells*CellSize)
}
