package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// sharedData lists the processes whose data are in the last answer, with their values.
func (w *world) sharedData() string {
	w.t.Helper()
	if len(w.sent) != 1 {
		w.t.Fatalf("%d answers, want 1", len(w.sent))
	}
	a := w.sent[0]
	reply, err := codec.DecodeGetReply(slices.Concat(a.payload, a.more))
	if err != nil {
		w.t.Fatal(err)
	}
	out := []string{statusName(reply.Status)}
	for i := range reply.Data {
		pairs, err := reply.Data[i].Pairs()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, kv := range pairs {
			out = append(out, fmt.Sprintf("%s:%s=%v", short(reply.Data[i].Proc), kv.Key, kv.Value))
		}
	}
	return strings.Join(out, " ")
}

func (w *world) wantGet(rank codec.Rank, r *codec.GetRequest, want string) {
	w.t.Helper()
	w.sent = nil
	w.request(rank, r)
	if got := w.sharedData(); got != want {
		w.t.Errorf("get of %v by %d brought %q, want %q", r.Proc, rank, got, want)
	}
}

// exchanged returns a world of n processes that have committed a=rank and fenced.
func exchanged(t *testing.T, n int, collect bool) *world {
	t.Helper()
	w := started(t, n)
	for r := range n {
		w.request(codec.Rank(r), commitOf(codec.ScopeLocal, fmt.Sprint("a=", r)))
	}
	w.fenceAll(n, collect)
	return w
}

func (w *world) fenceAll(n int, collect bool) {
	for r := range n {
		f := fenceOf(codec.RankWildcard)
		if collect {
			f.Info = []codec.Info{about(codec.KeyCollectData, codec.BoolValue(true))}
		}
		w.request(codec.Rank(r), f)
	}
}

func TestGetBringsEverybody(t *testing.T) {
	w := exchanged(t, 4, true)
	w.wantGet(0, getOf(2, "a"), "ok 1:a=1 2:a=2 3:a=3")
	w.wantGet(0, getOf(1, "a"), "ok 1:a=1")
	w.wantGet(2, getOf(0, "a"), "ok 0:a=0 1:a=1 3:a=3")
	w.wantGet(3, getOf(3, "a"), "ok 3:a=3")
	w.wantGet(3, getOf(3, ""), "ok 3:a=3")
	w.wantGet(3, getOf(0, "a"), "ok 0:a=0 1:a=1 2:a=2")
	w.wantGet(1, getOf(0, "b", about(codec.KeyImmediate, codec.BoolValue(true))), "ERR_NOT_FOUND")
}

// A new connection has got no shared data yet.
func TestGetBringsEverybodyAfterReconnect(t *testing.T) {
	w := exchanged(t, 2, true)
	w.wantGet(0, getOf(1, "a"), "ok 1:a=1")
	w.closeConn(0)
	w.connect(0)
	w.wantGet(0, getOf(1, "a"), "ok 1:a=1")
	if w.core.find(first(0)).links[0].issue != w.core.find(first(1)).space.shared.issue {
		t.Error("the second connection got no shared data")
	}
}

func TestGetBringsOneOnly(t *testing.T) {
	for name, w := range map[string]*world{
		"no collection": exchanged(t, 3, false),
		"not all have met": func() *world {
			w := started(t, 3)
			for r := range codec.Rank(3) {
				w.request(r, commitOf(codec.ScopeLocal, fmt.Sprint("a=", r)))
			}
			for r := range codec.Rank(2) {
				f := fenceOf(0, 1)
				f.Info = []codec.Info{about(codec.KeyCollectData, codec.BoolValue(true))}
				w.request(r, f)
			}
			return w
		}(),
		"somebody put nothing": func() *world {
			w := started(t, 3)
			w.request(1, commitOf(codec.ScopeLocal, "a=1"))
			w.fenceAll(3, true)
			return w
		}(),
		"a commit since": func() *world {
			w := exchanged(t, 3, true)
			w.request(2, commitOf(codec.ScopeLocal, "b=2"))
			return w
		}(),
		"too much": func() *world {
			w := started(t, 3)
			for r := range codec.Rank(2) {
				w.request(r, commitOf(codec.ScopeLocal, fmt.Sprint("a=", r)))
			}
			w.request(2, commitOf(codec.ScopeLocal, "a="+strings.Repeat("x", maxShared)))
			w.fenceAll(3, true)
			return w
		}(),
	} {
		t.Run(name, func(*testing.T) { w.wantGet(0, getOf(1, "a"), "ok 1:a=1") })
	}
}

// After a commit and another fence, processes that got the old answer get the new one, once.
func TestGetBringsEverybodyAgain(t *testing.T) {
	w := exchanged(t, 3, true)
	w.wantGet(0, getOf(1, "a"), "ok 1:a=1 2:a=2")
	w.request(2, commitOf(codec.ScopeLocal, "b=2"))
	w.fenceAll(3, true)
	w.wantGet(0, getOf(2, "b"), "ok 1:a=1 2:a=2 2:b=2")
	w.fenceAll(3, true) // nothing new
	w.wantGet(0, getOf(2, "b"), "ok 2:a=2 2:b=2")
	w.wantGet(1, getOf(2, "b"), "ok 0:a=0 2:a=2 2:b=2")
}

// A get that had to wait brings the data of its process only. So does a get by a process of another job.
func TestGetBringsOthersTheirOwn(t *testing.T) {
	w := exchanged(t, 2, true)
	w.addJob(secondJob(1))
	conn := w.connectAs(codec.Proc{Nspace: "job-2"})
	w.sent = nil
	w.requestOn(conn, getOf(1, "a"))
	if got, want := w.sharedData(), "ok 1:a=1"; got != want {
		t.Errorf("another job's process got %q, want %q", got, want)
	}
	w.sent = nil
	w.request(0, getOf(1, "later"))
	w.request(1, commitOf(codec.ScopeLocal, "later=x"))
	w.sent = slices.DeleteFunc(w.sent, func(a action) bool { return a.conn != w.conns[0] })
	if got, want := w.sharedData(), "ok 1:a=1 1:later=x"; got != want {
		t.Errorf("a get that waited brought %q, want %q", got, want)
	}
}
