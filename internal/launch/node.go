package launch

import (
	"context"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Node runs the PEs of a job that are on one node, and those of the jobs that they spawn.
// A daemon.Step is the node of this process. Package nodetest has the tests that every Node
// passes.
//
// All methods may be called at any time between the start of the node and its Close, and by
// several goroutines at once. A method that names a PE takes one of this node.
type Node interface {
	// Launch starts the PEs of the first job. After an error some may run: Close ends them.
	Launch() error
	// Close ends all PEs, passes on what they had written, and frees everything. No output comes after it.
	Close() error
	// Events returns what happens to the PEs, in order for each of them. The node never waits
	// for its receiver.
	Events() <-chan daemon.Event

	// PID returns the number of a PE's process, 0 before its start and for a PE that does not exist.
	PID(id daemon.ID) int
	// Signal sends a signal to the process groups of all PEs that run.
	Signal(sig syscall.Signal)
	// Suspend asks all PEs to stop.
	Suspend()
	// Stopped says whether the processes of all PEs that run are stopped.
	Stopped() bool
	// Resize gives the pseudo terminals of the PEs the window size of the user's terminal.
	Resize(w xunix.Window)
	// Feed gives readers a chunk of standard input, after Launch. It never waits: hooks.Credit tells
	// when the next chunk may come.
	Feed(c daemon.Chunk)
	// Refuse lets no further job begin.
	Refuse()
	// Forsake declares a PE failed that has lost its connection and has not joined again. It
	// returns false if that is not so.
	Forsake(id daemon.ID) bool

	// Ask gives an order to all PEs that run, and returns their answers after atMost at the latest.
	Ask(o wire.Order, atMost time.Duration) []daemon.Answer
	// HasGo says whether a PE runs a Go program.
	HasGo(id daemon.ID) bool
	// QuitGo ends the Go programs of a PE by SIGQUIT, and waits for their output for atMost at the longest.
	QuitGo(id daemon.ID, atMost time.Duration)

	// FarFailed makes a failure of PEs of other nodes known on this one.
	FarFailed(f daemon.FarFailure) error

	// Tier names the way in which the node learns of ends.
	Tier() string
	// ToolURI returns what tools need to attach, empty if none may.
	ToolURI() string
}

// Starter starts the nodes of a job.
type Starter interface {
	// Check says whether programs and directories are there, before anything is made. It returns nil where only the
	// nodes can say that: Start does then.
	Check(cfg *daemon.Config) error
	// Start starts the nodes of a job, each of which calls hooks of its own. The configuration is what they have in
	// common. After an error no node is left.
	Start(ctx context.Context, s Span, cfg daemon.Config, hooks func(node int) daemon.Hooks) ([]Node, error)
}

// hereStarter starts the node of this process.
type hereStarter struct{}

// Check looks for the programs and directories on this machine.
func (hereStarter) Check(cfg *daemon.Config) error { return cfg.Check() }

// Start starts a step in this process.
func (hereStarter) Start(_ context.Context, _ Span, cfg daemon.Config, hooks func(node int) daemon.Hooks) ([]Node, error) {
	step, err := daemon.Start(cfg, hooks(0))
	if err != nil {
		return nil, err
	}
	return []Node{step}, nil
}
