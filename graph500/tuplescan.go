package graph500

// The pass of the validation over the input tuples, which is nearly all of its time. It goes in blocks and in
// two loops without unpredictable branches, so that the random reads of many tuples are under way at once:
// levels first, then the parents of those vertices that an edge joins to the level above.

// scanBlock is the number of tuples that are scanned together: their steps stay in the first-level cache.
const scanBlock = 1024

// step is an edge between two levels.
type step struct {
	owner, local uint32 // the deeper end
	above        uint64 // the other end
}

// scanTuples checks rule 3 on this PE's tuples, counts the tuples inside the reached component, and marks the
// vertices whose edge to the parent is among them.
func (c *checker) scanTuples(bad *Violation) (edges, loops uint64) {
	for rest := c.tuples; len(rest) > 0; {
		block := rest[:min(scanBlock, len(rest))]
		rest = rest[len(block):]
		n, inside, selfLoops, apart := c.scanLevels(block)
		edges += inside
		loops += selfLoops
		if apart {
			c.noteApart(block, bad)
		}
		c.markParents(c.steps[:n])
	}
	return edges, loops
}

// scanLevels collects the steps of a block and counts its edges and self-loops inside the reached component.
func (c *checker) scanLevels(block []tuple) (n int, edges, loops uint64, apart bool) {
	steps := c.steps[:scanBlock]
	var most uint64
	for _, t := range block {
		v0, v1 := t.ends()
		owner0, local0 := c.own.split(v0)
		owner1, local1 := c.own.split(v1)
		level0, level1 := c.level[owner0][local0], c.level[owner1][local1]
		var loop, reached, isStep uint64
		if v0 == v1 {
			loop = 1
		}
		if level0 != unreached {
			reached = 1
		}
		// Swap the ends if the first is the deeper one, without a branch.
		swap := (uint64(level1) - uint64(level0)) >> 63
		distance := (uint64(level1) - uint64(level0) ^ -swap) + swap
		if distance == 1 {
			isStep = 1
		}
		steps[n&(scanBlock-1)] = step{
			owner: owner1 ^ (owner0^owner1)&-uint32(swap),
			local: local1 ^ (local0^local1)&-uint32(swap),
			above: v0 ^ (v0^v1)&-swap,
		}
		n += int(isStep)
		edges += reached &^ loop
		loops += reached & loop
		most = max(most, distance)
	}
	return n, edges, loops, most > 1
}

// markParents marks the vertices that a step joins to their parent.
func (c *checker) markParents(steps []step) {
	edge, edgeSize := c.edge[c.g.me], uint32(c.edgeSize)
	for _, s := range steps {
		var isParent uint64
		if c.pred[s.owner][s.local] == int64(s.above) {
			isParent = 1
		}
		edge[s.owner*edgeSize+s.local>>wordShift] |= isParent << (s.local & wordMask)
	}
}

// noteApart notes the edges of a block whose levels are more than one apart, at the deeper or unreached end.
func (c *checker) noteApart(block []tuple, bad *Violation) {
	for _, t := range block {
		v0, v1 := t.ends()
		owner0, local0 := c.own.split(v0)
		owner1, local1 := c.own.split(v1)
		level0, level1 := c.level[owner0][local0], c.level[owner1][local1]
		if level0 > level1 {
			v0, v1, level0, level1 = v1, v0, level1, level0
		}
		switch {
		case level1-level0 <= 1:
		case level1 == unreached:
			bad.note(halfReached, v1, int64(v0), 0)
		default:
			bad.note(levelsApart, v1, int64(v0), int64(level1-level0))
		}
	}
}
