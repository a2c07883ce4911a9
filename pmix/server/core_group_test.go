package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// describeGroup formats the answer to a construction.
func describeGroup(r codec.GroupReply) string {
	out := []string{"group"}
	if r.Status != codec.StatusSuccess {
		out = append(out, statusName(r.Status))
	}
	if r.ContextID != codec.NoContextID {
		out = append(out, fmt.Sprint("context ", r.ContextID))
	}
	if v, ok := codec.Find(r.Info, codec.KeyGroupMembership); ok {
		members, _ := v.Procs()
		for _, p := range members {
			out = append(out, short(p))
		}
	}
	return strings.Join(out, " ")
}

func construct(id string, procs []codec.Proc, infos ...codec.Info) *codec.GroupConstructRequest {
	return &codec.GroupConstructRequest{ID: id, Procs: procs, Info: infos}
}

func destruct(id string, infos ...codec.Info) *codec.GroupDestructRequest {
	return &codec.GroupDestructRequest{ID: id, Info: infos}
}

func ranks(list ...codec.Rank) []codec.Proc { return fenceOf(list...).Procs }

func TestGroupLife(t *testing.T) {
	w, conns := twoJobs(t, 3)
	members := []codec.Proc{second(1), first(2), first(0)}
	w.request(0, construct("g", members))
	w.requestOn(conns[1], construct("g", members, yes(codec.KeyGroupAssignContextID)))
	w.expect()
	w.request(2, construct("g", members))
	w.expect("reply 0#101 group context 1 0 2 job-2.1", "reply 2#101 group context 1 0 2 job-2.1",
		"reply job-2.1#101 group context 1 0 2 job-2.1")
	w.request(0, construct("g", ranks(0, 1))) // rank 0 is in a group of that name
	w.expect(`refused construct group "g": a member is in a group of this name already`, "reply 0#102 ERR_EXISTS")
	w.request(1, construct("g", ranks(1))) // other processes may use the name
	w.expect("reply 1#101 group 1")
	w.request(1, destruct("other"))
	w.request(0, destruct("g"))
	w.request(2, destruct("g"))
	w.expect("reply 1#102 ERR_NOT_FOUND")
	w.requestOn(conns[1], destruct("g"))
	w.expect("reply 0#103 ok", "reply 2#102 ok", "reply job-2.1#102 ok")
	w.request(1, destruct("g"))
	w.request(1, destruct("g"))
	w.expect("reply 1#103 ok", "reply 1#104 ERR_NOT_FOUND")
	w.checkNoGroups()
}

// checkNoGroups checks that no state of groups is left.
func (w *world) checkNoGroups() {
	w.t.Helper()
	if n := len(w.core.groups.byID) + len(w.core.fences.bySet) + len(w.core.invites.open); n != 0 {
		w.t.Errorf("%d groups, %d fences, %d invitations are left, want none", len(w.core.groups.byID), len(w.core.fences.bySet), len(w.core.invites.open))
	}
}

func TestUnfitGroups(t *testing.T) {
	w := started(t, 3)
	w.request(0, construct("", ranks(0)))
	w.request(0, construct(testNspace, ranks(0)))
	w.request(0, construct("g", nil))
	w.request(0, construct("g", ranks(1, 2)))
	w.request(0, construct("g", ranks(0, 9)))
	w.expect(
		`refused construct group "": the group has no name`, "reply 0#101 ERR_BAD_PARAM",
		`refused construct group "job-1": a namespace has this name; choose another`, "reply 0#102 ERR_BAD_PARAM",
		`refused construct group "g": no processes named, want all members`, "reply 0#103 ERR_BAD_PARAM",
		`refused construct group "g": among job-1:1,2, want the caller to take part`, "reply 0#104 ERR_BAD_PARAM",
		`refused construct group "g": process job-1.9, want a rank below 3`, "reply 0#105 ERR_BAD_PARAM",
	)
	w.request(0, construct("g", ranks(0, 1)))
	w.request(2, construct("g", ranks(0, 1, 2))) // they would wait for each other forever
	w.expect(`refused construct group "g": others make a group of this name with other members`, "reply 2#101 ERR_BAD_PARAM")
	w.request(1, construct("g", ranks(0, 1)))
	w.expect("reply 0#106 group 0 1", "reply 1#101 group 0 1")
	w.request(0, &codec.GroupLeaveRequest{ID: "h"})
	w.expect("reply 0#107 ERR_NOT_FOUND")
	w.core.groups.byID["many"] = nil
	for i := range maxGroups {
		id := fmt.Sprint("many", i)
		w.core.groups.byID[id] = []*group{{id: id, members: []*process{w.core.find(first(2))}}}
	}
	w.request(2, construct("one more", ranks(2)))
	w.expect(`refused construct group "one more": the caller is in 4096 groups already`, "reply 2#102 ERR_OUT_OF_RESOURCE")
}

