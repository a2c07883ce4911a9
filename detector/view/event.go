package view

import "github.com/goshmem/goshmem/detector/ring"

// Node is a node of the job, by its index.
type Node = ring.Node

// Never is the time at which nothing is due.
const Never = ring.Never

// Config shapes a Core.
type Config struct {
	Nodes    int      // of the first view, which has number 1
	Incs     []uint32 // the nodes' incarnations; nil: all 1
	Window   int64    // nanoseconds for which silent nodes, and broken links, are collected before they are judged
	Grace    int64    // nanoseconds for which a node that answers may be without a link to the front end
	Continue bool     // the front end goes on without a majority, too
	// Name returns what users call a node; nil: node0, node1 and so on.
	Name func(Node) string
}

// EventKind is the kind of an event.
type EventKind uint8

// The events.
const (
	Accuse      EventKind = 1 + iota // By says that incarnation Inc of Node is dead; Proven and Reason say how it knows
	LinkLost                         // the front end's connection to Node has ended, or Node's lease has
	LinkBack                         // Node has a connection to the front end again
	Probed                           // the end of a Probe of Node, with Result
	Fenced                           // the end of a Fence of Node: its processes are gone
	FenceFailed                      // the end of a Fence of Node, which has not confirmed it
	Hold                             // the job is about to stand still: no deadline passes until Go
	Go                               // the job goes on
	Tick                             // it is Now; at the latest when the core's Due says
)

// Result is what a probe has found.
type Result uint8

// The results.
const (
	Answered   Result = 1 + iota // the daemon lives
	DaemonDead                   // the node's kernel answers: the daemon has ended, or the node is fenced
	Silent                       // nothing has come back on any way
)

// Event is what a Core handles in one step. Now is never less than in the step before.
type Event struct {
	Kind   EventKind
	Now    int64 // nanoseconds
	By     Node
	Node   Node
	Inc    uint32
	Proven bool        // of Accuse: a kernel that lives, or the successor, has said so
	Reason ring.Reason // of a proven Accuse, for the text; 0 stands for ring.DaemonDead
	Result Result
}

// ActionKind is the kind of an action.
type ActionKind uint8

// The actions.
const (
	Probe  ActionKind = 1 + iota // ask Node whether it lives; Probed ends it
	Fence                        // end all processes of Node; Fenced or FenceFailed ends it
	Lose                         // view Number is without Node
	EndJob                       // the front end cannot go on
)

// Action is what a Core asks its driver to do. The nodes that one step loses by silence leave in one view: their actions
// have the same Number.
type Action struct {
	Kind   ActionKind
	Node   Node
	Inc    uint32
	Number uint64
	Why    string // of Lose and EndJob: a part of a sentence
}
