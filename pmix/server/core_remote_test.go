package server

import (
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// twoNodes returns a job with ranks 0 and 1 on node 0, and ranks 2 and 3 on node 1.
func twoNodes(this uint32) JobLayout {
	j := JobLayout{Nspace: testNspace, Hosts: []string{"n0", "n1"}, ThisNode: this}
	for r := range uint32(4) {
		j.Procs = append(j.Procs, Proc{Rank: r, Node: r / 2, LocalRank: uint16(r % 2)})
	}
	return j
}

func TestFenceAcrossNodes(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0, 1)
	w.request(0, commitOf(codec.ScopeRemote, "a=0"))
	w.log = nil
	r := fenceOf()
	r.Info = []codec.Info{{Key: codec.KeyCollectData, Value: codec.BoolValue(true)}}
	w.request(0, r)
	w.expect()
	w.request(1, fenceOf())
	w.expect("fence job-1:*#1 19 bytes")

	there := codec.ProcData{Proc: first(3), Packed: commitOf(0, "a=3").Blobs[0].Data}
	id := fenceID("job-1:*", 1)
	w.step(event{kind: evFenceDone, fence: fenceID("job-1:*", 2)})
	w.expect()
	w.step(event{kind: evFenceDone, fence: id, payload: there.Append(nil)})
	w.expect("reply 0#102 ok", "reply 1#101 ok")
	w.request(0, getOf(3, "a"))
	w.expect("reply 0#103 a=3")
}

// fenceID returns the ID of a plain fence.
func fenceID(procs string, seq uint64) FenceID {
	return FenceID{FenceSet{Op: opFence, Procs: procs}, seq}
}

// Once a node has handed in its part, only the driver's answer ends the fence, whichever processes die meanwhile.
func TestFenceAcrossNodesFails(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0, 1)
	w.log = nil
	w.request(0, fenceOf(0, 2))
	w.expect("fence job-1:0,2#1 0 bytes")
	w.step(event{kind: evFenceDone, fence: fenceID("job-1:0,2", 1), payload: []byte{1}})
	w.expect("reply 0#101 ERR_UNPACK_FAILURE")
	w.request(0, fenceOf(0, 2))
	w.exit(2)
	w.expect("fence job-1:0,2#2 0 bytes")
	w.step(event{kind: evFenceDone, fence: fenceID("job-1:0,2", 2)})
	w.expect("reply 0#102 ok")
	w.request(0, fenceOf(0, 2))
	w.expect("fence job-1:0,2#3 ERR_PROC_TERM_WO_SYNC")
	w.step(event{kind: evFenceDone, fence: fenceID("job-1:0,2", 3)}) // success without this node's part
	w.expect()
	w.step(event{kind: evFenceDone, fence: fenceID("job-1:0,2", 3), status: codec.StatusErrProcTermWoSync})
	w.expect("reply 0#103 ERR_PROC_TERM_WO_SYNC")
}

// After a death, a node hands in an error at once, even if none of its processes has joined.
func TestDeathIsHandedIn(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0, 1)
	w.log = nil
	id := fenceID("job-1:*", 1)
	all := []codec.Proc{first(0), first(1), first(2), first(3)}
	w.step(event{kind: evFenceCalled, fence: id, procs: all})
	w.expect()
	w.exit(1)
	w.expect("fence job-1:*#1 ERR_PROC_TERM_WO_SYNC")
	w.request(0, fenceOf())
	w.step(event{kind: evFenceCalled, fence: id, procs: all, status: codec.StatusErrTimeout})
	w.expect()
	w.step(event{kind: evFenceDone, fence: id, status: codec.StatusErrProcTermWoSync})
	w.expect("reply 0#101 ERR_PROC_TERM_WO_SYNC")
	id.Seq++
	w.step(event{kind: evFenceCalled, fence: id, procs: all})
	w.step(event{kind: evFenceDone, fence: id, status: codec.StatusErrProcTermWoSync})
	w.request(0, fenceOf()) // gets the error of the second fence
	w.expect("fence job-1:*#2 ERR_PROC_TERM_WO_SYNC", "reply 0#102 ERR_PROC_TERM_WO_SYNC")
	if len(w.core.fences.bySet) != 0 {
		t.Errorf("%d fences are kept, want none", len(w.core.fences.bySet))
	}
}

// A deadline asks the other nodes for their parts. It does not take back a part that was handed in.
func TestDeadlineAcrossNodes(t *testing.T) {
	for _, c := range []struct {
		name   string
		joined int
		want   string
	}{
		{"open", 1, "fence job-1:*#1 ERR_TIMEOUT"},
		{"given", 2, "fence job-1:*#1 0 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, twoNodes(0), true)
			w.connect(0, 1)
			w.log = nil
			for rank := range c.joined {
				r := fenceOf()
				r.Info = []codec.Info{seconds(1)}
				w.request(codec.Rank(rank), r)
			}
			w.advance(1)
			if c.joined == 1 {
				w.expect("expire job-1:*#1", c.want)
			} else {
				w.expect(c.want, "expire job-1:*#1")
			}
			w.advance(5)
			w.expect()
		})
	}
}

