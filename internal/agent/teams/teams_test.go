package teams

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/internal/fold"
	"github.com/goshmem/goshmem/symheap/layout"
)

// testNode is a node whose teams a test drives.
type testNode struct {
	*Teams
	words []*layout.Upper
	dead  []bool
	logs  []string
	sent  []sent
}

type sent struct {
	to      int
	message string
}

// newTestNode returns node 0 of some, with some PEs.
func newTestNode(nodes, locals int) *testNode {
	n := &testNode{dead: make([]bool, locals)}
	for range locals {
		n.words = append(n.words, new(layout.Upper))
	}
	var world []int
	for i := range nodes {
		world = append(world, i)
	}
	n.Teams = New(Config{
		Nodes: nodes, Locals: locals, Radix: 2, World: world,
		Words: func(pe layout.Local) *layout.Upper { return n.words[pe] },
		Dead:  func(pe layout.Local) bool { return n.dead[pe] },
		Wake:  func(layout.Local) {},
		Send:  func(to int, m []byte, _ bool) { n.sent = append(n.sent, sent{to, string(m)}) },
		Log:   func(err error) { n.logs = append(n.logs, err.Error()) },
	})
	return n
}

// describe describes a team of all nodes and some PEs as a PE, with 0 as the place of the node.
func (n *testNode) describe(pe, id int, called name, start uint64, members ...int) *layout.UpperPart {
	p := &n.words[pe].Parts[id]
	p.Start, p.Name, p.Nodes, p.Members = start, called, uint32(n.cfg.Nodes), uint32(len(members))
	p.Local = [layout.MaxLocal / 64]uint64{}
	for i := range n.cfg.Nodes {
		p.Node[i] = uint16(i)
	}
	for _, i := range members {
		p.Local[i/64] |= 1 << (i % 64)
	}
	for line := range n.words[pe].Lines {
		n.words[pe].Lines[line][id].Cell.Word = start
	}
	return p
}

// enter has a PE enter a step of a team, with bytes besides.
func (n *testNode) enter(pe, id int, seq uint64, give int) {
	l := &n.words[pe].Lines[layout.UpperSteps][id]
	r := span.Record{Differs: -1, Who: -1, Member: int32(pe), Give: uint16(give)}
	copy(l.Cell.Data[:], r.Bytes())
	atomic.StoreUint64(&l.Cell.Word, seq)
}

// messageOf returns a message of another node for a line of a team.
func messageOf(called name, line int, m *span.Message) []byte {
	b := []byte{byte(kindPart), byte(line)}
	b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, called[0]), called[1])
	return m.Append(b)
}

// value returns what a node contributes with bytes besides, and its exceptions.
func value(gave []byte, without ...span.Exception) *span.Value {
	r := span.Record{Differs: -1, Who: -1, Member: 1}
	return &span.Value{Data: append(append([]byte{}, r.Bytes()...), gave...), Without: without}
}

// A description that is nonsense is an error of the PE that wrote it, and makes no team.
func TestNonsense(t *testing.T) {
	for what, spoil := range map[string]func(p *layout.UpperPart){
		"no nodes":           func(p *layout.UpperPart) { p.Nodes = 0 },
		"too many nodes":     func(p *layout.UpperPart) { p.Nodes = layout.UpperNodes + 1 },
		"very many nodes":    func(p *layout.UpperPart) { p.Nodes = 1<<32 - 1 },
		"place":              func(p *layout.UpperPart) { p.Me = p.Nodes },
		"other place":        func(p *layout.UpperPart) { p.Me = 1 },
		"node of no job":     func(p *layout.UpperPart) { p.Node[1] = 3 },
		"node twice":         func(p *layout.UpperPart) { p.Node[2] = 1 },
		"fewer members":      func(p *layout.UpperPart) { p.Members = 1 },
		"more members":       func(p *layout.UpperPart) { p.Members = 3 },
		"no members":         func(p *layout.UpperPart) { p.Members, p.Local[0] = 0, 0 },
		"not itself":         func(p *layout.UpperPart) { p.Local[0] = 6 },
		"PE of no node":      func(p *layout.UpperPart) { p.Local[0] = 1 | 1<<40 },
		"name of the world":  func(p *layout.UpperPart) { p.Name = name{layout.UpperFirstWorld, 0} },
		"name of other team": func(p *layout.UpperPart) { p.Name = name{9, 9} },
	} {
		t.Run(what, func(t *testing.T) {
			n := newTestNode(3, 3)
			n.describe(1, 6, name{9, 9}, 4, 1, 2)
			if err := n.Announced(1, 6); err != nil {
				t.Fatal(err)
			}
			spoil(n.describe(0, 5, name{7, 7}, 4, 0, 1))
			if err := n.Announced(0, 5); err == nil || !strings.Contains(err.Error(), "want") && !strings.Contains(err.Error(), "node") {
				t.Errorf("error %v, want one that says what is wrong", err)
			}
			if len(n.named) != 2 || len(n.latest[5]) != 0 {
				t.Errorf("%d teams known, want 2", len(n.named))
			}
		})
	}
}