func TestGroupTimeout(t *testing.T) {
	w := started(t, 2)
	w.request(0, construct("g", ranks(0, 1), seconds(3)))
	w.advance(2)
	w.expect()
	w.advance(1)
	w.expect("reply 0#101 ERR_TIMEOUT")
	w.request(1, construct("g", ranks(0, 1))) // gets the same error
	w.expect("reply 1#101 ERR_TIMEOUT")
	w.checkNoGroups()
	w.request(0, construct("g", ranks(0, 1)))
	w.request(1, construct("g", ranks(0, 1)))
	w.log = nil
	w.request(0, destruct("g", seconds(1)))
	w.advance(1)
	w.request(1, destruct("g"))
	w.expect("reply 0#103 ERR_TIMEOUT", "reply 1#103 ERR_TIMEOUT")
	w.request(0, destruct("g"))
	w.request(1, destruct("g"))
	w.expect("reply 0#104 ok", "reply 1#104 ok")
	w.checkNoGroups()
}

func TestDeathInConstruction(t *testing.T) {
	for name, tt := range map[string]struct {
		flag   string
		joined bool // whether the one that dies had joined
		want   []string
	}{
		"strict, joined":         {"", true, []string{"reply 0#101 ERR_PROC_TERM_WO_SYNC", "reply 1#101 ERR_PROC_TERM_WO_SYNC"}},
		"strict, missing":        {"", false, []string{"reply 0#101 ERR_PROC_TERM_WO_SYNC", "reply 1#101 ERR_PROC_TERM_WO_SYNC"}},
		"tolerant, joined":       {codec.KeyGroupFTCollective, true, []string{"reply 0#101 group 0 1", "reply 1#101 group 0 1"}},
		"tolerant, missing":      {codec.KeyGroupFTCollective, false, []string{"reply 0#101 group 0 1", "reply 1#101 group 0 1"}},
		"optional, missing":      {codec.KeyGroupOptional, false, []string{"reply 0#101 group 0 1", "reply 1#101 group 0 1"}},
		"optional, then, joined": {codec.KeyGroupOptional, true, []string{"reply 0#101 ERR_PROC_TERM_WO_SYNC", "reply 1#101 ERR_PROC_TERM_WO_SYNC"}},
	} {
		for _, late := range []bool{false, true} { // whether the last living one calls after the death
			t.Run(fmt.Sprint(name, late), func(t *testing.T) {
				w := started(t, 3)
				var flags []codec.Info
				if tt.flag != "" {
					flags = append(flags, yes(tt.flag))
				}
				w.request(0, construct("g", ranks(0, 1, 2), flags...))
				if tt.joined {
					w.request(2, construct("g", ranks(0, 1, 2), flags...))
				}
				w.log = nil
				if late {
					w.closeConn(2)
					w.exit(2)
					w.request(1, construct("g", ranks(0, 1, 2), flags...))
				} else if tt.joined { // the second one is the last: it cannot have called before
					w.closeConn(2)
					w.request(1, construct("g", ranks(0, 1, 2), flags...))
				} else {
					w.request(1, construct("g", ranks(0, 1, 2), flags...))
					w.closeConn(2)
				}
				w.exit(2)
				got := strings.Join(amongLiving(w.log), "; ")
				if got != strings.Join(tt.want, "; ") {
					t.Errorf("%s, want %s", got, strings.Join(tt.want, "; "))
				}
				for _, r := range []codec.Rank{0, 1} {
					w.exit(r)
				}
				w.checkNoGroups()
			})
		}
	}
}

