package server

import (
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
