package fence

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
	"github.com/goshmem/goshmem/sim/explore"
)

// scenario is a case for the explorer: each member is a node, with the core and a small server. The calls of a member are
// the fences of one set, one after the other.
type scenario struct {
	n, radix, fences int
	mute             uint64 // nodes whose processes have ended before they join: such a node hands in an error when it is called
	late             uint64 // nodes whose processes live and never join: a deadline ends what waits for them
	ahead            bool   // a clock that ticks lets the deadline of the last fence pass, not of the fence under way
	limits           bool   // clocks may tick
	spares           bool   // the fences go on without those who do not join
}

func (s *scenario) N() int     { return s.n }
func (s *scenario) Calls() int { return s.fences }
func (s *scenario) String() string {
	return fmt.Sprintf("fence n=%d k=%d fences=%d mute=%b late=%b ahead=%v spares=%v", s.n, s.radix, s.fences, s.mute, s.late, s.ahead, s.spares)
}

const testSpace = "job-1"

var testSet = server.FenceSet{Op: "fence", Procs: testSpace + ":*"}

// call names a fence among all nodes, with one process each.
func (s *scenario) call(seq uint64) server.FenceCall {
	c := server.FenceCall{ID: server.FenceID{FenceSet: testSet, Seq: seq}, Spares: s.spares}
	for rank := range s.n {
		c.Procs = append(c.Procs, codec.Proc{Nspace: testSpace, Rank: codec.Rank(rank)})
	}
	return c
}

func (s *scenario) Member(me int) (explore.Member, error) {
	f, err := NewFences(Layout{Me: me, Nodes: s.n, Radix: s.radix, NodeOf: func(p codec.Proc) (int, bool) { return int(p.Rank), true }})
	if err != nil {
		return nil, err
	}
	return &node{sys: s, me: me, f: f, parts: make([]*codec.Status, s.fences+1)}, nil
}

// node is a member: the core, and a server with the rules of pmix/server that matter here. What the two say to each other
// are messages of the node to itself, so other things happen in between.
type node struct {
	sys *scenario
	me  int
	f   *Fences

	entered int             // fences that the processes have joined
	opened  uint64          // fences that the server has met
	given   uint64          // parts that it has handed in
	lapsed  uint64          // a bit for each fence: its deadline has passed here
	parts   []*codec.Status // its parts, by number; nil: not decided
	results []string        // the answers, in order
}

// letter is a message: of the core to the other's core, or between core and server of a node.
type letter struct {
	kind   letterKind
	body   []byte // to a core
	seq    uint64
	status codec.Status
	data   string
}

type letterKind byte

const (
	network letterKind = iota
	called
	expired
	done
	part
	expire
)

func (l *letter) AppendState(b []byte) []byte {
	b = append(b, byte(l.kind), byte(l.seq), byte(l.status))
	return append(appendBytes(b, l.body), l.data...)
}

func (l *letter) String() string {
	if l.kind == network {
		m, err := ParseMessage(l.body)
		return fmt.Sprintf("%+v %v", m, err)
	}
	return fmt.Sprintf("%s #%d %v %q", [...]string{"", "called", "expired", "done", "part", "expire"}[l.kind], l.seq, l.status, l.data)
}

// contribution is the data of a node.
func contribution(node int, seq uint64) string { return fmt.Sprintf("%d.%d;", node, seq) }

// perform turns outputs into effects.
func (m *node) perform(outputs []Output, out []explore.Effect) []explore.Effect {
	for _, o := range outputs {
		switch o.Kind {
		case Send:
			if o.To == m.me {
				return append(out, explore.Effect{Broken: errors.New("a node sends to itself")})
			}
			out = append(out, explore.Effect{To: o.To, Msg: &letter{body: o.Message.Append(nil)}})
		case Called, Expired:
			kind := called
			if o.Kind == Expired {
				kind = expired
			}
			if len(o.Call.Procs) != m.sys.n || o.Call.Spares != m.sys.spares {
				return append(out, explore.Effect{Broken: fmt.Errorf("the server is told of %+v", o.Call)})
			}
			out = m.tellSelf(out, letter{kind: kind, seq: o.Call.ID.Seq})
		case Done:
			out = m.tellSelf(out, letter{kind: done, seq: o.ID.Seq, status: o.Status, data: string(o.Data)})
		case Fault:
			return append(out, explore.Effect{Broken: o.Err})
		}
	}
	return out
}