func amongLiving(lines []string) []string {
	var out []string
	for _, line := range lines {
		if !strings.HasPrefix(line, "lost") && !strings.HasPrefix(line, "reply nobody") {
			out = append(out, line)
		}
	}
	return out
}

func TestDeadFounder(t *testing.T) {
	w := started(t, 3)
	w.closeConn(2)
	w.exit(2)
	w.log = nil
	w.request(0, construct("g", ranks(0, 1, 2)))
	w.expect("reply 0#101 ERR_PROC_TERM_WO_SYNC")
	w.request(0, construct("g", ranks(0, 1, 2), yes(codec.KeyGroupFTCollective)))
	w.request(1, construct("g", ranks(0, 1, 2), yes(codec.KeyGroupFTCollective)))
	w.expect("reply 0#102 group 0 1", "reply 1#101 group 0 1")
}

// family returns a world with a group of three whose members register for its events.
func family(t *testing.T, flags ...codec.Info) *world {
	t.Helper()
	w := started(t, 3)
	for r := range codec.Rank(3) {
		w.request(r, codes(codec.StatusGroupMemberFailed, codec.StatusGroupLeft))
		w.request(r, construct("g", ranks(0, 1, 2), flags...))
	}
	w.log = nil
	return w
}

func TestLeavingAGroup(t *testing.T) {
	w := family(t)
	w.request(0, destruct("g"))
	w.request(2, &codec.GroupLeaveRequest{ID: "g"})
	w.expect("reply 2#103 ok", "event 0 GROUP_LEFT from 2 about 2 nondefault group g", "event 1 GROUP_LEFT from 2 about 2 nondefault group g")
	w.exit(2) // no member ends
	w.expect()
	w.request(1, destruct("g"))
	w.expect("reply 0#103 ok", "reply 1#103 ok")
	w.checkNoGroups()

	w = family(t)
	w.request(0, destruct("g"))
	w.request(1, destruct("g"))
	w.request(2, &codec.GroupLeaveRequest{ID: "g"}) // the others waited for it
	w.expect("reply 2#103 ok", "event 0 GROUP_LEFT from 2 about 2 nondefault group g",
		"event 1 GROUP_LEFT from 2 about 2 nondefault group g", "reply 0#103 ok", "reply 1#103 ok")
	w.checkNoGroups()
}

func TestDeathOfAMember(t *testing.T) {
	failed := func(to string) string {
		return "event " + to + " GROUP_MEMBER_FAILED from 2 about 2 nondefault group g"
	}

	w := family(t) // no member asked to be told
	w.exit(2)
	w.expect()
	w.request(0, destruct("g"))
	w.request(1, destruct("g"))
	w.expect("reply 0#103 ERR_PROC_TERM_WO_SYNC", "reply 1#103 ERR_PROC_TERM_WO_SYNC")
	w.checkNoGroups()

	w = family(t, yes(codec.KeyGroupNotifyTermination))
	w.request(0, destruct("g"))
	w.exit(2)
	w.expect("reply 0#103 ERR_PROC_TERM_WO_SYNC", failed("1"))
	w.request(1, destruct("g"))
	w.expect("reply 1#103 ERR_PROC_TERM_WO_SYNC")
	w.checkNoGroups()

	w = family(t, yes(codec.KeyGroupNotifyTermination), yes(codec.KeyGroupFTCollective))
	w.request(0, destruct("g"))
	w.request(1, destruct("g"))
	w.closeConn(2)
	w.exit(2)
	if len(w.log) != 3 || w.log[1] != "reply 0#103 ok" {
		t.Errorf("%q, want the group to end", w.log)
	}
	w.checkNoGroups()

	w = family(t, yes(codec.KeyGroupNotifyTermination), yes(codec.KeyGroupFTCollective))
	w.request(2, &codec.FinalizeRequest{}) // ends without leaving the group
	w.exit(2)
	w.expect("finalized 2", "reply 2#103 ok", failed("0"), failed("1"))
	w.request(0, destruct("g"))
	w.request(1, destruct("g"))
	w.expect("reply 0#103 ok", "reply 1#103 ok")
	w.checkNoGroups()
}

