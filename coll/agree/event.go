package agree

import "github.com/goshmem/goshmem/coll/ftco"

// Node is a member of the group: its position from 0 on.
type Node = ftco.Node

// none is no node.
const none = ftco.None

// EventKind is the kind of an event.
type EventKind uint8

// The events.
const (
	Enter      EventKind = iota + 1 // the local member calls the next agreement with Vote
	Recv                            // Msg has arrived from From
	PeerFailed                      // incarnation Inc of From is dead
	Tick                            // time has passed; the driver chooses how often
)

// Event is what a machine handles in one step.
type Event struct {
	Kind EventKind
	From Node
	Inc  uint32
	Vote Vote
	Msg  Msg
}

// Vote is what a member brings. The dead that it knows of come with it.
type Vote struct {
	Flags   uint64 // the decision has the AND of all votes
	Payload Payload
	Body    string // bytes, which Config.Unite unites; mostly empty
}

// Payload is a small value that travels in messages.
type Payload [32]byte

// Outcome is how an agreement ends.
type Outcome uint8

// The outcomes.
const (
	Decided   Outcome = iota + 1 // all members have the same decision
	Undecided                    // the coordinator died and nothing is decided; call again
)

// Decision is what a call returns.
type Decision struct {
	Seq     uint64 // number of the call, from 1 on
	Outcome Outcome
	Vote           // all votes combined; zero if Undecided
	Failed  []Node // the dead, ascending, the same on all members; nil if Undecided. Not to be changed.
}

// MsgKind is the kind of a message.
type MsgKind uint8

// The messages.
const (
	MsgVote       MsgKind = iota + 1 // the votes of a subtree
	msgDecision                      // the outcome of a round
	msgQuery                         // an orphan asks its new contact how to go on
	msgGather                        // answer to msgQuery: send your vote here
	msgWait                          // answer to msgQuery: your vote is counted, the outcome will come
	msgTermQuery                     // an uncertain member asks for a decision; Failed has the dead that it knows
	msgUncertain                     // answer to msgTermQuery: the sender has voted and knows of no decision
	msgCollective                    // a message of the early-returning agreement
)

// Msg is what members send each other.
type Msg struct {
	Kind    MsgKind
	Outcome Outcome // of a decision
	Known   int32   // of a termination query: how many dead the sender knows; of its answer: the same number
	Seq     uint64  // the round
	Base    uint64  // the last DECIDED round before it, which tells old trees from new ones
	Vote    Vote
	Failed  []Node // never changed once made

	// Collective is the message of the early-returning agreement. Base is the round after which
	// the sender's tree was made.
	Collective ftco.Msg
}

// ActionKind is the kind of an action.
type ActionKind uint8

// The actions. The driver does them in the order in which the machine appends them.
const (
	Send    ActionKind = iota + 1 // send Msg to To
	Deliver                       // let the local call return Decision
	Blocked                       // abort: the local call cannot return unless a member that holds a decision speaks
	Refuse                        // let the local call fail: the call before it has not returned
)

// Action is what a machine asks its driver to do.
type Action struct {
	Kind     ActionKind
	To       Node
	Seq      uint64
	Msg      Msg
	Decision Decision
}
