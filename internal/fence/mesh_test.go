package fence_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/goshmem/goshmem/internal/fence"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every test; none comes near it.
const patience = 60 * time.Second

const space = "job-1"

func proc(rank int) codec.Proc { return codec.Proc{Nspace: space, Rank: codec.Rank(rank)} }

// cluster is a job on several nodes with a server each, all in this process. Frames between nodes go through memory.
type cluster struct {
	t       *testing.T
	ctx     context.Context
	perNode int
	nodes   []*node
	clients []*client.Client // by rank
	links   sync.WaitGroup
}

// node is a node with its server and driver.
type node struct {
	driver *fence.Driver
	server *server.Server
	in     []*link // from each node; nil from itself
}

// link carries frames from one node to another, in order.
type link struct {
	mu     sync.Mutex
	queue  []wire.Frame
	wake   chan struct{}
	closed bool
}

func (l *link) send(f wire.Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.queue = append(l.queue, f)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// close ends the link. The frames that are left are lost.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed, l.queue = true, nil
		close(l.wake)
	}
}

// run delivers frames until the link is closed.
func (l *link) run(from int, to *fence.Driver) {
	for range l.wake {
		l.mu.Lock()
		frames := l.queue
		l.queue = nil
		l.mu.Unlock()
		for _, f := range frames {
			to.Take(from, f)
		}
	}
}

// start starts a job with some processes on each node, and connects them all.
func start(t *testing.T, nodes, perNode int) *cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c := &cluster{t: t, ctx: ctx, perNode: perNode}
	for me := range nodes {
		n := &node{}
		for from := range nodes {
			n.in = append(n.in, &link{wake: make(chan struct{}, 1), closed: from == me})
		}
		c.nodes = append(c.nodes, n)
	}
	for me, n := range c.nodes {
		var err error
		n.driver, err = fence.New(fence.Config{
			Layout: fence.Layout{Me: me, Nodes: nodes, Radix: 2, NodeOf: c.nodeOf},
			Send:   func(to int, f wire.Frame) { c.nodes[to].in[me].send(f) },
			Fault:  func(err error) { t.Errorf("node %d: %v", me, err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		n.server, err = server.Start(server.Config{Job: c.layout(me, nodes), Remote: n.driver})
		if err != nil {
			t.Fatal(err)
		}
	}
	for me, n := range c.nodes {
		n.driver.Start(n.server)
		for from, l := range n.in {
			if from != me {
				c.links.Go(func() { l.run(from, n.driver) })
			}
		}
	}
	t.Cleanup(c.close)
	for rank := range nodes * perNode {
		p, err := client.Dial(ctx, options(t, c.nodes[rank/perNode].server, rank))
		if err != nil {
			t.Fatal(err)
		}
		c.clients = append(c.clients, p)
	}
	return c
}

func (c *cluster) close() {
	for _, p := range c.clients {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_ = p.Finalize(ctx) // clients of a node that has died cannot
		cancel()
	}
	for _, n := range c.nodes {
		for _, l := range n.in {
			l.close()
		}
		if err := n.server.Close(); err != nil {
			c.t.Error(err)
		}
	}
	c.links.Wait()
}

func (c *cluster) nodeOf(p codec.Proc) (int, bool) {
	return int(p.Rank) / c.perNode, p.Nspace == space && int(p.Rank) < len(c.nodes)*c.perNode
}

// layout describes the job as a node's server sees it.
func (c *cluster) layout(me, nodes int) server.JobLayout {
	j := server.JobLayout{Nspace: space, ThisNode: uint32(me)}
	for n := range nodes {
		j.Hosts = append(j.Hosts, fmt.Sprint("n", n))
		for i := range c.perNode {
			j.Procs = append(j.Procs, server.Proc{Rank: uint32(n*c.perNode + i), Node: uint32(n), LocalRank: uint16(i)})
		}
	}
	return j
}

func options(t *testing.T, s *server.Server, rank int) client.Options {
	t.Helper()
	env := map[string]string{}
	for _, kv := range s.Environ(proc(rank)) {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	opts, launched, err := client.FromEnv(func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	if err != nil || !launched {
		t.Fatalf("environment %v: launched %v, %v", env, launched, err)
	}
	return opts
}

// killProc lets all nodes know that a process has died, its own first.
func (c *cluster) killProc(rank int) {
	own, _ := c.nodeOf(proc(rank))
	c.nodes[own].server.ProcExited(proc(rank), server.Exit{Signal: 9})
	for n, other := range c.nodes {
		if n != own {
			other.server.ProcExited(proc(rank), server.Exit{Signal: 9})
		}
	}
}

// killNode ends a node, and lets the others know.
func (c *cluster) killNode(dead int) {
	for n := range c.nodes {
		c.nodes[n].in[dead].close()
		c.nodes[dead].in[n].close()
	}
	if err := c.nodes[dead].server.Close(); err != nil {
		c.t.Error(err)
	}
	for n, other := range c.nodes {
		if n == dead {
			continue
		}
		other.driver.NodeDead(dead)
		for i := range c.perNode {
			other.server.ProcExited(proc(dead*c.perNode+i), server.Exit{Signal: 9})
		}
	}
}

// each runs f for some ranks at once and returns their errors.
func (c *cluster) each(ranks []int, f func(rank int, p *client.Client) error) map[int]error {
	errs := map[int]error{}
	var mu sync.Mutex
	var g errgroup.Group
	for _, rank := range ranks {
		g.Go(func() error {
			err := f(rank, c.clients[rank])
			mu.Lock()
			defer mu.Unlock()
			errs[rank] = err
			return nil
		})
	}
	_ = g.Wait()
	return errs
}

// but returns all ranks but those for which without is true.
func (c *cluster) but(without func(rank int) bool) (ranks []int) {
	for rank := range c.clients {
		if !without(rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

func nobody(int) bool { return false }
