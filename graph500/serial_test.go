package graph500_test

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/graph500"
)

// serialGraph is a simple one-process graph that the distributed code is compared with.
type serialGraph struct {
	tuples    [][2]uint64
	neighbors [][]uint64 // sorted, without duplicates and self-loops
}

func newSerialGraph(tuples [][2]uint64, nverts uint64) *serialGraph {
	g := &serialGraph{tuples: tuples, neighbors: make([][]uint64, nverts)}
	for _, e := range tuples {
		if a, b := e[0], e[1]; a != b {
			g.neighbors[a] = append(g.neighbors[a], b)
			g.neighbors[b] = append(g.neighbors[b], a)
		}
	}
	for v, row := range g.neighbors {
		slices.Sort(row)
		g.neighbors[v] = slices.Compact(row)
	}
	return g
}

// adjacent reports whether an input edge joins two vertices.
func (g *serialGraph) adjacent(v, u uint64) bool {
	_, ok := slices.BinarySearch(g.neighbors[v], u)
	return ok
}

// levels searches breadth-first from root; -1 means unreached.
func (g *serialGraph) levels(root uint64) []int {
	level := make([]int, len(g.neighbors))
	for v := range level {
		level[v] = -1
	}
	level[root] = 0
	queue := []uint64{root}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for _, u := range g.neighbors[v] {
			if level[u] < 0 {
				level[u] = level[v] + 1
				queue = append(queue, u)
			}
		}
	}
	return level
}

// validate compares an answer with the true levels: a parent array is right if and only if every
// reached vertex has a neighbor one level up as its parent, and no other vertex has a parent.
func (g *serialGraph) validate(root uint64, pred []int64) error {
	level := g.levels(root)
	for v, p := range pred {
		switch {
		case uint64(v) == root:
			if p != int64(root) {
				return fmt.Errorf("root has parent %d", p)
			}
		case level[v] < 0 && p != -1:
			return fmt.Errorf("unreachable vertex %d has parent %d", v, p)
		case level[v] < 0:
		case p < 0 || p >= int64(len(pred)):
			return fmt.Errorf("vertex %d has parent %d", v, p)
		case level[p] != level[v]-1:
			return fmt.Errorf("vertex %d of level %d has parent %d of level %d", v, level[v], p, level[p])
		case !g.adjacent(uint64(v), uint64(p)):
			return fmt.Errorf("vertex %d is not a neighbor of its parent %d", v, p)
		}
	}
	return nil
}

// search returns the claim of a right search from root.
func (g *serialGraph) search(root uint64) graph500.Search {
	level := g.levels(root)
	s := graph500.Search{Root: root}
	for _, l := range level {
		s.Depth = max(s.Depth, l)
		if l >= 0 {
			s.Reached++
		}
	}
	for _, e := range g.tuples {
		if level[e[0]] >= 0 {
			s.EdgesAndLoops++
			if e[0] != e[1] {
				s.Edges++
			}
		}
	}
	return s
}
