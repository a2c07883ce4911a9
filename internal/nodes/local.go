package nodes

import (
	"context"
	"slices"
	"sync"

	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/courier"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/wire"
)

// local is the node of this process, in a job that has no other as yet. It is started without a daemon, and so as fast as
// in a job that will have no other. The front end listens when the first node is added.
type local struct {
	*daemon.Step
	member   *member
	junction junction
	over     chan struct{} // closed by Close
	once     sync.Once     // of Close
	err      error         // what Close returns

	mu    sync.Mutex
	queue []wire.Frame  // what other nodes send
	wake  chan struct{} // says that there is something
}

var _ launch.Adder = (*local)(nil)

// startLocal starts the node of this process. Others may be added.
func (s Starter) startLocal(l launch.Span, cfg daemon.Config, hooks func(node int) daemon.Hooks) (*local, error) {
	ours := hooks(0)
	r := s.newRoot(l, hooks)
	m := r.members[0]
	n := &local{member: m, over: make(chan struct{}), wake: make(chan struct{}, 1)}
	m.local, m.alone = n, true
	n.junction.logger = ours.Logger
	n.junction.send = func(f wire.Frame) {
		if err := r.relay(0, f); err != nil {
			r.logger.Error().Err(err).Msg("frame for another node")
		}
	}
	r.step = stepConfig{cfg: cfg, share: r.share(l, r.givenRadix()), hooks: hooks}
	r.step.cfg.Terminal, r.step.cfg.Places = false, nil // they are this machine's
	r.step.cfg.Binding = daemon.Binding{CPUs: cfg.Binding.CPUs}
	// Before the step begins: it would take the child that is looked at for one of its own. This process has them already.
	r.step.cfg.Surroundings = daemon.SurroundingsHere(r.logger)
	cfg.Share = r.step.share
	ours.IsOther, ours.SharesChildren = r.ownsAgent, r.hasAgents
	go n.deliver()
	step, err := n.junction.start(cfg, ours)
	if err != nil {
		n.finish()
		return nil, err
	}
	n.Step = step
	return n, nil
}

// put takes a frame of another node. It does not wait, and keeps the order.
func (n *local) put(f wire.Frame) {
	n.mu.Lock()
	n.queue = append(n.queue, f)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// deliver passes frames of other nodes on.
func (n *local) deliver() {
	for {
		select {
		case <-n.wake:
		case <-n.over:
			return
		}
		n.mu.Lock()
		frames := n.queue
		n.queue = nil
		n.mu.Unlock()
		for _, f := range frames {
			n.junction.take(f)
		}
	}
}

// Close closes the step.
func (n *local) Close() error {
	n.once.Do(func() {
		n.err = n.Step.Close()
		n.finish()
	})
	return n.err
}

// finish ends what is beside the step.
func (n *local) finish() {
	n.member.release()
	close(n.over)
}

// AddNodes starts nodes on some hosts. It is launch.Adder.AddNodes.
func (n *local) AddNodes(ctx context.Context, hosts []plan.Node) ([]launch.Node, error) {
	return n.member.root.addNodes(ctx, hosts)
}

// ownsAgent says whether a child of this process is a launch agent. It waits for one that is being started.
func (r *root) ownsAgent(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, agent := range r.agents {
		if agent.runsAs(pid) {
			return true
		}
	}
	return false
}

// hasAgents says whether there was a launch agent: what it leaves behind is a child of this process.
func (r *root) hasAgents() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.agents) > 0
}

// listen listens for daemons, if it does not yet.
func (r *root) listen(ctx context.Context) (err error) {
	if r.listener != nil {
		return nil
	}
	listening := control.ListenConfig{
		Secret: r.secret, Self: r.identity(), Addrs: r.cfg.Addrs, Ports: r.cfg.Ports,
		Limits: control.Limits{Lease: r.cfg.Lease, Return: min(returnWithin, r.cfg.Lease)}, Accept: r.accept, Report: r.notice,
	}
	if r.cfg.Stdio {
		r.listener, err = control.NewListener(listening, nil)
	} else {
		r.listener, err = r.cfg.Agent.listen(ctx, listening)
	}
	return err
}

// newRoot returns the front end's side of a job whose nodes are not started.
func (s Starter) newRoot(l launch.Span, hooks func(node int) daemon.Hooks) *root {
	ours := hooks(0) // for what is said of no node in particular
	r := &root{cfg: s.Config, secret: control.NewSecret(), hosts: l.Hosts, here: l.Here, logger: ours.Logger, notice: ours.Notice, failed: make(chan struct{}), over: make(chan struct{})}
	for i := range l.Hosts {
		r.members = append(r.members, r.newMember(i, i, l.Hosts[i].Name))
	}
	r.open, r.numbered = len(r.members), slices.Clip(r.members)
	r.cancel = func(error) {}
	r.survey.answers = make(chan probed, mostProbed)
	r.board = courier.NewRoot(len(r.members), func(node int, f wire.Frame) {
		r.team()[node].send(relayFrame(courier.ToRoot, f))
	})
	return r
}
