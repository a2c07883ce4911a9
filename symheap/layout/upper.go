package layout

import "unsafe"

// The members of a team that spans nodes meet by the words of Upper. They lie behind Wire in the region RegionWire.
// The first member of the team is its root. The first member on each node leads the node. Teams have the same upper id
// on all their members; id 0 is the team of all PEs. The lines of a team in other segments than those of its root and
// its leaders are not used.
//
// The steps of a team have numbers, which only grow. Ids are used again, with greater numbers.
//
//	In[t][k]   in the root's segment: what node k contributes to a step. The leader of node k, by records of its stream
//	Out[t]     in a leader's segment: the result. The root, by records of its stream
//	Mine[t]    in each member's segment: what the member gives the others. The member
//
// Line.Seq: a leader puts Data and then sends a signal that sets Seq to the number of the step, so Data is there before
// Seq (release). The owner waits for Seq (acquire), and reads Data after it. A leader writes In of the next step when
// it has read Out of this one, and the root writes Out when it has read In of all nodes. So one line is enough for
// each direction: its reader is done with it when it is written again.
//
// Mine: the owner writes it before it enters a step. The other members read it, near ones in place and others by gets,
// when that step has ended for them, and before they enter the next one. The owner writes it again when the next step has
// ended.
//
// UpperGaveUp in Seq: the writer enters no further step. The bits below UpperWho hold the last step that it has written.
// With UpperDied, it has given up because a member has died, with UpperLeft because a member has left the team, which may be
// the writer. The bits from UpperWho to UpperLeft hold the index of that member in the team. Data stays as it is, as its
// reader may be at it.
const (
	UpperOffset = 5 << 19 // of Upper in the region
	UpperTeams  = 64
	UpperNodes  = 128
	UpperData   = 120 // bytes that a step carries
	UpperValue  = 1024

	UpperGaveUp = 1 << 62
	UpperDied   = 1 << 61
	UpperLeft   = 1 << 60
	UpperWho    = 1 << 40 // what indices of members are multiples of
)

// UpperLine is one contribution or result.
type UpperLine struct {
	Seq  uint64
	Data [UpperData]byte
}

// Upper is the words of a PE's spanning teams.
type Upper struct {
	Out  [UpperTeams]UpperLine
	In   [UpperTeams][UpperNodes]UpperLine
	Mine [UpperTeams][UpperValue]byte
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
