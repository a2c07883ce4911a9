package explore

import "fmt"

// System is one scenario of one protocol: how many members, what they call one
// after the other, and what must hold. A System is used by one goroutine.
type System interface {
	String() string
	N() int
	Calls() int
	// Member makes member me, at rest.
	Member(me int) (Member, error)
	// Check is given the group when a call has returned and when the run has
	// ended, and says what is wrong.
	Check(g *Group) error
}

// Member is a machine with what its driver keeps for it: bytes and results.
// Events append what others can notice of the machine's actions, in their order.
type Member interface {
	Enter(out []Effect) []Effect // makes the next call
	Recv(from int, msg Message, out []Effect) []Effect
	PeerFailed(q int, out []Effect) []Effect
	Tick(out []Effect) []Effect
	Entered() int           // how many calls it has made
	Returned() int          // and how many have returned
	Result(call int) string // for people
	// Buried is what Check still wants of it when it is dead, nil if nothing.
	Buried() Member
	Clone() Member
	AppendState(b []byte) []byte // all of the above depends on these bytes alone
}

// Message is what members send each other; never changed.
type Message interface {
	AppendState(b []byte) []byte
	String() string
}

// Effect is what others notice of one action: a message, the return of a call or
// that the machine has asked for something impossible.
type Effect struct {
	To     int // of Msg
	Msg    Message
	Return bool
	Broken error
}

// Group is what Check sees.
type Group struct {
	Members   []Member // a dead one's is Buried, and may be nil
	Dead      uint64   // a bit for each member
	Sent      int      // messages
	Faultless bool     // nobody has died, nothing was lost, no clock has ticked
	Final     bool     // nothing can happen any more
	Who       int      // has just returned from a call, if not Final
}

// IsDead says whether member p is.
func (g *Group) IsDead(p int) bool { return g.Dead>>p&1 != 0 }

// Kind is what a Choice chooses.
type Kind uint8

// The kinds of choices.
const (
	Enter   Kind = iota + 1 // P makes its next call
	Deliver                 // the first message from Q comes to P
	News                    // P is told of Q's death
	Die                     // P dies
	Cut                     // of the messages from Q to P all but Keep are lost, Q being dead
	Lose                    // the first message from Q to P is lost, both living
	Tick                    // P's clock ticks
	TickAll                 // everybody's does
)

// Choice is a thing that may happen.
type Choice struct {
	Kind Kind
	P, Q int
	// Of Enter, Deliver, News and Tick: P dies after Keep of its effects if Dies.
	Dies bool
	Keep int
}

// Faults are what may happen beside what the protocol does.
type Faults struct {
	Deaths   int
	Losses   int // messages between living members
	Ticks    int // clocks' ticks at any time
	Timeouts int // ticks of everybody when nothing else can happen
}

// Failure is a run in which something is wrong.
type Failure struct {
	System  System
	Choices []Choice
	Err     error
}

func (f *Failure) String() string { return fmt.Sprintf("%v: %v", f.System, f.Err) }
