package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// describeEvent formats an event: its code, its source, and the processes that it is about.
func describeEvent(b []byte) string {
	n, err := codec.DecodeNotification(b)
	if err != nil {
		return err.Error()
	}
	ev, err := codec.ParseEvent(n)
	if err != nil {
		return err.Error()
	}
	out := []string{strings.TrimPrefix(ev.Status.String(), "PMIX "), "from", short(ev.Source)}
	for i, p := range ev.Affected {
		out = append(out, []string{"about", "and"}[min(i, 1)], short(p))
	}
	if ev.NonDefault {
		out = append(out, "nondefault")
	}
	if v, ok := ev.Has(codec.KeyExitCode); ok {
		out = append(out, "code", v.String())
	}
	if v, ok := ev.Has(codec.KeyGroupID); ok {
		out = append(out, "group", v.String())
	}
	return strings.Replace(strings.Join(out, " "), "PMIX_", "", 1)
}

func codes(list ...codec.Status) *codec.RegisterEventsRequest {
	return &codec.RegisterEventsRequest{Codes: list}
}

// raised returns a notification with a range and infos.
func raised(code codec.Status, rng codec.Range, infos ...codec.Info) *codec.NotifyRequest {
	return &codec.NotifyRequest{Status: code, Range: rng, Info: infos}
}

func info(key string, v codec.Value) codec.Info { return codec.Info{Key: key, Value: v} }

func yes(key string) codec.Info { return info(key, codec.BoolValue(true)) }

func TestEventRanges(t *testing.T) {
	for _, tt := range []struct {
		rng  codec.Range
		info []codec.Info
		want []string // besides the answer, which is always ok
	}{
		{codec.RangeUndef, nil, []string{"1", "job-2.0", "job-2.1"}},
		{codec.RangeRM, nil, nil},
		{codec.RangeLocal, nil, []string{"1", "job-2.0", "job-2.1"}},
		{codec.RangeNamespace, nil, []string{"1"}},
		{codec.RangeSession, nil, []string{"1", "job-2.0", "job-2.1"}},
		{codec.RangeGlobal, nil, []string{"1", "job-2.0", "job-2.1"}},
		{codec.RangeProcLocal, nil, nil},
		{codec.RangeCustom, []codec.Info{info(codec.KeyEventCustomRange, codec.ProcValue(second(1)))}, []string{"job-2.1"}},
		{
			codec.RangeCustom,
			[]codec.Info{info(codec.KeyEventCustomRange, codec.ProcsValue(first(1), first(0), second(0)))},
			[]string{"1", "job-2.0"},
		},
		{
			codec.RangeCustom,
			[]codec.Info{info(codec.KeyEventCustomRange, codec.ProcsValue(second(codec.RankWildcard)))},
			[]string{"job-2.0", "job-2.1"},
		},
	} {
		t.Run(fmt.Sprint(tt.rng, len(tt.info)), func(t *testing.T) {
			w, conns := twoJobs(t, 2)
			for _, conn := range append([]connID{w.conns[0], w.conns[1]}, conns...) {
				w.requestOn(conn, codes(-9999))
			}
			w.log = nil
			w.request(0, raised(-9999, tt.rng, tt.info...))
			var want []string
			for _, to := range tt.want {
				want = append(want, "event "+to+" status -9999 from 0")
			}
			w.expect(append(want, "reply 0#102 ok")...)
		})
	}
}

