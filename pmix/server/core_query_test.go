package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/pmix/codec"
)

func queryOf(keys string, qualifiers ...codec.Info) *codec.QueryRequest {
	return &codec.QueryRequest{Queries: []codec.Query{{Keys: strings.Fields(keys), Qualifiers: qualifiers}}}
}

func about(key string, v codec.Value) codec.Info { return codec.Info{Key: key, Value: v} }

// query sends a query as a rank and returns the answer.
func (w *world) query(rank codec.Rank, r *codec.QueryRequest) codec.QueryReply {
	w.t.Helper()
	w.sent, w.log = nil, nil
	w.request(rank, r)
	if len(w.sent) != 1 {
		w.t.Fatalf("%d answers to a query, want 1: %v", len(w.sent), w.log)
	}
	w.log = nil
	reply, err := codec.DecodeQueryReply(w.sent[0].payload)
	if err != nil {
		status, err := codec.DecodeStatusReply(w.sent[0].payload)
		if err != nil {
			w.t.Fatal(err)
		}
		reply.Status = status
	}
	return reply
}

// queryText returns the answer of query as text.
func (w *world) queryText(rank codec.Rank, r *codec.QueryRequest) string {
	w.t.Helper()
	reply := w.query(rank, r)
	out := []string{statusName(reply.Status)}
	for _, info := range reply.Info {
		out = append(out, strings.TrimPrefix(info.Key, "pmix.")+"="+info.Value.String())
	}
	return strings.Join(out, " ")
}

// queried returns a world of two jobs: one of four processes on two nodes, and one of a single process.
func queried(t *testing.T) *world {
	job := testJob(4)
	job.Hosts = []string{"n0", "n1"}
	job.Programs, job.Commands = []string{"/bin/prog", "/bin/other"}, []string{"prog -a", "other"}
	for i := range job.Procs {
		job.Procs[i].Node, job.Procs[i].AppNum = uint32(i/2), uint32(i/2)
	}
	w := newWorld(t, job, true)
	second := secondJob(1)
	second.Hosts = []string{"n0"}
	w.addJob(second)
	w.connect(0, 1)
	w.log = nil
	return w
}

func TestQueryDescription(t *testing.T) {
	w := queried(t)
	rank := func(r codec.Rank) codec.Info { return about(codec.KeyRank, codec.RankValue(r)) }
	proc := func(p codec.Proc) codec.Info { return about(codec.KeyProcID, codec.ProcValue(p)) }
	second := about(codec.KeyNspace, codec.StringValue("job-2"))
	for _, c := range []struct {
		keys       string
		qualifiers []codec.Info
		want       string
	}{
		{"pmix.job.size", nil, "ok job.size=4"},
		{"pmix.job.size pmix.univ.size", nil, "ok job.size=4 univ.size=4"},
		{"pmix.job.size pmix.nothing", nil, "ERR_PARTIAL_SUCCESS job.size=4"},
		{"pmix.nothing", nil, "ERR_NOT_FOUND"},
		{"pmix.job.size", []codec.Info{second}, "ok job.size=1"},
		{"pmix.job.size", []codec.Info{about(codec.KeyNspace, codec.StringValue("job-3"))}, "ERR_NOT_FOUND"},
		{"pmix.hname pmix.lrank pmix.rank", []codec.Info{rank(2)}, "ok hname=n1 lrank=2 rank=2"},
		{"pmix.hname", []codec.Info{proc(first(3))}, "ok hname=n1"},
		{"pmix.job.size", []codec.Info{proc(codec.Proc{Nspace: "job-2"})}, "ok job.size=1"},
		{"pmix.job.size", []codec.Info{rank(codec.RankWildcard)}, "ok job.size=4"},
		{"pmix.hname", []codec.Info{rank(4)}, "ERR_NOT_FOUND"},
		{"pmix.lpeers pmix.hname", nil, "ok lpeers=0,1 hname=n0"},
		{"pmix.lpeers", []codec.Info{about(codec.KeyHostname, codec.StringValue("n1"))}, "ok lpeers=2,3"},
		{"pmix.lpeers", []codec.Info{about(codec.KeyNodeID, codec.Uint32Value(1))}, "ok lpeers=2,3"},
		{"pmix.lpeers", []codec.Info{about(codec.KeyNodeID, codec.Uint32Value(2))}, "ERR_NOT_FOUND"},
		{"pmix.lpeers", []codec.Info{about(codec.KeyHostname, codec.StringValue("n2"))}, "ERR_NOT_FOUND"},
	} {
		if got := w.queryText(0, queryOf(c.keys, c.qualifiers...)); got != c.want {
			t.Errorf("%s of %v: %s, want %s", c.keys, c.qualifiers, got, c.want)
		}
	}
}

