package daemon

import (
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Node runs the PEs of a job that are on one node, and those of the jobs that they spawn. A Step is the node of this
// process.
//
// All methods may be called at any time between the start of the node and its Close, and by
// several goroutines at once. A method that names a PE takes one of this node.
type Node interface {
	// Launch starts the PEs of the first job. After an error some may run: Close ends them.
	Launch() error
	// Close ends all PEs, passes on what they had written, and frees everything. No output comes after it. After a
	// *LostError some output may be missing.
	Close() error
	// Events returns what happens to the PEs, in order for each of them. The node never waits
	// for its receiver.
	Events() <-chan Event

	// PID returns the number of a PE's process, 0 before its start and for a PE that does not exist.
	PID(id ID) int
	// Signal sends a signal to the process groups of all PEs that run.
	Signal(sig syscall.Signal)
	// Suspend asks all PEs to stop.
	Suspend()
	// Stopped says whether the processes of all PEs that run are stopped.
	Stopped() bool
	// Resize gives the pseudo terminals of the PEs the window size of the user's terminal.
	Resize(w xunix.Window)
	// Feed gives readers a chunk of standard input, after Launch. It never waits: Hooks.Credit tells
	// when the next chunk may come.
	Feed(c Chunk)
	// Refuse lets no further job begin. With lost, the front end has lost the job: no failure is made known to PEs any
	// more, so that none of them goes on without those that end first.
	Refuse(lost bool)
	// Forsake declares a PE failed that has lost its connection and has not joined again. It
	// returns false if that is not so.
	Forsake(id ID) bool
	// IsAtWork says whether a process of a PE that is not the program that joined last could run: a shell, or the
	// program that it starts next.
	IsAtWork(id ID) bool

	// Ask gives an order to all PEs that run, and returns their answers after atMost at the latest.
	Ask(o wire.Order, atMost time.Duration) []Answer
	// HasGo says whether a PE runs a Go program.
	HasGo(id ID) bool
	// QuitGo ends the Go programs of a PE by SIGQUIT, and waits for their output for atMost at the longest.
	QuitGo(id ID, atMost time.Duration)

	// SetAgents tells the node the addresses of the agents of all nodes, before Launch. A node without an agent has an
	// empty one.
	SetAgents(addrs []string) error
	// FarFailed makes a failure of PEs of other nodes known on this one.
	FarFailed(f FarFailure) error

	// AddJob, StartJob, DropJob, EndJob and AnswerSpawn are for jobs that PEs of several nodes spawn. The root adds such a
	// job to all nodes, then starts its PEs on all of them, and answers who has asked for it. A job that cannot be added
	// or started everywhere is dropped everywhere. It is ended everywhere when all its PEs have ended.

	// AddJob makes a job known on this node, and makes what its PEs need.
	AddJob(j FurtherJob) error
	// StartJob starts the PEs of this node.
	StartJob(number int) error
	// DropJob ends the PEs that run here, and frees the job. It returns when they have ended.
	DropJob(number int) error
	// EndJob frees a job whose PEs have all ended, on all nodes. It does not wait.
	EndJob(number int)
	// AnswerSpawn answers a request for a job. It does not wait.
	AnswerSpawn(a SpawnAnswer)

	// Report returns what the node has said of itself at its start.
	Report() Report
	// Tier names the way in which the node learns of ends.
	Tier() string
	// ToolURI returns what tools need to attach, empty if none may.
	ToolURI() string
}

// LostError is what Close returns of a node that was lost before it had closed, or did not answer.
type LostError struct{ Err error }

// Error returns how the node was lost.
func (e *LostError) Error() string { return e.Err.Error() }

// Unwrap returns how the node was lost.
func (e *LostError) Unwrap() error { return e.Err }

// A step is a node.
var _ Node = (*Step)(nil)
