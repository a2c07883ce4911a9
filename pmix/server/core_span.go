package server

import (
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// A fence that spans nodes ends alike on all of them. Each node with participants hands in one part, which is well or
// an error. A driver between the nodes adds the parts up. Each node follows these rules:
//
//  1. The node hands in when its last participant has joined. If something spoils the fence before that, the node hands in
//     an error at once. Spoilers are the death of a participant, and the end of a deadline here or on another node.
//  2. After that only the driver's answer ends the fence. A death that comes later is for the next fence of the set.
//  3. The node hands in the parts of a set in their order, each after the answer to the one before.
//  4. A node none of whose participants has joined hands in when another node calls the fence, if one of them is dead.
//
// So the parts decide, each node gives its part once, and every node gets their sum. Rule 2 has one exception, which
// does not change the outcome. If a deadline passes while an earlier fence holds the part up, the node answers its
// participants at once: the part that it will hand in is an error.

// partState is the state of this node's part of a fence.
type partState uint8

const (
	partOpen  partState = iota // participants of this node have yet to join
	partDue                    // decided; it waits for an earlier fence of the set
	partGiven                  // handed in
	partDone                   // the answer has come
)

// FenceCall names a fence to a server that may not have met it.
type FenceCall struct {
	ID     FenceID
	Procs  []codec.Proc // the participants, by name; several calls may have one list, so nobody writes to it
	Spares bool         // the fence, of a group, goes on without participants that end before they join
}

// FencePart is what one node hands in.
type FencePart struct {
	FenceCall
	Status codec.Status // success, or why the fence fails
	Data   []byte       // what the node's processes show to other nodes; empty if no participant asked for collection
}

func (a *action) call() FenceCall { return FenceCall{ID: a.fence, Procs: a.procs, Spares: a.flag} }

// sequence numbers the fences of a set with participants on other nodes.
type sequence struct {
	last   uint64    // number of the last fence
	spaces []*nspace // the namespaces of the participants
}

// openSequence returns the sequence of a set, a new one if there is none.
func (fs *fences) openSequence(set FenceSet, procs []*process) *sequence {
	s := fs.sequences[set]
	if s == nil {
		s = &sequence{}
		for _, p := range procs { // sorted by namespace
			if n := len(s.spaces); n == 0 || s.spaces[n-1] != p.space {
				s.spaces = append(s.spaces, p.space)
			}
		}
		fs.sequences[set] = s
	}
	return s
}

// spans reports whether a fence of some processes needs other servers, and this server can ask them.
func (fs *fences) spans(procs []*process) bool {
	return fs.remote && slices.ContainsFunc(procs, func(p *process) bool { return !p.local })
}

// owed reports whether the other nodes have yet to get this node's part, or to answer it.
func (f *fence) owed() bool { return f.spans && f.part != partDone }

// over reports whether the fence is left only for processes that join late.
func (f *fence) over() bool { return f.failed && !f.owed() }

// passOverDead makes a new fence do without participants that are gone. A fence that needs them is spoiled.
func (fs *fences) passOverDead(f *fence) {
	if f.spares() {
		for _, p := range f.procs {
			if _, gone := p.gone(); gone {
				f.doWithout(p)
			}
		}
	} else if status, gone := anyGone(f.procs); gone {
		fs.spoil(f, status)
	}
}

// spoil makes a fence fail. If the fence spans nodes, spoil makes this node's part an error and hands it in. A part
// that the node has handed in stays as it is.
func (fs *fences) spoil(f *fence, status codec.Status) {
	if !f.spans {
		fs.fail(f, status)
		return
	}
	if f.part >= partGiven {
		return
	}
	if f.cause == codec.StatusSuccess {
		f.cause = status
	}
	fs.decidePart(f)
}

// expireFence fails a fence whose deadline has passed. The other nodes of a fence that spans nodes hear of it.
func (fs *fences) expireFence(f *fence) {
	if !f.spans {
		fs.fail(f, codec.StatusErrTimeout)
		return
	}
	f.deadline = 0
	fs.emit(action{kind: actExpire, fence: f.id, procs: names(f.procs), flag: f.spares()})
	fs.spoil(f, codec.StatusErrTimeout)
	if f.part == partDue {
		fs.fail(f, f.cause)
	}
}

// spares reports whether the fence goes on without participants that end before they join.
func (f *fence) spares() bool {
	return f.group != nil && (f.group.tolerant || f.group.optional && f.id.Op == opConstruct)
}

// doWithout makes a fence do without a process of this node that has not joined, and reports whether it did.
func (f *fence) doWithout(p *process) bool {
	if _, joined := f.joined[p]; joined || !p.local {
		return false
	}
	f.joined[p] = caller{process: p} // no connection: nobody is answered
	f.missing--
	return true
}

// continueWithout makes a fence go on without a process of this node that it waits for.
func (fs *fences) continueWithout(f *fence, p *process) {
	if f.doWithout(p) && f.missing == 0 {
		fs.finishLocal(f)
	}
}

// waitForAny reports whether fences of a set wait for any of some processes.
func (fs *fences) waitForAny(set FenceSet, procs []*process) bool {
	return slices.ContainsFunc(fs.bySet[set], func(f *fence) bool {
		return !f.failed && slices.ContainsFunc(procs, func(p *process) bool { return takesPart(f.procs, p) })
	})
}

// decidePart decides this node's part of a fence, and hands it in if it is the fence's turn.
func (fs *fences) decidePart(f *fence) {
	if f.part == partOpen {
		f.part = partDue
	}
	fs.handInNext(f.id.FenceSet)
}

// handInNext hands in the part of the first fence of a set that has had no answer, if the part is decided.
func (fs *fences) handInNext(set FenceSet) {
	for _, f := range fs.bySet[set] {
		if f.part == partDone {
			continue
		}
		if f.part == partDue {
			f.part = partGiven
			a := action{kind: actFence, fence: f.id, procs: names(f.procs), status: f.cause, flag: f.spares()}
			if f.cause == codec.StatusSuccess {
				a.payload = fs.packContribution(f)
			}
			fs.emit(a)
		}
		return
	}
}

// endByAnswer ends a fence by the driver's answer to this node's part.
func (fs *fences) endByAnswer(ev event) {
	set := ev.fence.FenceSet
	i := slices.IndexFunc(fs.bySet[set], func(f *fence) bool { return f.id == ev.fence })
	if i < 0 {
		return
	}
	f, status := fs.bySet[set][i], ev.status
	if status == codec.StatusSuccess && (f.part != partGiven || f.cause != codec.StatusSuccess) {
		return // success of all, without this node's: the driver is wrong
	}
	f.part = partDone
	switch {
	case status != codec.StatusSuccess:
	case f.id.Op == opConstruct:
		status = fs.groups.readParts(f, ev.payload)
	default:
		status = fs.gets.storeCollected(ev.payload)
	}
	switch {
	case f.failed: // answered when its deadline passed
		fs.dropHeardFailures(set)
	case status == codec.StatusSuccess:
		fs.complete(f)
	default:
		fs.fail(f, status)
		if status != codec.StatusErrTimeout {
			fs.groups.breakGroup(f, status)
		}
	}
	fs.handInNext(set)
}

// noteCall records that another node is in a fence, which may be new here. With an error the call spoils the fence.
func (fs *fences) noteCall(ev event) {
	set := ev.fence.FenceSet
	i := slices.IndexFunc(fs.bySet[set], func(f *fence) bool { return f.id == ev.fence })
	var f *fence
	if i >= 0 {
		f = fs.bySet[set][i]
	} else if fs.groups.keepEarlyCall(ev) {
		return
	} else if s := fs.sequences[set]; s == nil || ev.fence.Seq > s.last {
		f = fs.openCalled(ev)
	}
	if f != nil && ev.status != codec.StatusSuccess {
		fs.spoil(f, ev.status)
	}
}

// openCalled opens a fence that another node has met first. If it cannot open the fence, it hands in an error as this
// node's part and returns nil.
func (fs *fences) openCalled(ev event) *fence {
	set := ev.fence.FenceSet
	procs, status := fs.findCalledProcs(ev)
	var g *group
	if status == codec.StatusSuccess {
		g, status = fs.findCalledGroup(ev, procs)
	}
	if status != codec.StatusSuccess {
		if s := fs.sequences[set]; s != nil {
			s.last = ev.fence.Seq
		}
		fs.emit(action{kind: actRefused, status: status, text: "fence " + clipped(ev.fence.String()) + " of another node"})
		fs.emit(action{kind: actFence, fence: ev.fence, procs: ev.procs, status: status, flag: ev.flag})
		return nil
	}
	fs.openSequence(set, procs).last = ev.fence.Seq - 1
	var f *fence
	if ev.fence.Op == opDestruct {
		f = fs.groups.openDestruct(g)
	} else {
		f = fs.add(set, procs)
		f.group = g
		fs.passOverDead(f)
	}
	if f.missing == 0 {
		fs.finishLocal(f)
	}
	return f
}

// findCalledProcs finds the participants that another node names.
func (fs *fences) findCalledProcs(ev event) ([]*process, codec.Status) {
	if ev.fence.Seq == 0 || len(ev.procs) == 0 {
		return nil, codec.StatusErrBadParam
	}
	procs := make([]*process, len(ev.procs))
	for i, name := range ev.procs {
		if procs[i] = fs.find(name); procs[i] == nil {
			return nil, codec.StatusErrNotFound
		}
	}
	if !slices.IsSortedFunc(procs, func(a, b *process) int { return compareProcs(a.name, b.name) }) {
		return nil, codec.StatusErrBadParam
	}
	if fs.isCrowded(ev.fence.FenceSet) {
		return nil, codec.StatusErrOutOfResource
	}
	return procs, codec.StatusSuccess
}

// findCalledGroup finds the group of a fence that another node has met first; nil for a fence without a group.
func (fs *fences) findCalledGroup(ev event, procs []*process) (*group, codec.Status) {
	switch ev.fence.Op {
	case opConstruct:
		g := newGroup(ev.fence.Group, procs)
		g.optional = ev.flag
		return g, codec.StatusSuccess
	case opDestruct:
		g := fs.groups.findFounded(ev.fence.FenceSet)
		if g == nil {
			return nil, codec.StatusErrNotFound
		}
		return g, g.broken
	default:
		return nil, codec.StatusSuccess
	}
}
