package agree

import (
	"errors"
	"testing"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/coll/tree"
)

// TestNewRefuses: New refuses invalid configurations.
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

// forEachAlgorithm runs test with a fresh machine of every algorithm, as member me of n.
func forEachAlgorithm(t *testing.T, cfg Config, test func(t *testing.T, a Algorithm, m *Machine)) {
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

// TestEnterTwice: a member that enters again before its call has returned is refused.
func TestEnterTwice(t *testing.T) {
	t.Parallel()
	forEachAlgorithm(t, Config{N: 2}, func(t *testing.T, a Algorithm, m *Machine) {
		if out := m.Step(Event{Kind: Enter}, nil); len(out) != 0 {
			t.Fatalf("algorithm %d: first Enter: got %+v, want nothing", a, out)
		}
		out := m.Step(Event{Kind: Enter}, nil)
		if len(out) != 1 || out[0].Kind != Refuse || out[0].Seq != 1 {
			t.Fatalf("algorithm %d: second Enter: got %+v, want Refuse", a, out)
		}
	})
}

// TestStrangeEvents: events that no driver should send have no effect, and the agreement goes on.
func TestStrangeEvents(t *testing.T) {
	t.Parallel()
	forEachAlgorithm(t, Config{N: 3}, func(t *testing.T, a Algorithm, m *Machine) {
		m.Step(Event{Kind: Enter}, nil)
		before := string(m.AppendState(nil))
		for _, ev := range []Event{
			{},
			{Kind: Tick + 1},
			{Kind: Tick},
			{Kind: PeerFailed, From: 1, Inc: 0}, // of the incarnation before
			{Kind: PeerFailed, From: 3, Inc: 1},
			{Kind: PeerFailed, From: 0, Inc: 1}, // of the member itself
			{Kind: Recv, From: 3, Msg: Msg{Seq: 1}},
			{Kind: Recv, From: -1, Msg: Msg{Seq: 1}},
			{Kind: Recv, From: 1, Msg: Msg{Seq: 1}},
			{Kind: Recv, From: 1, Msg: Msg{Kind: msgUncertain, Seq: 1}},
			{Kind: Recv, From: 1, Msg: Msg{Kind: msgTermQuery, Seq: 1}}, // tells 0 that 0 is dead
		} {
			if out := m.Step(ev, nil); len(out) != 0 || string(m.AppendState(nil)) != before {
				t.Errorf("algorithm %d: event %+v: got %+v, want nothing", a, ev, out)
			}
		}
	})
}

// TestIncarnation reports the death of an earlier incarnation of a member, and then that of the
// present one.
func TestIncarnation(t *testing.T) {
	t.Parallel()
	forEachAlgorithm(t, Config{N: 2, Incs: []uint32{1, 7}}, func(t *testing.T, a Algorithm, m *Machine) {
		m.Step(Event{Kind: Enter}, nil)
		if out := m.Step(Event{Kind: PeerFailed, From: 1, Inc: 6}, nil); len(out) != 0 {
			t.Fatalf("algorithm %d: death of an earlier incarnation: got %+v, want nothing", a, out)
		}
		out := m.Step(Event{Kind: PeerFailed, From: 1, Inc: 7}, nil)
		if len(out) == 0 || out[len(out)-1].Kind != Deliver {
			t.Fatalf("algorithm %d: death: got %+v, want the decision", a, out)
		}
	})
}

// TestVoteTwice: a vote that arrives twice counts once.
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
		t.Fatalf("second vote: got %+v, want nothing", out)
	}
	vote.From = 2
	out := m.Step(vote, nil)
	if last := out[len(out)-1]; last.Kind != Deliver || last.Decision.Payload != (Payload{3}) {
		t.Fatalf("got %+v, want a decision of 3", out)
	}
}

// TestConfigurationsDiffer: a member of a durable agreement refuses a message of a member whose
// agreement is not durable.
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
		t.Fatalf("Enter: got %+v, want a contribution", sent)
	}
	out := machines[0].Step(Event{Kind: Recv, From: 1, Msg: sent[0].Msg}, nil)
	if len(out) != 1 || out[0].Kind != Refuse || out[0].Seq != 1 {
		t.Fatalf("contribution to another call: got %+v, want Refuse", out)
	}
}
