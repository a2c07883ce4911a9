package ftco

// Node is a member of the group that runs a collective: its position, from 0.
type Node = int32

// None is no node.
const None Node = -1

// Kind is a collective operation.
type Kind uint8

// The operations. Barrier is an Allreduce without a value.
const (
	Allreduce Kind = iota + 1 // everybody contributes, everybody gets the result
	Reduce                    // everybody contributes, the root gets the result
	Bcast                     // the root contributes, everybody gets the result
	Barrier                   // nobody contributes
)

// Call is what all members call a collective with.
type Call struct {
	Kind    Kind
	Uniform bool   // nobody returns before every living member holds the result
	Strict  bool   // fails everywhere if a member was dead when the decision was made
	Root    Node   // of Reduce and Bcast, else 0
	Tag     uint32 // of what else must be the same everywhere: type, length, operator
}

// EventKind is what a machine can learn.
type EventKind uint8

// The events.
const (
	Enter      EventKind = iota + 1 // the local member calls the next collective: Call
	Recv                            // From's Msg has arrived
	PeerFailed                      // incarnation Inc of From is dead
	Tick                            // time goes by; the driver chooses how often
)

// Event is what a machine is told.
type Event struct {
	Kind EventKind
	From Node
	Inc  uint32
	Call Call
	Msg  Msg
}

// MsgKind is the kind of a message. Up, Down and Have are the paper's DATA.
type MsgKind uint8

// The messages.
const (
	Up        MsgKind = iota + 1 // a subtree's contribution, or the question for a decision
	Down                         // the decision
	Have                         // the decision, told to a new root
	Ack                          // uniform: all of a subtree hold the decision
	Commit                       // uniform: everybody holds it
	KeepAlive                    // are you there, and where is what I wait for
	Alive                        // I am, and it is not here yet
)

// Msg is what members send each other. It holds no payload: Value names the
// sender's buffer whose bytes travel with it.
type Msg struct {
	Kind      MsgKind
	Committed bool // of Have: the sender has returned
	Call      Call
	Seq       uint64
	Value     Buf
	Sets      *Sets
}

// Sets are the members that a contribution or a decision lacks. Nil is both
// empty, which costs nothing. Never changed once made.
type Sets struct {
	Missing []Node // dead, not contained; ascending from the root
	Failed  []Node // of a decision: dead when it was made, contained or not
}

// Buf names a buffer that the driver keeps for one operation: that of a member's
// contribution, by its number, or one of the following.
type Buf int32

// Buffers beside those of members.
const (
	NoValue Buf = -1 // nothing
	Result  Buf = -2 // the decision's
)

// ActionKind is what a machine can ask for.
type ActionKind uint8

// The actions, to be done in their order.
const (
	Send     ActionKind = iota + 1 // Msg, with the bytes of Msg.Value, to To
	Keep                           // the bytes that came with the message, as Dst
	Combine                        // Dst becomes Dst combined with Src
	Decide                         // Src becomes Result; the bytes need not move
	Deliver                        // the local call returns, with Src and Msg.Sets
	Fail                           // the local call fails for Msg.Sets.Failed: it is strict
	Refuse                         // the local call fails: the one before has not returned
	Mismatch                       // To has called Msg.Call where the local member calls something else
)

// Action is what a machine asks its driver to do. Seq says for which operation.
type Action struct {
	Kind     ActionKind
	To       Node
	Dst, Src Buf
	Seq      uint64
	Msg      Msg
}
