package server

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/wire"
)

// maxGroups bounds of how many groups a process can be a member.
const maxGroups = 4096

// What the processes do that meet to make a group or end it.
const (
	opConstruct Collective = "construct"
	opDestruct  Collective = "destruct"
)

// group is a set of processes with a name of its own. A process is in one group of a name at most.
type group struct {
	id       string
	members  []*process // sorted; those who left or ended are not among them
	context  uint64
	numbered bool        // gets a context
	optional bool        // comes about without those who end before they join
	tolerant bool        // goes on without those who end
	notify   bool        // members hear of the end of others
	broken   wire.Status // a member ended; success: none did, or nobody minds
	fences   FenceSet    // in which the group ends
	leader   *process    // who made it by invitation; nil if it came about otherwise
}

// groupFences names the fences of processes that make or end a group.
func groupFences(op Collective, id string, procs []*process) FenceSet {
	return FenceSet{Op: op, Group: id, Procs: setKey(procs)}
}

// flags takes what a member says about the group: one is enough.
func (g *group) flags(infos []wire.Info) {
	g.numbered = g.numbered || wire.Flag(infos, wire.KeyGroupAssignContextID)
	g.optional = g.optional || wire.Flag(infos, wire.KeyGroupOptional)
	g.tolerant = g.tolerant || wire.Flag(infos, wire.KeyGroupFTCollective)
	g.notify = g.notify || wire.Flag(infos, wire.KeyGroupNotifyTermination)
}

// constructGroup makes the caller one of those who wait for a group to come about.
func (c *core) constructGroup(at caller, r *wire.GroupConstructRequest) {
	procs, status, err := c.founders(at.process, r)
	if err != nil {
		c.refuse(at, status, fmt.Sprintf("construct group %q: %v", clipped(r.ID), err))
		return
	}
	set := groupFences(opConstruct, r.ID, procs)
	f := c.openFence(set, at.process)
	if f == nil {
		if f, status = c.foundGroup(set, procs, r); f == nil {
			c.reply(at, status)
			return
		}
	}
	if !f.failed {
		f.group.flags(r.Info)
	}
	c.enter(f, at, r.Info)
}

// founders finds out who is to be in a group, and whether they can.
func (c *core) founders(p *process, r *wire.GroupConstructRequest) ([]*process, wire.Status, error) {
	if err := c.checkGroupID(r.ID); err != nil {
		return nil, wire.StatusErrBadParam, err
	}
	if len(r.Procs) == 0 {
		return nil, wire.StatusErrBadParam, errors.New("no processes named, want the members")
	}
	procs, key, err := c.participants(p, r.Procs)
	if err != nil {
		return nil, wire.StatusErrBadParam, err
	}
	if !takesPart(procs, p) {
		return nil, wire.StatusErrBadParam, fmt.Errorf("among %s, want the caller to take part", clipped(key))
	}
	if status, gone := p.gone(); gone { // it ended before its last words were read
		return nil, status, errors.New("the caller has ended")
	}
	if c.groupOf(r.ID, procs...) != nil {
		return nil, wire.StatusErrExists, errors.New("a member is in a group of this name already")
	}
	if c.groupCount(p) >= maxGroups {
		return nil, wire.StatusErrOutOfResource, fmt.Errorf("the caller is in %d groups already", maxGroups)
	}
	for other := range c.fences {
		if other.Op == opConstruct && other.Group == r.ID && other.Procs != key && c.waitedFor(other, procs) {
			return nil, wire.StatusErrBadParam, errors.New("others make a group of this name with other members")
		}
	}
	return procs, wire.StatusSuccess, nil
}

// waitedFor says whether fences of a set wait for any of some processes.
func (c *core) waitedFor(set FenceSet, procs []*process) bool {
	return slices.ContainsFunc(c.fences[set], func(f *fence) bool {
		return !f.failed && slices.ContainsFunc(procs, func(p *process) bool { return takesPart(f.procs, p) })
	})
}

func (c *core) checkGroupID(id string) error {
	switch {
	case id == "":
		return errors.New("no name, want one")
	case c.spaces[id] != nil:
		return errors.New("a namespace has this name, want another")
	default:
		return nil
	}
}