// A group's name may be used in place of a namespace.
func TestGroupNamesProcesses(t *testing.T) {
	w, conns := twoJobs(t, 2)
	members := []codec.Proc{first(1), second(0)}
	w.request(1, construct("g", members))
	w.requestOn(conns[0], construct("g", members))
	w.requestOn(conns[0], codes(-9999))
	w.log = nil
	w.request(1, raised(-9999, codec.RangeCustom, info(codec.KeyEventCustomRange, codec.ProcValue(codec.Proc{Nspace: "g", Rank: codec.RankWildcard}))))
	w.expect("event job-2.0 status -9999 from 1", "reply 1#102 ok")
	w.request(1, raised(-9999, codec.RangeCustom, info(codec.KeyEventCustomRange, codec.ProcValue(codec.Proc{Nspace: "g", Rank: 1}))))
	w.expect("event job-2.0 status -9999 from 1", "reply 1#103 ok")
	w.request(1, &codec.FenceRequest{Procs: []codec.Proc{{Nspace: "g", Rank: codec.RankWildcard}}})
	w.requestOn(conns[0], &codec.FenceRequest{Procs: []codec.Proc{{Nspace: "g", Rank: codec.RankWildcard}}})
	w.expect("reply 1#104 ok", "reply job-2.0#103 ok")
	w.request(0, &codec.FenceRequest{Procs: []codec.Proc{{Nspace: "g", Rank: codec.RankWildcard}}}) // not a member
	w.expect("refused fence: process g.* is unknown here, want a process of a job of this server", "reply 0#101 ERR_BAD_PARAM")
}

func invited(id string, procs ...codec.Proc) *codec.NotifyRequest {
	return raised(codec.StatusGroupInvited, codec.RangeCustom, info(codec.KeyEventCustomRange, codec.ProcsValue(procs...)),
		paths(codec.KeyGroupID, id), yes(codec.KeyEventNonDefault))
}

func answered(status codec.Status, leader codec.Proc) *codec.NotifyRequest {
	return raised(status, codec.RangeCustom, info(codec.KeyEventCustomRange, codec.ProcValue(leader)))
}

func complete(id string, procs ...codec.Proc) *codec.NotifyRequest {
	return raised(codec.StatusGroupConstructComplete, codec.RangeCustom, info(codec.KeyEventCustomRange, codec.ProcsValue(procs...)),
		paths(codec.KeyGroupID, id), yes(codec.KeyEventNonDefault))
}

// listening returns a world of four processes with handlers for all events of invitations.
func listening(t *testing.T) *world {
	t.Helper()
	w := started(t, 4)
	for r := range codec.Rank(4) {
		w.request(r, codes(codec.StatusGroupInvited, codec.StatusGroupInviteAccepted, codec.StatusGroupInviteDeclined,
			codec.StatusGroupInviteFailed, codec.StatusGroupMemberFailed, codec.StatusGroupLeaderFailed,
			codec.StatusGroupConstructAbort, codec.StatusGroupConstructComplete))
	}
	w.log = nil
	return w
}

func TestInvitation(t *testing.T) {
	w := listening(t)
	w.request(0, invited("g", ranks(0, 1, 2)...))
	w.expect("event 1 GROUP_INVITED from 0 nondefault group g", "event 2 GROUP_INVITED from 0 nondefault group g", "reply 0#102 ok")
	w.request(1, answered(codec.StatusGroupInviteAccepted, first(0)))
	w.request(2, answered(codec.StatusGroupInviteAccepted, first(0)))
	w.expect("event 0 GROUP_INVITE_ACCEPTED from 1", "reply 1#102 ok", "event 0 GROUP_INVITE_ACCEPTED from 2", "reply 2#102 ok")
	w.request(0, complete("g", ranks(0, 1, 2)...))
	w.expect("event 1 GROUP_CONSTRUCT_COMPLETE from 0 nondefault group g",
		"event 2 GROUP_CONSTRUCT_COMPLETE from 0 nondefault group g", "reply 0#103 ok")
	w.request(2, &codec.FinalizeRequest{})
	w.closeConn(2)
	w.connect(2)
	w.log = nil
	w.request(2, codes(codec.StatusGroupInvited, codec.StatusGroupConstructComplete)) // after the invitation
	w.expect("reply 2#101 ok", "event 2 GROUP_CONSTRUCT_COMPLETE from 0 nondefault group g")
	w.request(0, complete("g", ranks(0, 3)...))
	w.expect(`refused notify event PMIX_GROUP_CONSTRUCT_COMPLETE: group "g": a member is in one of this name already`, "reply 0#104 ERR_EXISTS")
	for r := range codec.Rank(3) {
		w.request(r, destruct("g"))
	}
	w.expect("reply 0#105 ok", "reply 1#103 ok", "reply 2#102 ok")
	w.checkNoGroups()
	if n := len(w.core.spaces[testNspace].cache); n != 2 { // the two answers
		t.Errorf("%d events are kept, want 2", n)
	}
}

