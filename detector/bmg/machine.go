package bmg

import (
	"errors"
	"fmt"
)

// ErrConfig reports a Config that no machine can have.
var ErrConfig = errors.New("no such broadcast")

// mostMembers bounds the number of members. A member of so many has 60 neighbors.
const mostMembers = 1 << 30

// Config shapes a machine. All members of a group use the same Config, apart from Me.
type Config struct {
	N, Me  int
	Incs   []uint32 // the members' incarnations at the beginning; nil: all 1
	Resend int      // a payload goes out again after this many ticks without an answer; 0: links lose nothing
}

// group is what the machines of a group share.
type group struct {
	n       Node
	offsets []Node
	resend  int
}

// Machine is one member's part in the broadcasts of a group. The package documentation describes the protocol.
type Machine struct {
	group  *group
	me     Node
	roster Roster
	seen   seen
	unsure []sent // with Config.Resend: payloads that some neighbor may not have
}

// New makes a machine at rest.
func New(cfg Config) (*Machine, error) {
	if cfg.Me < 0 || cfg.Me >= cfg.N {
		return nil, fmt.Errorf("%w: member %d, want 0 to %d", ErrConfig, cfg.Me, cfg.N-1)
	}
	g, err := cfg.group()
	if err != nil {
		return nil, err
	}
	return &Machine{group: g, me: Node(cfg.Me), roster: NewRoster(cfg.N, cfg.Incs)}, nil
}

// NewGroup makes the machines of all members of a group at rest, for a driver that runs all of them. Me is not looked
// at.
func NewGroup(cfg Config) ([]Machine, error) {
	g, err := cfg.group()
	if err != nil {
		return nil, err
	}
	all := make([]Machine, cfg.N)
	for v := range all {
		all[v] = Machine{group: g, me: Node(v), roster: NewRoster(cfg.N, cfg.Incs)}
	}
	return all, nil
}

// group returns what the machines of a group share.
func (c *Config) group() (*group, error) {
	switch {
	case c.N < 1 || c.N > mostMembers:
		return nil, fmt.Errorf("%w: %d members, want 1 to %d", ErrConfig, c.N, mostMembers)
	case c.Incs != nil && len(c.Incs) != c.N:
		return nil, fmt.Errorf("%w: %d incarnations of %d members", ErrConfig, len(c.Incs), c.N)
	case c.Resend < 0:
		return nil, fmt.Errorf("%w: resend after %d ticks, want 0 or more", ErrConfig, c.Resend)
	}
	return &group{n: Node(c.N), offsets: Offsets(c.N), resend: c.Resend}, nil
}

// Reset puts the machine back to rest, as New made it. It keeps its memory.
func (m *Machine) Reset() {
	m.roster.Reset()
	m.seen.clear()
	m.unsure = m.unsure[:0]
}

// Step handles one event and appends to out what the driver is to do.
func (m *Machine) Step(ev Event, out []Action) []Action {
	switch ev.Kind {
	case Start:
		return m.spread(ev.Msg.Payloads, None, out)
	case Recv:
		if !m.roster.IsCurrent(ev.From, ev.Inc) { // late, or not announced yet
			return out
		}
		if m.group.resend > 0 {
			out = m.settle(ev.From, &ev.Msg, out)
		}
		return m.spread(ev.Msg.Payloads, ev.From, out)
	case PeerFailed:
		m.fail(ev.From, ev.Inc)
	case PeerJoined:
		if m.roster.Join(ev.From, ev.Inc) {
			m.drop(ev.From) // what its predecessor may have lacked
		}
	case Tick:
		return m.tick(out)
	}
	return out
}

// spread marks, sends and delivers the payloads that are new. They have come from a member, or begin here.
func (m *Machine) spread(list []Payload, from Node, out []Action) []Action {
	fresh := m.fresh(list)
	if len(fresh) == 0 {
		return out
	}
	for i := range fresh {
		p := &fresh[i]
		if p.Kind != KindNode {
			continue
		}
		if Node(p.ID) == m.me && p.Inc >= m.roster.Incarnation(m.me) {
			return append(out, Action{Kind: Fenced, To: None, Payload: p})
		}
		m.fail(Node(p.ID), p.Inc)
	}
	first := len(out)
	for _, d := range m.group.offsets {
		to := neighbor(m.me, d, m.group.n)
		if to != from && (!m.roster.IsDead(to) || isAccused(fresh, to)) {
			out = append(out, Action{Kind: Send, To: to, Msg: Msg{Payloads: fresh}})
		}
	}
	if m.group.resend > 0 {
		m.remember(fresh, out[first:])
	}
	for i := range fresh {
		out = append(out, Action{Kind: Deliver, To: None, Payload: &fresh[i]})
	}
	return out
}

// fresh marks the payloads that are new, and returns them. Mostly all are new, or none, which costs no memory.
func (m *Machine) fresh(list []Payload) []Payload {
	var some []Payload
	for i := range list {
		switch isNew := list[i].isValid(m.group.n) && m.add(&list[i].Key); {
		case isNew && len(some) == i:
			some = list[: i+1 : i+1] // shares the list until one is missing
		case isNew:
			some = append(some, list[i])
		}
	}
	return some
}

// add marks a payload. It reports whether the payload is new.
func (m *Machine) add(k *Key) bool {
	if k.Kind == KindNode {
		return m.roster.report(Node(k.ID), k.Inc)
	}
	return m.seen.add(k)
}

// isValid reports whether a payload of a group of n members can have the key.
func (k *Key) isValid(n Node) bool {
	return k.Kind >= KindNode && k.Kind <= lastKind && k.Inc > 0 && (k.Kind != KindNode || k.ID < uint64(n)) &&
		(k.Kind == KindEvent) == (k.Seq > 0)
}

// isAccused reports whether one of the payloads reports the death of node p.
func isAccused(list []Payload, p Node) bool {
	for i := range list {
		if list[i].Kind == KindNode && Node(list[i].ID) == p {
			return true
		}
	}
	return false
}

// fail notes that incarnation inc of p is dead.
func (m *Machine) fail(p Node, inc uint32) {
	if m.roster.Fail(p, inc) {
		m.drop(p)
	}
}
