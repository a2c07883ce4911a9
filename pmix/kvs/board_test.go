package kvs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/pmix/codec"
)

func newTestBoard() *Board { return NewBoard(BoardLimits{Keys: 8, Bytes: 1000, Total: 1500}) }

func party(nspace string, rank codec.Rank) Party {
	return Party{Proc: codec.Proc{Nspace: nspace, Rank: rank}, UID: 7}
}

func data(keys ...string) []codec.KVal {
	var out []codec.KVal
	for _, k := range keys {
		out = append(out, codec.KVal{Key: k, Value: codec.StringValue("value of " + k)})
	}
	return out
}

func publish(t *testing.T, b *Board, owner Party, terms Terms, keys ...string) {
	t.Helper()
	if status, err := b.Publish(owner, terms, data(keys...)); status != codec.StatusSuccess {
		t.Fatalf("publish %v: %v, %v", keys, status, err)
	}
}

// owners returns the owners of the values that a reader finds.
func owners(b *Board, reader Party, from Terms, keys ...string) string {
	found, denied := b.Find(reader, from, keys)
	var out []string
	for _, n := range found {
		out = append(out, fmt.Sprintf("%s of %v", n.Key, n.Owner.Proc))
	}
	if denied {
		out = append(out, "denied")
	}
	return strings.Join(out, ", ")
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestBoardRanges(t *testing.T) {
	me, peer, stranger := party("a", 0), party("a", 1), party("b", 0)
	far := party("a", 2)
	far.Node = 1
	member := []codec.Proc{{Nspace: "b", Rank: codec.RankWildcard}}
	for _, c := range []struct {
		terms   Terms
		readers []Party
	}{
		{Terms{Range: codec.RangeProcLocal}, []Party{me}},
		{Terms{Range: codec.RangeNamespace}, []Party{me, peer, far}},
		{Terms{Range: codec.RangeLocal}, []Party{me, peer, stranger}},
		{Terms{Range: codec.RangeSession}, []Party{me, peer, far, stranger}},
		{Terms{Range: codec.RangeGlobal}, []Party{me, peer, far, stranger}},
		{Terms{Range: codec.RangeUndef}, []Party{me, peer, far, stranger}},
		{Terms{Range: codec.RangeCustom, Members: member}, []Party{stranger}},
		{Terms{Range: codec.RangeRM}, nil},
	} {
		b := newTestBoard()
		publish(t, b, me, c.terms, "k")
		for _, reader := range []Party{me, peer, far, stranger} {
			want := ""
			if slices.Contains(c.readers, reader) {
				want = "k of a.0"
			}
			expect(t, fmt.Sprintf("range %d, reader %v", c.terms.Range, reader.Proc), owners(b, reader, Terms{}, "k"), want)
		}
	}
}

// A reader's range limits whose data it finds, in addition to the publisher's range.
func TestBoardReaderRange(t *testing.T) {
	b := newTestBoard()
	publish(t, b, party("a", 0), Terms{Range: codec.RangeSession}, "k")
	other := party("b", 0)
	expect(t, "session", owners(b, other, Terms{Range: codec.RangeSession}, "k"), "k of a.0")
	expect(t, "namespace", owners(b, other, Terms{Range: codec.RangeNamespace}, "k"), "")
	expect(t, "same namespace", owners(b, party("a", 1), Terms{Range: codec.RangeNamespace}, "k"), "k of a.0")
	expect(t, "own", owners(b, party("a", 1), Terms{Range: codec.RangeProcLocal}, "k"), "")
	from := Terms{Range: codec.RangeCustom, Members: []codec.Proc{{Nspace: "a", Rank: 0}}}
	expect(t, "custom", owners(b, other, from, "k"), "k of a.0")
	from.Members[0].Rank = 1
	expect(t, "custom, others", owners(b, other, from, "k"), "")
}

func TestBoardNarrowestRangeWins(t *testing.T) {
	b := newTestBoard()
	publish(t, b, party("a", 0), Terms{Range: codec.RangeSession}, "k")
	publish(t, b, party("a", 1), Terms{Range: codec.RangeNamespace}, "k")
	publish(t, b, party("a", 2), Terms{Range: codec.RangeProcLocal}, "k")
	publish(t, b, party("b", 2), Terms{Range: codec.RangeNamespace}, "k")
	expect(t, "a.2", owners(b, party("a", 2), Terms{}, "k"), "k of a.2")
	expect(t, "a.0", owners(b, party("a", 0), Terms{}, "k"), "k of a.1")
	expect(t, "b.0", owners(b, party("b", 0), Terms{}, "k", "none"), "k of b.2")
	expect(t, "c.0", owners(b, party("c", 0), Terms{}, "k"), "k of a.0")
}

func TestBoardDuplicates(t *testing.T) {
	toB := []codec.Proc{{Nspace: "b", Rank: 1}}
	for _, c := range []struct {
		first, second Party
		terms         Terms
		members       []codec.Proc // members of the second range, if it is custom
		clash         bool
	}{
		{party("a", 0), party("a", 0), Terms{Range: codec.RangeSession}, nil, true},
		{party("a", 0), party("b", 0), Terms{Range: codec.RangeSession}, nil, true},
		{party("a", 0), party("b", 0), Terms{Range: codec.RangeGlobal}, nil, true},
		{party("a", 0), party("a", 1), Terms{Range: codec.RangeNamespace}, nil, true},
		{party("a", 0), party("b", 0), Terms{Range: codec.RangeNamespace}, nil, false},
		{party("a", 0), party("a", 1), Terms{Range: codec.RangeProcLocal}, nil, false},
		{party("a", 0), Party{Proc: codec.Proc{Nspace: "a", Rank: 1}, Node: 1, UID: 7}, Terms{Range: codec.RangeLocal}, nil, false},
		{party("a", 0), party("a", 1), Terms{Range: codec.RangeCustom, Members: toB}, toB, true},
		{party("a", 0), party("a", 1), Terms{Range: codec.RangeCustom, Members: toB}, []codec.Proc{{Nspace: "b", Rank: codec.RankWildcard}}, true},
		{party("a", 0), party("a", 1), Terms{Range: codec.RangeCustom, Members: toB}, []codec.Proc{{Nspace: "b", Rank: 2}}, false},
		{party("a", 0), Party{Proc: codec.Proc{Nspace: "b"}, UID: 8}, Terms{Range: codec.RangeSession}, nil, false},
	} {
		b := newTestBoard()
		publish(t, b, c.first, c.terms, "k")
		second := c.terms
		second.Members = c.members
		status, err := b.Publish(c.second, second, data("other", "k"))
		if clash := status == codec.StatusErrDuplicateKey; clash != c.clash {
			t.Errorf("range %d, %v after %v: %v, %v; want a conflict: %v", c.terms.Range, c.second.Proc, c.first.Proc, status, err, c.clash)
		}
		if _, there := b.keys["other"]; there == c.clash {
			t.Errorf("range %d: part of a refused request was stored, or an accepted one was not", c.terms.Range)
		}
	}
	b := newTestBoard()
	if status, _ := b.Publish(party("a", 0), Terms{}, data("k", "k")); status != codec.StatusErrDuplicateKey {
		t.Errorf("one key twice in a request: %v", status)
	}
}

func TestBoardAccess(t *testing.T) {
	b := newTestBoard()
	publish(t, b, party("a", 0), Terms{Users: []uint32{8}}, "shared")
	publish(t, b, party("a", 0), Terms{}, "own")
	for uid, want := range map[uint32]string{
		7: "shared of a.0, own of a.0", 8: "shared of a.0, denied", 9: "denied",
	} {
		reader := party("b", 0)
		reader.UID = uid
		expect(t, fmt.Sprint("user ", uid), owners(b, reader, Terms{}, "shared", "own"), want)
	}
}

func TestBoardPersistence(t *testing.T) {
	b := newTestBoard()
	for persist, key := range []string{"indef", "first", "proc", "app", "session"} {
		publish(t, b, party("a", 0), Terms{Persist: codec.Persistence(persist)}, key)
	}
	all := []string{"indef", "first", "proc", "app", "session"}
	left := func() string {
		return strings.ReplaceAll(owners(b, party("a", 1), Terms{}, all...), " of a.0", "")
	}
	found, _ := b.Find(party("a", 1), Terms{}, []string{"first", "first", "indef"})
	b.Read(found)
	expect(t, "after a read", left(), "indef, proc, app, session")
	b.ProcEnded(codec.Proc{Nspace: "a", Rank: 1})
	b.AppEnded("a", 1)
	expect(t, "others ended", left(), "indef, proc, app, session")
	b.ProcEnded(codec.Proc{Nspace: "a", Rank: 0})
	expect(t, "publisher ended", left(), "indef, app, session")
	b.AppEnded("a", 0)
	expect(t, "application ended", left(), "indef, session")
}

func TestBoardUnpublish(t *testing.T) {
	b, me := newTestBoard(), party("a", 0)
	publish(t, b, me, Terms{Range: codec.RangeSession}, "k", "l")
	publish(t, b, me, Terms{Range: codec.RangeNamespace}, "k")
	publish(t, b, party("a", 1), Terms{}, "theirs")
	for _, c := range []struct {
		rng         codec.Range
		keys        []string
		own, others int
		left        string
	}{
		{codec.RangeLocal, []string{"k"}, 0, 0, "k of a.0, l of a.0, theirs of a.1"},
		{codec.RangeUndef, []string{"none", "theirs"}, 0, 1, "k of a.0, l of a.0, theirs of a.1"},
		{codec.RangeNamespace, []string{"k"}, 1, 0, "k of a.0, l of a.0, theirs of a.1"},
		{codec.RangeUndef, []string{"k"}, 1, 0, "l of a.0, theirs of a.1"},
		{codec.RangeUndef, nil, 0, 0, "theirs of a.1"},
	} {
		own, others := b.Unpublish(me, c.rng, c.keys)
		if own != c.own || others != c.others {
			t.Errorf("unpublish %v: %d own, %d others; want %d, %d", c.keys, own, others, c.own, c.others)
		}
		expect(t, fmt.Sprint("left after ", c.keys), owners(b, party("a", 2), Terms{}, "k", "l", "theirs"), c.left)
	}
}

func TestBoardLimits(t *testing.T) {
	big := func(key string, n int) []codec.KVal {
		return []codec.KVal{{Key: key, Value: codec.BytesValue(make([]byte, n))}}
	}
	b := newTestBoard()
	for i := range 8 {
		publish(t, b, party("a", 0), Terms{}, fmt.Sprint("k", i))
	}
	for name, status := range map[string]codec.Status{
		"keys":  first(b.Publish(party("a", 0), Terms{}, big("more", 1))),
		"bytes": first(b.Publish(party("a", 1), Terms{}, big("more", 1001))),
	} {
		if status != codec.StatusErrOutOfResource {
			t.Errorf("%s: %v, want PMIX_ERR_OUT_OF_RESOURCE", name, status)
		}
	}
	if s := first(b.Publish(party("a", 1), Terms{}, big("b1", 900))); s != codec.StatusSuccess {
		t.Errorf("publish of 900 bytes: %v", s)
	}
	if s := first(b.Publish(party("a", 2), Terms{}, big("b2", 900))); s != codec.StatusErrOutOfResource {
		t.Errorf("publish beyond the total: %v", s)
	}
	b.Unpublish(party("a", 1), codec.RangeUndef, nil)
	if s := first(b.Publish(party("a", 2), Terms{}, big("b2", 900))); s != codec.StatusSuccess {
		t.Errorf("publish after space was freed: %v", s)
	}
}

func first(s codec.Status, _ error) codec.Status { return s }

func TestBoardRefusesWhatCannotBeSent(t *testing.T) {
	b := newTestBoard()
	kv := codec.KVal{Key: "k", Value: codec.Value{Type: codec.TypeString, Data: 5}}
	if s, err := b.Publish(party("a", 0), Terms{}, []codec.KVal{kv}); s != codec.StatusErrBadParam || err == nil {
		t.Errorf("value of the wrong Go type: %v, %v", s, err)
	}
}

// After any sequence of publishing, reading and dropping, the counts of bytes and keys equal those of the stored data.
func TestBoardAccounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newTestBoard()
		who := func() Party {
			return party(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "nspace"), codec.Rank(rapid.IntRange(0, 2).Draw(t, "rank")))
		}
		keys := func() []string {
			return rapid.SliceOfN(rapid.SampledFrom([]string{"k", "l", "m"}), 0, 3).Draw(t, "keys")
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				terms := Terms{
					Range:   codec.Range(rapid.IntRange(0, 7).Draw(t, "range")),
					Persist: codec.Persistence(rapid.IntRange(0, 4).Draw(t, "persist")),
				}
				_, _ = b.Publish(who(), terms, data(keys()...))
			case 1:
				found, _ := b.Find(who(), Terms{}, keys())
				b.Read(found)
			case 2:
				b.Unpublish(who(), codec.RangeUndef, keys())
			case 3:
				b.ProcEnded(who().Proc)
			case 4:
				b.AppEnded(who().Proc.Nspace, 0)
			}
			check(t, b)
		}
	})
}

func check(t *rapid.T, b *Board) {
	total, used := 0, map[codec.Proc]usage{}
	for _, list := range b.keys {
		for _, n := range list {
			u := used[n.Owner.Proc]
			u.keys++
			u.bytes += n.size
			used[n.Owner.Proc] = u
			total += n.size
		}
		if len(list) == 0 {
			t.Fatal("an empty list is still stored")
		}
	}
	if total != b.total || len(used) != len(b.used) {
		t.Fatalf("the board counts %d bytes of %d owners, but stores %d of %d", b.total, len(b.used), total, len(used))
	}
	for p, u := range used {
		if *b.used[p] != u {
			t.Fatalf("the board counts for %v %+v, but stores %+v", p, *b.used[p], u)
		}
	}
}