func (m *node) tellSelf(out []explore.Effect, l letter) []explore.Effect {
	return append(out, explore.Effect{To: m.me, Msg: &l})
}

// decide decides the server's part of a fence, once, and hands it in when its turn comes.
func (m *node) decide(seq uint64, status codec.Status, out []explore.Effect) []explore.Effect {
	if seq <= uint64(len(m.results)) || m.parts[seq] != nil {
		return out
	}
	m.parts[seq] = &status
	return m.handInNext(out)
}

func (m *node) handInNext(out []explore.Effect) []explore.Effect {
	seq := uint64(len(m.results)) + 1
	if seq >= uint64(len(m.parts)) || m.parts[seq] == nil || m.given >= seq {
		return out
	}
	m.given = seq
	l := letter{kind: part, seq: seq, status: *m.parts[seq]}
	if l.status == codec.StatusSuccess {
		l.data = contribution(m.me, seq)
	}
	return m.tellSelf(out, l)
}

// isMute reports whether the node's process has ended.
func (m *node) isMute() bool { return m.sys.mute>>m.me&1 != 0 }

// joins reports whether the node's process joins fences.
func (m *node) joins() bool { return (m.sys.mute|m.sys.late)>>m.me&1 == 0 }

func (m *node) Enter(out []explore.Effect) []explore.Effect {
	m.entered++
	if len(m.results) >= m.entered {
		return append(out, explore.Effect{Return: true})
	}
	if !m.joins() {
		return out
	}
	m.opened = max(m.opened, uint64(m.entered))
	return m.decide(uint64(m.entered), codec.StatusSuccess, out)
}

func (m *node) Tick(out []explore.Effect) []explore.Effect {
	seq := uint64(m.entered)
	if m.sys.ahead {
		seq = uint64(m.sys.fences)
	}
	if seq == 0 || seq <= uint64(len(m.results)) || !m.joins() {
		return out
	}
	m.lapsed |= 1 << seq
	m.opened = max(m.opened, seq)
	out = m.tellSelf(out, letter{kind: expire, seq: seq})
	return m.decide(seq, codec.StatusErrTimeout, out)
}

func (m *node) PeerFailed(q int, out []explore.Effect) []explore.Effect {
	return m.perform(m.f.NodeDead(q, nil), out)
}

func (m *node) Recv(from int, msg explore.Message, out []explore.Effect) []explore.Effect {
	l, ok := msg.(*letter)
	if !ok || (from == m.me) == (l.kind == network) {
		return append(out, explore.Effect{Broken: fmt.Errorf("message %v from %d at %d", msg, from, m.me)})
	}
	switch l.kind {
	case network:
		in, err := ParseMessage(l.body)
		if err != nil {
			return append(out, explore.Effect{Broken: err})
		}
		return m.perform(m.f.Receive(from, in, nil), out)
	case part:
		p := &server.FencePart{FenceCall: m.sys.call(l.seq), Status: l.status, Data: []byte(l.data)}
		return m.perform(m.f.HandIn(p, nil), out)
	case expire:
		c := m.sys.call(l.seq)
		return m.perform(m.f.Expire(&c, nil), out)
	case done:
		return m.takeAnswer(l, out)
	default:
		return m.takeCall(l, out)
	}
}

// takeCall is FenceCalled or FenceExpired of the server.
func (m *node) takeCall(l *letter, out []explore.Effect) []explore.Effect {
	if l.seq > m.opened+1 {
		return append(out, explore.Effect{Broken: fmt.Errorf("the server of node %d is told of fence %d, and knows %d fences", m.me, l.seq, m.opened)})
	}
	m.opened = max(m.opened, l.seq)
	switch {
	case l.kind == expired:
		return m.decide(l.seq, codec.StatusErrTimeout, out)
	case m.isMute():
		return m.decide(l.seq, codec.StatusErrProcTermWoSync, out)
	}
	return out
}

