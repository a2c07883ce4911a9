package bridge

import (
	"fmt"
	"strings"
	"time"
)

// The modes of a Block.
const (
	BlockLocal uint8 = iota
	BlockGlobal
	BlockWithCollective
)

// The codes of faults. In a set of codes, code c is the bit 1<<c.
const (
	SoftFault   = iota // a rank whose process has died
	NodeLost           // a rank that was lost with its node
	TimedOut           // a request that was not complete in time
	Truncated          // a message that was longer than its buffer
	Withdrawn          // a message or a receive that was canceled
	Broken             // a collective that has failed without a death, or a communicator that is revoked
	RankLeft           // a request that needs a rank which has finalized or freed the communicator
	PeerFailed         // a request that needs a rank which has died
	Elsewhere          // a request that was given up because the block has failed at another rank
	InnerBlock         // the request of a block in the block
	OtherFault         // any other error of a request
	Raised             // RaiseError, with an error that has no code of its own
	Application = 32   // the first of the codes of applications
	Codes       = 64
)

// Fault has the faults of a rank.
type Fault struct {
	Rank  int
	Codes uint64 // a set
	Block uint64 // number of the block in which they were, from 1 on
}

// Decision is what the ranks do about a block.
type Decision uint8

// The decisions.
const (
	Undecided Decision = iota
	Accept
	Partial
	Reject
)

// Outcome is what became of a block.
type Outcome struct {
	Decision Decision
	Faults   []Fault  // of the ranks, ascending
	Requests []uint64 // by request of Finish: the set of its codes, 0 if it has succeeded
	Errors   []error  // by request of Finish
	Statuses any      // a []mpi.Status, by request of Finish, once its wait has returned
}

// Block is a TryBlock of package mpi/ft, as package mpi has it.
type Block interface {
	// Finish begins to end the block. requests is a []mpi.Request, and so is the result an mpi.Request.
	Finish(requests any, timeout time.Duration) any
	// Outcome returns nil while the block goes on.
	Outcome() *Outcome
	// Number counts the blocks of the communicator that are not local.
	Number() uint64
}

// StartBlock starts a block on an *mpi.Comm. FaultyComms returns the []*mpi.Comm that have ranks in common with some ranks of a *mpi.Comm. CodesOf
// returns the set of codes of a rank of an *mpi.Comm that has died.
var (
	StartBlock  func(comm any, mode uint8) (Block, error)
	FaultyComms func(comm any, ranks []int) any
)

// FaultError is the error of a block that was not accepted.
type FaultError struct {
	Outcome *Outcome
	Cause   []error // the errors of requests of this rank
}

// Error names the decision, the ranks and what has failed.
func (e *FaultError) Error() string {
	var b strings.Builder
	b.WriteString("the block is to be ")
	if e.Outcome.Decision == Partial {
		b.WriteString("accepted in part")
	} else {
		b.WriteString("rejected")
	}
	for i, f := range e.Outcome.Faults {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%srank %d: %s", sep, f.Rank, NameCodes(f.Codes))
	}
	return b.String()
}

// Unwrap returns the errors of requests of this rank.
func (e *FaultError) Unwrap() []error { return e.Cause }

var codeNames = [...]string{
	SoftFault: "its process has died", NodeLost: "it was lost with its node", TimedOut: "a request was not complete in time",
	Truncated: "a message was longer than its buffer", Withdrawn: "a message or a receive was canceled", Broken: "a collective has failed, or a communicator is revoked",
	RankLeft: "a rank has left", PeerFailed: "a rank that it needs has died", Elsewhere: "the block has failed at another rank",
	InnerBlock: "a block in the block has failed", OtherFault: "a request has failed", Raised: "an error was raised",
}

// NameCodes says in words what a set of codes means.
func NameCodes(set uint64) string {
	var names []string
	for c := range Codes {
		switch {
		case set>>c&1 == 0:
		case c < len(codeNames):
			names = append(names, codeNames[c])
		default:
			names = append(names, fmt.Sprintf("application error %d", c-Application))
		}
	}
	return strings.Join(names, ", ")
}
