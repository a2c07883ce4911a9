package fence

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// drawMessage draws a message that some node may send.
func drawMessage(t *rapid.T) *Message {
	text := rapid.StringN(0, 20, 40)
	m := &Message{Kind: ftco.MsgKind(rapid.IntRange(0, int(ftco.Alive)).Draw(t, "kind"))}
	m.ID.Op = server.Collective(text.Draw(t, "op"))
	m.ID.Group, m.ID.Procs = text.Draw(t, "group"), text.Draw(t, "procs")
	m.ID.Seq = rapid.Uint64Min(1).Draw(t, "seq")
	if m.Kind == msgCall {
		m.Spares, m.Expired = rapid.Bool().Draw(t, "spares"), rapid.Bool().Draw(t, "expired")
		for range rapid.IntRange(0, 5).Draw(t, "nodes") {
			m.Nodes = append(m.Nodes, int(rapid.Uint32().Draw(t, "node")))
		}
		for range rapid.IntRange(0, 5).Draw(t, "ranges") {
			first := rapid.Uint32Max(1<<31).Draw(t, "first")
			m.Procs = append(m.Procs, ProcRange{text.Draw(t, "space"), codec.Rank(first), codec.Rank(first + rapid.Uint32Max(1000).Draw(t, "more"))})
		}
		return m
	}
	m.Committed, m.HasValue = rapid.Bool().Draw(t, "committed"), rapid.Bool().Draw(t, "has value")
	if rapid.Bool().Draw(t, "has sets") {
		member := rapid.SliceOfN(rapid.Int32(), 0, 5)
		m.Sets = &ftco.Sets{Missing: member.Draw(t, "missing"), Failed: member.Draw(t, "failed")}
	}
	if m.HasValue {
		m.Value = rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "value")
	}
	return m
}

// empty makes lists without elements nil, so that messages can be compared.
func empty(m *Message) *Message {
	c := *m
	if len(c.Value) == 0 {
		c.Value = nil
	}
	if c.Sets != nil {
		c.Sets = &ftco.Sets{Missing: append([]ftco.Node(nil), c.Sets.Missing...), Failed: append([]ftco.Node(nil), c.Sets.Failed...)}
	}
	return &c
}

func TestMessagesArriveAsSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		b := m.Append(nil)
		got, err := ParseMessage(b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(empty(got), empty(m)) {
			t.Fatalf("%+v arrives as %+v", m, got)
		}
		if cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut"); !m.HasValue || cut < len(b)-len(m.Value) {
			if _, err := ParseMessage(b[:cut]); err == nil {
				t.Fatalf("%d of %d bytes are accepted", cut, len(b))
			}
		}
		if _, err := ParseMessage(append(b, 0)); err == nil && !m.HasValue {
			t.Fatal("a byte too many is accepted")
		}
	})
}

func TestMessagesThatNobodySends(t *testing.T) {
	call := func(change func(*Message)) []byte {
		m := &Message{ID: server.FenceID{FenceSet: testSet, Seq: 1}, Nodes: []int{0, 1}, Procs: []ProcRange{{testSpace, 0, 1}}}
		change(m)
		return m.Append(nil)
	}
	for _, c := range []struct {
		body []byte
		want string
	}{
		{nil, "too short"},
		{call(func(m *Message) { m.ID.Seq = 0 }), "fence number 0"},
		{call(func(m *Message) { m.Kind = ftco.Alive + 1 }), "kind 8, want at most 7"},
		{call(func(m *Message) { m.Committed = true }), "flags 0x4 of kind 0"},
		{call(func(m *Message) { m.Procs[0].First = 2 }), "processes 2 to 1"},
		{call(func(m *Message) { m.Procs[0].Last = maxProcs }), "want at most 1048576"},
		{(&Message{Kind: ftco.Up, ID: server.FenceID{Seq: 1}, Value: []byte{1}}).Append(nil), "without a value"},
	} {
		if _, err := ParseMessage(c.body); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("message %x: %v, want an error with %q", c.body, err, c.want)
		}
	}
}

