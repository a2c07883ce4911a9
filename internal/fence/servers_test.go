package fence_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
)

// put puts and commits a value of a process.
func (c *cluster) put(p *client.Client, key, value string) error {
	if err := p.Put(codec.ScopeGlobal, key, codec.StringValue(value)); err != nil {
		return err
	}
	return p.Commit(c.ctx)
}

// getAll gets a value of each process.
func (c *cluster) getAll(p *client.Client, key string, want func(rank int) string, opts client.GetOptions) error {
	for peer := range c.clients {
		v, err := p.Get(c.ctx, proc(peer), key, opts)
		if err != nil {
			return err
		}
		if v != codec.StringValue(want(peer)) {
			return fmt.Errorf("rank %d has %.40q, want %.40q", peer, v, want(peer))
		}
	}
	return nil
}

func at(rank int) string { return fmt.Sprint("at ", rank) }

// What processes put before a fence that collects, all processes of all nodes can get, without asking other nodes.
func TestDataAcrossNodes(t *testing.T) {
	for _, nodes := range []int{2, 3, 7} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			c := start(t, nodes, 2)
			for rank, err := range c.each(c.but(nobody), func(rank int, p *client.Client) error {
				if err := c.put(p, "addr", at(rank)); err != nil {
					return err
				}
				if err := p.Fence(c.ctx, true); err != nil {
					return err
				}
				if err := c.getAll(p, "addr", at, client.GetOptions{Immediate: true}); err != nil {
					return err
				}
				return p.Fence(c.ctx, false)
			}) {
				if err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
		})
	}
}

