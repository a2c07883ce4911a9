package faulty

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/sim"
	"github.com/goshmem/goshmem/transport/transporttest"
)

// makeNodes returns the nodes of a network of package sim, each with faults.
func makeNodes(t *testing.T, net sim.Config, cfg Config) (all []transport.Transport) {
	t.Helper()
	n, err := sim.New(net)
	if err != nil {
		t.Fatal(err)
	}
	for i := range net.Nodes {
		cfg.Seed++
		all = append(all, New(n.Node(i), cfg))
	}
	return all
}

// Without cuts the suite holds, with and without delays.
func TestConformance(t *testing.T) {
	for _, delay := range []int{0, 5} {
		t.Run(fmt.Sprint("delay ", delay), func(t *testing.T) {
			transporttest.Run(t, transporttest.Config{Bulk: 8 << 20, Buffered: 4 << 20, Make: func(t *testing.T, n int) []transport.Transport {
				return makeNodes(t, sim.Config{Nodes: n}, Config{Delay: delay, Log: t.Logf})
			}})
		})
	}
}

// With cuts nothing crosses the end of a connection.
func TestStorm(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			all := makeNodes(t, sim.Config{Nodes: 3, Seed: seed, Cuts: 100}, Config{Seed: seed, Cuts: 50, Delay: 6, Log: t.Logf})
			transporttest.Storm(t, all, seed, 0)
		})
	}
}

// Events of different lanes change places, and the seed is printed.
func TestReorders(t *testing.T) {
	var log strings.Builder
	all := makeNodes(t, sim.Config{Nodes: 3, Steps: 64}, Config{Delay: 20, Seed: 41, Log: func(f string, args ...any) { fmt.Fprintf(&log, f, args...) }})
	if !strings.Contains(log.String(), "seed 42") {
		t.Errorf("log %q, want the seed", log.String())
	}
	var order []string
	for round := range 40 {
		for node := 1; node < 3; node++ {
			if err := all[0].Post(node, transport.Out, uint64(round), []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		for range 60 {
			for i, tr := range all {
				events, err := tr.Poll(nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range events {
					if i == 0 && e.Kind == transport.Sent {
						order = append(order, fmt.Sprint(e.Node))
					}
				}
			}
		}
	}
	if text := strings.Join(order, ""); !strings.Contains(text, "11") || !strings.Contains(text, "22") {
		t.Errorf("sent to nodes %q, want some pairs out of order", text)
	}
	for _, tr := range all {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}
