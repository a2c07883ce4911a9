package launch

import (
	"context"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
)

// Node runs the PEs of a job that are on one node, see daemon.Node. A daemon.Step is the node of this process. Package
// nodetest has the tests that every Node passes.
type Node = daemon.Node

// Starter starts the nodes of a job.
type Starter interface {
	// Check says whether programs and directories are there, before anything is made. It returns nil where only the
	// nodes can say that: Start does then.
	Check(cfg *daemon.Config) error
	// Start starts the nodes of a job, each of which calls hooks of its own. The configuration is what they have in
	// common. After an error no node is left.
	Start(ctx context.Context, s Span, cfg daemon.Config, hooks func(node int) daemon.Hooks) ([]Node, error)
}

// Adder is the first node of a job whose Span grows. It adds nodes to the job.
type Adder interface {
	// AddNodes starts nodes on some hosts, which get the next indexes in their order. It returns without nodes, and an
	// error, if a daemon has not come up: then the job has the nodes that it had. With nodes and an error, some of these
	// are lost already.
	AddNodes(ctx context.Context, hosts []plan.Node) ([]Node, error)
}

// hereStarter starts the node of this process.
type hereStarter struct{}

// localStarter starts a node in this process, to which the Starter may add others.
type localStarter struct{ Starter }

// Check looks for the programs and directories on this machine.
func (localStarter) Check(cfg *daemon.Config) error { return cfg.Check() }

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
