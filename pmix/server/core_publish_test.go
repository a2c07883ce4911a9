package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

func publishOf(pairs ...string) *codec.PublishRequest {
	r := &codec.PublishRequest{UID: 7}
	for _, p := range pairs {
		key, value, _ := strings.Cut(p, "=")
		r.Info = append(r.Info, codec.Info{Key: key, Value: codec.StringValue(value)})
	}
	return r
}

func lookupOf(keys string, infos ...codec.Info) *codec.LookupRequest {
	return &codec.LookupRequest{UID: 7, Keys: strings.Fields(keys), Info: infos}
}

func unpublishOf(keys string, infos ...codec.Info) *codec.UnpublishRequest {
	return &codec.UnpublishRequest{UID: 7, Keys: strings.Fields(keys), Info: infos}
}

func inRange(r codec.Range) codec.Info {
	return codec.Info{Key: codec.KeyRange, Value: codec.Value{Type: codec.TypeDataRange, Data: r}}
}

func persisting(p codec.Persistence) codec.Info {
	return codec.Info{Key: codec.KeyPersistence, Value: codec.Value{Type: codec.TypePersist, Data: uint8(p)}}
}

func waitFor(n int32) codec.Info { return codec.Info{Key: codec.KeyWait, Value: codec.IntValue(n)} }

// secondJob returns another namespace of n processes on the same node.
func secondJob(n int) JobLayout {
	j := testJob(n)
	j.Nspace = "job-2"
	return j
}

// lookupResult describes the last answer, which must be the answer to a lookup.
func (w *world) lookupResult() string {
	w.t.Helper()
	if len(w.sent) == 0 {
		return "no answer"
	}
	last := w.sent[len(w.sent)-1]
	r, err := codec.DecodeLookupReply(last.payload)
	if err != nil {
		w.t.Fatal(err)
	}
	out := []string{statusName(r.Status)}
	for _, p := range r.Data {
		out = append(out, fmt.Sprintf("%s=%v of %s", p.Key, p.Value, short(p.Proc)))
	}
	w.log, w.sent = nil, nil
	return strings.Join(out, " ")
}

func (w *world) expectFound(want string) {
	w.t.Helper()
	if got := w.lookupResult(); got != want {
		w.t.Errorf("lookup: %q, want %q", got, want)
	}
}

func TestPublishAndLookup(t *testing.T) {
	w := started(t, 2)
	w.request(0, publishOf("port=a:1", "name=x"))
	w.expect("reply 0#101 ok")
	for keys, want := range map[string]string{
		"port":           "ok port=a:1 of 0",
		"name port":      "ok name=x of 0 port=a:1 of 0",
		"port elsewhere": "ERR_PARTIAL_SUCCESS port=a:1 of 0",
		"elsewhere":      "ERR_NOT_FOUND",
	} {
		w.request(1, lookupOf(keys))
		w.expectFound(want)
	}
	other := lookupOf("port")
	other.UID = 8
	w.request(1, other)
	w.expectFound("ERR_NO_PERMISSIONS")
	w.request(1, publishOf("port=b:2"))
	w.expect("reply 1#106 " + statusName(codec.StatusErrDuplicateKey))
	w.request(1, unpublishOf("port"))
	w.expect("reply 1#107 ERR_NO_PERMISSIONS")
	w.request(0, unpublishOf("port name elsewhere"))
	w.expect("reply 0#102 ERR_PARTIAL_SUCCESS")
	w.request(0, unpublishOf("port"))
	w.expect("reply 0#103 ERR_NOT_FOUND")
	w.request(0, unpublishOf(""))
	w.expect("reply 0#104 ok")
}

func TestPublishAcrossNamespaces(t *testing.T) {
	w := started(t, 1)
	w.addJob(secondJob(1))
	there := codec.Proc{Nspace: "job-2"}
	conn := w.connectAs(there)
	w.log = nil
	for i, c := range []struct {
		rng  codec.Range
		want string
	}{
		{codec.RangeSession, "ok k=v of 0"},
		{codec.RangeGlobal, "ok k=v of 0"},
		{codec.RangeLocal, "ok k=v of 0"},
		{codec.RangeUndef, "ok k=v of 0"},
		{codec.RangeNamespace, "ERR_NOT_FOUND"},
		{codec.RangeProcLocal, "ERR_NOT_FOUND"},
	} {
		r := publishOf("k=v")
		r.Info = append(r.Info, inRange(c.rng))
		w.request(0, r)
		w.expect(fmt.Sprintf("reply 0#%d ok", 101+2*i))
		w.requestOn(conn, lookupOf("k"))
		w.expectFound(c.want)
		w.request(0, unpublishOf("k"))
		w.expect(fmt.Sprintf("reply 0#%d ok", 102+2*i))
	}
	custom := publishOf("k=v")
	custom.Info = append(custom.Info, inRange(codec.RangeCustom),
		codec.Info{Key: codec.KeyEventCustomRange, Value: codec.ProcsValue(there)})
	w.request(0, custom)
	w.request(0, lookupOf("k"))
	w.expectFound("ERR_NOT_FOUND")
	w.requestOn(conn, lookupOf("k"))
	w.expectFound("ok k=v of 0")
}

