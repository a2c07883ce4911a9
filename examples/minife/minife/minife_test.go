package minife

import (
	"math"
	"testing"
)

// The finite elements are those of the textbook: rows add up to 0, the matrix is symmetric, and the error falls with the square of the elements' size.
func TestElements(t *testing.T) {
	k := stiffness([3]float64{0.5, 0.25, 0.125})
	for a := range 8 {
		sum := 0.0
		for b := range 8 {
			sum += k[a][b]
			if k[a][b] != k[b][a] {
				t.Errorf("entries %d, %d: %g and %g", a, b, k[a][b], k[b][a])
			}
		}
		if math.Abs(sum) > 1e-15 {
			t.Errorf("row %d adds up to %g", a, sum)
		}
	}
	if got := exact(0.5, 0.5, 0.5); math.Abs(got-1.0/6) > 1e-3 { // by symmetry: the solutions of all six faces add up to 1
		t.Errorf("%g in the middle, want 1/6", got)
	}
	coarse, fine := errorOf(8), errorOf(16)
	if ratio := coarse / fine; ratio < 3 || ratio > 5 {
		t.Errorf("errors %g and %g, whose ratio is %.1f, want about 4", coarse, fine, ratio)
	}
}

// errorOf solves the problem in one box, without messages, and returns the error in the middle of the cube.
func errorOf(n int) float64 {
	grid := box{hi: [3]int{n, n, n}}
	p := newPart(0, []box{grid}, grid)
	for i, former := 0, 0.0; i < 4*n; i++ {
		rr := dot(p.r, p.r)
		beta := 0.0
		if i > 0 {
			beta = rr / former
		}
		for k := range p.r {
			p.p[k] = p.r[k] + beta*p.p[k]
		}
		p.a.multiply(p.ap, p.p)
		alpha := rr / dot(p.p, p.ap)
		for k := range p.x {
			p.x[k] += alpha * p.p[k]
			p.r[k] -= alpha * p.ap[k]
		}
		former = rr
	}
	return math.Abs(p.x[p.nodes.index([3]int{n / 2, n / 2, n / 2})] - 1.0/6)
}

// Boxes cover the grid, each element once.
func TestBisect(t *testing.T) {
	for n := 1; n < 40; n++ {
		grid := box{hi: [3]int{7, 9, 8}}
		seen := map[[3]int]int{}
		for _, b := range bisect(grid, n) {
			if b.size() == 0 {
				t.Errorf("%d boxes: %v is empty", n, b)
			}
			b.places(func(at [3]int) { seen[at]++ })
		}
		if len(seen) != grid.size() {
			t.Errorf("%d boxes have %d elements, want %d", n, len(seen), grid.size())
		}
	}
}
