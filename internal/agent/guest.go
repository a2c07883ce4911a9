package agent

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Guests
//
// Guests are PEs of spawned jobs on the agent's node. The agent moves their messages, and the data that these announce, like those of the PEs of the first job.
// They are in no team.
//
//   - Their indices lie behind that of the agent itself (layout.FirstGuest), and are never used again. The root gives them, so all nodes know them.
//   - Each has a map of its own, as its job has another key.
//   - Their inboxes are open from the start: a PE that knows of the job may send before the guest has called Init.
//   - When the job of a guest is over, the agent looks no more at its blocks (endGuest).
//   - In inboxes, guests are named by node and index, and they find all senders named so: processes of two jobs have no numbers in common.

// isGuest reports whether a PE of this node is a guest. The index before is the agent's own.
func (m *memory) isGuest(pe layout.Local) bool { return int(pe) > m.near }

// AddGuest makes the agent serve a guest, whose segment has descriptor fd. After an error nothing of the guest is left.
func (a *Agent) AddGuest(m *wire.AgentGuest, fd int) error {
	index := layout.Local(m.Index)
	switch {
	case index < a.own.local+1 || index >= layout.MaxLocal || int(index) < len(a.sources) && a.sources[index].wire != nil:
		return fmt.Errorf("PE %d of a spawned job has index %d, want one from %d to %d that no other PE has had", m.PE, m.Index, a.own.local+1, layout.MaxLocal-1)
	case m.SegmentSize != a.memory.limits.SegmentSize:
		return fmt.Errorf("PE %d of a spawned job has a segment of %d bytes, want %d as the others of the node", m.PE, m.SegmentSize, a.memory.limits.SegmentSize)
	}
	segment, err := mapGuest(m, fd)
	if err != nil {
		return fmt.Errorf("PE %d of a spawned job: %w", m.PE, err)
	}
	w := segment.Wire(0)
	if !a.cfg.Expedited {
		rma.AskLocked(&segment.Control(0).Bell)
	}
	growTo(a, int(index)+1)
	atomic.StoreUint32(&w.Inbox.Open, 1)
	a.sources[index] = source{wire: w, incarnation: a.cfg.Incarnation}
	a.memory.guests[int(index)-a.memory.near] = segment
	a.memory.dead[index] = false
	a.inboxes.of[index] = newInbox(&w.Inbox)
	a.sender.StartPE(index, a.cfg.Incarnation)
	return nil
}

// endGuest looks no more at a guest whose job is over, and takes nothing more for it. What the guest has sent goes on to arrive, from its segment, which stays mapped: a
// receiver may take it long after the end of the sender.
func endGuest(a *Agent, index layout.Local) {
	if !a.memory.isGuest(index) || int(index) >= len(a.sources) {
		return
	}
	a.memory.dead[index] = true
	a.inboxes.discard(index)
	s := &a.sources[index]
	if s.dead {
		return
	}
	takeLast(a, index)
	s.dead = true
	if a.express != nil {
		a.express.dropLine(index)
	}
}

// mapGuest maps the segment of a guest.
func mapGuest(m *wire.AgentGuest, fd int) (*symheap.Map, error) {
	if fd < 0 {
		return nil, errors.New("its segment has not arrived: the agent has no free descriptor")
	}
	segment, err := symheap.NewMap(m.Job, 1, m.SegmentSize)
	if err != nil {
		return nil, err
	}
	if err = segment.Attach(0, layout.PE(m.PE), fd); err == nil && segment.Wire(0) == nil {
		err = errors.New("its segment has no wire region, want one")
	}
	if err != nil {
		return nil, errors.Join(err, segment.Unmap())
	}
	return segment, nil
}

// growTo makes room for PEs with indices below n. Those that are new count as dead.
func growTo(a *Agent, n int) {
	a.sender.Grow(n)
	m := a.memory
	for i := len(a.sources); i < n; i++ {
		a.sources, m.dead = append(a.sources, source{dead: true}), append(m.dead, true)
		m.guests, a.inboxes.of = append(m.guests, nil), append(a.inboxes.of, inbox{})
		if a.express != nil {
			a.express.lines = append(a.express.lines, line{fd: -1})
		}
	}
	m.touched = append(m.touched, make([]uint64, (len(m.dead)+63)/64-len(m.touched))...)
	m.limits.Near = len(m.dead)
}
