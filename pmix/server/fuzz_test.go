package server

import (
	"slices"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Whatever a client sends, the core answers it at most once and goes on serving others.
func FuzzStep(f *testing.F) {
	for _, r := range []codec.Request{
		&codec.InitRequest{}, fenceOf(), fenceOf(0, 1), getOf(1, "a", seconds(1)), commitOf(codec.ScopeGlobal, "a=1"),
		&codec.AbortRequest{Status: 1}, &codec.FinalizeRequest{},
		&codec.DeregisterEventsRequest{Codes: []codec.Status{-1}},
	} {
		body, err := codec.AppendRequest(nil, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	for _, r := range slices.Concat(serviceRequests(), groupRequests(), dynamicRequests()) {
		body, err := codec.AppendRequest(nil, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		w := started(t, 2)
		answers := 0
		for _, a := range w.step(event{kind: evFrame, conn: w.conns[0], tag: 777, payload: body}) {
			if a.kind == actSend && a.tag == 777 {
				answers++
			}
		}
		if answers > 1 {
			t.Errorf("%d answers to one request", answers)
		}
		w.log = nil
		w.request(1, commitOf(codec.ScopeGlobal, "z=1"))
		w.request(1, getOf(1, "z"))
		if n := len(w.log); w.log[n-1] != "reply 1#102 z=1" {
			t.Errorf("the other client got %v", w.log)
		}
		if answers := answersBetweenNodes(t, body); answers > 1 {
			t.Errorf("%d answers to one request in a job on two nodes", answers)
		}
	})
}

// answersBetweenNodes returns how many answers a request gets in a job on two nodes, the other of which dies.
func answersBetweenNodes(t *testing.T, body []byte) (answers int) {
	w := newWorld(t, twoNodes(0), true)
	w.core.peered = true
	w.connect(0, 1)
	pending := []event{
		{kind: evFrame, conn: w.conns[0], tag: 777, payload: body},
		{kind: evNodeLost, procs: ranks(2, 3)},
	}
	for len(pending) > 0 {
		ev := pending[0]
		pending = pending[1:]
		for _, a := range w.step(ev) {
			switch {
			case a.kind == actSend && a.tag == 777:
				answers++
			case a.kind == actAsk:
				pending = append(pending, event{kind: evAnswered, request: a.request})
			case a.kind == actFence:
				pending = append(pending, event{kind: evFenceDone, fence: a.fence, status: codec.StatusErrProcTermWoSync})
			}
		}
	}
	return answers
}

// FuzzFarData: whatever another node or the driver between the nodes gives as data of processes, as parts of a group, or as
// states of processes, each client that waits for it has one answer, its own data stays, and it is served further.
func FuzzFarData(f *testing.F) {
	w := newWorld(f, twoNodes(1), true)
	w.connect(2, 3)
	w.request(2, commitOf(codec.ScopeGlobal, "a=2"))
	far, _ := export(w.core.find(first(2)))
	data := far.Append(nil)
	part := codec.NewEncoder(nil)
	part.Uint(flagNumbered | flagNotify)
	part.Uint(5)
	part.Procs(ranks(0, 2))
	part.ByteObject(data)
	e := codec.NewEncoder(nil)
	e.Bool(false)
	census := w.core.queries.serveCensus(&peerMessage{op: opCensus, procs: ranks(codec.RankWildcard)})
	for _, seed := range [][]byte{data, part.Bytes(), census.body, e.Bytes(), {1}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		collect := []codec.Info{{Key: codec.KeyCollectData, Value: codec.BoolValue(true)}}
		for what, r := range map[string]codec.Request{
			"fence":  &codec.FenceRequest{Procs: ranks(0, 2), Info: collect},
			"group":  construct("g", ranks(0, 2), collect...),
			"get":    getOf(2, "a"),
			"query":  queryOf(codec.KeyQueryProcTable),
			"groups": queryOf(codec.KeyQueryGroupNames),
		} {
			w := newWorld(t, twoNodes(0), true)
			w.core.peered = true
			w.connect(0, 1)
			w.request(1, commitOf(codec.ScopeGlobal, "own=1"))
			w.log, w.sent = nil, nil
			body := peerAnswer{body: data}
			w.carry = func(a action) {
				switch a.kind {
				case actFence:
					w.step(event{kind: evFenceDone, fence: a.fence, payload: data})
				case actAsk:
					w.step(event{kind: evAnswered, request: a.request, payload: body.append(nil)})
				}
			}
			w.request(0, r)
			w.step(event{kind: evFetched, proc: first(2), key: "a", payload: data})
			if len(w.sent) != 1 || w.sent[0].conn != w.conns[0] {
				t.Errorf("%s: %q, want one answer to rank 0", what, w.log)
			}
			if g := w.core.groups.findGroup("g", w.core.find(first(0)), w.core.find(first(2))); g != nil {
				for _, p := range g.members {
					if p != w.core.find(first(0)) && p != w.core.find(first(2)) {
						t.Errorf("%s: %v is a member, want founders alone", what, p.name)
					}
				}
			}
			w.log, w.carry = nil, nil
			w.request(0, getOf(1, "own"))
			if len(w.log) != 1 || w.log[0] != "reply 0#102 own=1" {
				t.Errorf("%s: afterwards %q, want own=1", what, w.log)
			}
		}
	})
}

// serviceRequests returns good and bad requests about published data, the job and logs.
func serviceRequests() []codec.Request {
	text := codec.Info{Key: codec.KeyLogStdout, Value: codec.StringValue("x")}
	return []codec.Request{
		publishOf("a=1"), publishOf(), lookupOf("a"), lookupOf("a", waitFor(0), seconds(1)), lookupOf(""), unpublishOf("a"),
		unpublishOf(""), queryOf(codec.KeyQueryProcTable), queryOf(codec.KeyQuerySupportedKeys), queryOf(""),
		queryOf(codec.KeyQueryAttributeSupport, about(codec.KeyServerAttributes, codec.StringValue("all"))),
		&codec.LogRequest{Data: []codec.Info{text}}, &codec.LogRequest{},
	}
}

// groupRequests returns good and bad requests about events, groups, control and monitors.
func groupRequests() []codec.Request {
	return []codec.Request{
		codes(-1, -2), &codec.RegisterEventsRequest{Info: []codec.Info{info(codec.KeyEventAffectedProc, codec.ProcValue(first(1)))}},
		raised(-1, codec.RangeNamespace, yes(codec.KeyEventNonDefault), info(codec.KeyEventActionTimeout, codec.IntValue(1))),
		raised(-1, codec.RangeCustom, info(codec.KeyEventCustomRange, codec.ProcsValue(first(1), codec.Proc{Nspace: "g"}))),
		invited("g", ranks(0, 1)...), answered(codec.StatusGroupInviteAccepted, first(1)), complete("g", ranks(0, 1)...),
		construct("g", ranks(0), yes(codec.KeyGroupAssignContextID)), construct("g", ranks(0, 1), seconds(1)), destruct("g"),
		&codec.GroupLeaveRequest{ID: "g"}, control(nil, yes(codec.KeyJobCtrlKill)),
		control(ranks(0), paths(codec.KeyRegisterCleanupDir, "/tmp/a,/tmp/b"), yes(codec.KeyCleanupRecursive)),
		control(nil, paths(codec.KeyCleanupIgnore, "/")), watchOf(1, 2), watchOf(0, 0), cancel("x"),
	}
}

// dynamicRequests returns good and bad requests about other jobs and I/O forwarding.
func dynamicRequests() []codec.Request {
	both := []codec.Proc{first(0), second(codec.RankWildcard)}
	return []codec.Request{
		spawnOf(forward(codec.KeyFwdStdout, true)), &codec.SpawnRequest{}, &codec.SpawnRequest{Apps: []codec.App{{MaxProcs: -1}}},
		&codec.ConnectRequest{Procs: ranks(0)}, &codec.ConnectRequest{Procs: both}, &codec.ConnectRequest{},
		&codec.DisconnectRequest{Procs: ranks(0), Info: []codec.Info{seconds(1)}},
		pullOf(1, codec.IOFStdout, first(codec.RankWildcard)), pullOf(0, 0xffff, both...), pullOf(0, codec.IOFStderr),
		&codec.IOFPushRequest{Procs: ranks(1), Data: []byte("x")}, &codec.IOFPushRequest{Procs: both},
		&codec.IOFDeregisterRequest{ID: 1}, &codec.AbortRequest{Procs: both}, &codec.AbortRequest{Procs: ranks(1)},
		&codec.GetRequest{Proc: second(codec.RankWildcard), Key: codec.KeyJobSize},
	}
}
