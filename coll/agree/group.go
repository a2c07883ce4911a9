package agree

import (
	"slices"

	"github.com/goshmem/goshmem/coll/tree"
)

// Lists of nodes are ascending and never changed once made, so that machines and
// messages can share them. Nil is the empty one, which costs nothing.

func contains(list []Node, p Node) bool {
	if len(list) == 0 {
		return false
	}
	_, ok := slices.BinarySearch(list, p)
	return ok
}

// with is list and p.
func with(list []Node, p Node) []Node {
	i, ok := slices.BinarySearch(list, p)
	if ok {
		return list
	}
	return slices.Insert(slices.Clip(list), i, p) // a copy, because nothing fits in
}

// union is a and b. It is one of them if that holds the other, which is so in all
// rounds but those in which somebody dies.
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

// subset says whether all of a are in b.
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

// group is the tree over those members that are not gone. All who use a tree
// agree on who is. Nodes are numbers in the tree.
type group struct {
	n    int
	gone []Node
	k    int
	tree tree.Knomial
	me   Node
}

func newGroup(n, k int, me Node, gone []Node) (group, error) {
	t, err := tree.NewKnomial(n-len(gone), k)
	g := group{n: n, gone: gone, k: k, tree: t}
	g.me = g.node(me)
	return g, err
}

// without is the group less those that are gone, all of whom are members other
// than me.
func (g *group) without(gone []Node) group {
	h, err := newGroup(g.n, g.k, g.member(g.me), gone)
	if err != nil { // somebody is left, me
		return *g
	}
	return h
}

// node is member p's place in the tree, or none.
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

// member is who stands at node v: the i-th gone member has gone[i]-i members
// before it that are not gone.
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

// len is the number of nodes.
func (g *group) len() Node { return Node(g.tree.Len()) }

// child is the index of node v among my children, or -1.
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
