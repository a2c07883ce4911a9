package bmg

import (
	"math"
	"slices"
)

// Flavor says which description a [Literal] follows.
type Flavor uint8

// The flavors. The paper's Algorithm 1 compares a message, which is a set of identifiers, with the set Reported. Printed
// takes the message as one thing: it is known if all of it is. PrintedAny calls it known if any of it is.
const (
	Printed    Flavor = iota // Algorithm 1
	PrintedAny               // Algorithm 1, in the other reading
	Runtime                  // grpcomm/bmg of PRRTE 2.0
)

// LiteralMsg is a message of Algorithm 1: identifiers of dead daemons and processes, without incarnations.
type LiteralMsg []uint64

// LiteralAction is what a [Literal] asks its driver to do, in order.
type LiteralAction struct {
	Kind LiteralActionKind
	To   Node
	Msg  LiteralMsg
}

// LiteralActionKind is the kind of a LiteralAction.
type LiteralActionKind uint8

// The actions.
const (
	LiteralSend   LiteralActionKind = 1 + iota // line 3 and 4 of RELIABLEBROADCAST
	LiteralNotify                              // lines 5 and 6: the local processes get Msg
	LiteralMark                                // "Add msg to Reported": call Mark
)

// Literal is the two-level reliable broadcast of the paper's section 4.6 as printed, or as it was in PRRTE 2.0. It is a
// baseline for comparisons, with its mistakes: docs/detection.md lists them.
type Literal struct {
	flavor   Flavor
	n, me    Node
	reported []uint64 // ascending
}

// NewLiteral makes member me of n at rest.
func NewLiteral(flavor Flavor, n, me int) *Literal {
	return &Literal{flavor: flavor, n: Node(n), me: Node(me)}
}

// Reset puts the machine back to rest.
func (l *Literal) Reset() { l.reported = l.reported[:0] }

// Start is STARTPROPAGATION of a daemon or a process with the identifier id. hosted are the processes of the daemon.
func (l *Literal) Start(id uint64, hosted []uint64, out []LiteralAction) []LiteralAction {
	if _, known := slices.BinarySearch(l.reported, id); known {
		return out
	}
	msg := append(LiteralMsg{id}, hosted...)
	out = l.broadcast(msg, out)
	return append(out, LiteralAction{Kind: LiteralMark, Msg: msg})
}

// Receive is FORWARDING.
func (l *Literal) Receive(msg LiteralMsg, out []LiteralAction) []LiteralAction {
	if l.knows(msg) {
		return out
	}
	out = l.broadcast(msg, out)
	return append(out, LiteralAction{Kind: LiteralMark, Msg: msg})
}

// knows is "msg in Reported".
func (l *Literal) knows(msg LiteralMsg) bool {
	for _, id := range msg {
		if _, known := slices.BinarySearch(l.reported, id); known == (l.flavor == PrintedAny) {
			return known
		}
	}
	return l.flavor != PrintedAny
}

// Mark adds msg to Reported.
func (l *Literal) Mark(msg LiteralMsg) {
	for _, id := range msg {
		if i, known := slices.BinarySearch(l.reported, id); !known {
			l.reported = slices.Insert(l.reported, i, id)
		}
	}
}

// broadcast is RELIABLEBROADCAST.
func (l *Literal) broadcast(msg LiteralMsg, out []LiteralAction) []LiteralAction {
	for _, d := range l.offsets() {
		for _, to := range [2]int64{int64(l.me) + d, int64(l.me) - d} {
			to = (to%int64(l.n) + int64(l.n)) % int64(l.n)
			out = append(out, LiteralAction{Kind: LiteralSend, To: Node(to), Msg: msg})
		}
	}
	return append(out, LiteralAction{Kind: LiteralNotify, To: None, Msg: msg})
}

// offsets returns the distances of the loop, in its order. The paper's are 2^k, with k from 0 to log2 N inclusive. The
// old runtime's are 2^i - 1, with the natural logarithm as their bound; odd members leave the last one out, and begin
// with the farthest.
func (l *Literal) offsets() (list []int64) {
	if l.flavor != Runtime {
		for k := 0; 1<<k <= int64(l.n); k++ {
			list = append(list, 1<<k)
		}
		return list
	}
	last := int(math.Log(float64(l.n)))
	if l.me%2 == 0 {
		for i := 1; i <= last+1; i++ {
			list = append(list, 1<<i-1)
		}
		return list
	}
	for i := last; i > 0; i-- {
		list = append(list, 1<<i-1)
	}
	return list
}
