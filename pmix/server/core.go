package server

import (
	"github.com/goshmem/goshmem/pmix/codec"
)

// core is the state of a server. It is pure: events in, actions out.
//
// The core itself dispatches events and requests, and keeps track of jobs, processes, tools and connections. Each
// feature of PMIx is a struct of its own with its own state. A feature reaches what all share through its embedded
// *common, and the features that it needs through plain pointers, which newCore sets once. The core lives on one
// goroutine, so nothing in it has a lock.
type core struct {
	common
	requests codec.RequestDecoder

	fences     fences
	gets       gets
	published  published
	spawns     spawns
	forwarding forwarding
	groups     groups
	invites    invites
	events     events
	watches    watches
	queries    queries
	control    jobControl
	errands    errands
}

// newCore returns a state that knows no namespace yet. A remote core can ask servers on other nodes; second is the
// number of ticks in a second.
func newCore(remote bool, second tick) *core {
	c := &core{common: common{
		clock: clock{second: second}, remote: remote,
		roster: roster{spaces: map[string]*nspace{}, conns: map[connID]*link{}},
	}}
	base := &c.common
	c.fences = fences{
		common: base, gets: &c.gets, groups: &c.groups,
		bySet: map[FenceSet][]*fence{}, sequences: map[FenceSet]*sequence{},
	}
	c.gets = gets{common: base, waiting: map[codec.Proc][]get{}}
	c.published = published{common: base, errands: &c.errands, desk: newDesk(&base.clock), waiting: map[uint64]caller{}}
	c.spawns = spawns{common: base, forwarding: &c.forwarding}
	c.forwarding = forwarding{common: base, errands: &c.errands}
	c.groups = groups{
		common: base, fences: &c.fences, invites: &c.invites, events: &c.events, errands: &c.errands, byID: map[string][]*group{},
	}
	c.invites = invites{common: base, groups: &c.groups, events: &c.events}
	c.events = events{common: base, groups: &c.groups, invites: &c.invites, errands: &c.errands}
	c.watches = watches{common: base, events: &c.events}
	c.queries = queries{common: base, groups: &c.groups, errands: &c.errands}
	c.control = jobControl{common: base, groups: &c.groups, errands: &c.errands, queries: &c.queries}
	c.errands = errands{
		common: base, events: &c.events, groups: &c.groups, control: &c.control, queries: &c.queries, forwarding: &c.forwarding,
		open: map[uint64]*errand{}, byProc: map[*process]int{},
	}
	return c
}

// Step applies one event and appends the actions that follow from it to out.
func (c *core) Step(ev event, out []action) []action {
	c.out = out
	c.now = max(c.now, ev.now)
	switch ev.kind {
	case evClaim:
		c.claimProcess(ev)
	case evFrame:
		c.serveFrame(ev)
	case evClosed:
		c.endConnection(ev.conn)
	case evAddJob:
		c.addJob(ev.space, ev.proc)
	case evRemoveJob:
		c.removeJob(ev.proc.Nspace)
	case evExited:
		if p := c.find(ev.proc); p != nil {
			c.recordExit(p, ev.exit)
		}
	case evNodeLost:
		c.loseNode(ev.procs)
	case evSpawned:
		c.spawns.answerSpawn(ev)
	case evNotify:
		_ = c.events.raise(ev.notice) // cannot fail: Server.Notify has packed the event
	case evTick:
		c.expireDeadlines()
	case evClosing:
		c.control.cleanUpAll()
	case evFenceCalled:
		c.fences.noteCall(ev)
	case evFenceDone:
		c.fences.endByAnswer(ev)
	case evFetched:
		c.gets.storeFetched(ev)
	case evServe:
		c.gets.serveNode(ev)
	case evAsked:
		c.errands.serveQuestion(ev)
	case evAnswered:
		c.errands.takeAnswer(ev)
	case evTold:
		c.errands.takeNews(ev)
	}
	c.groups.hearEarly()
	out, c.out = c.out, nil
	return out
}

// deadline returns the tick by which the core wants its next step; zero stands for never.
func (c *core) deadline() tick { return c.next }

// claimProcess accepts a connection as one of a process, or rejects it. A process that is connected may connect once more
// for another PMIx library in it; the process that connects must be the same one.
func (c *core) claimProcess(ev event) {
	if ev.space != nil {
		c.claimTool(ev)
		return
	}
	p := c.find(ev.proc)
	status, why := codec.StatusSuccess, ""
	switch {
	case p == nil || !p.local:
		status, why = codec.StatusErrNotFound, "claim of a process that this server does not serve"
	case p.phase == phaseConnected && (p.pid == 0 || p.pid != ev.pid):
		status, why = codec.StatusErrExists, "claim of a rank that is already connected"
	case len(p.links) >= maxLibraries:
		status, why = codec.StatusErrOutOfResource, "claim of a process with too many connections"
	case p.exited:
		status, why = codec.StatusErrNoPermissions, "claim of a rank whose process has ended"
	}
	if status != codec.StatusSuccess {
		c.rejectClaim(ev, status, why)
		return
	}
	if p.phase != phaseConnected {
		p.pid = ev.pid
		c.emit(action{kind: actConnected, proc: p.name, pid: ev.pid})
	}
	c.conns[ev.conn] = p.addLink(ev.conn)
	c.emit(action{kind: actAccept, conn: ev.conn, proc: p.name})
}

