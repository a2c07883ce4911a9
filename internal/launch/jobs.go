package launch

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goshmem/goshmem/internal/daemon"
)

// Jobs that PEs of several nodes spawn, as the cluster and the run have them: see spawns for where they come from.

// place gives the PEs of a further job their nodes.
func (c *Cluster) place(job int, homes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.homes[job], c.begun[job] = homes, true
	c.growth.noteHomes(homes)
}

// errNodeLost is the error of a node that has PEs of a job, and is lost.
var errNodeLost = errors.New("the node is lost")

// remove takes a further job from its nodes.
func (c *Cluster) remove(job int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.homes, job)
	delete(c.begun, job)
	c.growth.forgetJob(job)
}

// begin runs f in the background; Close waits for it. After Close nothing begins.
func (c *Cluster) begin(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		c.merges.Go(f)
	}
}

// eachPresent calls f for the nodes that are not lost, for a further job, and returns the first error. A lost node with
// PEs of the job is an error.
func (c *Cluster) eachPresent(job int, f func(i int, n Node) error) error {
	c.mu.Lock()
	nodes, lost, homes := c.nodes, maps.Clone(c.lost), c.homes[job]
	c.mu.Unlock()
	return eachNotLost(nodes, lost, homes, f)
}

// eachNotLost is eachPresent for some nodes.
func eachNotLost(nodes []Node, lost map[int]bool, homes []int, f func(i int, n Node) error) error {
	errs := collectErrors(nodes, func(i int, n Node) error {
		switch {
		case !lost[i]:
			return f(i, n)
		case slices.Contains(homes, i):
			return errNodeLost
		}
		return nil
	})
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i < 0 {
		return nil
	}
	return &nodeError{node: i, err: errs[i]}
}

// nodeError is an error of a node.
type nodeError struct {
	node int
	err  error
}

// Error names the node by its index.
func (e *nodeError) Error() string { return fmt.Sprintf("node %d: %v", e.node, e.err) }

// Unwrap returns what the node said.
func (e *nodeError) Unwrap() error { return e.err }

// AddJob makes a further job known on all nodes.
func (c *Cluster) AddJob(j daemon.FurtherJob) error {
	c.mu.Lock()
	c.growth.noteJob(&j) // a node that is added from now on is told of it then
	nodes, lost, homes := c.nodes, maps.Clone(c.lost), c.homes[j.Number]
	c.mu.Unlock()
	return eachNotLost(nodes, lost, homes, func(_ int, n Node) error { return n.AddJob(j) })
}

// StartJob starts the PEs of a further job on all nodes that have some. The others may have been told already that the
// job is over.
func (c *Cluster) StartJob(number int) error {
	c.mu.Lock()
	homes := c.homes[number]
	c.mu.Unlock()
	return c.eachPresent(number, func(i int, n Node) error {
		if !slices.Contains(homes, i) {
			return nil
		}
		return n.StartJob(number)
	})
}

// DropJob ends the PEs of a further job that could not be started everywhere.
func (c *Cluster) DropJob(number int) error {
	return c.eachPresent(-1, func(_ int, n Node) error { return n.DropJob(number) }) // none is to be done on a lost node
}

// EndJob frees a further job that is over.
func (c *Cluster) EndJob(number int) {
	for _, n := range c.list() {
		n.EndJob(number)
	}
}

// AnswerSpawn answers the node that has asked for a job.
func (c *Cluster) AnswerSpawn(a daemon.SpawnAnswer) {
	if nodes := c.list(); a.Node >= 0 && a.Node < len(nodes) {
		nodes[a.Node].AnswerSpawn(a)
	}
}

// isDropped says whether an event is about a job that was dropped: PEs of it may have ended before, on nodes that had
// started them. Gone has the jobs that are known.
func isDropped(e daemon.Event, gone map[int][]bool) bool {
	return e.Kind != daemon.Spawned && e.Kind != daemon.NodeLost && gone[e.Job] == nil
}

// endIfOver ends a further job on all nodes if none of its PEs is left. A job of one node ends by itself.
func (c *Cluster) endIfOver(job int, gone []bool) {
	if job == 0 || !c.spans() || slices.Contains(gone, false) {
		return
	}
	c.remove(job) // before the nodes are listed: one that is added meanwhile is told twice
	c.EndJob(job)
}
