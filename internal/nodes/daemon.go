package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/remote"
	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/internal/wire"
)

// nodeDaemon is a process that runs a node for a front end.
type nodeDaemon struct {
	link   *control.Link
	server *remote.Server
	branch branch
	logger zerolog.Logger
	over   chan struct{} // closed when the front end is done with the node, or is lost
	end    sync.Once
	err    error // why the front end is lost; set before over is closed

	junction junction
}

// RunDaemon is the work of "oshrun daemon": it reads a Handover, reports itself to the front end and runs a node for it. If
// the handover says so, standard input and output of the process are the connection with the front end.
// It returns when the front end has closed the node, and with an error if the front end is lost or sends what the daemon
// does not understand.
func RunDaemon(ctx context.Context, stdin io.Reader, logger zerolog.Logger) error {
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
	d := &nodeDaemon{logger: logger, over: make(chan struct{})}
	d.link, err = control.Dial(ctx, dial)
	if err != nil {
		return fmt.Errorf("front end: %w", err)
	}
	d.server = remote.NewServer(d.link, d.startStep)
	d.branch.send = d.link.Send
	d.junction.send, d.junction.logger = d.link.Send, logger
	d.link.Start(control.Handler{Take: d.take, Bye: func() { d.finish(nil) }, Lost: d.finish})
	d.await()
	d.server.Lost(errors.Join(errors.New("the front end has gone"), d.err))
	<-d.server.Done()
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
		d.link.Send(wire.Frame{Kind: wire.KindNotice, Body: []byte("daemon: " + err.Error())})
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
	cfg.Surroundings.Adopt()
	cfg.OwnsChildren = !d.branch.isUsed() // agents are no PEs, and neither are daemons that they leave behind
	hooks.IsOther = d.branch.owns
	step, err := d.junction.start(cfg, hooks)
	if err != nil {
		return nil, err // and not a nil step as a node
	}
	return step, nil
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
	}
	if !d.junction.take(f) {
		d.server.Take(f)
	}
}
