package graph500

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/goshmem/goshmem/shmem"
)

// Kernel 1: Graph500 3.0, section "Kernel 1 - graph construction". It sees only the tuples, and finds the number
// of vertices itself. It makes two exchanges: one of degrees and, once the vertices are ranked by them, one of
// edges.

const (
	loopBit   = 1 << 31 // marks a self-loop among the degree entries
	noVertex  = -1
	wordBits  = 64
	wordShift = 6
	wordMask  = wordBits - 1
)

// graph is one PE's part of the search structure.
type graph struct {
	g   *group
	own owners
	// Vertices with an edge have ranks 0..ranked-1, by descending degree. words is the size of a bitmap of
	// ranks, the same on all PEs. Isolated vertices have the rank words*64, which never has a parent.
	ranked int
	words  int
	shift  uint // flat number: owner<<shift | rank

	rowStart []uint32          // by rank, ranked+1 entries
	heads    [][headLen]uint32 // by rank: the first neighbors, or "no parent"
	long     int               // ranks from this on have all their neighbors in heads
	col      []uint32          // flat numbers of the neighbors, highest degree first, no duplicates, no self-loops
	orig     []int32           // flat number -> vertex; the last entry, for "no parent", is -1
	loops    []uint32          // self-loop tuples of each local vertex

	degreeSym shmem.Sym[uint32]
	degree    []uint32   // tuples other than self-loops at each local vertex
	rank      [][]uint32 // of every PE: local vertex -> rank
	byRank    [][]uint32 // of every PE: rank -> degree
}

// noParent returns the flat number that stands for "no parent".
func (gr *graph) noParent() uint32 { return uint32(len(gr.orig) - 1) }

// construct builds the graph of all PEs' tuples. Collective.
func construct(g *group, tuples []tuple) (*graph, error) {
	gr := &graph{g: g}
	if err := gr.findVertices(tuples); err != nil {
		return nil, err
	}
	if err := gr.countDegrees(tuples); err != nil {
		return nil, err
	}
	if err := gr.rankVertices(); err != nil {
		return nil, err
	}
	if err := gr.exchangeEdges(tuples); err != nil {
		return nil, err
	}
	gr.finishRows()
	if err := gr.nameRanks(); err != nil {
		return nil, err
	}
	gr.copyHeads()
	return gr, nil
}

// findVertices finds the number of vertices, and allocates what depends on it.
func (gr *graph) findVertices(tuples []tuple) error {
	var largest uint64
	for _, t := range tuples {
		v0, v1 := t.ends()
		largest = max(largest, v0, v1)
	}
	if err := gr.g.maximum("construction", &largest); err != nil {
		return err
	}
	if largest >= 1<<maxScale {
		return fmt.Errorf("largest vertex number: %d, want below 2^%d", largest, maxScale)
	}
	gr.own = newOwners(largest+1, gr.g.pes)
	gr.loops = make([]uint32, gr.own.nlocal)
	var views [][]uint32
	var err error
	if gr.degreeSym, views, err = allocHeld[uint32](gr.g, "degrees", gr.own.nlocal); err != nil {
		return err
	}
	gr.degree = views[gr.g.me][:gr.own.nlocal]
	clear(gr.degree)
	_, gr.rank, err = allocHeld[uint32](gr.g, "ranks", gr.own.nlocal)
	return err
}

// countDegrees sends the ends of all edges to their owners, which count them.
func (gr *graph) countDegrees(tuples []tuple) error {
	x, err := newExchange[uint32](gr.g)
	if err != nil {
		return err
	}
	fill := inBlocks(tuples, gr.sendEnds)
	if err := x.run("counting degrees", fill, gr.receiveEnds); err != nil {
		return err
	}
	return x.free()
}

// sendEnds sends the ends of a block of edges.
func (gr *graph) sendEnds(out *outbox[uint32], block []tuple) {
	for _, t := range block {
		v0, v1 := t.ends()
		owner0, local0 := gr.own.split(v0)
		if v0 == v1 {
			out.put(owner0, local0|loopBit)
			continue
		}
		owner1, local1 := gr.own.split(v1)
		out.put(owner0, local0)
		out.put(owner1, local1)
	}
}