// A PE that has described nothing says nothing.
func TestNoDescription(t *testing.T) {
	n := newTestNode(2, 1)
	for id := range layout.UpperTeams {
		if err := n.Announced(0, id); err != nil {
			t.Errorf("id %d: %v", id, err)
		}
	}
}

// What members give and does not fit into a result makes it UpperTooMuch. What just fits is there.
func TestTooMuch(t *testing.T) {
	for _, x := range []struct{ gave, lacks int }{{layout.UpperBody, 0}, {layout.UpperBody + 1, 0}, {1 << 20, 0}, {layout.UpperBody - 16, 2}, {layout.UpperBody - 15, 2}, {8, 5000}, {0, 5000}} {
		n := newTestNode(2, 1)
		world := name{layout.UpperFirstWorld, 0}
		n.describe(0, 0, world, 4, 0)
		if err := n.Announced(0, 0); err != nil {
			t.Fatal(err)
		}
		var gave []byte
		if x.gave > 0 {
			gave = span.AppendPiece(nil, 1, 0, make([]byte, x.gave-span.PieceBytes(1, 0)))
		}
		var without []span.Exception
		for i := range x.lacks {
			without = append(without, span.Exception{Node: 1, Member: int32(i), Why: board.Died})
		}
		n.Receive(1, messageOf(world, layout.UpperSteps, &span.Message{Kind: ftco.Up, Seq: 1, Value: value(gave, without...)}))
		n.enter(0, 0, 5, 0)
		if err := n.Announced(0, 0); err != nil {
			t.Fatal(err)
		}
		r := &n.words[0].Lines[layout.UpperSteps][0].Result
		want := uint32(x.gave)
		if x.gave+min(x.lacks, layout.UpperBody/layout.UpperLackBytes)*layout.UpperLackBytes > layout.UpperBody {
			want = layout.UpperTooMuch
		}
		if r.Seq != 5 || r.Gave != want || r.Lacks != uint32(x.lacks) {
			t.Errorf("%d bytes and %d members: result %d with %d and %d, want 5 with %d; log %q", x.gave, x.lacks, r.Seq, r.Gave, r.Lacks, want, n.logs)
		}
		if k := layout.UpperBody/layout.UpperLackBytes - 1; x.lacks > k {
			last := (*layout.UpperLack)(unsafe.Pointer(&r.Body[k*layout.UpperLackBytes]))
			if *last != (layout.UpperLack{Node: 1, Member: uint16(k), Why: uint32(board.Died)}) {
				t.Errorf("last member %+v, want %d", *last, k)
			}
		}
	}
}

// Messages of nodes that are not of the team, and for lines that there are not, are logged and change nothing.
func TestBadMessages(t *testing.T) {
	world := name{layout.UpperFirstWorld, 0}
	good := messageOf(world, 0, &span.Message{Kind: ftco.Up, Seq: 1, Value: value(nil)})
	for what, m := range map[string][]byte{
		"nothing": {}, "short": good[:17], "head alone": good[:18], "line": append([]byte{1, layout.UpperLines}, good[2:]...),
		"kind": append([]byte{9}, good[1:]...), "kind 0": append([]byte{0}, good[1:]...), "cut": good[:40],
		"little data": good[: len(good)-1 : len(good)-1],
	} {
		n := newTestNode(2, 1)
		n.Receive(1, m)
		if len(n.logs) != 1 || len(n.early) != 0 || len(n.sent) != 0 {
			t.Errorf("%s: log %q, want one line; %d early, %d sent", what, n.logs, len(n.early), len(n.sent))
		}
	}
	n := newTestNode(2, 1)
	n.Receive(0, good) // itself
	n.Receive(7, good)
	if len(n.logs) != 2 {
		t.Errorf("log %q, want two lines", n.logs)
	}
}

