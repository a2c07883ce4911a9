package span

import (
	"slices"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/coll/ftco"
)

// Value is what some nodes contribute to a step, folded in the order of the nodes. It does not change once it is made.
type Value struct {
	Data    []byte      // nil: none of the members contributes
	Without []Exception // the members of these nodes that do not contribute, in the order of nodes and members
}

// Exception is a member that does not contribute to a step.
type Exception struct {
	Node, Member int32         // the node's index in the team; the member's index in the node's part
	Why          board.Verdict // Died, HasLeft or HasGivenUp
}

// combine returns acc and in combined. Neither changes: a decision may be sent again.
func (p *Part) combine(acc, in *Value) *Value {
	v := &Value{Without: append(slices.Clip(acc.Without), in.Without...)}
	slices.SortFunc(v.Without, compareExceptions) // a node's contribution may come after that of a later one
	switch {
	case acc.Data == nil:
		v.Data = in.Data
	case in.Data == nil:
		v.Data = acc.Data
	default:
		v.Data = p.cfg.Fold(slices.Clone(acc.Data), in.Data)
	}
	return v
}

func compareExceptions(a, b Exception) int {
	if a.Node != b.Node {
		return int(a.Node) - int(b.Node)
	}
	return int(a.Member) - int(b.Member)
}

// Result is that of a step. It is the same on all nodes that survive.
type Result struct {
	Seq uint64
	Value
	Missing []ftco.Node // nodes that died before they contributed, ascending: none of their members contributes
}

// OutputKind is the kind of an output.
type OutputKind uint8

// The kinds of outputs.
const (
	Send    OutputKind = iota + 1 // send Message to node To
	Deliver                       // write Result for the members of this node, then its number; and wake them
	Wrong                         // the program is wrong: Err
)

// Output is what a part tells its driver to do. The driver does what it is told in order.
type Output struct {
	Kind    OutputKind
	To      int
	Message *Message
	Result  *Result
	Err     error
}