func TestUnfitEvents(t *testing.T) {
	w := started(t, 2)
	w.request(0, raised(-9999, 8))
	w.request(0, raised(-9999, codec.RangeCustom))
	w.request(0, raised(-9999, codec.RangeNamespace, info(codec.KeyEventCustomRange, codec.ProcValue(first(1)))))
	w.request(0, raised(-9999, codec.RangeCustom, info(codec.KeyEventCustomRange, codec.StringValue("all"))))
	w.request(0, raised(-9999, codec.RangeNamespace, info(codec.KeyEventAffectedProc, codec.BoolValue(true))))
	w.request(0, &codec.RegisterEventsRequest{Info: []codec.Info{info(codec.KeyEventAffectedProcs, codec.StringValue("x"))}})
	w.expect(
		"refused notify event: range 8, want at most 7", "reply 0#101 ERR_BAD_PARAM",
		"refused notify event: range 6 without pmix.evrange, want the target processes", "reply 0#102 ERR_BAD_PARAM",
		"refused notify event: pmix.evrange with range 3, want 6", "reply 0#103 ERR_BAD_PARAM",
		"refused notify event: pmix codec: event PMIX status -9999: pmix.evrange is all (type 3), want a process or an array of processes", "reply 0#104 ERR_BAD_PARAM",
		"refused notify event: pmix codec: event PMIX status -9999: pmix.evproc is true (type 1), want a process or an array of processes", "reply 0#105 ERR_BAD_PARAM",
		"refused register events: pmix codec: event PMIX_SUCCESS: pmix.evaffected is x (type 3), want a process or an array of processes", "reply 0#106 ERR_BAD_PARAM",
	)
}

func TestDefaultHandlers(t *testing.T) {
	w := started(t, 4)
	w.request(1, codes())             // all codes but reserved ones
	w.request(2, codes(-9999))        // one code
	w.request(3, codes(-9998, -9999)) // both codes; several registrations of one code count once
	w.request(3, codes(-9999))
	w.request(3, codes())
	w.log = nil
	w.request(0, raised(-9999, codec.RangeNamespace))
	w.expect("event 1 status -9999 from 0", "event 2 status -9999 from 0", "event 3 status -9999 from 0", "reply 0#101 ok")
	w.request(0, raised(-9999, codec.RangeNamespace, yes(codec.KeyEventNonDefault)))
	w.expect("event 2 status -9999 from 0 nondefault", "event 3 status -9999 from 0 nondefault", "reply 0#102 ok")
	w.request(0, raised(-5555, codec.RangeNamespace))
	w.expect("event 1 status -5555 from 0", "event 3 status -5555 from 0", "reply 0#103 ok")
	w.request(3, &codec.DeregisterEventsRequest{Codes: []codec.Status{-9999, -9998, -77}})
	w.request(2, &codec.DeregisterEventsRequest{Codes: []codec.Status{-9999}})
	w.request(1, &codec.DeregisterEventsRequest{Codes: []codec.Status{codec.StatusMaxErrConstant}})
	w.request(0, raised(-9999, codec.RangeNamespace))
	w.expect("event 3 status -9999 from 0", "reply 0#104 ok")
	if size := w.core.find(first(2)).links[0].events.size; size != 0 {
		t.Errorf("%d registrations are left, want none", size)
	}
}

func TestAffectedFilter(t *testing.T) {
	w := started(t, 3)
	only := func(v codec.Value) *codec.RegisterEventsRequest {
		return &codec.RegisterEventsRequest{Codes: []codec.Status{-9999}, Info: []codec.Info{info(codec.KeyEventAffectedProcs, v)}}
	}
	w.request(1, only(codec.ProcsValue(first(0), second(4))))
	w.request(2, only(codec.ProcsValue(first(codec.RankWildcard))))
	w.log = nil
	about := func(p codec.Proc) *codec.NotifyRequest {
		return raised(-9999, codec.RangeNamespace, info(codec.KeyEventAffectedProc, codec.ProcValue(p)))
	}
	w.request(0, about(first(0)))
	w.expect("event 1 status -9999 from 0 about 0", "event 2 status -9999 from 0 about 0", "reply 0#101 ok")
	w.request(0, about(first(2)))
	w.expect("event 2 status -9999 from 0 about 2", "reply 0#102 ok")
	w.request(0, about(second(4)))
	w.expect("event 1 status -9999 from 0 about job-2.4", "reply 0#103 ok")
	w.request(0, raised(-9999, codec.RangeNamespace)) // about no process, so everyone gets it
	w.expect("event 1 status -9999 from 0", "event 2 status -9999 from 0", "reply 0#104 ok")
}