// A PE that has died before it entered a step is missing as dead, and one that has entered it contributes, also if it has a successor when
// its node comes to judge it. The successor's words stay as they are.
func TestSuccessor(t *testing.T) {
	for k := range 4 {
		clears, entered := k&1 != 0, k&2 != 0
		n := newTestNode(2, 3)
		called := name{7, 7}
		for pe := range 3 {
			n.describe(pe, 5, called, 10, 0, 1, 2)
			if err := n.Announced(layout.Local(pe), 5); err != nil {
				t.Fatal(err)
			}
		}
		n.enter(2, 5, 11, 0)
		if entered {
			n.enter(1, 5, 11, 8)
		}
		n.dead[1] = true
		n.Dies(1, 0) // PE 0 is judged first, and has not entered
		n.dead[1] = false
		if clears {
			*n.words[1] = layout.Upper{}
			n.describe(1, 6, name{8, 8}, 2, 1)
		}
		before := *n.words[1]
		n.Receive(1, messageOf(called, layout.UpperSteps, &span.Message{Kind: ftco.Up, Seq: 1, Value: value(nil)}))
		n.enter(0, 5, 11, 0)
		if err := n.Announced(0, 5); err != nil {
			t.Fatal(err)
		}
		for _, pe := range []int{0, 2} {
			r := &n.words[pe].Lines[layout.UpperSteps][5].Result
			if entered {
				if r.Seq != 11 || r.Lacks != 0 || r.Gave != uint32(span.PieceBytes(1, 8)) {
					t.Errorf("PE %d: result of step %d without %d members and with %d bytes, want that of step 11 with what the dead member 1 gave", pe, r.Seq, r.Lacks, r.Gave)
				}
				continue
			}
			if l := (*layout.UpperLack)(unsafe.Pointer(&r.Body[0])); r.Seq != 11 || r.Lacks != 1 || *l != (layout.UpperLack{Member: 1, Why: uint32(board.Died)}) {
				t.Errorf("PE %d: result of step %d without %d members, the first one %+v; want that of step 11 without the dead member 1", pe, r.Seq, r.Lacks, *l)
			}
		}
		if *n.words[1] != before {
			t.Error("the agent has written in the words of the successor")
		}
	}
}

// A team that other nodes have not described is forgotten when its members' words are used again, but not before the step of its parent has a
// result: until then others may describe it, and ask.
func TestTeamOfOneNode(t *testing.T) {
	n := newTestNode(2, 1)
	world, called := name{layout.UpperFirstWorld, 0}, name{3, 3}
	n.describe(0, 0, world, 4, 0)
	n.describe(0, 5, called, 10, 0).Origin = layout.UpperOrigin{Parent: world, Line: layout.UpperSteps, Step: 1}
	announce := func(id int) {
		t.Helper()
		if err := n.Announced(0, id); err != nil {
			t.Fatal(err)
		}
	}
	announce(0)
	announce(5)
	n.enter(0, 0, 5, 0)
	announce(0) // PE 0 has entered, and its context ends: it gives the new team up
	n.describe(0, 5, name{4, 4}, 20, 0)
	announce(5)
	gone := messageOf(called, 0, &span.Message{})[:headBytes]
	gone[0] = byte(kindGone)
	if slices.Contains(n.sent, sent{1, string(gone)}) || n.named[called] == nil {
		t.Fatal("the team is over before it is made")
	}
	n.Receive(1, messageOf(world, layout.UpperSteps, &span.Message{Kind: ftco.Up, Seq: 1, Value: value(nil)}))
	if !slices.Contains(n.sent, sent{1, string(gone)}) {
		t.Fatalf("sent %v, want %q", n.sent, gone)
	}
	if n.named[called] == nil {
		t.Fatal("the team is forgotten before the other node has answered")
	}
	never := slices.Clone(gone)
	never[0] = byte(kindNever)
	n.Receive(1, never)
	n.Receive(1, never) // of a team that is not known
	if n.named[called] != nil || n.untold != 0 {
		t.Errorf("known teams %v, %d untold, want no such team", n.named, n.untold)
	}
}

