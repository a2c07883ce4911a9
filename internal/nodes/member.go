package nodes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/remote"
	"github.com/goshmem/goshmem/internal/wire"
)

// member is one node as the front end has it: a launch.Node, with the agent that has started its daemon, and
// the link to that.
type member struct {
	*remote.Client // nil until joined is closed
	root           *root
	index          int
	host           string
	agent          *agentProcess // nil: not started

	joined chan struct{} // closed when the daemon has reported itself

	mu      sync.Mutex
	link    *control.Link // nil until the daemon has reported itself
	closing bool          // the daemon is told to end
	once    sync.Once     // of Close
	err     error         // what Close returns
}

// startDaemon starts the daemon, and returns when it has reported itself.
func (m *member) startDaemon(ctx context.Context) error {
	h := Handover{Secret: m.root.secret, Node: m.index, Root: m.root.listener.Addrs(), Lease: m.root.cfg.Lease}
	by, index, hosts := m.root.agentOf(m.index)
	agent, err := by.start(index, hosts, h.Append(nil))
	if err != nil {
		return err
	}
	return m.awaitDaemon(ctx, agent)
}

// awaitDaemon returns when the daemon that an agent starts has reported itself.
func (m *member) awaitDaemon(ctx context.Context, agent *agentProcess) error {
	m.agent = agent
	go m.watchAgent()
	select {
	case <-m.joined:
		return nil
	case <-m.agent.ended:
		select {
		case <-m.joined: // an agent may leave the daemon to itself
			return nil
		default:
			return m.agent.failure()
		}
	case <-ctx.Done():
		return &AgentError{Where: m.host, Argv: m.agent.argv, Err: context.Cause(ctx), Said: m.agent.said.String()}
	}
}

// watchAgent notes that the node is lost when the agent ends, as it does when the daemon has ended. The link alone
// could not tell that from a network that is down for a while.
func (m *member) watchAgent() {
	<-m.agent.ended
	m.mu.Lock()
	l := m.link
	closing := m.closing
	m.mu.Unlock()
	if l == nil || closing {
		return
	}
	m.lose(m.agent.failure())
	l.Abort()
}

// wasKilled says whether the daemon has ended otherwise than by its own.
func (m *member) wasKilled() bool {
	if m.agent == nil {
		return false
	}
	select {
	case <-m.agent.ended:
		return m.agent.err != nil
	default:
		return true
	}
}

// join takes the link of the daemon; false: there was one before.
func (m *member) join(l *control.Link) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.link != nil {
		return false
	}
	m.link, m.Client = l, remote.NewClient(l)
	close(m.joined)
	return true
}

// send sends a frame to the daemon, if it has reported itself.
func (m *member) send(f wire.Frame) {
	m.mu.Lock()
	l := m.link
	m.mu.Unlock()
	if l != nil {
		l.Send(f)
	}
}

// take takes a frame of the daemon.
func (m *member) take(f wire.Frame) {
	if f.Kind != wire.KindRelay {
		m.Take(f)
		return
	}
	if err := m.root.relay(m.index, f); err != nil {
		m.lose(err)
		m.link.Abort()
	}
}

// leave notes that the daemon has closed the link. It does so only when it was told to end.
func (m *member) leave() { m.lose(errors.New("its daemon has closed the connection")) }

// lose notes that the node is lost.
func (m *member) lose(err error) {
	m.Lost(err)
	m.root.announceLoss(m.index)
}

// Close closes the node, and returns when its daemon has ended, or has not within a second and was killed.
func (m *member) Close() error {
	m.once.Do(func() {
		m.err = m.close()
		m.root.leave()
	})
	return m.err
}

func (m *member) close() (err error) {
	m.mu.Lock()
	l := m.link
	m.closing = true
	m.mu.Unlock()
	if l != nil {
		err = m.Client.Close()
		_ = l.Close(closeWithin) // a daemon that is gone does not say goodbye, and Client.Close has said so
	}
	if m.agent == nil {
		return err
	}
	patience := time.NewTimer(closeWithin)
	defer patience.Stop()
	if l != nil {
		select {
		case <-m.agent.ended:
			return err
		case <-patience.C:
		}
	}
	m.agent.kill()
	<-m.agent.ended
	return err
}
