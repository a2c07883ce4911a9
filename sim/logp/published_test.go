package logp

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/coll/tree"
)

// config is the configuration of a test's machines.
type config struct {
	tree    tree.LevelsConfig
	kind    ftco.Kind
	service ftco.ServiceDistance
	seed    uint64
}

func newPublished(tb testing.TB, c config) *Published {
	tb.Helper()
	l, err := tree.NewLevels(c.tree)
	if err != nil {
		tb.Fatal(err)
	}
	if c.kind == 0 {
		c.kind = ftco.Allreduce
	}
	g, err := ftco.NewPublishedGroup(ftco.PublishedConfig{Tree: l, Collective: c.kind, Latency: 10, Service: c.service, Seed: c.seed})
	if err != nil {
		tb.Fatal(err)
	}
	return NewPublished(g)
}

func run(tb testing.TB, d Driver[ftco.PubMsg], cfg Config) Result {
	tb.Helper()
	cfg.Latency = 10
	r, err := NewEngine(d).Run(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// spy counts by kind what the nodes send.
type spy struct {
	*Published
	sent  [4]int
	trace func(v, now int32, m *Move[ftco.PubMsg])
}

func (s *spy) Turn(v, now int32, out *Move[ftco.PubMsg]) {
	s.Published.Turn(v, now, out)
	if out.Kind == Sent {
		s.sent[out.Msg.Kind]++
	}
	if s.trace != nil && out.Kind != Idle {
		s.trace(v, now, out)
	}
}

// Section 5.2: "A message sent from one node arrives after L+o steps into the
// incoming queue of another node." Two roots: sent in step 0, handled in step 11,
// done in step 12.
func TestModelByHand(t *testing.T) {
	t.Parallel()
	r := run(t, newPublished(t, config{tree: tree.LevelsConfig{N: 2, K: 2, MultiRoot: true}}), Config{Nodes: 2})
	if want := (Result{Latency: 12, Messages: 3, MaxQueue: 1, Steps: 12}); r != want {
		t.Errorf("two roots: got %+v, want %+v", r, want)
	}
	r = run(t, newPublished(t, config{tree: tree.LevelsConfig{N: 2, K: 2}, kind: ftco.Bcast}), Config{Nodes: 2})
	if r.Latency != 12 || r.Messages != 2 {
		t.Errorf("broadcast to one: got %+v, want 12 steps, DATA and ACK", r)
	}
	r = run(t, newPublished(t, config{tree: tree.LevelsConfig{N: 2, K: 2}, kind: ftco.Reduce}), Config{Nodes: 2, Root: true})
	if r.Latency != 12 {
		t.Errorf("reduction from one: got %+v, want 12 steps", r)
	}
}

// Figures 1 and 2: DATA goes before ACK; "the ACK send overlaps with the wait for
// the parent's ACK". Node 1 of a chain of three, in a reduction and a broadcast.
func TestMessageFlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind ftco.Kind
		want []ftco.PubMsgKind // handled or sent by node 1
	}{
		{ftco.Reduce, []ftco.PubMsgKind{ftco.PubData, ftco.PubData, ftco.PubAck, ftco.PubAck}},
		{ftco.Bcast, []ftco.PubMsgKind{ftco.PubData, ftco.PubData, ftco.PubAck, ftco.PubAck}},
	} {
		var got []ftco.PubMsgKind
		s := &spy{Published: newPublished(t, config{tree: tree.LevelsConfig{N: 4, K: 1, Shape: tree.KAry}, kind: c.kind})}
		s.trace = func(v, _ int32, m *Move[ftco.PubMsg]) {
			if v == 1 && m.Kind == Sent {
				got = append(got, m.Msg.Kind)
			}
		}
		run(t, s, Config{Nodes: 4, Root: c.kind == ftco.Reduce})
		if len(got) != 2 || got[0] != ftco.PubData || got[1] != ftco.PubAck {
			t.Errorf("kind %d: node 1 sent %v, want DATA, then ACK", c.kind, got)
		}
	}
}

