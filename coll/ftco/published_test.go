package ftco

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/coll/tree"
)

func publishedGroup(tb testing.TB, lc tree.LevelsConfig, kind Kind, service ServiceDistance) *PublishedGroup {
	tb.Helper()
	l, err := tree.NewLevels(lc)
	if err != nil {
		tb.Fatal(err)
	}
	g, err := NewPublishedGroup(PublishedConfig{Tree: l, Collective: kind, Latency: 10, Service: service, Seed: 1})
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// Appendix A: "half of each interval is allocated to handle messages from nodes of
// distance 1; quarter to nodes of distance 2; eighth to nodes of distance 3", and
// "No starvation (every distance repeats infinitely)", "Nepotism (favor closer
// nodes)".
func TestDISD(t *testing.T) {
	t.Parallel()
	const width, rounds = 64, 64
	count := map[int32]int{}
	for now := range int32(width * rounds) {
		d := intervals(now, width)
		if d < 1 {
			t.Fatalf("step %d: distance %d, want at least 1", now, d)
		}
		count[d]++
	}
	for d, want := int32(1), width*rounds/2; d <= 12; d, want = d+1, want/2 {
		if got := count[d]; got != want {
			t.Errorf("distance %d: %d of %d steps, want %d", d, got, width*rounds, want)
		}
	}
	for width := int32(1); width < 100; width++ { // any width has all distances, near ones more often
		count := [8]int{}
		for now := range width * 128 {
			if d := intervals(now, width); d < 8 {
				count[d]++
			}
		}
		for d := 1; d < 7; d++ {
			if count[d+1] == 0 || count[d] < count[d+1] {
				t.Errorf("interval %d: distances %v, want all, and near ones at least as often", width, count)
				break
			}
		}
	}
}

// Appendix A: f_RSD(x) = ceil(log_r(Y)), Y uniform: distance d has the probability 2^-d for r =
// 1/2.
func TestRSD(t *testing.T) {
	t.Parallel()
	g := publishedGroup(t, tree.LevelsConfig{N: 8, K: 2}, Allreduce, RSD)
	m := g.Members()
	const n = 1 << 16
	count := map[int32]int{}
	for range n {
		count[m[3].distance(0)]++
	}
	for d, want := int32(1), n/2; d <= 6; d, want = d+1, want/2 {
		if got := count[d]; got < want*9/10 || got > want*11/10 {
			t.Errorf("distance %d: %d of %d, want about %d", d, got, n, want)
		}
	}
}

// Section 4: f_timeout "based on the message source and destination nodes",
// Appendix A: "proportional to the degree of destination node and the distance".
func TestTimeouts(t *testing.T) {
	t.Parallel()
	g := publishedGroup(t, tree.LevelsConfig{N: 27, K: 3}, Allreduce, RSD)
	for _, c := range []struct{ dest, d, want int32 }{
		{26, 1, 20 + 4},   // a leaf
		{0, 1, 20 + 4*6},  // the root of six
		{0, 2, 20 + 24*2}, // 12 nodes at distance 2, in 4 intervals' quarters: 48 of 24
		{26, 2, 20 + 4},   // one node at distance 2: one interval of 4
		{26, 3, 20 + 2*4}, // one at distance 3
		{26, 9, 20},       // no node there
		{0, 3, 20 + 24*3}, // 8 nodes at distance 3: 64 steps, three intervals
	} {
		if got := g.timeout(c.dest, c.d); got != c.want {
			t.Errorf("timeout of %d at distance %d: %d, want %d", c.dest, c.d, got, c.want)
		}
	}
}

// Section 4: "each node calculates its expected data arrival time based on its
// location in the tree ... one for the subtree data and the other for the final
// result".
func TestETA(t *testing.T) {
	t.Parallel()
	g := publishedGroup(t, tree.LevelsConfig{N: 7, K: 2, Shape: tree.KAry}, Allreduce, RSD)
	// Children go round: 3 and 5 are those of node 1, 4 and 6 those of node 2.
	for v, want := range [][2]int32{{26, 26}, {13, 38}, {13, 39}, {0, 50}, {0, 51}, {0, 51}, {0, 52}} {
		if got := [2]int32{g.etaSub[v], g.etaFull[v]}; got != want {
			t.Errorf("node %d: expects DATA of its subtree at %d, the result at %d, want %v", v, got[0], got[1], want)
		}
	}
}

// TestAdoption: the children of a dead child take its place, at a distance of one more. Each root
// adopts the children of another root, also of an earlier one.
func TestAdoption(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tree     tree.LevelsConfig
		me, dead Node
		want     []Node
	}{
		{tree.LevelsConfig{N: 7, K: 2, Shape: tree.KAry}, 0, 1, []Node{3, 5}},
		{tree.LevelsConfig{N: 6, K: 3, MultiRoot: true}, 0, 1, []Node{4}},
		{tree.LevelsConfig{N: 6, K: 3, MultiRoot: true}, 2, 1, []Node{4}},
	} {
		g := publishedGroup(t, c.tree, Allreduce, RSD)
		p := &g.Members()[c.me]
		p.Step(&PubEvent{Kind: PubEnter}, nil)
		p.Step(&PubEvent{Kind: PubFailed, From: c.dead}, nil)
		var got []Node
		for _, i := range p.contacts.detour.down {
			got = append(got, p.contacts.list[i].node)
			if d := p.contacts.list[i].distance; d != 2 {
				t.Errorf("%+v: node %d at node %d has distance %d, want 2", c.tree, p.contacts.list[i].node, c.me, d)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: node %d adopts %v of node %d, want %v", c.tree, c.me, got, c.dead, c.want)
		}
	}
}

// The first of the two times holds while DATA of a subtree is awaited, including that of a dead
// child's children, and the second from then on.
func TestETAByPhase(t *testing.T) {
	t.Parallel()
	g := publishedGroup(t, tree.LevelsConfig{N: 7, K: 2, Shape: tree.KAry}, Allreduce, RSD)
	p := &g.Members()[1]
	for p.phase = fromBelow; p.phase < done; p.phase++ {
		want := g.etaFull[1]
		if p.phase <= fromBelowMore {
			want = g.etaSub[1]
		}
		if got := p.eta(p.phase); got != want {
			t.Errorf("phase %d: waits until %d, want %d", p.phase, got, want)
		}
	}
}

// Section 3, Message Priorities: "Whenever DATA messages are present in the incoming queue, those
// are handled first"; Section 4: then KEEPALIVE, then ACK. The order of arrival does not matter.
func TestMessagePriorities(t *testing.T) {
	t.Parallel()
	for _, order := range [][]PubMsgKind{{PubAck, PubKeepAlive, PubData}, {PubKeepAlive, PubAck, PubData}, {PubData, PubAck, PubKeepAlive}} {
		g := publishedGroup(t, tree.LevelsConfig{N: 7, K: 2, Shape: tree.KAry}, Allreduce, RSD)
		m := g.Members()
		root := &m[0]
		root.Step(&PubEvent{Kind: PubEnter}, nil)
		for i, kind := range order { // its children are 1 and 2, for which it waits
			msg := PubMsg{From: 1, Kind: kind, Distance: 1}
			if kind == PubData {
				m[1].accounted.writeTo(&msg, g)
			}
			root.Step(&PubEvent{Kind: PubArrive, Now: int32(i), Msg: msg}, nil)
		}
		var took []PubMsgKind
		for now := int32(3); now < 20 && len(took) < len(order); now++ {
			for _, a := range root.Step(&PubEvent{Kind: PubTurn, Now: now}, nil) {
				if a.Kind == PubTook {
					took = append(took, a.Msg.Kind)
				}
			}
		}
		if !slices.Equal(took, []PubMsgKind{PubData, PubKeepAlive, PubAck}) {
			t.Errorf("arrived as %v, handled as %v, want DATA, KEEPALIVE, ACK", order, took)
		}
	}
}

// Algorithm 1, lines 6 to 8: a node first serves the nodes at the service distance. In an interval
// of eight steps, the fifth and sixth are for distance 2.
func TestServiceDistance(t *testing.T) {
	t.Parallel()
	for now, want := range map[int32]Node{16: 1, 20: 3, 21: 3} {
		g := publishedGroup(t, tree.LevelsConfig{N: 7, K: 2, Shape: tree.KAry}, Allreduce, DISD)
		root := &g.Members()[0] // its children are 1 and 2; 3 is a child of 1
		root.Step(&PubEvent{Kind: PubEnter}, nil)
		for _, m := range []PubMsg{{From: 1, Kind: PubKeepAlive, Distance: 1}, {From: 3, Kind: PubKeepAlive, Distance: 2}} {
			root.Step(&PubEvent{Kind: PubArrive, Now: now, Msg: m}, nil)
		}
		out := root.Step(&PubEvent{Kind: PubTurn, Now: now}, nil)
		if len(out) != 1 || out[0].Kind != PubTook || out[0].Msg.From != want {
			t.Errorf("step %d: %+v, want the message of node %d handled", now, out, want)
		}
	}
}

// TestAnyMessageAnswers: a KEEPALIVE from a node that owes an answer counts as the answer. The
// node is asked again after the interval.
func TestAnyMessageAnswers(t *testing.T) {
	t.Parallel()
	g := publishedGroup(t, tree.LevelsConfig{N: 2, K: 2}, Allreduce, RSD)
	root := &g.Members()[0]
	root.Step(&PubEvent{Kind: PubEnter}, nil)
	var asked []int32
	for now := range int32(200) {
		if len(asked) == 1 && now == asked[0]+5 {
			root.Step(&PubEvent{Kind: PubArrive, Now: now, Msg: PubMsg{From: 1, Kind: PubKeepAlive, Distance: 1, Deadline: now + 50}}, nil)
		}
		for _, a := range root.Step(&PubEvent{Kind: PubTurn, Now: now}, nil) {
			if a.Kind == PubSend && a.Msg.Kind == PubKeepAlive {
				asked = append(asked, now)
			}
		}
	}
	if len(asked) != 2 || asked[0] != g.etaSub[0]+1 || asked[1] != asked[0]+g.timeout(1, 1)+1 {
		t.Errorf("asked at %v, want one step after %d and one interval of %d after that", asked, g.etaSub[0], g.timeout(1, 1))
	}
}

// TestSets compares sets of intervals with plain sets.
func TestSets(t *testing.T) {
	t.Parallel()
	g := publishedGroup(t, tree.LevelsConfig{N: 60, K: 3}, Allreduce, RSD)
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		m := g.Members()
		p, q := &m[1+r.IntN(59)], &m[0]
		want := map[int32]bool{p.accounted.spans[0].from: true}
		for range r.IntN(40) {
			from := r.Int32N(60)
			s := span{from, from + 1 + r.Int32N(min(5, 60-from))}
			p.accounted.add(s)
			for i := s.from; i < s.to; i++ {
				want[i] = true
			}
		}
		var msg PubMsg
		p.accounted.writeTo(&msg, g)
		q.accounted.spans = append(q.accounted.spans[:0], span{7, 8})
		q.accounted.addFrom(&msg, g)
		for place := range int32(60) {
			alone := span{place, place + 1}
			if p.accounted.has(alone) != want[place] || q.accounted.has(alone) != (want[place] || place == 7) {
				t.Fatalf("place %d of %v, merged with %v: want %v", place, p.accounted.spans, q.accounted.spans, want[place])
			}
		}
		if p.Complete() != (len(want) == 60) || len(g.Accounted(&msg, nil)) != len(want) || len(p.Accounted(nil)) != len(want) {
			t.Fatalf("%v: full %v, %d nodes, want %d", p.accounted.spans, p.Complete(), len(g.Accounted(&msg, nil)), len(want))
		}
	}
}

