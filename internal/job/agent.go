package job

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// agentFDs is how many descriptors of the agent come with a reply: its page, its event descriptor, and the line to it.
const agentFDs = 3

// agentLine is how this process reaches the agent of its node, in a job of several nodes.
type agentLine struct {
	page  *layout.AgentPage
	event int // the agent's event descriptor, which stays open as long as the process
	line  int // this PE's line to the agent, which stays open, too
	homes     // where the PEs of the job are
	nodes int // whose agents may be reached

	guest *guestHomes // where the PEs of a spawned job are; nil: it is the first one
}

// mapAgent maps the agent's page and keeps its event descriptor. The descriptors are the caller's. In a spawned job of npes PEs, one more is that of the homes
// of its PEs.
func mapAgent(fds []int, npes int) (*agentLine, error) {
	page, err := symheap.MapAgentPage(fds[0])
	if err != nil {
		return nil, err
	}
	a := &agentLine{page: page}
	if a.homes, err = readHomes(page); err != nil {
		return nil, fmt.Errorf("agent page: %w", err)
	}
	a.nodes = len(a.parts)
	if len(fds) > agentFDs {
		h, err := symheap.ReadHomes(fds[agentFDs], npes)
		if err == nil {
			a.guest, err = newGuestHomes(h, a.nodes)
		}
		if err != nil {
			return nil, err
		}
		a.homes = a.guest.homes
	}
	if a.event, err = xunix.KeepFD(fds[1]); err != nil {
		return nil, fmt.Errorf("event descriptor of the agent: %w", err)
	}
	if a.line, err = xunix.KeepFD(fds[2]); err != nil {
		return nil, fmt.Errorf("line to the agent: %w", err)
	}
	return a, nil
}

// startFar makes the port by which this process reaches PEs of other nodes, if its node has an agent.
func (j *Job) startFar(a *agentLine) (err error) {
	if a == nil {
		return nil
	}
	j.agent, j.Home = a, a.home
	line := a.line
	if a.guest != nil {
		line = 0 // express sockets are for one-sided operations, which a spawned job has none of
	}
	if on, err := envvar.UsesExpress(os.LookupEnv); err != nil {
		return err
	} else if !on {
		line = 0
	}
	_, index := j.FarHome(j.PE)
	j.Far, err = far.New(far.Config{
		Line: line, PE: j.PE, Incarnation: firstIncarnation,
		Wire: j.Map.Wire(j.Local), Base: j.Map.Segment(j.Local), Size: j.Map.Size(), Agent: &a.page.Bell, Event: a.event,
		Operations: &a.page.Traffic[index].Operations, Express: &a.page.Traffic[index].Express,
		Waiter: j.Waiter, Home: j.FarHome, Nodes: a.nodes, Dead: j.deathOf, Lost: j.lossOf,
	})
	return err
}

// deathOf returns a *DeadError if a PE of this job, or of another one that was reached, is known to be dead, nil otherwise.
func (j *Job) deathOf(pe layout.PE) error {
	if int(pe) >= j.NPEs {
		p := j.Others.of(pe)
		f, dead := p.Failures.Failure(int(pe - p.Base))
		if !dead {
			return nil
		}
		f.PE = int(pe)
		return &DeadError{Failures: []failure.Failure{f}}
	}
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
	for pe := range j.agent.pes(node) {
		if f, ok := j.Failures.Failure(int(pe)); ok && f.Cause.Kind() == failure.NodeLost {
			return &DeadError{Failures: []failure.Failure{f}}
		}
	}
	for _, p := range j.Others.all() {
		if p.homes == nil {
			continue
		}
		for pe := range p.homes.pes(node) {
			if f, ok := p.Failures.Failure(int(pe)); ok && f.Cause.Kind() == failure.NodeLost {
				return &DeadError{Failures: []failure.Failure{f}}
			}
		}
	}
	return nil
}

// Host returns the name of the host of a PE of the job, as errors give it to users. It is empty if nothing says so.
func (j *Job) Host(pe layout.PE) string {
	if j.client == nil {
		return ""
	}
	v, _ := j.client.JobInfo(codec.Rank(pe), codec.KeyHostname)
	name, _ := v.Str()
	return name
}

// NameNode names the node of a PE of this job, or of another one that was reached, by its index, and by its host if that is known: if a PE of this job is there.
func (j *Job) NameNode(pe layout.PE) string {
	var node int
	host := ""
	if int(pe) < j.NPEs {
		node, _ = j.Home(pe)
		host = j.Host(pe)
	} else {
		node, _ = j.FarHome(pe)
		for own := range j.agent.pes(node) {
			host = j.Host(own)
			break
		}
	}
	if host != "" {
		return fmt.Sprintf("node %d (%s)", node, host)
	}
	return fmt.Sprintf("node %d", node)
}

// newsPatience bounds the wait for a death to be on the failure page of this node. The news come, however late on a busy machine,
// unless this node is lost itself, which ends this PE: so the bound is longer than what a node usually has until it counts as lost
// (oshrun --lease).
const newsPatience = 20 * time.Second

// AwaitNews waits until the failure page tells of the deaths of some PEs, so that their causes are known. Another node
// may have told this PE of a death before.
func (j *Job) AwaitNews(pes []layout.PE) {
	if j.Far == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), newsPatience)
	defer cancel()
	_ = j.Waiter.AwaitDeaths(ctx, func() bool { // without the news, the cause is unknown
		return !slices.ContainsFunc(pes, func(pe layout.PE) bool { return !j.IsDead(pe) })
	})
}

// RequireAgent returns an error if the job has several nodes, and this one has no agent.
func (j *Job) RequireAgent() error {
	if j.Place.Nodes == 1 || j.Far != nil && j.Home != nil && j.Map.Wire(j.Local) != nil {
		return nil
	}
	return fmt.Errorf("the job has %d nodes, and this node has no agent: %s: an agent carries operations and messages to PEs on other nodes, want one on each node, or all PEs on one", j.Place.Nodes, cmp.Or(j.NoAgent, "oshrun has started none"))
}

// consumers returns how many processes share the processors of this node: the near PEs, and the agent.
func (j *Job) consumers(a *agentLine) int {
	if a == nil {
		return j.Map.Len()
	}
	return j.Map.Len() + 1
}