// A node that has not described a team answers so when it hears of the end, and drops what has come before.
func TestNeverDescribed(t *testing.T) {
	n := newTestNode(3, 1)
	m := messageOf(name{3, 3}, 0, &span.Message{Kind: ftco.Up, Seq: 1, Value: value(nil)})
	n.Receive(1, m)
	n.Receive(2, messageOf(name{4, 4}, 0, &span.Message{Kind: ftco.Up, Seq: 1, Value: value(nil)}))
	gone := slices.Clone(m[:headBytes])
	gone[0] = byte(kindGone)
	n.Receive(1, gone)
	never := slices.Clone(gone)
	never[0] = byte(kindNever)
	if len(n.early) != 1 || !slices.Equal(n.sent, []sent{{1, string(never)}}) {
		t.Errorf("%d messages are kept, sent %v; want that of the other team, and %q", len(n.early), n.sent, never)
	}
	n.Receive(1, m) // the other node does not know yet that nobody here waits for it
	n.Receive(2, m)
	over := slices.Clone(gone)
	over[0] = byte(kindOver)
	n.Receive(1, over)
	if len(n.early) != 2 || n.early[1].from != 2 {
		t.Errorf("kept %v, want what node 2 has said", n.early)
	}
}

// elements returns the data of a member that gives elements.
func elements(member int, op fold.Kind, elem fold.Elem, given string) []byte {
	r := span.Record{Differs: -1, Who: -1, Member: int32(member), Op: op, Elem: elem, Give: uint16(len(given))}
	return append(append([]byte{}, r.Bytes()...), given...)
}

// enterWith has a PE enter a step of the team of all PEs with elements.
func (n *testNode) enterWith(pe int, seq uint64, op fold.Kind, elem fold.Elem, given string) {
	l := &n.words[pe].Lines[layout.UpperSteps][0]
	data := elements(pe, op, elem, given)
	copy(l.Cell.Data[:], data[:span.RecordBytes])
	if copy(l.Given[:], given); len(given) <= Beside {
		copy(l.Cell.Data[span.RecordBytes:], given)
	}
	atomic.StoreUint64(&l.Cell.Word, seq)
}

// foldWith has two PEs enter a step, with the contribution of another node. It returns the record and what is behind it.
func foldWith(t *testing.T, other []byte, mine ...func(n *testNode, pe int)) (n *testNode, r span.Record, gave string) {
	t.Helper()
	n = newTestNode(2, len(mine))
	world := name{layout.UpperFirstWorld, 0}
	n.Receive(1, messageOf(world, layout.UpperSteps, &span.Message{Kind: ftco.Up, Seq: 1, Value: &span.Value{Data: other}}))
	for pe, enter := range mine {
		var all []int
		for i := range mine {
			all = append(all, i)
		}
		n.describe(pe, 0, world, 4, all...)
		enter(n, pe)
		if err := n.Announced(layout.Local(pe), 0); err != nil {
			t.Fatal(err)
		}
	}
	result := &n.words[0].Lines[layout.UpperSteps][0].Result
	if result.Seq == 5 {
		copy(r.Bytes(), result.Data[:])
		gave = string(result.Body[:result.Gave])
	}
	return n, r, gave
}

