package detectbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/lab/labtest"
	"github.com/goshmem/goshmem/internal/lab/rerun"
)

func nodeOptions() NodeOptions {
	return NodeOptions{Samples: 3, Nodes: 3, PEs: 4, Watchdog: Best, Tiers: []string{"bpf", "pidfd"}, Cases: []string{"pe", "random:2"}}
}

func TestCheckNodes(t *testing.T) {
	t.Parallel()
	labtest.CheckRefuses(t, nodeOptions, (*NodeOptions).Check, map[string]func(o *NodeOptions){
		"--samples: 0, want 1 to":                 func(o *NodeOptions) { o.Samples = 0 },
		"--emulate: 65, want 2 to 64 nodes":       func(o *NodeOptions) { o.Nodes, o.PEs = 65, 65 },
		"-n: 2 PEs on 3 nodes, want a PE on each": func(o *NodeOptions) { o.PEs = 2 },
		"-n: 1025": func(o *NodeOptions) { o.PEs = 1025 },
		`--watchdog: "all", want best or bpf, pidfd`: func(o *NodeOptions) { o.Watchdog = All },
		`--heartbeat-tier: "x", want some of kernel`: func(o *NodeOptions) { o.HeartbeatTiers = []string{"user", "x"} },
		"--heartbeat-period: 0s, want more than 0":   func(o *NodeOptions) { o.HeartbeatPeriods = []time.Duration{1, 0} },
		"--lease: 11m0s, want at most 10m0s":         func(o *NodeOptions) { o.Lease = 11 * time.Minute },
		"--calm: 25h0m0s, want at most 24h":          func(o *NodeOptions) { o.Calm = 25 * time.Hour },
		"--loss: 91, want a percentage from 0 to 90": func(o *NodeOptions) { o.Loss, o.Apart = 91, true },
		"--loss: NaN, want a percentage":             func(o *NodeOptions) { o.Loss, o.Apart = math.NaN(), true },
		"--loss: 5 loses packets between":            func(o *NodeOptions) { o.Loss = 5 },
		`--cases: "cut" takes the interface`:         func(o *NodeOptions) { o.Cases = []string{"cut"} },
		`--cases: "random:3", want a number`:         func(o *NodeOptions) { o.Cases = []string{"random:3"} },
	})
}

