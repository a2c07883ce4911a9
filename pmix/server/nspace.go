package server

import (
	"cmp"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/kvs"
)

type phase uint8

const (
	phaseNew       phase = iota // The process has never connected.
	phaseConnected              // It has a live connection, or several.
	phaseFinalized              // It has finalized its last connection. It may connect again.
	phaseLost                   // Its last connection closed without a finalize. It may connect again.
)

// process is the core's state of one process.
type process struct {
	name      codec.Proc
	space     *nspace
	place     Proc
	local     bool // The process is on this node.
	phase     phase
	links     []*link // its live connections, the oldest first; none unless connected
	pid       int     // zero: unknown
	exited    bool
	exit      Exit   // valid when exited
	seen      *sight // what its node has said, for a process of another node; nil: nothing
	epilog    epilog
	aborts    bool // The process asked for its own end along with that of others.
	condemned bool // Another process asked for its end.
}

// maxLibraries bounds the live connections of one process.
const maxLibraries = 8

// link is one connection of a process. A process has one for each PMIx library in it: package shmem has a client, and
// an MPI library that the same process calls has another.
type link struct {
	*process
	conn   connID
	events registrations
	issue  uint64 // shared.issue of the last shared answer that the connection has got
}

// addLink adds a live connection to a process.
func (p *process) addLink(conn connID) *link {
	l := &link{process: p, conn: conn}
	p.phase, p.links = phaseConnected, append(p.links, l)
	return l
}

// dropLink takes a connection from the live ones. It returns false for one that is not live.
func (p *process) dropLink(conn connID) bool {
	n := len(p.links)
	p.links = slices.DeleteFunc(p.links, func(l *link) bool { return l.conn == conn })
	return len(p.links) < n
}

// hasLink reports whether a connection of the process is live: neither finalized nor lost.
func (p *process) hasLink(conn connID) bool {
	return slices.ContainsFunc(p.links, func(l *link) bool { return l.conn == conn })
}

// gone reports whether a process can send nothing more, and the status for the processes that wait for it. A process
// that finalized may connect again as long as it lives.
func (p *process) gone() (codec.Status, bool) {
	switch {
	case p.phase == phaseFinalized:
		return codec.StatusEventProcTerminated, p.exited
	case p.exited || p.phase == phaseLost:
		return codec.StatusErrProcTermWoSync, true
	default:
		return codec.StatusSuccess, false
	}
}

// nspace is one job: its processes on all nodes, and what they have put.
type nspace struct {
	name      string
	tool      bool       // The namespace is a tool's own, with one process.
	parent    codec.Proc // the process that spawned the job; none if its namespace is empty
	origin    *nspace    // the parent's namespace, or the origin of that if it is over
	info      []byte     // the answer to an InitRequest
	level     *jobLevel
	job       *JobLayout   // nil for a tool
	about     *description // nil for a tool
	known     *facts       // nil until a query asks
	procs     []*process   // by rank
	everybody string       // FenceSet.Procs of the whole namespace
	store     *kvs.Store
	shared    shared
	cache     []*notice // events kept for late handlers, the oldest first
	epilog    epilog
	publishes map[uint32]bool // applications of whose lifetime this server has told the board
	over      bool            // core.removeJob is dropping the namespace.
}

// newNspace returns the state of a job that has been checked. The parent is the process that spawned it, none if its
// namespace is empty.
func newNspace(job *JobLayout, parent codec.Proc) (*nspace, error) {
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
		store: kvs.New(job.Nspace), publishes: map[uint32]bool{},
	}
	for _, p := range job.byRank() {
		s.procs = append(s.procs, &process{
			name: codec.Proc{Nspace: job.Nspace, Rank: codec.Rank(p.Rank)}, space: s, place: p, local: p.Node == job.ThisNode,
		})
	}
	return s, nil
}

// find returns the state of a rank, nil for a rank that the job does not have.
func (s *nspace) find(rank codec.Rank) *process {
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

func compareProcs(a, b codec.Proc) int {
	return cmp.Or(cmp.Compare(a.Nspace, b.Nspace), cmp.Compare(a.Rank, b.Rank))
}

func names(procs []*process) []codec.Proc {
	out := make([]codec.Proc, len(procs))
	for i, p := range procs {
		out[i] = p.name
	}
	return out
}
