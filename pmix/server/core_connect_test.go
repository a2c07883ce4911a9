package server

import (
	"slices"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

func second(r codec.Rank) codec.Proc { return codec.Proc{Nspace: "job-2", Rank: r} }

// twoJobs returns a world of two jobs of n connected processes each, and the connections of the second job.
func twoJobs(t testing.TB, n int) (*world, []connID) {
	t.Helper()
	w := started(t, n)
	w.addJob(secondJob(n))
	var conns []connID
	for r := range n {
		conns = append(conns, w.connectAs(second(codec.Rank(r))))
	}
	w.log = nil
	return w, conns
}

// jobsIn lists the jobs that the last answer describes.
func (w *world) jobsIn() []string {
	w.t.Helper()
	r, err := codec.DecodeConnectReply(w.sent[len(w.sent)-1].payload)
	if err != nil || r.Status != codec.StatusSuccess {
		w.t.Fatalf("connect: %v, %v", r.Status, err)
	}
	var out []string
	for _, j := range r.Jobs {
		out = append(out, j.Nspace)
	}
	return out
}

func TestFenceOfSeveralJobs(t *testing.T) {
	w, conns := twoJobs(t, 2)
	both := &codec.FenceRequest{Procs: []codec.Proc{first(codec.RankWildcard), second(0)}}
	w.request(0, both)
	w.requestOn(conns[0], &codec.FenceRequest{Procs: []codec.Proc{second(0), first(1), first(0)}}) // the same set in another form
	w.expect()
	w.request(1, both)
	w.expect("reply 0#101 ok", "reply 1#101 ok", "reply job-2.0#101 ok")
	w.requestOn(conns[1], both)
	w.expect("refused fence: among job-1:*;job-2:0, want the caller to take part", "reply job-2.1#101 ERR_BAD_PARAM")
	w.request(0, both)
	w.step(event{kind: evExited, proc: second(0)})
	if !slices.Contains(w.log, "reply 0#102 ERR_PROC_TERM_WO_SYNC") {
		t.Errorf("%v, want an error for the process that waits", w.log)
	}
}

// Fences of the same ranks in different jobs are separate.
func TestFencesOfOneJobEach(t *testing.T) {
	w, conns := twoJobs(t, 2)
	w.request(0, fenceOf())
	w.requestOn(conns[1], &codec.FenceRequest{Procs: []codec.Proc{second(codec.RankWildcard)}})
	w.expect()
	w.requestOn(conns[0], &codec.FenceRequest{})
	w.expect("reply job-2.0#101 ok", "reply job-2.1#101 ok")
	w.request(1, fenceOf())
	w.expect("reply 0#101 ok", "reply 1#101 ok")
}

func TestGetFromAnotherJob(t *testing.T) {
	w, conns := twoJobs(t, 2)
	w.request(0, &codec.GetRequest{Proc: second(1), Key: "a"})
	w.request(1, commitOf(codec.ScopeGlobal, "a=mine"))
	w.expect("reply 1#101 ok")
	w.requestOn(conns[1], commitOf(codec.ScopeGlobal, "a=theirs"))
	w.expect("reply job-2.1#101 ok", "reply 0#101 a=theirs")
	w.request(0, &codec.GetRequest{Proc: second(9), Key: "a"})
	w.expect("reply 0#102 ERR_NOT_FOUND")
}

// Data about a job that its processes did not put are found with the wildcard rank, even data about processes.
func TestGetOfJobLevel(t *testing.T) {
	w, conns := twoJobs(t, 3)
	for _, key := range []string{codec.KeyJobSize, codec.KeyLocalPeers, codec.KeyLocalRank, ""} {
		w.requestOn(conns[0], &codec.GetRequest{Proc: first(codec.RankWildcard), Key: key})
		r, err := codec.DecodeGetReply(w.sent[len(w.sent)-1].payload)
		if err != nil || r.Status != codec.StatusSuccess || len(r.Data) != 4 {
			t.Fatalf("%s: %v with %d parts, %v; want the job's and three processes'", key, r.Status, len(r.Data), err)
		}
		for i, want := range []codec.Proc{first(codec.RankWildcard), first(0), first(1), first(2)} {
			pairs, err := r.Data[i].Pairs()
			if r.Data[i].Proc != want || err != nil || len(pairs) < 5 {
				t.Errorf("%s: part %d is of %v with %v, %v; want %v", key, i, r.Data[i].Proc, pairs, err, want)
			}
		}
	}
	w.log = nil
	w.request(0, &codec.GetRequest{Proc: codec.Proc{Nspace: "job-3", Rank: codec.RankWildcard}, Key: codec.KeyJobSize})
	w.request(0, &codec.GetRequest{Proc: second(codec.RankWildcard), Key: "mine"})
	w.expect("reply 0#101 ERR_NOT_FOUND", "reply 0#102 ERR_NOT_FOUND")
}

func TestConnect(t *testing.T) {
	w, conns := twoJobs(t, 2)
	procs := []codec.Proc{second(1), first(codec.RankWildcard)}
	w.request(0, &codec.ConnectRequest{Procs: procs})
	w.request(0, &codec.FenceRequest{Procs: procs}) // a fence of the same processes is separate
	w.requestOn(conns[1], &codec.ConnectRequest{Procs: procs})
	w.expect()
	w.request(1, &codec.ConnectRequest{Procs: procs})
	if len(w.log) != 3 {
		t.Fatalf("%v, want three answers", w.log)
	}
	if jobs := w.jobsIn(); !slices.Equal(jobs, []string{"job-1"}) {
		t.Errorf("a process of the second job is told about %v, want job-1", jobs)
	}
	w.sent = w.sent[:len(w.sent)-1]
	if jobs := w.jobsIn(); !slices.Equal(jobs, []string{"job-2"}) {
		t.Errorf("a process of the first job is told about %v, want job-2", jobs)
	}
	w.log = nil
	for _, conn := range []connID{w.conns[0], w.conns[1], conns[1]} {
		w.requestOn(conn, &codec.DisconnectRequest{Procs: procs})
	}
	w.expect("reply 0#103 ok", "reply 1#102 ok", "reply job-2.1#102 ok")
}

func TestConnectFails(t *testing.T) {
	w, conns := twoJobs(t, 1)
	procs := []codec.Proc{first(0), second(0)}
	w.request(0, &codec.ConnectRequest{})
	w.request(0, &codec.DisconnectRequest{})
	w.request(0, &codec.ConnectRequest{Procs: []codec.Proc{first(0), {Nspace: "job-3", Rank: 0}}})
	w.expect("refused connect: no processes named, want all participants", "reply 0#101 ERR_BAD_PARAM",
		"refused disconnect: no processes named, want all participants", "reply 0#102 ERR_BAD_PARAM",
		"refused connect: process job-3.0 is unknown here, want a process of a job of this server", "reply 0#103 ERR_BAD_PARAM")
	w.request(0, &codec.ConnectRequest{Procs: procs, Info: []codec.Info{seconds(2)}})
	w.advance(2)
	w.expect("reply 0#104 ERR_TIMEOUT")
	w.requestOn(conns[0], &codec.ConnectRequest{Procs: procs})
	w.expect("reply job-2.0#101 ERR_TIMEOUT")
	w.request(0, &codec.ConnectRequest{Procs: procs})
	w.step(event{kind: evClosed, conn: conns[0]})
	w.expect("lost job-2.0", "reply 0#105 ERR_PROC_TERM_WO_SYNC")
}

func TestRemoveJob(t *testing.T) {
	w, conns := twoJobs(t, 2)
	w.request(0, &codec.ConnectRequest{Procs: []codec.Proc{first(0), second(0)}})
	w.request(0, &codec.GetRequest{Proc: second(1), Key: "a"})
	w.request(0, &codec.IOFPullRequest{Procs: []codec.Proc{second(0)}, Channels: codec.IOFStdout})
	w.log = nil
	w.step(event{kind: evRemoveJob, proc: second(0)})
	for _, want := range []string{
		"reply 0#101 ERR_PROC_TERM_WO_SYNC", "reply 0#102 ERR_PROC_TERM_WO_SYNC", "drop job-2.0", "drop job-2.1",
	} {
		if !slices.Contains(w.log, want) {
			t.Errorf("%v, want %s", w.log, want)
		}
	}
	for _, conn := range conns {
		w.step(event{kind: evClosed, conn: conn})
	}
	if len(w.core.fences.bySet)+len(w.core.gets.waiting)+len(w.core.forwarding.listeners) != 0 || len(w.core.conns) != 2 || len(w.core.spaces) != 1 {
		t.Errorf("%d fences, %d gets, %d listeners, %d connections, %d jobs are left, want none of the removed job's", len(w.core.fences.bySet), len(w.core.gets.waiting),
			len(w.core.forwarding.listeners), len(w.core.conns), len(w.core.spaces))
	}
	w.log = nil
	w.connectAs(second(0))
	w.step(event{kind: evRemoveJob, proc: second(0)})
	w.expect("refused claim of a process that this server does not serve", "reject ERR_NOT_FOUND")
	w.addJob(secondJob(1))
	w.connectAs(second(0))
	w.expect("connected job-2.0", "accept job-2.0")
}
