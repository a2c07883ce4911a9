package daemon

import (
	"fmt"
	"os"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Guests are the PEs of spawned jobs that the agent of a node serves, beside those of the first job: it moves their messages between nodes, for
// programs of package mpi. The root gives them indices on their nodes, behind those of the PEs of the first job.

// isServedOn says whether the agent of a node serves the PEs of a spawned job there.
func (j *localJob) isServedOn(node int) bool { return node < len(j.bases) && j.bases[node] >= 0 }

// isGuestOf says whether the PEs of a spawned job on this node are guests of its agent.
func (j *localJob) isGuestOf(a *nodeAgent) bool {
	return j.number != 0 && len(j.near) > 0 && a.command != nil && j.isServedOn(j.share.Node)
}

// lackAt says why the agent of this node does not serve the PEs of a job here; empty: it does.
func (j *localJob) lackAt(a *nodeAgent) string {
	if j.number != 0 && !j.isGuestOf(a) {
		return j.unservedBecause(a)
	}
	a.state.Lock()
	defer a.state.Unlock()
	switch {
	case a.runs:
		return ""
	case a.lack != nil:
		return a.lack.Error()
	}
	return "none runs, as the PEs of the first job are on one node; hint: oshrun --map-by node spreads them"
}

// unservedBecause says why agents do not serve all PEs of a spawned job.
func (j *localJob) unservedBecause(a *nodeAgent) string {
	for pe := range j.npes() {
		node := j.nodeOf(pe)
		if j.isServedOn(node) {
			continue
		}
		host, first := fmt.Sprint(node), 0
		if node < len(j.share.Hosts) {
			host = fmt.Sprintf("%d (%s)", node, j.share.Hosts[node])
		}
		if node < len(a.parts) {
			first = int(a.parts[node].Count)
		}
		if first == 0 {
			return fmt.Sprintf("node %s has no agent: agents run where the first job has PEs, if these are on several nodes; hint: oshrun --map-by node spreads them", host)
		}
		return fmt.Sprintf("the agent of node %s has no room for it: it serves at most %d PEs of spawned jobs beside %d of the first job, also those that have ended",
			host, layout.MaxLocal-1-first, first)
	}
	return "the agent of its node has not started"
}

// guestIndex returns the index of a PE of a spawned job with the agent of its node, which serves it.
func (j *localJob) guestIndex(pe int) layout.Local {
	node, before := j.nodeOf(pe), 0
	for other := range pe {
		if j.nodeOf(other) == node {
			before++
		}
	}
	return layout.Local(j.bases[node] + before)
}

// agentIndex returns the index of a PE with the agent of this node, which serves it.
func (p *localPE) agentIndex() int {
	if p.job.number == 0 {
		return int(p.job.local(p.id.PE))
	}
	return int(p.job.guestIndex(p.id.PE))
}

// nameOf returns the PE that the agent serves by an index. j is the first job.
func (a *nodeAgent) nameOf(j *localJob, index int) (id ID, known bool) {
	if index >= 0 && index < len(j.near) {
		return ID{PE: j.near[index]}, true
	}
	a.state.Lock()
	defer a.state.Unlock()
	id, known = a.guests[index]
	return id, known
}

// addGuests has the agent serve the PEs of a spawned job on this node, and returns when it does, or why it cannot: the job is dropped then, and the agent goes on.
// If it does not run, there is nothing to be done: the PEs hear of that.
func (a *nodeAgent) addGuests(j *localJob) (err error) {
	if runs, _ := a.isServing(); !runs {
		return nil
	}
	files, err := j.memory.lend()
	if err != nil {
		return err
	}
	defer func() {
		if e := j.memory.endLoan(); err == nil {
			err = e
		}
	}()
	info, err := files.heaps[0].Stat()
	if err != nil {
		return err
	}
	a.state.Lock()
	if a.guests == nil {
		a.guests = map[int]ID{}
	}
	for _, pe := range j.near {
		a.guests[int(j.guestIndex(pe))] = ID{Job: j.number, PE: pe}
	}
	a.state.Unlock()
	a.queue.Lock()
	number, answered := a.ask()
	a.queue.Unlock()
	for i, pe := range j.near {
		m := wire.AgentGuest{Number: number, Last: i == len(j.near)-1, Job: j.key, PE: pe, Index: int(j.guestIndex(pe)), SegmentSize: uint64(info.Size())}
		if err := a.tell(m.Append(nil), time.Now().Add(a.hungAfter), int(files.heaps[i].Fd())); err != nil {
			return err
		}
	}
	a.await(answered, func() bool { return true })
	a.queue.Lock()
	refused := a.refused[number]
	delete(a.refused, number)
	a.queue.Unlock()
	if refused != "" {
		return fmt.Errorf("the agent of the node cannot serve the job: %s", refused)
	}
	return nil
}

// endGuests tells the agent that a spawned job is over: it looks no more at what the job's PEs on this node have said.
func (j *localJob) endGuests(a *nodeAgent) {
	if !j.isGuestOf(a) {
		return
	}
	deadline := time.Now().Add(a.hungAfter)
	for _, pe := range j.near {
		m := wire.AgentDrop{Node: j.share.Node, PE: int(j.guestIndex(pe)), Incarnation: incarnation, Ended: true}
		if err := a.tell(m.Append(nil), deadline); err != nil {
			a.logger.Error().Err(err).Msg("agent")
			return
		}
	}
}

// createHomes makes a file that says where the PEs of a job are. The caller owns it.
func (j *localJob) createHomes() (*os.File, error) {
	h := &symheap.Homes{}
	for node := range j.share.Hosts {
		base := uint32(0)
		if j.number != 0 {
			base = symheap.NoBase
			if j.isServedOn(node) {
				base = uint32(j.bases[node])
			}
		}
		h.Bases = append(h.Bases, base)
	}
	for pe := range j.npes() {
		h.Nodes = append(h.Nodes, uint32(j.nodeOf(pe)))
	}
	return symheap.CreateHomes(h)
}
