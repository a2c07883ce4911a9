package ring

import "slices"

// directPings is how many pings in a row have to fail on the direct way before a way counts as broken: on a network that
// loses three of ten messages, some of so many come through.
const directPings = 20

// detour is a member that lives, as others say, and does not answer this one directly.
type detour struct {
	node  Node
	pings int   // that have gone out directly, and have not been answered
	next  int64 // when the next one is due, or the answer to the last one is late; Never after the driver was told
}

// noteWay notes on which way the answer of a suspect, or any answer, has come.
func (m *Machine) noteWay(now int64, from, p Node) {
	i := slices.IndexFunc(m.detours, func(d detour) bool { return d.node == p })
	switch {
	case from == p && i >= 0:
		m.detours = slices.Delete(m.detours, i, i+1)
	case from != p && i < 0 && m.find(p) != nil:
		m.detours = append(m.detours, detour{node: p, next: now + m.shared.timing.Direct/directPings})
	}
}

// dropDetour drops what is known of the way to p.
func (m *Machine) dropDetour(p Node) {
	m.detours = slices.DeleteFunc(m.detours, func(d detour) bool { return d.node == p })
}

// tryDirect sends the direct pings that are due, and tells the driver of ways that are broken. A member that has stood
// still sends as many as one that has not: only what it has sent counts.
func (m *Machine) tryDirect(now int64, out []Action) []Action {
	wait := m.shared.timing.Direct / directPings
	for i := range m.detours {
		d := &m.detours[i]
		switch {
		case now < d.next:
		case d.pings == directPings:
			d.next = Never
			out = append(out, Action{Kind: Unreached, To: d.node, Inc: m.roster.Incarnation(d.node)})
		default:
			out = m.sendPing(now, d.node, out)
			d.pings++
			d.next = now + wait
		}
	}
	return out
}