// takeAnswer is FenceDone of the server.
func (m *node) takeAnswer(l *letter, out []explore.Effect) []explore.Effect {
	if l.seq != uint64(len(m.results))+1 || l.seq != m.given {
		return append(out, explore.Effect{Broken: fmt.Errorf("node %d: fence %d ends after %d answers, with %d parts given", m.me, l.seq, len(m.results), m.given)})
	}
	if l.status == codec.StatusSuccess && *m.parts[l.seq] != codec.StatusSuccess {
		return append(out, explore.Effect{Broken: fmt.Errorf("node %d: fence %d ends well without this node's part", m.me, l.seq)})
	}
	m.results = append(m.results, fmt.Sprintf("%v %s", l.status, l.data))
	if uint64(m.entered) >= l.seq {
		out = append(out, explore.Effect{Return: true})
	}
	return m.handInNext(out)
}

func (m *node) Entered() int           { return m.entered }
func (m *node) Returned() int          { return min(m.entered, len(m.results)) }
func (m *node) Result(call int) string { return m.results[call] }

func (m *node) Remains() explore.Member {
	if len(m.results) == 0 {
		return nil
	}
	return &node{sys: m.sys, me: m.me, entered: m.entered, results: m.results}
}

func (m *node) Clone() explore.Member {
	c := *m
	c.f = m.f.clone()
	c.parts = append([]*codec.Status(nil), m.parts...)
	c.results = append([]string(nil), m.results...)
	return &c
}

func (m *node) AppendState(b []byte) []byte {
	b = append(b, byte(m.entered), byte(m.opened), byte(m.given), byte(m.lapsed))
	for _, p := range m.parts {
		if p != nil {
			b = append(b, byte(*p))
		}
		b = append(b, '|')
	}
	for _, r := range m.results {
		b = append(append(b, r...), '|')
	}
	if m.f != nil {
		b = m.f.appendState(b)
	}
	return b
}

// Check looks whether a fence has ended alike on all nodes, living and dead, with the right data, and with an error only
// if there is a reason for it. At the end every living node whose processes have joined has its answers.
func (s *scenario) Check(g *explore.Group) error {
	for seq := uint64(1); seq <= uint64(s.fences); seq++ {
		result, of, given, lapsed := "", -1, false, false
		late := s.late&^g.Dead != 0
		for p, member := range g.Members {
			m, ok := member.(*node)
			if !ok || member == nil {
				continue
			}
			given = given || !g.IsDead(p) && m.given >= seq
			lapsed = lapsed || !g.IsDead(p) && m.lapsed>>seq&1 != 0
			if uint64(m.Returned()) < seq {
				continue
			}
			switch r := m.results[seq-1]; {
			case of < 0:
				result, of = r, p
			case r != result:
				return fmt.Errorf("fence %d ends at node %d with %q, and at node %d with %q", seq, of, result, p, r)
			}
		}
		if err := s.checkResult(seq, result, g); err != nil {
			return err
		}
		for p, member := range g.Members {
			if g.Final && !g.IsDead(p) && uint64(member.Returned()) < seq && (given || s.mute>>p&1 == 0) && (lapsed || !late) {
				return fmt.Errorf("%w: fence %d at node %d", explore.ErrHang, seq, p)
			}
		}
	}
	return nil
}

func (s *scenario) checkResult(seq uint64, result string, g *explore.Group) error {
	want := []string{""}
	all := ""
	for p := range s.n {
		all += contribution(p, seq)
	}
	lost := lostStatus.String() + " "
	if s.mute != 0 {
		want = append(want, lost)
	} else {
		if s.late&^g.Dead == 0 {
			want = append(want, codec.StatusSuccess.String()+" "+all)
		}
		if g.Dead != 0 && !s.spares {
			want = append(want, lost)
		}
		if g.Dead != 0 && s.spares && isPartOf(result, s, seq, g.Dead) {
			return nil
		}
	}
	if s.limits {
		want = append(want, codec.StatusErrTimeout.String()+" ")
	}
	if slices.Contains(want, result) {
		return nil
	}
	return fmt.Errorf("fence %d ends with %q, want one of %q", seq, result, want)
}

// isPartOf reports whether a result has the data of all living members, of dead ones or not, in order.
func isPartOf(result string, s *scenario, seq, dead uint64) bool {
	data, ok := strings.CutPrefix(result, codec.StatusSuccess.String()+" ")
	if !ok {
		return false
	}
	for p := range s.n {
		rest, found := strings.CutPrefix(data, contribution(p, seq))
		if !found && dead>>p&1 == 0 {
			return false
		}
		data = rest
	}
	return data == ""
}

