package bmg

import "slices"

// Offsets returns the distances from a member to its neighbors among n members, each from 1 to n-1 and once. The
// farthest come first, as in the binomial spanning tree: its largest subtree is the one that takes longest.
func Offsets(n int) []Node {
	var list []Node
	add := func(d int) {
		if !slices.Contains(list, Node(d)) {
			list = append(list, Node(d))
		}
	}
	span := 1
	for 2*span < n {
		span *= 2
	}
	for ; span > 0 && n > 1; span /= 2 {
		add(span)
		add(n - span)
	}
	return list
}

// neighbor returns the member at a distance from me.
func neighbor(me, offset, n Node) Node {
	if to := int64(me) + int64(offset); to < int64(n) {
		return Node(to)
	}
	return Node(int64(me) + int64(offset) - int64(n))
}
