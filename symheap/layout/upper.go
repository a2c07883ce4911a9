package layout

import "unsafe"

// The members of a team that spans nodes meet by the words of Upper, with the agents of their nodes between them. They lie behind
// Wire in the region RegionWire.
//
// The members of a team on one node are its part there, a team of package coll. Its id there, free with all members of the part, is
// the place of the team's words in Upper. It differs from node to node; between nodes a team goes by its name. Ids are used again.
//
// A team has two lines of steps: its collectives, and its agreements. The steps of a line have numbers, which only grow. Each
// member counts from a number of its own (UpperPart.Start).
//
//	Parts[t]           in each member's segment: what the part is. The member, before it announces the team
//	Lines[l][t].Cell   in each member's segment: what the member contributes to a step. The member
//	Lines[l][t].Given  in each member's segment: the rest of it. The member
//	Lines[l][t].Result in each member's segment: the result of a step. The agent
//
// Cell.Word is an arrival word (package coll/board): the number of the step that the member has entered, with the marks of one
// that enters no further step. The member stores Given and Data, then Word (sequentially consistent: of several members that arrive
// together, one sees that all have). The agent reads Word (acquire), then the others. It is the only reader of Given and
// Data in such a step, and is done with them when it has stored the result.
//
// Result.Seq: the agent stores what is behind it, then Seq (release), and wakes the member. The member waits for Seq (acquire).
// The agent stores the next result when all living members have entered the next step, so they have read this one.
//
// UpperPart is written and read word by word, by atomic operations: an agent may look while a member describes its next team, and
// finds out afterwards by Start and Name. The member stores 0 in Start (sequentially consistent), then the words of both lines
// and the plan, then Name, its second half last, then Start, and then announces the team. The agent reads the second half of
// Name first (acquire), then Start and the plan, and then both again. It reads an arrival word first, then Start: as long as that
// is the one that it knows, the word is of the team that it knows. Ended: the member (release); of a dead member that has not said
// so, the agent.
//
// A member announces a team, and that all have entered a step, by the team's bit in Wire.Teams.
//
// Given and the part of Data behind the record are a piece of the member's own, or elements that agents fold: the record says which
// (coll/span.Record).
//
// Given is read by others than the agent, too, if the members say so in a step: near ones read it in place and others by gets,
// when that step has ended for them and before they enter the next one. The owner writes it again when the next step has ended.
const (
	UpperOffset = 5 << 19 // of Upper in the region
	UpperTeams  = MaxTeams
	UpperNodes  = 128
	UpperData   = 120  // bytes of a step in the line of its word
	UpperGiven  = 1024 // bytes that a member gives besides
	UpperBody   = 8160 // bytes of a result besides
)

// The lines of steps of a team.
const (
	UpperSteps = iota // collectives
	UpperVotes        // agreements
	UpperLines        // how many
)

// UpperWorld is the id of the team of all PEs. In the first world of a process its name is UpperFirstWorld. Agents know that team
// before any member has described it: no step that makes it comes before its first one.
const UpperWorld = 0

// UpperFirstWorld is the first word of a name whose second is 0. In the next world it is one more, and so on.
const UpperFirstWorld = 1

// UpperFirstRanks is UpperFirstWorld for the team of all ranks of package mpi, which has an id of its own. Agents do not know it before a
// member has described it: its members meet by other means after that.
const UpperFirstRanks = 1 << 32

// UpperPart is the part of a team on a node, as one of its members describes it.
type UpperPart struct {
	Start uint64    // the number of this member's step before its first one, on both lines; never the same again for an id
	Name  [2]uint64 // of the team, on all its nodes
	UpperPlan
}

// UpperPlan is who is in a team and its part.
type UpperPlan struct {
	Nodes   uint32                // of the team
	Me      uint32                // this one's index among them
	Members uint32                // of the part
	Ended   uint32                // the member makes no step any more, as the last one has ended well
	Node    [UpperNodes]uint16    // the nodes of the team, in the order of their first members: indices in the job
	Local   [MaxLocal / 64]uint64 // bit i: the PE with local index i is a member
	Origin  UpperOrigin
}

// UpperOrigin is how a team is made. When the step has a result, each node that is to have the team has a description of it.
type UpperOrigin struct {
	Parent [2]uint64 // the name of the team that makes it; 0: it is a world
	Line   uint64    // of the parent
	Step   uint64    // the parent's step, by the number that it has in its part
}

// Words returns the plan as words.
func (p *UpperPlan) Words() *[unsafe.Sizeof(UpperPlan{}) / 8]uint64 {
	return (*[unsafe.Sizeof(UpperPlan{}) / 8]uint64)(unsafe.Pointer(p))
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

// UpperLackBytes is the size of an UpperLack.
const UpperLackBytes = 8

// UpperResult is the result of a step. Body has the members that have not contributed, one UpperLack after the other, and behind
// them what the members gave.
type UpperResult struct {
	Seq   uint64
	Lacks uint32 // how many members have not contributed. If they do not fit into Body, the first ones are there
	Gave  uint32 // bytes behind them. UpperTooMuch: they do not fit
	Data  [UpperData - 8]byte
	Body  [UpperBody]byte
}

// UpperTooMuch is UpperResult.Gave of what does not fit.
const UpperTooMuch = 1<<32 - 1

// UpperLine is the words of one line of steps.
type UpperLine struct {
	Cell   UpperCell
	Given  [UpperGiven]byte
	Result UpperResult
}

// Upper is the words of a PE's spanning teams.
type Upper struct {
	Parts [UpperTeams]UpperPart
	Lines [UpperLines][UpperTeams]UpperLine
}

// The conversions fail to compile if Upper does not fit between Wire and the end of the region.
const (
	_ = uint64(UpperOffset - unsafe.Sizeof(Wire{}))
	_ = uint64(WireSize - UpperOffset - unsafe.Sizeof(Upper{}))
	_ = uint64(UpperLackBytes-unsafe.Sizeof(UpperLack{})) + uint64(unsafe.Sizeof(UpperLack{})-UpperLackBytes)
)

// Upper returns the words behind w.
func (w *Wire) Upper() *Upper { return (*Upper)(unsafe.Add(unsafe.Pointer(w), UpperOffset)) }

// UpperRange returns where the words lie in a segment whose region RegionWire begins at an offset.
func UpperRange(wire uint64) (from, to uint64) {
	from = wire + UpperOffset
	return from, from + uint64(unsafe.Sizeof(Upper{}))
}