// Whatever the order of messages, and whoever dies or lets a deadline pass when: a fence ends, and alike on all nodes.
func TestFencesEndAlike(t *testing.T) {
	for _, c := range []struct {
		scenario
		faults explore.Faults
	}{
		{scenario{n: 1, radix: 2, fences: 2}, explore.Faults{}},
		{scenario{n: 2, radix: 2, fences: 3}, explore.Faults{}},
		{scenario{n: 2, radix: 2, fences: 2}, explore.Faults{Deaths: 1}},
		{scenario{n: 2, radix: 2, fences: 2, limits: true}, explore.Faults{Deaths: 1, Ticks: 1}},
		{scenario{n: 2, radix: 2, fences: 3, limits: true, ahead: true}, explore.Faults{Deaths: 1, Ticks: 1}},
		{scenario{n: 3, radix: 2, fences: 2}, explore.Faults{}},
		{scenario{n: 3, radix: 2, fences: 2, limits: true}, explore.Faults{Ticks: 1}},
		{scenario{n: 3, radix: 2, fences: 2}, explore.Faults{Deaths: 1}},
		{scenario{n: 3, radix: 2, fences: 1}, explore.Faults{Deaths: 2}},
		{scenario{n: 3, radix: 3, fences: 1}, explore.Faults{Deaths: 2}},
		{scenario{n: 3, radix: 2, fences: 1, spares: true}, explore.Faults{Deaths: 2}},
		{scenario{n: 3, radix: 2, fences: 1, mute: 0b100}, explore.Faults{Deaths: 1}},
		{scenario{n: 3, radix: 2, fences: 1, mute: 0b001}, explore.Faults{Deaths: 1}},
		{scenario{n: 3, radix: 2, fences: 1, late: 0b100, limits: true}, explore.Faults{Deaths: 1, Ticks: 1}},
		{scenario{n: 3, radix: 2, fences: 1, late: 0b010, limits: true}, explore.Faults{Deaths: 1, Ticks: 2}},
		{scenario{n: 4, radix: 2, fences: 1, late: 0b1000, limits: true}, explore.Faults{Ticks: 1}},
		{scenario{n: 4, radix: 2, fences: 1, mute: 0b1000}, explore.Faults{Deaths: 1}},
	} {
		t.Run(fmt.Sprintf("%v %+v", &c.scenario, c.faults), func(t *testing.T) {
			t.Parallel()
			if testing.Short() && c.n > 3 {
				t.Skip("takes a second, and much longer under the race detector")
			}
			count, failure := explore.Exhaustive(t.Context(), &c.scenario, c.faults)
			if failure != nil {
				t.Fatalf("%v\n%v", failure, failure.Choices)
			}
			t.Logf("%+v", count)
			if count.Ends == 0 {
				t.Errorf("no end was reached")
			}
		})
	}
}

// The same in random orders, with more nodes.
func TestFencesEndAlikeAmongMany(t *testing.T) {
	for _, n := range []int{8, 64} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			runs := 80000 / n / n
			if testing.Short() {
				runs /= 8
			}
			for seed := range uint64(runs) {
				_, failure := explore.Random(func(rng *rand.Rand) (explore.System, explore.Faults) { return drawScenario(rng, n) }, seed)
				if failure != nil {
					t.Fatalf("seed %d: %v", seed, failure)
				}
			}
		})
	}
}

func drawScenario(rng *rand.Rand, n int) (explore.System, explore.Faults) {
	s := &scenario{n: n, radix: 2 + rng.IntN(4), fences: 1 + rng.IntN(3), spares: rng.IntN(5) == 0}
	faults := explore.Faults{Deaths: rng.IntN(min(n, 5))}
	if !s.spares && rng.IntN(3) == 0 {
		s.mute = 1 << rng.IntN(n)
	}
	if rng.IntN(3) == 0 {
		s.limits, s.ahead, faults.Ticks = true, rng.IntN(2) == 0, 1+rng.IntN(2)
		if !s.spares && !s.ahead && rng.IntN(2) == 0 {
			s.late = 1 << rng.IntN(n) &^ s.mute
		}
	}
	return s, faults
}
