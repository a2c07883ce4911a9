package explore

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/coll/agree"
)

// Agree runs [agree.Machine].
type Agree struct {
	Config agree.Config
	Rounds int

	acts []agree.Action // room
}

// N returns the number of members.
func (s *Agree) N() int { return s.Config.N }

// Calls returns the number of calls of each member.
func (s *Agree) Calls() int { return s.Rounds }

// String describes the scenario.
func (s *Agree) String() string {
	c := s.Config
	text := fmt.Sprintf("%s n=%d k=%d calls=%d", [...]string{"?", "linear", "log", "early"}[c.Algorithm], c.N, c.Radix, s.Rounds)
	words := []string{text}
	if c.Ticks > 0 {
		words = append(words, fmt.Sprintf("keepalive=%d", c.Ticks))
	}
	for _, option := range []struct {
		on   bool
		name string
	}{{c.Rebalance, "rebalance"}, {c.Promote, "promote"}, {c.AskAll, "askall"}, {c.Durable, "durable"}} {
		if option.on {
			words = append(words, option.name)
		}
	}
	return strings.Join(words, " ")
}

// Member makes member me.
func (s *Agree) Member(me int) (Member, error) {
	c := s.Config
	c.Me, c.Combine = me, agree.Sum
	m, err := agree.New(c)
	if err != nil {
		return nil, err
	}
	return &agreeMember{sys: s, me: me, m: m}, nil
}

// agreeMember is a machine and what it has returned. Byte p of the payload counts the votes of member p.
type agreeMember struct {
	sys     *Agree
	me      int
	m       *agree.Machine // nil: dead
	entered int
	blocked bool
	voted   int      // the last round in which it has sent its vote
	told    uint64   // the deaths that it has learned of
	brought []uint64 // the deaths that it knew at each call
	results []agree.Decision
}

// agreeMsg is a message.
type agreeMsg struct{ agree.Msg }

// String prints the message.
func (m *agreeMsg) String() string { return fmt.Sprintf("%+v", m.Msg) }

// Enter makes the next call.
func (m *agreeMember) Enter(out []Effect) []Effect {
	m.entered++
	m.brought = append(m.brought, m.told)
	vote := agree.Vote{Flags: ^uint64(0) &^ (1 << m.me)}
	vote.Payload[m.me] = 1
	return m.step(agree.Event{Kind: agree.Enter, Vote: vote}, out)
}

// Recv handles a message.
func (m *agreeMember) Recv(from int, msg Message, out []Effect) []Effect {
	in, ok := msg.(*agreeMsg)
	if !ok {
		return append(out, Effect{Broken: fmt.Errorf("a message of another protocol: %v", msg)})
	}
	return m.step(agree.Event{Kind: agree.Recv, From: agree.Node(from), Msg: in.Msg}, out)
}

// PeerFailed handles the news of q's death.
func (m *agreeMember) PeerFailed(q int, out []Effect) []Effect {
	m.told |= 1 << q
	return m.step(agree.Event{Kind: agree.PeerFailed, From: agree.Node(q), Inc: 1}, out)
}

// Tick handles a tick of the clock.
func (m *agreeMember) Tick(out []Effect) []Effect {
	return m.step(agree.Event{Kind: agree.Tick}, out)
}

// step gives the machine an event and carries out its actions.
func (m *agreeMember) step(ev agree.Event, out []Effect) []Effect {
	s := m.sys
	s.acts = m.m.Step(ev, s.acts[:0])
	for i := range s.acts {
		switch a := &s.acts[i]; a.Kind {
		case agree.Send:
			if a.Msg.Kind == agree.MsgVote {
				m.voted = int(a.Msg.Seq)
			}
			out = append(out, Effect{To: int(a.To), Msg: &agreeMsg{a.Msg}})
		case agree.Deliver:
			m.results, m.blocked = append(m.results, a.Decision), false
			out = append(out, Effect{Return: true})
		case agree.Blocked:
			m.blocked = true
		default:
			out = append(out, Effect{Broken: fmt.Errorf("member %d is refused: %+v", m.me, *a)})
		}
	}
	return out
}

// Entered returns the number of calls.
func (m *agreeMember) Entered() int { return m.entered }

// Returned returns the number of calls that have returned.
func (m *agreeMember) Returned() int { return len(m.results) }

// Result prints the result of a call.
func (m *agreeMember) Result(call int) string { return fmt.Sprintf("%+v", m.results[call]) }

// Remains keeps what the member has returned if survivors must not contradict it.
func (m *agreeMember) Remains() Member {
	if !m.sys.uniform() || len(m.results) == 0 {
		return nil
	}
	return &agreeMember{sys: m.sys, me: m.me, entered: m.entered, brought: m.brought, results: m.results}
}

// Clone returns a member in the same state.
func (m *agreeMember) Clone() Member {
	c := *m
	c.m = m.m.Clone()
	c.results, c.brought = slices.Clip(m.results), slices.Clip(m.brought)
	return &c
}

// AppendState appends the state to b.
func (m *agreeMember) AppendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(m.entered))
	b = append(b, byte(len(m.results)), 0)
	if m.blocked {
		b[len(b)-1] = 1
	}
	b = binary.AppendUvarint(append(b, byte(m.voted)), m.told)
	for _, dead := range m.brought {
		b = binary.AppendUvarint(b, dead)
	}
	for i := range m.results {
		d := &m.results[i]
		b = append(b, byte(d.Outcome), byte(len(d.Failed)), byte(d.Seq))
		b = binary.LittleEndian.AppendUint64(b, d.Flags)
		b = append(b, d.Payload[:]...)
		for _, p := range d.Failed {
			b = append(b, byte(p))
		}
	}
	if m.m == nil {
		return b
	}
	return m.m.AppendState(b)
}

// uniform reports whether what a dead member has returned binds the survivors.
func (s *Agree) uniform() bool {
	if s.Config.Algorithm == agree.EarlyReturning {
		return s.Config.Durable
	}
	return !s.Config.Promote
}
