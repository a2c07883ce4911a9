package ftco

// Node is a member of the group that runs a collective: its position from 0 on.
type Node = int32

// None is no node.
const None Node = -1

// Kind is a collective operation.
type Kind uint8

// The operations. Barrier is an Allreduce without a value.
const (
	Allreduce Kind = iota + 1 // all members contribute, all get the result
	Reduce                    // all members contribute, the root gets the result
	Bcast                     // the root contributes, all members get the result
	Barrier                   // no member contributes
)

// Call is a call of a collective. It is the same on all members.
type Call struct {
	Kind    Kind
	Uniform bool   // no member returns before every living member holds the result
	Strict  bool   // the call fails on all members if one was dead when the decision was made
	Root    Node   // of Reduce and Bcast; otherwise 0
	Tag     uint32 // stands for all else that must agree: type, length, operator
}

// EventKind is the kind of an event.
type EventKind uint8

// The events.
const (
	Enter      EventKind = iota + 1 // the local member calls the next collective: Call
	Recv                            // Msg has arrived from From
	PeerFailed                      // incarnation Inc of From is dead
	Tick                            // time has passed; the driver chooses how often
)

// Event is what a machine handles in one step.
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
	Have                         // the decision, to an acting root that is no ancestor
	Ack                          // uniform: all of a living subtree holds the decision
	Commit                       // uniform: all living members hold the decision
	KeepAlive                    // a question for what the sender waits for
	Alive                        // the answer that it is not here yet
)

// Msg is what members send each other. It holds no payload: Value names the sender's buffer whose
// bytes travel with the message.
type Msg struct {
	Kind      MsgKind
	Committed bool // of Have: the sender has returned
	Call      Call
	Seq       uint64
	Value     Buf
	Sets      *Sets
}

// Sets are the dead members of a contribution or a decision. Nil stands for two empty sets and costs
// nothing. A Sets never changes once it is made.
type Sets struct {
	Missing []Node // dead members whose contributions are not contained, ascending from the root on
	Failed  []Node // of a decision: members known to be dead when it was made, contained or not
}

// Buf names a buffer that the driver keeps for one operation: the buffer of a member's contribution,
// by the member's number, or one of the following.
type Buf int32

// Buffers beside those of members.
const (
	NoValue Buf = -1 // nothing
	Result  Buf = -2 // the decision
)

// ActionKind is the kind of an action.
type ActionKind uint8

// The actions. The driver does them in the order in which the machine appends them.
const (
	Send     ActionKind = iota + 1 // send Msg, with the bytes of Msg.Value, to To
	Keep                           // keep the bytes that came with the message as Dst
	Combine                        // combine Src into Dst
	Decide                         // let Result be Src; the bytes need not move
	Deliver                        // let the local call return Src and Msg.Sets
	Fail                           // let the local call, which is strict, fail because of Msg.Sets.Failed
	Refuse                         // let the local call fail: the call before it has not returned
	Mismatch                       // To has called Msg.Call where the local member has called something else
)

// Action is what a machine asks its driver to do for operation Seq.
type Action struct {
	Kind     ActionKind
	To       Node
	Dst, Src Buf
	Seq      uint64
	Msg      Msg
}
