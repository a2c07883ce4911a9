package agree

import (
	"cmp"
	"slices"
)

// terminate is the termination protocol of an uncertain member none of whose
// ancestors lives: it asks those who would be the first to know of a decision.
func (m *twoPhase) terminate(out []Action) []Action {
	m.now.asking = true
	if m.cfg.AskAll {
		for v := Node(1); v < m.group.len(); v++ {
			if !m.gone(v) {
				out = m.ask(v, out)
			}
		}
	} else {
		out = m.askBelow(0, out)
	}
	m.now.open = 0
	for i := range m.now.asked {
		if a := &m.now.asked[i]; !m.gone(a.node) && !m.answered(a) {
			m.now.open++
		}
	}
	return m.uncertain(out)
}

// askBelow asks those who depend on the dead node v: its children, and in place
// of dead ones theirs.
func (m *twoPhase) askBelow(v Node, out []Action) []Action {
	t := m.group.tree
	end := t.End(v)
	for c := v + 1; c < end; c = t.End(c) {
		if m.gone(c) {
			out = m.askBelow(c, out)
		} else {
			out = m.ask(c, out)
		}
	}
	return out
}

// ask asks node v, once, or once more when I know of more dead and who answers is
// not to listen to them any more.
func (m *twoPhase) ask(v Node, out []Action) []Action {
	if v == m.group.me {
		return out
	}
	r := &m.now
	known := int32(len(m.dead))
	i, ok := slices.BinarySearchFunc(r.asked, v, func(a ask, v Node) int { return cmp.Compare(a.node, v) })
	if ok && (r.asked[i].told == known || !m.cfg.Promote) {
		return out
	}
	if !ok {
		r.asked = slices.Insert(r.asked, i, ask{node: v, known: -1})
	}
	r.asked[i].told = known
	return m.send(v, Msg{Kind: msgTermQuery, Known: known, Failed: m.dead}, out)
}

// answered says whether a's answer is to all that it was asked.
func (m *twoPhase) answered(a *ask) bool { return a.known == a.told }

// receiveTermQuery handles the question of an uncertain member. It knows that the
// coordinator is dead, so from now on I know it as well and will take no decision
// from it: my answer holds. Not having voted I know the outcome.
func (m *twoPhase) receiveTermQuery(from Node, msg *Msg, out []Action) []Action {
	r := &m.now
	seq := r.seq
	if !contains(msg.Failed, m.group.member(0)) || contains(msg.Failed, Node(m.cfg.Me)) {
		return out // a broken driver
	}
	m.dead = union(m.dead, msg.Failed)
	if !r.voted {
		out = m.conclude(Undecided, out)
		return m.answerFromLog(from, seq, out)
	}
	m.await(m.group.node(from))
	if out = m.progress(out); r.seq != seq {
		return out // and from was told
	}
	return m.send(m.group.node(from), Msg{Kind: msgUncertain, Known: msg.Known}, out)
}

// receiveUncertain handles the answer that node v knows no decision either.
func (m *twoPhase) receiveUncertain(v Node, known int32, out []Action) []Action {
	r := &m.now
	i, ok := slices.BinarySearchFunc(r.asked, v, func(a ask, v Node) int { return cmp.Compare(a.node, v) })
	if !ok || m.answered(&r.asked[i]) {
		return out
	}
	r.asked[i].known = known
	if m.answered(&r.asked[i]) {
		r.open--
	}
	return m.uncertain(out)
}

// uncertain ends the termination protocol if all have answered that they are
// uncertain. With Promote that is UNDECIDED: no living member holds a decision
// then, and none will take one from those that are dead.
func (m *twoPhase) uncertain(out []Action) []Action {
	r := &m.now
	switch {
	case r.open > 0:
	case m.cfg.Promote:
		return m.conclude(Undecided, out)
	case !r.blocked:
		r.blocked = true
		out = append(out, Action{Kind: Blocked, Seq: r.seq})
	}
	return out
}
