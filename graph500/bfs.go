package graph500

import (
	"fmt"
	"math/bits"
	"time"
)

// Kernel 2: Graph500 3.0, section "Kernel 2 - breadth-first search". A level-synchronous, direction-optimizing
// search (Beamer, Asanovic, Patterson 2012). Each level ends in one collective: every PE writes its counts
// beside those of all others and enters a barrier. After the barrier all take the same decision.

const (
	// A search goes bottom-up when the frontier's edges exceed the unexplored ones divided by bottomUpRatio. This
	// is earlier than with the paper's 14, because a look at the head of a row is cheaper than an atomic on a
	// peer's cache line.
	bottomUpRatio = 60
	// It goes back top-down when the vertices not yet reached are more than topDownRatio times the frontier. The
	// vertices not reached are what bottom-up looks at, so bottom-up finishes a search with few of them left.
	topDownRatio = 18

	cellWords   = 8 // counts of one PE for one level: a cache line
	cellFound   = 0
	cellEdges   = 1
	frontiers   = 3 // frontier bitmaps: read in this level, written in it, being cleared
	cellBuffers = 2
)

// bfs holds what a search needs, allocated once for all searches.
type bfs struct {
	gr *graph
	g  *group

	pred   [][]int64             // of every PE: local vertex -> parent, -1 unreached; the answer
	seen   [][]uint64            // of every PE: bitmap of ranks already reached
	par    [][]uint32            // of every PE: rank -> flat number of the parent
	bits   [][]uint64            // of every PE: the frontier bitmaps, one behind the other, so cut up in fronts
	cells  [][]uint64            // of every PE: [buffer][sender][cellWords]
	fronts [frontiers][][]uint64 // by level modulo 3, of every PE: bitmap of the ranks found in that level
	front  []uint64              // copy of all PEs' frontier, a bit per flat number; never set for "no parent"

	todo, rest [wordBits]uint8 // scratch of bottomUp: ranks within a word
	touched    uint32          // keeps reads that only fetch memory from being dropped

	allRanked uint64 // vertices with an edge on all PEs
	allEdges  uint64 // sum of their degrees
}

// newBFS allocates the arrays of kernel 2. Collective.
func newBFS(gr *graph) (*bfs, error) {
	b := &bfs{gr: gr, g: gr.g, allRanked: uint64(gr.ranked)}
	for _, d := range gr.degree {
		b.allEdges += uint64(d)
	}
	if err := gr.g.sum("search", &b.allRanked, &b.allEdges); err != nil {
		return nil, err
	}
	var err error
	if _, b.pred, err = allocHeld[int64](b.g, "parents", gr.own.nlocal); err != nil {
		return nil, err
	}
	if _, b.seen, err = allocHeld[uint64](b.g, "visited bitmap", gr.words); err != nil {
		return nil, err
	}
	if _, b.par, err = allocHeld[uint32](b.g, "parents by rank", gr.words*wordBits+1); err != nil {
		return nil, err
	}
	if _, b.bits, err = allocHeld[uint64](b.g, "frontier bitmaps", frontiers*gr.words); err != nil {
		return nil, err
	}
	if _, b.cells, err = allocHeld[uint64](b.g, "level counts", cellBuffers*b.g.pes*cellWords); err != nil {
		return nil, err
	}
	for i := range b.fronts {
		for _, all := range b.bits {
			b.fronts[i] = append(b.fronts[i], all[i*gr.words:(i+1)*gr.words:(i+1)*gr.words])
		}
	}
	b.front = make([]uint64, b.g.pes<<gr.shift/wordBits+1)
	return b, nil
}

// level is the state of a search between two levels, the same on all PEs.
type level struct {
	number     int
	found      uint64 // vertices in the frontier
	left       uint64 // vertices with an edge that are not reached yet
	edges      uint64 // their degrees, while they are known
	unexplored uint64 // degrees of the vertices not yet reached
	bottomUp   bool
	wasUp      bool // there was a bottom-up phase, which pays only once
}

// search runs one timed search from root and leaves the answer in pred. Collective.
func (b *bfs) search(root uint64) (Search, error) {
	if err := b.g.barrier("search"); err != nil {
		return Search{}, err
	}
	start := time.Now()
	depth, err := b.traverse(root)
	if err != nil {
		return Search{}, err
	}
	b.writeParents()
	if err := b.g.barrier("search"); err != nil {
		return Search{}, err
	}
	nanos := uint64(time.Since(start))
	if err := b.g.maximum("search", &nanos); err != nil {
		return Search{}, err
	}
	s := Search{Root: root, Depth: depth, Seconds: float64(nanos) / 1e9}
	return s, b.count(&s)
}

