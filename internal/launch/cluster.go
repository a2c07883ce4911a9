package launch

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Cluster is the nodes of a job, in the order of their indexes. What concerns all PEs goes to
// all nodes, what concerns one PE to the node of that PE.
type Cluster struct {
	growth *growth // nil: the job has the nodes that it has
	events <-chan daemon.Event
	all    chan daemon.Event // events, if there are several nodes, or may be
	over   chan struct{}     // closed by Close
	merges sync.WaitGroup    // goroutines that merge the nodes' events, and those that spawn jobs
	roll
}

// NewCluster returns the cluster of some nodes, at least one. Homes has for each PE of the first
// job the index of its node; nil: all are on the first. Close closes the nodes, too.
func NewCluster(nodes []Node, homes []int) *Cluster {
	c := &Cluster{events: nodes[0].Events(), over: make(chan struct{})}
	c.roll = roll{nodes: nodes, homes: map[int][]int{}, lost: map[int]bool{}, begun: map[int]bool{}}
	if homes != nil {
		c.homes[0] = homes
	}
	if len(nodes) > 1 {
		mergeAll(c)
	}
	return c
}

// mergeAll merges the events of all nodes.
func mergeAll(c *Cluster) {
	c.all = make(chan daemon.Event)
	c.events = c.all
	for i, n := range c.nodes {
		c.merges.Go(func() { c.merge(i, n.Events()) })
	}
}

// spans says whether the front end starts spawned jobs: the cluster has several nodes, or may get them.
func (c *Cluster) spans() bool { return c != nil && c.all != nil }

// merge passes on the events of node i. Those of one PE stay in order, as one node reports them all.
func (c *Cluster) merge(i int, from <-chan daemon.Event) {
	for {
		select {
		case e := <-from:
			if e.Kind == daemon.NodeLost {
				e.PE = i
				c.noteLost(i)
			}
			if !c.report(e) {
				return
			}
		case <-c.over:
			return
		}
	}
}

// report passes an event on when it is received; false: nobody receives any more.
func (c *Cluster) report(e daemon.Event) bool {
	select {
	case c.all <- e:
		return true
	case <-c.over:
		return false
	}
}

// each calls f for all nodes at once and returns when all calls have.
func (c *Cluster) each(f func(i int, n Node)) { eachOf(c.list(), f) }

// eachOf calls f for some nodes at once and returns when all calls have.
func eachOf(nodes []Node, f func(i int, n Node)) {
	if len(nodes) == 1 {
		f(0, nodes[0])
		return
	}
	var calls sync.WaitGroup
	for i, n := range nodes {
		calls.Go(func() { f(i, n) })
	}
	calls.Wait()
}

// collectErrors calls f for some nodes at once and returns the error of each.
func collectErrors(nodes []Node, f func(i int, n Node) error) []error {
	errs := make([]error, len(nodes))
	eachOf(nodes, func(i int, n Node) { errs[i] = f(i, n) })
	return errs
}

// joinErrors joins the errors of the nodes in their order.
func joinErrors(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// Launch starts the PEs of the first job on all nodes.
func (c *Cluster) Launch() error {
	return joinErrors(collectErrors(c.list(), func(_ int, n Node) error { return n.Launch() }))
}

// Close closes all nodes.
func (c *Cluster) Close() error { return joinErrors(c.closeNodes()) }

// closeNodes closes all nodes and returns the error of each.
func (c *Cluster) closeNodes() []error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.growth.close()
	errs := collectErrors(c.list(), func(_ int, n Node) error { return n.Close() })
	close(c.over)
	c.merges.Wait()
	return errs
}

// Events returns what happens to all PEs, in order for each of them.
func (c *Cluster) Events() <-chan daemon.Event { return c.events }

// Signal sends a signal to all PEs that run.
func (c *Cluster) Signal(sig syscall.Signal) { c.each(func(_ int, n Node) { n.Signal(sig) }) }

// Suspend asks all PEs to stop.
func (c *Cluster) Suspend() { c.each(func(_ int, n Node) { n.Suspend() }) }

// Stopped says whether the processes of all PEs that run are stopped.
func (c *Cluster) Stopped() bool {
	nodes := c.list()
	stopped := make([]bool, len(nodes))
	eachOf(nodes, func(i int, n Node) { stopped[i] = n.Stopped() })
	return !slices.Contains(stopped, false)
}

// Stop stops the processes of all PEs, and returns when all nodes have done so. On another node the signal is on its way
// when Signal returns, and would stay here if this process were stopped. Nodes carry out what they are asked in its order,
// so their answers to the question say that the signals are sent.
func (c *Cluster) Stop() {
	c.Signal(xunix.SIGSTOP)
	c.Stopped()
}

// holder is a node that is lost if this process is out of reach for long.
type holder interface {
	// Hold lets the node wait for this process, which is about to be stopped, for as long as it takes. It returns when the
	// node does so, when the node is lost, or with an error after some seconds.
	Hold() error
	// Go says that this process goes on. Without Hold it does nothing.
	Go()
}

