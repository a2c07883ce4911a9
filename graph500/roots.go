package graph500

// Search keys: Graph500 3.0, section "Sampling the search keys", with the draws of the reference code.

// rootDraw returns the candidate at a position of the root sequence: two uniform doubles, added and scaled.
func (g *generator) rootDraw(position uint64) uint64 {
	s := g.skip(2, 0, 2*position)
	nverts := uint64(1) << uint(g.scale)
	sum := s.double() + s.double()
	return uint64(int64(sum*float64(nverts))) % nverts
}

// double draws a double in [0,1) from two numbers. The conversions keep the products from being fused into
// the sum, which would change the last bit.
func (s *mrgState) double() float64 {
	high := float64(s.next()) * 4.65661287524579692e-10
	low := float64(s.next()) * 2.168404346990492787e-19
	return float64(high) + float64(low)
}

// chooseRoots returns up to want different vertices for which hasEdge holds. Like the reference, it stops after
// as many draws as there are vertices. Then there are fewer searches, as the specification says.
func (g *generator) chooseRoots(want int, hasEdge func(v uint64) (bool, error)) ([]uint64, error) {
	roots := make([]uint64, 0, want)
	chosen := make(map[uint64]bool, want)
	limit := uint64(2) << uint(g.scale)
	for position := uint64(0); len(roots) < want; {
		v := g.rootDraw(position)
		position += 2
		if position > limit {
			break
		}
		if chosen[v] {
			continue
		}
		ok, err := hasEdge(v)
		if err != nil {
			return nil, err
		}
		if ok {
			chosen[v] = true
			roots = append(roots, v)
		}
	}
	return roots, nil
}
