package tree

import (
	"errors"
	"testing"
)

// TestKnomialIsOneTree checks every node of many trees: intervals nest, parents and children
// agree, and each level has the number of children of a k-nomial tree.
func TestKnomialIsOneTree(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 70; n++ {
		for k := 2; k <= n+1; k++ {
			tr, err := NewKnomial(n, k)
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			var walk func(v int32)
			walk = func(v int32) {
				seen++
				next := v + 1
				for i := range tr.Degree(v) {
					c := tr.Child(v, i)
					if c != next || tr.Parent(c) != v || tr.End(c) > tr.End(v) {
						t.Fatalf("n %d, k %d: child %d of %d: parent %d, want first %d, interval to %d in %d", n, k, c, v, tr.Parent(c), next, tr.End(c), tr.End(v))
					}
					walk(c)
					next = tr.End(c)
				}
				if next != tr.End(v) {
					t.Fatalf("n %d, k %d: children of %d reach to %d, want %d", n, k, v, next, tr.End(v))
				}
			}
			walk(0)
			if seen != n || tr.Parent(0) != None {
				t.Fatalf("n %d, k %d: %d nodes below the root, whose parent is %d", n, k, seen, tr.Parent(0))
			}
		}
	}
}

// TestKnomialDegrees compares the numbers of children with their definition: in a full tree of k^m
// nodes the root has k-1 children on each of m levels.
func TestKnomialDegrees(t *testing.T) {
	t.Parallel()
	for k, levels := range map[int]int{2: 7, 3: 4, 9: 2} {
		n := 1
		for range levels {
			n *= k
		}
		tr, err := NewKnomial(n, k)
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.Degree(0); got != (k-1)*levels {
			t.Errorf("k %d: the root has %d children, want %d", k, got, (k-1)*levels)
		}
		if got := tr.Degree(int32(n / k)); got != (k-1)*(levels-1) {
			t.Errorf("k %d: the root's widest child has %d children, want %d", k, got, (k-1)*(levels-1))
		}
	}
}

func TestKnomialRefusesShapes(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]int{{0, 2}, {-1, 2}, {4, 1}, {4, 0}, {1<<30 + 1, 2}} {
		if _, err := NewKnomial(c[0], c[1]); !errors.Is(err, ErrShape) {
			t.Errorf("NewKnomial(%d, %d): %v, want ErrShape", c[0], c[1], err)
		}
	}
}