// Hold has all nodes wait for this process, which is about to be stopped.
func (c *Cluster) Hold() error {
	return joinErrors(collectErrors(c.list(), func(_ int, n Node) error {
		if h, ok := n.(holder); ok {
			return h.Hold()
		}
		return nil
	}))
}

// Go says that this process goes on.
func (c *Cluster) Go() {
	for _, n := range c.list() {
		if h, ok := n.(holder); ok {
			h.Go()
		}
	}
}

// Resize gives the pseudo terminals of all PEs the window size of the user's terminal.
func (c *Cluster) Resize(w xunix.Window) {
	c.growth.noteWindow(w)
	c.each(func(_ int, n Node) { n.Resize(w) })
}

// Feed gives readers a chunk of standard input: a PE on its node, or all readers on all nodes.
func (c *Cluster) Feed(chunk daemon.Chunk) {
	if chunk.To != daemon.AllReaders {
		c.node(daemon.ID{PE: chunk.To}).Feed(chunk)
		return
	}
	for _, n := range c.growth.first(c.list()) { // those that have PEs of the first job
		n.Feed(chunk)
	}
}

// Refuse lets no further job begin, see Node.
func (c *Cluster) Refuse(lost bool) {
	c.growth.refuse()
	c.each(func(_ int, n Node) { n.Refuse(lost) })
}

// PID returns the number of a PE's process on its node.
func (c *Cluster) PID(id daemon.ID) int { return c.node(id).PID(id) }

// pidsAtMost is how long nodes may take to name the processes of PEs.
const pidsAtMost = 500 * time.Millisecond

// PIDs returns the numbers of the processes of some PEs: 0 if a node does not say it in time.
func (c *Cluster) PIDs(ids []daemon.ID) []int {
	type answer struct{ i, pid int }
	answers := make(chan answer, len(ids)) // those that come too late wait for nobody
	for i, id := range ids {
		go func() { answers <- answer{i, c.PID(id)} }()
	}
	late := time.NewTimer(pidsAtMost)
	defer late.Stop()
	pids := make([]int, len(ids))
	for range ids {
		select {
		case a := <-answers:
			pids[a.i] = a.pid
		case <-late.C:
			return pids
		}
	}
	return pids
}

// Forsake declares a PE failed that has lost its connection, see Node.
func (c *Cluster) Forsake(id daemon.ID) bool { return c.node(id).Forsake(id) }

// IsAtWork says whether a process of a PE could run that is not its last program, see Node.
func (c *Cluster) IsAtWork(id daemon.ID) bool { return c.node(id).IsAtWork(id) }

// HasGo says whether a PE runs a Go program.
func (c *Cluster) HasGo(id daemon.ID) bool { return c.node(id).HasGo(id) }

// QuitGo ends the Go programs of a PE by SIGQUIT, see Node.
func (c *Cluster) QuitGo(id daemon.ID, atMost time.Duration) { c.node(id).QuitGo(id, atMost) }

// Ask gives an order to all PEs that run, and returns their answers node by node.
func (c *Cluster) Ask(o wire.Order, atMost time.Duration) []daemon.Answer {
	nodes := c.list()
	answers := make([][]daemon.Answer, len(nodes))
	eachOf(nodes, func(i int, n Node) { answers[i] = n.Ask(o, atMost) })
	return slices.Concat(answers...)
}

// SetAgents tells all nodes the addresses of their agents. The Starter of several nodes has done so when it returns them.
func (c *Cluster) SetAgents(addrs []string) error {
	return joinErrors(collectErrors(c.list(), func(_ int, n Node) error { return n.SetAgents(addrs) }))
}

// FarFailed makes a failure of PEs known on all nodes but theirs, which is that of the first PE.
func (c *Cluster) FarFailed(f daemon.FarFailure) error {
	home := c.home(daemon.ID{Job: f.Job, PE: f.PEs[0]})
	c.growth.noteFailure(f) // before the nodes are listed: one that is added meanwhile gets it twice
	return joinErrors(collectErrors(c.list(), func(i int, n Node) error {
		if i == home {
			return nil
		}
		return n.FarFailed(f)
	}))
}

// Tier names the ways in which the nodes learn of ends, each way once.
func (c *Cluster) Tier() string {
	nodes := c.list()
	all := make([]string, len(nodes))
	eachOf(nodes, func(i int, n Node) { all[i] = n.Tier() })
	var tiers []string
	for _, tier := range all {
		if !slices.Contains(tiers, tier) {
			tiers = append(tiers, tier)
		}
	}
	return strings.Join(tiers, ", ")
}

// Report returns the bindings that all nodes have reported, sorted by PE. It leaves out what describes one node.
func (c *Cluster) Report() (all daemon.Report) {
	for _, n := range c.list() {
		all.Bindings = append(all.Bindings, n.Report().Bindings...)
	}
	slices.SortFunc(all.Bindings, func(a, b daemon.Bound) int { return cmp.Compare(a.PE, b.PE) })
	return all
}

// ToolURI returns what tools need to attach, empty if none may. They attach to the first node.
func (c *Cluster) ToolURI() string { return c.list()[0].ToolURI() }
