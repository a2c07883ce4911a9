package daemon

import "github.com/goshmem/goshmem/symheap"

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
	of, pes, err := symheap.ReadTraffic(page, len(a.near))
	if err != nil {
		a.logger.Error().Err(err).Stringer("pe", id).Msg("traffic with other nodes")
		return pe, agent
	}
	agent = Traffic{Batches: of.Batches, Sent: of.Sent, Received: of.Received}
	for i := range pes {
		by := &pes[i]
		agent.Sent += by.Express.Sent
		agent.Received += by.Express.Received
		if a.near[i] == id.PE && id.Job == 0 {
			pe = Traffic{Operations: by.Operations, Batches: by.Batches, Sent: by.Sent + by.Express.Sent, Received: by.Received + by.Express.Received}
		}
	}
	return pe, agent
}
