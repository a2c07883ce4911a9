package agree

import (
	"slices"

	"github.com/goshmem/goshmem/coll/tree"
)

// Lists of nodes are ascending and never change once they are made, so that machines and messages can
// share them. Nil is the empty list and costs nothing.

// contains reports whether p is in list.
func contains(list []Node, p Node) bool {
	if len(list) == 0 {
		return false
	}
	_, ok := slices.BinarySearch(list, p)
	return ok
}

// with returns list with p in it.
func with(list []Node, p Node) []Node {
	i, ok := slices.BinarySearch(list, p)
	if ok {
		return list
	}
	return slices.Insert(slices.Clip(list), i, p) // a copy, because the clipped list has no room
}

// union returns the members of a and b. The result is a or b itself if that holds the other. This is so
// in all rounds in which no member dies.
func union(a, b []Node) []Node {
	switch {
	case len(b) == 0 || subset(b, a):
		return a
	case subset(a, b):
		return b
	}
	both := make([]Node, 0, len(a)+len(b))
	both = append(append(both, a...), b...)
	slices.Sort(both)
	return slices.Clip(slices.Compact(both))
}

// subset reports whether all of a are in b.
func subset(a, b []Node) bool {
	if len(a) > len(b) {
		return false
	}
	i := 0
	for _, p := range a {
		for i < len(b) && b[i] < p {
			i++
		}
		if i == len(b) || b[i] != p {
			return false
		}
	}
	return true
}

// group is a tree over the members that it does not leave out. All members that use a tree agree on
// these. Nodes are numbers in the tree.
type group struct {
	n    int    // members, with those that are gone
	gone []Node // the members that the tree leaves out
	k    int    // radix of the tree
	tree tree.Knomial
	me   Node // the local member's node
}

// newGroup makes the tree of n members without those that are gone.
func newGroup(n, k int, me Node, gone []Node) (group, error) {
	t, err := tree.NewKnomial(n-len(gone), k)
	g := group{n: n, gone: gone, k: k, tree: t}
	g.me = g.node(me)
	return g, err
}

// without returns the tree that leaves out exactly the members in gone, to which the local member does
// not belong.
func (g *group) without(gone []Node) group {
	h, err := newGroup(g.n, g.k, g.member(g.me), gone)
	if err != nil { // cannot be: the local member is left
		return *g
	}
	return h
}

// node returns member p's node, or none.
func (g *group) node(p Node) Node {
	if len(g.gone) == 0 {
		return p
	}
	i, ok := slices.BinarySearch(g.gone, p)
	if ok {
		return none
	}
	return p - Node(i)
}

// member returns the member at node v. Before the i-th member that is gone there are gone[i]-i members
// that are not.
func (g *group) member(v Node) Node {
	low, high := 0, len(g.gone)
	for low < high {
		if mid := int(uint(low+high) / 2); g.gone[mid]-Node(mid) <= v {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return v + Node(low)
}

// len returns the number of nodes.
func (g *group) len() Node { return Node(g.tree.Len()) }

// child returns the index of node v among the local node's children, or -1.
func (g *group) child(v Node) int {
	if v <= g.me || g.tree.Parent(v) != g.me {
		return -1
	}
	offset, i := int(v-g.me), 0
	for offset%g.k == 0 {
		offset /= g.k
		i += g.k - 1
	}
	return i + offset - 1
}
