package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Span says on which nodes the PEs of the first job run. The zero Span has all PEs on one node, that of this process.
type Span struct {
	Hosts []plan.Host // by index of the node
	Here  []bool      // by index of the node: its host is this machine
	Homes []int       // by PE: the index of its node
	Grows bool        // spawned jobs may run on other hosts, too: the first node is an Adder
	// Local says that the one node is to be in this process. Others may be added.
	Local bool
	// Kill is closed when what was started is to be killed, because the user does not wait for it to end. Nil: never.
	Kill <-chan struct{}
}

// span returns the nodes of the layout.
func (o *Options) span() (s Span) {
	if o.Layout.IsHere() && !o.growsHere() {
		return s
	}
	s.Local = o.Layout.IsHere()
	for i := range o.Layout.Nodes {
		s.Hosts, s.Here = append(s.Hosts, o.Layout.Nodes[i].Host), append(s.Here, o.Layout.Nodes[i].Here)
	}
	s.Homes = o.Layout.Homes
	s.Grows = len(o.Layout.Spare) > 0 || !o.Layout.Allocation.IsOfSlurm()
	return s
}

// spare returns the hosts that the job may use, and that have no PEs.
func (o *Options) spare() []plan.Node {
	if o.Layout.IsHere() && !o.growsHere() {
		return nil
	}
	return o.Layout.Spare
}

// growsHere says whether a job whose PEs are all on this machine may get nodes: there are hosts for them.
func (o *Options) growsHere() bool {
	return o.Layout.HasSpare() && o.Starter != nil
}

// startNodes starts the nodes of the job. On other machines that may take long, so signals count meanwhile. One that asks
// for the end ends the start, with an error. Those in early.kept are for the PEs, when they are there.
func (o *Options) startNodes(ctx context.Context, at Starter, cfg daemon.Config, hooks func(node int) daemon.Hooks) (nodes []Node, early earlySignals, err error) {
	if o.Layout.IsHere() {
		nodes, err = at.Start(ctx, o.span(), cfg, hooks)
		return nodes, early, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	early.kill = make(chan struct{})
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { early.watch(o.Signals, over, cancel) })
	span := o.span()
	span.Kill = early.kill
	nodes, err = at.Start(ctx, span, cfg, hooks)
	if err == nil && ctx.Err() != nil { // too late for the start
		err = errors.Join(context.Cause(ctx), NewCluster(nodes, span.Homes).Close())
		nodes = nil
	}
	close(over)
	watch.Wait()
	switch cause := context.Cause(ctx); {
	case early.end == 0:
		return nodes, early, err
	case nodes != nil: // the signal came even later
		err = errors.Join(cause, NewCluster(nodes, span.Homes).Close())
	case !errors.Is(err, cause):
		err = errors.Join(cause, err)
	}
	return nil, early, err
}

// earlySignals are the signals that come while the nodes are started.
type earlySignals struct {
	end  syscall.Signal // the first that asks for the end; 0: none
	kept []os.Signal    // those for the PEs, each once
	kill chan struct{}  // closed by the second one that asks for the end
}

// stopFrontEnd stops this process; tests do something else.
var stopFrontEnd = xunix.StopSelf

// watch handles signals until over is closed.
func (e *earlySignals) watch(signals <-chan os.Signal, over <-chan struct{}, cancel context.CancelCauseFunc) {
	asked := 0
	for {
		select {
		case s := <-signals:
			sig, ok := s.(syscall.Signal)
			switch {
			case !ok || sig == xunix.SIGCONT: // nothing is stopped but this process, which goes on
			case sig == xunix.SIGTSTP:
				stopFrontEnd()
			case !ends(sig):
				if !slices.Contains(e.kept, s) {
					e.kept = append(e.kept, s)
				}
			default:
				if asked++; asked == 1 {
					e.end = sig
					cancel(fmt.Errorf("%s ends the job while its nodes are started", xunix.SignalName(sig)))
				} else if asked == 2 {
					close(e.kill)
				}
			}
		case <-over:
			return
		}
	}
}

// nodes returns the number of nodes.
func (s Span) nodes() int { return max(1, len(s.Hosts)) }

// isHome says whether a PE of the first job is on a node.
func (s Span) isHome(node, pe int) bool { return pe >= 0 && pe < len(s.Homes) && s.Homes[pe] == node }

// mostOnNode returns how many PEs the node with most of them has, in a job of n PEs.
func (s Span) mostOnNode(n int) (most int) {
	if s.nodes() == 1 {
		return n
	}
	count := make([]int, len(s.Hosts))
	for _, node := range s.Homes {
		count[node]++
		most = max(most, count[node])
	}
	return most
}
