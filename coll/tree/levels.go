package tree

import "fmt"

// Shape is the way in which a tree of [Levels] grows.
type Shape uint8

// The shapes of the paper's trees.
const (
	KNomial Shape = iota // on each level all nodes so far get k-1 children
	KAry                 // on each level the nodes of the level before get k children
)

// String returns the name that options use.
func (s Shape) String() string {
	if s == KAry {
		return "kary"
	}
	return "knomial"
}

// LevelsConfig shapes a [Levels].
type LevelsConfig struct {
	N, K      int
	Shape     Shape
	MultiRoot bool // nodes 0 to K-1 are roots, each connected with all other roots
}

// Levels is a tree whose nodes are numbered in the order in which it grows, level by level, as in
// Margolin and Barak, Section 5.2.1. On each level children go round: first the first child of every
// father, then every second child, and so on. A k-ary tree with k = 1 is a chain.
//
// All arrays are flat, 24 bytes a node, because trees of a million nodes are simulated.
type Levels struct {
	cfg    LevelsConfig
	roots  int32
	parent []int32 // None for roots
	first  []int32 // index of v's first child in kids; one more element at the end
	kids   []int32 // all children, by father
	at     []int32 // v's place in preorder
	end    []int32 // the first place after v's subtree
	node   []int32 // the node at a place
}

// NewLevels builds the tree.
func NewLevels(cfg LevelsConfig) (*Levels, error) {
	const most = 1 << 30
	least := 2
	if cfg.Shape == KAry && !cfg.MultiRoot {
		least = 1
	}
	switch {
	case cfg.N < 1 || cfg.N > most:
		return nil, fmt.Errorf("%w: %d nodes, want 1 to %d", ErrShape, cfg.N, most)
	case cfg.K < least || cfg.K > most:
		return nil, fmt.Errorf("%w: %v tree with k = %d, want k from %d to %d", ErrShape, cfg.Shape, cfg.K, least, most)
	case cfg.MultiRoot && cfg.K > cfg.N:
		return nil, fmt.Errorf("%w: %d roots among %d nodes, want no more roots than nodes", ErrShape, cfg.K, cfg.N)
	}
	t := &Levels{cfg: cfg, roots: 1}
	if cfg.MultiRoot {
		t.roots = int32(cfg.K)
	}
	t.setParents()
	t.setChildren()
	t.setPlaces()
	return t, nil
}

// setParents grows the tree.
func (t *Levels) setParents() {
	n := int32(t.cfg.N)
	t.parent = make([]int32, n)
	for r := range t.roots {
		t.parent[r] = None
	}
	rounds := t.cfg.K
	if t.cfg.Shape == KNomial {
		rounds--
	}
	for from, to := int32(0), t.roots; to < n; {
		child := to
		for r := 0; r < rounds && child < n; r++ {
			for father := from; father < to && child < n; father++ {
				t.parent[child] = father
				child++
			}
		}
		if t.cfg.Shape == KAry {
			from = to
		}
		to = child
	}
}

// setChildren lists the children of each node in ascending order.
func (t *Levels) setChildren() {
	n := int32(t.cfg.N)
	t.first = make([]int32, n+1)
	for v := t.roots; v < n; v++ {
		t.first[t.parent[v]+1]++
	}
	for v := range n {
		t.first[v+1] += t.first[v]
	}
	t.kids = make([]int32, n-t.roots)
	next := make([]int32, n)
	copy(next, t.first)
	for v := t.roots; v < n; v++ {
		f := t.parent[v]
		t.kids[next[f]] = v
		next[f]++
	}
}

// setPlaces gives each node a place in preorder. A child has a higher number than its father, so two
// passes over the nodes do without recursion.
func (t *Levels) setPlaces() {
	n := int32(t.cfg.N)
	t.at, t.end, t.node = make([]int32, n), make([]int32, n), make([]int32, n)
	size := t.end // first the sizes of subtrees
	for v := n - 1; v >= 0; v-- {
		size[v]++
		if f := t.parent[v]; f != None {
			size[f] += size[v]
		}
	}
	place := int32(0)
	for r := range t.roots {
		t.at[r] = place
		place += size[r]
	}
	for v := range n {
		place = t.at[v] + 1
		for _, c := range t.Children(v) {
			t.at[c] = place
			place += size[c]
		}
	}
	for v := range n {
		t.end[v] = t.at[v] + size[v]
		t.node[t.at[v]] = v
	}
}

