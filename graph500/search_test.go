package graph500_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/goshmem/goshmem/graph500"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// must ends the test on the error of a collective call.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// onPEs runs f in a job of n PEs, in a subtest named after n.
func onPEs(t *testing.T, n int, f func(*testing.T, *shmem.World)) {
	t.Helper()
	t.Run(fmt.Sprintf("pes%d", n), func(t *testing.T) { shmemtest.Run(t, n, f) })
}

// The known answers are depth, reached vertices, edges with and without self-loops, the size of
// every level and a checksum over (vertex, level).
func TestSearchesReproduceReference(t *testing.T) {
	for _, c := range []struct {
		scale int
		pes   []int
	}{{4, []int{1, 3, 16}}, {10, []int{1, 3, 7, 16}}, {14, []int{1, 3, 7, 16}}, {16, []int{2}}} {
		t.Run(fmt.Sprintf("scale%d", c.scale), func(t *testing.T) {
			for _, n := range c.pes {
				onPEs(t, n, func(t *testing.T, w *shmem.World) { checkKnownAnswers(t, w, c.scale) })
			}
		})
	}
}

func checkKnownAnswers(t *testing.T, w *shmem.World, scale int) {
	want := graph500.LoadVectors(t)[strconv.Itoa(scale)]
	b, err := graph500.NewBench(w, scale, 16)
	must(t, err)
	roots, err := b.Roots(64)
	must(t, err)
	if !slices.Equal(roots, want.KnownRoots()) {
		t.Errorf("roots %v\nwant  %v", roots, want.KnownRoots())
	}
	for _, run := range want.Runs {
		s, err := b.Search(run.Root)
		must(t, err)
		if s.Depth != run.Depth || s.Reached != run.Reached || s.Edges != run.Edges || s.EdgesAndLoops != run.EdgesAndLoops {
			t.Errorf("root %d: %+v\nwant %+v", run.Root, s, run)
		}
		bad, err := b.Check(s)
		must(t, err)
		if bad != nil {
			t.Fatalf("root %d: %v", run.Root, bad)
		}
		counts, checksum := b.Levels(graph500.PairHash)
		total, err := b.Sum(checksum)
		must(t, err)
		if total != run.LevelChecksum {
			t.Errorf("root %d: level checksum %d, want %d", run.Root, total, run.LevelChecksum)
		}
		for l, n := range run.LevelCounts {
			var mine uint64
			if l < len(counts) {
				mine = counts[l]
			}
			total, err := b.Sum(mine)
			must(t, err)
			if total != n {
				t.Errorf("root %d: %d vertices on level %d, want %d", run.Root, total, l, n)
			}
		}
	}
	must(t, b.Close())
}

// Each direction alone has to find the same levels: the switch between them only affects the
// speed.
func TestEachDirectionAlone(t *testing.T) {
	for _, n := range []int{1, 3} {
		onPEs(t, n, func(t *testing.T, w *shmem.World) {
			run := graph500.LoadVectors(t)["10"].Runs[0]
			b, err := graph500.NewBench(w, 10, 16)
			must(t, err)
			for _, up := range []bool{false, true} {
				s, err := b.Directions(run.Root, up)
				must(t, err)
				bad, err := b.Check(s)
				must(t, err)
				if bad != nil || s.Depth != run.Depth || s.Reached != run.Reached {
					t.Errorf("bottom-up %v: got search %+v, violation %v", up, s, bad)
				}
			}
			must(t, b.Close())
		})
	}
}

