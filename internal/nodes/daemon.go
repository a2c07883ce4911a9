package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/remote"
	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// nodeDaemon is a process that runs a node for a front end.
type nodeDaemon struct {
	lease  time.Duration // as in the handover
	link   *control.Link
	send   func(wire.Frame) // to the front end
	leave  func()           // ends the link, after what was sent
	server *remote.Server
	branch branch
	logger zerolog.Logger
	over   chan struct{} // closed when the front end is done with the node, or is lost
	end    sync.Once
	err    error // why the front end is lost, or the node; set before over is closed
	fallen bool  // the node is lost, as if the daemon was killed; set before over is closed

	junction junction
	watcher  atomic.Pointer[watcher] // nil: the step has not started, or its job's nodes do not watch each other
}

// takePrecedence gives this process precedence over the PEs of its session, where the user may have that. PEs that poll, and
// agents, which have it too, must not keep it from a processor: a node is lost if its links are silent for the lease. It
// sleeps for most of the time. The front end has none: its session is the user's, with other work in it.
func takePrecedence(logger zerolog.Logger) {
	if err := xunix.RaisePriority(); err != nil {
		logger.Debug().Err(err).Msg("processes of the job that poll may keep this one from a processor")
	}
}

// RunDaemon is the work of "oshrun daemon": it reads a Handover, reports itself to the front end and runs a node for it. If
// the handover says so, standard input and output of the process are the connection with the front end.
// It returns when the front end has closed the node, and with an error if the front end is lost or sends what the daemon
// does not understand.
func RunDaemon(ctx context.Context, stdin io.Reader, logger zerolog.Logger) error {
	xunix.LeadSession() // first: it passes on the nice value of the user
	takePrecedence(logger)
	h, err := ReadHandover(stdin)
	if err != nil {
		return err
	}
	if err := h.findNode(); err != nil {
		return err
	}
	dial := control.DialConfig{
		Secret: h.Secret, Self: control.Identity{Build: version.String(), Node: int32(h.Node)},
		Peer: control.FrontEnd, Addrs: control.NearestFirst(h.Root), Within: h.Dial, RefusedIsLost: true, Limits: control.Limits{Lease: h.Lease},
	}
	if h.Stdio {
		if dial.Conn, err = ownStream(); err != nil {
			return err
		}
	} else {
		go func() { _, _ = io.Copy(io.Discard, stdin) }() // who writes must not be stopped; the end of input means nothing
	}
	d := &nodeDaemon{lease: h.Lease, logger: logger, over: make(chan struct{})}
	d.link, err = control.Dial(ctx, dial)
	if err != nil {
		return fmt.Errorf("front end: %w", err)
	}
	d.server = remote.NewServer(d.link, d.startStep)
	d.send, d.leave = d.link.Send, d.link.Leave
	d.branch.send = d.send
	d.junction.send, d.junction.logger = d.send, logger
	d.link.Start(control.Handler{
		Take: d.take, Bye: func() { d.finish(nil) }, Lost: d.finish,
		Broken: func() { d.watcher.Load().noteLink(true) }, Back: func() { d.watcher.Load().noteLink(false) },
	})
	d.await()
	if step := d.junction.step.Load(); step != nil && d.err != nil && !d.fallen {
		step.EndNode() // the agent first: it must not tell others, who lose the front end as well, that PEs of this node are dead
	}
	d.server.Lost(errors.Join(errors.New("the front end has gone"), d.err))
	<-d.server.Done()
	if d.fallen {
		_ = d.link.Close(fallWithin) // the front end has broken it, or cannot be told
		return d.err                 // nodes whose agents this daemon has started go on
	}
	d.branch.close(d.patience())
	_ = d.link.Close(closeWithin) // the front end has gone, or has closed it
	return d.err
}

// patience is how long the agents that this daemon has started may take to end: their daemons have been told to, or find
// out by themselves that the front end is lost.
func (d *nodeDaemon) patience() time.Duration {
	if d.err == nil {
		return closeWithin / 2 // the front end waits for this daemon
	}
	return 2 * closeWithin
}

// await returns when the front end is done with the node, or is lost, or the server has failed: then no further request of
// the front end would be answered, and the front end is told so.
func (d *nodeDaemon) await() {
	select {
	case <-d.over:
		return
	case <-d.server.Done():
	}
	if err := d.server.Wait(); err != nil {
		d.send(wire.Frame{Kind: wire.KindNotice, Body: []byte("daemon: " + err.Error())})
		d.end.Do(func() {
			d.err = err
			close(d.over)
		})
	}
	<-d.over
}