// Elements of the members and of other nodes are folded, whether they are beside the word or not.
func TestElements(t *testing.T) {
	long := strings.Repeat("\x01\x02\x03\x04", 256)
	for _, c := range []struct {
		op          fold.Kind
		elem        fold.Elem
		a, b, other string
		want        string
	}{
		{fold.KindSum, fold.Uint8, "\x01", "\x02", "\x03", "\x06"},
		{fold.KindMax, fold.Int8, "\xff\x01", "\x02\xf0", "\x01\x80", "\x02\x01"},
		{fold.KindXor, fold.Uint64, "abcdefgh", "abcdefgh", "12345678", "12345678"},
		{fold.KindSum, fold.Uint8, long, long, long, strings.Repeat("\x03\x06\x09\x0c", 256)},
	} {
		enter := func(given string) func(n *testNode, pe int) {
			return func(n *testNode, pe int) { n.enterWith(pe, 5, c.op, c.elem, given) }
		}
		n, r, gave := foldWith(t, elements(2, c.op, c.elem, c.other), enter(c.a), enter(c.b))
		if gave != c.want || r.Op != c.op || r.Elem != c.elem || r.Fault != span.NoFault || len(n.logs) > 0 {
			t.Errorf("%v of %v: %q with %+v, want %q; log %q", c.op, c.elem, gave, r, c.want, n.logs)
		}
	}
}

// A member that gives elements of no type, by no operator, or a part of one, has broken the team. Its node's log says so.
func TestNoElements(t *testing.T) {
	good := func(n *testNode, pe int) { n.enterWith(pe, 5, fold.KindSum, fold.Int32, "1234") }
	for what, bad := range map[string]func(n *testNode, pe int){
		"no operator":         func(n *testNode, pe int) { n.enterWith(pe, 5, fold.KindXor+1, fold.Int32, "1234") },
		"a user's operator":   func(n *testNode, pe int) { n.enterWith(pe, 5, fold.KindCommutative, fold.Int32, "1234") },
		"no type":             func(n *testNode, pe int) { n.enterWith(pe, 5, fold.KindSum, 200, "1234") },
		"not of this type":    func(n *testNode, pe int) { n.enterWith(pe, 5, fold.KindAnd, fold.Float32, "1234") },
		"a part of one":       func(n *testNode, pe int) { n.enterWith(pe, 5, fold.KindSum, fold.Int32, "12345") },
		"mixed, with a bytes": func(n *testNode, pe int) { n.enterWith(pe, 5, span.Mixed, fold.NoElem, "1") },
	} {
		n, r, gave := foldWith(t, elements(2, fold.KindSum, fold.Int32, "1234"), good, bad)
		if r.Fault != span.Broken || gave != "" || len(n.logs) != 1 || !strings.Contains(n.logs[0], "PE 1 of this node") {
			t.Errorf("%s: %q with %+v, log %q, want a broken team and one line", what, gave, r, n.logs)
		}
	}
}

// A node that sends elements of no type, by no operator, or a part of one, is not heard. The log says so.
func TestBadElements(t *testing.T) {
	good := func(n *testNode, pe int) { n.enterWith(pe, 5, fold.KindSum, fold.Int32, "1234") }
	for what, bad := range map[string][]byte{
		"no operator": elements(1, 100, fold.Int32, "1234"), "no type": elements(1, fold.KindSum, 100, "1234"),
		"not of this type": elements(1, fold.KindOr, fold.Complex64, "12345678"), "a part of one": elements(1, fold.KindSum, fold.Int32, "12345"),
	} {
		n, r, gave := foldWith(t, bad, good)
		if len(n.logs) != 1 || r.Op != fold.KindUser || gave != "" {
			t.Errorf("%s: log %q, want one line and no result; %q with %+v", what, n.logs, gave, r)
		}
	}
}

