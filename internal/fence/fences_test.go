package fence

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// describe writes outputs as lines.
func describe(outputs []Output) (lines []string) {
	for _, o := range outputs {
		switch o.Kind {
		case Send:
			lines = append(lines, fmt.Sprintf("send %d kind %d #%d", o.To, o.Message.Kind, o.Message.ID.Seq))
		case Called:
			lines = append(lines, fmt.Sprintf("called #%d", o.Call.ID.Seq))
		case Expired:
			lines = append(lines, fmt.Sprintf("expired #%d", o.Call.ID.Seq))
		case Done:
			lines = append(lines, fmt.Sprintf("done #%d %v %s", o.ID.Seq, o.Status, o.Data))
		case Fault:
			lines = append(lines, "fault "+o.Err.Error())
		}
	}
	return lines
}

func expect(t *testing.T, outputs []Output, want ...string) {
	t.Helper()
	if got := describe(outputs); !slices.Equal(got, want) {
		t.Errorf("outputs\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// newTestFences makes the core of a node of several, with a process on each.
func newTestFences(t *testing.T, me, nodes int) *Fences {
	t.Helper()
	f, err := NewFences(testLayout(me, nodes))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func testLayout(me, nodes int) Layout {
	return Layout{Me: me, Nodes: nodes, Radix: 2, NodeOf: func(p codec.Proc) (int, bool) { return int(p.Rank), int(p.Rank) < nodes }}
}

func testPart(nodes int, seq uint64, data string) *server.FencePart {
	return &server.FencePart{FenceCall: (&scenario{n: nodes}).call(seq), Data: []byte(data)}
}

// testCall is the call of a fence among some nodes.
func testCall(seq uint64, nodes ...int) *Message {
	return &Message{ID: server.FenceID{FenceSet: testSet, Seq: seq}, Nodes: nodes, Procs: []ProcRange{{testSpace, 0, codec.Rank(len(nodes) - 1)}}}
}

// pass passes the messages among outputs on to another core, and returns the rest and the other core's outputs.
func pass(from int, outputs []Output, to *Fences) (rest, out []Output) {
	for _, o := range outputs {
		if o.Kind == Send {
			out = to.Receive(from, o.Message, out)
		} else {
			rest = append(rest, o)
		}
	}
	return rest, out
}

// A part that is handed in before the machine has returned waits.
func TestPartsWaitForTheirTurn(t *testing.T) {
	a, b := newTestFences(t, 0, 2), newTestFences(t, 1, 2)
	out := a.HandIn(testPart(2, 1, "a1 "), nil)
	out = a.HandIn(testPart(2, 2, "a2 "), out)
	out = a.HandIn(testPart(2, 2, "again"), out) // is no further part
	expect(t, out, "send 1 kind 0 #1", "send 1 kind 0 #2")
	_, out = pass(0, out, b)
	expect(t, out, "called #1")
	out = b.HandIn(testPart(2, 1, "b1"), nil)
	expect(t, out, "called #2", "send 0 kind 1 #1")
	out = b.HandIn(testPart(2, 2, "b2"), out)
	var all []string
	toA, toB := out, []Output(nil)
	for len(toA)+len(toB) > 0 {
		rest, atA := pass(1, toA, a)
		more, atB := pass(0, toB, b)
		all = append(all, describe(slices.Concat(rest, more))...)
		toA, toB = atB, atA
	}
	want := []string{"called #2", "done #1 PMIX_SUCCESS a1 b1", "done #1 PMIX_SUCCESS a1 b1", "done #2 PMIX_SUCCESS a2 b2", "done #2 PMIX_SUCCESS a2 b2"}
	if !slices.Equal(all, want) {
		t.Errorf("outputs %q, want %q", all, want)
	}
	for _, f := range []*Fences{a, b} {
		if s := f.sets[testSet]; len(s.bufs)+len(s.calls)+len(s.queue) != 0 {
			t.Errorf("%d buffers, %d calls and %d parts are kept, want none", len(s.bufs), len(s.calls), len(s.queue))
		}
	}
}

// A fence whose nodes are not known here ends here with an error, and so it does elsewhere.
func TestFenceOfProcessesThatNobodyKnows(t *testing.T) {
	f := newTestFences(t, 1, 2)
	p := testPart(2, 1, "")
	p.Procs = append(p.Procs, codec.Proc{Nspace: testSpace, Rank: 9})
	expect(t, f.HandIn(p, nil), "fault fence job-1:*#1 of the local server: the node of process job-1.9 is not known", "done #1 PMIX_ERR_NOT_FOUND ")
	out := f.Receive(0, testCall(1, 0, 1), nil)
	expect(t, out, "called #1", "send 0 kind 1 #1")
	if r := (reader{rest: out[1].Message.Value}); r.part().status != codec.StatusErrNotFound {
		t.Errorf("the part is %x, want one with PMIX_ERR_NOT_FOUND", out[1].Message.Value)
	}
	if len(f.unplaced) != 0 {
		t.Error("the error is kept, want it given away")
	}
}

func TestFaultsOfOthers(t *testing.T) {
	up := &Message{Kind: ftco.Up, ID: server.FenceID{FenceSet: testSet, Seq: 1}}
	wrong := &Message{Kind: ftco.Up, ID: up.ID, Sets: &ftco.Sets{Missing: []ftco.Node{2}}}
	for _, c := range []struct {
		name string
		do   func(f *Fences) []Output
		want string
	}{
		{"unknown set", func(f *Fences) []Output { return newTestFences(t, 0, 4).Receive(1, up, nil) }, "which no node has called"},
		{"other nodes", func(f *Fences) []Output { return f.Receive(1, testCall(1, 0, 1, 2), nil) }, "want [0 1] as before"},
		{"not among them", func(f *Fences) []Output { return f.Receive(2, testCall(1, 0, 1), nil) }, "want itself to take part"},
		{"no participant", func(f *Fences) []Output { return f.Receive(2, up, nil) }, "in which it does not take part"},
		{"without us", func(f *Fences) []Output { return newTestFences(t, 0, 4).Receive(1, testCall(1, 1, 2), nil) }, "want node 0 to take part"},
		{"order of nodes", func(f *Fences) []Output { return newTestFences(t, 0, 4).Receive(1, testCall(1, 1, 0), nil) }, "want ascending numbers below 4"},
		{"unknown node", func(f *Fences) []Output { return newTestFences(t, 0, 4).Receive(1, testCall(1, 0, 1, 4), nil) }, "want ascending numbers below 4"},
		{"member", func(f *Fences) []Output { return f.Receive(1, wrong, nil) }, "with member 2, want one below 2"},
		{"far ahead", func(f *Fences) []Output { return f.Receive(1, testCall(maxAhead+2, 0, 1), nil) }, "want a number of at most 1025"},
		{"gap", func(f *Fences) []Output { return f.HandIn(testPart(2, 3, ""), nil) }, "after number 1"},
		{"bad layout", func(f *Fences) []Output {
			f.layout.NodeOf = func(codec.Proc) (int, bool) { return 4, true }
			p := testPart(2, 1, "")
			p.ID.Procs = "other"
			return f.HandIn(p, nil)[:1]
		}, "is on node 4, want a node from 0 to 3"},
	} {
		f := newTestFences(t, 0, 4)
		f.HandIn(testPart(2, 1, ""), nil)
		out := describe(c.do(f))
		if len(out) != 1 || !strings.HasPrefix(out[0], "fault ") || !strings.Contains(out[0], c.want) {
			t.Errorf("%s: %q, want a fault with %q", c.name, out, c.want)
		}
	}
}

func TestLayoutsThatCannotBe(t *testing.T) {
	for _, change := range []func(l *Layout){
		func(l *Layout) { l.Me = 2 },
		func(l *Layout) { l.Me = -1 },
		func(l *Layout) { l.Nodes = 0 },
		func(l *Layout) { l.NodeOf = nil },
		func(l *Layout) { l.Radix = 1 },
	} {
		l := testLayout(0, 2)
		change(&l)
		if _, err := New(Config{Layout: l, Send: func(int, wire.Frame) {}}); err == nil {
			t.Errorf("layout %+v is accepted, want an error", l)
		}
	}
	if _, err := New(Config{Layout: testLayout(0, 2)}); err == nil {
		t.Error("a driver without Send is accepted, want an error")
	}
}

// Processes of a node that was added take part once the node is announced.
func TestGrow(t *testing.T) {
	layout := testLayout(0, 3)
	layout.Nodes = 2
	for _, grows := range []bool{false, true} {
		f, err := NewFences(layout)
		if err != nil {
			t.Fatal(err)
		}
		if grows {
			f.Grow(3)
			f.Grow(1) // it has no fewer for that
		}
		out := describe(f.HandIn(testPart(3, 1, "a"), nil))
		if faulty := strings.HasPrefix(out[0], "fault "); faulty == grows {
			t.Errorf("with node 2 announced: %t, outputs %q", grows, out)
		}
	}
}