func TestNoticesHeardOnce(t *testing.T) {
	w := started(t, 2)
	w.request(1, codes(-9001))
	w.request(0, raised(-9001, codec.RangeNamespace))
	w.request(0, raised(-9002, codec.RangeNamespace))
	w.log = nil
	w.request(1, codes(-9001))
	w.request(1, codes(-9002))
	w.request(1, codes(-9002, -9001))
	w.request(1, codes())
	w.expect("reply 1#102 ok", "reply 1#103 ok", "event 1 status -9002 from 0", "reply 1#104 ok", "reply 1#105 ok")
	// After Finalize the process counts as a new listener.
	w.request(1, &codec.FinalizeRequest{})
	w.closeConn(1)
	w.connect(1)
	w.log = nil
	w.request(1, codes(-9001))
	w.expect("reply 1#101 ok", "event 1 status -9001 from 0")
}

func TestCacheRules(t *testing.T) {
	w := started(t, 3)
	w.request(0, raised(-9001, codec.RangeNamespace, yes(codec.KeyEventDoNotCache)))
	w.request(0, raised(-9002, codec.RangeNamespace, info(codec.KeyEventActionTimeout, codec.IntValue(5))))
	w.request(0, raised(-9003, codec.RangeCustom, info(codec.KeyEventCustomRange, codec.ProcValue(first(2)))))
	w.request(0, raised(-9004, codec.RangeNamespace, yes(codec.KeyEventNonDefault)))
	w.request(0, raised(-9005, codec.RangeRM))
	w.advance(4)
	w.log = nil
	w.request(1, codes())
	w.expect("reply 1#101 ok", "event 1 status -9002 from 0")
	w.request(0, codes(-9001, -9002, -9003, -9004, -9005)) // gets its own events
	w.expect("reply 0#106 ok")
	w.advance(1)
	w.request(2, codes(-9001, -9002, -9003, -9004, -9005))
	w.expect("reply 2#101 ok", "event 2 status -9003 from 0", "event 2 status -9004 from 0 nondefault")
}

func TestCacheIsBounded(t *testing.T) {
	w := started(t, 2)
	for i := range maxCached + 10 {
		w.request(0, raised(codec.Status(-10000-i), codec.RangeNamespace))
	}
	cache := w.core.spaces[testNspace].cache
	if len(cache) != maxCached || cache[0].Status != -10010 {
		t.Errorf("%d events kept from %d on, want the last %d", len(cache), cache[0].Status, maxCached)
	}
	big := make([]byte, maxCachedSize/3)
	for range 4 {
		w.request(0, raised(-1, codec.RangeNamespace, info("x", codec.BytesValue(big))))
	}
	if n := len(w.core.spaces[testNspace].cache); n != 2 {
		t.Errorf("%d events of a third of the limit each are kept, want 2", n)
	}
	w.request(0, raised(-1, codec.RangeNamespace, info("x", codec.BytesValue(make([]byte, maxCachedSize)))))
	if n := len(w.core.spaces[testNspace].cache); n != 2 {
		t.Errorf("%d events are kept after one above the limit, want the same 2", n)
	}
}

// Events that are kept for one job are not sent to another, whatever their range. Only processes that an event names
// get it.
func TestCacheStaysInItsJob(t *testing.T) {
	w, conns := twoJobs(t, 1)
	w.request(0, raised(-9001, codec.RangeSession))
	w.request(0, raised(-9002, codec.RangeGlobal))
	w.request(0, raised(-9003, codec.RangeCustom, info(codec.KeyEventCustomRange, codec.ProcValue(second(0)))))
	w.log = nil
	w.requestOn(conns[0], codes(-9001, -9002, -9003))
	w.expect("reply job-2.0#101 ok", "event job-2.0 status -9003 from 0")
	w.step(event{kind: evRemoveJob, proc: second(0)})
	job := testJob(1)
	job.Nspace = second(0).Nspace
	w.addJob(job)
	conn := w.connectAs(second(0))
	w.log = nil
	w.requestOn(conn, codes(-9001, -9002, -9003))
	w.expect("reply job-2.0#101 ok")
}

