package ftco

// A machine as published keeps account of every node: whose contribution it holds
// and who is known to be dead. Without that nobody could tell when a result is
// complete once the tree has changed. Written as places in preorder, such a set
// is few intervals, for a subtree is one; mostly it is one interval, which a
// message holds itself.

// span is the places from up to, not including, to.
type span struct{ from, to int32 }

// has says whether the place is in the set.
func (p *Published) has(place int32) bool { return p.hasAll(span{place, place + 1}) }

// hasAll says whether all places of s are in the set. It is in one of the set's intervals
// then, because add joins those that touch.
func (p *Published) hasAll(s span) bool {
	lo, hi := 0, len(p.have)
	for lo < hi {
		if mid := (lo + hi) / 2; p.have[mid].to <= s.from {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(p.have) && p.have[lo].from <= s.from && s.to <= p.have[lo].to
}

// full says whether everybody is accounted for.
func (p *Published) full() bool {
	return p.have[0].from == 0 && p.have[0].to == p.g.n
}

// add joins an interval to the set.
func (p *Published) add(s span) {
	lo := 0
	for lo < len(p.have) && p.have[lo].to < s.from {
		lo++
	}
	hi := lo
	for hi < len(p.have) && p.have[hi].from <= s.to {
		s.from, s.to = min(s.from, p.have[hi].from), max(s.to, p.have[hi].to)
		hi++
	}
	p.snapped = false
	if hi == lo { // it touches none
		p.have = append(p.have, span{})
		copy(p.have[lo+1:], p.have[lo:])
		p.have[lo] = s
		return
	}
	p.have[lo] = s
	p.have = append(p.have[:lo+1], p.have[hi:]...)
}

// merge joins the set of a message to mine.
func (p *Published) merge(m *PubMsg) {
	if m.spans == 1 {
		p.add(span{m.a, m.b})
		return
	}
	for _, s := range p.g.spans[m.a : m.a+m.spans] {
		p.add(s)
	}
}

// snapshot writes my set into a message.
func (p *Published) snapshot(m *PubMsg) {
	if len(p.have) == 1 {
		m.a, m.b, m.spans = p.have[0].from, p.have[0].to, 1
		return
	}
	if !p.snapped {
		p.snapped, p.snap = true, int32(len(p.g.spans))
		p.g.spans = append(p.g.spans, p.have...)
	}
	m.a, m.b, m.spans = p.snap, 0, int32(len(p.have))
}

// Accounted appends the nodes that m's sender held the contributions of or knew
// to be dead.
func (g *PublishedGroup) Accounted(m *PubMsg, nodes []Node) []Node {
	if m.spans == 1 {
		return g.nodes([]span{{m.a, m.b}}, nodes)
	}
	return g.nodes(g.spans[m.a:m.a+m.spans], nodes)
}

func (g *PublishedGroup) nodes(spans []span, nodes []Node) []Node {
	for _, s := range spans {
		for place := s.from; place < s.to; place++ {
			nodes = append(nodes, g.cfg.Tree.NodeAt(place))
		}
	}
	return nodes
}
