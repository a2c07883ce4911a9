package kvs

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/pmix/codec"
)

func pack(kvs ...codec.KVal) []byte {
	e := codec.NewEncoder(nil)
	for _, kv := range kvs {
		e.KValGroup(kv)
	}
	return e.Bytes()
}

func str(key, value string) codec.KVal { return codec.KVal{Key: key, Value: codec.StringValue(value)} }

func mustCommit(t *testing.T, s *Store, rank codec.Rank, scope codec.Scope, kvs ...codec.KVal) {
	t.Helper()
	if err := s.Commit(rank, scope, pack(kvs...)); err != nil {
		t.Fatal(err)
	}
}

func replied(t *testing.T, s *Store, rank codec.Rank, r Reader) []codec.KVal {
	t.Helper()
	b, ok := s.Reply(rank, r)
	if !ok {
		t.Fatalf("no reply for rank %d", rank)
	}
	reply, err := codec.DecodeGetReply(b)
	if err != nil {
		t.Fatal(err)
	}
	if want := (codec.Proc{Nspace: "ns", Rank: rank}); reply.Status != codec.StatusSuccess || len(reply.Data) != 1 || reply.Data[0].Proc != want {
		t.Fatalf("reply %v of %v, want success of %v", reply.Status, reply.Data, want)
	}
	pairs, err := reply.Data[0].Pairs()
	if err != nil {
		t.Fatal(err)
	}
	return pairs
}

func TestScopes(t *testing.T) {
	s := New("ns")
	mustCommit(t, s, 3, codec.ScopeLocal, str("a", "local"))
	mustCommit(t, s, 3, codec.ScopeRemote, str("a", "remote"))
	mustCommit(t, s, 3, codec.ScopeGlobal, str("b", "global"))
	mustCommit(t, s, 3, codec.ScopeInternal, str("c", "internal"))
	for r, want := range map[Reader][]codec.KVal{
		SameNode:  {str("a", "local"), str("b", "global")},
		OtherNode: {str("a", "remote"), str("b", "global")},
	} {
		if diff := cmp.Diff(want, replied(t, s, 3, r)); diff != "" {
			t.Errorf("reader %d (-want +got):\n%s", r, diff)
		}
		if s.Has(3, r, "c") || s.Has(3, r, "z") || !s.Has(3, r, "a") || !s.Has(3, r, "") {
			t.Errorf("reader %d finds the wrong keys", r)
		}
		if v, ok := s.Lookup(3, r, "a"); !ok || v != want[0].Value {
			t.Errorf("reader %d: a is %v, %v", r, v, ok)
		}
	}
	if _, ok := s.Reply(4, SameNode); ok || s.Has(4, SameNode, "") || s.Committed(4) {
		t.Error("a rank without a commit has data")
	}
	if _, ok := s.Lookup(4, SameNode, "a"); ok {
		t.Error("a rank without a commit has a key")
	}
}

