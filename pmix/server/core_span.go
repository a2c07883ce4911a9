package server

import (
	"slices"

	"github.com/goshmem/goshmem/pmix/wire"
)

// A fence that spans nodes ends alike on all of them. Each node with participants hands in one part, which is well or an
// error, and a driver between the nodes adds the parts up. The rules of a node are:
//
//  1. It hands in when its last participant has joined, or at the first thing that spoils the fence before that: the
//     death of a participant, or the end of a deadline here or on another node. The part is an error then.
//  2. After that only the driver's answer ends the fence. A death that comes later is for the next fence of the set.
//  3. It hands in the parts of a set in their order, each after the answer to the one before.
//  4. A node none of whose participants has joined hands in when another node calls the fence, if one of them is dead.
//
// So the parts decide, each is given once, and every node gets their sum. There is one exception to rule 2, which does
// not change the outcome: a fence whose deadline passes while an earlier one holds its part up is answered at once, as the
// part that is yet to be handed in is an error.

// partState says what this node has done about its part of a fence.
type partState uint8

const (
	partOpen  partState = iota // participants of this node have yet to join
	partDue                    // decided; an earlier fence of the set is under way
	partGiven                  // handed in
	partDone                   // the answer has come
)

// FenceCall names a fence to a server that may not have met it.
type FenceCall struct {
	ID     FenceID
	Procs  []wire.Proc // the participants, by name
	Spares bool        // the fence, of a group, goes on without participants that end before they join
}

// FencePart is what one node hands in.
type FencePart struct {
	FenceCall
	Status wire.Status // success, or why the fence fails
	Data   []byte      // what the node's processes show to other nodes; empty if no participant asked for collection
}

func (a *action) call() FenceCall { return FenceCall{ID: a.fence, Procs: a.procs, Spares: a.flag} }

// sequence counts the fences of a set with participants on other nodes.
type sequence struct {
	last   uint64
	spaces []*nspace // the namespaces of the participants
}

// sequence returns the count of a set, from zero for a new one.
func (c *core) sequence(set FenceSet, procs []*process) *sequence {
	s := c.sequences[set]
	if s == nil {
		s = &sequence{}
		for _, p := range procs { // sorted by namespace
			if n := len(s.spaces); n == 0 || s.spaces[n-1] != p.space {
				s.spaces = append(s.spaces, p.space)
			}
		}
		c.sequences[set] = s
	}
	return s
}

// spans says whether a fence of some processes needs other servers, which can be asked.
func (c *core) spans(procs []*process) bool {
	return c.remote && slices.ContainsFunc(procs, func(p *process) bool { return !p.local })
}

// owed says that the servers of other nodes have yet to get this node's part, or to answer it.
func (f *fence) owed() bool { return f.spans && f.part != partDone }

// over says that nobody but processes that join late can ask for the fence.
func (f *fence) over() bool { return f.failed && !f.owed() }

// passOverDead makes a new fence go on without participants that are gone, or spoils it where it needs them.
func (c *core) passOverDead(f *fence) {
	if f.spares() {
		for _, p := range f.procs {
			if _, gone := p.gone(); gone {
				f.without(p)
			}
		}
	} else if status, gone := anyGone(f.procs); gone {
		c.spoil(f, status)
	}
}

// spoil makes a fence fail. If the fence spans nodes, spoil makes this node's part an error and hands it in; a part that
// was handed in stays what it is.
func (c *core) spoil(f *fence, status wire.Status) {
	if !f.spans {
		c.failFence(f, status)
		return
	}
	if f.part >= partGiven {
		return
	}
	if f.cause == wire.StatusSuccess {
		f.cause = status
	}
	c.handIn(f)
}

// expireFence takes the end of a fence's deadline.
func (c *core) expireFence(f *fence) {
	if !f.spans {
		c.failFence(f, wire.StatusErrTimeout)
		return
	}
	f.deadline = 0
	c.act(action{kind: actExpire, fence: f.id, procs: names(f.procs), flag: f.spares()})
	c.spoil(f, wire.StatusErrTimeout)
	if f.part == partDue {
		c.failFence(f, f.cause)
	}
}

// spares says that the fence goes on without participants that end before they join.
func (f *fence) spares() bool {
	return f.group != nil && (f.group.tolerant || f.group.optional && f.id.Op == opConstruct)
}

// handIn decides this node's part of a fence, and gives it away if the turn of the fence has come.
func (c *core) handIn(f *fence) {
	if f.part == partOpen {
		f.part = partDue
		if f.group != nil && f.group.numbered && f.cause == wire.StatusSuccess {
			f.cause = wire.StatusErrNotSupported // the nodes would have to agree on a number
		}
	}
	c.handNext(f.id.FenceSet)
}

