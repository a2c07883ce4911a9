package span

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/internal/fold"
	"github.com/goshmem/goshmem/sim/explore"
)

// messages are such as parts send.
func messages() []*Message {
	without := []Exception{{0, 1, board.Died}, {2, 0, board.HasLeft}, {2, 1, board.HasGivenUp}}
	data := make([]byte, RecordBytes+3)
	folded := Record{Op: fold.KindSum, Elem: fold.Float64, Give: 8}
	return []*Message{
		{Kind: ftco.Up, Seq: 4, Value: &Value{Data: append(slices.Clone(folded.Bytes()), "01234567"...)}},
		{Kind: ftco.Up, Seq: 1, Value: &Value{Data: data}},
		{Kind: ftco.Up, Seq: 1 << 40, Value: &Value{Without: without}},
		{Kind: ftco.Down, Seq: 2, Value: &Value{Data: data[:RecordBytes], Without: without}, Sets: &ftco.Sets{Failed: []ftco.Node{1}}},
		{Kind: ftco.Have, Seq: 3, Value: &Value{}, Sets: &ftco.Sets{Missing: []ftco.Node{0}, Failed: []ftco.Node{0, 2}}},
	}
}

func TestMessages(t *testing.T) {
	c := &Config{Nodes: 3, Me: 1, Members: 2, Least: RecordBytes, Check: CheckSteps}
	all := append(messages(), // and some that none sends
		&Message{Kind: ftco.Commit, Seq: 1, Committed: true}, &Message{Kind: ftco.Up, Value: &Value{Data: []byte{}}, Sets: &ftco.Sets{}})
	for i, m := range all {
		b := m.Append(nil)
		got, err := ParseMessage(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("message %d: got %+v, %v, want %+v", i, got, err, m)
		}
		if err := m.check(c, 2); (err == nil) != (i < len(messages())) {
			t.Errorf("message %d: check says %v", i, err)
		}
		for n := range b {
			if short, err := ParseMessage(b[:n]); err == nil && (m.Value == nil || m.Value.Data == nil || n < len(b)-len(m.Value.Data)) {
				t.Errorf("message %d: %d bytes of %d are %+v", i, n, len(b), short)
			}
		}
		if m.Value == nil || m.Value.Data == nil {
			if long, err := ParseMessage(append(b, 0)); err == nil {
				t.Errorf("message %d and a byte are %+v", i, long)
			}
		}
	}
}