// Section 5.2.2: "in a fault-free run, each node sends on average 3 messages", and none of them is
// a KEEPALIVE; without fault tolerance it is 2.
func TestFaultFreeCost(t *testing.T) {
	t.Parallel()
	const n = 4096
	s := &spy{Published: newPublished(t, config{tree: tree.LevelsConfig{N: n, K: 9, MultiRoot: true}})}
	with := run(t, s, Config{Nodes: n})
	if s.sent[ftco.PubKeepAlive] != 0 || s.sent[ftco.PubData] != 2*(n-9)+9*8 || with.Messages != 12296 {
		t.Errorf("%d messages: %v of each kind, want no KEEPALIVE, %d DATA, 12296 in all", with.Messages, s.sent, 2*(n-9)+9*8)
	}
	without := run(t, newPublished(t, config{tree: tree.LevelsConfig{N: n, K: 9, MultiRoot: true}, service: ftco.NoService}), Config{Nodes: n})
	if without.Messages != 2*(n-9)+9*8 {
		t.Errorf("without service: %d messages, want %d", without.Messages, 2*(n-9)+9*8)
	}
	// Section 3: "differs in latency by one ACK compared to the fault-free algorithm".
	if d := with.Latency - without.Latency; d < 0 || d > 1 {
		t.Errorf("latency %d, without service %d, want a difference of at most one step", with.Latency, without.Latency)
	}
}

// TestNoAllocation: after the first run, runs without failures do not allocate.
func TestNoAllocation(t *testing.T) {
	for _, kind := range []ftco.Kind{ftco.Allreduce, ftco.Reduce, ftco.Bcast} {
		p := newPublished(t, config{tree: tree.LevelsConfig{N: 1024, K: 11, MultiRoot: true}, kind: kind})
		e := NewEngine(Driver[ftco.PubMsg](p))
		again := func() {
			p.Reset(1)
			if _, err := e.Run(Config{Nodes: 1024, Latency: 10}); err != nil {
				t.Fatal(err)
			}
		}
		again()
		if a := testing.AllocsPerRun(10, again); a != 0 {
			t.Errorf("kind %d: %v allocations a run, want none", kind, a)
		}
	}
}

// randomRun draws a run in which nodes die at any time and start late.
func randomRun(r *rand.Rand) (config, Config) {
	shape := tree.KNomial
	if r.IntN(2) == 0 {
		shape = tree.KAry
	}
	n := 2 + r.IntN(60)
	c := config{
		tree:    tree.LevelsConfig{N: n, K: 2 + r.IntN(min(n-1, 8)), Shape: shape, MultiRoot: r.IntN(2) == 0},
		kind:    []ftco.Kind{ftco.Allreduce, ftco.Bcast, ftco.Reduce}[r.IntN(3)],
		service: ftco.ServiceDistance(r.IntN(2)), seed: r.Uint64(),
	}
	cfg := Config{Nodes: n, Limit: 1 << 16, Root: c.kind == ftco.Reduce}
	for range r.IntN(min(n, 8)) {
		cfg.Deaths = append(cfg.Deaths, Death{1 + r.Int32N(int32(n-1)), r.Int32N(250) - 20})
	}
	if r.IntN(2) == 0 {
		cfg.Starts = make([]int32, n)
		for i := range cfg.Starts {
			cfg.Starts[i] = r.Int32N(200)
		}
	}
	return c, cfg
}