func TestQueryServer(t *testing.T) {
	w := queried(t)
	for keys, want := range map[string]string{
		"pmix.qry.ns":                        "ok qry.ns=job-1,job-2",
		"pmix.version":                       "ok version=" + codec.Version,
		"pmix.rm.name pmix.rm.version":       "ok rm.name=goshmem rm.version=" + version.String(),
		"pmix.qry.psetnum pmix.qry.psets":    "ok qry.psetnum=0 qry.psets=",
		"pmix.qry.pgrpnum pmix.qry.pgrpmems": "ERR_PARTIAL_SUCCESS qry.pgrpnum=0",
	} {
		if got := w.queryText(0, queryOf(keys)); got != want {
			t.Errorf("%s: %s, want %s", keys, got, want)
		}
	}
	keys, _ := w.query(0, queryOf(codec.KeyQuerySupportedKeys)).Info[0].Value.Str()
	for key := range strings.SplitSeq(keys, ",") {
		qualifiers := []codec.Info{about(codec.KeyServerFunctions, codec.Value{}), about(codec.KeyRank, codec.RankValue(0))}
		if got := w.queryText(0, queryOf(key, qualifiers...)); got == "ERR_NOT_FOUND" {
			// Missing in this world are groups, and pids, which no host has reported.
			if key != codec.KeyQueryGroupMembership && key != codec.KeyProcPID {
				t.Errorf("%s is supported according to the server, but not found", key)
			}
		}
	}
}

func TestQueryJobs(t *testing.T) {
	w := queried(t)
	jobs, _ := w.query(0, queryOf(codec.KeyQueryNamespaceInfo)).Info[0].Value.Infos()
	var got []string
	for _, job := range jobs {
		infos, _ := job.Value.Infos()
		var line []string
		for _, info := range infos {
			line = append(line, info.Value.String())
		}
		got = append(got, strings.Join(line, " "))
	}
	if want := []string{"job-1 4 prog -a other", "job-2 1"}; !slices.Equal(got, want) {
		t.Errorf("namespaces %q, want %q", got, want)
	}
	one := queryOf(codec.KeyQueryNamespaceInfo, about(codec.KeyNspace, codec.StringValue("job-2")))
	if jobs, _ = w.query(0, one).Info[0].Value.Infos(); len(jobs) != 1 {
		t.Errorf("%d namespaces, want only the one in the query", len(jobs))
	}
}

func (w *world) rows(r *codec.QueryRequest) []string {
	w.t.Helper()
	reply := w.query(0, r)
	if len(reply.Info) != 1 {
		w.t.Fatalf("%v with %d infos", reply.Status, len(reply.Info))
	}
	table, _ := reply.Info[0].Value.Data.(codec.Array)
	var rows []string
	for _, elem := range table.Elems {
		row, _ := elem.(codec.ProcInfo)
		rows = append(rows, fmt.Sprintf("%s %s %s %d %d", short(row.Proc), row.Hostname, row.Executable, row.PID, row.State))
	}
	return rows
}

func TestQueryProcTable(t *testing.T) {
	w := queried(t)
	w.exitWith(1, Exit{Signal: 9})
	w.exitWith(2, Exit{Code: 3})
	mine := about(codec.KeyNspace, codec.StringValue(testNspace))
	want := []string{
		fmt.Sprintf("0 n0 /bin/prog 0 %d", codec.ProcStateConnected),
		fmt.Sprintf("1 n0 /bin/prog 0 %d", codec.ProcStateAbortedBySig),
		fmt.Sprintf("2 n1 /bin/other 0 %d", codec.ProcStateTermNonZero),
		fmt.Sprintf("3 n1 /bin/other 0 %d", codec.ProcStateLaunchUnderway),
	}
	if diff := cmp.Diff(want, w.rows(queryOf(codec.KeyQueryProcTable, mine))); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:2], w.rows(queryOf(codec.KeyQueryLocalProcTable, mine))); diff != "" {
		t.Errorf("of this node (-want +got):\n%s", diff)
	}
	other := queryOf(codec.KeyQueryProcTable, about(codec.KeyNspace, codec.StringValue("job-3")))
	if got := w.queryText(0, other); got != "ERR_NOT_FOUND" {
		t.Errorf("table of an unknown job: %s", got)
	}
}