// Data that is larger than a frame goes in pieces, by a fence and by a request.
func TestMuchData(t *testing.T) {
	c := start(t, 3, 1)
	const size = 3 << 20
	large := func(rank int) string { return strings.Repeat(string(rune('a'+rank)), size) }
	later := func(rank int) string { return strings.Repeat(string(rune('k'+rank)), size) }
	for rank, err := range c.each(c.but(nobody), func(rank int, p *client.Client) error {
		if err := c.put(p, "large", large(rank)); err != nil {
			return err
		}
		if err := p.Fence(c.ctx, true); err != nil {
			return err
		}
		if err := c.getAll(p, "large", large, client.GetOptions{Immediate: true}); err != nil {
			return err
		}
		if err := c.put(p, "later", later(rank)); err != nil {
			return err
		}
		return c.getAll(p, "later", later, client.GetOptions{})
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// Fences of several sets of processes are under way at once.
func TestFencesOfManySets(t *testing.T) {
	c := start(t, 3, 2)
	var g []int // each rank, in each of its sets
	for rank := range c.clients {
		g = append(g, rank)
	}
	sets := [][]int{{0, 1, 2, 3, 4, 5}, {0, 2}, {1, 3}, {0, 5}, {2, 3, 4}, {1, 2, 5}}
	for rank, err := range c.each(g, func(rank int, p *client.Client) error {
		done := make(chan error, len(sets))
		mine := 0
		for _, set := range sets {
			var procs []codec.Proc
			in := false
			for _, r := range set {
				procs = append(procs, proc(r))
				in = in || r == rank
			}
			if !in {
				continue
			}
			mine++
			go func() {
				for range 20 {
					if err := p.FenceProcs(c.ctx, procs, client.FenceOptions{}); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		var all []error
		for range mine {
			all = append(all, <-done)
		}
		return errors.Join(all...)
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// A request for data of a process on another node waits until the process has committed it.
func TestFetchAcrossNodes(t *testing.T) {
	c := start(t, 2, 1)
	got := make(chan error, 1)
	go func() {
		v, err := c.clients[0].Get(c.ctx, proc(1), "late", client.GetOptions{})
		if err == nil && v != codec.StringValue("here") {
			err = fmt.Errorf("got %v, want here", v)
		}
		got <- err
	}()
	if _, err := c.clients[1].Get(c.ctx, proc(0), "never", client.GetOptions{Timeout: time.Millisecond}); !errors.Is(err, client.ErrTimeout) {
		t.Errorf("get of nothing: %v, want ErrTimeout", err)
	}
	if err := c.put(c.clients[1], "late", "here"); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	go func() {
		_, err := c.clients[0].Get(c.ctx, proc(1), "never", client.GetOptions{})
		got <- err
	}()
	c.killNode(1)
	if err := <-got; !errors.Is(err, client.ErrProcFailed) {
		t.Errorf("get from a node that dies: %v, want ErrProcFailed", err)
	}
	if _, err := c.clients[0].Get(c.ctx, proc(1), "more", client.GetOptions{}); !errors.Is(err, client.ErrProcFailed) {
		t.Errorf("get from a node that has died: %v, want ErrProcFailed", err)
	}
}

// A process or a node that dies before a fence, in it or after it: the fence ends alike for all that live.
func TestDeathsAcrossNodes(t *testing.T) {
	for _, c := range []struct {
		name    string
		perNode int
		kill    func(c *cluster)
		dead    func(rank int) bool
	}{
		{"process", 2, func(c *cluster) { c.killProc(2) }, func(rank int) bool { return rank == 2 }},
		{"only process of a node", 1, func(c *cluster) { c.killProc(1) }, func(rank int) bool { return rank == 1 }},
		{"node", 2, func(c *cluster) { c.killNode(1) }, func(rank int) bool { return rank/2 == 1 }},
		{"first node", 2, func(c *cluster) { c.killNode(0) }, func(rank int) bool { return rank/2 == 0 }},
	} {
		for _, when := range []string{"before", "in", "after"} {
			t.Run(c.name+" "+when, func(t *testing.T) {
				t.Parallel()
				cl := start(t, 3, c.perNode)
				live := cl.but(c.dead)
				joining := make(chan struct{}, 2*len(live))
				killed := make(chan struct{})
				switch when {
				case "before":
					c.kill(cl)
				case "in":
					go func() {
						defer close(killed)
						for range live {
							<-joining
						}
						c.kill(cl)
					}()
				case "after":
					cl.expect(cl.but(nobody), nil, nil)
					c.kill(cl)
				}
				cl.expect(live, joining, client.ErrProcFailed)
				if when == "in" {
					<-killed
				}
				cl.expect(live, joining, client.ErrProcFailed)
			})
		}
	}
}

// expect lets some ranks call a fence of all, and wants all of them to end with an error. They say when they call.
func (c *cluster) expect(ranks []int, calling chan<- struct{}, want error) {
	c.t.Helper()
	for rank, err := range c.each(ranks, func(_ int, p *client.Client) error {
		if calling != nil {
			calling <- struct{}{}
		}
		return p.Fence(c.ctx, false)
	}) {
		if !errors.Is(err, want) {
			c.t.Errorf("rank %d: fence ends with %v, want %v", rank, err, want)
		}
	}
}

// A node dies while fence follows upon fence. All survivors have had the same number of good ones.
func TestNodeDiesAtAnyTime(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			c := start(t, 3, 1)
			dead, after := rng.IntN(3), rng.IntN(200)
			live := c.but(func(rank int) bool { return rank == dead })
			counts := make([]int, len(c.clients))
			for rank, err := range c.each(c.but(nobody), func(rank int, p *client.Client) error {
				for {
					if rank == dead && counts[rank] == after {
						c.killNode(dead)
					}
					if err := p.Fence(c.ctx, false); err != nil {
						return err
					}
					counts[rank]++
				}
			}) {
				if rank != dead && !errors.Is(err, client.ErrProcFailed) {
					t.Errorf("rank %d: %v, want ErrProcFailed", rank, err)
				}
			}
			if counts[live[0]] != counts[live[1]] || counts[live[0]] < after {
				t.Errorf("survivors had %d and %d good fences, want the same number of at least %d", counts[live[0]], counts[live[1]], after)
			}
		})
	}
}

// A deadline of one participant ends the fence for all, also for one that joins later.
func TestDeadlineForAllNodes(t *testing.T) {
	t.Parallel()
	c := start(t, 3, 1)
	for rank, err := range c.each([]int{0, 1}, func(rank int, p *client.Client) error {
		opts := client.FenceOptions{}
		if rank == 0 {
			opts.Timeout = time.Second
		}
		return p.FenceProcs(c.ctx, nil, opts)
	}) {
		if !errors.Is(err, client.ErrTimeout) {
			t.Errorf("rank %d: %v, want ErrTimeout", rank, err)
		}
	}
	c.expect([]int{2}, nil, client.ErrTimeout)
	c.expect([]int{0, 1, 2}, nil, nil)
}
