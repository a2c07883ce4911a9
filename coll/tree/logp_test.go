package tree

import (
	"errors"
	"testing"
)

// In a full tree of k^m nodes preorder and growth by levels number the same tree. So the broadcast takes the steps of
// Figure 7's single-root trees.
func TestBcastKnomialOfFullTrees(t *testing.T) {
	t.Parallel()
	for _, p := range []LogP{{Latency: 10, Overhead: 1}, {Latency: 1, Overhead: 1}, {Latency: 25_000, Overhead: 3_000}, {Latency: 0, Overhead: 7}} {
		for k := 2; k <= 12; k++ {
			for n := k; n <= 5000; n *= k {
				tr, err := NewKnomial(n, k)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := p.BcastKnomial(tr), p.Bcast(newLevels(t, LevelsConfig{N: n, K: k})); got != want {
					t.Errorf("%+v, %d nodes, k = %d: %d, want %d as by levels", p, n, k, got, want)
				}
			}
		}
	}
}

// Figure 7, single root: trees that grow by levels take 60, 72, 84 and 95 steps, with the k of TestBestRadix. Trees that
// programs use have the same k there. Where they are not full they lack other nodes, which costs a step at most.
func TestBestKnomialOfPublishedSizes(t *testing.T) {
	t.Parallel()
	p := LogP{Latency: 10, Overhead: 1}
	for n, want := range map[int][2]int{1 << 10: {10, 60}, 1 << 12: {8, 72}, 1 << 14: {7, 84}, 1 << 16: {9, 95}} {
		k, steps, err := p.BestKnomial(n, 20)
		if err != nil || k != want[0] || steps < want[1] || steps > want[1]+1 {
			t.Errorf("%d nodes: k = %d, %d steps, %v; want k = %d, %d steps or one more", n, k, steps, err, want[0], want[1])
		}
	}
}

// Each k is tried, the smallest of the best is taken, and a limit holds.
func TestBestKnomial(t *testing.T) {
	t.Parallel()
	for _, p := range []LogP{{Latency: 10, Overhead: 1}, {Latency: 1, Overhead: 5}, {Latency: 40_000, Overhead: 0}} {
		for n := 1; n <= 100; n++ {
			for _, most := range []int{2, 9, MostRadix} {
				k, steps, err := p.BestKnomial(n, most)
				if err != nil || k < LeastRadix || k > most {
					t.Fatalf("%+v, %d nodes: k = %d, %v, want k from 2 to %d", p, n, k, err, most)
				}
				for other := 2; other <= most; other++ {
					tr, err := NewKnomial(n, other)
					if err != nil {
						t.Fatal(err)
					}
					s := p.BcastKnomial(tr)
					if s < steps || s == steps && other < k || other == k && s != steps {
						t.Errorf("%+v, %d nodes: k = %d with %d, but k = %d takes %d", p, n, k, steps, other, s)
					}
				}
			}
		}
	}
	if _, _, err := (LogP{}).BestKnomial(0, 8); !errors.Is(err, ErrShape) {
		t.Errorf("no nodes: %v, want ErrShape", err)
	}
}

// The two ends of the model: where sending costs nothing the star is best, and where nothing else costs the binomial tree.
func TestBestKnomialAtTheEnds(t *testing.T) {
	t.Parallel()
	for n := 4; n <= 64; n++ { // in base n-1, node n-1 is the root's child as well
		if k, _, err := (LogP{Latency: 1000}).BestKnomial(n, MostRadix); err != nil || k != n-1 {
			t.Errorf("%d nodes, no overhead: k = %d, %v, want %d, whose tree is a star", n, k, err, n-1)
		}
	}
	for _, n := range []int{4, 8, 16, 32, 64} { // a hop takes two overheads, so of more nodes others are as good
		if k, _, err := (LogP{Overhead: 1000}).BestKnomial(n, MostRadix); err != nil || k != 2 {
			t.Errorf("%d nodes, no latency: k = %d, %v, want 2", n, k, err)
		}
	}
}

func BenchmarkBestKnomial(b *testing.B) {
	p := LogP{Latency: 20_000, Overhead: 4_000}
	for b.Loop() {
		if _, _, err := p.BestKnomial(1024, MostRadix); err != nil {
			b.Fatal(err)
		}
	}
}
