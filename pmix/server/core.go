package server

import (
	"slices"

	"github.com/goshmem/goshmem/pmix/kvs"
	"github.com/goshmem/goshmem/pmix/wire"
)

type phase uint8

const (
	phaseNew       phase = iota // never connected
	phaseConnected              // one live connection
	phaseFinalized              // said goodbye; may connect again
	phaseLost                   // connection closed without a goodbye; may connect again
)

// process is what the core knows of one rank.
type process struct {
	Proc
	phase    phase
	conn     connID
	exited   bool
	events   registrations
	cleanups []cleanup
}

// gone returns the status for those who need the process, when nothing more can come from it. A process that finalized
// may connect again as long as it lives.
func (p *process) gone() (wire.Status, bool) {
	switch {
	case p.phase == phaseFinalized:
		return wire.StatusEventProcTerminated, p.exited
	case p.exited || p.phase == phaseLost:
		return wire.StatusErrProcTermWoSync, true
	default:
		return wire.StatusSuccess, false
	}
}

// core is the state of a server. It is pure: events in, actions out.
type core struct {
	nspace   string
	node     uint32
	remote   bool // there are servers on other nodes to ask
	second   tick // ticks in a second
	info     []byte
	procs    []process // by rank
	conns    map[connID]wire.Rank
	store    *kvs.Store
	fences   map[string][]*fence
	fenceSeq map[string]uint64
	gets     map[wire.Rank][]get
	now      tick
	next     tick // no deadline lies before it; zero: there is none
	out      []action
}

// newCore returns the state for a job that has been checked.
func newCore(job *Job, remote bool, second tick) (*core, error) {
	info, err := job.info()
	if err != nil {
		return nil, err
	}
	c := &core{
		nspace: job.Nspace, node: job.ThisNode, remote: remote, second: second, info: info,
		conns: map[connID]wire.Rank{}, store: kvs.New(job.Nspace),
		fences: map[string][]*fence{}, fenceSeq: map[string]uint64{}, gets: map[wire.Rank][]get{},
	}
	for _, p := range job.byRank() {
		c.procs = append(c.procs, process{Proc: p})
	}
	return c, nil
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
	case evExited:
		c.exited(ev.rank)
	case evTick:
		c.expire()
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

func (c *core) reply(conn connID, tag uint32, status wire.Status) {
	c.send(conn, tag, wire.AppendStatusReply(nil, status))
}

// refuse answers with an error that is the client's fault and says why for the log.
func (c *core) refuse(conn connID, tag uint32, status wire.Status, why string) {
	c.act(action{kind: actRefused, conn: conn, rank: c.conns[conn], status: status, text: why})
	c.reply(conn, tag, status)
}

// process returns the state of a rank, nil for one that is not of the job.
func (c *core) process(rank wire.Rank) *process {
	if uint64(rank) >= uint64(len(c.procs)) {
		return nil
	}
	return &c.procs[rank]
}

func (c *core) claim(ev event) {
	p := c.process(ev.rank)
	status, why := wire.StatusSuccess, ""
	switch {
	case ev.nspace != c.nspace || p == nil || p.Node != c.node:
		status, why = wire.StatusErrNotFound, "claim of a process that is not of this job and node"
	case p.phase == phaseConnected:
		status, why = wire.StatusErrExists, "claim of a rank that is connected"
	case p.exited:
		status, why = wire.StatusErrNoPermissions, "claim of a rank whose process has ended"
	}
	if status != wire.StatusSuccess {
		c.act(action{kind: actRefused, conn: ev.conn, rank: ev.rank, status: status, text: why})
		c.act(action{kind: actReject, conn: ev.conn, status: status})
		return
	}
	p.phase, p.conn, p.events, p.cleanups = phaseConnected, ev.conn, registrations{}, nil
	c.conns[ev.conn] = ev.rank
	c.act(action{kind: actConnected, rank: ev.rank, pid: ev.pid})
	c.act(action{kind: actAccept, conn: ev.conn, rank: ev.rank})
}

func (c *core) closed(conn connID) {
	rank, ok := c.conns[conn]
	if !ok {
		return
	}
	delete(c.conns, conn)
	c.forgetGets(conn)
	p := c.process(rank)
	if p.conn != conn || p.phase != phaseConnected {
		return
	}
	p.phase, p.conn = phaseLost, 0
	c.act(action{kind: actLost, rank: rank})
	c.lose(rank)
}

func (c *core) exited(rank wire.Rank) {
	p := c.process(rank)
	if p == nil || p.exited {
		return
	}
	p.exited = true
	if p.phase == phaseFinalized {
		c.failFences(rank, wire.StatusEventProcTerminated, false)
		return
	}
	c.lose(rank)
}

// lose ends everything that waits for a process that died.
func (c *core) lose(rank wire.Rank) {
	c.failFences(rank, wire.StatusErrProcTermWoSync, true)
	c.failGets(rank, wire.StatusErrProcTermWoSync)
}

func (c *core) finalize(conn connID, tag uint32, p *process) {
	rank := wire.Rank(p.Rank)
	p.phase, p.conn = phaseFinalized, 0
	c.forgetGets(conn)
	c.act(action{kind: actFinalized, rank: rank})
	c.reply(conn, tag, wire.StatusSuccess)
	c.failGets(rank, wire.StatusErrNotFound)
}

// after returns the tick that lies a number of seconds ahead, and remembers to look at deadlines by then.
func (c *core) after(seconds uint64) tick {
	at := c.now + tick(min(seconds, 1<<31))*c.second
	if c.next == 0 || at < c.next {
		c.next = at
	}
	return at
}

// expire ends what is past its deadline and finds the next one.
func (c *core) expire() {
	if c.next == 0 || c.now < c.next {
		return
	}
	c.next = 0
	keep := func(at tick) bool {
		if at != 0 && at <= c.now {
			return false
		}
		if at != 0 && (c.next == 0 || at < c.next) {
			c.next = at
		}
		return true
	}
	for _, key := range sortedKeys(c.fences) {
		for _, f := range slices.Clone(c.fences[key]) {
			if !f.failed && !keep(f.deadline) {
				c.failFence(f, wire.StatusErrTimeout)
			}
		}
	}
	for _, rank := range sortedKeys(c.gets) {
		c.endGets(rank, func(g *get) (wire.Status, bool) {
			return wire.StatusErrTimeout, !keep(g.deadline)
		})
	}
}
