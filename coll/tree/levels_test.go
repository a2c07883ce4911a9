package tree

import (
	"errors"
	"slices"
	"testing"
)

func newLevels(tb testing.TB, cfg LevelsConfig) *Levels {
	tb.Helper()
	l, err := NewLevels(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// Section 5.2.1: "a k-nomial tree is produced by forwarding up to k-1 messages
// from each node to its children in each iteration, until all nodes are reached."
func TestLevelsByHand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg    LevelsConfig
		parent []int32
	}{
		{LevelsConfig{N: 9, K: 3}, []int32{None, 0, 0, 0, 1, 2, 0, 1, 2}},
		{LevelsConfig{N: 8, K: 2}, []int32{None, 0, 0, 1, 0, 1, 2, 3}},
		{LevelsConfig{N: 9, K: 3, MultiRoot: true}, []int32{None, None, None, 0, 1, 2, 0, 1, 2}},
		{LevelsConfig{N: 8, K: 2, Shape: KAry}, []int32{None, 0, 0, 1, 2, 1, 2, 3}},
		{LevelsConfig{N: 8, K: 2, Shape: KAry, MultiRoot: true}, []int32{None, None, 0, 1, 0, 1, 2, 3}},
		{LevelsConfig{N: 4, K: 1, Shape: KAry}, []int32{None, 0, 1, 2}},
		{LevelsConfig{N: 1, K: 2}, []int32{None}},
	} {
		l := newLevels(t, c.cfg)
		for v, want := range c.parent {
			if got := l.Parent(int32(v)); got != want {
				t.Errorf("%+v: father of %d: %d, want %d", c.cfg, v, got, want)
			}
		}
	}
}

// Section 4: "f_tree(n) -> <Down, Up> ... to calculate each node's parent and
// children prior to any operations". Section 5.2.1: "a collection of trees with
// fully-connected roots".
func TestLevelsAgree(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 70; n++ {
		for k := 1; k <= min(n, 12); k++ {
			for _, shape := range []Shape{KNomial, KAry} {
				for _, multi := range []bool{false, true} {
					cfg := LevelsConfig{N: n, K: k, Shape: shape, MultiRoot: multi}
					if k == 1 && (shape == KNomial || multi) {
						continue
					}
					checkLevels(t, newLevels(t, cfg))
				}
			}
		}
	}
}

func checkLevels(t *testing.T, l *Levels) {
	t.Helper()
	cfg := l.Config()
	for v := range int32(l.Len()) {
		from, to := l.Interval(v)
		if l.NodeAt(from) != v || (l.Parent(v) == None) != l.IsRoot(v) {
			t.Fatalf("%+v: node %d at place %d is node %d with father %d", cfg, v, from, l.NodeAt(from), l.Parent(v))
		}
		next := from + 1
		for i, c := range l.Children(v) {
			cf, ct := l.Interval(c)
			if c <= v || l.Parent(c) != v || cf != next || l.ChildIndex(c) != int32(i) || !l.Below(c, v) || l.Below(v, c) {
				t.Fatalf("%+v: child %d of %d has father %d and places %d to %d, want places from %d", cfg, c, v, l.Parent(c), cf, ct, next)
			}
			if l.Depth(c) != l.Depth(v)+1 || l.Distance(c, v) != 1 {
				t.Fatalf("%+v: child %d of %d has depth %d and distance %d", cfg, c, v, l.Depth(c), l.Distance(c, v))
			}
			next = ct
		}
		if next != to || l.Degree(v) != l.Ups(v)+int32(len(l.Children(v))) || l.Ups(v) != int32(len(l.Up(v, nil))) {
			t.Fatalf("%+v: subtree of %d ends at %d, want %d", cfg, v, next, to)
		}
		for _, u := range l.Up(v, nil) {
			if l.Distance(u, v) != 1 || l.Distance(v, u) != 1 || l.IsRoot(v) == slices.Contains(l.Children(u), v) {
				t.Fatalf("%+v: %d is above %d", cfg, u, v)
			}
		}
	}
}

// TestRing: reference choice 3; ascending order would cost k-2 steps.
func TestRing(t *testing.T) {
	t.Parallel()
	l := newLevels(t, LevelsConfig{N: 10, K: 5, MultiRoot: true})
	if got := l.Up(3, nil); !slices.Equal(got, []int32{4, 0, 1, 2}) {
		t.Errorf("root 3 sends to %v, want [4 0 1 2]", got)
	}
	if got := l.Distance(8, 9); got != 3 {
		t.Errorf("distance of 8 (below 3) and 9 (below 4): %d, want 3", got)
	}
}

func TestPeers(t *testing.T) {
	t.Parallel()
	l := newLevels(t, LevelsConfig{N: 27, K: 3})
	// Node 0 has 1, 2, then 3, 6, then 9, 18.
	for _, c := range []struct{ v, d, want int32 }{
		{0, 1, 6}, {0, 2, 4 + 4 + 2 + 2}, {0, 3, 8}, {26, 1, 1}, {26, 2, 1}, {26, 9, 0}, {3, 2, 0}, {12, 2, 1},
	} {
		if got := l.Peers(c.v, c.d); got != c.want {
			t.Errorf("peers of %d at distance %d: %d, want %d", c.v, c.d, got, c.want)
		}
	}
}

func TestLevelsRefuseShapes(t *testing.T) {
	t.Parallel()
	for _, c := range []LevelsConfig{
		{N: 0, K: 2},
		{N: 4, K: 1},
		{N: 4, K: 0, Shape: KAry},
		{N: 4, K: 5, MultiRoot: true},
		{N: 4, K: 1, Shape: KAry, MultiRoot: true},
		{N: 1<<30 + 1, K: 2},
	} {
		if _, err := NewLevels(c); !errors.Is(err, ErrShape) {
			t.Errorf("NewLevels(%+v): %v, want ErrShape", c, err)
		}
	}
}

// Figure 7: "The bottom line shows the latency for the optimal tree."
func TestOptimalBcast(t *testing.T) {
	t.Parallel()
	p := LogP{Latency: 10, Overhead: 1}
	for n, want := range map[int]int{1: 0, 2: 12, 3: 13, 1 << 10: 50, 1 << 12: 59, 1 << 14: 67, 1 << 16: 76, 1 << 20: 93} {
		if got := p.OptimalBcast(n); got != want {
			t.Errorf("%d nodes: %d steps, want %d", n, got, want)
		}
	}
}

// Section 5.2.1: "for a given k, the K-nomial topology outperforms K-ary".
func TestBestRadix(t *testing.T) {
	t.Parallel()
	p := LogP{Latency: 10, Overhead: 1}
	for n, want := range map[int][2]int{1 << 10: {10, 60}, 1 << 12: {8, 72}, 1 << 14: {7, 84}, 1 << 16: {9, 95}} {
		k, steps, err := p.BestRadix(n, KNomial, 20)
		if err != nil || k != want[0] || steps != want[1] {
			t.Errorf("%d nodes: k = %d, %d steps, %v; want k = %d, %d steps", n, k, steps, err, want[0], want[1])
		}
		if _, kary, err := p.BestRadix(n, KAry, 20); err != nil || kary <= steps {
			t.Errorf("%d nodes: k-ary %d steps, %v, want more than %d", n, kary, err, steps)
		}
	}
}