func TestDeathDuringInvitation(t *testing.T) {
	w := listening(t)
	w.closeConn(3)
	w.log = nil
	w.request(0, invited("g", ranks(0, 1, 2, 3)...))
	w.expect("event 0 GROUP_INVITE_FAILED from 3 about 3 nondefault group g", "event 1 GROUP_INVITED from 0 nondefault group g",
		"event 2 GROUP_INVITED from 0 nondefault group g", "reply 0#102 ok")
	w.request(1, answered(codec.StatusGroupInviteAccepted, first(0)))
	w.log = nil
	w.exit(1)
	w.exit(2)
	w.expect("event 0 GROUP_MEMBER_FAILED from 1 about 1 nondefault group g", "event 0 GROUP_INVITE_FAILED from 2 about 2 nondefault group g")

	w = listening(t)
	w.request(0, invited("g", ranks(1, 2, 3)...))
	w.request(1, answered(codec.StatusGroupInviteDeclined, first(0)))
	w.request(2, answered(codec.StatusGroupInviteAccepted, first(0)))
	w.log = nil
	w.exit(0)
	w.expect("event 2 GROUP_LEADER_FAILED from 0 about 0 nondefault group g", "event 3 GROUP_LEADER_FAILED from 0 about 0 nondefault group g")
	w.checkNoGroups()

	w = listening(t)
	w.request(0, invited("g", ranks(1)...))
	w.request(0, raised(codec.StatusGroupConstructAbort, codec.RangeCustom, info(codec.KeyEventCustomRange, codec.ProcsValue(first(1))),
		paths(codec.KeyGroupID, "g")))
	w.log = nil
	w.exit(1)
	w.exit(0)
	w.expect()
	w.checkNoGroups()
}

func TestUnfitInvitations(t *testing.T) {
	w := started(t, 2)
	w.request(0, invited("", first(1)))
	w.request(0, invited(testNspace, first(1)))
	w.request(0, invited("g", first(8)))
	w.request(0, complete("", first(1)))
	w.request(0, raised(codec.StatusGroupConstructComplete, codec.RangeNamespace, paths(codec.KeyGroupID, "g")))
	w.expect(
		`refused notify event PMIX_GROUP_INVITED: pmix.grp.id is "", want 1 to 255 bytes`, "reply 0#101 ERR_BAD_PARAM",
		`refused notify event PMIX_GROUP_INVITED: a namespace has this name; choose another`, "reply 0#102 ERR_BAD_PARAM",
		`refused notify event PMIX_GROUP_INVITED: process job-1.8, want a rank below 2`, "reply 0#103 ERR_BAD_PARAM",
		`refused notify event PMIX_GROUP_CONSTRUCT_COMPLETE: pmix.grp.id is "", want 1 to 255 bytes`, "reply 0#104 ERR_BAD_PARAM",
		`refused notify event PMIX_GROUP_CONSTRUCT_COMPLETE: no targets, want the members`, "reply 0#105 ERR_BAD_PARAM",
	)
	for i := range maxInvites {
		w.request(0, invited(fmt.Sprint("g", i), first(1)))
		w.request(0, invited(fmt.Sprint("g", i), first(1))) // replaces the first invitation
	}
	w.log = nil
	w.request(0, invited("one more", first(1)))
	w.expect("refused notify event PMIX_GROUP_INVITED: invitations to 256 groups are open already, want fewer than 256", "reply 0#618 ERR_OUT_OF_RESOURCE")
}