// TestPublishedStepAllocatesNothing: handling and answering a message does not allocate.
func TestPublishedStepAllocatesNothing(t *testing.T) {
	g := publishedGroup(t, tree.LevelsConfig{N: 3, K: 2}, Allreduce, RSD)
	m := g.Members()
	out := make([]PubAction, 0, 4)
	var ev PubEvent
	step := func(v int, kind PubEventKind, now int32) []PubAction {
		ev.Kind, ev.Now = kind, now
		out = m[v].Step(&ev, out[:0])
		return out
	}
	round := func() {
		g.Reset(m, 1)
		for v := range m {
			step(v, PubEnter, 0)
		}
		for now := range int32(40) { // messages take no time here
			for v := range m {
				if a := step(v, PubTurn, now); len(a) > 0 && a[0].Kind == PubSend {
					to := a[0].To
					ev.Msg = a[0].Msg
					step(int(to), PubArrive, now)
				}
			}
		}
		for v := range m {
			if !m[v].Returned() || !m[v].Complete() {
				t.Fatalf("node %d: returned %v, accounts for all %v, want true and true", v, m[v].Returned(), m[v].Complete())
			}
		}
	}
	round()
	if a := testing.AllocsPerRun(100, round); a != 0 {
		t.Errorf("%v allocations, want none", a)
	}
}

func TestPublishedRefuses(t *testing.T) {
	t.Parallel()
	l, err := tree.NewLevels(tree.LevelsConfig{N: 4, K: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []PublishedConfig{
		{},
		{Tree: l, Latency: 10},
		{Tree: l, Latency: 10, Collective: Barrier},
		{Tree: l, Collective: Allreduce},
		{Tree: l, Collective: Allreduce, Latency: 10, Service: 7},
	} {
		if _, err := NewPublishedGroup(c); !errors.Is(err, ErrPublished) {
			t.Errorf("%+v: %v, want ErrPublished", c, err)
		}
	}
}
