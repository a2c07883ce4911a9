package minife

// part is what a rank has of a box: its rows, and its parts of the vectors. The values of one box depend on no rank: so a run that goes on without a rank
// computes the same.
type part struct {
	number  int // of the box, in the order of the grid
	nodes   box
	a       matrix
	right   []float64
	x, r, p []float64 // p has the values of other boxes' nodes behind those of this one
	ap      []float64
	halo    []neighbor
}

// neighbor is another box that has nodes beside this one's.
type neighbor struct {
	number int // of the box
	gives  box // nodes of it that this box needs
	takes  box // nodes of this box that it needs
	at     int // where the values of gives begin in p
	out    []float64
}

// newPart makes the part of a box: all that follows from the grid, and the vectors before the first iteration.
func newPart(number int, boxes []box, grid box) *part {
	p := &part{number: number, nodes: nodesOf(boxes[number], grid)}
	near := around(p.nodes, grid)
	columns := p.nodes.size()
	for other := range boxes {
		nodes := nodesOf(boxes[other], grid)
		n := neighbor{number: other, gives: near.intersect(nodes), takes: around(nodes, grid).intersect(p.nodes), at: columns}
		if other == number || n.gives.size() == 0 {
			continue
		}
		n.out = make([]float64, n.takes.size())
		p.halo = append(p.halo, n)
		columns += n.gives.size()
	}
	p.a, p.right = assemble(p.nodes, grid, p.column)
	rows := p.nodes.size()
	p.x, p.r, p.p, p.ap = make([]float64, rows), make([]float64, rows), make([]float64, columns), make([]float64, rows)
	copy(p.r, p.right)
	return p
}

// column returns the column of a node.
func (p *part) column(at [3]int) int32 {
	if inside(p.nodes, at) {
		return int32(p.nodes.index(at))
	}
	for i := range p.halo {
		if n := &p.halo[i]; inside(n.gives, at) {
			return int32(n.at + n.gives.index(at))
		}
	}
	panic("a node that no box has") // cannot be: the boxes are the grid
}

// inside reports whether a place is in a box.
func inside(b box, at [3]int) bool {
	for d := range 3 {
		if at[d] < b.lo[d] || at[d] >= b.hi[d] {
			return false
		}
	}
	return true
}

// pack puts the values that a neighbor needs into its out.
func (p *part) pack(n *neighbor) {
	i := 0
	n.takes.places(func(at [3]int) {
		n.out[i] = p.p[p.nodes.index(at)]
		i++
	})
}

// dot returns the product of two vectors of the box, its terms added from the first to the last.
func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
