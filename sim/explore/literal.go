package explore

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/coll/tree"
)

// Literal runs [ftco.Literal], Algorithms 1 to 4 as printed. The search has to find it wrong. Its members
// take a turn whenever all clocks tick. A message comes Latency+1 ticks after it was sent, in the
// order of senders.
type Literal struct {
	Size, Radix int
	Config      ftco.LiteralConfig // without Tree, Me and Value
}

// N returns the number of members.
func (s *Literal) N() int { return s.Size }

// Calls returns 1.
func (s *Literal) Calls() int { return 1 }

// String describes the scenario.
func (s *Literal) String() string {
	return fmt.Sprintf("literal n=%d k=%d latency=%d allreduce", s.Size, s.Radix, s.Config.Latency)
}

// Member makes member me. Four bits of the sum count its contributions.
func (s *Literal) Member(me int) (Member, error) {
	t, err := tree.NewLevels(tree.LevelsConfig{N: s.Size, K: s.Radix, Shape: tree.KAry})
	if err != nil {
		return nil, err
	}
	cfg := s.Config
	cfg.Tree, cfg.Me, cfg.Value = t, ftco.Node(me), 1<<(4*me)
	l, err := ftco.NewLiteral(cfg)
	if err != nil {
		return nil, err
	}
	return &literalMember{l: l, hop: cfg.Latency + 1, now: -1}, nil
}

// literalValue returns what m has returned, if it has.
func literalValue(m Member) (value int64, ok bool) {
	lm, ok := m.(*literalMember)
	if !ok {
		return 0, false
	}
	return lm.l.Returned()
}

// Check checks P2 for living members that have returned, which is the paper's own definition. At the end
// it checks P1, P3 and P4 as well.
func (s *Literal) Check(g *Group) error {
	first := -1
	for p, m := range g.Members {
		if g.IsDead(p) {
			continue
		}
		x, ok := literalValue(m)
		if !ok {
			if g.Final {
				return fmt.Errorf("%w: member %d", ErrHang, p)
			}
			continue
		}
		if first < 0 {
			first = p
		} else if want, _ := literalValue(g.Members[first]); x != want {
			return fmt.Errorf("%w: member %d %s, member %d %s", ErrAgree, first, resultOf(g, first, 0), p, resultOf(g, p, 0))
		}
	}
	if !g.Final {
		return nil
	}
	for p, m := range g.Members {
		if g.IsDead(p) {
			continue
		}
		x, _ := literalValue(m)
		for q := range g.Members {
			switch count := x >> (4 * q) & 15; {
			case count > 1:
				return fmt.Errorf("%w: member %d has %d times %d's", ErrOnce, p, count, q)
			case count == 0 && !g.IsDead(q):
				return fmt.Errorf("%w: member %d lacks %d's", ErrValid, p, q)
			}
		}
	}
	return nil
}

// literalMsg is a message.
type literalMsg struct{ ftco.LiteralMsg }

// AppendState appends the message to b.
func (m literalMsg) AppendState(b []byte) []byte { return fmt.Appendf(b, "%v", m.LiteralMsg) }

// String describes the message.
func (m literalMsg) String() string {
	text := [...]string{"?", "DATA", "KEEPALIVE", "ACK"}[m.Kind]
	if m.Kind == ftco.PubData {
		text += fmt.Sprintf(" %x", m.Value)
	}
	return text
}

// literalFlight is a message in flight.
type literalFlight struct {
	at  int32 // when it arrives
	msg ftco.LiteralMsg
}

// literalMember is a machine, its clock, and the messages in flight to it.
type literalMember struct {
	l       *ftco.Literal
	hop     int32
	now     int32
	entered bool
	gone    uint64 // members whose death it has learned of; see PeerFailed
	flights []literalFlight
}

// Enter makes the call, which the machine begins with.
func (m *literalMember) Enter(out []Effect) []Effect { m.entered = true; return out }

// Recv puts a message in flight.
func (m *literalMember) Recv(from int, msg Message, out []Effect) []Effect {
	lm, ok := msg.(literalMsg)
	if !ok {
		return append(out, Effect{Broken: fmt.Errorf("a message of another protocol: %v", msg)})
	}
	if m.gone>>from&1 == 0 {
		m.flights = append(m.flights, literalFlight{m.now + m.hop, lm.LiteralMsg})
		slices.SortStableFunc(m.flights, func(a, b literalFlight) int {
			return int(a.at-b.at)<<8 + int(a.msg.From-b.msg.From)
		})
	}
	return out
}

// PeerFailed tells the machine nothing: the machine finds out by itself. Messages of q that come later
// are dropped, as if q had died before it sent them: it sends one in a turn.
func (m *literalMember) PeerFailed(q int, out []Effect) []Effect { m.gone |= 1 << q; return out }

// Tick delivers the messages that arrive, and gives the machine a turn.
func (m *literalMember) Tick(out []Effect) []Effect {
	m.now++
	for len(m.flights) > 0 && m.flights[0].at <= m.now {
		m.l.Arrive(m.flights[0].msg)
		m.flights = m.flights[1:]
	}
	switch a := m.l.Turn(m.now); a.Kind {
	case ftco.PubSend:
		out = append(out, Effect{To: int(a.To), Msg: literalMsg{a.Msg}})
	case ftco.PubReturn:
		out = append(out, Effect{Return: true})
	default:
	}
	return out
}

// Entered returns the number of calls.
func (m *literalMember) Entered() int { return oneIf(m.entered) }

// Returned returns the number of calls that have returned.
func (m *literalMember) Returned() int {
	_, ok := m.l.Returned()
	return oneIf(ok)
}

// oneIf returns 1 if b holds, otherwise 0.
func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Result describes the result.
func (m *literalMember) Result(int) string {
	x, _ := m.l.Returned()
	return fmt.Sprintf("returns %x at step %d", x, m.now)
}

// Remains returns nil: Check does not need the results of the dead.
func (m *literalMember) Remains() Member { return nil }

// Clone returns a member in the same state.
func (m *literalMember) Clone() Member {
	c := *m
	c.l, c.flights = m.l.Clone(), slices.Clone(m.flights)
	return &c
}

// AppendState appends the state to b.
func (m *literalMember) AppendState(b []byte) []byte {
	return fmt.Appendf(m.l.AppendState(b), " %d %v %d %v", m.now, m.entered, m.gone, m.flights)
}

// LiteralScenarios returns the chain of up to four members, with and without a death.
func LiteralScenarios(nodes, deaths int) []Scenario {
	sys := &Literal{Size: min(nodes, 4), Radix: 1, Config: ftco.LiteralConfig{Latency: 2}}
	return []Scenario{
		{sys, Faults{Timeouts: 250}},
		{sys, Faults{Deaths: min(deaths, 1), Timeouts: 250}},
	}
}

// DrawLiteral draws the chain of four members or the binary tree of seven, with one death.
func DrawLiteral(l Limits) Draw {
	return func(rng *rand.Rand) (System, Faults) {
		sys := &Literal{Size: min(l.Nodes, 4), Radix: 1, Config: ftco.LiteralConfig{Latency: 2 + rng.Int32N(9)}}
		if rng.IntN(2) == 0 {
			sys.Size, sys.Radix = min(l.Nodes, 7), 2
		}
		return sys, Faults{Deaths: min(l.Deaths, 1), Timeouts: 2000}
	}
}
