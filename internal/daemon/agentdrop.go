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
// killed. One that has ended needs no message. The descriptors go with it.
func (a *nodeAgent) tell(packet []byte, deadline time.Time, fds ...int) error {
	a.told.Lock()
	defer a.told.Unlock()
	if runs, _ := a.isServing(); !runs {
		return nil
	}
	err := a.line.SetWriteDeadline(deadline)
	if err == nil {
		err = xunix.SendFDs(a.line, packet, fds)
	}
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET), errors.Is(err, os.ErrClosed):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		a.killHung()
	}
	return fmt.Errorf("message to the agent: %w", err)
}

const (
	// hungAfter is how long an agent may take to answer. One that takes longer is hung: it is killed.
	hungAfter = 10 * time.Second
	// attendEvery is how often the agent is asked whether it answers.
	attendEvery = time.Second
)

// killHung kills an agent that is hung.
func (a *nodeAgent) killHung() {
	a.hung.Do(func() {
		a.reporter.notice("%s: the agent of the node has not answered within %v, and is killed", a.starter.servers.host, a.hungAfter)
		a.kill()
	})
}

// noteDeath tells the agent that a PE that it serves is dead. It does not wait, so a caller may hold the lock of the
// table: if the agent's socket is full, tellDeaths tells it. The page is written once answered is closed, see await. It is nil
// if there is nothing to wait for: no PE of this node has the agent's descriptors, so the dead one has used none.
func (a *nodeAgent) noteDeath(j *localJob, pe int) (answered <-chan struct{}) {
	runs, lent := a.isServing()
	if !runs || j.number != 0 && !j.isGuestOf(a) {
		return nil
	}
	drop := a.dropOf(j, pe)
	a.queue.Lock()
	defer a.queue.Unlock()
	if lent {
		drop.Number, answered = a.ask()
	}
	if len(a.deaths) > 0 || xunix.SendAtOnce(a.line, drop.Append(nil)) != nil {
		a.deaths = append(a.deaths, drop)
	}
	return answered
}

// ask returns the number of a new question, and a channel that is closed when the agent has answered. The caller holds
// nodeAgent.queue.
func (a *nodeAgent) ask() (number uint64, answered <-chan struct{}) {
	if a.questions == nil {
		a.questions = map[uint64]chan struct{}{}
	}
	a.asked++
	c := make(chan struct{})
	a.questions[a.asked] = c
	return a.asked, c
}

// dropOf returns the message that a PE is dead.
func (a *nodeAgent) dropOf(j *localJob, pe int) wire.AgentDrop {
	node := j.nodeOf(pe)
	if j.number != 0 {
		return wire.AgentDrop{Node: node, PE: int(j.guestIndex(pe)), Incarnation: incarnation}
	}
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
	if !runs {
		return
	}
	var drops []wire.AgentDrop
	for _, pe := range f.PEs {
		if pe < 0 || pe >= j.npes() || j.isNear(pe) {
			continue // an error of the caller, who is told
		}
		if j.number != 0 && !j.isServedOn(j.nodeOf(pe)) {
			continue
		}
		drops = append(drops, a.dropOf(j, pe))
		if f.NodeLost && len(drops) == 1 {
			drops = append(drops, wire.AgentDrop{Node: drops[0].Node, PE: -1})
		}
	}
	if len(drops) == 0 {
		return
	}
	var answered <-chan struct{}
	if lent {
		a.queue.Lock()
		drops[len(drops)-1].Number, answered = a.ask() // the agent takes them in their order
		a.queue.Unlock()
	}
	deadline := time.Now().Add(a.hungAfter)
	for i := range drops {
		if err := a.tell(drops[i].Append(nil), deadline); err != nil {
			a.logger.Error().Err(err).Msg("agent")
			return
		}
	}
	a.awaitDrop(answered)
}

// hungTicks is in how many steps the patience with an agent passes. This process may be stopped, too, or have no processor: that
// takes one step, and is not the agent's fault.
const hungTicks = 100

// awaitDrop is await for the answer that dead PEs are dropped. It does not wait while no PE of this node lives: nobody sees what
// the agent still does here. So a job with a hung agent ends when its PEs do.
func (a *nodeAgent) awaitDrop(answered <-chan struct{}) { a.await(answered, a.table.hasLivingPE) }

// lastMessagesMost is how long the death of a PE of this node waits for the agent if no PE of the node lives. The agent sends the last
// messages of the PE meanwhile, for a second at most (internal/agent), and other nodes take them only until they hear of the death.
const lastMessagesMost = 2 * time.Second

// awaitNearDrop is awaitDrop for a PE of this node. The agent was asked at some moment.
func (a *nodeAgent) awaitNearDrop(answered <-chan struct{}, asked time.Time) {
	a.await(answered, func() bool { return time.Since(asked) < lastMessagesMost || a.table.hasLivingPE() })
}

// await waits for an answer, or the end of the agent, while there is a reason to wait. An agent that does not answer within
// hungAfter is killed. There is nothing to wait for if answered is nil.
func (a *nodeAgent) await(answered <-chan struct{}, while func() bool) {
	if answered == nil {
		return
	}
	step := time.NewTicker(a.hungAfter / hungTicks)
	defer step.Stop()
	for range hungTicks {
		if !while() {
			return
		}
		select {
		case <-answered:
			return
		case <-a.ended:
			return
		case <-a.closed:
			return
		case <-step.C:
		}
	}
	a.killHung()
	within(time.Now().Add(explainWithin), func() { // until it has no effect any more
		select {
		case <-a.ended:
		case <-a.closed:
		}
	})
}

// attend asks the agent now and then whether it answers, once a PE has its descriptors. Otherwise an agent that is hung would take
// all nodes but its own: PEs wait for it, and after AgentCommand.Patience their agents end.
func (a *nodeAgent) attend() {
	turn := time.NewTicker(attendEvery)
	defer turn.Stop()
	for {
		select {
		case <-a.ended:
			return
		case <-a.closed:
			return
		case <-turn.C:
		}
		if _, lent := a.isServing(); !lent {
			continue
		}
		a.queue.Lock()
		number, answered := a.ask()
		a.queue.Unlock()
		question := wire.AgentDrop{Number: number, Node: -1, PE: -1}
		if err := a.tell(question.Append(nil), time.Now().Add(a.hungAfter)); err != nil {
			a.logger.Error().Err(err).Msg("agent")
			return
		}
		a.await(answered, func() bool { return true })
	}
}

// takeBroken takes the news that a connection between agents has ended.
func (a *nodeAgent) takeBroken(packet []byte) {
	var m wire.AgentBroken
	if err := m.Parse(packet); err != nil {
		a.logger.Error().Err(err).Msg("word of the agent")
		return
	}
	if a.hooks.Broken != nil {
		a.hooks.Broken(m.Node)
	}
}

// takeDropped takes the answer to an AgentDrop, or to the last AgentGuest of a job.
func (a *nodeAgent) takeDropped(packet []byte) {
	var m wire.AgentDropped
	if err := m.Parse(packet); err != nil {
		a.logger.Error().Err(err).Msg("word of the agent")
		return
	}
	a.queue.Lock()
	defer a.queue.Unlock()
	if c := a.questions[m.Number]; c != nil {
		delete(a.questions, m.Number)
		if m.Err != "" {
			if a.refused == nil {
				a.refused = map[uint64]string{}
			}
			a.refused[m.Number] = m.Err
		}
		close(c)
	}
}
