package server

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// maxGroups bounds the groups that one process can be a member of.
const maxGroups = 4096

// The collectives that make a group and end it.
const (
	opConstruct Collective = "construct"
	opDestruct  Collective = "destruct"
)

// group is a set of processes with a name of its own. A process is in one group of a name at most.
type group struct {
	id       string
	members  []*process   // sorted, without those that left or ended
	context  uint64       // the group's number, if numbered
	numbered bool         // The group gets a number.
	optional bool         // The group comes about without processes that end before they join.
	tolerant bool         // The group goes on without members that end.
	notify   bool         // Members hear of the end of others.
	broken   codec.Status // the end of a member that the group needs; success: there was none
	founders []*process   // the processes that made it, sorted; all nodes name the fences in which it ends by them
	fences   FenceSet     // the fences in which the group ends
	leader   *process     // the process that made the group by invitation; nil if it came about otherwise
}

// groups serves group operations. A group comes about and ends in fences of its own; those that come about by
// invitation are in invites.
type groups struct {
	*common
	fences      *fences
	invites     *invites
	events      *events
	errands     *errands
	byID        map[string][]*group // groups by name; those of one name have no member in common
	lastContext uint64              // number of the last numbered group
	early       []event             // what other nodes have said of groups that are about to come about here
}

// groupFences names the fences of processes that make or end a group.
func groupFences(op Collective, id string, procs []*process) FenceSet {
	return FenceSet{Op: op, Group: id, Procs: setKey(procs)}
}

// addFlags adds the directives of a member. One member is enough to set each.
func (g *group) addFlags(infos []codec.Info) {
	g.numbered = g.numbered || codec.Flag(infos, codec.KeyGroupAssignContextID)
	g.optional = g.optional || codec.Flag(infos, codec.KeyGroupOptional)
	g.tolerant = g.tolerant || codec.Flag(infos, codec.KeyGroupFTCollective)
	g.notify = g.notify || codec.Flag(infos, codec.KeyGroupNotifyTermination)
}

// construct serves a request to make a group: the caller joins those who wait for the group to come about.
func (gr *groups) construct(at caller, r *codec.GroupConstructRequest) {
	procs, status, err := gr.checkFounders(at.process, r)
	if err != nil {
		gr.refuse(at, status, fmt.Sprintf("construct group %q: %v", clipped(r.ID), err))
		return
	}
	set := groupFences(opConstruct, r.ID, procs)
	f := gr.fences.findOpen(set, at.process)
	if f == nil {
		if f, status = gr.openConstruct(set, procs, r); f == nil {
			gr.reply(at, status)
			return
		}
	}
	if !f.failed {
		f.group.addFlags(r.Info)
	}
	gr.fences.addParticipant(f, at, r.Info)
}

// checkFounders returns the processes that are to form a group, if they can.
func (gr *groups) checkFounders(p *process, r *codec.GroupConstructRequest) ([]*process, codec.Status, error) {
	if err := gr.checkID(r.ID); err != nil {
		return nil, codec.StatusErrBadParam, err
	}
	if len(r.Procs) == 0 {
		return nil, codec.StatusErrBadParam, errors.New("no processes named, want all members")
	}
	procs, key, err := gr.resolveParticipants(p, r.Procs)
	if err != nil {
		return nil, codec.StatusErrBadParam, err
	}
	if !takesPart(procs, p) {
		return nil, codec.StatusErrBadParam, fmt.Errorf("among %s, want the caller to take part", clipped(key))
	}
	if status, gone := p.gone(); gone { // It ended before the server read its request.
		return nil, status, errors.New("the caller has ended")
	}
	if gr.findGroup(r.ID, procs...) != nil {
		return nil, codec.StatusErrExists, errors.New("a member is in a group of this name already")
	}
	if gr.countGroups(p) >= maxGroups {
		return nil, codec.StatusErrOutOfResource, fmt.Errorf("the caller is in %d groups already", maxGroups)
	}
	for other := range gr.fences.bySet {
		if other.Op == opConstruct && other.Group == r.ID && other.Procs != key && gr.fences.waitForAny(other, procs) {
			return nil, codec.StatusErrBadParam, errors.New("others make a group of this name with other members")
		}
	}
	return procs, codec.StatusSuccess, nil
}

// checkID checks the name of a new group.
func (gr *groups) checkID(id string) error {
	switch {
	case id == "":
		return errors.New("the group has no name")
	case gr.spaces[id] != nil:
		return errors.New("a namespace has this name; choose another")
	default:
		return nil
	}
}