// A row has exactly the distinct neighbors, those of the highest degree first.
func TestRowsHoldDistinctNeighbors(t *testing.T) {
	for _, n := range []int{1, 3, 16} {
		onPEs(t, n, func(t *testing.T, w *shmem.World) {
			b, err := graph500.NewBench(w, 10, 16)
			must(t, err)
			g := newSerialGraph(graph500.AllTuples(10, 16), b.NVerts())
			degree := make([]int, b.NVerts())
			for _, e := range g.tuples {
				if e[0] != e[1] {
					degree[e[0]]++
					degree[e[1]]++
				}
			}
			var rows, entries uint64
			for local := range b.Locals() {
				v, row := b.Neighbors(local)
				if v >= b.NVerts() || row == nil {
					continue
				}
				rows++
				entries += uint64(len(row))
				if n == 1 && !slices.IsSortedFunc(row, func(a, b uint64) int { return degree[b] - degree[a] }) {
					t.Errorf("row of %d is not ordered by degree", v)
				}
				slices.Sort(row)
				if want := g.neighbors[v]; !slices.Equal(row, want) {
					t.Errorf("row of %d: got %v, want %v", v, row, want)
				}
			}
			want := graph500.LoadVectors(t)["10"]
			checkSum(t, b, "rows", rows, want.VerticesWithEdge)
			checkSum(t, b, "entries", entries, 2*want.UniqueEdges)
			must(t, b.Close())
		})
	}
}

func checkSum(t *testing.T, b *graph500.Bench, what string, mine, want uint64) {
	t.Helper()
	total, err := b.Sum(mine)
	must(t, err)
	if total != want {
		t.Errorf("%s: got %d, want %d", what, total, want)
	}
}

// Small and unusual graphs: more PEs than vertices, isolated vertices, hardly any edges.
func TestRunOnSmallGraphs(t *testing.T) {
	for _, n := range []int{1, 3, 7, 16} {
		onPEs(t, n, func(t *testing.T, w *shmem.World) {
			for scale := 1; scale <= 6; scale++ {
				for _, edgeFactor := range []int{1, 2, 40} {
					o := graph500.DefaultOptions()
					o.Scale, o.EdgeFactor, o.Roots = scale, edgeFactor, 4
					r, err := graph500.Run(w, o)
					if scale == 1 && edgeFactor < 40 && err != nil {
						continue // a graph of self-loops has no search key
					}
					must(t, err)
					if len(r.Searches) == 0 || r.PEs != n || len(r.PeakResident) != n {
						t.Errorf("scale %d edgefactor %d: got result %+v", scale, edgeFactor, r)
					}
				}
			}
		})
	}
}

func TestRunUsesKnownRoots(t *testing.T) {
	onPEs(t, 3, func(t *testing.T, w *shmem.World) {
		for _, scale := range []int{4, 10} {
			o := graph500.DefaultOptions()
			o.Scale = scale
			r, err := graph500.Run(w, o)
			must(t, err)
			var roots []uint64
			for _, s := range r.Searches {
				roots = append(roots, s.Root)
			}
			if want := graph500.LoadVectors(t)[strconv.Itoa(scale)].KnownRoots(); !slices.Equal(roots, want) {
				t.Errorf("scale %d: got roots %v, want %v", scale, roots, want)
			}
		}
	})
}

// A sparse graph has many components, so searches reach little and self-loops lie outside.
func TestSearchesAgreeWithSerial(t *testing.T) {
	for _, n := range []int{1, 3} {
		onPEs(t, n, func(t *testing.T, w *shmem.World) {
			b, err := graph500.NewBench(w, 10, 1)
			must(t, err)
			g := newSerialGraph(graph500.AllTuples(10, 1), b.NVerts())
			roots, err := b.Roots(200)
			must(t, err)
			small := 0
			for _, root := range roots {
				s, err := b.Search(root)
				must(t, err)
				want := g.search(root)
				if s.Depth != want.Depth || s.Reached != want.Reached || s.Edges != want.Edges || s.EdgesAndLoops != want.EdgesAndLoops {
					t.Errorf("got %+v, want %+v", s, want)
				}
				bad, err := b.Check(s)
				must(t, err)
				if bad != nil {
					t.Errorf("root %d: %v", root, bad)
				}
				if want.Reached < 10 {
					small++
				}
			}
			if small == 0 || small == len(roots) {
				t.Errorf("%d of %d components are small: the test covers too little", small, len(roots))
			}
			must(t, b.Close())
		})
	}
}