// receiveEnds counts the ends that a peer has sent.
func (gr *graph) receiveEnds(entries []uint32) {
	degree, loops := gr.degree, gr.loops
	for _, e := range entries {
		if e&loopBit != 0 {
			loops[e&^loopBit]++
		} else {
			degree[e]++
		}
	}
}

// rankVertices orders the local vertices by descending degree (a counting sort, so equal degrees stay in
// vertex order) and starts the rows.
func (gr *graph) rankVertices() error {
	var largest uint32
	for _, d := range gr.degree {
		largest = max(largest, d)
	}
	place := make([]uint32, largest+2) // place[d+1] counts degree d, then holds where degree d starts
	for _, d := range gr.degree {
		place[d]++
	}
	var before uint32
	for d := int(largest); d >= 1; d-- {
		place[d], before = before, before+place[d]
	}
	gr.ranked = int(before)
	words := uint64(gr.ranked+wordMask) / wordBits
	if err := gr.g.maximum("ranking", &words); err != nil {
		return err
	}
	gr.words = max(int(words), 1)
	gr.shift = uint(bits.Len(uint(gr.words*wordBits - 1)))

	var err error
	if _, gr.byRank, err = allocHeld[uint32](gr.g, "degrees by rank", gr.words*wordBits); err != nil {
		return err
	}
	rank, byRank := gr.rank[gr.g.me], gr.byRank[gr.g.me]
	clear(byRank)
	for v, d := range gr.degree {
		if d == 0 {
			rank[v] = uint32(gr.words * wordBits)
			continue
		}
		rank[v] = place[d]
		byRank[place[d]] = d
		place[d]++
	}
	return gr.startRows(byRank)
}

// startRows sets where rows start, by the degrees, which count duplicates.
func (gr *graph) startRows(byRank []uint32) error {
	gr.rowStart = make([]uint32, gr.ranked+1)
	var total uint64
	for r := range gr.ranked {
		gr.rowStart[r] = uint32(total)
		total += uint64(byRank[r])
	}
	if total > math.MaxUint32 {
		return fmt.Errorf("edges of PE %d: %d, want at most %d; hint: use more PEs", gr.g.me, total, uint32(math.MaxUint32))
	}
	gr.rowStart[gr.ranked] = uint32(total)
	gr.col = make([]uint32, total)
	return nil
}

// exchangeEdges sends every edge to both owners. A neighbor travels as rank*P+owner, so that ordering these
// keys orders the neighbors by rank.
func (gr *graph) exchangeEdges(tuples []tuple) error {
	x, err := newExchange[uint64](gr.g)
	if err != nil {
		return err
	}
	next := make([]uint32, gr.ranked)
	copy(next, gr.rowStart)
	receive := func(entries []uint64) {
		col := gr.col
		for _, e := range entries {
			at := next[e>>32]
			next[e>>32] = at + 1
			col[at] = uint32(e)
		}
	}
	// The ranks of all PEs must be in place before any PE looks them up.
	if err := gr.g.barrier("exchanging edges"); err != nil {
		return err
	}
	if err := x.run("exchanging edges", inBlocks(tuples, gr.sendEdges), receive); err != nil {
		return err
	}
	return x.free()
}

// sendEdges sends a block of edges to both owners of each.
func (gr *graph) sendEdges(out *outbox[uint64], block []tuple) {
	ranks, pes := gr.rank, uint64(gr.g.pes)
	for _, t := range block {
		v0, v1 := t.ends()
		if v0 == v1 {
			continue
		}
		owner0, local0 := gr.own.split(v0)
		owner1, local1 := gr.own.split(v1)
		rank0 := uint64(ranks[owner0][local0])
		rank1 := uint64(ranks[owner1][local1])
		out.put(owner0, rank0<<32|(rank1*pes+uint64(owner1)))
		out.put(owner1, rank1<<32|(rank0*pes+uint64(owner0)))
	}
}
