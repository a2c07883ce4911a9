package job

import (
	"fmt"
	"iter"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Place is the part of a job that lies on this process's node. The PEs of a node are near, all others
// are far. The near PEs have consecutive numbers. Local index i is PE First+i.
//
// On one node a Place is {1, 0, NPEs, NPEs}.
type Place struct {
	Nodes int       // number of nodes of the job
	First layout.PE // the lowest PE on this node
	Near  int       // number of PEs on this node
	NPEs  int       // number of PEs of the job
}

// Local returns the index of a PE in the Map, and false if the PE is far or is none of the job.
func (p Place) Local(pe layout.PE) (layout.Local, bool) {
	i := pe - p.First
	return layout.Local(i), uint(i) < uint(p.Near)
}

// NearLocal returns the index of a PE that the caller knows to be near. It panics if the PE is far.
func (p Place) NearLocal(pe layout.PE) layout.Local {
	i := pe - p.First
	if uint(i) >= uint(p.Near) {
		p.panicFar(pe)
	}
	return layout.Local(i)
}

// panicFar is apart so that NearLocal can be compiled in line.
func (p Place) panicFar(pe layout.PE) {
	panic(fmt.Sprintf("goshmem: PE %d has no segment on this node, which has PEs %d to %d of %d", pe, p.First, p.last(), p.NPEs))
}

// PE returns the number of the PE that has an index in the Map.
func (p Place) PE(i layout.Local) layout.PE { return p.First + layout.PE(i) }

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
func (p Place) last() layout.PE { return p.First + layout.PE(p.Near) - 1 }

// check reports what is wrong with the place of a PE in a job of npes PEs.
//
// The other nodes have at least one PE each, and one node has all PEs.
func (p Place) check(pe layout.PE, npes int) error {
	_, near := p.Local(pe)
	far := p.NPEs - p.Near
	switch {
	case p.NPEs != npes:
		return fmt.Errorf("place in a job of %d PEs, want %d as the PMIx server says", p.NPEs, npes)
	case p.Near < 1 || p.First < 0 || far < 0 || int(p.First) > far:
		return fmt.Errorf("%d PEs from PE %d on are on this node, want 1 or more of PEs 0 to %d", p.Near, p.First, npes-1)
	case p.Nodes < 1 || p.Nodes-1 > far || p.Nodes == 1 && far > 0:
		return fmt.Errorf("%d PEs of %d are on this node, and the job has %d nodes: want all PEs on one node, or at least one on each of several", p.Near, npes, p.Nodes)
	case !near:
		return fmt.Errorf("PEs %d to %d are on this node, want PE %d among them", p.First, p.last(), pe)
	}
	return nil
}

// RequireOneNode returns an error if the job has several nodes. It is for layers that work on one node only, and for
// nodes without an agent.
func (p Place) RequireOneNode() error {
	if p.Nodes == 1 {
		return nil
	}
	return fmt.Errorf("the job has %d nodes, and this one has PEs %d to %d of %d: want one node, "+
		"start all PEs of the job on the same host", p.Nodes, p.First, p.last(), p.NPEs)
}