func TestPublishRefused(t *testing.T) {
	text := func(key, value string) codec.Info { return codec.Info{Key: key, Value: codec.StringValue(value)} }
	groups := codec.Info{Key: codec.KeyAccessGroupIDs, Value: codec.Uint32Value(1)}
	for _, c := range []struct {
		infos []codec.Info
		want  string
	}{
		{nil, "BAD_PARAM"},
		{[]codec.Info{inRange(codec.RangeLocal)}, "BAD_PARAM"},
		{[]codec.Info{text("k", "v"), text(codec.KeyRange, "wide")}, "BAD_PARAM"},
		{[]codec.Info{text("k", "v"), inRange(codec.RangeRM)}, "PARAM_VALUE_NOT_SUPPORTED"},
		{[]codec.Info{text("k", "v"), inRange(9)}, "PARAM_VALUE_NOT_SUPPORTED"},
		{[]codec.Info{text("k", "v"), persisting(5)}, "BAD_PARAM"},
		{[]codec.Info{text("k", "v"), inRange(codec.RangeCustom)}, "BAD_PARAM"},
		{[]codec.Info{text("k", "v"), {Key: codec.KeyAccessPermissions, Value: codec.InfosValue(groups)}}, "PARAM_VALUE_NOT_SUPPORTED"},
		{[]codec.Info{text("k", "v"), text(codec.KeyAccessPermissions, "all")}, "BAD_PARAM"},
	} {
		w := started(t, 1)
		w.request(0, &codec.PublishRequest{Info: c.infos})
		if n := len(w.log); n != 2 || !strings.HasPrefix(w.log[0], "refused publish: ") || w.log[1] != "reply 0#101 ERR_"+c.want {
			t.Errorf("%v: %q, want a refusal with %s", c.infos, w.log, c.want)
		}
	}
}

// Open MPI sends range and persistence as plain integers. Where the standard has a number to wait for, it sends a flag.
func TestPublishAsOpenMPI(t *testing.T) {
	w := started(t, 2)
	r := publishOf("k=v")
	r.Info = append(r.Info,
		codec.Info{Key: codec.KeyRange, Value: codec.IntValue(int32(codec.RangeNamespace))},
		codec.Info{Key: codec.KeyPersistence, Value: codec.IntValue(int32(codec.PersistFirstRead))})
	wait := codec.Info{Key: codec.KeyWait, Value: codec.BoolValue(true)}
	w.request(1, lookupOf("k", wait))
	w.expect()
	w.request(0, r)
	w.expectFound("ok k=v of 0")
	w.request(1, lookupOf("k", codec.Info{Key: codec.KeyWait, Value: codec.BoolValue(false)}))
	w.expectFound("ERR_NOT_FOUND")
}

func TestLookupWaits(t *testing.T) {
	w := started(t, 3)
	w.request(1, lookupOf("a b c", waitFor(0)))
	w.request(2, lookupOf("a b c", waitFor(2)))
	w.request(0, publishOf("a=1"))
	w.expect("reply 0#101 ok")
	w.request(0, publishOf("c=3"))
	w.expectFound("ok a=1 of 0 c=3 of 0")
	w.request(0, publishOf("b=2"))
	w.expectFound("ok a=1 of 0 b=2 of 0 c=3 of 0")
}

// A value that can be read once goes to the first lookup that waits.
func TestLookupWaitsForFirstRead(t *testing.T) {
	w := started(t, 3)
	w.request(2, lookupOf("a", waitFor(1)))
	w.request(1, lookupOf("a", waitFor(1)))
	r := publishOf("a=1")
	r.Info = append(r.Info, persisting(codec.PersistFirstRead))
	w.request(0, r)
	if n := len(w.log); n != 2 || !strings.HasPrefix(w.log[1], "reply 2#101 ") {
		t.Errorf("%q, want one more answer than the publisher's, to rank 2", w.log)
	}
	w.expectFound("ok a=1 of 0")
	w.request(0, r)
	if n := len(w.log); n != 2 || !strings.HasPrefix(w.log[1], "reply 1#101 ") {
		t.Errorf("%q, want the next value to go to rank 1", w.log)
	}
}

