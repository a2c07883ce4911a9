package agree

import (
	"cmp"
	"slices"
)

// termination is the state of the termination protocol, which an uncertain member runs when none of
// its ancestors lives.
type termination struct {
	begun   bool
	blocked bool  // the driver was told
	asked   []ask // the nodes that were asked, ascending
	open    int   // the living ones of them that have not answered the latest question
}

// ask is a termination query to a node.
type ask struct {
	node  Node
	told  int32 // the number of dead that the latest query told of
	known int32 // the same of the latest query that was answered, or -1
}

// isAnswered reports whether the latest query was answered.
func (a *ask) isAnswered() bool { return a.known == a.told }

// search returns the index of v's query in asked, or where it would be.
func (s *termination) search(v Node) (at int, found bool) {
	return slices.BinarySearchFunc(s.asked, v, func(a ask, v Node) int { return cmp.Compare(a.node, v) })
}

// addQuery notes a query to v that tells of known dead, and reports whether to send it. A node is
// asked once or, if again is set, once more whenever more dead are known.
func (s *termination) addQuery(v Node, known int32, again bool) bool {
	i, ok := s.search(v)
	if ok && (s.asked[i].told == known || !again) {
		return false
	}
	if !ok {
		s.asked = slices.Insert(s.asked, i, ask{node: v, known: -1})
	}
	s.asked[i].told = known
	return true
}

// countOpen counts the queries to living nodes that are not answered.
func (s *termination) countOpen(w *view) {
	s.open = 0
	for i := range s.asked {
		if a := &s.asked[i]; !w.isDead(a.node) && !a.isAnswered() {
			s.open++
		}
	}
}

// noteAnswer notes node v's answer to a query that told of known dead, and reports whether v owed
// one.
func (s *termination) noteAnswer(v Node, known int32) bool {
	i, ok := s.search(v)
	if !ok || s.asked[i].isAnswered() {
		return false
	}
	s.asked[i].known = known
	if s.asked[i].isAnswered() {
		s.open--
	}
	return true
}

// terminate asks the nodes that would be the first to know of a decision.
func (m *twoPhase) terminate(out []Action) []Action {
	m.now.termination.begun = true
	if m.cfg.AskAll {
		for v := Node(1); v < m.view.group.len(); v++ {
			if !m.view.isDead(v) {
				out = m.ask(v, out)
			}
		}
	} else {
		out = m.askBelow(0, out)
	}
	m.now.termination.countOpen(&m.view)
	return m.endTermination(out)
}

// askBelow asks the nodes that depend on the dead node v: its children and, in place of dead ones,
// their children.
func (m *twoPhase) askBelow(v Node, out []Action) []Action {
	t := m.view.group.tree
	end := t.End(v)
	for c := v + 1; c < end; c = t.End(c) {
		if m.view.isDead(c) {
			out = m.askBelow(c, out)
		} else {
			out = m.ask(c, out)
		}
	}
	return out
}

// ask asks node v. With Promote it asks again when this member knows of more dead: v must not take
// a decision from any of them after it has answered.
func (m *twoPhase) ask(v Node, out []Action) []Action {
	known := int32(len(m.view.dead))
	if v == m.view.group.me || !m.now.termination.addQuery(v, known, m.cfg.Promote) {
		return out
	}
	return m.send(v, Msg{Kind: msgTermQuery, Known: known, Failed: m.view.dead}, out)
}

// receiveTermQuery handles the question of an uncertain member. The asker knows that the
// coordinator is dead. From now on this member knows it as well and takes no decision from the
// coordinator, so its answer stays true. If it has not voted, it knows the outcome.
func (m *twoPhase) receiveTermQuery(from Node, msg *Msg, out []Action) []Action {
	r := &m.now
	seq := r.seq
	if !contains(msg.Failed, m.view.group.member(0)) || contains(msg.Failed, Node(m.cfg.Me)) {
		return out // a broken driver
	}
	m.view.dead = union(m.view.dead, msg.Failed)
	if !r.voted {
		out = m.conclude(Undecided, out)
		return m.answerFromLog(from, seq, out)
	}
	r.addWaiter(m.view.group.node(from))
	if out = m.progress(out); r.seq != seq {
		return out // the round has ended, and from got the outcome as a waiter
	}
	return m.send(m.view.group.node(from), Msg{Kind: msgUncertain, Known: msg.Known}, out)
}

// endTermination ends the termination protocol if all nodes that were asked are uncertain. With
// Promote the round is UNDECIDED then: no living member holds a decision, and none will take one
// from the dead. Otherwise this member is blocked.
func (m *twoPhase) endTermination(out []Action) []Action {
	t := &m.now.termination
	switch {
	case t.open > 0:
	case m.cfg.Promote:
		return m.conclude(Undecided, out)
	case !t.blocked:
		t.blocked = true
		out = append(out, Action{Kind: Blocked, Seq: m.now.seq})
	}
	return out
}