func TestReceiveRefuses(t *testing.T) {
	data := make([]byte, RecordBytes)
	up := func(change func(m *Message)) *Message {
		m := &Message{Kind: ftco.Up, Seq: 1, Value: &Value{Data: data}}
		change(m)
		return m
	}
	without := func(list ...Exception) *Message { return up(func(m *Message) { m.Value.Without = list }) }
	sets := func(missing, failed []ftco.Node) *Message {
		return up(func(m *Message) { m.Sets = &ftco.Sets{Missing: missing, Failed: failed} })
	}
	behind := func(op fold.Kind, elem fold.Elem, n int) *Message {
		r := Record{Op: op, Elem: elem}
		return up(func(m *Message) { m.Value.Data = append(slices.Clone(r.Bytes()), make([]byte, n)...) })
	}
	for _, c := range []struct {
		from int
		m    *Message
		want string
	}{
		{-1, up(func(*Message) {}), "node -1"},
		{1, up(func(*Message) {}), "node 1 of a team on 3 nodes sends to node 1"},
		{3, up(func(*Message) {}), "node 3"},
		{0, up(func(m *Message) { m.Kind = 0 }), "kind 0"},
		{0, up(func(m *Message) { m.Kind = ftco.Commit }), "kind 5"},
		{0, up(func(m *Message) { m.Kind = ftco.KeepAlive }), "kind 6"},
		{0, up(func(m *Message) { m.Kind, m.Committed = ftco.Have, true }), "committed"},
		{0, up(func(m *Message) { m.Seq = 0 }), "step 0"},
		{0, up(func(m *Message) { m.Value = nil }), "without a value"},
		{0, up(func(m *Message) { m.Value.Data = data[:RecordBytes-1] }), fmt.Sprintf("want %d or more", RecordBytes)},
		{0, behind(fold.KindCommutative, fold.Int8, 1), "operator user commutative (1)"},
		{0, behind(fold.KindXor+1, fold.Int8, 1), "operator unknown (9)"},
		{0, behind(Mixed-1, fold.Int8, 1), "(254)"},
		{0, behind(fold.KindSum, fold.NoElem, 1), "elements of no type"},
		{0, behind(fold.KindSum, fold.Bool+1, 8), "elements of type 14"},
		{0, behind(fold.KindSum, 255, 8), "elements of type 255"},
		{0, behind(fold.KindSum, fold.Bool, 1), "operator sum (2) for elements of bool"},
		{0, behind(fold.KindAnd, fold.Float32, 4), "operator and"},
		{0, behind(fold.KindMin, fold.Complex128, 16), "operator min"},
		{0, behind(fold.KindSum, fold.Float64, 9), "9 bytes of float64, want a multiple of 8"},
		{0, behind(fold.KindSum, fold.Complex128, 8), "a multiple of 16"},
		{0, behind(Mixed, fold.NoElem, 1), "1 bytes of no type behind a record of mixed data"},
		{0, behind(Mixed, fold.Int8, 0), "mixed"},
		{0, sets([]ftco.Node{-1}, nil), "node -1"},
		{0, sets(nil, []ftco.Node{3}), "node 3"},
		{0, sets([]ftco.Node{2, 0}, nil), "ascending"},
		{0, sets(nil, []ftco.Node{0, 0}), "ascending"},
		{0, without(Exception{3, 0, Died}), "{Node:3"},
		{0, without(Exception{-1, 0, Died}), "{Node:-1"},
		{0, without(Exception{0, -1, Died}), "Member:-1"},
		{0, without(Exception{0, 0, board.Open}), "Why:0"},
		{0, without(Exception{0, 0, board.Entered}), "Why:1"},
		{0, without(Exception{0, 0, board.HasGivenUp + 1}), "Why:5"},
		{0, without(Exception{2, 0, Died}, Exception{0, 1, Died}), "in order"},
		{0, without(Exception{2, 0, Died}, Exception{2, 0, Died}), "in order"},
	} {
		n := newNode(t, &cluster{nodes: 3, pes: 2, radix: 2, steps: 1}, 1)
		before := n.AppendState(nil)
		out, err := n.part.Receive(c.from, c.m, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(out) > 0 {
			t.Errorf("%+v from %d: got %v and %d outputs, want an error with %q", c.m, c.from, err, len(out), c.want)
		}
		if !bytes.Equal(before, n.AppendState(nil)) {
			t.Errorf("%+v from %d changes the part", c.m, c.from)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []Config{
		{Nodes: 3, Me: 3, Members: 1, Radix: 2},
		{Nodes: 3, Me: -1, Members: 1, Radix: 2},
		{Nodes: 0, Members: 1, Radix: 2},
		{Nodes: 3, Members: 0, Radix: 2},
		{Nodes: 3, Members: -1, Radix: 2},
		{Nodes: 3, Members: 1, Radix: 1},
	} {
		if p, err := New(c); err == nil {
			t.Errorf("%+v: got %v, want an error", c, p)
		}
	}
}

// newNode returns a node of a cluster.
func newNode(t *testing.T, s *cluster, me int) *node {
	t.Helper()
	m, err := s.Member(me)
	n, ok := m.(*node)
	if err != nil || !ok {
		t.Fatalf("%T, %v", m, err)
	}
	return n
}

// FuzzParseMessage parses any bytes. What is parsed is written as it was.
func FuzzParseMessage(f *testing.F) {
	for _, m := range messages() {
		f.Add(m.Append(nil))
	}
	f.Add([]byte("\x01\x02\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Add([]byte("\x01\x04\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMessage(b)
		if err != nil {
			return
		}
		if again := m.Append(nil); !bytes.Equal(again, b) {
			t.Errorf("%x is parsed as %+v, which is %x", b, m, again)
		}
		if m.Value != nil && 9*cap(m.Value.Without) > 4*len(b)+64 || m.Sets != nil && 4*(cap(m.Sets.Missing)+cap(m.Sets.Failed)) > 4*len(b)+64 {
			t.Errorf("%d bytes make lists of %+v", len(b), m)
		}
	})
}

// abuse lets a node meet what broken nodes send. Each event is a byte that says what happens, then for a message its length and
// itself. Whatever comes, the node makes one step after the other and sends messages that others take.
func abuse(t *testing.T, s *cluster, script []byte) {
	t.Helper()
	n := newNode(t, s, 1)
	next := func() int {
		if len(script) == 0 {
			return 0
		}
		b := script[0]
		script = script[1:]
		return int(b)
	}
	for len(script) > 0 {
		var outputs []Output
		switch what := next(); {
		case what < 32:
			own, _ := n.Own()
			if own &^= 1 << answers; own != 0 {
				for skip := what % 8; skip > 0 && own&(own-1) != 0; skip-- {
					own &= own - 1
				}
				judge(t, n, n.Choose(explore.MostOwn-1-leadingZeros(own&-own), nil))
			}
			continue
		case what < 40:
			outputs = n.part.NodeDead((what%2)*2, nil)
		default:
			size := min(len(script), next())
			m, err := ParseMessage(slices.Clone(script[:min(size, len(script))]))
			script = script[min(size, len(script)):]
			if err != nil {
				continue
			}
			if outputs, err = n.part.Receive(what%4, m, nil); err != nil && len(outputs) > 0 {
				t.Fatalf("%v, and %d outputs", err, len(outputs))
			}
		}
		judge(t, n, n.proceed(n.perform(outputs, nil)))
	}
	if most := ahead * (s.nodes + 1); len(n.part.values) > most {
		t.Errorf("%d values are kept, want at most %d", len(n.part.values), most)
	}
}

// ahead is the number of steps of which a part takes messages, at most.
const ahead = 18

// leadingZeros is for a power of 2.
func leadingZeros(x uint64) (n int) {
	for ; x>>63 == 0; x <<= 1 {
		n++
	}
	return n
}

// judge checks what a node does.
func judge(t *testing.T, n *node, effects []explore.Effect) {
	t.Helper()
	for _, e := range effects {
		if e.Broken != nil {
			t.Fatal(e.Broken)
		}
		l, ok := e.Msg.(*letter)
		if !ok {
			t.Fatalf("%T", e.Msg)
		}
		m, err := ParseMessage(l.body)
		if err != nil {
			t.Fatalf("%x to %d: %v", l.body, e.To, err)
		}
		to := n.part.cfg
		to.Me = e.To
		// Contributions that contradict each other make lists that do.
		if err := m.check(&to, n.me); err != nil && !strings.Contains(err.Error(), "want them") {
			t.Fatalf("%x to %d: %v", l.body, e.To, err)
		}
	}
	for _, r := range n.results {
		if r.Data != nil && len(r.Data) < RecordBytes {
			t.Fatalf("result %+v", r)
		}
	}
}

// FuzzPart lets a part meet any messages.
func FuzzPart(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(drawScript(rand.New(rand.NewPCG(seed, 1))), byte(seed))
	}
	f.Fuzz(func(t *testing.T, script []byte, content byte) {
		s := &cluster{nodes: 3, pes: 2, radix: 2, steps: 1 << 20, mortal: 1 << 3, leaves: 1 << 2, givesUp: 1 << 3}
		s.votes, s.folds = drawContent(int(content))
		abuse(t, s, script)
	})
}

// TestHostileNodes lets a part meet messages that have the form of right ones and anything in them.
func TestHostileNodes(t *testing.T) {
	t.Parallel()
	runs := uint64(20000)
	if testing.Short() {
		runs /= 10
	}
	for seed := range runs {
		abuseRandomly(t, seed)
	}
}

func abuseRandomly(t *testing.T, seed uint64) {
	t.Helper()
	ends := false
	defer func() {
		if !ends {
			t.Logf("seed %d", seed)
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 0))
	s := &cluster{nodes: 2 + rng.IntN(4), pes: 1 + rng.IntN(3), radix: 2 + rng.IntN(2), steps: 1 << 20}
	s.votes, s.folds = drawContent(rng.IntN(3))
	s.mortal, s.leaves, s.givesUp = rng.Uint64(), rng.Uint64()&rng.Uint64(), rng.Uint64()&rng.Uint64()&rng.Uint64()
	abuse(t, s, drawScript(rng))
	ends = !t.Failed()
}

// drawScript draws a script for abuse.
func drawScript(rng *rand.Rand) (script []byte) {
	for range 1 + rng.IntN(60) {
		what := rng.IntN(256)
		if script = append(script, byte(what)); what < 40 {
			continue
		}
		b := drawMessage(rng).Append(nil)
		if rng.IntN(20) == 0 {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		script = append(append(script, byte(len(b))), b...)
	}
	return script
}

// drawMessage draws a message that most likely is taken.
func drawMessage(rng *rand.Rand) *Message {
	m := &Message{Kind: ftco.Up + ftco.MsgKind(rng.IntN(3)), Seq: 1 + uint64(rng.IntN(4)), Value: &Value{}}
	switch rng.IntN(20) {
	case 0:
		m.Kind = ftco.MsgKind(rng.IntN(9))
	case 1:
		m.Seq = rng.Uint64() >> rng.IntN(64)
	case 2:
		m.Committed = true
	case 3:
		m.Value = nil
	}
	if rng.IntN(3) == 0 {
		m.Sets = &ftco.Sets{Missing: drawNodes(rng), Failed: drawNodes(rng)}
	}
	if m.Value == nil {
		return m
	}
	for _, n := range drawNodes(rng) {
		m.Value.Without = append(m.Value.Without, Exception{n, int32(rng.IntN(1 << rng.IntN(31))), Died + board.Verdict(rng.IntN(3))})
	}
	if rng.IntN(4) > 0 {
		m.Value.Data = make([]byte, max(0, RecordBytes+rng.IntN(60)-rng.IntN(2)*rng.IntN(3)))
		for i := range m.Value.Data {
			m.Value.Data[i] = byte(rng.IntN(256) >> rng.IntN(9))
		}
		m.Value.Data = drawShape(rng, m.Value.Data)
	}
	return m
}

// drawShape makes most data such as FoldSteps takes.
func drawShape(rng *rand.Rand, data []byte) []byte {
	if len(data) < RecordBytes {
		return data
	}
	var r Record
	copy(r.Bytes(), data)
	switch rng.IntN(8) {
	case 0: // as it is
	case 1, 2, 3:
		r.Op = fold.KindUser
	case 4:
		r.Op, r.Elem, data = Mixed, fold.NoElem, data[:RecordBytes]
	default: // as PEs of a cluster do
		i, seq := rng.IntN(8), uint64(1+rng.IntN(4))
		r.Op, r.Elem = howOf(i, seq)
		data = append(data[:RecordBytes], elementsOf(i, seq)...)
	}
	copy(data, r.Bytes())
	return data
}

func drawNodes(rng *rand.Rand) (list []ftco.Node) {
	for n := range ftco.Node(4) {
		if rng.IntN(4) == 0 {
			list = append(list, n)
		}
	}
	return list
}
