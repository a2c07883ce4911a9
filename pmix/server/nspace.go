package server

import (
	"cmp"
	"maps"
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

// process is what the core knows of one process.
type process struct {
	name      wire.Proc
	space     *nspace
	place     Proc
	local     bool // of this node
	phase     phase
	conn      connID
	pid       int    // zero: unknown
	issue     uint64 // of what the job shares, that it has got
	exited    bool
	exit      Exit // valid when exited
	events    registrations
	epilog    epilog
	aborts    bool // asked for its own end and that of others
	condemned bool // somebody else asked for its end
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

// nspace is one job: its processes on all nodes, and what they have put.
type nspace struct {
	name      string
	tool      bool      // a tool's own, of one process
	parent    wire.Proc // the process that spawned it, none if its namespace is empty
	origin    *nspace   // of the parent, or where that came from
	info      []byte    // the answer to an InitRequest
	level     *jobLevel
	job       *Job         // nil for a tool
	about     *description // nil for a tool
	known     *facts       // nil until somebody asks
	procs     []*process   // by rank
	everybody string       // the key of fences of the whole namespace
	store     *kvs.Store
	shared    shared
	cache     []*notice // the oldest first
	epilog    epilog
	over      bool // it is being forgotten
}

// newNspace returns the state of a job that has been checked. The parent is the process that spawned it, none if its
// namespace is empty.
func newNspace(job *Job, parent wire.Proc) (*nspace, error) {
	d := job.describe(parent)
	info, err := d.info()
	if err != nil {
		return nil, err
	}
	level, err := d.level()
	if err != nil {
		return nil, err
	}
	s := &nspace{
		name: job.Nspace, everybody: job.Nspace + ":*", info: info, level: level, job: job, about: d,
		store: kvs.New(job.Nspace),
	}
	for _, p := range job.byRank() {
		s.procs = append(s.procs, &process{
			name: wire.Proc{Nspace: job.Nspace, Rank: wire.Rank(p.Rank)}, space: s, place: p, local: p.Node == job.ThisNode,
		})
	}
	return s, nil
}

// find returns the state of a rank, nil for one that the job has not.
func (s *nspace) find(rank wire.Rank) *process {
	if s.tool {
		if p := s.procs[0]; p.name.Rank == rank {
			return p
		}
		return nil
	}
	if uint64(rank) >= uint64(len(s.procs)) {
		return nil
	}
	return s.procs[rank]
}

// find returns the state of a process, nil for one that the server does not know.
func (c *core) find(name wire.Proc) *process {
	s := c.spaces[name.Nspace]
	if s == nil {
		return nil
	}
	return s.find(name.Rank)
}

func compareProcs(a, b wire.Proc) int {
	return cmp.Or(cmp.Compare(a.Nspace, b.Nspace), cmp.Compare(a.Rank, b.Rank))
}

func names(procs []*process) []wire.Proc {
	out := make([]wire.Proc, len(procs))
	for i, p := range procs {
		out[i] = p.name
	}
	return out
}

// addJob makes a namespace known.
func (c *core) addJob(s *nspace, parent wire.Proc) {
	if old := c.spaces[s.name]; old != nil && old.tool { // it chose a name that was not its own
		c.removeJob(s.name)
	}
	p := c.find(parent) // before the job is there: none comes from itself, so that origins are no circle
	c.spaces[s.name], s.parent = s, parent
	if p != nil {
		s.origin = p.space
		c.listenEarly(s, p)
	}
}

// removeJob forgets a namespace: its processes have ended.
func (c *core) removeJob(name string) {
	s := c.spaces[name]
	if s == nil {
		return
	}
	s.over = true
	for _, p := range s.procs {
		c.exited(p, Exit{})
		c.failGets(p.name, wire.StatusErrNotFound)
	}
	for _, set := range c.sortedSets() {
		c.setFences(set, slices.DeleteFunc(c.fences[set], func(f *fence) bool { return f.concerns(s) && !f.owed() }))
	}
	maps.DeleteFunc(c.sequences, func(_ FenceSet, q *sequence) bool { // no request can name these processes again
		return slices.Contains(q.spaces, s)
	})
	for _, p := range s.procs {
		if p.conn != 0 {
			conn := p.conn
			p.phase, p.conn = phaseLost, 0 // nobody has to hear of it
			c.act(action{kind: actDrop, conn: conn, proc: p.name})
			c.closed(conn)
		}
	}
	delete(c.spaces, name)
	for _, child := range c.spaces {
		if child.origin == s {
			child.origin = s.origin
		}
	}
	c.forgetSources(name)
}
