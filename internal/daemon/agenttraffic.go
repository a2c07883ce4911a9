package daemon

import (
	"slices"

	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// traffic returns what a PE of this node has exchanged with other nodes so far, and what the agent has. Without an agent
// that a PE has used, both are zero. The caller holds no lock.
func (a *nodeAgent) traffic(id ID) (pe, agent Traffic) {
	a.state.Lock()
	page := a.page
	if !a.lent {
		page = nil
	}
	a.state.Unlock()
	if page == nil {
		return pe, agent
	}
	local := layout.Local(-1)
	if i, near := slices.BinarySearch(a.near, id.PE); near && id.Job == 0 {
		local = layout.Local(i)
	}
	of, by, err := symheap.ReadTraffic(page, max(local, 0))
	if err != nil {
		a.logger.Error().Err(err).Stringer("pe", id).Msg("traffic with other nodes")
		return pe, agent
	}
	if local >= 0 {
		pe = Traffic{Operations: by.Operations, Batches: by.Batches, Sent: by.Sent, Received: by.Received}
	}
	return pe, Traffic{Batches: of.Batches, Sent: of.Sent, Received: of.Received}
}
