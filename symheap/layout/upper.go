package layout

import "unsafe"

// The members of a team that spans nodes meet by the words of Upper, with the agents of their nodes between them. They lie behind
// Wire in the region RegionWire. Teams have the same upper id on all their members; id 0 is the team of all PEs. Ids are
// used again.
//
// The members of a team on one node are its part there. The steps of a team have numbers, which only grow.
//
//	Parts[t]    in each member's segment: what the part is. The member, before it announces the team
//	Cells[t]    in each member's segment: what the member contributes to a step. The member
//	Results[t]  in each member's segment: the result of a step. The agent
//	Mine[t]     in each member's segment: what the member gives the others. The member
//
// Cell.Word is an arrival word (package coll/board): the number of the step that the member has entered, with the marks of one
// that enters no further step. The member stores Data, then Word (sequentially consistent: of several members that arrive
// together, one sees that all have). The agent reads Word (acquire), then Data. It is the only reader of Data, and is done with it
// when it has stored the result.
//
// Result.Seq: the agent stores what is behind it, then Seq (release), and wakes the member. The member waits for Seq (acquire).
// The agent stores the next result when all living members have entered the next step, so they have read this one.
//
// A member announces a team, and that all have entered a step, by a number of Ready that is UpperReady plus the id.
//
// Mine: the owner writes it before it enters a step. The other members read it, near ones in place and others by gets,
// when that step has ended for them, and before they enter the next one. The owner writes it again when the next step has
// ended.
const (
	UpperOffset = 5 << 19 // of Upper in the region
	UpperTeams  = 64
	UpperNodes  = 128
	UpperData   = 120 // bytes that a step carries
	UpperValue  = 1024
	UpperLacks  = 60      // members in a result that have not contributed
	UpperReady  = 1 << 16 // in Ready: of a team
)

// UpperPart is the part of a team on a node, as one of its members describes it.
type UpperPart struct {
	Start   uint64                // the number of the step before the first one
	Nodes   uint32                // of the team
	Me      uint32                // this one's index among them
	Members uint32                // of the part
	First   uint32                // the team's first PE: teams that one call has made have the same id and start
	Node    [UpperNodes]uint16    // the nodes of the team, in the order of their first members: indices in the job
	Local   [MaxLocal / 64]uint64 // bit i: the PE with local index i is a member
}

// UpperCell is what a member contributes.
type UpperCell struct {
	Word uint64
	Data [UpperData]byte
}

// UpperLack is a member that has not contributed.
type UpperLack struct {
	Node   uint16 // its index in the team
	Member uint16 // its index in the part there; UpperAll: all members of the node
	Why    uint32 // board.Verdict
}

// UpperAll stands for all members of a node.
const UpperAll = 1<<16 - 1

// UpperResult is the result of a step.
type UpperResult struct {
	Seq   uint64
	Data  [UpperData]byte
	Lacks uint32 // how many members have not contributed; of more than UpperLacks, the first ones are listed
	_     uint32
	Lack  [UpperLacks]UpperLack
}

// Upper is the words of a PE's spanning teams.
type Upper struct {
	Parts   [UpperTeams]UpperPart
	Cells   [UpperTeams]UpperCell
	Results [UpperTeams]UpperResult
	Mine    [UpperTeams][UpperValue]byte
}

// The conversions fail to compile if Upper does not fit between Wire and the end of the region.
const (
	_ = uint64(UpperOffset - unsafe.Sizeof(Wire{}))
	_ = uint64(WireSize - UpperOffset - unsafe.Sizeof(Upper{}))
)

// Upper returns the words behind w.
func (w *Wire) Upper() *Upper { return (*Upper)(unsafe.Add(unsafe.Pointer(w), UpperOffset)) }

// UpperRange returns where the words lie in a segment whose region RegionWire begins at an offset.
func UpperRange(wire uint64) (from, to uint64) {
	from = wire + UpperOffset
	return from, from + uint64(unsafe.Sizeof(Upper{}))
}
