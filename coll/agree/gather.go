package agree

// ballotOf is what came from node v, or nil.
func (m *twoPhase) ballotOf(v Node) *ballot {
	r := &m.now
	if i := m.group.child(v); i >= 0 {
		if !r.kids[i].here {
			return nil
		}
		return &r.kids[i].ballot
	}
	for i := range r.extra {
		if r.extra[i].node == v {
			return &r.extra[i].ballot
		}
	}
	return nil
}

// keep keeps what came from node v. A second one is the same as the first.
func (m *twoPhase) keep(v Node, b ballot) {
	r := &m.now
	if m.ballotOf(v) != nil {
		return
	}
	if i := m.group.child(v); i >= 0 {
		r.kids[i] = kid{here: true, ballot: b}
		r.direct++
		return
	}
	r.extra = append(r.extra, slot{v, b})
}

// gathered says whether all that lives below me is in what came.
func (m *twoPhase) gathered() bool {
	missing := len(m.now.kids) - m.now.direct
	return missing == 0 || missing <= len(m.dead) && m.whole(m.group.me)
}

// whole says the same of all below v: a dead child that has not voted is
// replaced by its children, and so on.
func (m *twoPhase) whole(v Node) bool {
	t := m.group.tree
	end := t.End(v)
	for c := v + 1; c < end; c = t.End(c) {
		if m.ballotOf(c) == nil && (!m.gone(c) || !m.whole(c)) {
			return false
		}
	}
	return true
}

// freeze makes my ballot of my vote and of all that came from below. From now on
// it travels as it is, so any two ballots that anybody sees are disjoint, or one
// contains the other: nobody is counted twice.
func (m *twoPhase) freeze() {
	r := &m.now
	r.frozen = true
	r.ballot.failed = union(r.ballot.failed, m.dead)
	m.fold(m.group.me)
}

func (m *twoPhase) fold(v Node) {
	t := m.group.tree
	end := t.End(v)
	for c := v + 1; c < end; c = t.End(c) {
		if b := m.ballotOf(c); b != nil {
			m.now.ballot.add(b, m.cfg.Combine)
		} else if m.gone(c) {
			m.fold(c)
		}
	}
}

// add combines two ballots.
func (b *ballot) add(other *ballot, combine func(dst, src *Payload)) {
	b.vote.Flags &= other.vote.Flags
	b.failed = union(b.failed, other.failed)
	if combine != nil {
		combine(&b.vote.Payload, &other.vote.Payload)
	}
}
