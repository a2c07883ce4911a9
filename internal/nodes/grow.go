package nodes

import (
	"context"
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/wire"
)

// A job may get nodes for the jobs that its PEs spawn. The front end starts their daemons itself, when a spawn needs them.
//
//  1. Each daemon reports itself by a number that no other daemon has had. So one that is late, and was given up, is not
//     taken for another. If one fails, all that were started with it are ended, and the job has the nodes that it had.
//  2. The nodes hear how many there are now (KindNodes). This comes before the loss of a new node, and before any
//     frame of it.
//  3. The new nodes hear which others are lost, and start their steps. One that fails stays a node of the job, which is lost.

var _ launch.Adder = (*member)(nil)

// AddNodes starts nodes on some hosts. It is launch.Adder.AddNodes.
func (m *member) AddNodes(ctx context.Context, hosts []plan.Node) ([]launch.Node, error) {
	return m.root.addNodes(ctx, hosts)
}

// errOver refuses nodes for a job whose nodes have ended.
var errOver = errors.New("the job's nodes have ended")

// addNodes is AddNodes.
func (r *root) addNodes(ctx context.Context, hosts []plan.Node) ([]launch.Node, error) {
	r.growing.Lock()
	defer r.growing.Unlock()
	added, err := r.enlist(hosts)
	if err != nil {
		return nil, err
	}
	if err := r.listen(ctx); err != nil {
		return nil, errors.Join(err, eachOf(context.Background(), added, len(added), nil, (*member).closeRest))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err = eachOf(ctx, added, atOnce, nil, func(m *member) error {
		err := m.startAdded(ctx, &hosts[m.index-added[0].index])
		if err != nil {
			cancel(err)
		}
		return err
	})
	if err != nil {
		for _, m := range added {
			m.giveUp(err)
		}
		return nil, errors.Join(err, eachOf(context.Background(), added, len(added), nil, (*member).closeRest))
	}
	r.admit(hosts, added)
	stop := context.AfterFunc(ctx, func() { // ends all requests
		for _, m := range added {
			m.lose(context.Cause(ctx))
		}
	})
	defer stop()
	err = eachOf(context.Background(), added, len(added), nil, func(m *member) error {
		err := m.startStep(&r.step)
		if err != nil { // the cluster hears of the loss, and closes the node
			m.lose(err)
			m.abort()
		}
		return err
	})
	return nodesOf(added), err
}

// enlist makes members for some hosts. They are none of the job's yet.
func (r *root) enlist(hosts []plan.Node) (added []*member, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == 0 {
		return nil, errOver
	}
	for i := range hosts {
		m := r.newMember(len(r.members)+i, len(r.numbered), hosts[i].Host.Name)
		added, r.numbered = append(added, m), append(r.numbered, m)
	}
	r.open += len(added)
	return added, nil
}

// admit makes the members nodes of the job.
func (r *root) admit(hosts []plan.Node, added []*member) {
	others := r.team()
	n := len(others) + len(added)
	r.board.Grow(n)
	for _, m := range others {
		m.send(wire.Frame{Kind: wire.KindNodes, Stream: uint32(n)})
	}
	for i := range hosts {
		r.step.share.Hosts = append(r.step.share.Hosts[:len(others)+i:len(others)+i], hosts[i].Host.Name)
	}
	r.mu.Lock()
	r.members = append(r.members, added...)
	r.mu.Unlock()
	for _, m := range r.team() {
		if m.isLost() {
			r.announceLoss(m) // a node that hears it twice takes no notice
		}
	}
}

// isLost says whether the node is lost.
func (m *member) isLost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost != nil
}

// startAdded starts the daemon on a host, and returns when it has reported itself.
func (m *member) startAdded(ctx context.Context, host *plan.Node) error {
	agent, err := m.root.startAgentOf(m, host)
	if err != nil {
		return err
	}
	return m.awaitDaemon(ctx, agent, m.root.cfg.Within)
}

// startAgentOf starts the launch agent of a member that is added.
func (r *root) startAgentOf(m *member, host *plan.Node) (*agentProcess, error) {
	h := r.handover(m.number)
	if r.cfg.Agent.network != nil {
		h.Hosts = []string{host.Host.Name}
		return r.cfg.Agent.network.addHost(h.Append(nil), r.cfg.Within)
	}
	by, at := r.cfg.Agent, host.Host
	if host.Here && r.cfg.Here.Command != nil {
		by, at = r.cfg.Here, plan.Host{Name: at.Name} // a login can only be that of the user
	}
	if err := by.checkLogin(&at); err != nil {
		return nil, err
	}
	agent := newAgentProcess(at.Name, by.fillIn(&at, m.number, []plan.Host{at}))
	if by.Logins {
		agent.login = at.Name
	}
	m.alone = true
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := agent.startBy(h.Append(nil), r.adopter()); err != nil {
		return nil, err
	}
	r.noteAgent(agent) // ownsAgent waits for that
	return agent, nil
}

// checkAddress says whether the network of emulated nodes has an address for a node.
func checkAddress(number int) error {
	if number >= MostEmulated {
		return fmt.Errorf("node number %d of an emulated network, want at most %d nodes", number, MostEmulated)
	}
	return nil
}