// Of two fences of the same set, the second is handed in after the answer to the first.
func TestPartsOfASetAreHandedInByTurns(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0, 1)
	w.log = nil
	w.request(0, fenceOf(0, 2))
	w.request(0, fenceOf(0, 2))
	r := fenceOf(0, 2)
	r.Info = []codec.Info{seconds(1)}
	w.request(0, r)
	w.expect("fence job-1:0,2#1 0 bytes")
	w.advance(1) // the part is fixed from now on
	w.expect("expire job-1:0,2#3", "reply 0#103 ERR_TIMEOUT")
	w.step(event{kind: evFenceDone, fence: fenceID("job-1:0,2", 1)})
	w.expect("reply 0#101 ok", "fence job-1:0,2#2 0 bytes")
	w.step(event{kind: evFenceDone, fence: fenceID("job-1:0,2", 2)})
	w.expect("reply 0#102 ok", "fence job-1:0,2#3 ERR_TIMEOUT")
	w.step(event{kind: evFenceDone, fence: fenceID("job-1:0,2", 3), status: codec.StatusErrTimeout})
	w.expect()
	if len(w.core.fences.bySet) != 0 {
		t.Errorf("%d fences are kept, want none", len(w.core.fences.bySet))
	}
}

// If a node cannot open a fence that another node has called, it hands in the reason.
func TestCalledFenceThatCannotBe(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0, 1)
	w.log = nil
	w.step(event{kind: evFenceCalled, fence: fenceID("job-9:*", 1), procs: []codec.Proc{{Nspace: "job-9"}}})
	w.expect("refused fence job-9:*#1 of another node", "fence job-9:*#1 ERR_NOT_FOUND")
	w.step(event{kind: evFenceCalled, fence: fenceID("job-1:*", 0), procs: []codec.Proc{first(0)}})
	w.expect("refused fence job-1:*#0 of another node", "fence job-1:*#0 ERR_BAD_PARAM")
	w.step(event{kind: evFenceCalled, fence: FenceID{FenceSet{opDestruct, "g", "job-1:0,2"}, 1}, procs: []codec.Proc{first(0), first(2)}})
	w.expect(`refused fence destruct;"g";job-1:0,2#1 of another node`, `fence destruct;"g";job-1:0,2#1 ERR_NOT_FOUND`)
}

// If another node allows it, a group is made without founders that died before the fence was called.
func TestCalledConstructionSparesTheDead(t *testing.T) {
	for _, spares := range []bool{false, true} {
		w := newWorld(t, twoNodes(0), true)
		w.connect(0, 1)
		w.exit(0)
		w.log = nil
		id := FenceID{FenceSet{opConstruct, "g", "job-1:0,2"}, 1}
		w.step(event{kind: evFenceCalled, fence: id, procs: []codec.Proc{first(0), first(2)}, flag: spares})
		if spares {
			w.expect(`fence construct;"g";job-1:0,2#1 5 bytes`)
		} else {
			w.expect(`fence construct;"g";job-1:0,2#1 ERR_PROC_TERM_WO_SYNC`)
		}
	}
}

// When a job is removed whose name is part of a group's name, the count for the group's set of fences stays.
func TestRemovedJobLeavesOthersCounts(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0, 1)
	w.addJob(secondJob(1))
	const id = "x;job-2:"
	meet := FenceID{FenceSet{opConstruct, id, "job-1:0,2"}, 1}
	w.request(0, construct(id, ranks(0, 2)))
	w.step(event{kind: evFenceDone, fence: meet})
	w.request(0, destruct(id))
	w.step(event{kind: evFenceDone, fence: FenceID{FenceSet{opDestruct, id, "job-1:0,2"}, 1}})
	w.step(event{kind: evRemoveJob, proc: second(0)})
	w.log = nil
	w.request(0, construct(id, ranks(0, 2)))
	w.expect(`fence construct;"x;job-2:";job-1:0,2#2 14 bytes`)
}

// A lost node is one event about all of its processes, once. What needs them fails, as after their ends.
func TestNodeLost(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0, 1)
	w.request(0, codes(codec.StatusEventNodeDown, codec.StatusErrProcTermWoSync))
	w.request(0, getOf(2, "a"))
	w.request(1, fenceOf())
	w.log = nil
	lost := event{kind: evNodeLost, procs: []codec.Proc{first(2), first(3)}}
	w.step(lost)
	w.expect("event 0 EVENT_NODE_DOWN from undef about 2 and 3 nondefault",
		"fence job-1:*#1 ERR_PROC_TERM_WO_SYNC", "reply 0#102 ERR_PROC_TERM_WO_SYNC")
	w.step(lost)
	w.step(event{kind: evExited, proc: first(2), exit: Exit{Signal: 9}})
	w.expect()
	w.request(1, codes(codec.StatusEventNodeDown)) // late
	w.expect("reply 1#102 ok", "event 1 EVENT_NODE_DOWN from undef about 2 and 3 nondefault")
	w.step(event{kind: evNodeLost, procs: []codec.Proc{{Nspace: "job-9"}}})
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
	w.expect("refused claim of a process that this server does not serve", "reject ERR_NOT_FOUND")
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
	w.step(event{kind: evFetched, proc: first(2), key: "b", status: codec.StatusErrNotFound})
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
	w.request(2, commitOf(codec.ScopeLocal, "a=1"))
	w.expect("reply 2#101 ok")
	w.request(2, commitOf(codec.ScopeRemote, "a=2"))
	w.expect("reply 2#102 ok", "served 1 ok")
	w.closeConn(3)
	w.expect("lost 3", "served 2 ERR_PROC_TERM_WO_SYNC")
}

// The driver between the nodes hears of jobs that come and go, and of no tool.
func TestDriverHearsOfJobs(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	child := twoNodes(0)
	child.Nspace = "job-2"
	w.addChild(child, first(0))
	w.expect("job job-1, over false", "job job-2, over false")
	w.attach("tool")
	w.log = nil
	w.step(event{kind: evRemoveJob, proc: codec.Proc{Nspace: "job-2"}})
	w.step(event{kind: evRemoveJob, proc: codec.Proc{Nspace: "tool"}})
	w.step(event{kind: evRemoveJob, proc: codec.Proc{Nspace: "job-9"}})
	w.expect("job job-2, over true", "drop tool.0")
}
