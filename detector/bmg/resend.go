package bmg

import "slices"

// sent is a payload that some neighbors may not have. A neighbor leaves the list when it is known to have the payload or
// to be dead, so a payload is repeated for as long as the failure detector takes to judge a silent neighbor.
type sent struct {
	payload Payload
	to      []Node
	ticks   int // since it went out
}

// remember notes which neighbors payloads have been sent to. A member that is dead, and gets its verdict, owes no answer.
func (m *Machine) remember(fresh []Payload, sends []Action) {
	for i := range fresh {
		s := sent{payload: fresh[i]}
		for _, a := range sends {
			if !m.roster.IsDead(a.To) {
				s.to = append(s.to, a.To)
			}
		}
		if len(s.to) > 0 {
			m.unsure = append(m.unsure, s)
		}
	}
}

// settle notes that from has the payloads that it acknowledges or sends, and acknowledges what it sends. It acknowledges
// nothing to a neighbor that this member has sent the payload to and that has not answered: that copy is the answer. If
// the copy is lost, then from repeats its own, and finds this member to have heard of it.
func (m *Machine) settle(from Node, msg *Msg, out []Action) []Action {
	for i := range msg.Acks {
		m.has(from, &msg.Acks[i])
	}
	var acks []Key
	for i := range msg.Payloads {
		if p := &msg.Payloads[i]; p.isValid(m.group.n) && !m.has(from, &p.Key) {
			acks = append(acks, p.Key)
		}
	}
	if len(acks) > 0 {
		out = append(out, Action{Kind: Send, To: from, Msg: Msg{Acks: acks}})
	}
	return out
}

// has notes that p has a payload. It reports whether that was unsure.
func (m *Machine) has(p Node, k *Key) bool {
	for i := range m.unsure {
		s := &m.unsure[i]
		if s.payload.Key != *k {
			continue
		}
		j := slices.Index(s.to, p)
		if j < 0 {
			return false
		}
		if s.to = slices.Delete(s.to, j, j+1); len(s.to) == 0 {
			m.unsure = slices.Delete(m.unsure, i, i+1)
		}
		return true
	}
	return false
}

// drop notes that p owes no answer any more.
func (m *Machine) drop(p Node) {
	for i := len(m.unsure) - 1; i >= 0; i-- {
		s := &m.unsure[i]
		s.to = slices.DeleteFunc(s.to, func(q Node) bool { return q == p })
		if len(s.to) == 0 {
			m.unsure = slices.Delete(m.unsure, i, i+1)
		}
	}
}

// tick repeats the payloads that have not been answered for long.
func (m *Machine) tick(out []Action) []Action {
	for i := range m.unsure {
		s := &m.unsure[i]
		if s.ticks++; s.ticks < m.group.resend {
			continue
		}
		s.ticks = 0
		again := []Payload{s.payload}
		for _, to := range s.to {
			out = append(out, Action{Kind: Send, To: to, Msg: Msg{Payloads: again}})
		}
	}
	return out
}
