package launch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// growth is what a cluster needs to get nodes for spawned jobs: hosts without a node, and what a new node has to be told of
// the time before. A nil growth is that of a cluster which gets none.
//
// # What a new node is told
//
// The node is in Cluster.nodes before it is told anything. So it gets all that is for all nodes from then on, and what came
// before from the lists here:
//
//   - A job is in jobs from the moment on at which the nodes are listed that AddJob goes to. So each job goes to the new
//     node once.
//   - Failures, and the ends of jobs, are noted before the nodes are listed that they go to. So they go to the new node
//     once or twice, and to a node that knows a job they go after it. A node takes no notice of the second time.
type growth struct {
	cluster *Cluster
	adder   Adder
	ctx     context.Context // ends when the nodes are closed
	cancel  context.CancelFunc
	ofJob0  int // nodes that the first job has: the first ones

	adding sync.Mutex // held while nodes are added

	mu       sync.Mutex // the cluster's lock may be held when it is taken, not the other way round
	spare    []plan.Node
	hosts    []plan.Host // by index of the node
	jobs     map[int]*daemon.FurtherJob
	failures []daemon.FarFailure // of jobs that are not over
	hadPEs   map[int]bool        // by index of the node
	window   *xunix.Window       // nil: it is that of the configuration
	refusing bool                // no job begins any more
}

// startGrowth lets a cluster get nodes, if its first node adds some. It is called before anything else, and is given the
// hosts of the nodes, and those that have none.
func startGrowth(c *Cluster, s Span, spare []plan.Node) {
	adder, adds := c.nodes[0].(Adder)
	if !s.Grows || !adds {
		return
	}
	g := &growth{cluster: c, adder: adder, ofJob0: len(c.nodes), spare: slices.Clone(spare), hosts: slices.Clone(s.Hosts), jobs: map[int]*daemon.FurtherJob{}, hadPEs: map[int]bool{}}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	c.growth = g
	for i := range c.nodes {
		g.hadPEs[i] = true
	}
	if c.all == nil {
		mergeAll(c)
	}
}

// close ends what adds nodes.
func (g *growth) close() {
	if g != nil {
		g.cancel()
	}
}

// first returns the nodes that have PEs of the first job.
func (g *growth) first(nodes []Node) []Node {
	if g == nil {
		return nodes
	}
	return nodes[:g.ofJob0]
}

// isAdded says whether a node was added.
func (g *growth) isAdded(node int) bool { return g != nil && node >= g.ofJob0 }

// hasHadPEs says whether a node has PEs, or had some.
func (g *growth) hasHadPEs(node int) bool {
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hadPEs[node]
}

func (g *growth) noteHomes(homes []int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, node := range homes {
		g.hadPEs[node] = true
	}
}

func (g *growth) noteWindow(w xunix.Window) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.window = &w
}

func (g *growth) refuse() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refusing = true
}

func (g *growth) noteFailure(f daemon.FarFailure) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures = append(g.failures, f)
}

func (g *growth) noteJob(j *daemon.FurtherJob) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.jobs[j.Number] = j
}

func (g *growth) forgetJob(number int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.jobs, number)
	g.failures = slices.DeleteFunc(g.failures, func(f daemon.FarFailure) bool { return f.Job == number })
}

// hostsOf returns the hosts that jobs may use: those of the nodes, by their index, and those without a node.
func (g *growth) hostsOf() (hosts []plan.Host, spare []plan.Node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.hosts), slices.Clone(g.spare)
}

// hostsError reports hosts on which no node could be started.
type hostsError struct{ err error }

// Error says what has failed.
func (e *hostsError) Error() string { return "start a daemon for the spawned job: " + e.err.Error() }

// Unwrap returns the cause.
func (e *hostsError) Unwrap() error { return e.err }

// addNodes starts nodes on hosts that have none, and tells them of the jobs that there are.
func (g *growth) addNodes(hosts []plan.Node) error {
	g.adding.Lock()
	defer g.adding.Unlock()
	hosts = g.without(hosts)
	if len(hosts) == 0 {
		return nil // another spawn has added them
	}
	nodes, err := g.adder.AddNodes(g.ctx, hosts)
	if len(nodes) == 0 {
		if g.ctx.Err() != nil {
			return errEnding
		}
		return &hostsError{err}
	}
	jobs, ok := g.admit(hosts, nodes)
	if !ok {
		for _, n := range nodes {
			_ = n.Close() // nobody waits for them
		}
		return errEnding
	}
	errs := collectErrors(nodes, func(i int, n Node) error {
		if err := g.tell(n, jobs); err != nil {
			return fmt.Errorf("%s: %w", hosts[i].Host.Name, err)
		}
		return nil
	})
	if err = errors.Join(err, joinErrors(errs)); err != nil {
		return &hostsError{err}
	}
	return nil
}

// without returns the hosts that have no node.
func (g *growth) without(hosts []plan.Node) (left []plan.Node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range hosts {
		if !slices.ContainsFunc(g.hosts, func(h plan.Host) bool { return h.Name == hosts[i].Host.Name }) {
			left = append(left, hosts[i])
		}
	}
	return left
}

// admit makes nodes some of the cluster's, and returns the jobs that they do not know; false: the job is ending.
func (g *growth) admit(hosts []plan.Node, nodes []Node) (jobs []*daemon.FurtherJob, ok bool) {
	c := g.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.closing || g.refusing {
		return nil, false
	}
	for i := range hosts {
		name := hosts[i].Host.Name
		g.hosts = append(g.hosts, hosts[i].Host)
		g.spare = slices.DeleteFunc(g.spare, func(n plan.Node) bool { return n.Host.Name == name })
	}
	for _, n := range nodes {
		i := len(c.nodes)
		c.nodes = append(c.nodes[:i:i], n)
		c.merges.Go(func() { c.merge(i, n.Events()) })
	}
	for _, number := range slices.Sorted(maps.Keys(g.jobs)) {
		jobs = append(jobs, g.jobs[number])
	}
	return jobs, true
}

// tell tells a new node what it does not know.
func (g *growth) tell(n Node, jobs []*daemon.FurtherJob) error {
	for _, j := range jobs {
		if err := n.AddJob(*j); err != nil {
			return err
		}
	}
	g.mu.Lock()
	window, failures, there := g.window, slices.Clone(g.failures), maps.Clone(g.jobs)
	g.mu.Unlock()
	if window != nil {
		n.Resize(*window)
	}
	for _, f := range failures {
		if err := n.FarFailed(f); err != nil {
			return err
		}
	}
	for _, j := range jobs {
		if there[j.Number] == nil {
			n.EndJob(j.Number)
		}
	}
	return nil
}

// nameOfNode returns the name of a node's host.
func (o *Options) nameOfNode(c *Cluster, node int) string {
	if g := c.growth; g != nil {
		hosts, _ := g.hostsOf()
		return hosts[node].Name
	}
	return o.span().Hosts[node].Name
}
