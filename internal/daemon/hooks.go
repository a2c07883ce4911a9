package daemon

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/pmix/server"
)

// Hooks are the functions that a step calls in its process, and its logger and clock. All but Output and Logger may be
// nil. All but Output must not block.
type Hooks struct {
	// Output takes whole lines of a PE, or a part of one that is slow to end, or
	// of one that is very long: LongLine bytes at once, which are followed by
	// more, or by no bytes if that is slow to come. It is called by one goroutine
	// per PE and stream, and may take its time.
	Output func(id ID, s Stream, text []byte)
	// OutputEnd is called after the last Output of a PE's stream, however that ended.
	OutputEnd func(id ID, s Stream)
	// Log takes text for an output that PEs do not write but send.
	Log func(s Stream, text []byte)
	// Notice takes what the user should know and no Event says.
	Notice func(text string)
	// Credit is called when readers have taken standard input, see Step.Feed.
	Credit func(c Credit)
	// Remote reaches the servers of the job's other nodes. A step needs it if its Config.Share has several hosts. What
	// comes from other nodes is passed to Step.NodeServer.
	Remote server.Remote
	// Spawn asks the root for a further job, if Config.Share has several hosts. The root answers by Step.AnswerSpawn. Nil:
	// no job is spawned on several nodes.
	Spawn func(r SpawnRequest)
	// Peers carries what the servers of the job's nodes ask and tell each other, and their board. Without it published
	// data, events of clients, queries and control stay within the node. What comes is passed to Step.NodeServer.
	Peers server.Peers
	// Agent starts the agent of the node, if Config.Share has several hosts. Nil: there is none, and PEs cannot reach the
	// memory of PEs on other nodes.
	Agent *AgentCommand
	// AgentEnded is called when the agent has ended, which ends the node, before its PEs are killed. Nil: the user gets a
	// notice.
	AgentEnded func(err error)
	// Started is called with the number of each process that ends with the node: those of PEs and the agent. It is not reaped
	// before Ended is called with it, and Started has returned by then.
	Started func(pid int)
	// Ended is called when such a process has ended.
	Ended func(pid int)
	// Failed is called when a PE of this node has failed, which nobody had asked for, and the job goes on, once the PEs of this
	// node have heard of it.
	Failed func(f FarFailure)
	// Broken is called when a connection between the agent of this node and that of another one has ended.
	Broken func(node int)
	// IsOther says of a child of this process that somebody else waits for it, so that the step does not reap it. Nil: as
	// Config.OwnsChildren says.
	IsOther func(pid int) bool
	// SharesChildren says whether this process may have other children than the step's by now, whatever Config.OwnsChildren
	// says. Nil: it has none.
	SharesChildren func() bool
	Logger         zerolog.Logger
	// Began is when the job began, by the clock of this process: Event.At is the time since then. Zero: the step is its
	// beginning.
	Began time.Time
}

// settings are what a step was started with.
type settings struct {
	Config
	Hooks
}
