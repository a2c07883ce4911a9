package tree

import (
	"errors"
	"fmt"
)

// None is the parent of the root.
const None = -1

// ErrShape reports a shape that no tree has.
var ErrShape = errors.New("no such tree")

// Knomial is the k-nomial tree over the nodes 0 to N-1, numbered in preorder. Write a node's number in
// base k: its parent is the number with the lowest digit that is not zero set to zero. So arithmetic
// answers every question about the tree, and the tree itself is two words. With k = N it is a star,
// with k = 2 the binomial tree.
//
// In preorder each subtree is an interval. The subtree of v is [v, End(v)), the first child of v is
// v+1, and the child after c is End(c).
type Knomial struct{ n, k int32 }

// NewKnomial makes the tree over n nodes. On each level, all nodes so far get k-1 children.
func NewKnomial(n, k int) (Knomial, error) {
	const most = 1 << 30 // so that a node and the width of a subtree can be added
	if n < 1 || n > most || k < 2 || k > most {
		return Knomial{}, fmt.Errorf("%w: k-nomial tree with %d nodes and k = %d, want 1 to %d nodes and k from 2", ErrShape, n, k, most)
	}
	return Knomial{int32(n), int32(min(k, max(n, 2)))}, nil
}

// Len returns the number of nodes.
func (t Knomial) Len() int { return int(t.n) }

// Parent returns the parent of v, or None.
func (t Knomial) Parent(v int32) int32 {
	if v == 0 {
		return None
	}
	width := t.width(v)
	return v - v/width%t.k*width
}

// End returns the first node after v's subtree.
func (t Knomial) End(v int32) int32 {
	if v == 0 {
		return t.n
	}
	return min(t.n, v+t.width(v))
}

// Degree returns the number of v's children: up to k-1 on each level.
func (t Knomial) Degree(v int32) int {
	n, below := 0, int64(t.End(v)-v-1)
	for width := int64(1); width <= below; width *= int64(t.k) {
		n += int(min(int64(t.k-1), below/width))
	}
	return n
}

// Child returns child i of v, for i from 0 to Degree(v)-1. Children ascend, and so do the sizes of
// their subtrees.
func (t Knomial) Child(v int32, i int) int32 {
	width, level := int32(1), int(t.k-1)
	for ; i >= level; i -= level {
		width *= t.k
	}
	return v + int32(i+1)*width
}

// width returns the place value of the lowest digit of v that is not zero.
func (t Knomial) width(v int32) int32 {
	width := int32(1)
	for v%t.k == 0 {
		v /= t.k
		width *= t.k
	}
	return width
}
