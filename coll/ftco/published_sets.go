package ftco

// A machine as published accounts for nodes: it holds their contributions or knows that they are
// dead. Without that no machine could tell when a result is complete once the tree has changed.
// Nodes are written as places in preorder. Such a set has few intervals, because a subtree is one;
// mostly the whole set is one, and a message holds it itself.

// span is the places from up to, but not including, to.
type span struct{ from, to int32 }

// place returns the place of v alone.
func (g *PublishedGroup) place(v Node) span {
	at, _ := g.cfg.Tree.Interval(v)
	return span{at, at + 1}
}

// subtree returns the places of v and of all nodes below it in the tree without failures.
func (g *PublishedGroup) subtree(v Node) span {
	from, to := g.cfg.Tree.Interval(v)
	return span{from, to}
}

// spanSet is a set of places.
type spanSet struct {
	spans  []span // ascending; no two of them touch
	stored int32  // where the group's store has a copy of spans
	fresh  bool   // the stored copy is equal to spans
}

// has reports whether all places of s are in the set. If so, one interval of the set holds them,
// because add joins intervals that touch.
func (a *spanSet) has(s span) bool {
	lo, hi := 0, len(a.spans)
	for lo < hi {
		if mid := (lo + hi) / 2; a.spans[mid].to <= s.from {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(a.spans) && a.spans[lo].from <= s.from && s.to <= a.spans[lo].to
}

// isFull reports whether all n places are in the set.
func (a *spanSet) isFull(n int32) bool {
	return a.spans[0].from == 0 && a.spans[0].to == n
}

// add adds the places of s.
func (a *spanSet) add(s span) {
	lo := 0
	for lo < len(a.spans) && a.spans[lo].to < s.from {
		lo++
	}
	hi := lo
	for hi < len(a.spans) && a.spans[hi].from <= s.to {
		s.from, s.to = min(s.from, a.spans[hi].from), max(s.to, a.spans[hi].to)
		hi++
	}
	a.fresh = false
	if hi == lo { // s touches no interval
		a.spans = append(a.spans, span{})
		copy(a.spans[lo+1:], a.spans[lo:])
		a.spans[lo] = s
		return
	}
	a.spans[lo] = s
	a.spans = append(a.spans[:lo+1], a.spans[hi:]...)
}

// addFrom adds the set that m brings.
func (a *spanSet) addFrom(m *PubMsg, g *PublishedGroup) {
	if m.spans == 1 {
		a.add(span{m.a, m.b})
		return
	}
	for _, s := range g.spans[m.a : m.a+m.spans] {
		a.add(s)
	}
}

// writeTo puts the set into m. A set of several intervals goes to the group's store, and m names
// its place there.
func (a *spanSet) writeTo(m *PubMsg, g *PublishedGroup) {
	if len(a.spans) == 1 {
		m.a, m.b, m.spans = a.spans[0].from, a.spans[0].to, 1
		return
	}
	if !a.fresh {
		a.fresh, a.stored = true, int32(len(g.spans))
		g.spans = append(g.spans, a.spans...)
	}
	m.a, m.b, m.spans = a.stored, 0, int32(len(a.spans))
}

// Accounted appends the nodes whose contributions m's sender held, or that it knew to be dead.
func (g *PublishedGroup) Accounted(m *PubMsg, nodes []Node) []Node {
	if m.spans == 1 {
		return g.appendNodes([]span{{m.a, m.b}}, nodes)
	}
	return g.appendNodes(g.spans[m.a:m.a+m.spans], nodes)
}

// appendNodes appends the nodes at the places of spans.
func (g *PublishedGroup) appendNodes(spans []span, nodes []Node) []Node {
	for _, s := range spans {
		for place := s.from; place < s.to; place++ {
			nodes = append(nodes, g.cfg.Tree.NodeAt(place))
		}
	}
	return nodes
}
