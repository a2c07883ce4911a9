package nodes

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"github.com/goshmem/goshmem/internal/wire"
)

// Launch agents form a tree: the front end starts those of the first Config.Radix nodes, and node i those of Radix others,
// from number Radix*(i+1) on, once its daemon has reported itself. Only agents do. Each daemon has its link to the front
// end, which gives it the order (KindStartAgent) and hears how the agent ends (KindAgentEnded). The front end starts a
// daemon of its own machine itself, by Config.Here.
//
// Nodes often cannot start anything on each other: the keys of ssh are where the user is. The first agent that fails at a
// daemon makes the tree flat: the front end starts that daemon itself, and all that are left. An agent that a signal ends
// was started, and its end is that of the start, as if the front end had started it.

// plantTree gives each member its parent.
func (r *root) plantTree() {
	radix := r.cfg.Radix
	if radix < 1 || r.cfg.Agent.All {
		return
	}
	for i := radix; i < len(r.members); i++ {
		if r.isHere(i) { // which no other node could start
			continue
		}
		parent := r.members[i/radix-1]
		r.members[i].parent = parent
		parent.holds++
	}
}

// isFlat says whether the front end starts all agents that are left.
func (r *root) isFlat() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flat
}

// flatten lets the front end start all agents that are left, because a host could not start one.
func (r *root) flatten(host string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.flat {
		r.flat = true
		r.logger.Warn().Str("host", host).Err(err).Msg("a node cannot start the daemon of another one: the front end starts them (--launch-flat)")
	}
}

// startFar starts the daemon by an agent that the daemon of the parent starts, and returns when it has reported itself.
func (m *member) startFar(ctx context.Context, handover []byte) error {
	agent, err := m.root.cfg.Agent.processFor(m.index, m.root.hosts)
	if err != nil {
		return err
	}
	agent.clear = func() { m.parent.send(wire.Frame{Kind: wire.KindKillAgent, Stream: uint32(m.index)}) }
	m.parent.startAgent(m.index, agent, handover)
	err = m.awaitDaemon(ctx, agent, m.root.cfg.Within/2) // the rest is for another agent
	if err != nil {
		agent.clear()
	}
	return err
}

// startAgent has the daemon start the agent of another node.
func (m *member) startAgent(node int, agent *agentProcess, handover []byte) {
	m.mu.Lock()
	lost := m.lost
	if lost == nil {
		if m.started == nil {
			m.started = map[int]*agentProcess{}
		}
		m.started[node] = agent
	}
	m.mu.Unlock()
	if lost != nil {
		agent.finish(fmt.Errorf("the daemon that was to start it, on %s, is lost", m.host))
		return
	}
	order := agentOrder{Where: agent.where, Argv: agent.argv, Handover: handover}
	m.send(wire.Frame{Kind: wire.KindStartAgent, Stream: uint32(node), Body: wire.Encode(order.code)})
}

// takeAgentEnd notes that an agent has ended which the daemon has started.
func (m *member) takeAgentEnd(f wire.Frame) error {
	var end agentEnd
	if err := wire.Decode(f.Body, "end of an agent", end.code); err != nil {
		return err
	}
	m.mu.Lock()
	agent, lost := m.started[int(f.Stream)], m.lost != nil
	delete(m.started, int(f.Stream))
	m.mu.Unlock()
	if agent == nil && !lost {
		return fmt.Errorf("the agent of node %d has ended, which the daemon has not started", f.Stream)
	}
	if agent != nil {
		_, _ = agent.said.Write([]byte(end.Said)) // never fails
		agent.finish(end.err())
	}
	return nil
}

// agentOrder is the body of KindStartAgent.
type agentOrder struct {
	Where    string
	Argv     []string
	Handover []byte
}

func (o *agentOrder) code(c *wire.Coder) {
	c.String(&o.Where)
	wire.List(c, &o.Argv, (*wire.Coder).String)
	c.Bytes(&o.Handover)
	if c.Decodes() && len(o.Argv) == 0 {
		c.Fail(errors.New("there is no command"))
	}
}

// agentEnd is the body of KindAgentEnded.
type agentEnd struct {
	How      string // empty: with status 0
	BySignal bool
	Said     string
}

// err returns how the agent has ended as an error.
func (e *agentEnd) err() error {
	switch {
	case e.How == "":
		return nil
	case e.BySignal:
		return &signalError{e.How}
	}
	return errors.New(e.How)
}

func (e *agentEnd) code(c *wire.Coder) {
	c.String(&e.How)
	c.Bool(&e.BySignal)
	c.String(&e.Said)
}

// signalError says that a signal has ended an agent on another node.
type signalError struct{ how string }

// Error returns how the agent has ended.
func (e *signalError) Error() string { return e.how }

// endedBySignal says whether the error of an agent is that a signal has ended it.
func endedBySignal(err error) bool {
	if _, far := errors.AsType[*signalError](err); far {
		return true
	}
	exit, near := errors.AsType[*exec.ExitError](err)
	if !near {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}
