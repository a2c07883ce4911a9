package graph500

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

var defaultSeed = [2]uint64{2, 3}

// checksums are the sums over a whole edge list that the vectors have.
type checksums struct {
	directedSum, directedXor, undirectedSum, undirectedXor uint64
	orderedFNV, weightedSum, weightedXor, weightedUndirSum uint64
	selfLoops                                              uint64
}

func (c *checksums) add(v0, v1 uint64, weight float32) {
	lo, hi := min(v0, v1), max(v0, v1)
	bits := uint64(math.Float32bits(weight))
	directed, undirected := pairHash(v0, v1), pairHash(lo, hi)
	c.directedSum += directed
	c.directedXor ^= directed
	c.undirectedSum += undirected
	c.undirectedXor ^= undirected
	c.weightedSum += splitmix64(directed + bits)
	c.weightedXor ^= splitmix64(directed + bits)
	c.weightedUndirSum += splitmix64(undirected + bits)
	for _, v := range [2]uint64{v0, v1} {
		for range 8 {
			c.orderedFNV = (c.orderedFNV ^ v&0xFF) * 0x100000001b3
			v >>= 8
		}
	}
	if v0 == v1 {
		c.selfLoops++
	}
}

func TestGeneratorReproducesReference(t *testing.T) {
	for name, want := range loadVectors(t) {
		t.Run("scale"+name, func(t *testing.T) {
			g := newGenerator(scaleOf(want), defaultSeed)
			if !slices.Equal(g.seed[:], want.Seed) {
				t.Errorf("seed %v, want %v", g.seed, want.Seed)
			}
			if g.add != want.Val0+want.Val1 || g.mul0 != want.Val0|scrambleOr0 || g.mul1 != want.Val1|scrambleOr1 {
				t.Errorf("scramble constants differ from %d, %d", want.Val0, want.Val1)
			}
			got := checksums{orderedFNV: 0xcbf29ce484222325}
			state := g.seed
			for i := range want.NEdges {
				s := state
				v0, v1 := g.edge(&s)
				w := s.weight()
				checkTriple(t, want, i, [3]uint64{v0, v1, uint64(math.Float32bits(w))})
				got.add(v0, v1, w)
				state = g.edgeStep.apply(&state)
			}
			wantSums := checksums{
				want.DirectedSum, want.DirectedXor, want.UndirectedSum, want.UndirectedXor,
				want.OrderedFNV, want.WeightedSum, want.WeightedXor, want.WeightedUndirectedSum, want.SelfLoops,
			}
			if got != wantSums {
				t.Errorf("checksums\n got %v\nwant %v", got, wantSums)
			}
		})
	}
}

// checkTriple compares an edge with the first sixteen and the last four edges of the vectors.
func checkTriple(t *testing.T, want *scaleVector, i uint64, got [3]uint64) {
	t.Helper()
	if i < uint64(len(want.First)) && got != want.First[i] {
		t.Errorf("edge %d is %v, want %v", i, got, want.First[i])
	}
	if tail := want.NEdges - uint64(len(want.Last)); i >= tail && got != want.Last[i-tail] {
		t.Errorf("edge %d is %v, want %v", i, got, want.Last[i-tail])
	}
}

func scaleOf(v *scaleVector) int { return int(math.Log2(float64(v.NVerts))) }

// Any split of the list has to give the same list: fill can start anywhere.
func TestFillIsIndependentOfShares(t *testing.T) {
	g := newGenerator(10, defaultSeed)
	const n = 16 << 10
	whole := make([]tuple, n)
	g.fill(whole, 0)
	for _, pes := range []int{2, 3, 7, 16, 1000} {
		t.Run(fmt.Sprint(pes), func(t *testing.T) {
			var parts []tuple
			for pe := range pes {
				from, to := shareOf(n, pe, pes)
				part := make([]tuple, to-from)
				g.fill(part, from)
				parts = append(parts, part...)
			}
			if !slices.Equal(parts, whole) {
				t.Error("shares do not add up to the list")
			}
		})
	}
}

func TestOtherSeedsGiveOtherGraphs(t *testing.T) {
	a, b := make([]tuple, 64), make([]tuple, 64)
	newGenerator(10, defaultSeed).fill(a, 0)
	newGenerator(10, [2]uint64{1 << 61, 3 << 31}).fill(b, 0)
	if slices.Equal(a, b) {
		t.Error("the seed has no effect")
	}
}

func TestTupleKeeps48Bits(t *testing.T) {
	for _, ends := range [][2]uint64{{0, 1<<48 - 1}, {1<<48 - 1, 0}, {0x123456789ABC, 0xFEDCBA987654}} {
		if v0, v1 := pack(ends[0], ends[1]).ends(); v0 != ends[0] || v1 != ends[1] {
			t.Errorf("packed %x, unpacked %x %x", ends, v0, v1)
		}
	}
}

func TestRootsReproduceReference(t *testing.T) {
	for name, want := range loadVectors(t) {
		t.Run("scale"+name, func(t *testing.T) {
			g := newGenerator(scaleOf(want), defaultSeed)
			edges := make([]tuple, want.NEdges)
			g.fill(edges, 0)
			degree := make([]uint64, want.NVerts)
			for _, e := range edges {
				if v0, v1 := e.ends(); v0 != v1 {
					degree[v0]++
					degree[v1]++
				}
			}
			got, err := g.chooseRoots(64, func(v uint64) (bool, error) { return degree[v] > 0, nil })
			if err != nil || !slices.Equal(got, want.knownRoots()) {
				t.Errorf("roots %v, %v\nwant  %v", got, err, want.knownRoots())
			}
			if degree[want.MaxDegreeVertex] != want.MaxDegree || slices.Max(degree) != want.MaxDegree {
				t.Errorf("largest degree %d, want %d", slices.Max(degree), want.MaxDegree)
			}
		})
	}
}

func BenchmarkGenerate(b *testing.B) {
	for _, scale := range []int{16, 20, 26} {
		b.Run(fmt.Sprintf("scale%d", scale), func(b *testing.B) {
			g := newGenerator(scale, defaultSeed)
			block := make([]tuple, 1<<12)
			var done uint64
			for b.Loop() {
				g.fill(block, done)
				done += uint64(len(block))
			}
			b.ReportMetric(float64(done)/b.Elapsed().Seconds()/1e6, "Medges/s")
		})
	}
}
