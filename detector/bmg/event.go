package bmg

// Node is a member: the index of a node of the job, from 0 on.
type Node = int32

// None is no member.
const None Node = -1

// Kind says what a payload is.
type Kind uint8

// The kinds of payloads. The first two are reports.
const (
	KindNode   Kind = 1 + iota // a node is dead
	KindPE                     // a PE is dead
	KindEvent                  // an event for the PMIx clients of all nodes
	KindRevoke                 // a communicator is revoked
	KindAbort                  // a job is to end

	lastKind = KindAbort
)

// Key identifies a payload. Of all kinds but KindEvent, a payload with a later incarnation makes those of the same
// Kind, Job and ID with earlier ones obsolete: whoever knows it drops the others.
type Key struct {
	Kind Kind
	Job  uint32
	ID   uint64 // of the node, the PE, the event's origin or the communicator; of KindAbort 0
	Inc  uint32 // the incarnation of what ID names
	Seq  uint64 // of KindEvent: the number of the event at its origin, from 1 on; otherwise 0
}

// Payload is what is broadcast.
type Payload struct {
	Key
	Origin Node   // the member that broadcasts it
	Cause  uint32 // of a report: a failure.Cause; of KindAbort: the exit status
	At     int64  // of a report: when, in nanoseconds of the origin's clock
	Data   []byte // of KindEvent: the event as coded by its origin; it never changes
}

// Msg is what members send each other.
type Msg struct {
	Payloads []Payload // never changes once it is sent
	Acks     []Key     // payloads that the sender has
}

// EventKind is the kind of an event.
type EventKind uint8

// The events.
const (
	Start      EventKind = 1 + iota // broadcast Msg.Payloads; many are fastest in the order of their IDs
	Recv                            // Msg has arrived from incarnation Inc of From
	PeerFailed                      // incarnation Inc of From is dead, by news that did not come as a payload
	PeerJoined                      // From is now incarnation Inc
	Tick                            // time has passed; the driver chooses how often
)

// Event is what a machine handles in one step.
type Event struct {
	Kind EventKind
	From Node
	Inc  uint32
	Msg  Msg
}

// ActionKind is the kind of an action.
type ActionKind uint8

// The actions. The driver does them in the order in which the machine appends them.
const (
	Send    ActionKind = 1 + iota // send Msg to To
	Deliver                       // Payload has come, or has been started here
	Fenced                        // Payload reports the death of this member: let this node end
)

// Action is what a machine asks its driver to do.
type Action struct {
	Kind    ActionKind
	To      Node
	Msg     Msg
	Payload *Payload
}
