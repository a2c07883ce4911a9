package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

func appOf(n int32, argv ...string) codec.App {
	return codec.App{Cmd: "/bin/" + argv[0], Argv: argv, Cwd: "/tmp", MaxProcs: n}
}

func spawnOf(infos ...codec.Info) *codec.SpawnRequest {
	return &codec.SpawnRequest{Info: infos, Apps: []codec.App{appOf(2, "child", "x")}}
}

func forward(key string, v bool) codec.Info { return codec.Info{Key: key, Value: codec.BoolValue(v)} }

func TestSpawn(t *testing.T) {
	w := started(t, 2)
	r := spawnOf()
	r.Apps = append(r.Apps, codec.App{Argv: []string{"/bin/other"}, MaxProcs: 1, Info: []codec.Info{
		{Key: codec.KeyWDir, Value: codec.StringValue("/there")},
	}})
	w.request(1, r)
	w.expect("spawn 1 by 1: [{/bin/child [child x] [] /tmp 2 []} {/bin/other [/bin/other] [] /there 1 [{pmix.wdir 0 /there}]}]")
	w.request(0, spawnOf())
	w.log = nil
	w.addChild(secondJob(3), first(1))
	w.step(event{kind: evSpawned, request: 1, proc: second(0)})
	reply, err := codec.DecodeSpawnReply(w.sent[len(w.sent)-1].payload)
	if err != nil || reply.Status != codec.StatusSuccess || reply.Job.Nspace != "job-2" {
		t.Fatalf("%+v, %v; want the description of job-2", reply, err)
	}
	want := codec.KVal{Key: codec.KeyParentID, Value: codec.ProcValue(first(1))}
	if !slices.Contains(keysOf(reply.Job.Pairs), codec.KeySpawned) || !slices.ContainsFunc(reply.Job.Pairs, func(kv codec.KVal) bool {
		return kv.Key == want.Key && kv.Value == want.Value
	}) {
		t.Errorf("%v, want its parent among them", reply.Job.Pairs)
	}
	w.log = nil
	w.step(event{kind: evSpawned, request: 2, status: codec.StatusErrNotFound})
	w.step(event{kind: evSpawned, request: 2, status: codec.StatusErrNotFound})
	w.step(event{kind: evSpawned, request: 77, proc: second(0)})
	w.expect("reply 0#101 ERR_NOT_FOUND")
}

func keysOf(pairs []codec.KVal) []string {
	var out []string
	for _, kv := range pairs {
		out = append(out, kv.Key)
	}
	return out
}

// The working directory of a job is for applications that have none of their own. libpmix fills in the field of their
// structures.
func TestSpawnDirectory(t *testing.T) {
	w := started(t, 1)
	r := spawnOf(codec.Info{Key: codec.KeyWDir, Value: codec.StringValue("/job")})
	own := appOf(1, "own")
	own.Info = []codec.Info{{Key: codec.KeyWDir, Value: codec.StringValue("/own")}}
	r.Apps = append(r.Apps, own)
	w.request(0, r)
	w.expect("spawn 1 by 0: [{/bin/child [child x] [] /job 2 []} {/bin/own [own] [] /own 1 [{pmix.wdir 0 /own}]}]")
}

// An unknown attribute that is required is refused. An optional one is ignored.
func TestSpawnRequirements(t *testing.T) {
	must := codec.Info{Key: "pmix.mapby", Flags: codec.InfoRequired, Value: codec.StringValue("slot")}
	heeded := codec.Info{Key: codec.KeyWDir, Flags: codec.InfoRequired, Value: codec.StringValue("/job")}
	may := must
	may.Flags = 0
	w := started(t, 1)
	w.request(0, spawnOf(heeded, must))
	r := spawnOf()
	r.Apps[0].Info = []codec.Info{must}
	w.request(0, r)
	w.request(0, spawnOf(heeded, may))
	w.expect(
		`refused spawn: directive "pmix.mapby" is required but not supported`, "reply 0#101 ERR_NOT_SUPPORTED",
		`refused spawn: application 0: directive "pmix.mapby" is required but not supported`, "reply 0#102 ERR_NOT_SUPPORTED",
		"spawn 1 by 0: [{/bin/child [child x] [] /job 2 []}]",
	)
}

