package ftco

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  Config
		want error
	}{
		{Config{N: 0, Radix: 2}, tree.ErrShape},
		{Config{N: 2, Radix: 1}, tree.ErrShape},
		{Config{N: 2, Radix: 2, Me: 2}, ErrConfig},
		{Config{N: 2, Radix: 2, Me: -1}, ErrConfig},
		{Config{N: 2, Radix: 2, Incs: []uint32{1}}, ErrConfig},
	} {
		if _, err := New(c.cfg); !errors.Is(err, c.want) {
			t.Errorf("New(%+v): %v, want %v", c.cfg, err, c.want)
		}
		if c.cfg.Me != 0 { // a group has no member of its own
			continue
		}
		if _, err := NewGroup(c.cfg); !errors.Is(err, c.want) {
			t.Errorf("NewGroup(%+v): %v, want %v", c.cfg, err, c.want)
		}
	}
}

// newMember makes member cfg.Me of a group.
func newMember(t *testing.T, cfg Config) *Machine {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestIncarnations reports the death of an earlier incarnation, and then that of the present one.
func TestIncarnations(t *testing.T) {
	t.Parallel()
	m := newMember(t, Config{N: 2, Radix: 2, Me: 0, Incs: []uint32{1, 3}})
	if got := m.Step(Event{Kind: Enter, Call: Call{Kind: Barrier}}, nil); got != nil {
		t.Fatalf("Enter: got %+v, want nothing", got)
	}
	if got := m.Step(Event{Kind: PeerFailed, From: 1, Inc: 2}, nil); got != nil {
		t.Errorf("death of incarnation 2 of 3: got %+v, want nothing", got)
	}
	got := m.Step(Event{Kind: PeerFailed, From: 1, Inc: 3}, nil)
	if len(got) != 1 || got[0].Kind != Deliver || fmt.Sprint(*got[0].Msg.Sets) != "{[1] [1]}" {
		t.Errorf("death of incarnation 3: got %+v, want the call to return without member 1", got)
	}
}

// TestMismatch has two members call different collectives, with either of them first, and one
// member enter twice.
func TestMismatch(t *testing.T) {
	t.Parallel()
	barrier, sum := Call{Kind: Barrier}, Call{Kind: Allreduce, Tag: 5}
	up := Event{Kind: Recv, From: 1, Msg: Msg{Kind: Up, Call: sum, Seq: 1, Value: 1}}
	m := newMember(t, Config{N: 2, Radix: 2})
	m.Step(Event{Kind: Enter, Call: barrier}, nil)
	if got := m.Step(up, nil); len(got) != 1 || got[0].Kind != Mismatch || got[0].To != 1 || got[0].Msg.Call != sum {
		t.Errorf("a sum arrives in a barrier: got %+v, want Mismatch with member 1's call", got)
	}
	if got := m.Step(Event{Kind: Enter, Call: barrier}, nil); len(got) != 1 || got[0].Kind != Refuse {
		t.Errorf("second Enter: got %+v, want Refuse", got)
	}
	m = newMember(t, Config{N: 2, Radix: 2})
	m.Step(up, nil)
	if got := m.Step(Event{Kind: Enter, Call: barrier}, nil); len(got) != 1 || got[0].Kind != Mismatch || got[0].To != 1 || got[0].Msg.Call != sum {
		t.Errorf("a barrier after a sum has arrived: got %+v, want Mismatch with member 1's call", got)
	}
	for _, other := range []Call{{Kind: Allreduce}, {Kind: Allreduce, Tag: 5, Strict: true}, {Kind: Allreduce, Tag: 5, Uniform: true}} {
		m = newMember(t, Config{N: 2, Radix: 2})
		m.Step(up, nil)
		if got := m.Step(Event{Kind: Enter, Call: other}, nil); len(got) != 1 || got[0].Kind != Mismatch {
			t.Errorf("%+v after %+v has arrived: got %+v, want Mismatch", other, sum, got)
		}
	}
}

// sends lists the kinds and receivers of the messages in actions.
func sends(actions []Action) string {
	var list []string
	for _, a := range actions {
		if a.Kind == Send {
			list = append(list, fmt.Sprintf("%s to %d", [...]string{"", "Up", "Down", "Have", "Ack", "Commit", "KeepAlive", "Alive"}[a.Msg.Kind], a.To))
		}
	}
	return strings.Join(list, ", ")
}

// TestSaidOnce: a member that learns the decision from the root's successor does not send it back,
// and a member that repeats its acknowledgement does not get two commits.
func TestSaidOnce(t *testing.T) {
	t.Parallel()
	call := Call{Kind: Barrier}
	m := newMember(t, Config{N: 3, Radix: 3, Me: 2})
	got := m.Step(Event{Kind: Enter, Call: call}, nil)
	got = m.Step(Event{Kind: PeerFailed, From: 0, Inc: 1}, got)
	got = m.Step(Event{Kind: Recv, From: 1, Msg: Msg{Kind: Down, Call: call, Seq: 1, Value: NoValue, Sets: &Sets{Missing: []Node{0}, Failed: []Node{0}}}}, got)
	if said := sends(got); said != "Up to 0, Up to 1" {
		t.Errorf("decision from the successor: sent %s, want only two contributions", said)
	}

	call.Uniform = true
	m = newMember(t, Config{N: 4, Radix: 2}) // 0 has the children 1 and 2, and 2 has 3
	got = m.Step(Event{Kind: Enter, Call: call}, nil)
	for _, x := range []struct {
		from Node
		kind MsgKind
	}{{1, Up}, {2, Up}, {3, Ack}, {3, Ack}, {1, Ack}, {2, Ack}} { // 3 knows by now that 2 is dead
		got = m.Step(Event{Kind: Recv, From: x.from, Msg: Msg{Kind: x.kind, Call: call, Seq: 1, Value: NoValue}}, got)
	}
	if said := sends(got); said != "Down to 2, Down to 1, Commit to 2, Commit to 1, Commit to 3" {
		t.Errorf("two acknowledgements of member 3: sent %s, want one commit to it", said)
	}
}

// TestPatience: a waiting member asks once in as many ticks as its configuration says.
func TestPatience(t *testing.T) {
	t.Parallel()
	for _, ticks := range []int{1, 3} {
		m := newMember(t, Config{N: 2, Radix: 2, Ticks: ticks})
		m.Step(Event{Kind: Enter, Call: Call{Kind: Barrier}}, nil)
		for i := 1; i <= 9; i++ {
			want := ""
			if i%ticks == 0 {
				want = "KeepAlive to 1"
			}
			if said := sends(m.Step(Event{Kind: Tick}, nil)); said != want {
				t.Errorf("tick %d with KEEPALIVEs after %d: sent %q, want %q", i, ticks, said, want)
			}
		}
	}
}

// TestResultDependsOnContributorsOnly records how operands are associated, in many schedules with
// deaths: the same contributors always have the same expression.
func TestResultDependsOnContributorsOnly(t *testing.T) {
	t.Parallel()
	seen, again := map[string]string{}, 0
	for seed := range uint64(testenv.Rounds(4000)) {
		rng := rand.New(rand.NewPCG(seed, 8))
		call := Call{Kind: Allreduce}
		w := newWorld(t, rng, 7, 2, []Call{call})
		w.run(rng.IntN(4))
		for _, p := range w.procs {
			if o := p.out[1]; o != nil && p.alive {
				key, text := "all", p.text[1]
				if o.Msg.Sets != nil {
					key = fmt.Sprint(o.Msg.Sets.Missing)
				}
				if seen[key] == "" {
					seen[key] = text
				} else if again++; seen[key] != text {
					t.Fatalf("seed %d: without %s the expression is %s, but was %s before", seed, key, text, seen[key])
				}
			}
		}
	}
	if len(seen) < 20 || again < testenv.Rounds(1000) {
		t.Errorf("%d sets of contributors, %d seen again: too few for a result", len(seen), again)
	}
}
