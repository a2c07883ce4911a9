// Package group has ordered sets of processes, as MPI groups are. A Group is a value: nothing changes it. It is pure.
package group

import (
	"fmt"
	"slices"
)

// Group is an ordered set of processes. A process is named by a number that is its own in the job; its rank in the group is its
// place there. The zero Group is empty.
type Group struct {
	ids []int
	me  int // number of the calling process
}

// Undefined is the rank of a process that is not in a group.
const Undefined = -1

// ProcNull is the rank of nobody in every group, as in package mpi.
const ProcNull = -2

// Of returns the group of some processes, in their order. me is the calling process, whether it is one of them or not.
func Of(me int, ids ...int) Group { return Group{slices.Clone(ids), me} }

// Size returns how many processes are in the group.
//
//   - Source: MPI_Group_size.
func (g Group) Size() int { return len(g.ids) }

// Rank returns the rank of the calling process, or Undefined.
//
//   - Source: MPI_Group_rank.
func (g Group) Rank() int { return slices.Index(g.ids, g.me) }

// IDs returns the processes by rank.
func (g Group) IDs() []int { return slices.Clone(g.ids) }

// has returns a set of the processes.
func (g Group) has() map[int]bool {
	set := make(map[int]bool, len(g.ids))
	for _, id := range g.ids {
		set[id] = true
	}
	return set
}

// check returns an error unless the ranks are of the group, and each is there once.
func (g Group) check(ranks []int) error {
	seen := make(map[int]bool, len(ranks))
	for i, rank := range ranks {
		switch {
		case rank < 0 || rank >= len(g.ids):
			return fmt.Errorf("rank %d, want 0 to %d", rank, len(g.ids)-1)
		case seen[rank]:
			return fmt.Errorf("rank %d is given twice, the second time at place %d, want each once", rank, i)
		}
		seen[rank] = true
	}
	return nil
}

// Incl returns the group of some ranks, in the order in which they are given.
//
//   - Errors: a rank that is not in the group, or is given twice.
//   - Source: MPI_Group_incl.
func (g Group) Incl(ranks ...int) (Group, error) { return g.incl("Incl", ranks) }

func (g Group) incl(op string, ranks []int) (Group, error) {
	if err := g.check(ranks); err != nil {
		return Group{}, fmt.Errorf("group.%s: %w", op, err)
	}
	of := Group{me: g.me}
	for _, rank := range ranks {
		of.ids = append(of.ids, g.ids[rank])
	}
	return of, nil
}

// Excl returns the group without some ranks.
//
//   - Errors: a rank that is not in the group, or is given twice.
//   - Source: MPI_Group_excl.
func (g Group) Excl(ranks ...int) (Group, error) { return g.excl("Excl", ranks) }

func (g Group) excl(op string, ranks []int) (Group, error) {
	if err := g.check(ranks); err != nil {
		return Group{}, fmt.Errorf("group.%s: %w", op, err)
	}
	of := Group{me: g.me}
	for rank, id := range g.ids {
		if !slices.Contains(ranks, rank) {
			of.ids = append(of.ids, id)
		}
	}
	return of, nil
}

// Range is the ranks First, First+Stride, ... up to Last, or down to it with a negative Stride.
type Range struct{ First, Last, Stride int }

// expand returns the ranks of some ranges, up to the first one that is not in the group.
func (g Group) expand(ranges []Range) (ranks []int, err error) {
	for _, r := range ranges {
		if r.Stride == 0 {
			return nil, fmt.Errorf("range from %d to %d with stride 0, want another stride", r.First, r.Last)
		}
		for rank := r.First; r.Stride > 0 && rank <= r.Last || r.Stride < 0 && rank >= r.Last; rank += r.Stride {
			ranks = append(ranks, rank)
			if rank < 0 || rank >= len(g.ids) {
				return ranks, nil // the caller finds it: a range may be longer than the memory
			}
		}
	}
	return ranks, nil
}

// RangeIncl is Incl of the ranks of some ranges.
//
//   - Errors: as Incl; a stride of 0.
//   - Source: MPI_Group_range_incl.
func (g Group) RangeIncl(ranges ...Range) (Group, error) {
	ranks, err := g.expand(ranges)
	if err != nil {
		return Group{}, fmt.Errorf("group.RangeIncl: %w", err)
	}
	return g.incl("RangeIncl", ranks)
}

// RangeExcl is Excl of the ranks of some ranges.
//
//   - Errors: as Excl; a stride of 0.
//   - Source: MPI_Group_range_excl.
func (g Group) RangeExcl(ranges ...Range) (Group, error) {
	ranks, err := g.expand(ranges)
	if err != nil {
		return Group{}, fmt.Errorf("group.RangeExcl: %w", err)
	}
	return g.excl("RangeExcl", ranks)
}

// Union returns the processes of g, and behind them those of h that are not in g.
//
//   - Source: MPI_Group_union.
func (g Group) Union(h Group) Group {
	of, set := Group{slices.Clone(g.ids), g.me}, g.has()
	if len(g.ids) == 0 {
		of.me = h.me // the zero Group does not know
	}
	for _, id := range h.ids {
		if !set[id] {
			of.ids = append(of.ids, id)
		}
	}
	return of
}

// Intersection returns the processes of g that are in h, in the order of g.
//
//   - Source: MPI_Group_intersection.
func (g Group) Intersection(h Group) Group { return g.filter(h, true) }

// Difference returns the processes of g that are not in h, in the order of g.
//
//   - Source: MPI_Group_difference.
func (g Group) Difference(h Group) Group { return g.filter(h, false) }

// filter returns the processes of g that are, or are not, in h.
func (g Group) filter(h Group, in bool) Group {
	of, set := Group{me: g.me}, h.has()
	for _, id := range g.ids {
		if set[id] == in {
			of.ids = append(of.ids, id)
		}
	}
	return of
}

// Translate returns the ranks in h of processes with some ranks in g, Undefined for those that are not in h, and ProcNull for ProcNull.
//
//   - Errors: a rank that is not in g.
//   - Source: MPI_Group_translate_ranks.
func (g Group) Translate(ranks []int, h Group) ([]int, error) {
	to := make([]int, len(ranks))
	for i, rank := range ranks {
		if rank == ProcNull {
			to[i] = ProcNull
			continue
		}
		if rank < 0 || rank >= len(g.ids) {
			return nil, fmt.Errorf("group.Translate: rank %d, want 0 to %d, or ProcNull", rank, len(g.ids)-1)
		}
		to[i] = slices.Index(h.ids, g.ids[rank])
	}
	return to, nil
}

// Comparison is how two groups, or communicators, differ.
type Comparison int

// The results of a comparison.
const (
	Ident     Comparison = iota // the same processes in the same order
	Congruent                   // of communicators: the same, but different contexts
	Similar                     // the same processes in another order
	Unequal
)

// String returns the name of a result.
func (c Comparison) String() string {
	names := [...]string{"identical", "congruent", "similar", "unequal"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("comparison %d", int(c))
	}
	return names[c]
}

// Compare compares two groups.
//
//   - Source: MPI_Group_compare.
func (g Group) Compare(h Group) Comparison {
	switch {
	case slices.Equal(g.ids, h.ids):
		return Ident
	case len(g.ids) == len(h.ids) && g.Intersection(h).Size() == len(g.ids):
		return Similar
	}
	return Unequal
}
