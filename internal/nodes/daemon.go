package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/courier"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/fence"
	"github.com/goshmem/goshmem/internal/remote"
	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/pmix/codec"
)

// nodeDaemon is a process that runs a node for a front end.
type nodeDaemon struct {
	link   *control.Link
	server *remote.Server
	branch branch
	logger zerolog.Logger
	over   chan struct{} // closed when the front end is done with the node, or is lost
	end    sync.Once
	err    error                       // why the front end is lost; set before over is closed
	step   atomic.Pointer[daemon.Step] // nil: not started, or the job has one node

	mu   sync.Mutex
	ways *ways // nil: the job has one node, or the step is not there yet
	dead []int // nodes that were lost before ways was set
}

// ways are the ways between the PMIx servers of the nodes.
type ways struct {
	fences  *fence.Driver
	courier *courier.Courier
}

func (w *ways) take(node int, f wire.Frame) {
	if node >= 0 {
		w.fences.Take(node, f)
	}
	w.courier.Take(node, f)
}

func (w *ways) grow(nodes int) {
	w.fences.Grow(nodes)
	w.courier.Grow(nodes)
}

func (w *ways) nodeDead(node int) {
	w.fences.NodeDead(node)
	w.courier.NodeDead(node)
}

// RunDaemon is the work of "oshrun daemon": it reads a Handover, reports itself to the front end and runs a node for it.
// It returns when the front end has closed the node, and with an error if the front end is lost or sends what the daemon
// does not understand.
func RunDaemon(ctx context.Context, stdin io.Reader, logger zerolog.Logger) error {
	h, err := ReadHandover(stdin)
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, stdin) }() // who writes must not be stopped; the end of input means nothing
	if err := h.findNode(); err != nil {
		return err
	}
	d := &nodeDaemon{logger: logger, over: make(chan struct{})}
	d.link, err = control.Dial(ctx, control.DialConfig{
		Secret: h.Secret, Self: control.Identity{Build: version.String(), Node: int32(h.Node)},
		Peer: control.FrontEnd, Addrs: h.Root, Within: h.Dial, RefusedIsLost: true, Limits: control.Limits{Lease: h.Lease},
	})
	if err != nil {
		return fmt.Errorf("front end: %w", err)
	}
	d.server = remote.NewServer(d.link, d.startStep)
	d.branch.send = d.link.Send
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
	cfg.OwnsChildren = !d.branch.isUsed() // agents are no PEs, and neither are daemons that they leave behind
	var w *ways
	if len(cfg.Share.Hosts) > 1 || cfg.Share.Grows {
		var err error
		if w, err = d.openWays(cfg.Share); err != nil {
			return nil, err
		}
		hooks.Remote, hooks.Peers = w.fences, w.courier
	}
	hooks.IsOther = d.branch.owns
	step, err := daemon.Start(cfg, hooks)
	if err != nil {
		return nil, err
	}
	if w != nil {
		d.step.Store(step)
		w.fences.Start(step.NodeServer())
		w.courier.Start(step.NodeServer())
	}
	return step, nil
}

// openWays opens the ways to other nodes.
func (d *nodeDaemon) openWays(s daemon.Share) (*ways, error) {
	nodeOf := func(p codec.Proc) (node int, ok bool) { return d.homeOf(s, p) }
	send := func(node int, f wire.Frame) { d.link.Send(relayFrame(node, f)) }
	fault := func(err error) { d.logger.Error().Err(err).Msg("PMIx between nodes") }
	var w ways
	var err error
	w.fences, err = fence.New(fence.Config{
		Layout: fence.Layout{Me: s.Node, Nodes: len(s.Hosts), NodeOf: nodeOf}, Send: send, Fault: fault,
	})
	if err != nil {
		return nil, err
	}
	w.courier, err = courier.New(courier.Config{Me: s.Node, Nodes: len(s.Hosts), Send: send, Fault: fault})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ways = &w
	for _, node := range d.dead {
		w.nodeDead(node)
	}
	return &w, nil
}

// homeOf returns the node of a process: of the first job, or of a job that the step knows.
func (d *nodeDaemon) homeOf(s daemon.Share, p codec.Proc) (node int, ok bool) {
	if p.Nspace == s.Name && int64(p.Rank) < int64(len(s.Homes)) {
		return s.Homes[p.Rank], true
	}
	if step := d.step.Load(); step != nil {
		return step.HomeOf(p)
	}
	return 0, false
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
	d.mu.Lock()
	w := d.ways
	if f.Kind == wire.KindNodeDead && w == nil {
		d.dead = append(d.dead, int(f.Stream))
	}
	d.mu.Unlock()
	switch {
	case f.Kind == wire.KindNodeDead && w != nil:
		w.nodeDead(int(f.Stream))
	case f.Kind == wire.KindNodes && w != nil:
		w.grow(int(f.Stream))
	case f.Kind == wire.KindRelay && w != nil:
		node, inner, err := parseRelay(f)
		if err != nil {
			d.logger.Error().Err(err).Msg("frame of another node")
			return
		}
		w.take(node, inner)
	case f.Kind == wire.KindNodeDead, f.Kind == wire.KindNodes, f.Kind == wire.KindRelay: // the step is not there yet
	default:
		d.server.Take(f)
	}
}