// traverse finds a parent for every vertex that root reaches and returns the number of the last level.
func (b *bfs) traverse(root uint64) (depth int, err error) {
	b.reset(root)
	at := level{left: b.allRanked}
	if err := b.exchangeCounts(&at, b.rootCounts(root)); err != nil {
		return 0, err
	}
	at.unexplored = b.allEdges - at.edges
	for {
		b.chooseDirection(&at)
		var counts levelCounts
		if at.bottomUp {
			counts = b.bottomUp(at.number)
		} else {
			counts = b.topDown(at.number)
		}
		// No PE reads the level before this one any more. Bits that stayed there would be expanded again in vain.
		clear(b.frontier(at.number + 2)[b.g.me])
		at.number++
		if err := b.exchangeCounts(&at, counts); err != nil {
			return 0, err
		}
		if at.found == 0 {
			return at.number - 1, nil
		}
		at.unexplored -= min(at.edges, at.unexplored)
	}
}

// chooseDirection sets the direction of the next level.
func (b *bfs) chooseDirection(at *level) {
	switch {
	case at.bottomUp:
		at.bottomUp = at.found*topDownRatio >= at.left
	case !at.wasUp:
		at.bottomUp = at.edges > at.unexplored/bottomUpRatio
		at.wasUp = at.bottomUp
	}
}

// frontier returns all PEs' bitmaps of the ranks found in a level.
func (b *bfs) frontier(number int) [][]uint64 { return b.fronts[number%frontiers] }

// reset clears the last search. The owner of root makes root the frontier of level 0.
func (b *bfs) reset(root uint64) {
	me := b.g.me
	clear(b.seen[me])
	clear(b.bits[me])
	par, none := b.par[me], b.gr.noParent()
	for i := range par {
		par[i] = none
	}
	if owner, local := b.gr.own.split(root); int(owner) == me {
		rank := b.gr.rank[me][local]
		b.seen[me][rank>>wordShift] |= 1 << (rank & wordMask)
		b.frontier(0)[me][rank>>wordShift] |= 1 << (rank & wordMask)
		par[rank] = owner<<b.gr.shift | rank
	}
}

// levelCounts is what one PE adds to a level.
type levelCounts struct{ found, edges uint64 }

// rootCounts returns this PE's counts of level 0.
func (b *bfs) rootCounts(root uint64) levelCounts {
	owner, local := b.gr.own.split(root)
	if int(owner) != b.g.me {
		return levelCounts{}
	}
	return levelCounts{found: 1, edges: uint64(b.gr.degree[local])}
}

// exchangeCounts is the collective of a level. It adds up all PEs' counts, and after it all that they have written
// is visible. There are two buffers, because a PE may enter the next level while others still read.
func (b *bfs) exchangeCounts(at *level, c levelCounts) error {
	buffer := at.number % cellBuffers * b.g.pes
	for _, cells := range b.cells {
		mine := cells[(buffer+b.g.me)*cellWords:]
		mine[cellFound], mine[cellEdges] = c.found, c.edges
	}
	if err := b.g.w.Barrier(); err != nil {
		return fmt.Errorf("search, level %d: barrier: %w", at.number, err)
	}
	at.found, at.edges = 0, 0
	for pe := range b.g.pes {
		cell := b.cells[b.g.me][(buffer+pe)*cellWords:]
		at.found += cell[cellFound]
		at.edges += cell[cellEdges]
	}
	at.left -= min(at.found, at.left)
	return nil
}

// writeParents writes the answer in the numbers of the input: the parent of every local vertex, or -1. Isolated
// vertices look up a rank without a parent, so the loop has no branch.
func (b *bfs) writeParents() {
	me := b.g.me
	rank := b.gr.rank[me][:b.gr.own.nlocal]
	pred := b.pred[me][:len(rank)]
	par, orig := b.par[me], b.gr.orig
	for v, r := range rank {
		pred[v] = int64(orig[par[r]])
	}
}

// count counts, outside of the measured time, the vertices and input tuples that the search has reached on all
// PEs.
func (b *bfs) count(s *Search) error {
	me := b.g.me
	for w, word := range b.seen[me] {
		s.Reached += uint64(bits.OnesCount64(word))
		for ; word != 0; word &= word - 1 {
			s.Edges += uint64(b.gr.byRank[me][w<<wordShift|bits.TrailingZeros64(word)])
		}
	}
	for v, n := range b.gr.loops {
		if n != 0 && b.pred[me][v] != noVertex {
			s.EdgesAndLoops += uint64(n)
		}
	}
	if err := b.g.sum("search", &s.Reached, &s.Edges, &s.EdgesAndLoops); err != nil {
		return err
	}
	s.Edges /= 2 // every tuple was counted at both ends
	s.EdgesAndLoops += s.Edges
	return nil
}
