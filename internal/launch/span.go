package launch

import (
	"context"
	"errors"
	"fmt"
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
}

// span returns the nodes of the layout.
func (o *Options) span() (s Span) {
	if o.Layout.IsHere() {
		return s
	}
	for i := range o.Layout.Nodes {
		s.Hosts, s.Here = append(s.Hosts, o.Layout.Nodes[i].Host), append(s.Here, o.Layout.Nodes[i].Here)
	}
	s.Homes = o.Layout.Homes
	return s
}

// startNodes starts the nodes of the job. On other machines that may take long, so a signal that asks for the end ends
// the start, with an error: startNodes returns the signal, otherwise 0.
func (o *Options) startNodes(ctx context.Context, at Starter, cfg daemon.Config, hooks func(node int) daemon.Hooks) (nodes []Node, interrupted syscall.Signal, err error) {
	if o.Layout.IsHere() {
		nodes, err = at.Start(ctx, Span{}, cfg, hooks)
		return nodes, 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	started := make(chan struct{})
	watched := make(chan syscall.Signal, 1)
	go func() {
		for {
			select {
			case s := <-o.Signals:
				if sig, ok := s.(syscall.Signal); ok && ends(sig) {
					cancel(fmt.Errorf("%s ends the job while its nodes are started", xunix.SignalName(sig)))
					watched <- sig
					return
				}
			case <-started:
				watched <- 0
				return
			}
		}
	}()
	nodes, err = at.Start(ctx, o.span(), cfg, hooks)
	close(started)
	if interrupted = <-watched; interrupted == 0 {
		return nodes, 0, err
	}
	if err == nil { // the signal came too late for the start
		err = NewCluster(nodes, o.span().Homes).Close()
	}
	return nil, interrupted, errors.Join(context.Cause(ctx), err)
}

// nodes returns the number of nodes.
func (s Span) nodes() int { return max(1, len(s.Hosts)) }

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