func TestLookupTimeout(t *testing.T) {
	w := started(t, 2)
	w.request(0, lookupOf("a", waitFor(1), seconds(3)))
	w.request(1, lookupOf("a", waitFor(1), seconds(5)))
	w.advance(2)
	w.expect()
	w.advance(1)
	w.expect("reply 0#101 ERR_TIMEOUT")
	w.advance(2)
	w.expect("reply 1#101 ERR_TIMEOUT")
}

func TestLookupOfOneWhoLeft(t *testing.T) {
	for name, leave := range map[string]func(w *world){
		"finalize": func(w *world) { w.request(1, &codec.FinalizeRequest{}) },
		"close":    func(w *world) { w.closeConn(1) },
	} {
		w := started(t, 2)
		w.request(1, lookupOf("a", waitFor(1)))
		leave(w)
		w.log = nil
		w.request(0, publishOf("a=1"))
		w.expect("reply 0#101 ok")
		if len(w.core.published.waiting) > 0 {
			t.Errorf("%s: a lookup still waits", name)
		}
	}
}

func TestLookupLimits(t *testing.T) {
	w := started(t, 2)
	for range maxWaitingLookups {
		w.request(0, lookupOf("a", waitFor(1)))
	}
	w.expect()
	w.request(0, lookupOf("a", waitFor(1)))
	w.expect("refused lookup: 64 lookups of the caller wait already, which is the limit", "reply 0#165 ERR_OUT_OF_RESOURCE")
	w.request(1, lookupOf("a", waitFor(1)))
	w.expect()
	w.request(1, lookupOf(strings.Repeat("k ", maxLookupKeys+1)))
	w.expect("refused lookup: 1025 keys, want 1 to 1024", "reply 1#102 ERR_BAD_PARAM")
	w.request(1, lookupOf(""))
	w.expect("refused lookup: 0 keys, want 1 to 1024", "reply 1#103 ERR_BAD_PARAM")
}

func TestPublishLimits(t *testing.T) {
	w := started(t, 1)
	big := codec.Info{Key: "k", Value: codec.BytesValue(make([]byte, maxPublishedBytes))}
	w.request(0, &codec.PublishRequest{Info: []codec.Info{big}})
	if n := len(w.log); n != 2 || w.log[1] != "reply 0#101 ERR_OUT_OF_RESOURCE" {
		t.Errorf("%q, want a refusal for its size", w.log)
	}
	everybody := make([]codec.Proc, maxRangeMembership+1)
	r := publishOf("k=v")
	r.Info = append(r.Info, inRange(codec.RangeCustom), codec.Info{Key: codec.KeyEventCustomRange, Value: codec.ProcsValue(everybody...)})
	w.log = nil
	w.request(0, r)
	w.expect("refused publish: 4097 processes and users named, want at most 4096", "reply 0#102 ERR_OUT_OF_RESOURCE")
}

func TestPublishedDataEnds(t *testing.T) {
	job := testJob(4) // ranks 0 and 1 are one application, 2 another, and 3 reads
	job.Procs[2].AppNum, job.Procs[3].AppNum = 1, 2
	w := newWorld(t, job, false)
	w.connect(0, 1, 2, 3)
	for rank := range codec.Rank(3) {
		for _, p := range []codec.Persistence{codec.PersistIndefinite, codec.PersistProc, codec.PersistApp, codec.PersistSession} {
			r := publishOf(fmt.Sprintf("%d-%d=v", rank, p))
			r.Info = append(r.Info, persisting(p))
			w.request(rank, r)
		}
	}
	left := func() string {
		w.request(3, lookupOf("0-0 0-2 0-3 0-4 1-0 1-2 1-3 1-4 2-0 2-2 2-3 2-4"))
		var keys []string
		for f := range strings.FieldsSeq(w.lookupResult()) {
			if key, _, ok := strings.Cut(f, "=v"); ok {
				keys = append(keys, key)
			}
		}
		return strings.Join(keys, " ")
	}
	for _, c := range []struct {
		do   func()
		want string
	}{
		{func() {}, "0-0 0-2 0-3 0-4 1-0 1-2 1-3 1-4 2-0 2-2 2-3 2-4"},
		{func() { w.request(0, &codec.FinalizeRequest{}) }, "0-0 0-2 0-3 0-4 1-0 1-2 1-3 1-4 2-0 2-2 2-3 2-4"},
		{func() { w.exit(0) }, "0-0 0-3 0-4 1-0 1-2 1-3 1-4 2-0 2-2 2-3 2-4"},
		{func() { w.exit(2) }, "0-0 0-3 0-4 1-0 1-2 1-3 1-4 2-0 2-4"},
		{func() { w.exit(1) }, "0-0 0-4 1-0 1-4 2-0 2-4"},
	} {
		c.do()
		if got := left(); got != c.want {
			t.Errorf("left: %s\nwant: %s", got, c.want)
		}
	}
}
