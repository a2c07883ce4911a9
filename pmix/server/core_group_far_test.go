package server

import (
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// A group of several nodes has one number and the same members on all of them. One member is enough to ask for that.
func TestGroupBetweenNodes(t *testing.T) {
	m := newMesh(t, 3)
	numbered, data := yes(codec.KeyGroupAssignContextID), codec.Info{Key: codec.KeyCollectData, Value: codec.BoolValue(true)}
	m.request(2, commitOf(codec.ScopeGlobal, "a=2"))
	m.clear()
	m.request(1, construct("g", ranks(1, 2, 5), data))
	m.request(2, construct("g", ranks(1, 2, 5), numbered, data))
	m.request(5, construct("g", ranks(1, 2, 5), numbered))
	m.expectAll([]string{"reply 1#101 group context 4294967297 1 2 5"},
		[]string{"reply 2#102 group context 4294967297 1 2 5"}, []string{"reply 5#101 group context 4294967297 1 2 5"})
	m.request(1, getOf(2, "a"))
	m.worlds[0].expect("reply 1#102 a=2")
	m.request(4, construct("h", ranks(4, 5), numbered)) // of one node, with a number of its own
	m.request(5, construct("h", ranks(4, 5)))
	m.worlds[2].expect("reply 4#101 group context 8589934594 4 5", "reply 5#102 group context 8589934594 4 5")
	for _, rank := range []codec.Rank{1, 2, 5} {
		m.request(rank, destruct("g"))
	}
	m.expectAll([]string{"reply 1#103 ok"}, []string{"reply 2#103 ok"}, []string{"reply 5#103 ok"})
}

// All nodes have the members that their own nodes have counted, whatever each of them hears when. Those that die after that
// leave the group.
func TestMembersBetweenNodes(t *testing.T) {
	m := newMesh(t, 2)
	tolerant := yes(codec.KeyGroupFTCollective)
	m.request(2, codes(codec.StatusGroupMemberFailed))
	m.clear()
	m.on(3).step(event{kind: evExited, proc: first(3)}) // the other node has not heard of it
	m.between = func() { m.worlds[0].exit(1) }          // after its node has handed in
	m.request(0, construct("g", ranks(codec.RankWildcard), tolerant))
	m.request(1, construct("g", ranks(codec.RankWildcard), tolerant))
	m.request(2, construct("g", ranks(codec.RankWildcard), yes(codec.KeyGroupNotifyTermination), tolerant))
	m.between = nil
	m.expectAll([]string{"reply 0#101 group 0 1 2", "reply 1#101 group 0 1 2"}, []string{"reply 2#102 group 0 1 2"})
	if g := m.worlds[0].core.groups.findGroup("g", m.worlds[0].core.find(first(0))); len(g.members) != 2 || !g.notify {
		t.Errorf("node 0 knows %d members, notify %v; want two, true", len(g.members), g.notify)
	}
	m.worlds[1].step(event{kind: evExited, proc: first(1)})
	m.worlds[1].expect("event 2 GROUP_MEMBER_FAILED from 1 about 1 nondefault group g")
}

// A leader hears that an invited process of another node has ended well, and those who have accepted that their leader has.
func TestGoodEndsDuringInvitation(t *testing.T) {
	listening := func() *mesh {
		m := newMesh(t, 2)
		for r := range codec.Rank(4) {
			m.request(r, codes(codec.StatusGroupInvited, codec.StatusGroupInviteFailed, codec.StatusGroupLeaderFailed))
		}
		m.clear()
		return m
	}
	end := func(m *mesh, rank codec.Rank) {
		m.request(rank, &codec.FinalizeRequest{})
		m.on(rank).closeConn(rank)
		m.clear()
		m.exit(rank)
	}
	m := listening()
	m.request(0, invited("g", ranks(1, 2)...))
	end(m, 2)
	m.worlds[0].expect("event 0 GROUP_INVITE_FAILED from 2 about 2 nondefault group g")

	m = listening()
	m.request(0, invited("g", ranks(1, 2)...))
	m.request(2, answered(codec.StatusGroupInviteAccepted, first(0)))
	end(m, 0)
	m.worlds[1].expect("event 2 GROUP_LEADER_FAILED from 0 about 0 nondefault group g")
}

// Parts that no server hands in fail the construction.
func TestStrangePartsOfGroup(t *testing.T) {
	stranger := codec.NewEncoder(nil)
	stranger.Uint(0)
	stranger.Uint(0)
	stranger.Procs(ranks(3))
	stranger.ByteObject(nil)
	for _, payload := range [][]byte{nil, {1}, {0, 0, 1}, {0, 0, 0, 0}, stranger.Bytes()} {
		w := newWorld(t, twoNodes(0), true)
		w.connect(0, 1)
		w.log = nil
		w.request(0, construct("g", ranks(0, 2)))
		w.step(event{kind: evFenceDone, fence: FenceID{FenceSet{opConstruct, "g", "job-1:0,2"}, 1}, payload: payload})
		if got := w.log[len(w.log)-1]; got != "reply 0#101 ERR_UNPACK_FAILURE" {
			t.Errorf("after %x %q, want PMIX_ERR_UNPACK_FAILURE", payload, got)
		}
	}
}

func leaveOf(id string) codec.Request { return &codec.GroupLeaveRequest{ID: id} }

// spreadGroup returns a mesh of three nodes with a group of some processes, whose members register for its events.
func spreadGroup(t *testing.T, members ...codec.Rank) *mesh {
	t.Helper()
	m := newMesh(t, 3)
	for _, rank := range members {
		m.request(rank, codes(codec.StatusGroupLeft, codec.StatusGroupConstructComplete))
		m.request(rank, construct("g", ranks(members...)))
	}
	m.clear()
	return m
}

// expectNoGroups checks that no node keeps anything of a group.
func (m *mesh) expectNoGroups() {
	m.t.Helper()
	for node, w := range m.worlds {
		if n := len(w.core.groups.byID) + len(w.core.fences.bySet) + len(w.core.groups.early); n != 0 {
			m.t.Errorf("node %d keeps %d groups, fences and news of them, want none", node, n)
		}
	}
}

const leftFive = "GROUP_LEFT from 5 about 5 nondefault group g"

// All nodes hear of a process that leaves its group, and the group ends without it. The process may be the only member of
// its node.
func TestLeavingAGroupOfOtherNodes(t *testing.T) {
	m := spreadGroup(t, 1, 2, 5)
	m.request(5, leaveOf("g"))
	m.expectAll([]string{"event 1 " + leftFive}, []string{"event 2 " + leftFive}, []string{"reply 5#103 ok"})
	m.worlds[0].step(event{kind: evExited, proc: first(5), exit: Exit{Signal: 9}}) // no member ends
	m.clear()
	m.request(1, destruct("g"))
	m.request(2, destruct("g"))
	m.expectAll([]string{"reply 1#103 ok"}, []string{"reply 2#103 ok"}, nil)
	m.expectNoGroups()
}

// The end of a group that others have begun goes on without a member that leaves.
func TestLeavingDuringTheEnd(t *testing.T) {
	m := spreadGroup(t, 1, 2, 5)
	m.request(1, destruct("g"))
	m.request(2, destruct("g"))
	m.expectAll(nil, nil, nil)
	m.request(5, leaveOf("g"))
	m.expectAll([]string{"event 1 " + leftFive, "reply 1#103 ok"}, []string{"event 2 " + leftFive, "reply 2#103 ok"}, []string{"reply 5#103 ok"})
	m.expectNoGroups()
}

// A group ends although nodes that have yet to hear of a leaver call the end with it.
func TestEndBeforeNewsOfLeaver(t *testing.T) {
	for _, members := range [][]codec.Rank{{1, 2, 5}, {1, 2, 4, 5}} {
		m := spreadGroup(t, members...)
		m.late[0], m.late[1] = true, true
		m.request(5, leaveOf("g"))
		m.worlds[2].log = nil
		for _, rank := range members[:len(members)-1] {
			m.request(rank, destruct("g"))
		}
		want := [][]string{{"reply 1#103 ok"}, {"reply 2#103 ok"}, nil}
		if len(members) == 4 {
			want[2] = []string{"reply 4#103 ok"}
		}
		m.expectAll(want...)
		m.release(0)
		m.release(1)
		m.expectAll(nil, nil, nil)
		m.expectNoGroups()
	}
}

// A node that the end of a construction has yet to reach hears of a member that leaves, and of the group's end, when it has.
func TestNewsBeforeTheGroup(t *testing.T) {
	m := newMesh(t, 2)
	m.request(2, codes(codec.StatusGroupLeft))
	m.clear()
	m.ended = func(node int) {
		if node == 0 {
			m.ended = nil
			m.request(1, leaveOf("g"))
			m.request(0, destruct("g"))
		}
	}
	for _, rank := range []codec.Rank{0, 1, 2} {
		m.request(rank, construct("g", ranks(0, 1, 2)))
	}
	m.expectAll([]string{"reply 0#101 group 0 1 2", "reply 1#101 group 0 1 2", "reply 1#102 ok"},
		[]string{"reply 2#102 group 0 1 2", "event 2 GROUP_LEFT from 1 about 1 nondefault group g"})
	m.request(2, destruct("g"))
	m.expectAll([]string{"reply 0#102 ok"}, []string{"reply 2#103 ok"})
	m.expectNoGroups()
}

// So does a node that follows an invitation.
func TestNewsBeforeTheInvitedGroup(t *testing.T) {
	m := newMesh(t, 3)
	m.request(4, codes(codec.StatusGroupLeft))
	m.request(0, invited("g", ranks(1, 2, 4)...))
	for _, rank := range []codec.Rank{1, 2, 4} {
		m.request(rank, answered(codec.StatusGroupInviteAccepted, first(0)))
	}
	m.clear()
	m.late[2] = true
	m.request(0, complete("g", ranks(0, 1, 2, 4)...))
	fromLeader := m.kept[2]
	m.kept[2], m.late[2] = nil, false
	m.request(2, leaveOf("g"))
	m.request(0, destruct("g"))
	m.request(1, destruct("g"))
	m.clear()
	for _, ev := range fromLeader {
		m.worlds[2].step(ev)
	}
	m.worlds[2].expect("event 4 GROUP_LEFT from 2 about 2 nondefault group g")
	m.request(4, destruct("g"))
	m.expectAll([]string{"reply 0#103 ok", "reply 1#102 ok"}, nil, []string{"reply 4#103 ok"})
	m.expectNoGroups()
}

// A process that has left makes a group of the same name anew, whatever became of the end that it did not wait for.
func TestGroupAfterLeaving(t *testing.T) {
	m := spreadGroup(t, 1, 2)
	m.request(1, destruct("g", seconds(1)))
	m.worlds[0].advance(1)
	m.request(1, leaveOf("g"))
	m.request(2, leaveOf("g"))
	m.expectNoGroups()
	for _, rank := range []codec.Rank{1, 2} {
		m.request(rank, construct("g", ranks(1, 2)))
	}
	m.clear()
	m.request(1, destruct("g"))
	m.request(2, destruct("g"))
	m.expectAll([]string{"reply 1#106 ok"}, []string{"reply 2#105 ok"}, nil)
	m.expectNoGroups()
}

// News of leavers that no server sends is refused, and that of a process that nobody knows any more is not.
func TestStrangeLeavers(t *testing.T) {
	m := spreadGroup(t, 1, 2, 5)
	w := m.worlds[0]
	for _, name := range []codec.Proc{first(1), second(0), first(4)} {
		w.step(event{kind: evTold, payload: (&peerMessage{op: opLeft, proc: name, body: []byte("g")}).append(nil)})
	}
	w.expect("refused news of another node: process job-1.1 has left a group, want a process of another node")
	if g := w.core.groups.findGroup("g", w.core.find(first(1))); g == nil || len(g.members) != 3 {
		t.Errorf("group %+v, want three members", g)
	}
}
