package minife

import "math"

// exact returns the solution of Laplace's equation in the unit cube that is 1 where x is 1, and 0 at the other faces.
func exact(x, y, z float64) (sum float64) {
	const terms = 61 // odd numbers up to it
	for p := 1; p <= terms; p += 2 {
		for q := 1; q <= terms; q += 2 {
			g := math.Pi * math.Hypot(float64(p), float64(q))
			if g*(1-x) > 50 { // this term and those behind it are below 1e-20
				break
			}
			// sinh(g x)/sinh(g), without overflow
			ratio := math.Exp(g*(x-1)) * (1 - math.Exp(-2*g*x)) / (1 - math.Exp(-2*g))
			sum += 16 / (math.Pi * math.Pi * float64(p*q)) * math.Sin(float64(p)*math.Pi*y) * math.Sin(float64(q)*math.Pi*z) * ratio
		}
	}
	return sum
}

// worst returns the greatest difference from the exact solution at nodes of a part that are not close to the edges at which the given values jump.
func (p *part) worst(grid box) (most float64) {
	p.nodes.places(func(at [3]int) {
		var c [3]float64
		for d := range 3 {
			c[d] = float64(at[d]) / float64(grid.hi[d])
		}
		if c[0] > 0.8 && (math.Abs(c[1]-0.5) > 0.3 || math.Abs(c[2]-0.5) > 0.3) {
			return
		}
		most = max(most, math.Abs(p.x[p.nodes.index(at)]-exact(c[0], c[1], c[2])))
	})
	return most
}