func TestRegistrationsAreBounded(t *testing.T) {
	w := started(t, 1)
	w.request(0, codes(make([]codec.Status, maxRemembered)...))
	w.request(0, codes(-1))
	procs := slices.Repeat([]codec.Proc{first(0)}, maxRemembered)
	w.request(0, &codec.DeregisterEventsRequest{Codes: []codec.Status{0}})
	w.request(0, &codec.RegisterEventsRequest{Info: []codec.Info{info(codec.KeyEventAffectedProcs, codec.ProcsValue(procs...))}})
	w.request(0, codes(-1))
	w.expect("reply 0#101 ok",
		"refused register events: more than 4096 codes and processes", "reply 0#102 ERR_OUT_OF_RESOURCE",
		"refused register events: more than 4096 codes and processes", "reply 0#104 ERR_OUT_OF_RESOURCE",
		"reply 0#105 ok")
}

func TestExitEvents(t *testing.T) {
	end := func(e Exit) func(w *world) {
		return func(w *world) { w.step(event{kind: evExited, proc: first(1), exit: e}) }
	}
	finalized := func(e Exit) func(w *world) {
		return func(w *world) {
			w.request(1, &codec.FinalizeRequest{})
			end(e)(w)
		}
	}
	kill := &codec.JobControlRequest{Targets: []codec.Proc{first(1)}, Info: []codec.Info{yes(codec.KeyJobCtrlKill)}}
	for name, tt := range map[string]struct {
		do   func(w *world)
		want string
	}{
		"signal":        {end(Exit{Signal: 9}), "ERR_PROC_ABORTED_BY_SIG from 1 about 1 nondefault code 137"},
		"status":        {end(Exit{Code: 3}), "ERR_EXIT_NONZERO_TERM from 1 about 1 nondefault code 3"},
		"no farewell":   {end(Exit{}), "ERR_PROC_TERM_WO_SYNC from 1 about 1 nondefault code 0"},
		"not started":   {end(Exit{NotStarted: true}), "ERR_PROC_FAILED_TO_START from 1 about 1 nondefault code 0"},
		"good":          {finalized(Exit{}), ""},
		"status later":  {finalized(Exit{Code: 1}), "ERR_EXIT_NONZERO_TERM from 1 about 1 nondefault code 1"},
		"unfinished":    {finalized(Exit{Unfinished: true}), "ERR_PROC_TERM_WO_SYNC from 1 about 1 nondefault code 0"},
		"by command":    {func(w *world) { w.request(0, kill); end(Exit{Signal: 15})(w) }, "ERR_PROC_KILLED_BY_CMD from 1 about 1 nondefault code 143"},
		"asked, obeyed": {func(w *world) { w.request(0, kill); finalized(Exit{})(w) }, ""},
		"own abort": {
			func(w *world) { w.request(1, &codec.AbortRequest{Status: 42}); end(Exit{Code: 42})(w) },
			"ERR_PROC_REQUESTED_ABORT from 1 about 1 nondefault code 42",
		},
		"other's abort": {
			func(w *world) { w.request(0, &codec.AbortRequest{Status: 42}); end(Exit{Signal: 9})(w) },
			"ERR_PROC_KILLED_BY_CMD from 1 about 1 nondefault code 137",
		},
		"lost first": {func(w *world) { w.closeConn(1); end(Exit{Signal: 11})(w) }, "ERR_PROC_ABORTED_BY_SIG from 1 about 1 nondefault code 139"},
		"twice":      {func(w *world) { end(Exit{Code: 3})(w); end(Exit{Signal: 9})(w) }, "ERR_EXIT_NONZERO_TERM from 1 about 1 nondefault code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			w, conns := twoJobs(t, 3)
			all := codes(codec.StatusErrProcAbortedBySig, codec.StatusErrExitNonzeroTerm, codec.StatusErrProcTermWoSync,
				codec.StatusErrProcFailedToStart, codec.StatusErrProcKilledByCmd, codec.StatusErrProcRequestedAbort)
			w.request(0, all)
			w.request(1, all)
			w.request(2, codes()) // a default handler does not get it
			w.requestOn(conns[0], all)
			w.log = nil
			tt.do(w)
			events := slices.DeleteFunc(slices.Clone(w.log), func(s string) bool { return !strings.HasPrefix(s, "event") })
			var want []string
			if tt.want != "" {
				want = []string{"event 0 " + tt.want}
			}
			if !slices.Equal(events, want) {
				t.Errorf("events %q, want %q", events, want)
			}
			// A late handler gets it, too.
			w.log = nil
			w.request(2, all)
			want = nil
			if tt.want != "" {
				want = []string{"event 2 " + tt.want}
			}
			if got := w.log[1:]; !slices.Equal(got, want) {
				t.Errorf("late: %q, want %q", got, want)
			}
		})
	}
}

