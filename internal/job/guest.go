package job

import (
	"fmt"

	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// guestHomes says where the PEs of a job are, and by which indices the agents of their nodes know them. For the first job of all, these are the indices on the
// node; a spawned job has others behind them (layout.FirstGuest).
type guestHomes struct {
	homes

	bases []uint32 // by node; symheap.NoBase where the job has no PE
}

// newGuestHomes returns the homes of a job, whose PEs agents of some nodes serve.
func newGuestHomes(h *symheap.Homes, nodes int) (*guestHomes, error) {
	parts := make([]layout.NodePart, len(h.Bases))
	for pe, node := range h.Nodes {
		if base := h.Bases[node]; int(node) >= nodes || base == symheap.NoBase || base >= layout.MaxLocal {
			return nil, fmt.Errorf("PE %d is on node %d, whose agent does not serve it, want one of %d nodes that have an agent for it", pe, node, nodes)
		}
		parts[node].Count++
	}
	first := uint32(0)
	for node := range parts {
		parts[node].First = first
		first += parts[node].Count
	}
	g := &guestHomes{bases: h.Bases}
	g.npes, g.parts, g.list, g.at = len(h.Nodes), parts, make([]layout.PE, len(h.Nodes)), make([]uint32, len(h.Nodes))
	filled := make([]uint32, len(parts))
	for pe, node := range h.Nodes {
		g.list[parts[node].First+filled[node]] = layout.PE(pe)
		g.at[pe] = node<<localBits | filled[node]
		filled[node]++
	}
	return g, nil
}

// seat returns the node of a PE, and its index with the agent there.
func (g *guestHomes) seat(pe layout.PE) (node int, index layout.Local) {
	node, local := g.home(pe)
	return node, layout.Local(g.bases[node]) + local
}

// FarHome returns the node of a PE of this job, or of another one that was reached, and its index with the agent there.
func (j *Job) FarHome(pe layout.PE) (node int, index layout.Local) {
	if int(pe) >= j.NPEs {
		p := j.Others.of(pe)
		if p.homes == nil { // all its PEs are here
			return j.FarHome(j.PE)
		}
		return p.homes.seat(pe - p.Base)
	}
	if g := j.agent.guest; g != nil {
		return g.seat(pe)
	}
	return j.agent.home(pe)
}

// IsGuest reports whether the job was spawned, and the agent of this node serves this process.
func (j *Job) IsGuest() bool { return j.agent != nil && j.agent.guest != nil }

// RequireTeams returns an error if PEs of the job are on several nodes, and have no teams: RequireAgent's, or that the job was spawned.
func RequireTeams(j *Job) error {
	if err := j.RequireAgent(); err != nil {
		return err
	}
	if j.IsGuest() && j.Place.Nodes > 1 {
		return fmt.Errorf("the job was spawned, and has PEs on %d nodes: such a job has no symmetric memory and no teams, want all its PEs on one node, or messages of package mpi", j.Place.Nodes)
	}
	return nil
}