// TestDefaultCases: without a list, the cases are those that take no number and that the nodes can have.
func TestDefaultCases(t *testing.T) {
	t.Parallel()
	for apart, want := range map[bool]string{false: "pe daemon agent node", true: "pe daemon agent node cut"} {
		o := NodeOptions{Nodes: 3, Apart: apart}
		cases, err := o.cases()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range cases {
			names = append(names, cases[i].Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("networks: %t: %s, want %s", apart, got, want)
		}
	}
}

// TestNoVictims: in the case none nobody fails, and whatever survivors report is false.
func TestNoVictims(t *testing.T) {
	t.Parallel()
	c, err := findNodeCase("none", 3)
	if err != nil {
		t.Fatal(err)
	}
	v := c.choose(rand.New(rand.NewPCG(1, 0)), 3, 4)
	if back, err := parseVictims(v.String()); err != nil || len(v.pes([]int{0, 1, 2})) > 0 || back.String() != v.String() {
		t.Errorf("victims %v, %v, %v", v, back, err)
	}
	r := Result{}
	r.addNodes(&nodeTrial{nodes: []int{0, 1, 2}, seen: []*nodeSeen{{}, {Page: []int{1}}, nil}, accused: 1})
	if r.fillSpreads(); r.False != 2 || r.Missed != 1 || r.Last != nil {
		t.Errorf("%+v, want a false page, a false message and a PE without a report", r)
	}
}

// nodeMachine plays jobs.
type nodeMachine struct {
	lacks string // a tier
	calls []string
	err   error
}

func (m *nodeMachine) runTrial(_ context.Context, c NodeCase, s setting) (*nodeTrial, error) {
	m.calls = append(m.calls, fmt.Sprint(c.Name, " ", s.tier, " ", s.period))
	switch {
	case m.lacks != "" && s.tier == m.lacks:
		return nil, &rerun.FailedError{Command: "oshrun", Status: 4, Said: "oshrun: tier " + s.tier + " takes CAP_BPF\nhint: none\n"}
	case m.err != nil:
		return nil, m.err
	}
	return goodNodeTrial(), nil
}

func (m *nodeMachine) measure(t *testing.T, o NodeOptions) (*Report, error) {
	t.Helper()
	b := &nodeBench{NodeOptions: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	return b.measure(t.Context(), m.runTrial)
}

// TestNodeOrder: cases and settings are shuffled, in the same order for the same seed.
func TestNodeOrder(t *testing.T) {
	t.Parallel()
	labtest.SeedOrders(t, func(seed uint64) []string {
		o := nodeOptions()
		o.Seed, o.Samples, o.HeartbeatPeriods = seed, 10, []time.Duration{time.Millisecond, time.Second}
		m := &nodeMachine{}
		if _, err := m.measure(t, o); err != nil {
			t.Fatal(err)
		}
		return m.calls
	})
}

// TestSettings: each tier with each period has rows of its own, and a tier that cannot be had says why if there are others.
func TestSettings(t *testing.T) {
	t.Parallel()
	o := nodeOptions()
	o.HeartbeatTiers, o.HeartbeatPeriods = []string{"kernel", "user", "user"}, []time.Duration{50 * time.Millisecond, 100 * time.Millisecond}
	r, err := (&nodeMachine{lacks: "kernel"}).measure(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cases) != 2*2*2 {
		t.Errorf("%d rows, want those of 2 cases, 2 tiers and 2 periods", len(r.Cases))
	}
	for _, c := range r.Cases {
		switch {
		case c.Tier == "kernel" && (c.NotHere != "tier kernel takes CAP_BPF" || c.Samples != 0):
			t.Errorf("%+v, want why there is no tier kernel", c)
		case c.Tier == "user" && (c.NotHere != "" || c.Samples != 3 || c.Period != 50 && c.Period != 100):
			t.Errorf("%+v, want 3 samples", c)
		}
	}
	o.HeartbeatTiers = []string{"kernel"}
	if _, err := (&nodeMachine{lacks: "kernel"}).measure(t, o); err == nil || !strings.Contains(err.Error(), "takes CAP_BPF") {
		t.Errorf("the only tier: %v, want why there is none", err)
	}
	bad := errors.New("no such job")
	if _, err := (&nodeMachine{err: bad}).measure(t, nodeOptions()); !errors.Is(err, bad) || !strings.Contains(err.Error(), ", oshrun, tier default: ") {
		t.Errorf("job that fails: %v, want that error and its case", err)
	}
}

// TestVictims: victims are of the number and the kind that the case has, all of them are drawn at times, and the program of
// the PEs reads them.
func TestVictims(t *testing.T) {
	t.Parallel()
	const nodes = 5
	nodeOf := []int{0, 0, 1, 2, 3, 4}
	rng := rand.New(rand.NewPCG(1, 0))
	for name, want := range map[string]struct{ count, hit int }{"pe": {0, 6}, "node": {1, 5}, "contiguous:2": {2, 5}, "random:3": {3, 5}} {
		c, err := findNodeCase(name, nodes)
		if err != nil {
			t.Fatal(err)
		}
		hit := map[int]bool{}
		for range 200 {
			v := c.choose(rng, nodes, len(nodeOf))
			again, err := parseVictims(v.String())
			if err != nil || again.String() != v.String() || again.pe != v.pe {
				t.Fatalf("%v is read as %v, %v", v, again, err)
			}
			if len(v.nodes) != want.count || !slices.IsSorted(v.nodes) || len(slices.Compact(slices.Clone(v.nodes))) != want.count {
				t.Fatalf("%s: victims %v, want %d nodes", name, v, want.count)
			}
			if c.runs && v.nodes[1] != v.nodes[0]+1 {
				t.Fatalf("%s: victims %v, want neighbors", name, v)
			}
			dead := v.pes(nodeOf)
			if len(dead) == 0 || v.pe >= 0 && !slices.Equal(dead, []int{v.pe}) {
				t.Fatalf("%s: victims %v have the PEs %v", name, v, dead)
			}
			for _, node := range v.nodes {
				hit[node] = true
			}
			if v.pe >= 0 {
				hit[v.pe] = true
			}
		}
		if len(hit) != want.hit {
			t.Errorf("%s: %v are hit, want %d", name, hit, want.hit)
		}
	}
	if got := (victims{pe: -1, nodes: []int{0, 4}}).pes(nodeOf); !slices.Equal(got, []int{0, 1, 5}) {
		t.Errorf("PEs %v, want 0, 1 and 5", got)
	}
	for _, bad := range []string{"", "pe", "pe:x", "pe:1,2", "hosts:1", "nodes:"} {
		if v, err := parseVictims(bad); err == nil {
			t.Errorf("%q is read as %v", bad, v)
		}
	}
}

func TestNodeMainRefuses(t *testing.T) {
	t.Parallel()
	labtest.MainRefuses(t, Main, map[string][][]string{
		"part of oshrun detect-bench": {{nodesWord}, {nodesWord, "1s"}, {hybridWord}},
		`invalid duration "x"`:        {{nodesWord, "x", "pe:1"}},
		`victims "all"`:               {{nodesWord, "1s", "all"}},
	})
}
