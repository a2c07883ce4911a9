package nodes

import (
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/courier"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/fence"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/pmix/codec"
)

// junction connects the step of a node with those of others.
type junction struct {
	send   func(f wire.Frame) // to the front end; it never waits
	logger zerolog.Logger
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

// start starts the step of this node.
func (j *junction) start(cfg daemon.Config, hooks daemon.Hooks) (*daemon.Step, error) {
	var w *ways
	if len(cfg.Share.Hosts) > 1 || cfg.Share.Grows {
		var err error
		if w, err = j.openWays(cfg.Share); err != nil {
			return nil, err
		}
		hooks.Remote, hooks.Peers = w.fences, w.courier
		hooks.Logger.Debug().Str("host", cfg.Share.Hosts[cfg.Share.Node]).Int("radix", cfg.Share.CollRadix).Msg("tree of nodes")
	}
	step, err := daemon.Start(cfg, hooks)
	if err == nil && w != nil {
		j.step.Store(step)
		w.fences.Start(step.NodeServer())
		w.courier.Start(step.NodeServer())
	}
	return step, err
}

// openWays opens the ways to other nodes.
func (j *junction) openWays(s daemon.Share) (*ways, error) {
	nodeOf := func(p codec.Proc) (node int, ok bool) { return j.homeOf(s, p) }
	send := func(node int, f wire.Frame) { j.send(relayFrame(node, f)) }
	fault := func(err error) { j.logger.Error().Err(err).Msg("PMIx between nodes") }
	var w ways
	var err error
	w.fences, err = fence.New(fence.Config{
		Layout: fence.Layout{Me: s.Node, Nodes: len(s.Hosts), NodeOf: nodeOf, Radix: s.CollRadix}, Send: send, Fault: fault,
	})
	if err != nil {
		return nil, err
	}
	w.courier, err = courier.New(courier.Config{Me: s.Node, Nodes: len(s.Hosts), Send: send, Fault: fault})
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ways = &w
	for _, node := range j.dead {
		w.nodeDead(node)
	}
	return &w, nil
}

// homeOf returns the node of a process: of the first job, or of a job that the step knows.
func (j *junction) homeOf(s daemon.Share, p codec.Proc) (node int, ok bool) {
	if p.Nspace == s.Name && int64(p.Rank) < int64(len(s.Homes)) {
		return s.Homes[p.Rank], true
	}
	if step := j.step.Load(); step != nil {
		return step.HomeOf(p)
	}
	return 0, false
}

// take takes a frame about other nodes, or of another node by way of the front end; false: it is about something else.
func (j *junction) take(f wire.Frame) bool {
	switch f.Kind {
	case wire.KindNodeDead, wire.KindNodes, wire.KindRelay:
	default:
		return false
	}
	j.mu.Lock()
	w := j.ways
	if f.Kind == wire.KindNodeDead && w == nil {
		j.dead = append(j.dead, int(f.Stream))
	}
	j.mu.Unlock()
	switch {
	case w == nil: // the step is not there yet
	case f.Kind == wire.KindNodeDead:
		w.nodeDead(int(f.Stream))
	case f.Kind == wire.KindNodes:
		w.grow(int(f.Stream))
	default:
		node, inner, err := parseRelay(f)
		if err != nil {
			j.logger.Error().Err(err).Msg("frame of another node")
			break
		}
		w.take(node, inner)
	}
	return true
}