// openConstruct opens the fence in which a group comes about, for the first founder. With a nil fence comes the status
// for the caller.
func (gr *groups) openConstruct(set FenceSet, procs []*process, r *codec.GroupConstructRequest) (*fence, codec.Status) {
	if gr.fences.isCrowded(set) {
		return nil, codec.StatusErrOutOfResource
	}
	g := newGroup(r.ID, procs)
	g.addFlags(r.Info)
	if status, gone := anyGone(procs); gone && !g.tolerant && !g.optional && !gr.fences.spans(procs) {
		return nil, status
	}
	f := gr.fences.add(set, procs)
	f.group = g
	gr.fences.passOverDead(f)
	return f, codec.StatusSuccess
}

func newGroup(id string, founders []*process) *group {
	return &group{id: id, founders: founders, fences: groupFences(opDestruct, id, founders)}
}

// completeConstruct makes the group when all founders have joined, and answers them.
func (gr *groups) completeConstruct(f *fence) {
	g := f.group
	if !f.spans {
		for _, p := range f.procs {
			if _, gone := p.gone(); !gone {
				g.members = append(g.members, p)
			}
		}
		if g.numbered {
			g.context = gr.nextContext(f.procs)
		}
	}
	r := codec.GroupReply{ContextID: codec.NoContextID}
	if g.numbered {
		r.ContextID = g.context
	}
	r.Info = []codec.Info{{Key: codec.KeyGroupMembership, Value: codec.ProcsValue(names(g.members)...)}}
	payload, _ := r.Append(nil) // nothing in it fails to pack
	for _, p := range g.members {
		if at := f.joined[p]; at.conn != 0 {
			gr.send(at.conn, at.tag, payload)
		}
	}
	gr.fences.remove(f)
	gr.add(g)
	for _, p := range slices.Clone(g.members) {
		if status, gone := p.gone(); gone { // since its node has handed in its part
			gr.loseMember(g, p, status)
		}
	}
}

// add makes a group known, unless all its members have ended.
func (gr *groups) add(g *group) {
	if len(g.members) > 0 {
		gr.byID[g.id] = append(gr.byID[g.id], g)
	}
}

// findGroup returns the group of a name that has any of some processes as a member, nil if there is none.
func (gr *groups) findGroup(id string, procs ...*process) *group {
	for _, g := range gr.byID[id] {
		if slices.ContainsFunc(procs, func(p *process) bool { return takesPart(g.members, p) }) {
			return g
		}
	}
	return nil
}

// countGroups returns the number of groups that a process is a member of.
func (gr *groups) countGroups(p *process) int {
	n := 0
	for _, groups := range gr.byID {
		for _, g := range groups {
			if takesPart(g.members, p) {
				n++
			}
		}
	}
	return n
}

// expandNames replaces the name of a group of the caller's, given in place of a namespace, by the group's members. The
// rank then is the number of a member.
func (gr *groups) expandNames(from *process, procs []codec.Proc) []codec.Proc {
	named := func(name codec.Proc) *group {
		if gr.spaces[name.Nspace] != nil {
			return nil
		}
		return gr.findGroup(name.Nspace, from)
	}
	if !slices.ContainsFunc(procs, func(name codec.Proc) bool { return named(name) != nil }) {
		return procs
	}
	var out []codec.Proc
	for _, name := range procs {
		g := named(name)
		switch {
		case g == nil:
			out = append(out, name)
		case name.Rank == codec.RankWildcard:
			out = append(out, names(g.members)...)
		case uint64(name.Rank) < uint64(len(g.members)):
			out = append(out, g.members[name.Rank].name)
		}
	}
	return out
}

// destruct makes the caller one of those who wait for a group to end.
func (gr *groups) destruct(at caller, r *codec.GroupDestructRequest) {
	g := gr.findGroup(r.ID, at.process)
	if g == nil {
		gr.reply(at, codec.StatusErrNotFound)
		return
	}
	if g.broken != codec.StatusSuccess {
		gr.reply(at, g.broken)
		gr.removeMember(g, at.process)
		return
	}
	f := gr.fences.findOpen(g.fences, at.process)
	if f == nil {
		if gr.fences.isCrowded(g.fences) {
			gr.refuse(at, codec.StatusErrOutOfResource, "destruct group: too many under way")
			return
		}
		f = gr.openDestruct(g)
	}
	gr.fences.addParticipant(f, at, r.Info)
}

