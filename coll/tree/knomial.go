package tree

import (
	"errors"
	"fmt"
)

// None is the parent of the root.
const None = -1

// ErrShape says that no tree has the wanted shape.
var ErrShape = errors.New("no such tree")

// Knomial is the k-nomial tree over the nodes 0 to N-1, numbered in preorder:
// the parent of a node is the node with its lowest digit that is not zero, in
// base k, set to zero. It is a value of two words, because every question about
// it is answered by arithmetic. With k = N it is a star, with k = 2 the binomial
// tree.
//
// Preorder makes each subtree an interval: that of v is [v, End(v)), its first
// child is v+1, and the child after c is End(c).
type Knomial struct{ n, k int32 }

// NewKnomial makes the tree over n nodes in which each node so far gets k-1
// children a level.
func NewKnomial(n, k int) (Knomial, error) {
	const most = 1 << 30 // so that a node and the width of a subtree can be added
	if n < 1 || n > most || k < 2 || k > most {
		return Knomial{}, fmt.Errorf("%w: k-nomial tree with %d nodes and k = %d, want 1 to %d nodes and k from 2", ErrShape, n, k, most)
	}
	return Knomial{int32(n), int32(min(k, max(n, 2)))}, nil
}

// Len is the number of nodes.
func (t Knomial) Len() int { return int(t.n) }

// Parent is the parent of v, or None.
func (t Knomial) Parent(v int32) int32 {
	if v == 0 {
		return None
	}
	width := t.width(v)
	return v - v/width%t.k*width
}

// End is the first node after v's subtree.
func (t Knomial) End(v int32) int32 {
	if v == 0 {
		return t.n
	}
	return min(t.n, v+t.width(v))
}

// Degree is how many children v has: up to k-1 on each level.
func (t Knomial) Degree(v int32) int {
	n, below := 0, int64(t.End(v)-v-1)
	for width := int64(1); width <= below; width *= int64(t.k) {
		n += int(min(int64(t.k-1), below/width))
	}
	return n
}

// Child is the i-th child of v, of those from 0 to Degree(v)-1. They ascend, which
// is the order of growing subtrees.
func (t Knomial) Child(v int32, i int) int32 {
	width, level := int32(1), int(t.k-1)
	for ; i >= level; i -= level {
		width *= t.k
	}
	return v + int32(i+1)*width
}

// width is the value of the lowest digit of v that is not zero.
func (t Knomial) width(v int32) int32 {
	width := int32(1)
	for v%t.k == 0 {
		v /= t.k
		width *= t.k
	}
	return width
}
