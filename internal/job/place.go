package job

import (
	"fmt"
	"iter"
	"math"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Place is the part of a job that lies on this process's node. The PEs of a node are near, all others
// are far. Local indices are in the order of the near PEs. If these have consecutive numbers, local index i is PE First+i.
//
// On one node a Place is {Nodes: 1, First: 0, Near: NPEs, NPEs: NPEs}.
type Place struct {
	Nodes int       // number of nodes of the job
	First layout.PE // the lowest PE on this node; noFirst if the near PEs do not have consecutive numbers
	Near  int       // number of PEs on this node
	NPEs  int       // number of PEs of the job

	gaps *scattered // the near PEs, if their numbers are not consecutive; nil otherwise
}

// scattered is near PEs with gaps.
type scattered struct {
	pes    []layout.PE    // ascending
	locals []layout.Local // by PE of the job; -1: it is far
}

// noFirst is so high that no PE passes the fast test of NearLocal.
const noFirst = math.MaxInt

// Scattered returns the place of a node with these PEs of a job, which are ascending.
func Scattered(nodes, npes int, near []layout.PE) Place {
	s := &scattered{pes: near, locals: make([]layout.Local, npes)}
	for pe := range s.locals {
		s.locals[pe] = -1
	}
	for i, pe := range near {
		s.locals[pe] = layout.Local(i)
	}
	return Place{Nodes: nodes, First: noFirst, Near: len(near), NPEs: npes, gaps: s}
}

// HasGaps says whether there are far PEs between near ones.
func (p Place) HasGaps() bool { return p.gaps != nil }

// Local returns the index of a PE in the Map, and false if the PE is far or is none of the job.
func (p Place) Local(pe layout.PE) (layout.Local, bool) {
	i := layout.Local(pe - p.First)
	if p.gaps != nil {
		i = p.gaps.local(pe)
	}
	return i, uint(i) < uint(p.Near)
}

// local returns the index of a PE in the Map, or -1 if the PE is far or is none of the job.
func (s *scattered) local(pe layout.PE) layout.Local {
	if uint(pe) < uint(len(s.locals)) {
		return s.locals[pe]
	}
	return -1
}

// NearLocal returns the index of a PE that the caller knows to be near. It panics if the PE is far.
func (p Place) NearLocal(pe layout.PE) layout.Local {
	i := pe - p.First
	if uint(i) < uint(p.Near) {
		return layout.Local(i)
	}
	return p.listedLocal(pe)
}

// listedLocal is the rest of NearLocal, which can be compiled in line without it.
func (p Place) listedLocal(pe layout.PE) layout.Local {
	i, near := p.Local(pe)
	if !near {
		panic(fmt.Sprintf("goshmem: PE %d has no segment on this node, which has %s", pe, p))
	}
	return i
}

// String says which PEs are near.
func (p Place) String() string {
	if p.gaps != nil {
		return fmt.Sprintf("%d PEs from %d to %d of %d", p.Near, p.PE(0), p.last(), p.NPEs)
	}
	return fmt.Sprintf("PEs %d to %d of %d", p.First, p.last(), p.NPEs)
}

// PE returns the number of the PE that has an index in the Map.
func (p Place) PE(i layout.Local) layout.PE {
	if p.gaps != nil {
		return p.gaps.pes[i]
	}
	return p.First + layout.PE(i)
}

// Locals returns the near PEs in ascending order, each with its index in the Map.
func (p Place) Locals() iter.Seq2[layout.Local, layout.PE] {
	return func(yield func(layout.Local, layout.PE) bool) {
		for i := range layout.Local(p.Near) {
			if !yield(i, p.PE(i)) {
				return
			}
		}
	}
}

// last returns the highest PE on this node.
func (p Place) last() layout.PE { return p.PE(layout.Local(p.Near) - 1) }

// check reports what is wrong with the place of a PE in a job of npes PEs.
//
// The other nodes have at least one PE each, and one node has all PEs.
func (p Place) check(pe layout.PE, npes int) error {
	far := p.NPEs - p.Near
	switch {
	case p.gaps != nil && p.Near != len(p.gaps.pes):
		return fmt.Errorf("%d PEs are on this node, want the %d that the agent's page lists", p.Near, len(p.gaps.pes))
	case p.NPEs != npes:
		return fmt.Errorf("place in a job of %d PEs, want %d as the PMIx server says", p.NPEs, npes)
	case p.Near < 1 || p.First < 0 || far < 0 || int(p.First) > far && p.gaps == nil:
		return fmt.Errorf("%d PEs from PE %d on are on this node, want 1 or more of PEs 0 to %d", p.Near, p.First, npes-1)
	case p.Nodes < 1 || p.Nodes-1 > far || p.Nodes == 1 && far > 0:
		return fmt.Errorf("%d PEs of %d are on this node, and the job has %d nodes: want all PEs on one node, or at least one on each of several", p.Near, npes, p.Nodes)
	}
	if _, near := p.Local(pe); !near {
		return fmt.Errorf("%s are on this node, want PE %d among them", p, pe)
	}
	return nil
}