// The removal of a whole namespace raises no events.
func TestRemovedJobIsSilent(t *testing.T) {
	w := started(t, 2)
	w.request(0, codes(codec.StatusErrProcTermWoSync))
	w.log = nil
	w.step(event{kind: evRemoveJob, proc: first(0)})
	for _, line := range w.log {
		if strings.HasPrefix(line, "event") {
			t.Errorf("%s, want none", line)
		}
	}
}

func TestHostEvents(t *testing.T) {
	w, conns := twoJobs(t, 2)
	for _, conn := range []connID{w.conns[0], conns[0]} {
		w.requestOn(conn, codes(codec.StatusEventNodeDown))
	}
	w.log = nil
	node := codec.Proc{Nspace: "daemons", Rank: 4}
	down := codec.Event{Status: codec.StatusEventNodeDown, Source: node, Range: codec.RangeSession, Affected: []codec.Proc{first(1)}}
	down.Info = down.Pack()
	w.step(event{kind: evNotify, notice: down})
	w.expect("event 0 EVENT_NODE_DOWN from daemons.4 about 1", "event job-2.0 EVENT_NODE_DOWN from daemons.4 about 1")
	w.request(1, codes(codec.StatusEventNodeDown)) // a process of the job that the event is about
	w.requestOn(conns[1], codes(codec.StatusEventNodeDown))
	w.expect("reply 1#101 ok", "event 1 EVENT_NODE_DOWN from daemons.4 about 1", "reply job-2.1#101 ok")
}

// An event costs what its listeners cost, however many processes the jobs have: none but those with connections is looked at.
func TestEventLooksAtConnectionsAlone(t *testing.T) {
	w := started(t, 3)
	for _, rank := range []codec.Rank{2, 1, 0} {
		w.request(rank, codes(-3001))
	}
	w.log = nil
	s := w.core.spaces[testNspace]
	s.procs = append(s.procs, make([]*process, 1000)...) // whoever looks at one of these crashes
	w.request(1, raised(-3001, codec.RangeNamespace))
	w.expect("event 0 status -3001 from 1", "event 2 status -3001 from 1", "reply 1#102 ok")
}

// BenchmarkEvent raises an event in a job of 100,000 processes, two of which are connected.
func BenchmarkEvent(b *testing.B) {
	j := JobLayout{Nspace: testNspace, Hosts: []string{"n0", "n1"}}
	for rank := range uint32(100_000) {
		j.Procs = append(j.Procs, Proc{Rank: rank, Node: min(rank/2, 1), LocalRank: uint16(rank % 2)})
	}
	w := newWorld(b, j, true)
	w.connect(0, 1)
	w.request(0, codes(-3001))
	ev := event{kind: evNotify, notice: codec.Event{Status: -3001, Source: first(1), Range: codec.RangeSession, NoCache: true}}
	for b.Loop() {
		w.core.Step(ev, nil)
	}
}
