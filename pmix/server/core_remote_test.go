package server

import (
	"testing"

	"github.com/goshmem/goshmem/pmix/wire"
)

// twoNodes is a job with ranks 0 and 1 on node 0, and 2 and 3 on node 1.
func twoNodes(this uint32) Job {
	j := Job{Nspace: testNspace, Hosts: []string{"n0", "n1"}, ThisNode: this}
	for r := range uint32(4) {
		j.Procs = append(j.Procs, Proc{Rank: r, Node: r / 2, LocalRank: uint16(r % 2)})
	}
	return j
}

func TestFenceAcrossNodes(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0, 1)
	w.request(0, commitOf(wire.ScopeRemote, "a=0"))
	w.log = nil
	r := fenceOf()
	r.Info = []wire.Info{{Key: wire.KeyCollectData, Value: wire.BoolValue(true)}}
	w.request(0, r)
	w.expect()
	w.request(1, fenceOf())
	w.expect("fence job-1:*#1 19 bytes")

	there := wire.ProcData{Proc: first(3), Packed: commitOf(0, "a=3").Blobs[0].Data}
	id := FenceID{Procs: "job-1:*", Seq: 1}
	w.step(event{kind: evFenceDone, fence: FenceID{Procs: "job-1:*", Seq: 2}})
	w.expect()
	w.step(event{kind: evFenceDone, fence: id, payload: there.Append(nil)})
	w.expect("reply 0#102 ok", "reply 1#101 ok")
	w.request(0, getOf(3, "a"))
	w.expect("reply 0#103 a=3")
}

func TestFenceAcrossNodesFails(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0, 1)
	w.log = nil
	w.request(0, fenceOf(0, 2))
	w.expect("fence job-1:0,2#1 0 bytes")
	w.step(event{kind: evFenceDone, fence: FenceID{Procs: "job-1:0,2", Seq: 1}, payload: []byte{1}})
	w.expect("reply 0#101 ERR_UNPACK_FAILURE")
	w.request(0, fenceOf(0, 2))
	w.exit(2)
	w.expect("fence job-1:0,2#2 0 bytes", "reply 0#102 ERR_PROC_TERM_WO_SYNC")
	w.step(event{kind: evFenceDone, fence: FenceID{Procs: "job-1:0,2", Seq: 2}})
	w.expect()
}

func TestNobodyToAskElsewhere(t *testing.T) {
	w := newWorld(t, twoNodes(0), false)
	w.connect(0, 1)
	w.log = nil
	w.request(0, fenceOf(0, 2))
	w.request(0, getOf(2, "a"))
	w.expect("reply 0#101 ERR_UNREACH", "reply 0#102 ERR_UNREACH")
	w.step(event{kind: evClaim, conn: 99, proc: first(2)})
	w.expect("refused claim of a process that is not of this step and node", "reject ERR_NOT_FOUND")
}

func TestFetch(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0, 1)
	w.log = nil
	w.request(0, getOf(2, "a"))
	w.request(1, getOf(2, "a"))
	w.request(1, getOf(2, "b"))
	w.expect("fetch 2 a", "fetch 2 b")
	w.step(event{kind: evFetched, proc: first(2), key: "a", payload: commitOf(0, "a=2").Blobs[0].Data})
	w.expect("reply 0#101 a=2", "reply 1#101 a=2")
	w.step(event{kind: evFetched, proc: first(2), key: "b", status: wire.StatusErrNotFound})
	w.expect("reply 1#102 ERR_NOT_FOUND")
	w.request(0, getOf(3, "a"))
	w.step(event{kind: evFetched, proc: first(3), key: "a", payload: []byte{9}})
	w.expect("fetch 3 a", "reply 0#102 ERR_UNPACK_FAILURE")
}

func TestServe(t *testing.T) {
	w := newWorld(t, twoNodes(1), true)
	w.connect(2, 3)
	w.log = nil
	w.step(event{kind: evServe, proc: first(2), key: "a", request: 1})
	w.step(event{kind: evServe, proc: first(3), key: "a", request: 2})
	w.step(event{kind: evServe, proc: first(0), key: "a", request: 3})
	w.expect("served 3 ERR_NOT_FOUND")
	w.request(2, commitOf(wire.ScopeLocal, "a=1"))
	w.expect("reply 2#101 ok")
	w.request(2, commitOf(wire.ScopeRemote, "a=2"))
	w.expect("reply 2#102 ok", "served 1 ok")
	w.closeConn(3)
	w.expect("lost 3", "served 2 ERR_PROC_TERM_WO_SYNC")
}
