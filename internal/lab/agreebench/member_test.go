package agreebench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/coll/ftco"
)

// letter is a message on its way.
type letter struct {
	from int
	text []byte
}

// group is the members of a variant with channels in memory that keep the order of each pair of PEs.
type group struct {
	t       *testing.T
	rng     *rand.Rand
	members []member // nil: dead
	queues  map[[2]int][]letter
	took    []int // by PE: messages received
}

func newGroup(t *testing.T, v Variant, pes int, dead []int, seed uint64) *group {
	t.Helper()
	g := &group{t: t, rng: rand.New(rand.NewPCG(seed, 0)), members: make([]member, pes), queues: map[[2]int][]letter{}, took: make([]int, pes)}
	for q := range pes {
		if slices.Contains(dead, q) {
			continue
		}
		m, err := newMember(v, pes, q, dead, func(to int, message []byte) {
			if slices.Contains(dead, to) {
				t.Errorf("%s: PE %d sends to PE %d, which it knows to be dead", v, q, to)
			}
			g.queues[[2]int{q, to}] = append(g.queues[[2]int{q, to}], letter{q, slices.Clone(message)})
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range dead {
			m.peerFailed(p)
		}
		g.members[q] = m
	}
	return g
}

// call makes all survivors call an agreement, moves messages in random order, and returns the decisions by PE.
func (g *group) call(number uint64) map[int]agree.Decision {
	g.t.Helper()
	clear(g.took)
	for _, q := range g.rng.Perm(len(g.members)) {
		if m := g.members[q]; m != nil {
			m.enter(voteOf(q, number))
		}
	}
	for {
		var ways [][2]int
		for way, q := range g.queues {
			if len(q) > 0 {
				ways = append(ways, way)
			}
		}
		if len(ways) == 0 {
			break
		}
		slices.SortFunc(ways, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
		way := ways[g.rng.IntN(len(ways))]
		l := g.queues[way][0]
		g.queues[way] = g.queues[way][1:]
		g.took[way[1]]++
		if err := g.members[way[1]].receive(l.from, l.text); err != nil {
			g.t.Fatal(err)
		}
	}
	decisions := map[int]agree.Decision{}
	for q, m := range g.members {
		if m == nil {
			continue
		}
		d, ok, err := m.taken()
		if err != nil || !ok {
			g.t.Fatalf("PE %d, call %d: returned %v, %v, want a decision", q, number, ok, err)
		}
		decisions[q] = d
	}
	return decisions
}

// TestMembers: in any order of messages, every survivor decides what the votes say, in all variants.
func TestMembers(t *testing.T) {
	t.Parallel()
	for _, c := range []cell{{2, 0}, {2, 1}, {5, 2}, {8, 0}, {16, 8}, {33, 16}} {
		for _, who := range Victims {
			dead := victims(who, c.pes, c.dead, rand.New(rand.NewPCG(3, 0)))
			for _, v := range variantsOf(Algorithms, c.dead) {
				g := newGroup(t, v, c.pes, dead, uint64(c.pes))
				for call := uint64(1); call <= 6; call++ {
					want := expected(c.pes, dead, call, v.Algorithm == Allreduce)
					for q, d := range g.call(call) {
						if what := differs(&d, &want); what != "" {
							t.Errorf("%s, %d PEs, %v dead: PE %d: %s", v, c.pes, dead, q, what)
						}
					}
				}
			}
		}
	}
}

// TestRebalanced: with the holes of inner victims, PE 0 hears from every PE that lost all PEs above it. In a rebalanced
// tree of 16 survivors it hears from four.
func TestRebalanced(t *testing.T) {
	t.Parallel()
	dead := victims(Inner, 32, 16, nil)
	for _, algorithm := range []string{Log, Early} {
		for _, rebalanced := range []bool{false, true} {
			g := newGroup(t, Variant{algorithm, rebalanced}, 32, dead, 1)
			g.call(1) // lists the dead
			g.call(2)
			want := 15 // inner victims are all that have a PE below them, but PE 0
			if rebalanced {
				want = 4
			}
			if g.took[0] != want {
				t.Errorf("%s, rebalanced %v: PE 0 takes %d messages, want %d", algorithm, rebalanced, g.took[0], want)
			}
		}
	}
}

// TestMemberErrors: a call that cannot return is an error, and so is a message that no PE sends.
func TestMemberErrors(t *testing.T) {
	t.Parallel()
	drop := func(int, []byte) {}
	for _, a := range Algorithms {
		m, err := newMember(Variant{Algorithm: a}, 3, 1, nil, drop)
		if err != nil {
			t.Fatal(err)
		}
		m.enter(voteOf(1, 1))
		if _, ok, err := m.taken(); ok || err != nil {
			t.Errorf("%s: %v, %v before any message, want neither a decision nor an error", a, ok, err)
		}
		for _, text := range []string{"", "short", strings.Repeat("x", 3*maxFrame)} {
			if err := m.receive(0, []byte(text)); !errors.Is(err, agree.ErrMessage) || !strings.Contains(err.Error(), "PE 0") {
				t.Errorf("%s: message of %d bytes: %v", a, len(text), err)
			}
		}
		m.enter(voteOf(1, 2))
		if _, _, err := m.taken(); err == nil {
			t.Errorf("%s: no error of a call within a call", a)
		}
	}
	m, err := newMember(Variant{Algorithm: Allreduce}, 3, 1, []int{2}, drop)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.receive(2, agree.AppendAllreduce(nil, &ftco.Msg{Kind: ftco.Up}, &agree.Vote{})); !errors.Is(err, agree.ErrMessage) {
		t.Errorf("message of a dead PE: %v", err)
	}
}

// TestBlocked: if the coordinator dies after the votes, two-phase commit says that it is blocked.
func TestBlocked(t *testing.T) {
	t.Parallel()
	m, err := newMember(Variant{Algorithm: Linear}, 2, 1, nil, func(int, []byte) {})
	if err != nil {
		t.Fatal(err)
	}
	m.enter(voteOf(1, 1))
	m.peerFailed(0)
	if _, ok, err := m.taken(); ok || err == nil || !strings.Contains(err.Error(), "agreement 1 is blocked") {
		t.Errorf("%v, %v, want that it is blocked", ok, err)
	}
}

// TestExpected: the expected decision tells any two calls, and any two sets of survivors, apart.
func TestExpected(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, pes := range []int{4, 128} {
		for _, dead := range [][]int{nil, {1}, {2}, {1, 2}} {
			for call := range uint64(50) {
				d := expected(pes, dead, call, true)
				d.Seq = 0
				key, name := string(appendDecision(nil, &d)), fmt.Sprint(pes, dead, call)
				if seen[key] != "" {
					t.Fatalf("%s and %s have the same decision", seen[key], name)
				}
				seen[key] = name
			}
		}
	}
	want := expected(4, []int{1}, 7, false)
	if !slices.Equal(want.Failed, []agree.Node{1}) || want.Flags != ^uint64(1|4|8) {
		t.Errorf("decision %+v, want PE 1 dead and the flags of 0, 2 and 3 off", want)
	}
	for what, change := range map[string]func(d *agree.Decision){
		"decision of call 8": func(d *agree.Decision) { d.Seq++ }, "outcome 2": func(d *agree.Decision) { d.Outcome = agree.Undecided },
		"lists [] as dead": func(d *agree.Decision) { d.Failed = nil }, "flags 0x0": func(d *agree.Decision) { d.Flags = 0 },
		"payload 00": func(d *agree.Decision) { d.Payload = agree.Payload{} },
	} {
		got := expected(4, []int{1}, 7, false)
		change(&got)
		if text := differs(&got, &want); !strings.Contains(text, what) {
			t.Errorf("%q, want %q", text, what)
		}
		if string(appendDecision(nil, &got)) == string(appendDecision(nil, &want)) {
			t.Errorf("%s: the digest does not tell", what)
		}
	}
}
