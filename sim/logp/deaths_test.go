package logp

import (
	"fmt"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/coll/tree"
)

// forEachTree calls f for every tree with up to most nodes that the published machines can have.
func forEachTree(most int, f func(tree.LevelsConfig)) {
	for n := 2; n <= most; n++ {
		for _, shape := range []tree.Shape{tree.KNomial, tree.KAry} {
			for k := 1; k <= n; k++ {
				for _, multi := range []bool{false, true} {
					if k == 1 && (shape == tree.KNomial || multi) {
						continue
					}
					f(tree.LevelsConfig{N: n, K: k, Shape: shape, MultiRoot: multi})
				}
			}
		}
	}
}

// TestNoQuestionsWithoutFailures: a reduction and a broadcast send DATA and ACK once for each node
// except the first, with one root and with several. No node sends a KEEPALIVE, because there is
// nothing to find out.
func TestNoQuestionsWithoutFailures(t *testing.T) {
	t.Parallel()
	most := 40
	if testing.Short() {
		most = 16
	}
	forEachTree(most, func(lc tree.LevelsConfig) {
		for _, kind := range []ftco.Kind{ftco.Reduce, ftco.Bcast} {
			for _, service := range []ftco.ServiceDistance{ftco.RSD, ftco.DISD} {
				s := &spy{Published: newPublished(t, config{tree: lc, kind: kind, service: service})}
				r := run(t, s, Config{Nodes: lc.N, Root: kind == ftco.Reduce})
				if s.sent[ftco.PubKeepAlive] != 0 || r.Messages != int64(2*(lc.N-1)) {
					t.Errorf("kind %d, %+v: sent %v DATA, KEEPALIVE and ACK, want %d, none and %d", kind, lc, s.sent[1:], lc.N-1, lc.N-1)
				}
			}
		}
	})
}

// deaths tries all deaths in a group at all times.
type deaths struct {
	tb         testing.TB
	c          config
	s          *spy
	e          *Engine[ftco.PubMsg]
	cfg        Config
	said       []bool // said[v]: node v has sent DATA in this run
	falseClaim string // what a node claimed in this run but cannot know
	runs       int
	hung       int // runs without an end
}

func newDeaths(tb testing.TB, c config, latency int32) *deaths {
	tb.Helper()
	l, err := tree.NewLevels(c.tree)
	if err != nil {
		tb.Fatal(err)
	}
	g, err := ftco.NewPublishedGroup(ftco.PublishedConfig{Tree: l, Collective: c.kind, Latency: latency, Service: c.service})
	if err != nil {
		tb.Fatal(err)
	}
	d := &deaths{
		tb: tb, c: c, s: &spy{Published: NewPublished(g)}, said: make([]bool, c.tree.N),
		cfg: Config{Nodes: c.tree.N, Latency: latency, Root: c.kind == ftco.Reduce, Limit: 1 << 12},
	}
	d.e = NewEngine(Driver[ftco.PubMsg](d.s))
	var nodes []ftco.Node
	d.s.trace = func(v, now int32, m *Move[ftco.PubMsg]) {
		if m.Kind != Sent || m.Msg.Kind != ftco.PubData || c.kind == ftco.Bcast {
			return
		}
		nodes = g.Accounted(&m.Msg, nodes[:0])
		for _, w := range nodes {
			if w != v && !d.said[w] && !d.dead(w, now) {
				d.falseClaim = fmt.Sprintf("in step %d node %d accounts for node %d, which lives and has sent no DATA", now, v, w)
			}
		}
		d.said[v] = true
	}
	return d
}

// dead reports whether v is dead in a step.
func (d *deaths) dead(v, step int32) bool {
	return slices.ContainsFunc(d.cfg.Deaths, func(x Death) bool { return x.Node == v && x.Step <= step })
}

// try makes the run with the present deaths, and then those with up to more later ones: of each
// node, in each step until the run is over. A death after the end changes nothing.
func (d *deaths) try(more int) {
	if d.tb.Failed() { // one report is enough
		return
	}
	clear(d.said)
	d.falseClaim = ""
	d.s.Reset(1)
	d.runs++
	r, err := d.e.Run(d.cfg)
	if err != nil {
		d.hung++
		if d.c.kind != ftco.Allreduce || len(d.cfg.Deaths) < 2 {
			d.tb.Errorf("%+v, latency %d, deaths %+v: %v", d.c.tree, d.cfg.Latency, d.cfg.Deaths, err)
		}
		return
	}
	if d.falseClaim != "" {
		d.tb.Errorf("%+v, latency %d, deaths %+v: %s", d.c.tree, d.cfg.Latency, d.cfg.Deaths, d.falseClaim)
	}
	for v := range int32(d.cfg.Nodes) {
		m := d.s.Member(v)
		returns := !d.dead(v, r.Steps) && (v != 0 || d.cfg.Root)
		whole := m.Returned() && (d.c.kind == ftco.Allreduce || d.c.kind == ftco.Reduce && v == 0)
		if returns && !m.Returned() || whole && !m.Complete() {
			d.tb.Errorf("%+v, latency %d, deaths %+v: node %d returned %v, accounts for all %v",
				d.c.tree, d.cfg.Latency, d.cfg.Deaths, v, m.Returned(), m.Complete())
		}
	}
	if more == 0 {
		return
	}
	first := int32(Inactive)
	if n := len(d.cfg.Deaths); n > 0 {
		first = d.cfg.Deaths[n-1].Step
	}
	for v := int32(1); v < int32(d.cfg.Nodes); v++ {
		if d.dead(v, r.Steps) {
			continue
		}
		for step := first; step <= r.Steps; step++ {
			d.cfg.Deaths = append(d.cfg.Deaths, Death{v, step})
			d.try(more - 1)
			d.cfg.Deaths = d.cfg.Deaths[:len(d.cfg.Deaths)-1]
		}
	}
}

// TestWhoeverDies runs the collectives of small groups with every death of any node except the
// first at every time, with every two deaths, and among four nodes with every three. Reductions
// and broadcasts always end, and every result accounts for all nodes. An allreduce as published
// does so with one death; docs/ftco.md says when it does not with two. The latency is short,
// because it multiplies the number of times.
func TestWhoeverDies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind               ftco.Kind
		nodes, few, deaths int // few: with -short
		hung, hungOfFew    int // runs without an end
	}{
		{ftco.Reduce, 6, 4, 2, 0, 0},
		{ftco.Reduce, 4, 3, 3, 0, 0},
		{ftco.Bcast, 6, 5, 2, 0, 0},
		{ftco.Bcast, 4, 3, 3, 0, 0},
		{ftco.Allreduce, 6, 5, 1, 0, 0},
		{ftco.Allreduce, 5, 4, 2, 114, 38},
	} {
		t.Run(fmt.Sprintf("kind %d, %d nodes, %d deaths", c.kind, c.nodes, c.deaths), func(t *testing.T) {
			t.Parallel()
			most, want, runs, hung := c.nodes, c.hung, 0, 0
			if testing.Short() {
				most, want = c.few, c.hungOfFew
			}
			forEachTree(most, func(lc tree.LevelsConfig) {
				for latency := int32(1); latency <= 2; latency++ {
					d := newDeaths(t, config{tree: lc, kind: c.kind, service: ftco.DISD}, latency)
					d.try(c.deaths)
					runs, hung = runs+d.runs, hung+d.hung
				}
			})
			t.Logf("%d runs, %d without an end", runs, hung)
			if hung != want {
				t.Errorf("%d of %d runs have no end, want %d", hung, runs, want)
			}
		})
	}
}