// Whatever bytes come: a parser returns an error, or what is encoded as the same bytes.
func FuzzParseMessage(f *testing.F) {
	f.Add((&Message{ID: server.FenceID{FenceSet: testSet, Seq: 1}, Nodes: []int{0, 1}, Procs: []ProcRange{{testSpace, 0, 3}}}).Append(nil))
	f.Add((&Message{Kind: ftco.Down, ID: server.FenceID{FenceSet: testSet, Seq: 9}, HasValue: true, Sets: &ftco.Sets{Missing: []ftco.Node{1}, Failed: []ftco.Node{1, 2}}, Value: []byte{1, 2}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMessage(b)
		if err != nil {
			return
		}
		if got := m.Append(nil); !bytes.Equal(got, b) {
			t.Errorf("%x is read as %+v, which is written as %x", b, m, got)
		}
	})
}

// FuzzTake gives a driver frames of strangers.
func FuzzTake(f *testing.F) {
	m := &Message{ID: server.FenceID{FenceSet: testSet, Seq: 1}, Nodes: []int{0, 1}, Procs: []ProcRange{{testSpace, 0, 1}}}
	up := &Message{Kind: ftco.Up, ID: m.ID, HasValue: true, Value: appendPart(nil, 1, &server.FencePart{Data: []byte("x")})}
	for _, body := range append(wire.Split(m.Append(nil)), wire.Split(up.Append(nil))...) {
		f.Add(byte(0), body, byte(0), wire.Split(up.Append(nil))[0])
	}
	q := fetchRequest{1, codec.Proc{Nspace: testSpace}, "a"}
	f.Add(byte(1), wire.Split(q.append(nil))[0], byte(2), wire.Split((&fetchAnswer{1, 0, []byte{1}}).append(nil))[0])
	f.Fuzz(func(_ *testing.T, kind1 byte, body1 []byte, kind2 byte, body2 []byte) {
		d, err := New(Config{Layout: Layout{Me: 0, Nodes: 2, NodeOf: func(codec.Proc) (int, bool) { return 1, true }}, Send: func(int, wire.Frame) {}})
		if err != nil {
			panic(err)
		}
		d.Fetch(codec.Proc{Nspace: testSpace}, "a")
		d.Take(1, wire.Frame{Kind: wire.KindFence + wire.Kind(kind1%3), Body: body1})
		d.Fence(server.FencePart{FenceCall: (&scenario{n: 2}).call(1)})
		d.Take(1, wire.Frame{Kind: wire.KindFence + wire.Kind(kind2%3), Body: body2})
		d.NodeDead(1)
	})
}

func TestFetchesArriveAsSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := fetchRequest{rapid.Uint64().Draw(t, "number"), codec.Proc{Nspace: rapid.String().Draw(t, "space"), Rank: codec.Rank(rapid.Uint32().Draw(t, "rank"))}, rapid.String().Draw(t, "key")}
		b := q.append(nil)
		if got, err := parseFetchRequest(b); err != nil || got != q {
			t.Fatalf("%+v arrives as %+v, %v", q, got, err)
		}
		if _, err := parseFetchRequest(b[:len(b)-1]); err == nil {
			t.Fatal("a request without its end is accepted")
		}
		if _, err := parseFetchRequest(append(b, 0)); err == nil {
			t.Fatal("a request with a byte too many is accepted")
		}
		a := fetchAnswer{q.number, codec.Status(rapid.Int32().Draw(t, "status")), rapid.SliceOf(rapid.Byte()).Draw(t, "data")}
		if got, err := parseFetchAnswer(a.append(nil)); err != nil || got.number != a.number || got.status != a.status || !bytes.Equal(got.data, a.data) {
			t.Fatalf("%+v arrives as %+v, %v", a, got, err)
		}
		if _, err := parseFetchAnswer(a.append(nil)[:11]); err == nil {
			t.Fatal("an answer without a status is accepted")
		}
	})
}
