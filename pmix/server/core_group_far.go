package server

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// A group whose founders are on several nodes has the same number, members and directives on all of them: they come from
// the parts of the fence in which it comes about, and every node gets the sum of these.
//
//	flags, number, members on the node, data that the fence collects
//
// Each node whose members want a number offers one. The first in the order of nodes counts.

// The flags of a part.
const (
	flagNumbered = 1 << iota
	flagTolerant
	flagNotify
)

// contextID makes the numbers of groups unique in the job: those of node 0 are small, as on one node.
func contextID(node uint32, n uint64) uint64 { return uint64(node)<<32 | n&(1<<32-1) }

// nextContext returns a number for a group with founders on this node.
func (gr *groups) nextContext(founders []*process) uint64 {
	gr.lastContext++
	i := slices.IndexFunc(founders, func(p *process) bool { return p.local })
	return contextID(founders[max(i, 0)].place.Node, gr.lastContext)
}

// packPart packs this node's part of a construction.
func (gr *groups) packPart(f *fence, data []byte) []byte {
	g, flags, number := f.group, uint64(0), uint64(0)
	if g.numbered {
		flags, number = flagNumbered, gr.nextContext(f.procs)
	}
	if g.tolerant {
		flags |= flagTolerant
	}
	if g.notify {
		flags |= flagNotify
	}
	var members []codec.Proc
	for _, p := range f.procs {
		if _, gone := p.gone(); p.local && !gone {
			members = append(members, p.name)
		}
	}
	e := codec.NewEncoder(nil)
	e.Uint(flags)
	e.Uint(number)
	e.Procs(members)
	e.ByteObject(data)
	return e.Bytes()
}

// readParts gives a group what all nodes have decided, and stores the data of the fence.
func (gr *groups) readParts(f *fence, packed []byte) codec.Status {
	g := f.group
	d := codec.NewDecoder(packed)
	for d.More() {
		flags, number, members, data := d.Uint(), d.Uint(), d.Procs(), d.ByteObject()
		if d.Err() != nil {
			return codec.StatusErrUnpackFailure
		}
		if flags&flagNumbered != 0 && g.context == 0 {
			g.numbered, g.context = true, number
		}
		g.tolerant = g.tolerant || flags&flagTolerant != 0
		g.notify = g.notify || flags&flagNotify != 0
		for _, name := range members {
			p := gr.find(name)
			if p == nil || !takesPart(f.procs, p) {
				return codec.StatusErrUnpackFailure
			}
			g.members = append(g.members, p)
		}
		if status := gr.fences.gets.storeCollected(data); status != codec.StatusSuccess {
			return status
		}
	}
	if d.Err() != nil {
		return codec.StatusErrUnpackFailure
	}
	slices.SortFunc(g.members, func(a, b *process) int { return compareProcs(a.name, b.name) })
	g.members = slices.Compact(g.members)
	for p, at := range f.joined {
		if _, gone := p.gone(); p.hasLink(at.conn) && !gone && !takesPart(g.members, p) {
			return codec.StatusErrUnpackFailure // this node's part is not among them
		}
	}
	return codec.StatusSuccess
}

// loseMember acts on the end of a member.
func (gr *groups) loseMember(g *group, p *process, status codec.Status) {
	gr.removeMember(g, p)
	if !g.tolerant {
		g.broken = status
	}
	if g.notify {
		gr.notifyMembers(g, codec.StatusGroupMemberFailed, p)
	}
}

// A node may hear of a group before the group comes about here: the fence or the event that makes it has ended on the other
// node, and its end is still on the way to this one. The node keeps such news until then.

// isComing reports whether a group of a name, unknown here so far, comes about that another node may know already: this
// node has handed in its part, or follows the invitation.
func (gr *groups) isComing(id string, procs []*process) bool {
	among := func(p *process) bool { return takesPart(procs, p) }
	for set, fences := range gr.fences.bySet {
		if set.Op == opConstruct && set.Group == id && slices.ContainsFunc(fences, func(f *fence) bool {
			return f.part == partGiven && slices.ContainsFunc(f.procs, among)
		}) {
			return true
		}
	}
	return slices.ContainsFunc(gr.invites.open, func(inv *invite) bool {
		return inv.id == id && (among(inv.leader) || slices.ContainsFunc(inv.invited, among))
	})
}

// findFounded returns the group that ends in the fences of a set, nil if there is none.
func (gr *groups) findFounded(set FenceSet) *group {
	for _, g := range gr.byID[set.Group] {
		if g.fences == set {
			return g
		}
	}
	return nil
}

// keepEarlyCall keeps the call of a fence that ends a group if the group is still to come about here. A call with an error
// does not wait.
func (gr *groups) keepEarlyCall(ev event) bool {
	if ev.fence.Op != opDestruct || ev.status != codec.StatusSuccess || gr.findFounded(ev.fence.FenceSet) != nil {
		return false
	}
	procs, status := gr.fences.findCalledProcs(ev)
	if status != codec.StatusSuccess || !gr.isComing(ev.fence.Group, procs) {
		return false
	}
	gr.early = append(gr.early, ev)
	return true
}

// noteLeft removes a process of another node that has left a group.
//
//   - Errors: news that no server sends.
func (gr *groups) noteLeft(ev event, m *peerMessage) error {
	p := gr.find(m.proc)
	if p == nil {
		return nil // its job is over here
	}
	if p.local {
		return fmt.Errorf("process %v has left a group, want a process of another node", m.proc)
	}
	id := string(m.body)
	if g := gr.findGroup(id, p); g != nil {
		gr.removeLeaver(g, p)
	} else if gr.isComing(id, []*process{p}) {
		gr.early = append(gr.early, ev)
	}
	return nil
}

// hearEarly takes the kept news of groups that have come about, or will not.
func (gr *groups) hearEarly() {
	early := gr.early
	gr.early = nil
	for _, ev := range early {
		if ev.kind == evFenceCalled {
			gr.fences.noteCall(ev)
		} else {
			gr.errands.takeNews(ev)
		}
	}
}
