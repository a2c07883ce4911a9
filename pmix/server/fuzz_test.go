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
