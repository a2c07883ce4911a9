package explore

import "fmt"

// System is one scenario of one protocol: the members, what they call one after the other, and what
// must hold. One goroutine uses it.
type System interface {
	String() string
	N() int
	Calls() int
	// Member makes member me at rest.
	Member(me int) (Member, error)
	// Check returns what is wrong with the group. It is called when a call has returned, and when the
	// run has ended.
	Check(g *Group) error
}

// Member is a machine with what its driver keeps for it: bytes and results. Events append, in order,
// the effects of the machine's actions that others can notice.
type Member interface {
	Enter(out []Effect) []Effect // makes the next call
	Recv(from int, msg Message, out []Effect) []Effect
	PeerFailed(q int, out []Effect) []Effect
	Tick(out []Effect) []Effect
	Entered() int           // the number of calls that it has made
	Returned() int          // the number of calls that have returned
	Result(call int) string // the result in readable form
	// Remains returns what Check needs of the member when it is dead, or nil.
	Remains() Member
	Clone() Member
	AppendState(b []byte) []byte // all that the other methods do depends on these bytes alone
}

// Chooser is a Member at which things happen that are no messages of other members, in any order: it stands for several
// processes that share memory. They are choices of its own, with numbers below MostOwn.
type Chooser interface {
	Member
	Own() (choices, optional uint64) // the choices that it has now: a bit for each; a run may end before optional ones, like faults
	Choose(number int, out []Effect) []Effect
}

// MostOwn is how many choices of its own a member may have.
const MostOwn = 64

// Message is what members send each other. It never changes.
type Message interface {
	AppendState(b []byte) []byte
	String() string
}

// Effect is what others notice of one action: a message, the return of a call, or an action that no
// driver can do.
type Effect struct {
	To     int // receiver of Msg
	Msg    Message
	Return bool  // a call returns
	Broken error // why no driver can do the action
}

// Group is what Check sees.
type Group struct {
	Members   []Member // the Remains of dead ones, which may be nil
	Dead      uint64   // a bit for each member
	Sent      int      // messages so far
	Faultless bool     // no member has died, no message was lost, no clock has ticked
	Final     bool     // nothing can happen any more
	Who       int      // the member that has just returned from a call, if not Final
}

// IsDead reports whether member p is dead.
func (g *Group) IsDead(p int) bool { return g.Dead>>p&1 != 0 }

// Kind is the kind of a Choice.
type Kind uint8

// The kinds of choices.
const (
	Enter   Kind = iota + 1 // P makes its next call
	Deliver                 // the first message from Q comes to P
	News                    // P learns of Q's death
	Die                     // P dies
	Cut                     // all but the first Keep messages from Q, which is dead, to P are lost
	Lose                    // the first message from Q to P is lost; both live
	Tick                    // P's clock ticks
	TickAll                 // all clocks tick
	Own                     // P, a Chooser, makes its choice with number Q
)

// Choice is something that may happen.
type Choice struct {
	Kind Kind
	P, Q int
	// With Dies, which is for Enter, Deliver, News, Tick and Own, P dies after the first Keep effects.
	Dies bool
	Keep int
}

// Faults are the numbers of faults that may happen.
type Faults struct {
	Deaths   int
	Losses   int // of messages between living members
	Ticks    int // of single clocks, at any time
	Timeouts int // ticks of all clocks, when nothing else can happen
}

// Failure is a run in which something is wrong.
type Failure struct {
	System  System
	Choices []Choice
	Err     error
}

// String returns the scenario and what is wrong.
func (f *Failure) String() string { return fmt.Sprintf("%v: %v", f.System, f.Err) }