// FuzzReceive gives a node messages of any bytes, between steps of its own members. It neither panics nor stops working.
func FuzzReceive(f *testing.F) {
	world := name{layout.UpperFirstWorld, 0}
	for kind := ftco.Up; kind <= ftco.Alive; kind++ {
		f.Add(messageOf(world, 0, &span.Message{Kind: kind, Seq: 1, Value: value([]byte("0123456789"), span.Exception{Node: 1, Why: board.Died})}), byte(1))
		f.Add(messageOf(world, 1, &span.Message{Kind: kind, Seq: 2, Committed: true, Sets: &ftco.Sets{Missing: []ftco.Node{2}, Failed: []ftco.Node{1, 2}}}), byte(2))
		f.Add(messageOf(name{7, 7}, 0, &span.Message{Kind: kind, Seq: 1, Value: &span.Value{}}), byte(2))
	}
	for _, k := range []kind{kindGone, kindNever, kindOver} {
		f.Add([]byte{byte(k), 0, 7, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0}, byte(1))
	}
	for _, data := range [][]byte{
		elements(1, fold.KindSum, fold.Uint8, "01234567"), elements(1, fold.KindMax, fold.Float64, "01234567"), elements(1, span.Mixed, fold.NoElem, ""),
		elements(1, 77, fold.Int8, "01234567"), elements(1, fold.KindSum, 77, "01234567"), elements(1, fold.KindSum, fold.Int64, "0123456"),
	} {
		f.Add(messageOf(world, 0, &span.Message{Kind: ftco.Up, Seq: 1, Value: &span.Value{Data: data}}), byte(1))
		f.Add(messageOf(world, 1, &span.Message{Kind: ftco.Up, Seq: 1, Value: &span.Value{Data: data}}), byte(2))
	}
	f.Add([]byte{byte(kindDone), 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, byte(1))
	f.Fuzz(func(t *testing.T, message []byte, from byte) {
		n := newTestNode(3, 2)
		for pe := range 2 {
			n.describe(pe, 0, world, 4, 0, 1)
			n.describe(pe, 5, name{7, 7}, 9, 0, 1)
		}
		n.Receive(int(from%4), message)
		for pe := range 2 {
			n.enterWith(pe, 5, fold.KindSum, fold.Uint8, "01234567")
			n.enter(pe, 5, 10, 100)
			for _, id := range []int{0, 5} {
				if err := n.Announced(layout.Local(pe), id); err != nil {
					t.Fatal(err)
				}
			}
		}
		n.Receive(int(from%4), message)
		n.DropNode(1)
		n.dead[1] = true
		n.Dies(1, 1)
		n.DropNode(2)
		n.Receive(0, message)
		if r := &n.words[0].Lines[0][0].Result; r.Seq < 5 {
			t.Errorf("a step among no other nodes has no result: %d, log %q", r.Seq, n.logs)
		}
	})
}

// A team that all nodes have forgotten stays so, though the words of a dead member still describe it and a late message names it: the words
// of its id are those of a later team.
func TestForgottenStaysForgotten(t *testing.T) {
	n := newTestNode(2, 2)
	old, later := name{3, 3}, name{4, 4}
	for pe := range 2 {
		n.describe(pe, 5, old, 10, 0, 1)
		if err := n.Announced(layout.Local(pe), 5); err != nil {
			t.Fatal(err)
		}
	}
	n.dead[1] = true
	n.Dies(1, 0)
	done := messageOf(old, layout.UpperSteps, &span.Message{})[:headBytes]
	done[0] = byte(kindDone)
	n.Receive(1, done)
	atomic.StoreUint32(&n.words[0].Parts[5].Ended, 1)
	if err := n.Announced(0, 5); err != nil {
		t.Fatal(err)
	}
	if n.named[old] == nil || n.sent[len(n.sent)-1].message[0] != byte(kindOver) {
		t.Fatalf("known: %t, sent %v; want the team to be known while the other node may answer, which has been told that this one does not", n.named[old] != nil, n.sent)
	}
	answer := messageOf(old, layout.UpperSteps, &span.Message{Kind: ftco.Up, Seq: 1, Value: value(nil)})
	count := len(n.sent)
	n.Receive(1, answer)
	if len(n.sent) > count {
		t.Errorf("sent %v after all has been said", n.sent[count:])
	}
	over := slices.Clone(done)
	over[0] = byte(kindOver)
	n.Receive(1, over)
	if n.named[old] != nil || len(n.early) > 0 {
		t.Fatalf("the team is known: %t, and %d messages are kept, want neither", n.named[old] != nil, len(n.early))
	}
	n.describe(0, 5, later, 20, 0)
	atomic.StoreUint32(&n.words[0].Parts[5].Ended, 0)
	if err := n.Announced(0, 5); err != nil {
		t.Fatal(err)
	}
	n.Receive(1, done)
	if n.named[old] != nil || !n.hasWords(n.named[later]) {
		t.Errorf("the forgotten team is known: %t; the later one has its words: %t, want false and true", n.named[old] != nil, n.hasWords(n.named[later]))
	}
}
