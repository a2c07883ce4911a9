package nodes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goshmem/goshmem/detector/view"
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
	local          *local // in this process; nil: a daemon has the node
	number         int    // by which the daemon reports itself
	host           string
	alone          bool          // the agent has started this daemon alone, and after the others
	parent         *member       // whose daemon starts the agent; nil: the front end does
	agent          *agentProcess // nil: not started

	joined chan struct{} // closed when the daemon has reported itself

	mu      sync.Mutex
	link    *control.Link         // nil until the daemon has reported itself
	closing bool                  // the daemon is told to end
	lost    error                 // why the node is lost; nil: it is not
	ends    bool                  // the daemon has said that it ends: it needs no fence
	started map[int]*agentProcess // by node: the agents that the daemon has started; nil: none
	once    sync.Once             // of Close
	err     error                 // what Close returns

	holds int // the node itself and its children, as long as they are not ended; the lock of root guards it
}

// startDaemon starts the daemon, and returns when it has reported itself. The daemon of the parent starts the agent, if it
// can.
func (m *member) startDaemon(ctx context.Context) error {
	h := m.root.handover(m.index)
	if m.parent != nil {
		select {
		case <-m.parent.joined:
		case <-m.root.failed:
			return errNotStarted
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !m.root.isFlat() {
			err := m.startFar(ctx, h.Append(nil))
			if err == nil || ctx.Err() != nil || endedBySignal(err) {
				return err
			}
			m.root.flatten(m.parent.host, err)
		}
	}
	agent, err := m.root.startAgent(m.index, h.Append(nil))
	if err != nil {
		return err
	}
	return m.awaitDaemon(ctx, agent, m.root.cfg.Within)
}

// hasJoined says whether the daemon has reported itself.
func (m *member) hasJoined() bool {
	select {
	case <-m.joined:
		return true
	default:
		return false
	}
}

// detachWithin is how long a daemon may take to report itself after its agent has ended well: some agents leave it to
// itself.
const detachWithin = 5 * time.Second

// awaitDaemon returns when the daemon that an agent starts has reported itself, which has to be within that time.
func (m *member) awaitDaemon(ctx context.Context, agent *agentProcess, within time.Duration) error {
	m.mu.Lock()
	m.agent = agent
	m.mu.Unlock()
	late := time.NewTimer(within)
	defer late.Stop()
	ended := agent.ended
	for {
		change, end := agent.ends.look(m.index)
		if end != nil && !m.hasJoined() {
			return agent.failureOf(m.host, end)
		}
		select {
		case <-m.joined:
			go m.watchAgent(agent)
			return nil
		case <-change:
		case <-ended:
			if agent.err != nil {
				return agent.failure()
			}
			ended = nil
			late.Reset(min(detachWithin, within))
		case <-late.C:
			if ended == nil {
				return agent.failure()
			}
			return agent.explain(m.root.lateness())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watchAgent loses the node when its agent has ended and its link is broken, or breaks soon. A daemon that has ended
// closes its connection. One whose agent was cut off, or has left it to itself, does not: then the node goes on.
func (m *member) watchAgent(agent *agentProcess) {
	<-agent.ended
	l := m.linkNow()
	late := time.NewTimer(returnWithin)
	defer late.Stop()
	for broken := l.Broken(); ; broken = l.Broken() {
		select {
		case <-broken:
			if broken != l.Broken() {
				continue // there is another connection
			}
			m.mu.Lock()
			closing := m.closing
			m.mu.Unlock()
			if !closing {
				m.lose(agent.failure())
				l.Abort()
			}
			return
		case <-late.C:
			m.root.logger.Warn().Str("host", m.host).Err(agent.failure()).Msg("the launch agent has ended, the daemon goes on")
			return
		case <-l.Done():
			return
		case <-m.root.over:
			return
		}
	}
}

// lastWords returns how the launch agent of this node alone has ended; nil: it runs.
func (m *member) lastWords() error {
	if m.agent == nil || m.root.cfg.Agent.All && !m.alone {
		return nil
	}
	select {
	case <-m.agent.ended:
		return m.agent.failure()
	default:
		return nil
	}
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

// join takes the link of the daemon; false: there was one before, or the node is lost.
func (m *member) join(l *control.Link) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.link != nil || m.lost != nil {
		return false
	}
	m.link, m.Client = l, remote.NewClient(l)
	close(m.joined)
	return true
}

// send sends a frame to the daemon, if it has reported itself.
func (m *member) send(f wire.Frame) {
	if m.local != nil {
		m.local.put(f)
		return
	}
	l := m.linkNow()
	if l != nil {
		l.Send(f)
	}
}

// Launch starts the node's PEs.
func (m *member) Launch() error {
	if err := m.Client.Launch(); err != nil {
		return fmt.Errorf("%s: %w", m.host, err)
	}
	return nil
}

// holdAtMost is how long a daemon may take to say that it will wait for the front end.
const holdAtMost = 5 * time.Second

// linkNow returns the link to the daemon; nil: it has not reported itself.
func (m *member) linkNow() *control.Link {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.link
}

// Hold has the daemon wait for the front end, which is about to be stopped. It returns when the daemon does so or the
// node is lost.
func (m *member) Hold() error {
	l := m.linkNow()
	if l == nil {
		return nil
	}
	m.root.theJudge().hold()
	if err := l.Hold(holdAtMost); err != nil {
		return fmt.Errorf("%s: %w", m.host, err)
	}
	return nil
}

// Go says that the front end goes on.
func (m *member) Go() {
	m.root.theJudge().resume()
	l := m.linkNow()
	if l != nil {
		l.Go()
	}
}

// take takes a frame of the daemon. One that is not understood loses the node.
func (m *member) take(f wire.Frame) {
	if err := m.hear(f); err != nil && m.lose(err) {
		m.link.Abort()
	}
}

// hear does what a frame of the daemon says.
func (m *member) hear(f wire.Frame) error {
	switch f.Kind {
	case wire.KindRelay:
		return m.root.relay(m.index, f)
	case wire.KindAgentEnded:
		return m.takeAgentEnd(f)
	case wire.KindProbed:
		if f.Stream >= judgeBit {
			m.root.theJudge().takeProbed(f.Stream)
			return nil
		}
		m.root.survey.take(m.index, f.Stream)
		return nil
	case wire.KindAccuse:
		return m.root.theJudge().takeAccusation(m.index, f)
	case wire.KindLinkBack:
		if m.root.theJudge().goesOn() {
			m.send(wire.Frame{Kind: wire.KindGoesOn, Stream: f.Stream})
		}
		return nil
	case wire.KindFallen:
		m.noteEnd()
		if m.root.theJudge().takeEnd(m.index) {
			return nil
		}
		return errors.New(string(f.Body[:min(len(f.Body), tailBytes)]))
	default:
		m.Take(f)
		return m.Err()
	}
}

// noteBroken notes that the daemon has no connection, for a moment or for good.
func (m *member) noteBroken() { m.root.theJudge().noteLink(m.index, view.LinkLost) }

// noteBack notes that the daemon has a connection again.
func (m *member) noteBack() { m.root.theJudge().noteLink(m.index, view.LinkBack) }

// noteEnd notes that the daemon ends by itself.
func (m *member) noteEnd() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ends = true
}

// endsItself says whether the daemon has said that it ends.
func (m *member) endsItself() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ends
}

// leave notes that the daemon has closed the link. It does so only when it was told to end, or has failed.
func (m *member) leave() {
	m.noteEnd()
	if !m.root.theJudge().takeEnd(m.index) {
		m.lose(errors.New("its daemon has closed the connection"))
	}
}

// lose notes that the node is lost; false: it was lost before.
func (m *member) lose(err error) bool {
	if !m.giveUp(err) {
		return false
	}
	m.root.announceLoss(m)
	m.root.theJudge().noteLost(m.index)
	m.root.cancel(fmt.Errorf("%s: %w", m.host, err))
	return true
}

// wordsWithin is how long an agent may take to end after the stream that goes by it.
const wordsWithin = 500 * time.Millisecond

// loseLink notes that the node has no link any more. Where the link goes by the agent, how that has ended says more.
func (m *member) loseLink(err error) {
	if m.root.theJudge().takeEnd(m.index) {
		return
	}
	m.mu.Lock()
	agent := m.agent
	m.mu.Unlock()
	if m.root.cfg.Stdio && agent != nil {
		late := time.NewTimer(wordsWithin)
		defer late.Stop()
		select {
		case <-agent.ended:
			err = agent.failure()
		case <-late.C:
			err = fmt.Errorf("%w (--control stdio)", err)
		}
	}
	m.lose(err)
}

// giveUp ends what waits for the node, which is lost or not wanted any more; false: it did so before.
func (m *member) giveUp(err error) bool {
	m.mu.Lock()
	first, c := m.lost == nil, m.Client
	if first {
		m.lost = err
	}
	started := m.started
	m.started = nil
	m.mu.Unlock()
	for _, agent := range started { // what becomes of them is not known
		agent.finish(fmt.Errorf("the daemon that has started it, on %s, is lost", m.host))
	}
	if first && c != nil {
		c.Lost(err)
	}
	return first
}

// kill ends at once what runs of the node.
func (m *member) kill(err error) {
	m.giveUp(err)
	m.abort()
}

// abort breaks the link. The daemon, which dials again, is refused and ends.
func (m *member) abort() {
	l := m.linkNow()
	if l != nil {
		l.Abort()
	}
}

// closeRest closes the node after its start has failed. A loss, which Close returns as well, is no news then.
func (m *member) closeRest() error {
	err := m.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost != nil && errors.Is(err, m.lost) {
		return nil
	}
	return err
}

// Close closes the node, and returns when its daemon has ended, or has not within a second and was killed. A daemon that
// has started the agents of other nodes ends after the last of these: Close does not wait for that.
func (m *member) Close() error {
	m.once.Do(func() {
		m.mu.Lock()
		m.closing = true
		m.root.theJudge().noteClose(m)
		closes := m.link != nil
		m.mu.Unlock()
		if closes {
			m.err = m.Client.Close()
		}
		m.release()
	})
	return m.err
}

// release ends the daemon if neither the node nor its children need it, and then those of its parents.
func (m *member) release() {
	for ; m != nil; m = m.parent {
		m.root.mu.Lock()
		m.holds--
		needed := m.holds > 0
		m.root.mu.Unlock()
		if needed {
			return
		}
		m.end()
		m.root.leave()
	}
}

// end ends the daemon.
func (m *member) end() {
	l := m.linkNow()
	switch {
	case l == nil:
	case m.root.isKilled():
		l.Abort()
	default:
		_ = l.Close(closeWithin) // a daemon that is gone does not say goodbye, and Client.Close has said so
	}
	if m.agent != nil && (m.alone || !m.root.cfg.Agent.All) {
		m.agent.end(m.patience())
		m.agent.logWords(m.root.logger)
	}
}

// patience is how long the agent of a node that was closed may take to end. Without a link there is nothing that could
// end it.
func (m *member) patience() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.link == nil {
		return 0
	}
	return closeWithin
}