// finish notes that the front end has closed the link, or is lost.
func (d *nodeDaemon) finish(err error) {
	d.end.Do(func() {
		if err != nil {
			d.err = fmt.Errorf("front end is lost: %w", err)
		}
		close(d.over)
	})
}

// startStep starts the step of this node.
func (d *nodeDaemon) startStep(cfg daemon.Config, hooks daemon.Hooks) (daemon.Node, error) {
	hooks.Agent, hooks.AgentEnded = d.agentCommand(&cfg), d.giveUp
	cfg.Surroundings.Adopt()
	cfg.OwnsChildren = !d.branch.isUsed() // agents are no PEs, and neither are daemons that they leave behind
	w := d.startWatcher(&cfg, &hooks)
	hooks.IsOther = func(pid int) bool { return d.branch.owns(pid) || w.owns(pid) }
	d.watcher.Store(w)
	step, err := d.junction.start(cfg, hooks)
	if w == nil {
		if err != nil {
			return nil, err // and not a nil step as a node
		}
		return step, nil
	}
	if werr := w.await(); err == nil && werr != nil {
		err = errors.Join(werr, step.Close())
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return &watchedNode{Step: step, watcher: w}, nil
}

// fallWithin is how long the last word of a daemon whose node is lost may take.
const fallWithin = 500 * time.Millisecond

// giveUp ends the node, whose agent has ended: the front end hears why, and nothing more, and loses it.
func (d *nodeDaemon) giveUp(err error) {
	d.watcher.Load().mute()
	d.send(wire.Frame{Kind: wire.KindFallen, Body: []byte(err.Error())})
	d.leave() // first: what happens to the PEs is not their own
	d.end.Do(func() {
		d.err, d.fallen = err, true
		close(d.over)
	})
}

// fall ends the node, which others hold for dead: they go on without it.
func (d *nodeDaemon) fall(err error) {
	if w := d.watcher.Load(); w != nil {
		w.logger.Error().Err(err).Msg("this node ends")
	}
	d.giveUp(err)
	if step := d.junction.step.Load(); step != nil {
		step.EndNode()
	}
}

// reachWithin is how long an agent may be silent while another one waits for it, beside the time that the loss of a node takes to be
// known: that is a lease, and what a busy front end takes. It is also longer than a daemon takes to find that its agent is hung:
// that agent's node is lost then, and those that wait for it are not.
const reachWithin = 20 * time.Second

// agentWord is what oshrun's agent is called with.
const agentWord = "agent"

// agentCommand says how the agent of this node is started. Agents of other nodes reach it by the network that the user has
// chosen for data, or by that which has brought this daemon to the front end. A node that no other one can reach has no
// agent. If it lacks the network that the user has chosen, the step does not start.
func (d *nodeDaemon) agentCommand(cfg *daemon.Config) *daemon.AgentCommand {
	self, err := os.Executable()
	if err != nil {
		return &daemon.AgentCommand{Lack: fmt.Errorf("path of oshrun: %w", err)}
	}
	a := &daemon.AgentCommand{Argv: []string{self, agentWord}, Listen: d.link.Local(), Ports: cfg.AgentPorts, Patience: 2*d.lease + reachWithin}
	if cfg.DataNetwork != "" || !a.Listen.IsValid() {
		addrs, err := control.LocalAddresses(cfg.DataNetwork, cfg.Share.Emulated && cfg.DataNetwork == "")
		if err != nil {
			d.logger.Warn().Err(err).Msg("no agent: PEs do not reach the memory of PEs on other nodes")
			a.Lack = fmt.Errorf("other nodes cannot reach it: %w", err)
			return a
		}
		a.Listen = addrs[0]
	}
	return a
}

// take takes a frame of the front end, or of another node by way of it.
func (d *nodeDaemon) take(f wire.Frame) {
	switch f.Kind {
	case wire.KindStartAgent:
		if err := d.branch.start(f); err != nil {
			d.logger.Error().Err(err).Msg("agent of another node")
		}
		return
	case wire.KindKillAgent:
		d.branch.kill(int(f.Stream))
		return
	case wire.KindProbe:
		d.send(wire.Frame{Kind: wire.KindProbed, Stream: f.Stream})
		return
	case wire.KindGoesOn:
		d.watcher.Load().release(f.Stream)
		return
	case wire.KindEndNode:
		go d.fall(errors.New(string(f.Body))) // it takes locks that others may hold for a moment, and closes the link
		return
	case wire.KindNodeDead:
		d.watcher.Load().noteLost(int(f.Stream))
	}
	if !d.junction.take(f) {
		d.server.Take(f)
	}
}
