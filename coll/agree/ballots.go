package agree

// ballot is votes combined, and the dead that the voters know.
type ballot struct {
	vote   Vote
	failed []Node
}

// add combines another ballot with b.
func (b *ballot) add(other *ballot, cfg *Config) {
	b.vote.Flags &= other.vote.Flags
	b.failed = union(b.failed, other.failed)
	if cfg.Combine != nil {
		cfg.Combine(&b.vote.Payload, &other.vote.Payload)
	}
	b.vote.Body = cfg.unite(b.vote.Body, other.vote.Body)
}

// kid holds the ballot of a child.
type kid struct {
	here   bool
	ballot ballot
}

// slot holds the ballot of another node.
type slot struct {
	node   Node
	ballot ballot
}

// ballots are the ballots that came up in one round, each node's once.
type ballots struct {
	kids   []kid  // of the children, by index
	direct int    // the kids that are here
	extra  []slot // of nodes further below
}

// of returns the ballot of node v, or nil.
func (s *ballots) of(g *group, v Node) *ballot {
	if i := g.child(v); i >= 0 {
		if !s.kids[i].here {
			return nil
		}
		return &s.kids[i].ballot
	}
	for i := range s.extra {
		if s.extra[i].node == v {
			return &s.extra[i].ballot
		}
	}
	return nil
}

// keep keeps the ballot of node v. A second one is the same as the first and is dropped.
func (s *ballots) keep(g *group, v Node, b ballot) {
	if s.of(g, v) != nil {
		return
	}
	if i := g.child(v); i >= 0 {
		s.kids[i] = kid{here: true, ballot: b}
		s.direct++
		return
	}
	s.extra = append(s.extra, slot{v, b})
}

// areComplete reports whether the ballots hold the votes of all living nodes below this member.
func (s *ballots) areComplete(w *view) bool {
	missing := len(s.kids) - s.direct
	return missing == 0 || missing <= len(w.dead) && s.coverBelow(w, w.group.me)
}

// coverBelow reports the same for all nodes below v. Its children stand in for a dead child that
// has not voted, and so on.
func (s *ballots) coverBelow(w *view, v Node) bool {
	t := w.group.tree
	end := t.End(v)
	for c := v + 1; c < end; c = t.End(c) {
		if s.of(&w.group, c) == nil && (!w.isDead(c) || !s.coverBelow(w, c)) {
			return false
		}
	}
	return true
}

// addBelow adds to the ballot the votes of all nodes below v, in the order of the tree.
func (s *ballots) addBelow(w *view, v Node, to *ballot, cfg *Config) {
	t := w.group.tree
	end := t.End(v)
	for c := v + 1; c < end; c = t.End(c) {
		if b := s.of(&w.group, c); b != nil {
			to.add(b, cfg)
		} else if w.isDead(c) {
			s.addBelow(w, c, to, cfg)
		}
	}
}