// Definition 3.2: RemainingNodes are among ReducedNodes. Section 2: "correctness and termination".
// Survivors return and account for all nodes, so their contributions are included; dead nodes
// either contributed or were found dead.
func TestPublishedEnds(t *testing.T) {
	t.Parallel()
	runs := 6000
	if testing.Short() {
		runs = 1500
	}
	seeds := []uint64{6613, 16404, 26319, 27528, 27882, 64689} // an orphan accounts for another dead root
	for seed := range uint64(runs) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		c, cfg := randomRun(rand.New(rand.NewPCG(seed, 1)))
		p := newPublished(t, c)
		cfg.Latency = 10
		if _, err := NewEngine(Driver[ftco.PubMsg](p)).Run(cfg); err != nil {
			t.Errorf("seed %d: kind %d %+v %+v: %v", seed, c.kind, c.tree, cfg.Deaths, err)
			continue
		}
		dead := map[int32]bool{}
		for _, d := range cfg.Deaths {
			dead[d.Node] = true
		}
		for v := range int32(cfg.Nodes) {
			m := p.Member(v)
			result := c.kind == ftco.Allreduce && m.Returned() || c.kind == ftco.Reduce && v == 0
			if !dead[v] && (v != 0 && !m.Returned() || result && !m.Complete()) {
				t.Errorf("seed %d: %+v: node %d returned %v, accounts for all %v", seed, c, v, m.Returned(), m.Complete())
			}
		}
	}
}

// TestEngineRefuses: a run that cannot end is an error.
func TestEngineRefuses(t *testing.T) {
	t.Parallel()
	p := newPublished(t, config{tree: tree.LevelsConfig{N: 4, K: 2}, service: ftco.NoService})
	_, err := NewEngine(Driver[ftco.PubMsg](p)).Run(Config{Nodes: 4, Latency: 10, Deaths: []Death{{3, Inactive}}})
	if !errors.Is(err, ErrStuck) {
		t.Errorf("a death without fault tolerance: %v, want ErrStuck", err)
	}
	for _, cfg := range []Config{{Nodes: 0, Latency: 10}, {Nodes: 4}, {Nodes: 4, Latency: 10, Starts: make([]int32, 3)}, {Nodes: 4, Latency: 10, Deaths: []Death{{0, 1}}}} {
		if _, err := NewEngine(Driver[ftco.PubMsg](p)).Run(cfg); err == nil || errors.Is(err, ErrStuck) {
			t.Errorf("%+v: error %v, want one that is not ErrStuck", cfg, err)
		}
	}
}

// The printed algorithm and the published figures differ: Algorithm 4, line 21, asks only the
// nodes whose DATA has not arrived; Algorithm 1 reads messages before it looks for faults. The
// former sends fewer messages than published, and the latter has shorter queues.
func TestPrintedChoices(t *testing.T) {
	t.Parallel()
	const n = 4096
	l, err := tree.NewLevels(tree.LevelsConfig{N: n, K: 9, MultiRoot: true})
	if err != nil {
		t.Fatal(err)
	}
	starts := make([]int32, n)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range starts {
		starts[i] = r.Int32N(256)
	}
	results := map[string]Result{}
	for name, cfg := range map[string]ftco.PublishedConfig{
		"as published":    {},
		"printed suspect": {PrintedSuspect: true},
		"printed order":   {PrintedOrder: true},
	} {
		cfg.Tree, cfg.Collective, cfg.Latency, cfg.Seed = l, ftco.Allreduce, 10, 1
		g, err := ftco.NewPublishedGroup(cfg)
		if err != nil {
			t.Fatal(err)
		}
		results[name] = run(t, NewPublished(g), Config{Nodes: n, Starts: starts})
	}
	base := results["as published"]
	if s := results["printed suspect"]; s.Messages*10 > base.Messages*8 {
		t.Errorf("printed suspect: %d messages, else %d, want at least a fifth less", s.Messages, base.Messages)
	}
	if s := results["printed order"]; 2*s.MaxQueue > base.MaxQueue || s.Latency-base.Latency > 3 || base.Latency-s.Latency > 3 {
		t.Errorf("printed order: queue %d, latency %d, else %d and %d, want half the queue and the same latency", s.MaxQueue, s.Latency, base.MaxQueue, base.Latency)
	}
}

// TestShippedEnds: the machine that programs use always ends under the same rules, with any
// failures except that of node 0.
func TestShippedEnds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 2))
		c, cfg := randomRun(r)
		s, err := NewShipped(ShippedConfig{N: cfg.Nodes, Radix: c.tree.K, Call: ftco.Call{Kind: c.kind}, Detection: 1 + r.Int32N(200)})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Latency = 10
		if _, err := NewEngine(Driver[ShippedMsg](s)).Run(cfg); err != nil {
			t.Errorf("seed %d: kind %d %+v: %v", seed, c.kind, cfg, err)
		}
	}
}

