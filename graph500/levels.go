package graph500

const (
	unreached = 255 // level of a vertex that has none
	// Levels are bytes. Stopping here keeps "unreached" at least two away from every level.
	deepest = 253
)

// assignLevels derives levels from parents alone, on all PEs together. A vertex gets level k if its parent has
// level k-1. A claimed vertex that gets no level is on a cycle or hangs from an unreached vertex, which rule 1
// forbids and a check of distances alone would let pass. It returns the last level.
func (c *checker) assignLevels(root uint64) (depth int, bad Violation, err error) {
	for k := 1; ; k++ {
		given := c.assignLevel(uint8(k))
		waiting := uint64(len(c.active))
		// A peer may read a level while it is stored: it compares with k-1 only, and what is stored is k.
		if err := c.g.sum("validation", &given, &waiting); err != nil {
			return 0, bad, err
		}
		switch {
		case given == 0:
			c.noteActive(&bad, noLevel, root)
			return k - 1, bad, nil
		case waiting == 0:
			return k, bad, nil
		case k == deepest:
			c.noteActive(&bad, tooDeep, deepest)
			return k, bad, nil
		}
	}
}

// assignLevel gives level k to the vertices that wait for it and keeps the rest waiting.
func (c *checker) assignLevel(k uint8) (given uint64) {
	me := c.g.me
	level, pred := c.level[me], c.pred[me]
	rest := c.active[:0]
	for _, v := range c.active {
		owner, local := c.own.split(uint64(pred[v]))
		if c.level[owner][local] == k-1 {
			level[v] = k
		} else {
			rest = append(rest, v)
		}
	}
	given = uint64(len(c.active) - len(rest))
	c.active = rest
	return given
}

// noteActive notes a violation for each vertex that waits for its level.
func (c *checker) noteActive(bad *Violation, kind violationKind, want uint64) {
	for _, v := range c.active {
		bad.note(kind, c.own.vertex(c.g.me, int(v)), c.pred[c.g.me][v], int64(want))
	}
}
