package bmg

import (
	"slices"
	"testing"
)

// literalWorld runs literal machines. A message arrives before its sender goes on, as with a driver that delivers at
// once, or after all that was sent before it.
type literalWorld struct {
	all      []*Literal
	atOnce   bool
	limit    int // of messages, for broadcasts that do not end
	messages int
	self     int
	notified []map[uint64]int
	queue    []struct {
		to  Node
		msg LiteralMsg
	}
	dead []bool
}

func newLiteralWorld(flavor Flavor, n int) *literalWorld {
	w := &literalWorld{limit: 1 << 20, dead: make([]bool, n)}
	for v := range n {
		w.all = append(w.all, NewLiteral(flavor, n, v))
		w.notified = append(w.notified, map[uint64]int{})
	}
	return w
}

func (w *literalWorld) do(v Node, out []LiteralAction) {
	for _, a := range out {
		switch a.Kind {
		case LiteralSend:
			if w.messages++; w.messages > w.limit {
				return
			}
			if a.To == v {
				w.self++
			}
			if w.atOnce {
				w.receive(a.To, a.Msg)
				continue
			}
			w.queue = append(w.queue, struct {
				to  Node
				msg LiteralMsg
			}{a.To, a.Msg})
		case LiteralNotify:
			for _, id := range a.Msg {
				w.notified[v][id]++
			}
		case LiteralMark:
			w.all[v].Mark(a.Msg)
		}
	}
}

func (w *literalWorld) receive(v Node, msg LiteralMsg) {
	if !w.dead[v] {
		w.do(v, w.all[v].Receive(msg, nil))
	}
}

func (w *literalWorld) start(v Node, id uint64, hosted ...uint64) {
	w.do(v, w.all[v].Start(id, hosted, nil))
	for i := 0; i < len(w.queue); i++ {
		w.receive(w.queue[i].to, w.queue[i].msg)
	}
	w.queue = w.queue[:0]
}

// TestLiteralNeighbors: errors 1 and 2 of docs/detection.md. The printed loop sends to the member itself and twice to
// the same; each edge carries two messages or four, not "exactly one message".
func TestLiteralNeighbors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, sends, self, messages int }{
		{64, 14, 2, 896},
		{1024, 22, 2, 22528},
		{12, 8, 0, 96},
	} {
		out := NewLiteral(Printed, c.n, 0).Start(1, nil, nil)
		sends, self := 0, 0
		for _, a := range out {
			if a.Kind == LiteralSend {
				sends++
				if a.To == 0 {
					self++
				}
			}
		}
		if sends != c.sends || self != c.self {
			t.Errorf("printed, %d members: %d messages, %d of them to itself, want %d and %d", c.n, sends, self, c.sends, c.self)
		}
		w := newLiteralWorld(Printed, c.n)
		w.start(0, 1)
		if w.messages != c.messages {
			t.Errorf("printed, %d members: %d messages in all, want %d", c.n, w.messages, c.messages)
		}
		ours := newWorld(t, Config{N: c.n}, 1) // fails if a member sends to itself
		ours.start(0, Payload{Key: Key{Kind: KindPE, ID: 1, Inc: 1}})
		ours.run()
		if degree := len(Offsets(c.n)); ours.messages != c.n*(degree-1)+1 || ours.messages >= c.messages {
			t.Errorf("%d members: %d messages", c.n, ours.messages)
		}
	}
}

// TestLiteralMarksAfterSending: error 3, second half. A driver that delivers at once never ends, for the message that a
// member sends to itself finds itself unknown. Ours ends with as many messages as ever.
func TestLiteralMarksAfterSending(t *testing.T) {
	t.Parallel()
	w := newLiteralWorld(Printed, 8)
	w.atOnce, w.limit = true, 10000
	w.start(0, 1)
	if w.messages <= w.limit {
		t.Errorf("printed: %d messages, want no end", w.messages)
	}
	all, err := NewGroup(Config{N: 8})
	if err != nil {
		t.Fatal(err)
	}
	messages := 0
	var do func(v Node, out []Action)
	do = func(v Node, out []Action) {
		for _, a := range out {
			if a.Kind == Send && messages < 1000 {
				messages++
				do(a.To, all[a.To].Step(Event{Kind: Recv, From: v, Inc: 1, Msg: a.Msg}, nil))
			}
		}
	}
	do(0, all[0].Step(Event{Kind: Start, Msg: Msg{Payloads: []Payload{{Key: Key{Kind: KindPE, Inc: 1}}}}}, nil))
	if want := 8*(len(Offsets(8))-1) + 1; messages != want {
		t.Errorf("at once: %d messages, want %d", messages, want)
	}
}