// handNext gives away the part of the first fence of a set that has had no answer, if the part is decided.
func (c *core) handNext(set FenceSet) {
	for _, f := range c.fences[set] {
		if f.part == partDone {
			continue
		}
		if f.part == partDue {
			f.part = partGiven
			a := action{kind: actFence, fence: f.id, procs: names(f.procs), status: f.cause, flag: f.spares()}
			if f.cause == wire.StatusSuccess {
				a.payload = c.contribution(f)
			}
			c.act(a)
		}
		return
	}
}

// fenceDone takes the answer to this node's part.
func (c *core) fenceDone(ev event) {
	set := ev.fence.FenceSet
	i := slices.IndexFunc(c.fences[set], func(f *fence) bool { return f.id == ev.fence })
	if i < 0 {
		return
	}
	f, status := c.fences[set][i], ev.status
	if status == wire.StatusSuccess && (f.part != partGiven || f.cause != wire.StatusSuccess) {
		return // success of all, without this node's: the driver is wrong
	}
	f.part = partDone
	if status == wire.StatusSuccess {
		status = c.importAll(ev.payload)
	}
	switch {
	case f.failed: // answered when its deadline passed
		c.dropHeard(set)
	case status == wire.StatusSuccess:
		c.endFence(f)
	default:
		c.failFence(f, status)
		if status != wire.StatusErrTimeout {
			c.breakGroup(f, status)
		}
	}
	c.handNext(set)
}

// fenceCalled takes it that another node is in a fence, which may be new here.
func (c *core) fenceCalled(ev event) {
	set := ev.fence.FenceSet
	i := slices.IndexFunc(c.fences[set], func(f *fence) bool { return f.id == ev.fence })
	var f *fence
	if i >= 0 {
		f = c.fences[set][i]
	} else if s := c.sequences[set]; s == nil || ev.fence.Seq > s.last {
		f = c.openCalled(ev)
	}
	if f != nil && ev.status != wire.StatusSuccess {
		c.spoil(f, ev.status)
	}
}

// openCalled opens a fence that another node has met first. Where that cannot be, an error is this node's part, and nil the
// result.
func (c *core) openCalled(ev event) *fence {
	set := ev.fence.FenceSet
	procs, status := c.calledProcs(ev)
	var g *group
	if status == wire.StatusSuccess {
		g, status = c.calledGroup(ev, procs)
	}
	if status != wire.StatusSuccess {
		if s := c.sequences[set]; s != nil {
			s.last = ev.fence.Seq
		}
		c.act(action{kind: actRefused, status: status, text: "fence " + clipped(ev.fence.String()) + " of another node"})
		c.act(action{kind: actFence, fence: ev.fence, procs: ev.procs, status: status, flag: ev.flag})
		return nil
	}
	c.sequence(set, procs).last = ev.fence.Seq - 1
	f := c.newFence(set, procs)
	f.group = g
	c.passOverDead(f)
	if f.missing == 0 {
		c.localDone(f)
	}
	return f
}

// calledProcs finds the participants that another node names.
func (c *core) calledProcs(ev event) ([]*process, wire.Status) {
	if ev.fence.Seq == 0 || len(ev.procs) == 0 {
		return nil, wire.StatusErrBadParam
	}
	procs := make([]*process, len(ev.procs))
	for i, name := range ev.procs {
		if procs[i] = c.find(name); procs[i] == nil {
			return nil, wire.StatusErrNotFound
		}
	}
	if !slices.IsSortedFunc(procs, func(a, b *process) int { return compareProcs(a.name, b.name) }) {
		return nil, wire.StatusErrBadParam
	}
	if c.crowded(ev.fence.FenceSet) {
		return nil, wire.StatusErrOutOfResource
	}
	return procs, wire.StatusSuccess
}

// calledGroup finds the group of a fence that another node has met first; nil for a fence without a group.
func (c *core) calledGroup(ev event, procs []*process) (*group, wire.Status) {
	switch ev.fence.Op {
	case opConstruct:
		g := newGroup(ev.fence.Group, procs)
		g.optional = ev.flag
		return g, wire.StatusSuccess
	case opDestruct:
		g := c.groupOf(ev.fence.Group, procs...)
		if g == nil {
			return nil, wire.StatusErrNotFound
		}
		return g, g.broken
	default:
		return nil, wire.StatusSuccess
	}
}