func TestCommitReplaces(t *testing.T) {
	s := New("ns")
	mustCommit(t, s, 0, codec.ScopeLocal, str("a", "1"), str("b", "1"))
	replied(t, s, 0, SameNode)
	mustCommit(t, s, 0, codec.ScopeLocal, str("a", "2"), str("c", "1"))
	want := []codec.KVal{str("a", "2"), str("b", "1"), str("c", "1")}
	if diff := cmp.Diff(want, replied(t, s, 0, SameNode)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCommitRefuses(t *testing.T) {
	s := New("ns")
	good := pack(str("a", "1"))
	for name, c := range map[string]struct {
		scope codec.Scope
		data  []byte
	}{
		"undefined scope": {codec.ScopeUndef, good},
		"unknown scope":   {9, good},
		"cut off":         {codec.ScopeLocal, append(good, good[:3]...)},
	} {
		if err := s.Commit(0, c.scope, c.data); err == nil || s.Committed(0) {
			t.Errorf("%s: error %v and committed %v, want an error and nothing stored", name, err, s.Committed(0))
		}
	}
}

func TestEmptyCommitCounts(t *testing.T) {
	s := New("ns")
	mustCommit(t, s, 0, codec.ScopeLocal)
	if got := replied(t, s, 0, SameNode); len(got) != 0 || !s.Committed(0) {
		t.Errorf("reply %v, committed %v; want an empty reply and a commit", got, s.Committed(0))
	}
}

func TestReplyIsShared(t *testing.T) {
	s := New("ns")
	mustCommit(t, s, 0, codec.ScopeGlobal, str("a", "1"))
	first, _ := s.Reply(0, SameNode)
	if n := testing.AllocsPerRun(100, func() { s.Reply(0, SameNode) }); n != 0 {
		t.Errorf("%.0f allocations a reply, want none", n)
	}
	if second, _ := s.Reply(0, SameNode); &first[0] != &second[0] {
		t.Error("two gets without a commit between them got different replies")
	}
}

func TestExportImport(t *testing.T) {
	here, there := New("ns"), New("ns")
	mustCommit(t, here, 0, codec.ScopeRemote, str("a", "1"))
	mustCommit(t, here, 0, codec.ScopeLocal, str("a", "2"))
	data, ok := here.Export(0, OtherNode)
	if !ok {
		t.Fatal("nothing to export")
	}
	if err := there.Commit(0, codec.ScopeRemote, data.Packed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(replied(t, here, 0, OtherNode), replied(t, there, 0, OtherNode)); diff != "" {
		t.Errorf("(-here +there):\n%s", diff)
	}
	if _, ok := here.Export(1, OtherNode); ok {
		t.Error("export includes a rank without a commit")
	}
}

// After any sequence of commits, the store answers like a map of maps.
func TestStoreMatchesModel(t *testing.T) {
	type slot struct {
		rank  codec.Rank
		scope codec.Scope
		key   string
	}
	rapid.Check(t, func(t *rapid.T) {
		s, model := New("ns"), map[slot]string{}
		for i := range rapid.IntRange(0, 40).Draw(t, "steps") {
			at := slot{
				codec.Rank(rapid.IntRange(0, 2).Draw(t, "rank")), codec.Scope(rapid.IntRange(1, 4).Draw(t, "scope")),
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"),
			}
			model[at] = fmt.Sprint(i)
			if err := s.Commit(at.rank, at.scope, pack(str(at.key, model[at]))); err != nil {
				t.Fatal(err)
			}
			r := Reader(rapid.IntRange(0, 1).Draw(t, "reader"))
			want, found := "", false
			for _, scope := range visibleScopes(r) {
				if !found {
					want, found = model[slot{at.rank, scope, at.key}], model[slot{at.rank, scope, at.key}] != ""
				}
			}
			v, ok := s.Lookup(at.rank, r, at.key)
			if got, _ := v.Str(); ok != found || got != want {
				t.Fatalf("%+v for reader %d: %q, %v; want %q, %v", at, r, got, ok, want, found)
			}
		}
	})
}

func TestCommitLimit(t *testing.T) {
	s := New("ns")
	big := func(key string, n int) []byte {
		return pack(codec.KVal{Key: key, Value: codec.BytesValue(make([]byte, n))})
	}
	commit := func(rank codec.Rank, packed []byte) error { return s.Commit(rank, codec.ScopeGlobal, packed) }
	if err := commit(0, big("a", maxCommitted)); !errors.Is(err, ErrFull) || s.Committed(0) {
		t.Errorf("commit beyond the limit: %v, stored: %v", err, s.Committed(0))
	}
	const half = maxCommitted/2 - 100
	for _, key := range []string{"a", "b"} {
		if err := commit(0, big(key, half)); err != nil {
			t.Fatal(err)
		}
	}
	if err := commit(0, big("c", half)); !errors.Is(err, ErrFull) || s.Has(0, SameNode, "c") {
		t.Errorf("second commit beyond the limit: %v", err)
	}
	if err := commit(0, big("a", 1)); err != nil {
		t.Errorf("smaller value in place of a big one: %v", err)
	}
	if err := commit(0, big("c", half)); err != nil {
		t.Errorf("commit after space was freed: %v", err)
	}
	if err := commit(1, big("a", half)); err != nil {
		t.Errorf("commit of another process: %v", err)
	}
}

// A small value does not keep the memory of the message that it came in.
func TestCommitCopies(t *testing.T) {
	s := New("ns")
	packed := pack(str("a", "value"))
	if err := s.Commit(0, codec.ScopeLocal, packed); err != nil {
		t.Fatal(err)
	}
	clear(packed)
	if got := replied(t, s, 0, SameNode); len(got) != 1 || got[0].Value.String() != "value" {
		t.Errorf("%v, want what was committed", got)
	}
}