// TestLiteralComparesSets: error 3, first half. PE 7 of node 1 has been reported; then node 1 dies with its PEs 7 and 8.
// If a message is known by all of its identifiers, PE 7 is reported twice; if by any, node 1 is never reported.
func TestLiteralComparesSets(t *testing.T) {
	t.Parallel()
	for _, flavor := range []Flavor{Printed, PrintedAny} {
		w := newLiteralWorld(flavor, 12)
		w.start(0, 107)
		w.start(2, 1, 107, 108)
		twice, lost := false, false
		for v := range w.all {
			twice = twice || w.notified[v][107] > 1
			lost = lost || v != 2 && w.notified[v][1] == 0
		}
		if twice != (flavor == Printed || w.notified[2][107] > 1) || lost != (flavor == PrintedAny) {
			t.Errorf("flavor %d: reported twice %v, never %v", flavor, twice, lost)
		}
	}
	w := newWorld(t, Config{N: 12}, 1)
	pe := Payload{Key: Key{Kind: KindPE, ID: 7, Inc: 1}}
	w.start(0, pe)
	w.run()
	w.start(2, report(1, 1, 2), pe)
	w.run()
	for v := range w.all {
		if v != 1 && (w.got[v][pe.Key] != 1 || w.got[v][Key{Kind: KindNode, ID: 1, Inc: 1}] != 1) {
			t.Errorf("member %d has %v, want both reports once", v, w.got[v])
		}
	}
}

// TestLiteralForgetsNothing: error 4. The successor of a process that was reported can never be reported.
// TestVerdict has the same for ours, which reports both.
func TestLiteralForgetsNothing(t *testing.T) {
	t.Parallel()
	w := newLiteralWorld(Printed, 8)
	w.start(0, 1)
	before := w.messages
	w.start(0, 1) // its successor has died
	if w.messages != before {
		t.Errorf("printed: %d more messages, want none", w.messages-before)
	}
}

// TestLiteralConnectivity: error 8. "Any node in the BMG can always be reached ... given that less than 2 log2 N failures
// strike": of 64 members 11 failures, less than 12, cut one off. TestFewerThanDegree has the bound that holds, 10.
func TestLiteralConnectivity(t *testing.T) {
	t.Parallel()
	w := newLiteralWorld(Printed, 64)
	for _, d := range Offsets(64) {
		w.dead[d] = true
	}
	w.start(0, 99)
	for v := range w.all {
		if v != 0 && w.notified[v][99] > 0 {
			t.Errorf("member %d is reached although all 11 neighbors of 0 are dead", v)
		}
	}
}

// TestRuntimeGraph: error 9, first half. With distances 2^i - 1, a natural logarithm as their bound and fewer for odd
// members, the old runtime's broadcast takes 8 hops among 1,024 members, not 5, and 14 among 16,384, not 7.
func TestRuntimeGraph(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n    int
		hops [2]int
	}{{1024, [2]int{8, 8}}, {16384, [2]int{14, 14}}} {
		var got [2]int
		for source := range got {
			got[source] = hops(c.n, Node(source), func(v Node) (list []int64) {
				for _, d := range NewLiteral(Runtime, c.n, int(v)).offsets() {
					list = append(list, d, -d)
				}
				return list
			})
		}
		if got != c.hops {
			t.Errorf("runtime, %d members: %d hops from members 0 and 1, want %d", c.n, got, c.hops)
		}
	}
	if even, odd := NewLiteral(Runtime, 1024, 0).offsets(), NewLiteral(Runtime, 1024, 1).offsets(); len(even) != len(odd)+1 ||
		slices.Max(even) != 127 {
		t.Errorf("runtime: distances %v and %v", even, odd)
	}
}

// TestReportIsOnePayload: error 10. Who ran on a node is in the job's map, so the report of a node has one size.
func TestReportIsOnePayload(t *testing.T) {
	t.Parallel()
	hosted := make([]uint64, 128)
	for i := range hosted {
		hosted[i] = uint64(1000 + i)
	}
	if out := NewLiteral(Printed, 8, 0).Start(1, hosted, nil); len(out[0].Msg) != 129 {
		t.Errorf("printed: a message with %d identifiers, want 129", len(out[0].Msg))
	}
	m := Msg{Payloads: []Payload{report(1, 1, 0)}}
	if b := m.Append(nil); len(b) != 49 {
		t.Errorf("the report of a node takes %d bytes, want 49", len(b))
	}
}
