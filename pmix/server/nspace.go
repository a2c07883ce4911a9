package server

import (
	"cmp"
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
	name     wire.Proc
	space    *nspace
	place    Proc
	local    bool // of this node
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

// nspace is one job: its processes on all nodes, and what they have put.
type nspace struct {
	name  string
	info  []byte // the answer to an InitRequest
	level *jobLevel
	procs []*process // by rank
	store *kvs.Store
}

// newNspace returns the state of a job that has been checked.
func newNspace(job *Job) (*nspace, error) {
	info, err := job.info()
	if err != nil {
		return nil, err
	}
	level, err := job.level()
	if err != nil {
		return nil, err
	}
	s := &nspace{name: job.Nspace, info: info, level: level, store: kvs.New(job.Nspace)}
	for _, p := range job.byRank() {
		s.procs = append(s.procs, &process{
			name: wire.Proc{Nspace: job.Nspace, Rank: wire.Rank(p.Rank)}, space: s, place: p, local: p.Node == job.ThisNode,
		})
	}
	return s, nil
}

// find returns the state of a rank, nil for one that the job has not.
func (s *nspace) find(rank wire.Rank) *process {
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

func (c *core) addJob(s *nspace) {
	if c.spaces[s.name] == nil { // the driver has seen to it
		c.spaces[s.name] = s
	}
}

// removeJob forgets a namespace: its processes have ended.
func (c *core) removeJob(name string) {
	s := c.spaces[name]
	if s == nil {
		return
	}
	for _, p := range s.procs {
		c.exited(p, Exit{})
		c.failGets(p.name, wire.StatusErrNotFound)
	}
	for _, key := range sortedKeys(c.fences) {
		c.setFences(key, slices.DeleteFunc(c.fences[key], func(f *fence) bool { return f.concerns(s) }))
	}
	for _, p := range s.procs {
		if p.conn != 0 {
			c.act(action{kind: actDrop, conn: p.conn})
			c.closed(p.conn)
		}
	}
	delete(c.spaces, name)
}
