package bmg

import (
	"slices"
	"testing"
)

// TestRoster: a member is dead if its current incarnation is, in whatever order news come.
func TestRoster(t *testing.T) {
	t.Parallel()
	r := NewRoster(4, []uint32{1, 1, 3, 1})
	for _, c := range []struct {
		what string
		is   bool
		want bool
	}{
		{"3 of 2 lives", r.IsCurrent(2, 3) && !r.IsDead(2), true},
		{"the death of 2 of 2 is old", r.Fail(2, 2), false},
		{"the death of 3 of 2 is news", r.Fail(2, 3), true},
		{"it is none again", r.Fail(2, 3), false},
		{"the death of 1 of 2 revives nobody", r.Fail(2, 1) || !r.IsDead(2), false},
		{"3 of 2 does not join", r.Join(2, 3), false},
		{"2 of 2 does not join", r.Join(2, 2) || r.Incarnation(2) != 3, false},
		{"4 of 2 joins", r.Join(2, 4) && r.IsCurrent(2, 4), true},
		{"the death of 6 of 2, which nobody has announced, is news", r.Fail(2, 6) && r.IsDead(2), true},
		{"5 of 2 joins and is dead", r.Join(2, 5), false},
		{"7 of 2 joins", r.Join(2, 7), true},
		{"strangers neither die nor join", r.Fail(4, 1) || r.Fail(-1, 1) || r.Join(4, 9) || r.IsCurrent(4, 1), false},
		{"no incarnation is none", r.Fail(1, 0) || r.IsDead(1), false},
	} {
		if c.is != c.want {
			t.Errorf("%s: %v", c.what, c.is)
		}
	}
}

// TestKeys: payloads that differ in any part of the key are different ones.
func TestKeys(t *testing.T) {
	t.Parallel()
	m, err := New(Config{N: 4})
	if err != nil {
		t.Fatal(err)
	}
	keys := []Key{
		{Kind: KindPE, Job: 1, ID: 2, Inc: 1},
		{Kind: KindRevoke, Job: 1, ID: 2, Inc: 1},
		{Kind: KindAbort, Job: 1, ID: 2, Inc: 1},
		{Kind: KindNode, Job: 1, ID: 2, Inc: 1},
		{Kind: KindPE, Job: 2, ID: 2, Inc: 1},
		{Kind: KindPE, Job: 1, ID: 3, Inc: 1},
		{Kind: KindEvent, Job: 1, ID: 2, Inc: 1, Seq: 1},
		{Kind: KindEvent, Job: 1, ID: 2, Inc: 1, Seq: 2},
		{Kind: KindEvent, Job: 1, ID: 2, Inc: 2, Seq: 2},
		{Kind: KindEvent, Job: 2, ID: 2, Inc: 1, Seq: 2},
		{Kind: KindEvent, Job: 1, ID: 3, Inc: 1, Seq: 2},
		{Kind: KindPE, Job: 1, ID: 2, Inc: 2},
	}
	for round := range 2 {
		for _, k := range keys {
			if got := m.add(&k); got != (round == 0) {
				t.Errorf("round %d: %+v is new: %v", round, k, got)
			}
		}
	}
}

// TestPartlyKnown: of a message, what is new goes on, and nothing else.
func TestPartlyKnown(t *testing.T) {
	t.Parallel()
	payload := func(id uint64) Payload { return Payload{Key: Key{Kind: KindPE, ID: id, Inc: 1}} }
	for known := range 1 << 4 {
		m, err := New(Config{N: 12})
		if err != nil {
			t.Fatal(err)
		}
		var list []Payload
		var want []uint64
		for i := range uint64(4) {
			if list = append(list, payload(i)); known>>i&1 == 0 {
				want = append(want, i)
			} else {
				m.Step(Event{Kind: Start, Msg: Msg{Payloads: []Payload{payload(i)}}}, nil)
			}
		}
		var delivered []uint64
		for _, a := range m.Step(Event{Kind: Recv, From: 1, Inc: 1, Msg: Msg{Payloads: list}}, nil) {
			if a.Kind == Deliver {
				delivered = append(delivered, a.Payload.ID)
				continue
			}
			var sent []uint64
			for _, p := range a.Msg.Payloads {
				sent = append(sent, p.ID)
			}
			if !slices.Equal(sent, want) {
				t.Errorf("%04b known: %d are sent, want %d", known, sent, want)
			}
		}
		if !slices.Equal(delivered, want) || list[3].ID != 3 {
			t.Errorf("%04b known: %d are delivered, want %d", known, delivered, want)
		}
	}
}

// TestDeadGetNothing: what a member sends does not go to those that it knows to be dead.
func TestDeadGetNothing(t *testing.T) {
	t.Parallel()
	m, err := New(Config{N: 12})
	if err != nil {
		t.Fatal(err)
	}
	m.Step(Event{Kind: PeerFailed, From: 4, Inc: 1}, nil)
	m.Step(Event{Kind: Start, Msg: Msg{Payloads: []Payload{report(8, 1, 0)}}}, nil)
	var to []Node
	for _, a := range m.Step(Event{Kind: Start, Msg: Msg{Payloads: []Payload{report(2, 1, 0)}}}, nil) {
		if a.Kind == Send {
			to = append(to, a.To)
		}
	}
	slices.Sort(to)
	if want := []Node{1, 2, 10, 11}; !slices.Equal(to, want) { // 2 gets its verdict
		t.Errorf("sends to %d, want %d", to, want)
	}
}

// TestPredecessorsReport: the report of an earlier incarnation's death is no verdict for its successor.
func TestPredecessorsReport(t *testing.T) {
	t.Parallel()
	for inc, want := range map[uint32]ActionKind{1: Deliver, 2: Fenced, 3: Fenced} {
		m, err := New(Config{N: 4, Me: 1, Incs: []uint32{1, 2, 1, 1}})
		if err != nil {
			t.Fatal(err)
		}
		out := m.Step(Event{Kind: Recv, From: 0, Inc: 1, Msg: Msg{Payloads: []Payload{report(1, inc, 0)}}}, nil)
		if len(out) == 0 || out[len(out)-1].Kind != want {
			t.Errorf("the report of incarnation %d for incarnation 2: %+v, want kind %d", inc, out, want)
		}
	}
}
