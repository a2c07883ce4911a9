package ftco

import (
	"testing"

	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

// runLiteral runs Algorithms 1 to 4 in the LogP model with some nodes killed at given steps. It
// returns the values of the other nodes; hung says that some of them did not return.
func runLiteral(tb testing.TB, t *tree.Levels, cfg LiteralConfig, kill []int32) (values []int64, hung bool) {
	tb.Helper()
	const latency, limit = 10, 2000
	n := t.Len()
	type flight struct {
		to  Node
		msg LiteralMsg
	}
	flights := make([][]flight, limit+latency+2)
	nodes := make([]*Literal, n)
	for v := range nodes {
		cfg.Tree, cfg.Me, cfg.Latency, cfg.Value = t, Node(v), latency, 1<<(4*v)
		l, err := NewLiteral(cfg)
		if err != nil {
			tb.Fatal(err)
		}
		nodes[v] = l
	}
	for now := range int32(limit) {
		left := 0
		for _, f := range flights[now] {
			if kill[f.to] < 0 || kill[f.to] > now {
				nodes[f.to].Arrive(f.msg)
			}
		}
		for v, l := range nodes {
			if kill[v] >= 0 && kill[v] <= now {
				continue
			}
			if a := l.Turn(now); a.Kind == PubSend {
				at := now + latency + 1
				flights[at] = append(flights[at], flight{a.To, a.Msg})
			}
			if _, ok := l.Returned(); !ok && kill[v] < 0 {
				left++
			}
		}
		if left == 0 {
			break
		}
	}
	for v, l := range nodes {
		if kill[v] >= 0 {
			continue
		}
		x, ok := l.Returned()
		if !ok {
			return values, true
		}
		values = append(values, x)
	}
	return values, false
}

func anyDiffer(values []int64) bool {
	for _, v := range values {
		if v != values[0] {
			return true
		}
	}
	return false
}

// sweepLiteral kills one node other than the root at each of the first 81 steps.
func sweepLiteral(tb testing.TB, t *tree.Levels, cfg LiteralConfig) (total, inconsistent, hung int) {
	tb.Helper()
	for v := 1; v < t.Len(); v++ {
		for at := int32(0); at <= 80; at++ {
			kill := make([]int32, t.Len())
			for i := range kill {
				kill[i] = -1
			}
			kill[v] = at
			values, hangs := runLiteral(tb, t, cfg, kill)
			total++
			switch {
			case hangs:
				hung++
			case anyDiffer(values):
				inconsistent++
			}
		}
	}
	return total, inconsistent, hung
}

// Definition 3.2: "consistency means an equal result among all the active nodes". Algorithms 1 to
// 4 violate it: an orphan that finds only finished nodes, which are silent, climbs past them and
// past the root and returns its own partial sum. Nodes that go on serving add contributions twice
// or make others hang.
func TestLiteralBreaksItsDefinition(t *testing.T) {
	t.Parallel()
	testenv.SkipSerial(t)
	chain := tree.LevelsConfig{N: 4, K: 1, Shape: tree.KAry}
	binary := tree.LevelsConfig{N: 7, K: 2, Shape: tree.KAry}
	for _, c := range []struct {
		name              string
		tree              tree.LevelsConfig
		cfg               LiteralConfig
		total, bad, hangs int
	}{
		{"chain", chain, LiteralConfig{}, 243, 110, 0},
		{"binary", binary, LiteralConfig{}, 486, 81, 0},
		{"chain, strangers get ACKs", chain, LiteralConfig{AckStrangers: true}, 243, 72, 0},
		{"binary, strangers get ACKs", binary, LiteralConfig{AckStrangers: true}, 486, 53, 0},
		{"chain, serving", chain, LiteralConfig{AckStrangers: true, Serving: true}, 243, 48, 0},
		{"binary, serving", binary, LiteralConfig{AckStrangers: true, Serving: true}, 486, 51, 2},
	} {
		tr, err := tree.NewLevels(c.tree)
		if err != nil {
			t.Fatal(err)
		}
		total, bad, hangs := sweepLiteral(t, tr, c.cfg)
		if total != c.total || bad != c.bad || hangs != c.hangs {
			t.Errorf("%s: %d schedules, %d inconsistent, %d hung; want %d, %d and %d", c.name, total, bad, hangs, c.total, c.bad, c.hangs)
		}
	}
}

// Algorithm 2, line 12, as printed adds the result to the partial sum of nodes with one father, so
// the sum is wrong even without failures. The repaired version is right.
func TestLiteralWithoutFailures(t *testing.T) {
	t.Parallel()
	tr, err := tree.NewLevels(tree.LevelsConfig{N: 4, K: 1, Shape: tree.KAry})
	if err != nil {
		t.Fatal(err)
	}
	nobody := []int32{-1, -1, -1, -1}
	if values, hung := runLiteral(t, tr, LiteralConfig{}, nobody); hung || anyDiffer(values) || values[0] != 0x1111 {
		t.Errorf("repaired: %x, hung %v, want 1111 everywhere", values, hung)
	}
	if values, hung := runLiteral(t, tr, LiteralConfig{AsPrinted: true}, nobody); hung || !anyDiffer(values) {
		t.Errorf("as printed: %x, hung %v, want different sums", values, hung)
	}
}
