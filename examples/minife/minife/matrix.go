package minife

// matrix has the rows of a box's nodes, as in a sparse matrix by rows. Columns are the nodes of the box, and behind them those that other boxes have.
type matrix struct {
	first  []int32 // by row, and one more: where its entries begin
	column []int32
	value  []float64
}

// multiply computes y = A x. x has the values of all columns.
func (m *matrix) multiply(y, x []float64) {
	for row := range y {
		sum := 0.0
		for i := m.first[row]; i < m.first[row+1]; i++ {
			sum += m.value[i] * x[m.column[i]]
		}
		y[row] = sum
	}
}

// stiffness returns the entries of an element's matrix for Laplace's equation, by the corners of two nodes: trilinear shape functions on a box with these
// sides, integrated exactly.
func stiffness(side [3]float64) (k [8][8]float64) {
	stiff := [2][2]float64{{1, -1}, {-1, 1}}
	mass := [2][2]float64{{2, 1}, {1, 2}}
	for a := range 8 {
		for b := range 8 {
			for d := range 3 {
				term := 1.0
				for e := range 3 {
					i, j := a>>e&1, b>>e&1
					if e == d {
						term *= stiff[i][j] / side[e]
					} else {
						term *= mass[i][j] * side[e] / 6
					}
				}
				k[a][b] += term
			}
		}
	}
	return k
}

// fixed returns the value of a node at the border of the unit cube, where it is given: 1 where the first coordinate ends, otherwise 0.
func fixed(at [3]int, grid box) (value float64, is bool) {
	for d := range 3 {
		is = is || at[d] == 0 || at[d] == grid.hi[d]
	}
	inside := at[0] == grid.hi[0]
	for d := 1; d < 3; d++ {
		inside = inside && at[d] != 0 && at[d] != grid.hi[d]
	}
	if inside {
		value = 1
	}
	return value, is
}

// assemble makes the rows of a box of nodes, and their right side. column returns the column of a node.
func assemble(nodes, grid box, column func(at [3]int) int32) (m matrix, right []float64) {
	var side [3]float64
	for d := range 3 {
		side[d] = 1 / float64(grid.hi[d])
	}
	k := stiffness(side)
	right = make([]float64, nodes.size())
	m.first = append(m.first, 0)
	nodes.places(func(at [3]int) {
		row := len(m.first) - 1
		if value, is := fixed(at, grid); is {
			m.column, m.value = append(m.column, int32(row)), append(m.value, 1)
			right[row] = value
			m.first = append(m.first, int32(len(m.column)))
			return
		}
		near := around(box{at, [3]int{at[0] + 1, at[1] + 1, at[2] + 1}}, grid)
		near.places(func(other [3]int) {
			sum := entry(&k, at, other, grid)
			if value, is := fixed(other, grid); is { // what is known goes to the right side, so that the matrix stays symmetric
				right[row] -= sum * value
				return
			}
			m.column, m.value = append(m.column, column(other)), append(m.value, sum)
		})
		m.first = append(m.first, int32(len(m.column)))
	})
	return m, right
}

// entry returns the entry of two nodes: the sum over the elements that have both.
func entry(k *[8][8]float64, at, other [3]int, grid box) (sum float64) {
	for corner := range 8 { // of the element at which the first node is
		a, b, is := corner, 0, true
		for d := range 3 {
			element := at[d] - corner>>d&1
			step := other[d] - element
			is = is && element >= 0 && element < grid.hi[d] && step >= 0 && step <= 1
			b |= (step & 1) << d
		}
		if is {
			sum += k[a][b]
		}
	}
	return sum
}