// A spawned process finds its parent with its own rank as well as with the wildcard.
func TestParentInDescription(t *testing.T) {
	w := started(t, 1)
	w.addChild(secondJob(2), first(0))
	child := w.connectAs(second(1))
	w.requestOn(child, &codec.InitRequest{})
	info, err := codec.DecodeJobInfo(w.sent[len(w.sent)-1].payload)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, kv := range info.Pairs {
		if kv.Key != codec.KeyProcBlob {
			continue
		}
		content, _ := kv.Value.Bytes()
		blob, err := codec.DecodeProcBlob(content)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range blob.Pairs {
			if p.Key == codec.KeyParentID && p.Value == codec.ProcValue(first(0)) {
				found++
			}
		}
	}
	if !slices.Contains(keysOf(info.Pairs), codec.KeyParentID) || found != 2 {
		t.Errorf("parent in %d of 2 processes and the job's keys %v", found, keysOf(info.Pairs))
	}
}

// If the spawner has gone, the answer goes nowhere.
func TestSpawnerGoes(t *testing.T) {
	w := started(t, 2)
	w.request(0, spawnOf(forward(codec.KeyFwdStdout, true)))
	w.request(1, spawnOf(forward(codec.KeyFwdStdout, true)))
	w.closeConn(0)
	w.request(1, &codec.FinalizeRequest{})
	w.log = nil
	w.addChild(secondJob(1), first(0))
	w.step(event{kind: evSpawned, request: 1, proc: second(0)})
	w.step(event{kind: evSpawned, request: 2, proc: second(0)})
	w.expect()
	if len(w.core.spawns.waiting)+len(w.core.forwarding.listeners) != 0 {
		t.Errorf("%d requests and %d listeners are left, want none", len(w.core.spawns.waiting), len(w.core.forwarding.listeners))
	}
}

// A job may run on other nodes only. Then this node knows only its name.
func TestSpawnElsewhere(t *testing.T) {
	w := started(t, 1)
	w.request(0, spawnOf())
	w.step(event{kind: evSpawned, request: 1, proc: second(0)})
	reply, err := codec.DecodeSpawnReply(w.sent[len(w.sent)-1].payload)
	if err != nil || reply.Job.Nspace != "job-2" || len(reply.Job.Pairs) != 0 {
		t.Errorf("%+v, %v; want only the name job-2", reply, err)
	}
}

func TestSpawnRefusals(t *testing.T) {
	w := started(t, 1)
	for want, apps := range map[string][]codec.App{
		"0 applications, want 1 to 1024":                     nil,
		"1025 applications, want 1 to 1024":                  make([]codec.App, maxApps+1),
		"application 0: no command":                          {{MaxProcs: 1}},
		"application 1 (/bin/b): 0 processes, want at least": {appOf(1, "a"), appOf(0, "b")},
		"arguments and environment: more than 4194304 bytes": {{Cmd: "a", MaxProcs: 1, Env: []string{strings.Repeat("x", maxSpawnText)}}},
	} {
		w.request(0, &codec.SpawnRequest{Apps: apps})
		if len(w.log) != 2 || !strings.Contains(w.log[0], want) || !strings.HasSuffix(w.log[1], "ERR_BAD_PARAM") {
			t.Errorf("%v, want a refusal: %s", w.log, want)
		}
		w.log = nil
	}
	for range maxSpawns {
		w.request(0, spawnOf())
	}
	w.log = nil
	w.request(0, spawnOf())
	w.expect("refused spawn: more than 64 under way", fmt.Sprintf("reply 0#%d ERR_OUT_OF_RESOURCE", 101+5+maxSpawns))
}
