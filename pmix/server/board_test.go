package server

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/kvs"
)

// All nodes of a job have one board, with the ranges and the answers of the board on one node.
func TestBoardOfSeveralNodes(t *testing.T) {
	m := newMesh(t, 2)
	m.request(0, publishOf("port=a:1"))
	m.on(0).expect("reply 0#101 ok")
	m.find(3, "ok port=a:1 of 0", "port")
	m.find(1, "ok port=a:1 of 0", "port")
	m.find(3, "ERR_NOT_FOUND", "name")
	m.clear()
	m.request(2, publishOf("port=b:2"))
	m.on(2).expect("reply 2#101 ERR_DUPLICATE_KEY")
	m.request(2, publishOf())
	m.on(2).expect("refused publish: no keys, want at least one besides the directives", "reply 2#102 ERR_BAD_PARAM")
	m.request(2, unpublishOf("port"))
	m.on(2).expect("reply 2#103 ERR_NO_PERMISSIONS")
	m.request(0, unpublishOf("port"))
	m.on(0).expect("reply 0#102 ok")
	m.find(3, "ERR_NOT_FOUND", "port")
}

func TestLocalRangeIsOneNode(t *testing.T) {
	m := newMesh(t, 2)
	r := publishOf("here=1")
	r.Info = append(r.Info, inRange(codec.RangeLocal))
	m.request(0, r)
	m.find(1, "ok here=1 of 0", "here")
	m.find(2, "ERR_NOT_FOUND", "here")
	m.clear()
	r = publishOf("here=2")
	r.Info = append(r.Info, inRange(codec.RangeLocal))
	m.request(2, r)
	m.on(2).expect("reply 2#102 ok")
	m.find(3, "ok here=2 of 2", "here")
	m.find(0, "ok here=1 of 0", "here")
}

// A lookup waits for data of another node. A client that goes away waits no more, and takes no data that is read once.
func TestLookupWaitsForAnotherNode(t *testing.T) {
	m := newMesh(t, 2)
	m.request(0, lookupOf("port", waitFor(1)))
	m.request(1, lookupOf("port", waitFor(1)))
	m.on(0).expect()
	m.on(0).closeConn(0)
	m.clear()
	r := publishOf("port=a:1")
	r.Info = append(r.Info, persisting(codec.PersistFirstRead))
	m.request(2, r)
	m.on(1).expectFound("ok port=a:1 of 2")
	m.find(3, "ERR_NOT_FOUND", "port")
	for _, w := range m.worlds {
		if len(w.core.errands.open)+len(w.core.errands.byProc) != 0 {
			t.Errorf("%d questions of %d processes are left, want none", len(w.core.errands.open), len(w.core.errands.byProc))
		}
	}
	if len(m.board.replies)+len(m.board.desk.waiting) != 0 {
		t.Errorf("the board keeps %d replies and %d lookups, want none", len(m.board.replies), len(m.board.desk.waiting))
	}
}

// The board's own clock ends lookups.
func TestLookupOnBoardTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBoard()
		defer b.Close()
		body, err := codec.AppendRequest(nil, lookupOf("port", waitFor(1), seconds(3)))
		if err != nil {
			t.Fatal(err)
		}
		q := peerMessage{op: opRequest, proc: first(0), body: body}
		answered := make(chan []byte, 2)
		start := b.start
		for _, number := range []uint64{1, 2} {
			b.Asked(1, number, q.append(nil), func(answer []byte) { answered <- answer })
		}
		for range 2 {
			a, err := parsePeerAnswer(<-answered)
			if status, err2 := codec.DecodeStatusReply(a.body); err != nil || err2 != nil || status != codec.StatusErrTimeout {
				t.Errorf("answer %+v, %v, %v, want PMIX_ERR_TIMEOUT", a, err, err2)
			}
		}
		if b.clock.now != 300 || len(b.desk.waiting) != 0 {
			t.Errorf("it takes %d ticks from %v, want 300; %d lookups are left", b.clock.now, start, len(b.desk.waiting))
		}
	})
}