// foundGroup opens a fence for the first to come. A nil fence comes with the status for the caller.
func (c *core) foundGroup(set FenceSet, procs []*process, r *wire.GroupConstructRequest) (*fence, wire.Status) {
	if c.crowded(set) {
		return nil, wire.StatusErrOutOfResource
	}
	g := newGroup(r.ID, procs)
	g.flags(r.Info)
	if status, gone := anyGone(procs); gone && !g.tolerant && !g.optional && !c.spans(procs) {
		return nil, status
	}
	f := c.newFence(set, procs)
	f.group = g
	c.passOverDead(f)
	return f, wire.StatusSuccess
}

func newGroup(id string, founders []*process) *group {
	return &group{id: id, fences: groupFences(opDestruct, id, founders)}
}

// without makes a fence not wait for a process, and reports whether it did.
func (f *fence) without(p *process) bool {
	if _, joined := f.joined[p]; joined || !p.local {
		return false
	}
	f.joined[p] = caller{process: p} // no connection: nobody is answered
	f.missing--
	return true
}

// endConstruct makes the group when all have joined.
func (c *core) endConstruct(f *fence) {
	g := f.group
	for _, p := range f.procs {
		if _, gone := p.gone(); !gone {
			g.members = append(g.members, p)
		}
	}
	r := wire.GroupReply{ContextID: wire.NoContextID}
	if g.numbered {
		c.lastContext++
		g.context = c.lastContext
		r.ContextID = g.context
	}
	r.Info = []wire.Info{{Key: wire.KeyGroupMembership, Value: wire.ProcsValue(names(g.members)...)}}
	payload, _ := r.Append(nil) // nothing in it fails to pack
	for _, p := range g.members {
		if at := f.joined[p]; at.conn != 0 {
			c.send(at.conn, at.tag, payload)
		}
	}
	c.removeFence(f)
	c.addGroup(g)
}

func (c *core) addGroup(g *group) {
	if len(g.members) > 0 {
		c.groups[g.id] = append(c.groups[g.id], g)
	}
}

// groupOf returns the group of a name in which any of some processes is.
func (c *core) groupOf(id string, procs ...*process) *group {
	for _, g := range c.groups[id] {
		if slices.ContainsFunc(procs, func(p *process) bool { return takesPart(g.members, p) }) {
			return g
		}
	}
	return nil
}

func (c *core) groupCount(p *process) int {
	n := 0
	for _, groups := range c.groups {
		for _, g := range groups {
			if takesPart(g.members, p) {
				n++
			}
		}
	}
	return n
}

// expand puts its members in the place of a group of the caller's that is named where a namespace is; a rank is then the
// number of a member.
func (c *core) expand(from *process, procs []wire.Proc) []wire.Proc {
	named := func(name wire.Proc) *group {
		if c.spaces[name.Nspace] != nil {
			return nil
		}
		return c.groupOf(name.Nspace, from)
	}
	if !slices.ContainsFunc(procs, func(name wire.Proc) bool { return named(name) != nil }) {
		return procs
	}
	var out []wire.Proc
	for _, name := range procs {
		g := named(name)
		switch {
		case g == nil:
			out = append(out, name)
		case name.Rank == wire.RankWildcard:
			out = append(out, names(g.members)...)
		case uint64(name.Rank) < uint64(len(g.members)):
			out = append(out, g.members[name.Rank].name)
		}
	}
	return out
}

// destructGroup makes the caller one of those who wait for a group to end.
func (c *core) destructGroup(at caller, r *wire.GroupDestructRequest) {
	g := c.groupOf(r.ID, at.process)
	if g == nil {
		c.reply(at, wire.StatusErrNotFound)
		return
	}
	if g.broken != wire.StatusSuccess {
		c.reply(at, g.broken)
		c.leave(g, at.process)
		return
	}
	f := c.openFence(g.fences, at.process)
	if f == nil {
		if c.crowded(g.fences) {
			c.refuse(at, wire.StatusErrOutOfResource, "destruct group: too many under way")
			return
		}
		f = c.newFence(g.fences, slices.Clone(g.members))
		f.group = g
	}
	c.enter(f, at, r.Info)
}

