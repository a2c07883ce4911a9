package server

import (
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// attach connects a tool.
func (w *world) attach(name string) connID {
	w.t.Helper()
	s, err := newToolSpace(codec.Proc{Nspace: name})
	if err != nil {
		w.t.Fatal(err)
	}
	w.last++
	w.tags[w.last] = codec.TagFirstDynamic - 1
	w.step(event{kind: evClaim, conn: w.last, proc: s.procs[0].name, space: s})
	return w.last
}

// heard lists the connections that get output of a process.
func (w *world) heard(p codec.Proc, channel codec.IOFChannel) string {
	var out []string
	for _, l := range w.core.forwarding.listeners {
		if l.wants(p, channel) {
			out = append(out, short(l.owner))
		}
	}
	return strings.Join(out, " ")
}

func pullOf(ref uint64, channels codec.IOFChannel, procs ...codec.Proc) *codec.IOFPullRequest {
	return &codec.IOFPullRequest{Procs: procs, Channels: channels, ID: ref}
}

func TestToolComesAndGoes(t *testing.T) {
	w := started(t, 1)
	tool := w.attach("tool-1")
	w.expect("accept tool-1.0")
	w.attach("tool-1")
	w.expect("refused tool with the name of another namespace", "reject ERR_EXISTS")
	w.attach(testNspace)
	w.expect("refused tool with the name of another namespace", "reject ERR_EXISTS")
	w.requestOn(tool, &codec.InitRequest{})
	if info, err := codec.DecodeJobInfo(w.sent[len(w.sent)-1].payload); err != nil || info.Nspace != "tool-1" {
		t.Errorf("%v, %v; want the tool's own namespace", info.Nspace, err)
	}
	w.requestOn(tool, getOf(codec.RankWildcard, codec.KeyJobSize))
	w.log = nil
	w.requestOn(tool, &codec.FinalizeRequest{})
	w.expect("reply tool-1.0#103 ok") // the host has upcalls for its own processes only
	w.step(event{kind: evClosed, conn: tool})
	w.expect()
	w.attach("tool-1")
	w.expect("accept tool-1.0")
	w.step(event{kind: evClosed, conn: w.last})
	w.expect()
	if len(w.core.spaces) != 1 {
		t.Errorf("%d namespaces are left, want only the job's", len(w.core.spaces))
	}
}

func TestToolsAreBounded(t *testing.T) {
	w := started(t, 1)
	for i := range maxTools {
		w.attach(string(rune('A' + i)))
	}
	w.log = nil
	w.attach("one more")
	w.expect("refused too many tools are attached", "reject ERR_OUT_OF_RESOURCE")
}

// A tool may have the name of a later job. The job can still start.
func TestJobTakesItsNameFromTool(t *testing.T) {
	w := started(t, 1)
	tool := w.attach("job-2")
	w.log = nil
	w.addJob(secondJob(1))
	w.expect("drop job-2.0")
	w.step(event{kind: evClosed, conn: tool})
	w.connectAs(second(0))
	w.expect("connected job-2.0", "accept job-2.0")
}

func TestPull(t *testing.T) {
	w := started(t, 2)
	tool := w.attach("tool-1")
	w.log = nil
	w.requestOn(tool, pullOf(5, codec.IOFStdout, first(codec.RankWildcard)))
	if len(w.log) != 2 || w.log[0] != "1 listeners" {
		t.Errorf("%q, want that the listener is there before the tool has the answer", w.log)
	}
	w.requestOn(tool, pullOf(6, codec.IOFStderr, first(1)))
	reply, err := codec.DecodeIOFPullReply(w.sent[len(w.sent)-1].payload)
	if err != nil || reply.Status != codec.StatusSuccess {
		t.Fatalf("%+v, %v", reply, err)
	}
	if got := w.heard(first(1), codec.IOFStdout); got != "tool-1.0" {
		t.Errorf("output goes to %q, want only the tool", got)
	}
	if a, b := w.heard(first(1), codec.IOFStderr), w.heard(first(0), codec.IOFStderr); a != "tool-1.0" || b != "" {
		t.Errorf("errors of rank 1 go to %q and of rank 0 to %q, want the tool and no one", a, b)
	}
	w.log = nil
	w.requestOn(tool, &codec.IOFDeregisterRequest{ID: reply.ID})
	w.expect("1 listeners", "reply tool-1.0#103 ok")
	w.requestOn(tool, &codec.IOFDeregisterRequest{ID: reply.ID})
	w.expect("reply tool-1.0#104 ERR_NOT_FOUND")
	w.request(0, &codec.IOFDeregisterRequest{ID: reply.ID - 1})
	w.expect("reply 0#101 ERR_NOT_FOUND") // another tool's pull
	w.step(event{kind: evClosed, conn: tool})
	w.expect("0 listeners")
}

func TestPullRefusals(t *testing.T) {
	w, conns := twoJobs(t, 1)
	tool := w.attach("tool-1")
	w.log = nil
	w.requestOn(tool, pullOf(0, codec.IOFStdout))
	w.requestOn(tool, pullOf(0, codec.IOFStdout, first(7)))
	w.requestOn(tool, pullOf(0, codec.IOFStdin, first(0)))
	w.requestOn(tool, pullOf(0, codec.IOFStdout, make([]codec.Proc, maxPullProcs+1)...))
	w.requestOn(conns[0], pullOf(0, codec.IOFStdout, first(0)))
	w.requestOn(conns[0], &codec.IOFPushRequest{Procs: []codec.Proc{first(0)}, Data: []byte("x")})
	w.expect(
		"refused I/O forwarding: 0 processes named, want 1 to 4096", "reply tool-1.0#101 ERR_BAD_PARAM",
		"refused I/O forwarding: process job-1.7 is unknown here, want a process of a job of this server", "reply tool-1.0#102 ERR_NOT_FOUND",
		"refused I/O forwarding: channels 0x1, want standard output, standard error or diagnostics", "reply tool-1.0#103 ERR_NOT_SUPPORTED",
		"refused I/O forwarding: 4097 processes named, want 1 to 4096", "reply tool-1.0#104 ERR_BAD_PARAM",
		"refused I/O forwarding: process job-1.0, want a process of the caller's job or of a job spawned by it", "reply job-2.0#101 ERR_NO_PERMISSIONS",
		"refused I/O forwarding: process job-1.0, want a process of the caller's job or of a job spawned by it", "reply job-2.0#102 ERR_NO_PERMISSIONS",
	)
	for range maxPulls {
		w.requestOn(tool, pullOf(0, codec.IOFStdout, first(0)))
	}
	w.log = nil
	w.requestOn(tool, pullOf(0, codec.IOFStdout, first(0)))
	w.expect("refused I/O forwarding: more than 64 requests", "reply tool-1.0#169 ERR_OUT_OF_RESOURCE")
}

// A process may read output of its own job and of jobs spawned by it, directly or not, but never its own.
func TestPullByRelatives(t *testing.T) {
	w := started(t, 2)
	w.addChild(secondJob(1), first(0))
	third := testJob(1)
	third.Nspace = "job-3"
	w.addChild(third, second(0))
	w.request(1, pullOf(0, codec.IOFStdout, first(codec.RankWildcard), codec.Proc{Nspace: "job-3", Rank: codec.RankWildcard}))
	if a, b := w.heard(first(0), codec.IOFStdout), w.heard(first(1), codec.IOFStdout); a != "1" || b != "" {
		t.Errorf("output of rank 0 goes to %q and of rank 1 to %q, want rank 1 and no one", a, b)
	}
	if got := w.heard(codec.Proc{Nspace: "job-3"}, codec.IOFStdout); got != "1" {
		t.Errorf("output of the grandchild goes to %q, want rank 1", got)
	}
	w.step(event{kind: evRemoveJob, proc: second(0)}) // jobs in between may end first
	w.log = nil
	w.request(0, pullOf(0, codec.IOFStdout, codec.Proc{Nspace: "job-3"}))
	if strings.Contains(strings.Join(w.log, " "), "refused") {
		t.Error(w.log)
	}
}

// A spawn request for output gets it from the first byte on, even before the host reports the job.
func TestSpawnForwardsOutput(t *testing.T) {
	w := started(t, 1)
	tool := w.attach("tool-1")
	w.request(0, spawnOf())
	w.request(0, spawnOf(forward(codec.KeyFwdStdout, true)))
	w.requestOn(tool, spawnOf(forward(codec.KeyFwdStderr, false)))
	w.log = nil
	for i, parent := range []codec.Proc{first(0), first(0), {Nspace: "tool-1"}} {
		job := testJob(1)
		job.Nspace = "child-" + string(rune('0'+i))
		w.addChild(job, parent)
	}
	for i, want := range []string{"", "0", "tool-1.0"} {
		child := codec.Proc{Nspace: "child-" + string(rune('0'+i))}
		if out, errs := w.heard(child, codec.IOFStdout), w.heard(child, codec.IOFStderr); out != want || errs != "" {
			t.Errorf("output of %v goes to %q and errors to %q, want %q and no one", child, out, errs, want)
		}
	}
	w.step(event{kind: evSpawned, request: 2, proc: codec.Proc{Nspace: "child-1"}})
	w.step(event{kind: evSpawned, request: 3, status: codec.StatusErrNotFound})
	if got := w.heard(codec.Proc{Nspace: "child-1"}, codec.IOFStdout); got != "0" {
		t.Errorf("output of child-1 goes to %q, want rank 0", got)
	}
	if len(w.core.forwarding.listeners) != 1 {
		t.Errorf("%d listeners, want only that of the successful spawn", len(w.core.forwarding.listeners))
	}
}

func TestPush(t *testing.T) {
	w := started(t, 2)
	tool := w.attach("tool-1")
	w.log = nil
	w.requestOn(tool, &codec.IOFPushRequest{Procs: []codec.Proc{first(1)}, Data: []byte("hello")})
	w.requestOn(tool, &codec.IOFPushRequest{Procs: []codec.Proc{first(codec.RankWildcard)}})
	w.requestOn(tool, &codec.IOFPushRequest{
		Procs: []codec.Proc{first(0)}, Data: []byte("bye"), Info: []codec.Info{{Key: codec.KeyIOFComplete, Value: codec.BoolValue(true)}},
	})
	w.requestOn(tool, &codec.IOFPushRequest{Procs: []codec.Proc{first(1)}, Data: make([]byte, maxPush+1)})
	w.expect(
		`stdin of [job-1.1]: "hello", end false`, "reply tool-1.0#101 ok",
		`stdin of [job-1.*]: "", end true`, "reply tool-1.0#102 ok",
		`stdin of [job-1.0]: "bye", end true`, "reply tool-1.0#103 ok",
		"refused I/O forwarding: 1048577 bytes at once, want at most 1048576", "reply tool-1.0#104 ERR_OUT_OF_RESOURCE",
	)
}
