package server

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// maxInvites bounds the groups to which one process may invite at a time.
const maxInvites = 256

// invite is a group under construction to which its leader invites. The protocol consists of events between clients.
// The server follows them in order to know the group, and to tell waiting processes when another one ends.
type invite struct {
	id       string
	leader   *process
	invited  []*process // those that have neither declined nor ended
	accepted map[*process]bool
}

// invites follows the groups that come about by invitation.
type invites struct {
	*common
	groups *groups
	events *events
	open   []*invite // the oldest first
}

// recordEvent records an event that a client raises about an invitation. The status refuses an invalid event. Events of
// a process that ended before the server read them change nothing, because no process waits for it any more.
func (iv *invites) recordEvent(from *process, ev *codec.Event) (codec.Status, error) {
	if _, gone := from.gone(); gone {
		return codec.StatusSuccess, nil
	}
	switch ev.Status {
	case codec.StatusGroupInvited:
		return iv.openInvite(from, ev)
	case codec.StatusGroupInviteAccepted, codec.StatusGroupInviteDeclined:
		iv.recordAnswer(from, ev)
	case codec.StatusGroupConstructComplete:
		return iv.completeGroup(from, ev)
	case codec.StatusGroupConstructAbort:
		id, _ := groupID(ev)
		iv.dropInvite(from, id)
	}
	return codec.StatusSuccess, nil
}

// groupID returns the name of the group that an event is about.
func groupID(ev *codec.Event) (string, error) {
	v, _ := ev.Has(codec.KeyGroupID)
	id, _ := v.Str()
	if id == "" || len(id) > codec.MaxGroupIDLen {
		return "", fmt.Errorf("%s is %q, want 1 to %d bytes", codec.KeyGroupID, clipped(id), codec.MaxGroupIDLen)
	}
	return id, nil
}

// openInvite records an invitation. The leader hears at once of those that are gone.
func (iv *invites) openInvite(from *process, ev *codec.Event) (codec.Status, error) {
	id, err := groupID(ev)
	if err == nil {
		err = iv.groups.checkID(id)
	}
	if err != nil {
		return codec.StatusErrBadParam, err
	}
	procs, _, err := iv.groups.resolveParticipants(from, ev.Targets)
	if err != nil {
		return codec.StatusErrBadParam, err
	}
	iv.dropInvite(from, id)
	open := 0
	for _, inv := range iv.open {
		if inv.leader == from {
			open++
		}
	}
	if open >= maxInvites {
		return codec.StatusErrOutOfResource, fmt.Errorf("invitations to %d groups are open already, want fewer than %d", open, maxInvites)
	}
	inv := &invite{id: id, leader: from, accepted: map[*process]bool{}}
	for _, p := range procs {
		if p == from {
			continue
		}
		if _, gone := p.gone(); gone {
			iv.events.raiseAbout([]codec.Proc{from.name}, codec.StatusGroupInviteFailed, id, p)
			continue
		}
		inv.invited = append(inv.invited, p)
	}
	iv.open = append(iv.open, inv)
	return codec.StatusSuccess, nil
}

// dropInvite drops an invitation, also from the events kept for late handlers.
func (iv *invites) dropInvite(leader *process, id string) {
	iv.events.dropCached(codec.StatusGroupInvited, id, []codec.Proc{leader.name})
	iv.open = slices.DeleteFunc(iv.open, func(inv *invite) bool { return inv.leader == leader && inv.id == id })
}

// recordAnswer records an answer to an invitation. libpmix does not say to which one, so it counts for the oldest.
func (iv *invites) recordAnswer(from *process, ev *codec.Event) {
	id, err := groupID(ev)
	for _, inv := range iv.open {
		if err == nil && inv.id != id || inv.accepted[from] || !slices.Contains(inv.invited, from) ||
			!codec.AnyMatch(ev.Targets, []codec.Proc{inv.leader.name}) {
			continue
		}
		if ev.Status == codec.StatusGroupInviteAccepted {
			inv.accepted[from] = true
		} else {
			inv.invited = slices.DeleteFunc(inv.invited, func(p *process) bool { return p == from })
		}
		return
	}
}

// completeGroup makes the group that a leader has announced to its members.
func (iv *invites) completeGroup(from *process, ev *codec.Event) (codec.Status, error) {
	id, err := groupID(ev)
	if err == nil {
		err = iv.groups.checkID(id)
	}
	if err == nil && len(ev.Targets) == 0 {
		err = errors.New("no targets, want the members")
	}
	if err != nil {
		return codec.StatusErrBadParam, err
	}
	procs, _, err := iv.groups.resolveParticipants(from, ev.Targets)
	if err != nil {
		return codec.StatusErrBadParam, err
	}
	g := &group{id: id, leader: from}
	g.addFlags(ev.Info)
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
	case iv.groups.findGroup(id, procs...) != nil:
		return codec.StatusErrExists, fmt.Errorf("group %q: a member is in one of this name already", clipped(id))
	case slices.ContainsFunc(g.members, func(p *process) bool { return iv.groups.countGroups(p) >= maxGroups }):
		return codec.StatusErrOutOfResource, fmt.Errorf("a member is in %d groups already", maxGroups)
	}
	g.founders, g.fences = procs, groupFences(opDestruct, id, procs)
	iv.dropInvite(from, id)
	iv.groups.add(g)
	return codec.StatusSuccess, nil
}

// removeDead tells the processes that wait for p in an invitation that p has ended.
func (iv *invites) removeDead(p *process) {
	for _, inv := range slices.Clone(iv.open) {
		switch {
		case inv.leader == p:
			iv.dropInvite(p, inv.id)
			if len(inv.invited) > 0 {
				iv.events.raiseAbout(names(inv.invited), codec.StatusGroupLeaderFailed, inv.id, p)
			}
		case slices.Contains(inv.invited, p):
			inv.invited = slices.DeleteFunc(inv.invited, func(q *process) bool { return q == p })
			status := codec.StatusGroupInviteFailed
			if inv.accepted[p] {
				status = codec.StatusGroupMemberFailed
			}
			iv.events.raiseAbout([]codec.Proc{inv.leader.name}, status, inv.id, p)
		}
	}
}
