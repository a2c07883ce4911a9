package graph500

import (
	"github.com/goshmem/goshmem/shmem"
)

// Bench is a constructed graph with its searches and checks, for tests on several PEs.
type Bench struct {
	Tuples []tuple
	g      *group
	gr     *graph
	b      *bfs
	check  *checker
	gen    *generator
}

// NewBench generates and constructs a graph. Collective.
func NewBench(w *shmem.World, scale, edgeFactor int) (*Bench, error) {
	g, err := newGroup(w)
	if err != nil {
		return nil, err
	}
	t := &Bench{g: g, gen: newGenerator(scale, [2]uint64{2, 3})}
	from, to := shareOf(uint64(edgeFactor)<<uint(scale), g.me, g.pes)
	t.Tuples = make([]tuple, to-from)
	t.gen.fill(t.Tuples, from)
	if t.gr, err = construct(g, t.Tuples); err != nil {
		return nil, err
	}
	if t.b, err = newBFS(t.gr); err != nil {
		return nil, err
	}
	t.check, err = newChecker(g, t.gr.own, t.Tuples, t.b.pred)
	return t, err
}

// Close frees the symmetric memory. Collective.
func (t *Bench) Close() error { return t.g.release() }

// Roots chooses search keys. Collective.
func (t *Bench) Roots(n int) ([]uint64, error) { return t.gen.chooseRoots(n, t.gr.hasEdge) }

// Search runs kernel 2. Collective.
func (t *Bench) Search(root uint64) (Search, error) { return t.b.search(root) }

// Check validates a search. Collective.
func (t *Bench) Check(s Search) (*Violation, error) { return t.check.check(s) }

// Barrier waits for all PEs.
func (t *Bench) Barrier() error { return t.g.barrier("test") }

// NVerts is the number of vertices that construction discovered.
func (t *Bench) NVerts() uint64 { return t.gr.own.nverts }

// Parents copies the answer of all PEs, by vertex.
func (t *Bench) Parents() []int64 {
	all := make([]int64, t.NVerts())
	for v := range all {
		owner, local := t.gr.own.split(uint64(v))
		all[v] = t.b.pred[owner][local]
	}
	return all
}

// SetParents replaces this PE's part of the answer.
func (t *Bench) SetParents(all []int64) {
	for v, p := range all {
		if owner, local := t.gr.own.split(uint64(v)); int(owner) == t.g.me {
			t.b.pred[owner][local] = p
		}
	}
}

// Levels counts the vertices of each level on this PE, as the last check found them, and adds up
// hash(vertex, level).
func (t *Bench) Levels(hash func(v, level uint64) uint64) (counts []uint64, checksum uint64) {
	for v, l := range t.check.level[t.g.me][:t.gr.own.nlocal] {
		if l == unreached {
			continue
		}
		for len(counts) <= int(l) {
			counts = append(counts, 0)
		}
		counts[l]++
		checksum += hash(t.gr.own.vertex(t.g.me, v), uint64(l))
	}
	return counts, checksum
}

// Sum adds a word over all PEs. Collective.
func (t *Bench) Sum(x uint64) (uint64, error) {
	err := t.g.sum("test", &x)
	return x, err
}

// Neighbors returns the row of a vertex of this PE in vertex numbers, in the order of construction.
func (t *Bench) Neighbors(local int) (vertex uint64, row []uint64) {
	me := t.g.me
	vertex = t.gr.own.vertex(me, local)
	r := int(t.gr.rank[me][local])
	if r >= t.gr.ranked {
		return vertex, nil
	}
	for _, u := range t.gr.col[t.gr.rowStart[r]:t.gr.rowStart[r+1]] {
		row = append(row, uint64(t.gr.orig[u]))
	}
	return vertex, row
}

// Locals is the number of vertices of this PE that can have a row.
func (t *Bench) Locals() int { return t.gr.own.nlocal }

// Directions runs a search from root in only one direction and returns the levels it took.
func (t *Bench) Directions(root uint64, up bool) (Search, error) {
	ranked, edges := t.b.allRanked, t.b.allEdges
	defer func() { t.b.allRanked, t.b.allEdges = ranked, edges }()
	if up {
		t.b.allRanked, t.b.allEdges = 0, 0 // nothing is unexplored, so the search is bottom-up from the start
	} else {
		t.b.allEdges = 1 << 60
	}
	return t.b.search(root)
}

// Ends unpacks a tuple.
func Ends(t tuple) (v0, v1 uint64) { return t.ends() }

// AllTuples generates the whole list.
func AllTuples(scale, edgeFactor int) [][2]uint64 {
	packed := make([]tuple, uint64(edgeFactor)<<uint(scale))
	newGenerator(scale, [2]uint64{2, 3}).fill(packed, 0)
	all := make([][2]uint64, len(packed))
	for i, t := range packed {
		v0, v1 := t.ends()
		all[i] = [2]uint64{v0, v1}
	}
	return all
}

// These kinds of violations are for tables of wrong answers.
var (
	WrongRoot          = uint64(wrongRoot)
	ParentOutOfRange   = uint64(parentOutOfRange)
	OwnParent          = uint64(ownParent)
	NoLevel            = uint64(noLevel)
	TooDeep            = uint64(tooDeep)
	LevelsApart        = uint64(levelsApart)
	HalfReached        = uint64(halfReached)
	ParentNotNeighbor  = uint64(parentNotNeighbor)
	WrongReached       = uint64(wrongReached)
	WrongDepth         = uint64(wrongDepth)
	WrongEdges         = uint64(wrongEdges)
	WrongEdgesAndLoops = uint64(wrongEdgesAndLoops)
)

// Kind is the kind of a violation.
func (v *Violation) Kind() uint64 { return uint64(v.kind) }

// PairHash, LoadVectors and KnownRoots give the external tests the known answers.
var (
	PairHash    = pairHash
	LoadVectors = loadVectors
)

// KnownRoots are the roots that a run must use.
func (v *scaleVector) KnownRoots() []uint64 { return v.knownRoots() }

// Construct runs kernel 1 again and drops what it made. Collective.
func (t *Bench) Construct() error {
	g, err := newGroup(t.g.w)
	if err != nil {
		return err
	}
	if _, err := construct(g, t.Tuples); err != nil {
		return err
	}
	return g.release()
}