// Config returns what the tree was built from.
func (t *Levels) Config() LevelsConfig { return t.cfg }

// Len returns the number of nodes.
func (t *Levels) Len() int { return t.cfg.N }

// Roots returns the number of roots, which are nodes 0 to Roots()-1.
func (t *Levels) Roots() int32 { return t.roots }

// IsRoot reports whether v is a root.
func (t *Levels) IsRoot(v int32) bool { return v < t.roots }

// Parent returns the father of v, or None.
func (t *Levels) Parent(v int32) int32 { return t.parent[v] }

// Children returns the children of v in ascending order. The slice must not be changed.
func (t *Levels) Children(v int32) []int32 { return t.kids[t.first[v]:t.first[v+1]] }

// ChildIndex returns the index of v among its father's children.
func (t *Levels) ChildIndex(v int32) int32 {
	for i, c := range t.Children(t.parent[v]) {
		if c == v {
			return int32(i)
		}
	}
	return None
}

// Up appends the nodes above v: its father, or for a root all other roots in ring order from the next
// one on. Together with Children it is the paper's f_tree.
func (t *Levels) Up(v int32, buf []int32) []int32 {
	if f := t.parent[v]; f != None {
		return append(buf, f)
	}
	for r := v + 1; r < t.roots; r++ {
		buf = append(buf, r)
	}
	for r := range v {
		buf = append(buf, r)
	}
	return buf
}

// Ups returns the number of nodes that Up appends.
func (t *Levels) Ups(v int32) int32 {
	if t.parent[v] != None {
		return 1
	}
	return t.roots - 1
}

// Degree returns the number of nodes at distance 1 from v.
func (t *Levels) Degree(v int32) int32 { return t.Ups(v) + t.first[v+1] - t.first[v] }

// Interval returns the preorder places of v's subtree: from up to, but not including, to. Sets of nodes
// that travel up a tree are unions of few intervals.
func (t *Levels) Interval(v int32) (from, to int32) { return t.at[v], t.end[v] }

// NodeAt returns the node at a place in preorder.
func (t *Levels) NodeAt(place int32) int32 { return t.node[place] }

// Below reports whether v is in the subtree of top, which holds top itself.
func (t *Levels) Below(v, top int32) bool { return t.at[top] <= t.at[v] && t.at[v] < t.end[top] }

// Depth returns the number of edges from v to its root.
func (t *Levels) Depth(v int32) int32 {
	d := int32(0)
	for ; t.parent[v] != None; v = t.parent[v] {
		d++
	}
	return d
}

// Distance returns the number of edges between a and b. Two roots are one edge apart.
func (t *Levels) Distance(a, b int32) int32 {
	d := int32(0)
	for a != b {
		if a < b { // the node with the higher number is not above the other
			a, b = b, a
		}
		d++
		if t.parent[a] == None {
			return d
		}
		a = t.parent[a]
	}
	return d
}

// Peers returns the number of nodes at the distance d with which v may have to deal: those below it and
// the one above it. Beyond v's root, all other roots count as one. The paper does not say so; the
// published timeouts come out only with it.
func (t *Levels) Peers(v, d int32) int32 {
	if d <= 1 {
		return t.Degree(v)
	}
	return t.peersAbove(v, d) + t.peersBelow(v, d)
}

// peersAbove returns the number of peers above v.
func (t *Levels) peersAbove(v, d int32) int32 {
	for ; d > 1; d-- {
		f := t.parent[v]
		if f == None {
			if t.roots > 1 && v != 0 {
				return 1
			}
			return 0
		}
		v = f
	}
	return t.Ups(v)
}

// peersBelow returns the number of peers below v.
func (t *Levels) peersBelow(v, d int32) int32 {
	kids := t.Children(v)
	if d == 1 {
		return int32(len(kids))
	}
	sum := int32(0)
	for _, c := range kids {
		sum += t.peersBelow(c, d-1)
	}
	return sum
}
