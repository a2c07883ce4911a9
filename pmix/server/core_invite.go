package server

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/wire"
)

// maxInvites bounds how many groups a process may invite to at once.
const maxInvites = 256

// invite is a group in the making that its leader makes by invitation. The protocol is one of events between clients;
// the server watches it in order to know the group, and to tell those who wait when another ends.
type invite struct {
	id       string
	leader   *process
	invited  []*process // without those who declined or ended
	accepted map[*process]bool
}

// groupNews takes notice of an event that makes a group. The status is for a client whose event makes no sense. Of a
// process that ended before its last words were read, nobody waits for more.
func (c *core) groupNews(from *process, ev *wire.Event) (wire.Status, error) {
	if _, gone := from.gone(); gone {
		return wire.StatusSuccess, nil
	}
	switch ev.Status {
	case wire.StatusGroupInvited:
		return c.invite(from, ev)
	case wire.StatusGroupInviteAccepted, wire.StatusGroupInviteDeclined:
		c.answered(from, ev)
	case wire.StatusGroupConstructComplete:
		return c.completed(from, ev)
	case wire.StatusGroupConstructAbort:
		id, _ := groupID(ev)
		c.dropInvite(from, id)
	}
	return wire.StatusSuccess, nil
}

func groupID(ev *wire.Event) (string, error) {
	v, _ := ev.Has(wire.KeyGroupID)
	id, _ := v.Str()
	if id == "" || len(id) > wire.MaxGroupIDLen {
		return "", fmt.Errorf("%s is %q, want 1 to %d bytes", wire.KeyGroupID, clipped(id), wire.MaxGroupIDLen)
	}
	return id, nil
}

func (c *core) invite(from *process, ev *wire.Event) (wire.Status, error) {
	id, err := groupID(ev)
	if err == nil {
		err = c.checkGroupID(id)
	}
	if err != nil {
		return wire.StatusErrBadParam, err
	}
	procs, _, err := c.participants(from, ev.Targets)
	if err != nil {
		return wire.StatusErrBadParam, err
	}
	c.dropInvite(from, id)
	open := 0
	for _, inv := range c.invites {
		if inv.leader == from {
			open++
		}
	}
	if open >= maxInvites {
		return wire.StatusErrOutOfResource, fmt.Errorf("invitations to %d groups are open, want no more", open)
	}
	inv := &invite{id: id, leader: from, accepted: map[*process]bool{}}
	for _, p := range procs {
		if p == from {
			continue
		}
		if _, gone := p.gone(); gone {
			c.raiseFor([]wire.Proc{from.name}, wire.StatusGroupInviteFailed, id, p)
			continue
		}
		inv.invited = append(inv.invited, p)
	}
	c.invites = append(c.invites, inv)
	return wire.StatusSuccess, nil
}

// dropInvite forgets an invitation. Nobody is to get it late.
func (c *core) dropInvite(leader *process, id string) {
	c.forgetNews(wire.StatusGroupInvited, id, []wire.Proc{leader.name})
	c.invites = slices.DeleteFunc(c.invites, func(inv *invite) bool { return inv.leader == leader && inv.id == id })
}

// forgetNews drops what is kept for the late about a group that some of the given processes told.
func (c *core) forgetNews(status wire.Status, id string, from []wire.Proc) {
	for _, s := range c.spaces {
		s.cache = slices.DeleteFunc(s.cache, func(n *notice) bool {
			if n.Status != status || !wire.AnyMatch(from, []wire.Proc{n.Source}) {
				return false
			}
			of, err := groupID(&n.Event)
			return err == nil && of == id
		})
	}
}

// answered takes notice of an answer to an invitation. libpmix does not say which one, so it is the oldest.
func (c *core) answered(from *process, ev *wire.Event) {
	id, err := groupID(ev)
	for _, inv := range c.invites {
		if err == nil && inv.id != id || inv.accepted[from] || !slices.Contains(inv.invited, from) ||
			!wire.AnyMatch(ev.Targets, []wire.Proc{inv.leader.name}) {
			continue
		}
		if ev.Status == wire.StatusGroupInviteAccepted {
			inv.accepted[from] = true
		} else {
			inv.invited = slices.DeleteFunc(inv.invited, func(p *process) bool { return p == from })
		}
		return
	}
}

// completed makes the group that a leader has announced to its members.
func (c *core) completed(from *process, ev *wire.Event) (wire.Status, error) {
	id, err := groupID(ev)
	if err == nil {
		err = c.checkGroupID(id)
	}
	if err == nil && len(ev.Targets) == 0 {
		err = errors.New("no targets, want the members")
	}
	if err != nil {
		return wire.StatusErrBadParam, err
	}
	procs, _, err := c.participants(from, ev.Targets)
	if err != nil {
		return wire.StatusErrBadParam, err
	}
	g := &group{id: id, leader: from}
	g.flags(ev.Info)
	if !takesPart(procs, from) {
		procs = append(slices.Clone(procs), from)
		slices.SortFunc(procs, func(a, b *process) int { return compareProcs(a.name, b.name) })
	}
	for _, p := range procs {
		if status, gone := p.gone(); !gone {
			g.members = append(g.members, p)
		} else if !g.tolerant {
			g.broken = status
		}
	}
	switch {
	case c.groupOf(id, procs...) != nil:
		return wire.StatusErrExists, fmt.Errorf("group %q: a member is in one of this name already", clipped(id))
	case slices.ContainsFunc(g.members, func(p *process) bool { return c.groupCount(p) >= maxGroups }):
		return wire.StatusErrOutOfResource, fmt.Errorf("a member is in %d groups already", maxGroups)
	}
	g.fences = groupFences(opDestruct, id, procs)
	c.dropInvite(from, id)
	c.addGroup(g)
	return wire.StatusSuccess, nil
}

// loseInvites tells those who wait for a process that it has ended.
func (c *core) loseInvites(p *process) {
	for _, inv := range slices.Clone(c.invites) {
		switch {
		case inv.leader == p:
			c.dropInvite(p, inv.id)
			if len(inv.invited) > 0 {
				c.raiseFor(names(inv.invited), wire.StatusGroupLeaderFailed, inv.id, p)
			}
		case slices.Contains(inv.invited, p):
			inv.invited = slices.DeleteFunc(inv.invited, func(q *process) bool { return q == p })
			status := wire.StatusGroupInviteFailed
			if inv.accepted[p] {
				status = wire.StatusGroupMemberFailed
			}
			c.raiseFor([]wire.Proc{inv.leader.name}, status, inv.id, p)
		}
	}
}
