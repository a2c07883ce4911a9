package server

import (
	"slices"
	"testing"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Whatever one client sends, the core answers it once at most and goes on serving others.
func FuzzStep(f *testing.F) {
	for _, r := range []wire.Request{
		&wire.InitRequest{}, fenceOf(), fenceOf(0, 1), getOf(1, "a", seconds(1)), commitOf(wire.ScopeGlobal, "a=1"),
		&wire.AbortRequest{Status: 1}, &wire.FinalizeRequest{},
		&wire.DeregisterEventsRequest{Codes: []wire.Status{-1}},
	} {
		body, err := wire.AppendRequest(nil, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	for _, r := range slices.Concat(serviceRequests(), groupRequests(), dynamicRequests()) {
		body, err := wire.AppendRequest(nil, r)
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
		w.request(1, commitOf(wire.ScopeGlobal, "z=1"))
		w.request(1, getOf(1, "z"))
		if n := len(w.log); w.log[n-1] != "reply 1#102 z=1" {
			t.Errorf("the other client got %v", w.log)
		}
	})
}

// serviceRequests are requests about published data, the job and logs, good and bad.
func serviceRequests() []wire.Request {
	text := wire.Info{Key: wire.KeyLogStdout, Value: wire.StringValue("x")}
	return []wire.Request{
		publishOf("a=1"), publishOf(), lookupOf("a"), lookupOf("a", waitFor(0), seconds(1)), lookupOf(""), unpublishOf("a"),
		unpublishOf(""), queryOf(wire.KeyQueryProcTable), queryOf(wire.KeyQuerySupportedKeys), queryOf(""),
		queryOf(wire.KeyQueryAttributeSupport, about(wire.KeyServerAttributes, wire.StringValue("all"))),
		&wire.LogRequest{Data: []wire.Info{text}}, &wire.LogRequest{},
	}
}

// groupRequests are requests about events, groups, control and monitors, good and bad.
func groupRequests() []wire.Request {
	return []wire.Request{
		codes(-1, -2), &wire.RegisterEventsRequest{Info: []wire.Info{info(wire.KeyEventAffectedProc, wire.ProcValue(first(1)))}},
		raised(-1, wire.RangeNamespace, yes(wire.KeyEventNonDefault), info(wire.KeyEventActionTimeout, wire.IntValue(1))),
		raised(-1, wire.RangeCustom, info(wire.KeyEventCustomRange, wire.ProcsValue(first(1), wire.Proc{Nspace: "g"}))),
		invited("g", ranks(0, 1)...), answered(wire.StatusGroupInviteAccepted, first(1)), complete("g", ranks(0, 1)...),
		construct("g", ranks(0), yes(wire.KeyGroupAssignContextID)), construct("g", ranks(0, 1), seconds(1)), destruct("g"),
		&wire.GroupLeaveRequest{ID: "g"}, control(nil, yes(wire.KeyJobCtrlKill)),
		control(ranks(0), paths(wire.KeyRegisterCleanupDir, "/tmp/a,/tmp/b"), yes(wire.KeyCleanupRecursive)),
		control(nil, paths(wire.KeyCleanupIgnore, "/")), watchOf(1, 2), watchOf(0, 0), cancel("x"),
	}
}

// dynamicRequests are requests about other jobs and I/O forwarding, good and bad.
func dynamicRequests() []wire.Request {
	both := []wire.Proc{first(0), second(wire.RankWildcard)}
	return []wire.Request{
		spawnOf(forward(wire.KeyFwdStdout, true)), &wire.SpawnRequest{}, &wire.SpawnRequest{Apps: []wire.App{{MaxProcs: -1}}},
		&wire.ConnectRequest{Procs: ranks(0)}, &wire.ConnectRequest{Procs: both}, &wire.ConnectRequest{},
		&wire.DisconnectRequest{Procs: ranks(0), Info: []wire.Info{seconds(1)}},
		pullOf(1, wire.IOFStdout, first(wire.RankWildcard)), pullOf(0, 0xffff, both...), pullOf(0, wire.IOFStderr),
		&wire.IOFPushRequest{Procs: ranks(1), Data: []byte("x")}, &wire.IOFPushRequest{Procs: both},
		&wire.IOFDeregisterRequest{ID: 1}, &wire.AbortRequest{Procs: both}, &wire.AbortRequest{Procs: ranks(1)},
		&wire.GetRequest{Proc: second(wire.RankWildcard), Key: wire.KeyJobSize},
	}
}