func (w *world) exitWith(rank codec.Rank, e Exit) {
	w.step(event{kind: evExited, proc: first(rank), exit: e})
}

func TestQueryPIDAndState(t *testing.T) {
	w := newWorld(t, testJob(2), false)
	w.conns[0] = 1
	w.step(event{kind: evClaim, conn: 1, proc: first(0), pid: 4711})
	w.connect(1)
	of := func(r codec.Rank) codec.Info { return about(codec.KeyRank, codec.RankValue(r)) }
	if got, want := w.queryText(1, queryOf("pmix.ppid pmix.proc.state", of(0))), "ok ppid=4711 proc.state=6"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := w.queryText(1, queryOf("pmix.ppid", of(1))), "ERR_NOT_FOUND"; got != want {
		t.Errorf("query of an unknown pid: %s, want %s", got, want)
	}
}

func TestQueryJobStatus(t *testing.T) {
	w := started(t, 3)
	status := func() string { return w.queryText(0, queryOf(codec.KeyQueryJobStatus)) }
	step := func(want string) {
		t.Helper()
		if got := status(); got != "ok qry.jst="+want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	step("PMIX_SUCCESS")
	w.request(2, &codec.FinalizeRequest{})
	w.exitWith(2, Exit{})
	step("PMIX_SUCCESS")
	w.exitWith(1, Exit{Code: 1})
	step("PMIX_ERR_EXIT_NONZERO_TERM")
	w = newWorld(t, testJob(1), false)
	w.addJob(secondJob(1))
	conn := w.connectAs(codec.Proc{Nspace: "job-2"})
	w.requestOn(conn, &codec.FinalizeRequest{})
	w.step(event{kind: evExited, proc: codec.Proc{Nspace: "job-2"}})
	w.connect(0)
	over := queryOf(codec.KeyQueryJobStatus, about(codec.KeyNspace, codec.StringValue("job-2")))
	if got, want := w.queryText(0, over), "ok qry.jst=PMIX_EVENT_JOB_END"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestQueryGroups(t *testing.T) {
	w := started(t, 3)
	for _, r := range []codec.Rank{0, 2} {
		w.request(r, &codec.GroupConstructRequest{ID: "g", Procs: []codec.Proc{first(0), first(2)}})
	}
	member := about(codec.KeyGroupID, codec.StringValue("g"))
	for _, rank := range []codec.Rank{0, 1} {
		reply := w.query(rank, queryOf("pmix.qry.pgrpnum pmix.qry.pgrp pmix.qry.pgrpmems", member))
		if len(reply.Info) != 3 {
			t.Fatalf("%v with %d infos, want 3", reply.Status, len(reply.Info))
		}
		names, _ := reply.Info[1].Value.Data.(codec.Array)
		members, _ := reply.Info[2].Value.Procs()
		if n, _ := reply.Info[0].Value.Uint64(); n != 1 || len(names.Elems) != 1 || names.Elems[0] != "g" {
			t.Errorf("%d groups called %v, want g", n, names.Elems)
		}
		if want := []codec.Proc{first(0), first(2)}; !slices.Equal(members, want) {
			t.Errorf("members %v, want %v", members, want)
		}
	}
}

func TestQueryAttributes(t *testing.T) {
	w := started(t, 1)
	reply := w.query(0, queryOf(codec.KeyQueryAttributeSupport,
		about(codec.KeyServerFunctions, codec.Value{}), about(codec.KeyHostAttributes, codec.StringValue("PMIx_Lookup"))))
	infos, _ := reply.Info[0].Value.Infos()
	if len(infos) != 2 || infos[1].Key != "PMIx_Lookup" {
		t.Fatalf("%v", infos)
	}
	functions, _ := infos[0].Value.Str()
	for _, f := range []string{"PMIx_Fence", "PMIx_Publish", "PMIx_Query_info"} {
		if !slices.Contains(strings.Split(functions, ","), f) {
			t.Errorf("functions %s, want %s among them", functions, f)
		}
	}
	attrs, _ := infos[1].Value.Data.(codec.Array)
	var keys []string
	for _, a := range attrs.Elems {
		keys = append(keys, a.(codec.RegAttr).Key)
	}
	if want := []string{"pmix.timeout", "pmix.range", "pmix.evrange", "pmix.wait"}; !slices.Equal(keys, want) {
		t.Errorf("directives of lookup: %v, want %v", keys, want)
	}
	if got := w.queryText(0, queryOf(codec.KeyQueryAttributeSupport)); got != "ERR_NOT_FOUND" {
		t.Errorf("query without a function: %s", got)
	}
}

func TestQueryLimits(t *testing.T) {
	w := started(t, 1)
	if got, want := w.queryText(0, queryOf("")), "ERR_BAD_PARAM"; got != want {
		t.Errorf("no keys: %s, want %s", got, want)
	}
	if got, want := w.queryText(0, queryOf(strings.Repeat("pmix.nothing ", maxQueryKeys+1))), "ERR_OUT_OF_RESOURCE"; got != want {
		t.Errorf("too many keys: %s, want %s", got, want)
	}
	job := testJob(4096)
	job.Programs = []string{strings.Repeat("x", 1000)}
	w = newWorld(t, job, false)
	w.connect(0)
	table := queryOf(strings.Repeat(codec.KeyQueryProcTable+" ", 5))
	if got, want := w.queryText(0, table), "ERR_OUT_OF_RESOURCE"; got != want {
		t.Errorf("answer that is too long: %.100s, want %s", got, want)
	}
}

func TestLog(t *testing.T) {
	text := func(key, s string) codec.Info { return about(key, codec.StringValue(s)) }
	must := text(codec.KeyLogSyslog, "x")
	must.Flags = codec.InfoRequired
	once := []codec.Info{about(codec.KeyLogOnce, codec.BoolValue(true))}
	for name, c := range map[string]struct {
		data, directives []codec.Info
		want             []string
	}{
		"out and err": {
			[]codec.Info{text(codec.KeyLogStdout, "a"), text(codec.KeyLogStderr, "b\n")},
			nil,
			[]string{`log 0 out "a\n"`, `log 0 err "b\n"`, "reply 0#101 ok"},
		},
		"once": {
			[]codec.Info{text(codec.KeyLogSyslog, "x"), text(codec.KeyLogStderr, "a"), text(codec.KeyLogStdout, "a")},
			once,
			[]string{`log 0 err "a\n"`, "reply 0#101 ok"},
		},
		"empty": {
			[]codec.Info{text(codec.KeyLogStdout, "")}, nil, []string{`log 0 out "\n"`, "reply 0#101 ok"},
		},
		"system's log": {
			[]codec.Info{text(codec.KeyLogSyslog, "x")},
			nil,
			[]string{`refused log: channel "pmix.log.syslog", want pmix.log.stdout or pmix.log.stderr`, "reply 0#101 ERR_NOT_SUPPORTED"},
		},
		"required": {
			[]codec.Info{text(codec.KeyLogStdout, "a"), must},
			nil,
			[]string{`refused log: channel "pmix.log.syslog", want pmix.log.stdout or pmix.log.stderr`, "reply 0#101 ERR_NOT_SUPPORTED"},
		},
		"nothing": {nil, nil, []string{"refused log: no text, want at least one key with text", "reply 0#101 ERR_BAD_PARAM"}},
		"no text": {
			[]codec.Info{about(codec.KeyLogStdout, codec.IntValue(5))},
			nil,
			[]string{"refused log: pmix.log.stdout is 5, want a string", "reply 0#101 ERR_BAD_PARAM"},
		},
		"too long": {
			[]codec.Info{text(codec.KeyLogStdout, strings.Repeat("x", maxLogText+1))},
			nil,
			[]string{"refused log: 1048577 bytes of text, want at most 1048576", "reply 0#101 ERR_BAD_PARAM"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := started(t, 1)
			w.request(0, &codec.LogRequest{Data: c.data, Directives: c.directives})
			w.expect(c.want...)
		})
	}
}
