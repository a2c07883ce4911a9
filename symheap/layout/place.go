package layout

// PE is the number of a PE in its job: 0 to NPEs-1.
type PE int

// Local is the index of a PE among the PEs of its node: 0 to MaxLocal-1. The segments of a node,
// their lanes and their call bits are indexed by Local. On a node whose first PE is 0, both numbers of
// a PE are equal; no code relies on that.
type Local int
