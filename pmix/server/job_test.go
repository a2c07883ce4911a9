package server

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/pmix/codec"
)

func pairsOf(t *testing.T, j JobLayout) []codec.KVal {
	t.Helper()
	d := j.describe(codec.Proc{})
	b, err := d.info()
	if err != nil {
		t.Fatal(err)
	}
	info, err := codec.DecodeJobInfo(b)
	if err != nil || info.Nspace != j.Nspace {
		t.Fatalf("description of %q: %v", info.Nspace, err)
	}
	return info.Pairs
}

// Keys and types equal those that libpmix 4.2.2 sent for a job of two processes on one node.
func TestJobInfoIsThatOfLibpmix(t *testing.T) {
	job := testJob(2)
	job.TmpDir = "/tmp/pmixsrv.dpSxmd"
	u32, str := codec.Uint32Value, codec.StringValue
	want := []codec.KVal{
		{Key: "pmix.job.size", Value: u32(2)},
		{Key: "pmix.max.size", Value: u32(2)},
		{Key: "pmix.num.nodes", Value: u32(1)},
		{Key: "pmix.job.napps", Value: u32(1)},
		{Key: "pmix.jobid", Value: str("job-1")},
		{Key: "pmix.nsdir", Value: str("/tmp/pmixsrv.dpSxmd")},
		{Key: "pmix.nlist", Value: str("vm")},
		{Key: "pmix.bfrops.mod", Value: str("4.2.2")},
		{Key: "pmix.ssn.arr", Value: codec.InfosValue(
			codec.Info{Key: "pmix.session.id", Value: u32(0xffffffff)}, codec.Info{Key: "pmix.univ.size", Value: u32(2)},
			codec.Info{Key: "pmix.tmpdir", Value: str("/tmp/pmixsrv.dpSxmd")})},
		{Key: "pmix.node.arr", Value: codec.InfosValue(
			codec.Info{Key: "pmix.hname", Value: str("vm")}, codec.Info{Key: "pmix.node.size", Value: u32(2)},
			codec.Info{Key: "pmix.nodeid", Value: u32(0)}, codec.Info{Key: "pmix.lpeers", Value: str("0,1")},
			codec.Info{Key: "pmix.lldr", Value: codec.RankValue(0)}, codec.Info{Key: "pmix.local.size", Value: u32(2)})},
	}
	for r := range 2 {
		blob := codec.ProcBlob{Rank: codec.Rank(r), Pairs: []codec.KVal{
			{Key: "pmix.grank", Value: codec.RankValue(codec.Rank(r))},
			{Key: "pmix.lrank", Value: codec.Uint16Value(uint16(r))},
			{Key: "pmix.nrank", Value: codec.Uint16Value(uint16(r))},
			{Key: "pmix.appnum", Value: u32(0)},
			{Key: "pmix.apprank", Value: codec.RankValue(codec.Rank(r))},
			{Key: "pmix.nodeid", Value: u32(0)},
			{Key: "pmix.hname", Value: str("vm")},
			{Key: "pmix.pdir", Value: str("/tmp/pmixsrv.dpSxmd/" + codec.Rank(r).String())},
		}}
		v, err := blob.Value()
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, codec.KVal{Key: "pmix.pblob", Value: v})
	}
	if diff := cmp.Diff(want, pairsOf(t, job)); diff != "" {
		t.Errorf("description (-want +got):\n%s", diff)
	}
}

func TestJobInfoOfTwoNodesAndApps(t *testing.T) {
	job := twoNodes(1)
	job.Procs[3].AppNum = 1
	nodes, blobs := 0, 0
	var apps []codec.Value
	for _, kv := range pairsOf(t, job) {
		switch kv.Key {
		case codec.KeyNSDir:
			t.Error("the description has a directory although TmpDir is empty")
		case codec.KeyJobNumApps:
			if kv.Value != codec.Uint32Value(2) {
				t.Errorf("%v applications, want 2", kv.Value)
			}
		case codec.KeyNodeInfo:
			nodes++
		case codec.KeyAppInfo:
			apps = append(apps, kv.Value)
		case codec.KeyProcBlob:
			blobs++
		}
	}
	if nodes != 2 || blobs != 4 {
		t.Errorf("%d nodes and %d processes, want 2 and 4", nodes, blobs)
	}
	about := func(app, size, leader uint32) codec.Value {
		return codec.InfosValue(codec.Info{Key: "pmix.appnum", Value: codec.Uint32Value(app)},
			codec.Info{Key: "pmix.app.size", Value: codec.Uint32Value(size)},
			codec.Info{Key: "pmix.aldr", Value: codec.RankValue(codec.Rank(leader))})
	}
	if diff := cmp.Diff([]codec.Value{about(0, 3, 0), about(1, 1, 3)}, apps); diff != "" {
		t.Errorf("applications (-want +got):\n%s", diff)
	}
}

func TestJobCheck(t *testing.T) {
	for want, spoil := range map[string]func(j *JobLayout){
		`nspace ""`:                             func(j *JobLayout) { j.Nspace = "" },
		`nspace "a;b"`:                          func(j *JobLayout) { j.Nspace = "a;b" },
		"this node is 1, want a number below 1": func(j *JobLayout) { j.ThisNode = 1 },
		"no processes":                          func(j *JobLayout) { j.Procs = nil },
		"rank 0 is given twice or too large, want each of 0 to 1 once": func(j *JobLayout) { j.Procs[1].Rank = 0 },
		"rank 2 is given twice or too large, want each of 0 to 1 once": func(j *JobLayout) { j.Procs[1].Rank = 2 },
		"rank 1 is on node 3, want a number below 1":                   func(j *JobLayout) { j.Procs[1].Node = 3 },
	} {
		j := testJob(2)
		spoil(&j)
		if _, err := Start(Config{Job: j}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
