package graph500_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/graph500"
	"github.com/goshmem/goshmem/shmem"
)

// answer is a right answer that a case corrupts, alike on all PEs.
type answer struct {
	g      *serialGraph
	level  []int
	pred   []int64
	claim  graph500.Search
	isLeaf []bool
}

func newAnswer(g *serialGraph, s graph500.Search, pred []int64) *answer {
	a := &answer{g: g, level: g.levels(s.Root), pred: pred, claim: s, isLeaf: make([]bool, len(pred))}
	for v := range a.isLeaf {
		a.isLeaf[v] = a.level[v] > 0
	}
	for v, p := range pred {
		if p >= 0 && v != int(p) {
			a.isLeaf[p] = false
		}
	}
	return a
}

// find returns a leaf of the tree and another vertex for which ok holds.
func (a *answer) find(t *testing.T, ok func(leaf, other int) bool) (leaf, other int) {
	t.Helper()
	for v := range a.pred {
		if !a.isLeaf[v] {
			continue
		}
		for u := range a.pred {
			if u != v && a.level[u] >= 0 && ok(v, u) {
				return v, u
			}
		}
	}
	t.Fatal("the graph has no such pair")
	return 0, 0
}

func (a *answer) adjacent(v, u int) bool { return a.g.adjacent(uint64(v), uint64(u)) }

// corruption makes an answer wrong and returns the vertex that the violation has to name, or -1
// for the root.
type corruption func(t *testing.T, a *answer) int

// reparent gives the first suitable leaf another parent.
func reparent(ok func(a *answer, leaf, other int) bool) corruption {
	return func(t *testing.T, a *answer) int {
		v, u := a.find(t, func(leaf, other int) bool { return ok(a, leaf, other) })
		a.pred[v] = int64(u)
		return v
	}
}

// claim changes what is claimed besides the parents.
func claim(change func(s *graph500.Search)) corruption {
	return func(_ *testing.T, a *answer) int {
		change(&a.claim)
		return -1
	}
}

// cycle is a false tree of two vertices outside the component, each the other's parent. Reference
// validators accept it, because their infinite distance plus one equals itself.
func cycle(v, u int) corruption {
	return func(t *testing.T, a *answer) int {
		if a.level[v] >= 0 || a.level[u] >= 0 || !a.adjacent(v, u) {
			t.Fatalf("vertices %d and %d are not a component of their own", v, u)
		}
		a.pred[v], a.pred[u] = int64(u), int64(v)
		return v
	}
}

var wrongAnswers = []struct {
	name  string
	scale int
	kind  uint64
	rule  int
	spoil corruption
}{
	{"false cycle at scale 10", 10, graph500.NoLevel, 1, cycle(616, 708)},
	{"false cycle at scale 16", 16, graph500.NoLevel, 1, cycle(12359, 46752)},
	{"false cycle with its size claimed", 10, graph500.NoLevel, 1, func(t *testing.T, a *answer) int {
		a.claim.Reached += 2
		a.claim.Edges++
		a.claim.EdgesAndLoops++
		return cycle(616, 708)(t, a)
	}},
	{"non-edge parent: right level, but no edge", 10, graph500.ParentNotNeighbor, 5, reparent(func(a *answer, v, u int) bool {
		return a.level[u] == a.level[v]-1 && !a.adjacent(v, u)
	})},
	{"wrong parent: two levels up", 10, graph500.ParentNotNeighbor, 5, func(t *testing.T, a *answer) int {
		// Without deeper neighbors no edge becomes too long when the vertex moves up.
		v, u := a.find(t, func(v, u int) bool {
			deeper := slices.ContainsFunc(a.g.neighbors[v], func(n uint64) bool { return a.level[n] >= a.level[v] })
			return a.level[u] == a.level[v]-2 && !deeper
		})
		a.pred[v] = int64(u)
		return v
	}},
	{"level off by one: parent is a neighbor of the same level", 10, graph500.LevelsApart, 3, reparent(func(a *answer, v, u int) bool {
		return a.level[u] == a.level[v] && a.adjacent(v, u)
	})},
	{"missing vertex", 10, graph500.HalfReached, 3, func(t *testing.T, a *answer) int {
		v, _ := a.find(t, func(int, int) bool { return true })
		a.pred[v] = -1
		return v
	}},
	{"missing inner vertex", 10, graph500.NoLevel, 1, func(_ *testing.T, a *answer) int {
		orphan := slices.IndexFunc(a.pred, func(p int64) bool { return p >= 0 && a.level[p] == 1 })
		gone := a.pred[orphan]
		a.pred[gone] = -1
		return slices.Index(a.pred, gone)
	}},
	{"everything but the root missing", 10, graph500.HalfReached, 3, func(_ *testing.T, a *answer) int {
		for v := range a.pred {
			if uint64(v) != a.claim.Root {
				a.pred[v] = -1
			}
		}
		return int(slices.Min(a.g.neighbors[a.claim.Root]))
	}},
	{"root missing", 10, graph500.WrongRoot, 0, func(_ *testing.T, a *answer) int {
		a.pred[a.claim.Root] = -1
		return -1
	}},
	{"wrong root", 10, graph500.WrongRoot, 0, func(_ *testing.T, a *answer) int {
		a.pred[a.claim.Root] = int64(a.g.neighbors[a.claim.Root][0])
		return -1
	}},
	{"answer for another root", 10, graph500.WrongRoot, 0, claim(func(s *graph500.Search) { s.Root = 214 })},
	{"two roots", 10, graph500.OwnParent, 1, func(t *testing.T, a *answer) int {
		v, _ := a.find(t, func(int, int) bool { return true })
		a.pred[v] = int64(v)
		return v
	}},
	{"parent too large", 10, graph500.ParentOutOfRange, 0, func(_ *testing.T, a *answer) int {
		a.pred[7] = int64(len(a.pred))
		return 7
	}},
	{"parent negative", 10, graph500.ParentOutOfRange, 0, func(_ *testing.T, a *answer) int {
		a.pred[7] = -2
		return 7
	}},
	{"chain that is too deep", 10, graph500.TooDeep, 1, func(_ *testing.T, a *answer) int {
		v := int(a.claim.Root)
		for range 300 {
			a.pred[(v+1)%len(a.pred)] = int64(v)
			v = (v + 1) % len(a.pred)
		}
		return -2
	}},
	{"wrong edge count", 10, graph500.WrongEdges, 0, claim(func(s *graph500.Search) { s.Edges++ })},
	{"wrong edge count with self-loops", 10, graph500.WrongEdgesAndLoops, 0, claim(func(s *graph500.Search) { s.EdgesAndLoops-- })},
	{"wrong number of vertices", 10, graph500.WrongReached, 0, claim(func(s *graph500.Search) { s.Reached-- })},
	{"wrong depth", 10, graph500.WrongDepth, 0, claim(func(s *graph500.Search) { s.Depth++ })},
}

