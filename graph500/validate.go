package graph500

import "math/bits"

// Validation of kernel 2: Graph500 3.0, section "Validation", from the original tuples and the parents only.
// Nothing of kernel 1 is used. The rules:
//
//	1  the parents form a tree rooted at the root
//	2  a vertex is one level below its parent; here levels are made so
//	3  every input edge joins levels that differ by at most one, or unreached vertices
//	4  the tree spans the component; this follows from 3
//	5  every vertex has an input edge to its parent

// checker validates searches. It is allocated once.
type checker struct {
	g      *group
	own    owners
	tuples []tuple
	pred   [][]int64 // of every PE: the answer

	level    [][]uint8  // of every PE: local vertex -> level
	edge     [][]uint64 // of every PE: [owner][bitmap] of vertices whose edge to the parent it has seen
	edgeSize int        // words of one owner's bitmap
	active   []uint32   // local vertices that wait for their level
	steps    []step     // scratch of scanTuples
}

// newChecker prepares the validation of answers in pred, which holds a slice for every PE. Collective.
func newChecker(g *group, own owners, tuples []tuple, pred [][]int64) (*checker, error) {
	c := &checker{g: g, own: own, tuples: tuples, pred: pred, edgeSize: (own.nlocal + wordMask) / wordBits}
	c.active = make([]uint32, 0, own.nlocal)
	c.steps = make([]step, scanBlock)
	var err error
	if _, c.level, err = allocHeld[uint8](g, "levels", own.nlocal); err != nil {
		return nil, err
	}
	_, c.edge, err = allocHeld[uint64](g, "bitmaps of confirmed parents", c.edgeSize*g.pes)
	return c, err
}

// check validates one search. The violation is the same on all PEs. Collective.
func (c *checker) check(claim Search) (*Violation, error) {
	reached, bad := c.scan(claim.Root)
	if v, err := c.g.agreeOnViolation(bad); v != nil || err != nil {
		return v, err
	}
	depth, bad, err := c.assignLevels(claim.Root)
	if err != nil {
		return nil, err
	}
	if v, err := c.g.agreeOnViolation(bad); v != nil || err != nil {
		return v, err
	}
	edges, loops := c.scanTuples(&bad)
	// After this collective the bitmaps of all PEs are complete and can be put together.
	if err := c.g.sum("validation", &reached, &edges, &loops); err != nil {
		return nil, err
	}
	c.checkParents(claim.Root, &bad)
	compare := func(kind violationKind, got, want uint64) {
		if got != want {
			bad.note(kind, claim.Root, int64(got), int64(want))
		}
	}
	compare(wrongReached, claim.Reached, reached)
	compare(wrongDepth, uint64(claim.Depth), uint64(depth))
	compare(wrongEdges, claim.Edges, edges)
	compare(wrongEdgesAndLoops, claim.EdgesAndLoops, edges+loops)
	return c.g.agreeOnViolation(bad)
}

// scan checks each parent by itself, counts the claimed vertices, and gives the root level 0.
func (c *checker) scan(root uint64) (reached uint64, bad Violation) {
	me := c.g.me
	pred, level := c.pred[me], c.level[me]
	c.active = c.active[:0]
	clear(c.edge[me])
	for v := range c.own.nlocal {
		level[v] = unreached
		vertex := c.own.vertex(me, v)
		if vertex >= c.own.nverts {
			break
		}
		switch p := pred[v]; {
		case vertex == root:
			level[v] = 0
			if p != int64(root) {
				bad.note(wrongRoot, root, p, 0)
			}
			reached++
		case p == noVertex:
		case p < 0 || uint64(p) >= c.own.nverts:
			bad.note(parentOutOfRange, vertex, p, int64(c.own.nverts))
		case uint64(p) == vertex:
			bad.note(ownParent, vertex, p, int64(root))
		default:
			c.active = append(c.active, uint32(v))
		}
	}
	return reached + uint64(len(c.active)), bad
}

// checkParents checks rule 5: of the marks of all PEs, each reached vertex but the root needs one.
func (c *checker) checkParents(root uint64, bad *Violation) {
	me := c.g.me
	level, pred := c.level[me], c.pred[me]
	for w := range c.edgeSize {
		var marked uint64
		for pe := range c.g.pes {
			marked |= c.edge[pe][me*c.edgeSize+w]
		}
		base := w << wordShift
		for missing := ^marked; missing != 0; missing &= missing - 1 {
			v := base + bits.TrailingZeros64(missing)
			if v >= c.own.nlocal {
				break
			}
			if vertex := c.own.vertex(me, v); level[v] != unreached && vertex != root {
				bad.note(parentNotNeighbor, vertex, pred[v], 0)
			}
		}
	}
}
