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
	for _, payload := range [][]byte{{1}, {0, 0, 1}, stranger.Bytes()} {
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