func TestWrongAnswersAreRefused(t *testing.T) {
	for _, n := range []int{1, 3} {
		onPEs(t, n, func(t *testing.T, w *shmem.World) {
			for _, scale := range []int{10, 16} {
				testWrongAnswers(t, w, scale)
			}
		})
	}
}

func testWrongAnswers(t *testing.T, w *shmem.World, scale int) {
	root := graph500.LoadVectors(t)[map[int]string{10: "10", 16: "16"}[scale]].Roots[0]
	b, err := graph500.NewBench(w, scale, 16)
	must(t, err)
	g := newSerialGraph(graph500.AllTuples(scale, 16), b.NVerts())
	right, err := b.Search(root)
	must(t, err)
	parents := b.Parents()
	for _, c := range wrongAnswers {
		if c.scale != scale {
			continue
		}
		a := newAnswer(g, right, slices.Clone(parents))
		vertex := c.spoil(t, a)
		must(t, b.Barrier())
		b.SetParents(a.pred)
		must(t, b.Barrier())
		bad, err := b.Check(a.claim)
		must(t, err)
		switch {
		case bad == nil:
			t.Errorf("%s: accepted", c.name)
		case bad.Kind() != c.kind || bad.Rule() != c.rule:
			t.Errorf("%s: refused as rule %d, want rule %d: %v", c.name, bad.Rule(), c.rule, bad)
		case vertex >= 0 && bad.Vertex != uint64(vertex) || vertex == -1 && bad.Vertex != a.claim.Root:
			t.Errorf("%s: names vertex %d, want %d: %v", c.name, bad.Vertex, vertex, bad)
		}
	}
	must(t, b.Barrier())
	b.SetParents(parents)
	must(t, b.Barrier())
	bad, err := b.Check(right)
	must(t, err)
	if bad != nil {
		t.Errorf("the right answer is refused: %v", bad)
	}
	must(t, b.Close())
}

// The distributed validation has to agree with the serial one on answers that are corrupted at
// random. Some of these stay right because another parent is as good.
func TestValidationAgreesWithSerial(t *testing.T) {
	for _, n := range []int{1, 3} {
		onPEs(t, n, func(t *testing.T, w *shmem.World) {
			const scale, seed = 7, 20
			b, err := graph500.NewBench(w, scale, 4)
			must(t, err)
			g := newSerialGraph(graph500.AllTuples(scale, 4), b.NVerts())
			roots, err := b.Roots(8)
			must(t, err)
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			accepted, refused := 0, 0
			for range 400 {
				s, err := b.Search(roots[random.IntN(len(roots))])
				must(t, err)
				pred := b.Parents()
				must(t, b.Barrier())
				corruptAtRandom(random, g, s.Root, pred)
				b.SetParents(pred)
				must(t, b.Barrier())
				want := g.validate(s.Root, pred)
				bad, err := b.Check(s)
				must(t, err)
				if (bad == nil) != (want == nil) {
					t.Fatalf("distributed: %v\nserial: %v\nseed %d root %d parents %v", bad, want, seed, s.Root, pred)
				}
				if bad == nil {
					accepted++
				} else {
					refused++
				}
			}
			if accepted < 20 || refused < 20 {
				t.Errorf("%d accepted, %d refused: the test compares too little", accepted, refused)
			}
			must(t, b.Close())
		})
	}
}

// corruptAtRandom changes up to two parents, mostly to neighbors, so that wrong answers look
// right.
func corruptAtRandom(random *rand.Rand, g *serialGraph, root uint64, pred []int64) {
	for range random.IntN(3) {
		v := random.IntN(len(pred))
		switch choice := random.IntN(8); {
		case choice == 0:
			pred[v] = random.Int64N(int64(len(pred)))
		case choice == 1 && uint64(v) != root:
			pred[v] = -1
		case len(g.neighbors[v]) > 0:
			pred[v] = int64(g.neighbors[v][random.IntN(len(g.neighbors[v]))])
		}
	}
}
