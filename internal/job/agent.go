package job

import (
	"fmt"
	"os"
	"slices"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// agentFDs is how many descriptors of the agent come with a reply: its page, its event descriptor, and the line to it.
const agentFDs = 3

// agentLine is how this process reaches the agent of its node, in a job of several nodes.
type agentLine struct {
	page  *layout.AgentPage
	event int    // the agent's event descriptor, which stays open as long as the process
	line  int    // this PE's line to the agent, which stays open, too
	homes []home // nodes with PEs, in the order of their PEs
	// A PE's place in homes is pe/each if each is not 0: all nodes but the last one have so many PEs, the last one has no
	// more. Otherwise it is in byPE.
	each uint32
	byPE []uint16
}

// home is the PEs of a node.
type home struct {
	node  int
	first layout.PE
	count int
}

// mapAgent maps the agent's page and keeps its event descriptor. The descriptors are the caller's.
func mapAgent(fds []int, place Place) (*agentLine, error) {
	page, err := symheap.MapAgentPage(fds[0])
	if err != nil {
		return nil, err
	}
	a := &agentLine{page: page}
	next := layout.PE(0)
	for node, part := range page.Parts {
		if part.Count > 0 {
			a.homes = append(a.homes, home{node, layout.PE(part.First), int(part.Count)})
		}
	}
	slices.SortFunc(a.homes, func(x, y home) int { return int(x.first - y.first) })
	near := false
	for _, h := range a.homes {
		if h.first != next {
			return nil, fmt.Errorf("agent page: node %d has PEs from %d on, want %d: nodes have all PEs of the job, each once", h.node, h.first, next)
		}
		next += layout.PE(h.count)
		near = near || h.first == place.First && h.count == place.Near
	}
	if int(next) != place.NPEs || !near {
		return nil, fmt.Errorf("agent page: the nodes have %d PEs, want the %d of the job, and a node with PEs %d to %d", next, place.NPEs, place.First, place.last())
	}
	a.index()
	if a.event, err = xunix.KeepFD(fds[1]); err != nil {
		return nil, fmt.Errorf("event descriptor of the agent: %w", err)
	}
	if a.line, err = xunix.KeepFD(fds[2]); err != nil {
		return nil, fmt.Errorf("line to the agent: %w", err)
	}
	return a, nil
}

// index makes each or byPE from homes. Each operation on a far PE looks for its home.
func (a *agentLine) index() {
	last := len(a.homes) - 1
	each := a.homes[0].count
	isRegular := a.homes[last].count <= each
	for _, h := range a.homes[:last] {
		isRegular = isRegular && h.count == each
	}
	if isRegular {
		a.each = uint32(each)
		return
	}
	for i, h := range a.homes {
		for range h.count {
			a.byPE = append(a.byPE, uint16(i)) // at most layout.WireNodes
		}
	}
}

// home returns the node of a PE of the job, and the PE's index there.
func (a *agentLine) home(pe layout.PE) (node int, local layout.Local) {
	var h *home
	if a.each != 0 {
		h = &a.homes[uint32(pe)/a.each]
	} else {
		h = &a.homes[a.byPE[pe]]
	}
	return h.node, layout.Local(pe - h.first)
}

// startFar makes the port by which this process reaches PEs of other nodes, if its node has an agent.
func (j *Job) startFar(a *agentLine) (err error) {
	if a == nil {
		return nil
	}
	j.agent, j.Home = a, a.home
	line := a.line
	if on, err := envvar.UsesExpress(os.LookupEnv); err != nil {
		return err
	} else if !on {
		line = 0
	}
	j.Far, err = far.New(far.Config{
		Line: line, PE: j.PE, Incarnation: firstIncarnation,
		Wire: j.Map.Wire(j.Local), Base: j.Map.Segment(j.Local), Size: j.Map.Size(), Agent: &a.page.Bell, Event: a.event,
		Operations: &a.page.Traffic[j.Local].Operations,
		Waiter:     j.Waiter, Home: a.home, Nodes: len(a.page.Parts), Dead: j.deathOf, Lost: j.lossOf,
	})
	return err
}

// deathOf returns a *DeadError if a PE is known to be dead, nil otherwise.
func (j *Job) deathOf(pe layout.PE) error {
	if !j.IsDead(pe) {
		return nil
	}
	f, _ := j.Failures.Failure(int(pe))
	f.PE = int(pe) // also while the step replaces the death by a later one
	return &DeadError{Failures: []failure.Failure{f}}
}

// lossOf returns a *DeadError if a node is known to be lost, nil otherwise. A node all of whose PEs have died is not lost:
// its agent answers.
func (j *Job) lossOf(node int) error {
	if j.Failures.Epoch() == 0 {
		return nil
	}
	part := j.agent.page.Parts[node]
	for pe := part.First; pe < part.First+part.Count; pe++ {
		if f, ok := j.Failures.Failure(int(pe)); ok && f.Cause.Kind() == failure.NodeLost {
			return &DeadError{Failures: []failure.Failure{f}}
		}
	}
	return nil
}

// consumers returns how many processes share the processors of this node: the near PEs, and the agent.
func (j *Job) consumers(a *agentLine) int {
	if a == nil {
		return j.Map.Len()
	}
	return j.Map.Len() + 1
}
