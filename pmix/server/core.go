package server

import (
	"slices"

	"github.com/goshmem/goshmem/pmix/kvs"
	"github.com/goshmem/goshmem/pmix/wire"
)

// core is the state of a server. It is pure: events in, actions out.
type core struct {
	remote      bool // there are servers on other nodes to ask
	second      tick // ticks in a second
	requests    wire.RequestDecoder
	spaces      map[string]*nspace
	conns       map[connID]*process
	fences      map[FenceSet][]*fence
	sequences   map[FenceSet]*sequence // of fences with participants on other nodes
	gets        map[wire.Proc][]get
	board       *kvs.Board  // what processes have published
	lookups     []*lookup   // the oldest first
	spawns      []*spawning // the oldest first
	listeners   []*listener // a new table at every change
	groups      map[string][]*group
	invites     []*invite // the oldest first
	watches     []*watch  // the oldest first
	lastSpawn   uint64
	lastPull    uint64
	lastContext uint64 // of a group
	now         tick
	next        tick // no deadline lies before it; zero: there is none
	out         []action
}

// newCore returns a state that knows no namespace yet.
func newCore(remote bool, second tick) *core {
	return &core{
		remote: remote, second: second, spaces: map[string]*nspace{}, conns: map[connID]*process{},
		fences: map[FenceSet][]*fence{}, sequences: map[FenceSet]*sequence{}, gets: map[wire.Proc][]get{}, board: newBoard(),
		groups: map[string][]*group{},
	}
}

// Step applies one event and appends the actions that follow from it to out.
func (c *core) Step(ev event, out []action) []action {
	c.out = out
	c.now = max(c.now, ev.now)
	switch ev.kind {
	case evClaim:
		c.claim(ev)
	case evFrame:
		c.frame(ev)
	case evClosed:
		c.closed(ev.conn)
	case evAddJob:
		c.addJob(ev.space, ev.proc)
	case evRemoveJob:
		c.removeJob(ev.proc.Nspace)
	case evExited:
		if p := c.find(ev.proc); p != nil {
			c.exited(p, ev.exit)
		}
	case evSpawned:
		c.spawned(ev)
	case evNotify:
		_ = c.raise(ev.notice) // has been packed before
	case evTick:
		c.expire()
	case evClosing:
		c.cleanUpAll()
	case evFenceCalled:
		c.fenceCalled(ev)
	case evFenceDone:
		c.fenceDone(ev)
	case evFetched:
		c.fetched(ev)
	case evServe:
		c.serve(ev)
	}
	out, c.out = c.out, nil
	return out
}

// deadline returns the tick by which the core wants to be stepped again; zero stands for never.
func (c *core) deadline() tick { return c.next }

func (c *core) act(a action) { c.out = append(c.out, a) }

func (c *core) send(conn connID, tag uint32, payload []byte) {
	c.act(action{kind: actSend, conn: conn, tag: tag, payload: payload})
}

func (c *core) claim(ev event) {
	if ev.space != nil {
		c.claimTool(ev)
		return
	}
	p := c.find(ev.proc)
	status, why := wire.StatusSuccess, ""
	switch {
	case p == nil || !p.local:
		status, why = wire.StatusErrNotFound, "claim of a process that is not of this step and node"
	case p.phase == phaseConnected:
		status, why = wire.StatusErrExists, "claim of a rank that is connected"
	case p.exited:
		status, why = wire.StatusErrNoPermissions, "claim of a rank whose process has ended"
	}
	if status != wire.StatusSuccess {
		c.reject(ev, status, why)
		return
	}
	p.phase, p.conn, p.events, p.issue = phaseConnected, ev.conn, registrations{}, 0
	c.conns[ev.conn] = p
	p.pid = ev.pid
	c.act(action{kind: actConnected, proc: p.name, pid: ev.pid})
	c.act(action{kind: actAccept, conn: ev.conn, proc: p.name})
}

// reject refuses a claim and says why for the log.
func (c *core) reject(ev event, status wire.Status, why string) {
	c.act(action{kind: actRefused, conn: ev.conn, proc: ev.proc, status: status, text: why})
	c.act(action{kind: actReject, conn: ev.conn, status: status})
}

func (c *core) closed(conn connID) {
	p, ok := c.conns[conn]
	if !ok {
		return
	}
	delete(c.conns, conn)
	c.unwatch(conn)
	c.forgetGets(conn)
	c.forgetSpawns(conn)
	c.forgetListeners(conn)
	c.forgetLookups(conn)
	if p.space.tool {
		p.conn = 0
		c.removeJob(p.space.name)
		return
	}
	if p.conn != conn || p.phase != phaseConnected {
		return
	}
	p.phase, p.conn = phaseLost, 0
	c.act(action{kind: actLost, proc: p.name})
	c.lose(p)
}

// exited takes the end of a process.
func (c *core) exited(p *process, e Exit) {
	if p.exited {
		return
	}
	p.exited, p.exit = true, e
	c.unpublishOf(p)
	c.cleanUp(p)
	if !p.space.over && !p.space.tool {
		c.raiseExit(p, e)
	}
	if p.phase == phaseFinalized {
		c.failFences(p, wire.StatusEventProcTerminated, false)
		c.loseGroups(p, wire.StatusEventProcTerminated)
		return
	}
	c.lose(p)
}

// lose ends everything that waits for a process that died.
func (c *core) lose(p *process) {
	c.failFences(p, wire.StatusErrProcTermWoSync, true)
	c.loseGroups(p, wire.StatusErrProcTermWoSync)
	c.failGets(p.name, wire.StatusErrProcTermWoSync)
}

func (c *core) finalize(at caller, _ *wire.FinalizeRequest) {
	p := at.process
	p.phase, p.conn = phaseFinalized, 0
	c.unwatch(at.conn)
	c.forgetGets(at.conn)
	c.forgetSpawns(at.conn)
	c.forgetListeners(at.conn)
	c.forgetLookups(at.conn)
	if !p.space.tool {
		c.act(action{kind: actFinalized, proc: p.name})
	}
	c.reply(at, wire.StatusSuccess)
	c.failGets(p.name, wire.StatusErrNotFound)
}

// after returns the tick that lies a number of seconds ahead, and remembers to look at deadlines by then.
func (c *core) after(seconds uint64) tick {
	at := c.now + tick(min(seconds, 1<<31))*c.second
	c.lookBy(at)
	return at
}

// lookBy remembers a deadline.
func (c *core) lookBy(at tick) {
	if at != 0 && (c.next == 0 || at < c.next) {
		c.next = at
	}
}

// over says of a deadline whether it has passed; one that has not is remembered.
func (c *core) over(at tick) bool {
	if at != 0 && at <= c.now {
		return true
	}
	c.lookBy(at)
	return false
}

// expire ends what is past its deadline and finds the next one.
func (c *core) expire() {
	if c.next == 0 || c.now < c.next {
		return
	}
	c.next = 0
	for _, set := range c.sortedSets() {
		for _, f := range slices.Clone(c.fences[set]) {
			if !f.failed && c.over(f.deadline) {
				c.expireFence(f)
			}
		}
	}
	for _, name := range sortedProcs(c.gets) {
		c.endGets(name, func(g *get) (wire.Status, bool) {
			return wire.StatusErrTimeout, c.over(g.deadline)
		})
	}
	c.expireLookups()
	c.expireWatches()
}
