package layout

// FirstGuest returns the index of the first guest on a node with so many PEs of the first job. The agent of a node serves those by their indices on the
// node. PEs of jobs that were spawned, its guests, have indices behind them, and the agent itself has the one between: agents name PEs to each other by node
// and index.
func FirstGuest(near int) Local { return Local(near) + 1 }

// InboxGuest marks a sender in an inbox that is named by its node and its agent's index: the sender or the receiver is a guest, so they are not of one job,
// or of one that was spawned. All other senders are named by their PE.
const InboxGuest = 1 << 23

// guestBits is the number of bits of an index in such a name.
const guestBits = 11

// The conversions fail to compile if a node or an index does not fit.
const (
	_ = uint(1<<guestBits - MaxLocal)
	_ = uint(InboxGuest - WireNodes<<guestBits)
	_ = uint(InboxPEs - 2*InboxGuest)
)

// GuestName returns the name in an inbox of the PE that the agent of a node has at an index.
func GuestName(node int, index Local) PE { return PE(InboxGuest | node<<guestBits | int(index)) }
