package agree

import (
	"errors"
	"testing"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/coll/tree"
)

// TestNewRefuses asks for agreements of no shape.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  Config
		want error
	}{
		{Config{N: 2}, ErrConfig}, // no algorithm
		{Config{Algorithm: EarlyReturning + 1, N: 2}, ErrConfig},
		{Config{Algorithm: Log}, ErrConfig},
		{Config{Algorithm: EarlyReturning}, ErrConfig},
		{Config{Algorithm: Log, N: 2, Me: 2}, ErrConfig},
		{Config{Algorithm: Log, N: 2, Me: -1}, ErrConfig},
		{Config{Algorithm: Log, N: 2, Incs: []uint32{1}}, ErrConfig},
		{Config{Algorithm: Log, N: 2, Radix: 1}, tree.ErrShape},
		{Config{Algorithm: EarlyReturning, N: 2, Radix: -1}, tree.ErrShape},
	} {
		if m, err := New(c.cfg); !errors.Is(err, c.want) || m != nil {
			t.Errorf("New(%+v): %v, %v, want %v", c.cfg, m, err, c.want)
		}
	}
}

// each runs test with a fresh machine of every algorithm, member me of n.
func each(t *testing.T, cfg Config, test func(t *testing.T, a Algorithm, m *Machine)) {
	t.Helper()
	for _, a := range []Algorithm{Linear, Log, EarlyReturning} {
		c := cfg
		c.Algorithm = a
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		test(t, a, m)
	}
}

// TestEnterTwice enters while the call before has not returned.
func TestEnterTwice(t *testing.T) {
	t.Parallel()
	each(t, Config{N: 2}, func(t *testing.T, a Algorithm, m *Machine) {
		if out := m.Step(Event{Kind: Enter}, nil); len(out) != 0 {
			t.Fatalf("algorithm %d: entering: %+v, want nothing", a, out)
		}
		out := m.Step(Event{Kind: Enter}, nil)
		if len(out) != 1 || out[0].Kind != Refuse || out[0].Seq != 1 {
			t.Fatalf("algorithm %d: entering twice: %+v, want Refuse", a, out)
		}
	})
}

// TestStrangeEvents tells machines of what no driver should: nothing comes of it,
// and the agreement goes on.
func TestStrangeEvents(t *testing.T) {
	t.Parallel()
	each(t, Config{N: 3}, func(t *testing.T, a Algorithm, m *Machine) {
		m.Step(Event{Kind: Enter}, nil)
		before := string(m.AppendState(nil))
		for _, ev := range []Event{
			{},
			{Kind: Tick + 1},
			{Kind: Tick},
			{Kind: PeerFailed, From: 1, Inc: 0}, // one before
			{Kind: PeerFailed, From: 3, Inc: 1},
			{Kind: PeerFailed, From: 0, Inc: 1}, // itself
			{Kind: Recv, From: 3, Msg: Msg{Seq: 1}},
			{Kind: Recv, From: -1, Msg: Msg{Seq: 1}},
			{Kind: Recv, From: 1, Msg: Msg{Seq: 1}},
			{Kind: Recv, From: 1, Msg: Msg{Kind: msgUncertain, Seq: 1}},
			{Kind: Recv, From: 1, Msg: Msg{Kind: msgTermQuery, Seq: 1}}, // which says that 0 is dead, to 0
		} {
			if out := m.Step(ev, nil); len(out) != 0 || string(m.AppendState(nil)) != before {
				t.Errorf("algorithm %d: %+v: %+v, want nothing", a, ev, out)
			}
		}
	})
}

// TestIncarnation tells of the death of an incarnation before the member's place
// was filled again, then of that which takes part.
func TestIncarnation(t *testing.T) {
	t.Parallel()
	each(t, Config{N: 2, Incs: []uint32{1, 7}}, func(t *testing.T, a Algorithm, m *Machine) {
		m.Step(Event{Kind: Enter}, nil)
		if out := m.Step(Event{Kind: PeerFailed, From: 1, Inc: 6}, nil); len(out) != 0 {
			t.Fatalf("algorithm %d: the death of a former incarnation: %+v, want nothing", a, out)
		}
		out := m.Step(Event{Kind: PeerFailed, From: 1, Inc: 7}, nil)
		if len(out) == 0 || out[len(out)-1].Kind != Deliver {
			t.Fatalf("algorithm %d: the death: %+v, want the decision", a, out)
		}
	})
}

// TestVoteTwice gives the coordinator a vote two times: it counts once.
func TestVoteTwice(t *testing.T) {
	t.Parallel()
	m, err := New(Config{Algorithm: Linear, N: 3, Combine: Sum})
	if err != nil {
		t.Fatal(err)
	}
	one := Vote{Payload: Payload{1}}
	m.Step(Event{Kind: Enter, Vote: one}, nil)
	vote := Event{Kind: Recv, From: 1, Msg: Msg{Kind: MsgVote, Seq: 1, Vote: one}}
	m.Step(vote, nil)
	if out := m.Step(vote, nil); len(out) != 0 {
		t.Fatalf("a vote twice: %+v, want nothing", out)
	}
	vote.From = 2
	out := m.Step(vote, nil)
	if last := out[len(out)-1]; last.Kind != Deliver || last.Decision.Payload != (Payload{3}) {
		t.Fatalf("%+v, want a decision of 3", out)
	}
}

// TestConfigurationsDiffer lets a member of a durable agreement hear from one
// whose agreement is not.
func TestConfigurationsDiffer(t *testing.T) {
	t.Parallel()
	var machines [2]*Machine
	for me := range machines {
		m, err := New(Config{Algorithm: EarlyReturning, N: 2, Me: me, Durable: me == 0})
		if err != nil {
			t.Fatal(err)
		}
		machines[me] = m
	}
	machines[0].Step(Event{Kind: Enter}, nil)
	sent := machines[1].Step(Event{Kind: Enter}, nil)
	if len(sent) != 1 || sent[0].Kind != Send || sent[0].Msg.Collective.Kind != ftco.Up {
		t.Fatalf("entering: %+v, want a contribution", sent)
	}
	out := machines[0].Step(Event{Kind: Recv, From: 1, Msg: sent[0].Msg}, nil)
	if len(out) != 1 || out[0].Kind != Refuse || out[0].Seq != 1 {
		t.Fatalf("a contribution to another call: %+v, want Refuse", out)
	}
}