// Data ends with its process, or with the processes of its application on all nodes.
func TestLifetimesOnBoard(t *testing.T) {
	m := newMesh(t, 2)
	r := publishOf("of=process")
	r.Info = append(r.Info, persisting(codec.PersistProc))
	m.request(0, r)
	m.request(0, publishOf("for=application"))
	r = publishOf("for=ever", "x=y")
	r.Info = append(r.Info[1:], persisting(codec.PersistSession))
	m.request(0, r)
	m.exit(0)
	m.find(2, "ERR_NOT_FOUND", "of")
	m.find(2, "ok for=application of 0", "for")
	m.exit(1)
	m.exit(2)
	m.find(3, "ok for=application of 0", "for")
	m.exit(3)
	everybody := kvs.Terms{Range: codec.RangeSession}
	if found, _ := m.board.desk.board.Find(kvs.Party{Proc: first(3), UID: 7}, everybody, []string{"for", "x"}); len(found) != 1 || found[0].Key != "x" {
		t.Errorf("found %v, want x alone", found)
	}
	if len(m.board.desk.apps) != 0 {
		t.Errorf("%d applications are left, want none", len(m.board.desk.apps))
	}
}

// The death of a node ends the lifetimes of its processes, and its lookups.
func TestDeathOfNodeOnBoard(t *testing.T) {
	m := newMesh(t, 2)
	r := publishOf("of=process")
	r.Info = append(r.Info, persisting(codec.PersistProc))
	m.request(0, r)
	m.request(0, publishOf("for=application"))
	m.request(1, lookupOf("later", waitFor(1)))
	m.kill(0)
	m.find(2, "ERR_NOT_FOUND", "of")
	m.find(2, "ok for=application of 0", "for")
	if len(m.board.replies)+len(m.board.desk.waiting) != 0 {
		t.Errorf("the board keeps %d replies and %d lookups of the node, want none", len(m.board.replies), len(m.board.desk.waiting))
	}
	m.exit(2)
	m.exit(3)
	if len(m.board.desk.apps) != 0 {
		t.Errorf("%d applications are left, want none", len(m.board.desk.apps))
	}
}

// What no server says is an error, or is refused.
func TestBoardRefusesStrangers(t *testing.T) {
	b := NewBoard()
	defer b.Close()
	for _, body := range [][]byte{nil, {0}, {99, 0}, (&peerMessage{op: opGiveUp}).append(nil), (&peerMessage{op: opRequest}).append(nil)} {
		answered := false
		b.Asked(0, 1, body, func(answer []byte) {
			a, err := parsePeerAnswer(answer)
			if answered = true; err != nil || a.status == codec.StatusSuccess || a.why == "" {
				t.Errorf("%x is answered %+v, %v, want an error with a reason", body, a, err)
			}
		})
		if !answered {
			t.Errorf("%x is not answered", body)
		}
	}
	if err := b.Told(0, (&peerMessage{op: opRequest}).append(nil)); err == nil || !strings.Contains(err.Error(), "news of kind 1") {
		t.Errorf("a request as news: %v, want an error", err)
	}
}

// Whatever bytes come: they are an error, or a message that is written and read again without a change. The board and a
// server survive them.
func FuzzPeerMessage(f *testing.F) {
	body, err := codec.AppendRequest(nil, lookupOf("a"))
	if err != nil {
		f.Fatal(err)
	}
	for op := opRequest; op < peerOps; op++ {
		m := peerMessage{op: op, proc: first(1), number: 7, procs: ranks(0, 3), nodes: []int{0, 1}, flag: true, body: body}
		f.Add(m.append(nil))
	}
	a := peerAnswer{codec.StatusErrTimeout, "too late", []byte{1}}
	f.Add(a.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := parsePeerAnswer(b); err == nil {
			if again, err := parsePeerAnswer(a.append(nil)); err != nil || again.why != a.why || !bytes.Equal(again.body, a.body) {
				t.Errorf("%+v is read again as %+v, %v", a, again, err)
			}
		}
		if m, err := parsePeerMessage(b); err == nil {
			if again, err := parsePeerMessage(m.append(nil)); err != nil || !reflect.DeepEqual(again, m) {
				t.Errorf("%+v is read again as %+v, %v", m, again, err)
			}
		}
		board := NewBoard()
		defer board.Close()
		board.Asked(1, 1, b, func([]byte) {})
		_ = board.Told(1, b)
		board.NodeDead(1)
		w := newWorld(t, twoNodes(0), true)
		w.core.peered = true
		w.connect(0, 1)
		w.log = nil
		w.step(event{kind: evAsked, request: 1, payload: b})
		w.step(event{kind: evTold, payload: b})
		w.request(0, publishOf("a=1"))
		w.step(event{kind: evAnswered, request: 1, payload: b})
	})
}
