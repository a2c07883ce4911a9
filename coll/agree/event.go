package agree

import "github.com/goshmem/goshmem/coll/ftco"

// Node is a member of the group: its position, from 0.
type Node = ftco.Node

// none is no node.
const none = ftco.None

// EventKind is what a machine can learn.
type EventKind uint8

// The events.
const (
	Enter      EventKind = iota + 1 // the local member calls the next agreement with Vote
	Recv                            // From's Msg has arrived
	PeerFailed                      // incarnation Inc of From is dead
	Tick                            // time goes by; the driver chooses how often
)

// Event is what a machine is told.
type Event struct {
	Kind EventKind
	From Node
	Inc  uint32
	Vote Vote
	Msg  Msg
}

// Vote is what a member brings, beside the dead that it was told of.
type Vote struct {
	Flags   uint64 // the decision has the AND of all
	Payload Payload
}

// Payload is a small value. It travels inside of messages.
type Payload [32]byte

// Outcome is how an agreement ends.
type Outcome uint8

// The outcomes.
const (
	Decided   Outcome = iota + 1 // all have the same decision
	Undecided                    // nobody decided: the coordinator is dead, try again
)

// Decision is what a call returns.
type Decision struct {
	Seq     uint64 // of the call, from 1
	Outcome Outcome
	Vote           // all votes combined; nothing if Undecided
	Failed  []Node // the dead, ascending, the same at all; nil if Undecided. Not to be changed.
}

// MsgKind is the kind of a message.
type MsgKind uint8

// The messages.
const (
	MsgVote       MsgKind = iota + 1 // a subtree's votes
	msgDecision                      // the outcome of a round
	msgQuery                         // an orphan asks how to go on
	msgGather                        // answer: vote, to me
	msgWait                          // answer: your vote is counted, the decision will come
	msgTermQuery                     // an uncertain member asks for a decision; Failed are the dead it knows
	msgUncertain                     // answer: I have voted and know of no decision
	msgCollective                    // of the early-returning agreement
)

// Msg is what members send each other.
type Msg struct {
	Kind    MsgKind
	Outcome Outcome // of a decision
	Known   int32   // of a termination query how many dead the sender knows; of its answer the same
	Seq     uint64  // of the round
	Base    uint64  // the last DECIDED round before it, which tells old trees from new ones
	Vote    Vote
	Failed  []Node // never changed once made

	// Of the early-returning agreement, in which Base is the round after which
	// the sender's tree was made.
	Collective ftco.Msg
}

// ActionKind is what a machine can ask for.
type ActionKind uint8

// The actions, to be done in their order.
const (
	Send    ActionKind = iota + 1 // Msg to To
	Deliver                       // the local call returns Decision
	Blocked                       // the local call cannot return unless some member that holds a decision speaks: abort
	Refuse                        // the event was not allowed: entering twice
)

// Action is what a machine asks its driver to do.
type Action struct {
	Kind     ActionKind
	To       Node
	Seq      uint64
	Msg      Msg
	Decision Decision
}