// Section 4, "Data Propagation Disruptions": "the fourth node would send a
// KEEPALIVE messages to the third node once the waiting period elapses. In the
// absence of an ACK ..., it will send a KEEPALIVE to the second node. After another
// timeout, it will send a KEEPALIVE to the first node, which responds with DATA and
// resumes the operation." The third is dead from the start; the second dies right
// after its ACK to the first.
func TestDisruption(t *testing.T) {
	t.Parallel()
	s := &spy{Published: newPublished(t, config{tree: tree.LevelsConfig{N: 4, K: 1, Shape: tree.KAry}, kind: ftco.Bcast})}
	var fourth []int32 // the nodes that it asks
	var resumed bool
	s.trace = func(v, _ int32, m *Move[ftco.PubMsg]) {
		if v == 3 && m.Kind == Sent && m.Msg.Kind == ftco.PubKeepAlive {
			fourth = append(fourth, m.To)
		}
		resumed = resumed || v == 0 && m.Kind == Sent && m.To == 3 && m.Msg.Kind == ftco.PubData
	}
	r := run(t, s, Config{Nodes: 4, Deaths: []Death{{2, Inactive}, {1, 14}}})
	if len(fourth) != 3 || fourth[0] != 2 || fourth[1] != 1 || fourth[2] != 0 || !resumed {
		t.Errorf("the fourth node asked %v, want 2, 1, 0; the first sent it DATA: %v", fourth, resumed)
	}
	// Its ETA is 36, and each timeout on the way is 20 plus one interval of the peer.
	if r.Latency < 36+2*24 || r.Latency > 36+3*40 {
		t.Errorf("latency %d, want the ETA and two timeouts", r.Latency)
	}
}

// Section 3, Figure 3: a node that does not answer DATA is circumvented: "resend the same message
// to either the parent or all the children of the failed node". "In the worst case, going down the
// tree may lead to sending messages to every node in the subtree"; going up leads to the root. All
// nodes between the ends of a chain are dead.
func TestDataTimeout(t *testing.T) {
	t.Parallel()
	for kind, want := range map[ftco.Kind][4]int32{ftco.Bcast: {0, 1, 2, 3}, ftco.Reduce: {3, 2, 1, 0}} {
		s := &spy{Published: newPublished(t, config{tree: tree.LevelsConfig{N: 4, K: 1, Shape: tree.KAry}, kind: kind})}
		got := want[:1:1] // the nodes that have the value or get it sent
		s.trace = func(v, _ int32, m *Move[ftco.PubMsg]) {
			if v == want[0] && m.Kind == Sent && m.Msg.Kind == ftco.PubData {
				got = append(got, m.To)
			}
		}
		r := run(t, s, Config{Nodes: 4, Root: kind == ftco.Reduce, Deaths: []Death{{1, Inactive}, {2, Inactive}}})
		if !slices.Equal(got, want[:]) || r.Dead != 2 {
			t.Errorf("kind %d: DATA along %v, %+v, want along %v past two dead nodes", kind, got, r, want)
		}
	}
}

// Appendix B: "a node with a delayed start time ... to distinguish node failure from late
// arrival": a late leaf delays the run, and no node gives it up or goes on without it.
func TestLateIsNotDead(t *testing.T) {
	t.Parallel()
	starts := make([]int32, 27)
	starts[26] = 5000
	s := &spy{Published: newPublished(t, config{tree: tree.LevelsConfig{N: 27, K: 3}})}
	r := run(t, s, Config{Nodes: 27, Starts: starts})
	if r.Dead != 0 || r.Steps < 5000 || r.Latency > 120 || s.sent[ftco.PubKeepAlive] < 100 {
		t.Errorf("a leaf 5000 steps late: got %+v, sent %v; want the others to wait for it and ask it", r, s.sent)
	}
}
