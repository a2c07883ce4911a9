package server

import (
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// expectAll compares the log of each node with want.
func (m *mesh) expectAll(want ...[]string) {
	m.t.Helper()
	for node, w := range m.worlds {
		m.t.Logf("node %d", node)
		w.expect(want[node]...)
	}
}

// An event reaches the processes that its range names, on whichever nodes they are.
func TestEventsReachOtherNodes(t *testing.T) {
	event := func(rank, about string) []string { return []string{"event " + rank + " " + about} }
	for _, c := range []struct {
		name string
		r    *codec.NotifyRequest
		want [][]string
	}{
		{"session", raised(-3001, codec.RangeSession), [][]string{nil, event("3", "status -3001 from 0"), event("5", "status -3001 from 0")}},
		{"namespace", raised(-3001, codec.RangeNamespace), [][]string{nil, event("3", "status -3001 from 0"), event("5", "status -3001 from 0")}},
		{"custom", raised(-3001, codec.RangeCustom, info(codec.KeyEventCustomRange, codec.ProcsValue(first(1), first(5)))), [][]string{nil, nil, event("5", "status -3001 from 0")}},
		{"local", raised(-3001, codec.RangeLocal), [][]string{nil, nil, nil}},
		{"process", raised(-3001, codec.RangeProcLocal), [][]string{nil, nil, nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMesh(t, 3)
			m.request(3, codes(-3001))
			m.request(5, codes(-3001))
			m.clear()
			m.request(0, c.r)
			c.want[0] = []string{"reply 0#101 ok"}
			m.expectAll(c.want...)
			m.request(4, codes(-3001)) // it registers late
			if c.name == "session" || c.name == "namespace" {
				m.on(4).expect("reply 4#101 ok", "event 4 status -3001 from 0")
			} else {
				m.on(4).expect("reply 4#101 ok")
			}
		})
	}
}

// A group comes about by invitation between nodes: the servers of all members follow the events.
func TestInvitationBetweenNodes(t *testing.T) {
	m := newMesh(t, 2)
	for _, rank := range []codec.Rank{1, 2} {
		m.request(rank, codes(codec.StatusGroupInvited, codec.StatusGroupConstructComplete))
	}
	m.request(0, codes(codec.StatusGroupInviteAccepted))
	m.clear()
	m.request(0, invited("g", ranks(1, 2)...))
	m.request(2, answered(codec.StatusGroupInviteAccepted, first(0)))
	m.request(1, answered(codec.StatusGroupInviteAccepted, first(0)))
	m.request(0, complete("g", ranks(0, 1, 2)...))
	for node, w := range m.worlds {
		if g := w.core.groups.findGroup("g", w.core.find(first(2))); g == nil || len(g.members) != 3 || len(w.core.invites.open) != 0 {
			t.Errorf("node %d knows group %+v and %d invitations, want three members and none", node, g, len(w.core.invites.open))
		}
	}
}

// Hosts act on the processes of their own nodes, and the client has one answer when all have.
func TestControlBetweenNodes(t *testing.T) {
	m := newMesh(t, 3)
	m.request(0, control(ranks(1, 2, 3), info(codec.KeyJobCtrlSignal, codec.IntValue(10))))
	const signal = "{Signal:10 Kill:false Terminate:false Pause:false Resume:false}"
	m.expectAll([]string{"control 0 [job-1.1 job-1.2 job-1.3] " + signal, "reply 0#101 ok"},
		[]string{"control 0 [job-1.2 job-1.3] " + signal}, nil)
	m.request(0, control(ranks(codec.RankWildcard), yes(codec.KeyJobCtrlPause)))
	const pause = "{Signal:0 Kill:false Terminate:false Pause:true Resume:false}"
	m.expectAll([]string{"control 0 [job-1.*] " + pause, "reply 0#102 ok"},
		[]string{"control 0 [job-1.*] " + pause}, []string{"control 0 [job-1.*] " + pause})
	m.request(0, control(ranks(4), paths(codec.KeyRegisterCleanup, "/tmp/a")))
	m.request(0, control(ranks(4), paths(codec.KeyCleanupIgnore, "/tmp/a")))
	m.expectAll([]string{
		"reply 0#103 ok",
		"refused request JOB_CONTROL of job-1.0 on another node: a path is to be both removed and ignored",
		"reply 0#104 ERR_CONFLICTING_CLEANUP_DIRECTIVES",
	}, nil, nil)
	m.exit(4)
	m.expectAll(nil, nil, []string{"clean up /tmp/a"})
}

// An abort of some processes reaches their nodes. That of the whole job is the business of the own host.
func TestAbortBetweenNodes(t *testing.T) {
	m := newMesh(t, 3)
	m.request(0, &codec.AbortRequest{Status: 7, Message: "no", Procs: ranks(1, 4)})
	m.expectAll([]string{"abort 0 [job-1.1 job-1.4] 7 no", "reply 0#101 ok"}, nil, []string{"abort 0 [job-1.4] 7 no"})
	for _, w := range m.worlds {
		if p := w.core.find(first(4)); !p.condemned || w.core.find(first(5)).condemned {
			t.Error("a node does not know that PE 4 alone is to end")
		}
	}
	m.request(0, &codec.AbortRequest{Status: 7, Message: "no"})
	m.request(0, &codec.AbortRequest{Status: 7, Message: "no", Procs: ranks(5, 4, 3, 2, 1, 0)})
	m.worlds[1].expect()
	m.worlds[2].expect()
}

// An abort of all processes that have not ended is one of the whole job, also if others have ended well on another node.
func TestAbortOfAllThatLive(t *testing.T) {
	m := newMesh(t, 3)
	for _, rank := range []codec.Rank{4, 5} {
		m.request(rank, &codec.FinalizeRequest{})
	}
	m.exit(4)
	m.clear()
	abort := &codec.AbortRequest{Status: 7, Message: "no", Procs: ranks(0, 1, 2, 3)}
	m.request(0, abort)
	m.expectAll([]string{"abort 0 [job-1.0 job-1.1 job-1.2 job-1.3] 7 no", "reply 0#101 ok"},
		[]string{"abort 0 [job-1.2 job-1.3] 7 no"}, nil)
	m.exit(5)
	m.clear()
	m.request(0, abort)
	m.expectAll([]string{"abort 0 [] 7 no", "reply 0#102 ok"}, nil, nil)
	if n := len(m.worlds[0].core.errands.open); n != 0 {
		t.Errorf("%d questions are open, want none", n)
	}
}

// A client is answered although a node dies that was to act.
func TestControlOfDeadNode(t *testing.T) {
	m := newMesh(t, 2)
	m.dead[1] = true
	m.request(0, control(ranks(2), yes(codec.KeyJobCtrlPause)))
	m.worlds[0].expect("control 0 [job-1.2] {Signal:0 Kill:false Terminate:false Pause:true Resume:false}", "reply 0#101 ok")
}

// Input goes to the nodes of the processes that read it.
func TestInputForOtherNodes(t *testing.T) {
	m := newMesh(t, 2)
	m.request(0, &codec.IOFPushRequest{Procs: ranks(1, 2), Data: []byte("x")})
	m.expectAll([]string{`stdin of [job-1.1 job-1.2]: "x", end false`, "reply 0#101 ok"}, []string{`stdin of [job-1.1 job-1.2]: "x", end false`})
}

// News and questions that no server sends are refused.
func TestStrangeNewsAndQuestions(t *testing.T) {
	m := newMesh(t, 2)
	w := m.worlds[0]
	local := codec.Notification{Status: -1, Source: first(2), Range: codec.RangeLocal}
	own := codec.Notification{Status: -1, Source: first(1), Range: codec.RangeSession}
	for _, n := range []codec.Notification{local, own} {
		body, err := n.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		w.step(event{kind: evTold, payload: (&peerMessage{op: opEvent, body: body}).append(nil)})
	}
	w.step(event{kind: evTold, payload: (&peerMessage{op: opControl}).append(nil)})
	w.expect("refused news of another node: event PMIX_ERROR of job-1.2 has range 2, want one that reaches other nodes",
		"refused news of another node: event PMIX_ERROR of job-1.1, want one of a process of another node",
		"refused news of another node: news of kind 5, want one that a node takes")
	for _, r := range []codec.Request{&codec.AbortRequest{}, control(ranks(2)), &codec.FinalizeRequest{}} {
		body, err := codec.AppendRequest(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		var got peerAnswer
		m.requests[99] = func(answer []byte) {
			if got, err = parsePeerAnswer(answer); err != nil {
				t.Error(err)
			}
		}
		w.step(event{kind: evAsked, request: 99, payload: (&peerMessage{op: opControl, body: body}).append(nil)})
		if got.status != codec.StatusErrBadParam || got.why == "" {
			t.Errorf("request %v is answered %+v, want PMIX_ERR_BAD_PARAM with a reason", r.Command(), got)
		}
	}
}
