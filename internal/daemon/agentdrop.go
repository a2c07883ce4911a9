package daemon

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Deaths and losses, as the agent of the node is told of them. It hears of them before the failure page tells PEs.

// tell sends the agent a message, at the latest by the deadline. An agent that does not take it until then is hung, and
// killed. One that has ended needs no message.
func (a *nodeAgent) tell(packet []byte, deadline time.Time) error {
	a.told.Lock()
	defer a.told.Unlock()
	if runs, _ := a.isServing(); !runs {
		return nil
	}
	err := a.line.SetWriteDeadline(deadline)
	if err == nil {
		err = xunix.SendFDs(a.line, packet, nil)
	}
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET), errors.Is(err, os.ErrClosed):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		a.killHung()
	}
	return fmt.Errorf("message to the agent: %w", err)
}

// hungAfter is how long an agent may take to answer. One that takes longer is hung: it is killed.
const hungAfter = 10 * time.Second

// killHung kills an agent that is hung.
func (a *nodeAgent) killHung() {
	a.hung.Do(func() {
		a.reporter.notice("%s: the agent of the node has not answered within %v, and is killed", a.starter.servers.host, a.hungAfter)
		a.kill()
	})
}

// noteDeath tells the agent that a PE of the first job is dead. It does not wait, so a caller may hold the lock of the
// table: if the agent's socket is full, tellDeaths tells it.
func (a *nodeAgent) noteDeath(j *localJob, pe int) {
	if runs, _ := a.isServing(); !runs || j.number != 0 {
		return
	}
	drop := a.dropOf(j, pe)
	a.queue.Lock()
	defer a.queue.Unlock()
	if len(a.deaths) == 0 && xunix.SendAtOnce(a.line, drop.Append(nil)) == nil {
		return
	}
	a.deaths = append(a.deaths, drop)
}

// dropOf returns the message that a PE is dead.
func (a *nodeAgent) dropOf(j *localJob, pe int) wire.AgentDrop {
	node := j.nodeOf(pe)
	part := a.parts[node]
	if a.list == nil {
		return wire.AgentDrop{Node: node, PE: pe - int(part.First), Incarnation: incarnation}
	}
	local, _ := slices.BinarySearch(a.list[part.First:part.First+part.Count], layout.PE(pe))
	return wire.AgentDrop{Node: node, PE: local, Incarnation: incarnation}
}

// tellDeaths tells the agent of the deaths of which noteDeath could not. The caller holds no lock.
func (a *nodeAgent) tellDeaths() {
	a.queue.Lock()
	deaths := a.deaths
	a.deaths = nil
	a.queue.Unlock()
	deadline := time.Now().Add(a.hungAfter)
	for i := range deaths {
		if err := a.tell(deaths[i].Append(nil), deadline); err != nil {
			a.logger.Error().Err(err).Msg("agent")
			return // it is killed, or its socket is broken
		}
	}
}

// dropFar tells the agent of a failure of other nodes, and returns when nothing of it has an effect here any more. The page
// tells PEs afterwards: they may use again what an answer would have been written to.
//
// While no PE of this node has the agent's descriptors, dropFar does not wait for the agent. A PE of another node puts and
// gets only after a fence in which all PEs of this node have taken part, and they fetch the descriptors before. So nothing
// of the dead PEs is under way to this node, nor the other way.
func (a *nodeAgent) dropFar(j *localJob, f *FarFailure) {
	runs, lent := a.isServing()
	if !runs || j.number != 0 {
		return
	}
	var drops []wire.AgentDrop
	for _, pe := range f.PEs {
		if pe < 0 || pe >= j.npes() || j.isNear(pe) {
			continue // an error of the caller, who is told
		}
		drops = append(drops, a.dropOf(j, pe))
		if f.NodeLost && len(drops) == 1 {
			drops = append(drops, wire.AgentDrop{Node: drops[0].Node, PE: -1})
		}
	}
	if len(drops) == 0 {
		return
	}
	a.drops.Lock()
	defer a.drops.Unlock()
	if lent {
		a.asked++
		drops[len(drops)-1].Number = a.asked // the agent takes them in their order
	}
	deadline := time.Now().Add(a.hungAfter)
	for i := range drops {
		if err := a.tell(drops[i].Append(nil), deadline); err != nil {
			a.logger.Error().Err(err).Msg("agent")
			return
		}
	}
	if lent {
		a.awaitDropped(deadline)
	}
}

// awaitDropped waits for the answer to the last question. An agent that does not give it by the deadline is killed.
func (a *nodeAgent) awaitDropped(deadline time.Time) {
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	for {
		select {
		case n := <-a.dropped:
			if n == a.asked {
				return
			}
		case <-a.ended:
			return
		case <-a.closed:
			return
		case <-late.C:
			a.killHung()
			return
		}
	}
}

// takeDropped takes the answer to an AgentDrop.
func (a *nodeAgent) takeDropped(packet []byte) {
	var m wire.AgentDropped
	if err := m.Parse(packet); err != nil {
		a.logger.Error().Err(err).Msg("word of the agent")
		return
	}
	select {
	case a.dropped <- m.Number:
	default: // nobody waits for so many
	}
}