// rejectClaim refuses a claim and gives the log the reason.
func (c *core) rejectClaim(ev event, status codec.Status, why string) {
	c.emit(action{kind: actRefused, conn: ev.conn, proc: ev.proc, status: status, text: why})
	c.emit(action{kind: actReject, conn: ev.conn, status: status})
}

// endConnection acts on the end of a connection. A tool ends with its connection. A process whose last connection ends
// without finalize is lost, and everything that waits for it fails.
func (c *core) endConnection(conn connID) {
	l, ok := c.conns[conn]
	if !ok {
		return
	}
	p := l.process
	delete(c.conns, conn)
	c.dropRequests(conn)
	live := p.dropLink(conn)
	if p.space.tool {
		c.removeJob(p.space.name)
		return
	}
	if !live || len(p.links) > 0 {
		return
	}
	p.phase = phaseLost
	c.emit(action{kind: actLost, proc: p.name})
	c.failWaitersFor(p)
}

// dropRequests drops the requests that are still open on a connection that has ended or finalized.
func (c *core) dropRequests(conn connID) {
	c.watches.dropConnection(conn)
	c.gets.dropConnection(conn)
	c.spawns.dropConnection(conn)
	c.forwarding.dropConnection(conn)
	c.published.dropConnection(conn)
	c.errands.dropConnection(conn)
}

// recordExit acts on the end of a process. A process that has finalized owes nothing to the fences that it has joined,
// nor to gets, which finalize has ended.
func (c *core) recordExit(p *process, e Exit) {
	if p.exited {
		return
	}
	p.exited, p.exit = true, e
	c.published.dropEnded(p)
	c.control.cleanUpAfter(p)
	if !p.space.over && !p.space.tool {
		c.events.raiseExit(p, e)
	}
	if p.phase == phaseFinalized {
		c.fences.failWaitingFor(p, codec.StatusEventProcTerminated, false)
		c.groups.removeDead(p, codec.StatusEventProcTerminated)
		return
	}
	c.failWaitersFor(p)
}

// failWaitersFor ends everything that waits for a process that died.
func (c *core) failWaitersFor(p *process) {
	c.fences.failWaitingFor(p, codec.StatusErrProcTermWoSync, true)
	c.groups.removeDead(p, codec.StatusErrProcTermWoSync)
	c.gets.failWaiting(p.name, codec.StatusErrProcTermWoSync)
}

// finalize serves a finalize request. A process has finalized when its last connection has.
func (c *core) finalize(at caller, _ *codec.FinalizeRequest) {
	p := at.process
	p.dropLink(at.conn)
	c.dropRequests(at.conn)
	if len(p.links) > 0 {
		c.reply(at, codec.StatusSuccess)
		return
	}
	p.phase = phaseFinalized
	if !p.space.tool {
		c.emit(action{kind: actFinalized, proc: p.name})
	}
	c.reply(at, codec.StatusSuccess)
	c.gets.failWaiting(p.name, codec.StatusErrNotFound)
}

// sendJobInfo answers with the description of the caller's job.
func (c *core) sendJobInfo(at caller, _ *codec.InitRequest) { c.send(at.conn, at.tag, at.space.info) }

// expireDeadlines ends everything that is past its deadline. It also finds the next deadline: each feature notes its
// deadlines that have not passed.
func (c *core) expireDeadlines() {
	if c.next == 0 || c.now < c.next {
		return
	}
	c.next = 0
	c.fences.expire()
	c.gets.expire()
	c.published.expire()
	c.watches.expire()
}

// addJob adds a namespace.
func (c *core) addJob(s *nspace, parent codec.Proc) {
	if old := c.spaces[s.name]; old != nil && old.tool { // the tool has the name of the new job
		c.removeJob(s.name)
	}
	if c.remote {
		c.emit(action{kind: actJob, proc: codec.Proc{Nspace: s.name}})
	}
	p := c.find(parent) // looked up before the job is added, so that origins form no circle
	c.spaces[s.name], s.parent = s, parent
	if p != nil {
		s.origin = p.space
		c.spawns.forwardEarly(s, p)
	}
}

// removeJob drops a namespace whose processes have ended, and all that waits for them.
func (c *core) removeJob(name string) {
	s := c.spaces[name]
	if s == nil {
		return
	}
	s.over = true
	for _, p := range s.procs {
		c.recordExit(p, Exit{})
		c.gets.failWaiting(p.name, codec.StatusErrNotFound)
	}
	c.fences.dropJob(s)
	for _, p := range s.procs {
		links := p.links
		if len(links) > 0 {
			p.phase, p.links = phaseLost, nil // so that endConnection reports no loss
		}
		for _, l := range links {
			c.emit(action{kind: actDrop, conn: l.conn, proc: p.name})
			c.endConnection(l.conn)
		}
	}
	delete(c.spaces, name)
	for _, child := range c.spaces {
		if child.origin == s {
			child.origin = s.origin
		}
	}
	c.forwarding.dropSource(name)
	if c.remote && !s.tool {
		c.emit(action{kind: actJob, proc: codec.Proc{Nspace: name}, flag: true})
	}
}
