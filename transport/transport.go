// Package transport moves bytes between the agents of nodes.
//
// # Lanes
//
// Two nodes have two connections at most, one for each that dials. A node calls the connection that it has dialed its
// Out lane to the other node, and the one that the other node has dialed its In lane. Both lanes carry bytes in both
// directions, in order. Requests go out on Out lanes, answers come back on the same lanes. So an agent that answers
// never waits for an agent that asks, and two agents that answer each other's large requests do not hang.
//
// # Generations
//
// The dialer numbers its attempts to open a lane. Both ends give the events of a connection the number of its attempt.
// A listener lets a connection replace an older one of the same node, never a newer one.
//
// # The end of a connection
//
// Broken ends a connection, Refused an attempt. Either is the first event of its Poll, and the only one of its kind
// there. So the owner and the transport agree for every Post whether it was before or after the end:
//
//   - Posts before it, for which no Sent came, are dropped. Some of their bytes may have arrived. Their parts are the
//     owner's again.
//   - Posts after it go to the next connection. On an Out lane the first of them dials again.
//
// A transport never dials again by itself, and repeats nothing.
//
// # Memory
//
// Post keeps the parts and copies none of their bytes. What it needs for a part is a few words, and Post never waits.
// So the owner bounds what is under way. The events of one Poll hold a bounded number of received bytes.
package transport

import (
	"errors"
	"fmt"
	"time"
)

// Lane is one of the two connections between two nodes, as one of them sees it.
type Lane uint8

// The lanes of a node and another one.
const (
	Out Lane = iota // this node dialed: its requests go out here, answers and acknowledgments come back here
	In              // the other node dialed
)

// String returns the lane's name.
func (l Lane) String() string {
	switch l {
	case Out:
		return "out"
	case In:
		return "in"
	}
	return fmt.Sprintf("lane %d", uint8(l))
}

// Kind says what an event tells.
type Kind uint8

// The kinds of events.
const (
	Opened   Kind = 1 + iota // a connection is open; on an Out lane its posts begin to move
	Received                 // Data came
	Sent                     // the kernel has all bytes of the Post with this Token
	Broken                   // the connection has ended: see the package
	Refused                  // the attempt to open an Out lane has failed: see the package
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Opened:
		return "opened"
	case Received:
		return "received"
	case Sent:
		return "sent"
	case Broken:
		return "broken"
	case Refused:
		return "refused"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Event is something that has happened to a lane.
type Event struct {
	Kind       Kind
	Lane       Lane
	Generation uint32 // number of the connection, from 1 on; it grows with each one of this node and lane
	Node       int
	Data       []byte // of Received: valid until the next Poll
	Token      uint64 // of Sent; Sent events of a lane come in the order of its posts
	Err        error  // of Broken and Refused
}

// Transport moves bytes between this node and others.
//
//   - Concurrent calls: one goroutine calls the methods; any goroutine may call Wake.
type Transport interface {
	// Post queues parts in order behind what was posted before for (node, lane). It does not copy the parts and does
	// not wait. It opens the Out lane if it is not open. The parts stay unchanged until Sent, Broken or Refused. An
	// owner that may have to send them again keeps them longer. The list of the parts is the caller's after the call.
	//
	//   - Errors: ErrNotOpen if the In lane is not open; ErrClosed after Close; an unknown node or lane. After an error
	//     nothing is queued.
	Post(node int, lane Lane, token uint64, parts ...[]byte) error
	// Poll appends what has happened to events and returns them. It waits until something has happened, Wake was called
	// or the timeout is over; without end if the timeout is negative. It may return early without an event.
	Poll(events []Event, timeout time.Duration) ([]Event, error)
	// Cut ends the connection of a lane, or the attempt to open it, at once. Broken or Refused follows, with an error
	// that wraps cause. What was posted and has not arrived does not arrive any more, although Sent may have said that it
	// is under way. It does nothing if there is no connection.
	Cut(node int, lane Lane, cause error)
	// Wake makes the current Poll return, or the next one.
	Wake()
	// WakeFD returns an event descriptor. A write of another process to it does what Wake does. It is -1 if the
	// transport has none.
	WakeFD() int
	// Close ends all connections without further events. The parts of all posts are the owner's again.
	Close() error
}

// Flusher is a Transport that also sends outside of Poll.
type Flusher interface {
	Transport
	// Flush sends what was posted, as far as the kernel has room, and appends the events Sent of that. Poll does the same
	// before it waits. An owner that flushes may wait in its next Poll, which would return with these events otherwise.
	Flush(events []Event) []Event
}

// ErrClosed reports a call after Close.
var ErrClosed = errors.New("transport is closed")

// ErrNotOpen reports a Post to an In lane that is not open. Nobody waits for what was to be posted: the node that asked
// for it asks again on its next connection.
var ErrNotOpen = errors.New("in lane is not open")

// CheckLane returns an error unless a lane is Out or In and a node is one of the given number of nodes and not self.
func CheckLane(node, self, nodes int, lane Lane) error {
	switch {
	case lane != Out && lane != In:
		return fmt.Errorf("%s, want out or in", lane)
	case node < 0 || node >= nodes:
		return fmt.Errorf("node %d, want 0 to %d", node, nodes-1)
	case node == self:
		return fmt.Errorf("node %d is this node, want another one", node)
	}
	return nil
}
