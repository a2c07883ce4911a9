package graph500

import "fmt"

// violationKind is what can be wrong with an answer, in the order in which note prefers it. Violation.Error has
// the texts.
type violationKind uint64

const (
	noViolation violationKind = iota
	wrongRoot
	parentOutOfRange
	ownParent
	noLevel
	tooDeep
	levelsApart
	halfReached
	parentNotNeighbor
	wrongReached
	wrongDepth
	wrongEdges
	wrongEdgesAndLoops
)

// Violation is the rule that an answer breaks, and where (Graph500 3.0, section "Validation").
type Violation struct { //nolint:errname // the field calls it so; InvalidError carries it
	kind violationKind
	// Vertex is the vertex that breaks the rule, or the root if the whole answer does.
	Vertex uint64
	// got and want depend on the kind.
	got, want int64
}

// Rule returns the number of the broken rule in the specification's list, or 0 for other conditions.
func (v *Violation) Rule() int {
	switch v.kind {
	case ownParent, noLevel, tooDeep:
		return 1
	case levelsApart, halfReached:
		return 3
	case parentNotNeighbor:
		return 5
	}
	return 0
}

// Error names the rule and the vertex.
func (v *Violation) Error() string {
	switch v.kind {
	case wrongRoot:
		return fmt.Sprintf("root %d: its parent is %d, want itself", v.Vertex, v.got)
	case parentOutOfRange:
		return fmt.Sprintf("vertex %d: parent %d, want -1 or a vertex below %d", v.Vertex, v.got, v.want)
	case ownParent:
		return fmt.Sprintf("rule 1 (the parents form a tree rooted at the root): vertex %d is its own parent, want only root %d",
			v.Vertex, v.want)
	case noLevel:
		return fmt.Sprintf("rule 1 (the parents form a tree rooted at the root): vertex %d with parent %d has no path to root %d",
			v.Vertex, v.got, v.want)
	case tooDeep:
		return fmt.Sprintf("rule 1 (the parents form a tree rooted at the root): vertex %d is deeper than %d levels, the most that can be checked",
			v.Vertex, v.want)
	case levelsApart:
		return fmt.Sprintf("rule 3 (levels of an edge's ends differ by at most 1): vertex %d has an edge to %d, whose level is %d away",
			v.Vertex, v.got, v.want)
	case halfReached:
		return fmt.Sprintf("rule 3 (both ends of an edge are reached or none): vertex %d is not reached but its neighbor %d is",
			v.Vertex, v.got)
	case parentNotNeighbor:
		return fmt.Sprintf("rule 5 (a vertex and its parent are joined by an input edge): vertex %d has no edge to its parent %d",
			v.Vertex, v.got)
	case wrongReached:
		return v.claim("reached vertices")
	case wrongDepth:
		return v.claim("depth")
	case wrongEdges:
		return v.claim("traversed edges")
	case wrongEdgesAndLoops:
		return v.claim("traversed edges with self-loops")
	}
	return "no violation"
}

// claim describes a count that the search has claimed wrongly.
func (v *Violation) claim(what string) string {
	return fmt.Sprintf("root %d: claimed %s: %d, want %d as counted", v.Vertex, what, v.got, v.want)
}

// note keeps the first violation in the order of kinds and vertices, so that a report does not depend on the
// number of PEs.
func (v *Violation) note(kind violationKind, vertex uint64, got, want int64) {
	if v.kind == noViolation || kind < v.kind || kind == v.kind && vertex < v.Vertex {
		*v = Violation{kind: kind, Vertex: vertex, got: got, want: want}
	}
}

// agreeOnViolation returns the same violation on all PEs, or nil if no PE has one. Collective.
func (g *group) agreeOnViolation(mine Violation) (*Violation, error) {
	all, err := g.gather("validation", uint64(mine.kind), mine.Vertex, uint64(mine.got), uint64(mine.want))
	if err != nil {
		return nil, err
	}
	for at := 0; at < len(all); at += gatherWidth {
		if kind := violationKind(all[at]); kind != noViolation {
			mine.note(kind, all[at+1], int64(all[at+2]), int64(all[at+3]))
		}
	}
	if mine.kind == noViolation {
		return nil, nil
	}
	return &mine, nil
}
