package server

import (
	"slices"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// again connects a process once more as a client in process pid.
func (w *world) again(rank codec.Rank, pid int) connID {
	w.last++
	w.tags[w.last] = codec.TagFirstDynamic - 1
	w.step(event{kind: evClaim, conn: w.last, proc: first(rank), pid: pid})
	return w.last
}

// Two PMIx libraries of one process are two connections of one rank. Each has its own handlers and answers, and the
// process has finalized when both have.
func TestTwoLibrariesOfOneProcess(t *testing.T) {
	w := newWorld(t, testJob(2), false)
	shmem := w.again(0, 70)
	w.expect("connected 0", "accept 0")
	mpi := w.again(0, 70)
	w.expect("accept 0")
	w.again(0, 71)
	w.expect("refused claim of a rank that is already connected", "reject ERR_EXISTS")
	w.connect(1)
	w.expect("connected 1", "accept 1")

	w.requestOn(shmem, fenceOf(0, 1))
	w.requestOn(mpi, fenceOf(0, 1))
	w.log, w.sent = nil, nil
	for _, conn := range []connID{shmem, mpi} { // the n-th fence of the process is the n-th of the set
		w.request(1, fenceOf(0, 1))
		if !slices.ContainsFunc(w.sent, func(a action) bool { return a.conn == conn }) || len(w.sent) != 2 {
			t.Errorf("a fence has the answers %v, want one on connection %d and one for rank 1", w.log, conn)
		}
		w.log, w.sent = nil, nil
	}

	w.requestOn(mpi, codes(-9999))
	w.request(1, codes(-1))
	w.log, w.sent = nil, nil
	w.request(1, raised(-9999, codec.RangeNamespace))
	if len(w.sent) != 2 || w.sent[0].conn != mpi {
		t.Errorf("the actions are %v, want one event, for connection %d", w.log, mpi)
	}
	w.log = nil

	w.requestOn(shmem, &codec.FinalizeRequest{})
	w.expect("reply 0#102 ok")
	w.requestOn(shmem, fenceOf(0))
	w.expect("refused request FENCE after finalize", "reply 0#103 ERR_INIT")
	w.requestOn(mpi, &codec.FinalizeRequest{})
	w.expect("finalized 0", "reply 0#103 ok")
}

// A process is lost when the last of its connections ends without finalize.
func TestLastLibraryOfProcessIsLost(t *testing.T) {
	w := newWorld(t, testJob(2), false)
	conns := []connID{w.again(0, 70), w.again(0, 70)}
	w.connect(1)
	w.request(1, fenceOf(0, 1))
	w.log = nil
	w.step(event{kind: evClosed, conn: conns[0]})
	w.expect()
	w.step(event{kind: evClosed, conn: conns[1]})
	w.expect("lost 0", "reply 1#101 ERR_PROC_TERM_WO_SYNC")
	w.again(0, 72)
	w.expect("connected 0", "accept 0")
	for range maxLibraries - 1 {
		w.again(0, 72)
	}
	w.log = nil
	w.again(0, 72)
	w.expect("refused claim of a process with too many connections", "reject ERR_OUT_OF_RESOURCE")
}
