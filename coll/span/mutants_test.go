package span

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/weave"
)

// mutants are mistakes that a programmer could make, and the test that finds each.
//
// Two changes are not among them, as they change nothing. A decision is always the decider's own contribution: it has combined
// all others into that, as nodes with lower numbers, whose contributions would come first, never send to it. And operands of
// Combine may change places: a Fold has to give the same for both.
var mutants = []struct {
	breaks         string
	test           string
	file, old, new string
}{
	{"a step does not wait for the last member", "RandomNodes", "part.go", "p.at < len(p.waits); p.at++", "p.at < len(p.waits)-1; p.at++"},
	{"what happens between two questions is forgotten", "RandomNodes", "part.go", "{ p.stirred = true }", "{ p.stirred = p.waits[min(p.at, len(p.waits)-1)].Next() == board.Sleep }"},
	{"a look is never over", "HostileNodes", "part.go", "\t\t\tp.stirred = false\n", ""},
	{"after a look, no word is read again", "RandomNodes", "part.go", "\t\t\tp.waits[p.at].SetAwake()\n\t\t\treturn p.at, Word", "\t\t\treturn 0, Nothing"},
	{"members are judged in the first step only", "RandomNodes", "part.go", "p.at, p.frozen = 0, false", "p.frozen = false"},
	{"whoever has entered the last step has entered this one", "RandomNodes", "part.go", "board.Wait{Seq: p.seq}", "board.Wait{Seq: p.seq - 1}"},
	{"the judgements of the last step count for the next one", "RandomNodes", "part.go", "p.waits[i] = board.Wait{Seq: p.seq}", "if p.seq == 1 || p.waits[i].Verdict() != board.Entered {\n\t\t\tp.waits[i] = board.Wait{Seq: p.seq}\n\t\t}"},
	{"who is dead is judged without a last look at the word", "RandomNodes", "part.go", "{ p.waits[p.at].SetDead(dead) }", "{\n\tp.waits[p.at].SetDead(dead)\n\tif dead {\n\t\tp.waits[p.at].SetWord(0)\n\t}\n}"},
	{"a contribution is made twice", "RandomNodes", "part.go", "if p.frozen || p.over {", "if p.over {"},
	{"a node without members goes from step to step", "RandomNodes", "part.go", "if p.frozen || p.over {", "if p.frozen {"},
	{"a team ends with the first node that is missing", "RandomNodes", "part.go", "p.over = r.Data == nil", "p.over = r.Data == nil || len(r.Missing) > 0"},
	{"a team is over when this node has no members left", "RandomNodes", "part.go", "p.over = r.Data == nil", "p.over = p.value(a.Seq, ftco.Buf(p.cfg.Me)).Data == nil"},
	{"who left is not excepted", "RandomNodes", "part.go", "verdict != board.Entered {", "verdict == board.Died {"},
	{"who died is not excepted", "RandomNodes", "part.go", "verdict != board.Entered {", "verdict > board.Died {"},
	{"all who lack are dead", "RandomNodes", "part.go", "Why: verdict}", "Why: Died}"},
	{"the wrong member is excepted", "RandomNodes", "part.go", "Member: int32(i), Why", "Member: 0, Why"},
	{"the member of another node is excepted", "RandomNodes", "part.go", "Exception{Node: int32(p.cfg.Me)", "Exception{Node: 0"},
	{"exceptions count members that contribute too", "RandomNodes", "part.go", "verdict := p.waits[i].Verdict(); verdict != board.Entered {", "verdict := p.waits[i].Verdict(); verdict != board.Open {"},
	{"a contribution is frozen after the step", "RandomNodes", "part.go", "\tp.frozen = true\n\tp.set(p.seq, ftco.Buf(p.cfg.Me), v)\n\treturn p.step(&ftco.Event{Kind: ftco.Enter, Call: p.call}, nil, out)", "\tp.set(p.seq, ftco.Buf(p.cfg.Me), v)\n\tout = p.step(&ftco.Event{Kind: ftco.Enter, Call: p.call}, nil, out)\n\tp.frozen = true\n\treturn out"},
	{"a node says what the first node gives", "RandomNodes", "part.go", "p.set(p.seq, ftco.Buf(p.cfg.Me), v)", "p.set(p.seq, ftco.Buf(0), v)"},
	{"a contribution that came early is in the way of the own one", "RandomNodes", "part.go", "p.set(p.seq, ftco.Buf(p.cfg.Me), v)", "if len(p.values) < 2 {\n\t\tp.set(p.seq, ftco.Buf(p.cfg.Me), v)\n\t}"},
	{"the missing nodes of others are forgotten", "RandomNodes", "part.go", "Value: ftco.NoValue, Sets: m.Sets}", "Value: ftco.NoValue}"},
	{"missing nodes are not passed on", "RandomNodes", "part.go", "Committed: a.Msg.Committed, Sets: a.Msg.Sets}", "Committed: a.Msg.Committed}"},
	{"a value that comes is not told to the machine", "RandomNodes", "part.go", "msg.Value = ftco.Result", "msg.Value = ftco.NoValue"},
	{"the death of a node after the own contribution is not heard of", "RandomNodes", "part.go", "return p.step(&ftco.Event{Kind: ftco.PeerFailed, From: ftco.Node(node), Inc: 1}, nil, out)", "if p.frozen {\n\t\treturn out\n\t}\n\treturn p.step(&ftco.Event{Kind: ftco.PeerFailed, From: ftco.Node(node), Inc: 1}, nil, out)"},
	{"the death of a node before the own contribution is not heard of", "RandomNodes", "part.go", "return p.step(&ftco.Event{Kind: ftco.PeerFailed, From: ftco.Node(node), Inc: 1}, nil, out)", "if !p.frozen {\n\t\treturn out\n\t}\n\treturn p.step(&ftco.Event{Kind: ftco.PeerFailed, From: ftco.Node(node), Inc: 1}, nil, out)"},
	{"of several actions, the last is not done", "RandomNodes", "part.go", "for i := range p.acts {", "for i := range p.acts[:min(len(p.acts), 1)] {"},
	{"messages are of the step under way", "RandomNodes", "part.go", "&Message{Kind: a.Msg.Kind, Seq: a.Seq,", "&Message{Kind: a.Msg.Kind, Seq: p.seq,"},
	{"a message has the node's own value", "RandomNodes", "part.go", "m.Value = p.value(a.Seq, a.Msg.Value)", "m.Value = p.value(a.Seq, ftco.Buf(p.cfg.Me))"},
	{"what comes early counts for the step under way", "HostileNodes", "part.go", "p.set(a.Seq, a.Dst, came)", "p.set(p.seq, a.Dst, came)"},
	{"what is combined is forgotten", "RandomNodes", "part.go", "p.set(a.Seq, a.Dst, p.combine(", "p.set(a.Seq, a.Src, p.combine("},
	{"a node's contribution is combined with itself", "RandomNodes", "part.go", "p.value(a.Seq, a.Dst), p.value(a.Seq, a.Src)", "p.value(a.Seq, a.Dst), p.value(a.Seq, a.Dst)"},
	{"a node delivers what it has contributed", "RandomNodes", "part.go", "Value: *p.value(a.Seq, a.Src)}", "Value: *p.value(a.Seq, ftco.Buf(p.cfg.Me))}"},
	{"missing nodes are not delivered", "RandomNodes", "part.go", "\t\tr.Missing = a.Msg.Sets.Missing\n", ""},
	{"who contributed and died is missing", "RandomNodes", "part.go", "r.Missing = a.Msg.Sets.Missing", "r.Missing = a.Msg.Sets.Failed"},
	{"values are given up with their step", "RandomNodes", "part.go", "n.seq < a.Seq })", "n.seq <= a.Seq })"},
	{"values are never given up", "RandomNodes", "part.go", "n.seq < a.Seq })", "n.seq == 0 })"},
	{"what came for the next step is given up", "HostileNodes", "part.go", "n.seq < a.Seq })", "n.seq != a.Seq })"},
	{"a result is delivered twice", "RandomNodes", "part.go", "return append(out, Output{Kind: Deliver, Result: r})", "return append(out, Output{Kind: Deliver, Result: r}, Output{Kind: Deliver, Result: r})"},
	{"no step follows the first", "RandomNodes", "part.go", "\tp.open()\n\treturn append(out", "\treturn append(out"},
	{"a result has the number of the next step", "RandomNodes", "part.go", "r := &Result{Seq: a.Seq,", "r := &Result{Seq: p.seq + 1,"},
	{"values of all steps are one", "RandomNodes", "part.go", "p.values[i].seq == seq && p.values[i].name == name {\n\t\t\treturn p.values[i].v", "p.values[i].name == name {\n\t\t\treturn p.values[i].v"},
	{"a value that is kept does not change", "RandomNodes", "part.go", "\t\t\tp.values[i].v = v\n", ""},
	{"a contribution is combined in its place", "CombineKeepsOperands", "value.go", "slices.Clone(acc.Data), in.Data", "acc.Data, in.Data"},
	{"exceptions are written behind those that were sent", "CombineKeepsOperands", "value.go", "slices.Clip(acc.Without)", "acc.Without"},
	{"exceptions of later nodes come first", "CombineKeepsOperands", "value.go", "\tslices.SortFunc(v.Without, compareExceptions) // a node's contribution may come after that of a later one\n", ""},
	{"the exceptions of one side are forgotten", "RandomNodes", "value.go", "append(slices.Clip(acc.Without), in.Without...)", "slices.Clone(acc.Without)"},
	{"after a node without members nothing is counted", "RandomNodes", "value.go", "\t\tv.Data = in.Data\n", "\t\tv.Data = nil\n"},
	{"a node without members takes all with it", "RandomNodes", "value.go", "\t\tv.Data = acc.Data\n", "\t\tv.Data = nil\n"},
	{"exceptions of one node have any order", "RandomNodes", "value.go", "return int(a.Member) - int(b.Member)", "return 0"},
	{"pieces are in the order in which they came", "FoldsInAnyOrder", "gather.go", "cmp.Compare(memberA, memberB)) <= 0", "cmp.Compare(memberA, memberB)) <= 1"},
	{"pieces are in the order of members", "RandomNodes", "gather.go", "cmp.Or(cmp.Compare(nodeA, nodeB), cmp.Compare(memberA, memberB))", "cmp.Or(cmp.Compare(memberA, memberB), cmp.Compare(nodeA, nodeB))"},
	{"the last pieces are lost", "RandomNodes", "gather.go", "for len(a) > 0 || len(b) > 0 {", "for len(a) > 0 && len(b) > 0 {"},
	{"a broken piece takes those of others with it", "RandomNodes", "gather.go", "case !okA && !okB:", "case !okA || !okB:"},
	{"a piece is as long as it says", "BrokenPieces", "gather.go", "if uint64(n) > uint64(len(b)-pieceHead) {", "if false {"},
	{"who gives nothing has no others beside it", "RandomNodes", "gather.go", "\t\treturn bytes.Clone(a)\n", "\t\treturn nil\n"},
	{"records are not folded", "RandomNodes", "gather.go", "\ta.Fold(&b)\n", ""},
	{"the record of the others is lost", "RandomNodes", "gather.go", "copy(b.Bytes(), in)", "copy(b.Bytes(), acc)"},
	{"more bits than the own are lost", "RandomNodes", "gather.go", "if len(bits) < len(other) {\n\t\tbits = append(bits, make([]byte, len(other)-len(bits))...)\n\t}", "if len(bits) < len(other) {\n\t\tother = other[:len(bits)]\n\t}"},
	{"bits that two set are not set", "RandomNodes", "gather.go", "bits[i] |= other[i]", "bits[i] ^= other[i]"},
	{"bits of the last one count", "RandomNodes", "gather.go", "bits[i] |= other[i]", "bits[i] = other[i]"},
	{"elements are taken for pieces", "Mixed", "gather.go", "a.op == fold.KindUser && b.op == fold.KindUser", "a.op == fold.KindUser || b.op == fold.KindUser"},
	{"elements are folded by any operator", "ElementsInAnyOrder", "gather.go", "case a == b:", "case a.elem == b.elem && a.bytes == b.bytes && a.op.Predefined() && b.op.Predefined():"},
	{"elements of other types are folded", "ElementsInAnyOrder", "gather.go", "case a == b:", "case a.op == b.op && a.bytes == b.bytes:"},
	{"elements are folded as far as there are some", "ElementsInAnyOrder", "gather.go", "case a == b:", "case a.op == b.op && a.elem == b.elem && a.bytes <= b.bytes:"},
	{"the elements of one member count", "RandomNodes", "gather.go", "\t\tfold.Bytes(a.op, a.elem, acc[RecordBytes:], in[RecordBytes:])\n", ""},
	{"elements are folded into those that were sent", "ElementsInAnyOrder", "gather.go", "acc[RecordBytes:], in[RecordBytes:])\n\t\tfoldRecords", "in[RecordBytes:], acc[RecordBytes:])\n\t\tcopy(acc[RecordBytes:], in[RecordBytes:])\n\t\tfoldRecords"},
	{"records before elements are not folded", "RandomNodes", "gather.go", "\t\tfoldRecords(acc, in)\n", ""},
	{"mixed data have the operator of the lowest member", "Mixed", "gather.go", "r.Op, r.Elem, r.Give = Mixed, fold.NoElem, 0", "r.Elem, r.Give = fold.NoElem, 0"},
	{"mixed data say what the lowest member gave", "RandomNodes", "gather.go", "r.Op, r.Elem, r.Give = Mixed, fold.NoElem, 0", "r.Op, r.Elem = Mixed, fold.NoElem"},
	{"mixed data keep what the first one gave", "Mixed", "gather.go", "\tacc = foldRecords(acc, in)\n\tvar r", "\tfoldRecords(acc, in)\n\tvar r"},
	{"elements are folded by operators that their type has not", "ReceiveRefuses", "gather.go", "case !s.elem.Has(s.op):", "case s.elem.Size() == 0:"},
	{"elements may be of no type", "ReceiveRefuses", "gather.go", "case !s.elem.Has(s.op):", "case s.elem != fold.NoElem && s.elem <= fold.Bool && !s.elem.Has(s.op):"},
	{"an element may be cut", "ReceiveRefuses", "gather.go", "case s.bytes%s.elem.Size() != 0:", "case s.bytes < s.elem.Size():"},
	{"bytes may be behind mixed data", "ReceiveRefuses", "gather.go", "s.elem != fold.NoElem || s.bytes != 0", "s.elem != fold.NoElem"},
	{"mixed data may have a type", "ReceiveRefuses", "gather.go", "s.elem != fold.NoElem || s.bytes != 0", "s.bytes != 0"},
	{"data that no node sends are taken", "ReceiveRefuses", "message.go", "if err := c.Check(m.Value.Data); err != nil {", "if err := c.Check(m.Value.Data); err != nil && m.Kind == 0 {"},
	{"any member is the lowest", "RandomNodes", "record.go", "if in.Member < r.Member {", "if false {"},
	{"a member that differs is not noted", "RandomNodes", "record.go", "case in.First != r.First:\n\t\tr.noteDiffers(in.Member, in.First)", "case in.First != r.First:"},
	{"a difference that another node has found is forgotten", "RandomNodes", "record.go", "\t\tr.noteDiffers(in.Differs, in.Other)\n", ""},
	{"the last member that differs is noted", "RandomNodes", "record.go", "member < r.Differs {", "true {"},
	{"flags are ORed", "RandomNodes", "record.go", "r.And &= in.And", "r.And |= in.And"},
	{"the last fault counts", "RandomNodes", "record.go", "max(r.Fault, in.Fault)", "in.Fault"},
	{"the last status counts", "RandomNodes", "record.go", "max(r.Status, in.Status)", "in.Status"},
	{"of two that are to blame, the first to come is named", "RandomNodes", "record.go", "c < 0 || c == 0 && uint32(in.Who) < uint32(r.Who)", "c < 0"},
	{"a status hides who has a fault", "RandomNodes", "record.go", "if r.Fault != NoFault || in.Fault != NoFault {", "if r.Fault != in.Fault && r.Status == in.Status {"},
	{"members may send any kind of message", "ReceiveRefuses", "message.go", "case m.Kind != ftco.Up && m.Kind != ftco.Down && m.Kind != ftco.Have:", "case m.Kind < ftco.Up || m.Kind > ftco.Alive:"},
	{"a message without a value is taken", "HostileNodes", "message.go", "case m.Value == nil:", "case m.Value == nil && m.Kind != ftco.Down:"},
	{"data may be too short for a record", "ReceiveRefuses", "message.go", "len(m.Value.Data) < c.Least", "len(m.Value.Data) < c.Least-1"},
	{"sets may have any nodes", "ReceiveRefuses", "message.go", "if n <= last || int(n) >= c.Nodes {", "if n <= last {"},
	{"sets may be endless", "ReceiveRefuses", "message.go", "if n <= last || int(n) >= c.Nodes {", "if n < 0 || int(n) >= c.Nodes {"},
	{"exceptions may be of any node", "ReceiveRefuses", "message.go", "e.Node < 0 || int(e.Node) >= c.Nodes ||", ""},
	{"members may be excepted for no reason", "ReceiveRefuses", "message.go", " || e.Why <= board.Entered", ""},
	{"members may be excepted twice", "ReceiveRefuses", "message.go", "compareExceptions(last, e) >= 0", "compareExceptions(last, e) > 0"},
	{"committed steps are taken", "ReceiveRefuses", "message.go", "case m.Committed:", "case m.Committed && m.Kind == 0:"},
	{"a node may send to itself", "ReceiveRefuses", "message.go", " || from == c.Me:", ":"},
	{"a list may be longer than its message", "Messages", "message.go", "uint64(n)*uint64(size) <= uint64(len(b)-4)", "uint64(n) <= uint64(len(b)-4)"},
	{"no members are as members without data", "Messages", "message.go", "\t\tif m.Value.Data != nil {\n\t\t\tflags |= flagData\n", "\t\tif len(m.Value.Data) > 0 {\n\t\t\tflags |= flagData\n"},
	{"bytes behind a message do not count", "Messages", "message.go", "if len(b) > 0 {", "if len(b) > 1<<20 {"},
	{"missing and failed nodes are mixed up", "RandomNodes", "message.go", "appendNodes(appendNodes(b, m.Sets.Missing), m.Sets.Failed)", "appendNodes(appendNodes(b, m.Sets.Failed), m.Sets.Missing)"},
}

// TestMutants builds the package with these mistakes and checks that the tests find each.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program with mutants")
	}
	const dir = "coll/span"
	var changes []weave.Change
	for _, m := range mutants {
		changes = append(changes, weave.Change{File: dir + "/" + m.file, Old: m.old, New: m.new})
	}
	o, err := weave.New("../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	alone, err := o.Switch(changes)
	if err != nil || len(alone) > 0 {
		t.Fatalf("%v; changes outside of functions: %v, want none", err, alone)
	}
	program, err := o.Build(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mutants {
		t.Run(m.breaks, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), program, "-test.run", "^Test"+m.test+"$", "-test.short", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", weave.MutantVar, i+1))
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: Test"+m.test) {
				t.Errorf("Test%s does not find that %s (%v):\n%.1000s", m.test, m.breaks, err, out)
			}
		})
	}
}