// dropGroup forgets a group, and what is kept about its making.
func (c *core) dropGroup(g *group) {
	if g.leader != nil {
		c.forgetNews(wire.StatusGroupConstructComplete, g.id, []wire.Proc{g.leader.name})
	}
	groups := slices.DeleteFunc(c.groups[g.id], func(h *group) bool { return h == g })
	if len(groups) == 0 {
		delete(c.groups, g.id)
		return
	}
	c.groups[g.id] = groups
}

// leave takes a process out of a group.
func (c *core) leave(g *group, p *process) {
	g.members = slices.DeleteFunc(g.members, func(q *process) bool { return q == p })
	if len(g.members) == 0 {
		c.dropGroup(g)
	}
}

// leaveGroup takes the caller out of a group at once and tells the others.
func (c *core) leaveGroup(at caller, r *wire.GroupLeaveRequest) {
	g := c.groupOf(r.ID, at.process)
	if g == nil {
		c.reply(at, wire.StatusErrNotFound)
		return
	}
	c.leave(g, at.process)
	c.reply(at, wire.StatusSuccess)
	c.tellGroup(g, wire.StatusGroupLeft, at.process)
	for _, f := range slices.Clone(c.fences[g.fences]) {
		if !f.failed {
			c.goOn(f, at.process)
		}
	}
}

// goOn makes a fence go on without a process of this node that it waits for.
func (c *core) goOn(f *fence, p *process) {
	if f.without(p) && f.missing == 0 {
		c.localDone(f)
	}
}

// tellGroup raises an event about one process at the members of a group.
func (c *core) tellGroup(g *group, status wire.Status, about *process) {
	if len(g.members) == 0 {
		return
	}
	c.raiseFor(names(g.members), status, g.id, about)
}

// raiseFor raises an event about a group and a process at some processes.
func (c *core) raiseFor(targets []wire.Proc, status wire.Status, id string, about *process) {
	ev := wire.Event{
		Status: status, Source: about.name, Range: wire.RangeCustom, Targets: targets, Affected: []wire.Proc{about.name},
		NonDefault: true, Info: []wire.Info{{Key: wire.KeyGroupID, Value: wire.StringValue(id)}},
	}
	ev.Info = ev.Pack()
	_ = c.raise(ev) // nothing in it fails to pack
}

// loseGroups takes a process that ended out of all groups, and ends what waits for it.
func (c *core) loseGroups(p *process, status wire.Status) {
	for _, set := range c.sortedSets() {
		for _, f := range slices.Clone(c.fences[set]) {
			if f.group != nil && !f.failed && takesPart(f.procs, p) {
				c.loseMember(f, p, status)
			}
		}
		c.dropHeard(set)
	}
	for _, id := range sortedKeys(c.groups) {
		for _, g := range slices.Clone(c.groups[id]) {
			if !takesPart(g.members, p) {
				continue
			}
			c.leave(g, p)
			if !g.tolerant {
				g.broken = status
			}
			if g.notify {
				c.tellGroup(g, wire.StatusGroupMemberFailed, p)
			}
		}
	}
	c.loseInvites(p)
}

// loseMember takes it to a fence that a participant ended.
func (c *core) loseMember(f *fence, p *process, status wire.Status) {
	at, joined := f.joined[p]
	if joined && at.conn == 0 {
		return // it goes on without the process already
	}
	if f.spares() && (f.group.tolerant || !joined) {
		c.goOn(f, p)
		return
	}
	c.spoil(f, status)
	if f.failed {
		c.breakGroup(f, status)
	}
}

// breakGroup takes those who have heard that a member is gone out of the group that could not end. The others hear it
// when they ask for the end.
func (c *core) breakGroup(f *fence, status wire.Status) {
	if f.id.Op != opDestruct {
		return
	}
	f.group.broken = status
	for q := range f.joined {
		c.leave(f.group, q)
	}
	c.removeFence(f)
}
