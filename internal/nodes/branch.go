package nodes

import (
	"fmt"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
)

// branch is the launch agents of other nodes that a daemon starts for the front end. They are processes of this machine
// that do not belong to the job, and last: the death of this daemon ends none of them.
type branch struct {
	send func(f wire.Frame) // to the front end

	mu     sync.Mutex
	agents map[int]*agentProcess // by node
	over   bool                  // no agent is started any more
	ends   sync.WaitGroup        // goroutines that report the ends of agents
}

// isUsed says whether there was an agent.
func (b *branch) isUsed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.agents) > 0
}

// start starts the agent of a node, as the front end has ordered.
func (b *branch) start(f wire.Frame) error {
	node := int(f.Stream)
	var order agentOrder
	if err := wire.Decode(f.Body, "order to start an agent", order.code); err != nil {
		return err
	}
	agent := &agentProcess{where: order.Where, argv: order.Argv, said: &tail{}, ended: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil
	}
	if b.agents[node] != nil {
		return fmt.Errorf("the agent of node %d was started before", node)
	}
	if err := agent.start(order.Handover); err != nil {
		b.report(node, agent, err)
		return nil
	}
	if b.agents == nil {
		b.agents = map[int]*agentProcess{}
	}
	b.agents[node] = agent
	b.ends.Go(func() {
		<-agent.ended
		b.report(node, agent, agent.err)
	})
	return nil
}

// owns says whether a child of this process is an agent, for which somebody waits.
func (b *branch) owns(pid int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, agent := range b.agents {
		if agent.runsAs(pid) {
			return true
		}
	}
	return false
}

// report tells the front end how an agent has ended.
func (b *branch) report(node int, agent *agentProcess, err error) {
	end := agentEnd{Said: agent.said.String(), BySignal: endedBySignal(err)}
	if err != nil {
		end.How = err.Error()
	}
	b.send(wire.Frame{Kind: wire.KindAgentEnded, Stream: uint32(node), Body: wire.Encode(end.code)})
}

// kill kills the agent of a node, with all that it has started in its group.
func (b *branch) kill(node int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if agent := b.agents[node]; agent != nil {
		agent.clear()
	}
}

// close returns when all agents have ended. Those that have not after that time are killed.
func (b *branch) close(patience time.Duration) {
	b.mu.Lock()
	b.over = true
	for _, agent := range b.agents {
		b.ends.Go(func() { agent.end(patience) })
	}
	b.mu.Unlock()
	b.ends.Wait()
}
