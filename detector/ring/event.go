package ring

import "github.com/goshmem/goshmem/detector/bmg"

// Node is a member: the index of a node of the job.
type Node = bmg.Node

// None is no member.
const None = bmg.None

// Never is the time at which nothing is due.
const Never = int64(1<<63 - 1)

// MsgKind is the kind of a message.
type MsgKind uint8

// The messages.
const (
	Ping   MsgKind = 1 + iota // a question to Of, by or for the member For
	Answer                    // the answer of Of to a ping
	Ask                       // the request of For to ping Of
)

// Msg is what members send each other. For and At of a ping come back in its answer, so that no member has to remember
// whom it asked, and the answer may be given by a program in the kernel.
type Msg struct {
	Kind   MsgKind
	For    Node  // the member that wants to know
	Of     Node  // the member that it wants to know of
	At     int64 // when For sent it, by the clock of For
	Status Status
}

// Status is what an answer says. All but Inc may be left at zero by members whose daemons answer themselves.
type Status struct {
	Inc        uint32 // of the member that answers
	Tick       uint32 // the daemon changes it as long as it runs
	DaemonDead bool   // the daemon has ended
	Starved    bool   // the daemon could run, and gets no processor
}

// Reply returns the answer to a ping, as the responder of every tier gives it.
func Reply(ping *Msg, s Status) Msg {
	return Msg{Kind: Answer, For: ping.For, Of: ping.Of, At: ping.At, Status: s}
}

// EventKind is the kind of an event.
type EventKind uint8

// The events.
const (
	Start      EventKind = 1 + iota // the machine begins to watch: all members answer pings from now on
	Tick                            // it is Now; at the latest when the machine's Due says
	Recv                            // Msg has arrived from From
	Suspect                         // a connection to incarnation Inc of From has ended
	PeerFailed                      // incarnation Inc of From is dead
	PeerJoined                      // From is now incarnation Inc
)

// Event is what a machine handles in one step. Now is never less than in the step before.
type Event struct {
	Kind EventKind
	Now  int64 // nanoseconds
	From Node
	Inc  uint32
	Msg  Msg
}

// ActionKind is the kind of an action.
type ActionKind uint8

// The actions.
const (
	Send      ActionKind = 1 + iota // send Msg to To
	Accuse                          // incarnation Inc of To is dead, by Reason
	Unreached                       // incarnation Inc of To lives, and answers by way of others only: the network between is broken
)

// Reason says why a member is accused.
type Reason uint8

// The reasons. All but Silent are proven: by a kernel that lives, or by the successor.
const (
	Silent     Reason = 1 + iota // it answers nothing
	DaemonDead                   // its kernel says that the daemon has ended
	DaemonHung                   // its kernel answers, and the daemon's tick stands still
	Restarted                    // a later incarnation answers
)

// Action is what a machine asks its driver to do.
type Action struct {
	Kind   ActionKind
	To     Node
	Msg    Msg
	Inc    uint32
	Reason Reason
}
