package minife

// box is a range of elements, or of nodes, in each of three dimensions: from lo to hi-1.
type box struct{ lo, hi [3]int }

// size returns how many there are.
func (b box) size() int {
	n := 1
	for d := range 3 {
		n *= max(b.hi[d]-b.lo[d], 0)
	}
	return n
}

// intersect returns what two boxes have in common.
func (b box) intersect(c box) (common box) {
	for d := range 3 {
		common.lo[d], common.hi[d] = max(b.lo[d], c.lo[d]), min(b.hi[d], c.hi[d])
	}
	return common
}

// index returns the number of a place in the box, the first coordinate counting fastest.
func (b box) index(at [3]int) int {
	return at[0] - b.lo[0] + (b.hi[0]-b.lo[0])*(at[1]-b.lo[1]+(b.hi[1]-b.lo[1])*(at[2]-b.lo[2]))
}

// places calls f with each place of the box, in the order of their numbers.
func (b box) places(f func(at [3]int)) {
	for z := b.lo[2]; z < b.hi[2]; z++ {
		for y := b.lo[1]; y < b.hi[1]; y++ {
			for x := b.lo[0]; x < b.hi[0]; x++ {
				f([3]int{x, y, z})
			}
		}
	}
}

// bisect cuts a box of elements into n parts: in halves along the longest side, and these again.
func bisect(whole box, n int) []box {
	if n == 1 {
		return []box{whole}
	}
	long := 0
	for d := range 3 {
		if whole.hi[d]-whole.lo[d] > whole.hi[long]-whole.lo[long] {
			long = d
		}
	}
	first, second := whole, whole
	cut := whole.lo[long] + (whole.hi[long]-whole.lo[long])*(n/2)/n
	first.hi[long], second.lo[long] = cut, cut
	return append(bisect(first, n/2), bisect(second, n-n/2)...)
}

// nodesOf returns the nodes of a box of elements: those at the lower corners of its elements, and the last ones of the grid.
func nodesOf(elements, grid box) box {
	for d := range 3 {
		if elements.hi[d] == grid.hi[d] {
			elements.hi[d]++
		}
	}
	return elements
}

// around returns the box and all nodes beside it that the grid has.
func around(nodes, grid box) box {
	for d := range 3 {
		nodes.lo[d], nodes.hi[d] = max(nodes.lo[d]-1, 0), min(nodes.hi[d]+1, grid.hi[d]+1)
	}
	return nodes
}