// openDestruct opens a fence in which a group ends. Its participants are the founders, because nodes may know different
// members for a moment. A node answers for those of its founders that are no members any more.
func (gr *groups) openDestruct(g *group) *fence {
	f := gr.fences.add(g.fences, g.founders)
	f.group = g
	for _, p := range g.founders {
		if !takesPart(g.members, p) {
			f.doWithout(p)
		}
	}
	return f
}

// drop drops a group, and the kept event about its making.
func (gr *groups) drop(g *group) {
	if g.leader != nil {
		gr.events.dropCached(codec.StatusGroupConstructComplete, g.id, []codec.Proc{g.leader.name})
	}
	groups := slices.DeleteFunc(gr.byID[g.id], func(h *group) bool { return h == g })
	if len(groups) == 0 {
		delete(gr.byID, g.id)
		return
	}
	gr.byID[g.id] = groups
}

// removeMember takes a process out of a group. The last member takes the group with it.
func (gr *groups) removeMember(g *group, p *process) {
	g.members = slices.DeleteFunc(g.members, func(q *process) bool { return q == p })
	if len(g.members) == 0 {
		gr.drop(g)
	}
}

// leave serves a request to leave a group: the caller leaves at once, and the others hear of it.
func (gr *groups) leave(at caller, r *codec.GroupLeaveRequest) {
	g := gr.findGroup(r.ID, at.process)
	if g == nil {
		gr.reply(at, codec.StatusErrNotFound)
		return
	}
	gr.reply(at, codec.StatusSuccess)
	if gr.peered { // before a fence can go on without the caller
		gr.errands.tell(Everyone, &peerMessage{op: opLeft, proc: at.name, body: []byte(g.id)})
	}
	gr.removeLeaver(g, at.process)
}

// removeLeaver makes a group go on without a member that leaves it. The fence in which the group ends does not wait for a
// process of this node any more.
func (gr *groups) removeLeaver(g *group, p *process) {
	gr.removeMember(g, p)
	gr.notifyMembers(g, codec.StatusGroupLeft, p)
	for _, f := range slices.Clone(gr.fences.bySet[g.fences]) {
		if f.failed {
			f.doWithout(p)
		} else {
			gr.fences.continueWithout(f, p)
		}
	}
	gr.fences.dropHeardFailures(g.fences)
}

// notifyMembers raises an event about one process at the members of a group.
func (gr *groups) notifyMembers(g *group, status codec.Status, about *process) {
	if len(g.members) == 0 {
		return
	}
	gr.events.raiseAbout(names(g.members), status, g.id, about)
}

// removeDead takes a process that ended out of all groups, and ends what waits for it in their fences.
func (gr *groups) removeDead(p *process, status codec.Status) {
	for _, set := range gr.fences.sortedSets() {
		for _, f := range slices.Clone(gr.fences.bySet[set]) {
			if f.group != nil && !f.failed && takesPart(f.procs, p) {
				gr.applyDeath(f, p, status)
			}
		}
		gr.fences.dropHeardFailures(set)
	}
	for _, id := range sortedKeys(gr.byID) {
		for _, g := range slices.Clone(gr.byID[id]) {
			if !takesPart(g.members, p) {
				continue
			}
			gr.loseMember(g, p, status)
		}
	}
	gr.invites.removeDead(p)
}

// applyDeath makes a group's fence go on without a participant that ended, or spoils it.
func (gr *groups) applyDeath(f *fence, p *process, status codec.Status) {
	at, joined := f.joined[p]
	if joined && at.conn == 0 || f.id.Op == opDestruct && !takesPart(f.group.members, p) {
		return // The fence goes on without the process already.
	}
	if f.spares() && (f.group.tolerant || !joined) {
		gr.fences.continueWithout(f, p)
		return
	}
	gr.fences.spoil(f, status)
	if f.failed {
		gr.breakGroup(f, status)
	}
}

// breakGroup takes those who have heard that a member is gone out of a group whose end has failed. The others hear it
// when they ask for the end.
func (gr *groups) breakGroup(f *fence, status codec.Status) {
	if f.id.Op != opDestruct {
		return
	}
	f.group.broken = status
	for q := range f.joined {
		gr.removeMember(f.group, q)
	}
	gr.fences.remove(f)
}
