package detectbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/netfault"
	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/nodes"
	"github.com/goshmem/goshmem/internal/xunix"
)

// nodeScene is a job on several nodes in which something is going to fail.
type nodeScene struct {
	*rerun.Run
	lines   <-chan nodeLine  // output of the PEs
	said    *mentions        // standard error of oshrun
	ready   []*nodeLine      // by PE
	seen    []*nodeSeen      // reports, by PE
	targets []rerun.Process  // what is killed
	doomed  []rerun.Process  // all processes of nodes that fail: they may outlive the job if only their link is cut
	losses  *netfault.Losses // nil: nothing is lost
}

// nodeTrial is one injected failure and the reports of the survivors.
type nodeTrial struct {
	nodes    []int         // of each PE
	dead     []int         // PEs that die, ascending
	lost     []int         // nodes on which they are
	injected time.Duration // just before the first action
	acted    time.Duration // behind the last action
	said     time.Duration // when oshrun had told of all that is lost; 0: never
	accused  int           // nodes that oshrun has told to be lost though they live
	seen     []*nodeSeen   // report of each PE; nil: none came
	packets  netfault.Count
}

// runTrial starts a job and makes the failure of a case. A job that hangs and is killed counts as a trial: PEs without a
// report have missed the failure.
func (b *nodeBench) runTrial(parent context.Context, c NodeCase, s setting) (t *nodeTrial, err error) {
	limit := b.limit()
	if c.part == nothing {
		limit = b.calm()
	}
	ctx, cancel := context.WithTimeout(parent, 2*learnTimeout+limit)
	defer cancel()
	v := c.choose(b.rng, b.Nodes, b.PEs)
	j, err := b.start(ctx, s, v, limit)
	if err != nil {
		return nil, err
	}
	t = &nodeTrial{seen: j.seen}
	if err = j.awaitReady(t, v); err == nil {
		err = b.loseBetween(j)
	}
	if err == nil {
		select { // until all survivors are in their calls
		case <-time.After(b.pause(s)):
			err = b.inject(j, &c, t, v)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		j.awaitReports(t)
		t.packets, err = j.endLosses()
	}
	if err != nil {
		cancel()
	}
	for range j.lines { // read to the end, so that no PE blocks on a full pipe
	}
	ended := j.Ended(j.Wait(), launch.StatusTolerated)
	for i := range j.doomed {
		_ = j.doomed[i].Kill(syscall.SIGKILL) // most have ended
	}
	switch {
	case errors.Is(err, rerun.ErrEarlyEnd) && ended != nil:
		return nil, ended
	case err != nil:
		return nil, err
	case ctx.Err() != nil && parent.Err() == nil: // the job hung: PEs without a report have missed the failure
	case ended != nil:
		return nil, ended
	}
	t.said = j.said.at()
	for node := range b.Nodes {
		if !slices.Contains(t.lost, node) && j.said.contains(lossOf(node)) {
			t.accused++
		}
	}
	return t, nil
}

// usualCalm is how long a job runs in which nothing fails, unless Calm is given.
const usualCalm = 2 * time.Second

func (o *NodeOptions) calm() time.Duration { return cmp.Or(o.Calm, usualCalm) }

// loseBetween begins to lose packets between the nodes.
func (b *nodeBench) loseBetween(j *nodeScene) error {
	if b.Loss == 0 {
		return nil
	}
	all, err := rerun.LookAtProcesses()
	if err != nil {
		return err
	}
	daemon, err := j.daemonOf(j.ready[0].Node)
	if err != nil {
		return err
	}
	c := netfault.Config{Process: all[daemon].Parent, Percent: b.Loss, Seed: b.rng.Uint64()}
	for node := range b.Nodes {
		c.Interfaces = append(c.Interfaces, nodes.PortOf(node))
	}
	j.losses, err = netfault.Start(c)
	return err
}

// endLosses loses no more packets, and counts those there were.
func (j *nodeScene) endLosses() (sum netfault.Count, err error) {
	if j.losses == nil {
		return sum, nil
	}
	counts, err := j.losses.Counts()
	for _, c := range counts {
		sum.Seen += c.Seen
		sum.Lost += c.Lost
	}
	return sum, measure.FirstError(err, j.losses.Close())
}

// lossOf returns how oshrun's message of the loss of a node begins.
func lossOf(node int) string { return fmt.Sprintf("node node%d is lost ", node) }

// start starts the job.
func (b *nodeBench) start(ctx context.Context, s setting, v victims, limit time.Duration) (*nodeScene, error) {
	// With --launch-flat the victims have not started daemons of others, and are killed without regard to these.
	args := []string{"-n", strconv.Itoa(b.PEs), "--emulate", b.emulate(), "--launch-flat", "--recover", "--heap-size", strconv.Itoa(16 << 20)}
	if s.tier != "" {
		args = append(args, "--heartbeat-tier", s.tier)
	}
	if s.period > 0 {
		args = append(args, "--heartbeat-period", s.period.String())
	}
	if b.Watchdog != Best {
		args = append(args, "--watchdog", b.Watchdog)
	}
	if b.Lease > 0 {
		args = append(args, "--lease", b.Lease.String())
	}
	word, more := nodesWord, []string(nil)
	if b.Traffic {
		more = []string{trafficWord}
	}
	if b.Hybrid {
		word = hybridWord
	}
	r, err := rerun.New(ctx, append(append(args, b.Program, word, limit.String(), v.String()), more...)...)
	if err != nil {
		return nil, err
	}
	j := &nodeScene{Run: r, said: &mentions{heard: make(chan struct{})}, ready: make([]*nodeLine, b.PEs), seen: make([]*nodeSeen, b.PEs)}
	r.Listen(j.said)
	stdin, lines, err := rerun.StartTalk(r, func(l *nodeLine) bool { return l.PE >= 0 && l.PE < b.PEs })
	if err == nil {
		_ = stdin.Close() // no PE reads it
	}
	j.lines = lines
	return j, err
}

// awaitReady waits until all PEs are ready, and notes who is where.
func (j *nodeScene) awaitReady(t *nodeTrial, v victims) error {
	for left := len(j.ready); left > 0; left-- {
		l, ok := <-j.lines
		if !ok {
			return rerun.ErrEarlyEnd
		}
		j.ready[l.PE] = &l
	}
	for _, l := range j.ready {
		t.nodes = append(t.nodes, l.Node)
	}
	if t.dead = v.pes(t.nodes); len(t.dead) == 0 && v.String() != noVictims {
		return fmt.Errorf("no PE is on the nodes %v", v.nodes)
	}
	for _, pe := range t.dead {
		if node := t.nodes[pe]; v.pe < 0 && !slices.Contains(t.lost, node) {
			t.lost = append(t.lost, node)
		}
	}
	return nil
}

// awaitReports waits for the reports of all survivors, or for the end of the output.
func (j *nodeScene) awaitReports(t *nodeTrial) {
	for left := len(t.nodes) - len(t.dead); left > 0; {
		l, ok := <-j.lines
		if !ok {
			return
		}
		if l.Seen != nil && !slices.Contains(t.dead, l.PE) {
			j.seen[l.PE] = l.Seen
			left--
		}
	}
}

// daemonOf returns the process number of a node's daemon, which is the parent of its PEs.
func (j *nodeScene) daemonOf(node int) (int, error) {
	for _, l := range j.ready {
		if l.Node == node {
			return l.Parent, nil
		}
	}
	return 0, fmt.Errorf("no PE is on node%d", node)
}

// inject makes the failure.
func (b *nodeBench) inject(j *nodeScene, c *NodeCase, t *nodeTrial, v victims) error {
	if c.part == nothing {
		j.said.listen() // for nodes that are called lost
		t.injected = xunix.Monotonic()
		t.acted = t.injected
		return nil
	}
	holder, err := j.findTargets(c, v)
	if err != nil {
		return err
	}
	var ports, words []string
	for _, node := range v.nodes {
		words = append(words, lossOf(node))
		if c.cutsLinks(b.Apart) {
			ports = append(ports, nodes.PortOf(node))
		}
	}
	if c.part == onePE {
		words = []string{fmt.Sprintf("(pid %d)", j.ready[v.pe].PID)}
	}
	j.said.listen(words...)
	t.injected = xunix.Monotonic()
	if len(ports) > 0 { // first, so that nothing of the ends of processes leaves the nodes
		err = xunix.SetLinksDown(holder, ports)
	}
	if c.part == allProcesses { // so that no process sees the end of another one and tells of it
		err = measure.FirstError(err, signalAll(j.targets, xunix.SIGSTOP))
	}
	err = measure.FirstError(err, signalAll(j.targets, syscall.SIGKILL))
	t.acted = xunix.Monotonic()
	return err
}

// findTargets finds the processes that a case kills, and the process that holds the network of the nodes.
func (j *nodeScene) findTargets(c *NodeCase, v victims) (holder int, err error) {
	all, err := rerun.LookAtProcesses()
	if err != nil {
		return 0, err
	}
	if c.part == onePE {
		pid := j.ready[v.pe].PID
		p, ok := all[pid]
		if !ok {
			return 0, fmt.Errorf("PE %d (pid %d) does not run", v.pe, pid)
		}
		j.targets = []rerun.Process{p}
		return 0, nil
	}
	for _, node := range v.nodes {
		daemon, err := j.daemonOf(node)
		if err != nil {
			return 0, err
		}
		whole, err := all.NodeOf(daemon)
		if err != nil {
			return 0, err
		}
		j.doomed = append(j.doomed, whole...)
		holder = whole[0].Parent
		switch c.part {
		case daemonProcess:
			j.targets = append(j.targets, whole[0])
		case agentProcess:
			agent, err := all.AgentOf(daemon)
			if err != nil {
				return 0, err
			}
			j.targets = append(j.targets, agent)
		case allProcesses:
			j.targets = append(j.targets, whole...)
		}
	}
	return holder, nil
}

// signalAll sends a signal to processes, and returns the first error.
func signalAll(all []rerun.Process, signal syscall.Signal) (err error) {
	for i := range all {
		err = measure.FirstError(err, all[i].Kill(signal))
	}
	return err
}
