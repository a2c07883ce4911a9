package ring

import "slices"

// probe is an open suspicion.
type probe struct {
	node     Node
	rounds   int // of pings that have gone out
	round    int64
	end      int64 // when the suspect is accused
	mending  bool  // the suspect is verified because those after it in the ring are suspects
	news     bool  // the suspect is verified whatever those after it do, because a connection to it has ended
	answered bool  // of mending: it lives, and waits for those after it to be judged
	fresh    bool  // rounds have gone out since end was moved because this member was late
}

// due returns when something is to be done.
func (p *probe) due() int64 {
	if p.answered {
		return Never
	}
	return min(p.round, p.end)
}

// excuse grants the suspect some time, because this member is late with its pings or with its judgment. Each judgment asks for it,
// whatever event has led to that.
func (p *probe) excuse(now, late, most int64) {
	switch behind := now - p.round; {
	case late == 0:
	case now >= p.end:
		if p.fresh {
			p.end, p.fresh = now+min(late, most), false
		}
	case p.round != Never && behind > lateness: // its rounds go out at once now, and need time to be answered
		p.end += behind
	}
}

// find returns the suspicion of p, or nil.
func (m *Machine) find(p Node) *probe {
	i := slices.IndexFunc(m.probes, func(q probe) bool { return q.node == p })
	if i < 0 {
		return nil
	}
	return &m.probes[i]
}

// forget drops the suspicion of p, and what is known of the way to it.
func (m *Machine) forget(p Node) {
	m.probes = slices.DeleteFunc(m.probes, func(q probe) bool { return q.node == p })
	m.dropDetour(p)
}

// suspect opens a suspicion. If it is of the target, those before the target are verified with it.
func (m *Machine) suspect(now int64, p Node, out []Action) []Action {
	if p != m.target {
		m.openNews(now, p)
		return m.probe(now, out)
	}
	if m.mending {
		return out
	}
	m.mending, m.window = true, m.shared.timing.Window
	return m.verify(now, out)
}

// openNews opens a suspicion because a connection has ended, unless one is open.
func (m *Machine) openNews(now int64, p Node) {
	if q := m.find(p); q == nil {
		m.open(now, p, false)
	} else if q.answered { // before the connection ended
		*q = probe{node: p, round: now, end: now + m.shared.timing.Verify, mending: q.mending}
	}
	m.find(p).news = true
}

// open adds a suspicion whose first round is due.
func (m *Machine) open(now int64, p Node, mending bool) {
	m.probes = append(m.probes, probe{node: p, round: now, end: now + m.shared.timing.Verify, mending: mending})
}

// verify opens suspicions of the target and of those before it, up to the window.
func (m *Machine) verify(now int64, out []Action) []Action {
	m.deadline = Never
	p := m.target
	for left := m.window; left > 0 && p != m.me; p = m.shared.before(p, 1) {
		if m.roster.IsDead(p) {
			continue
		}
		if q := m.find(p); q != nil {
			q.mending = true
		} else {
			m.open(now, p, true)
		}
		left--
	}
	return m.probe(now, out)
}

// probe sends the rounds that are due, and accuses suspects whose time is over.
func (m *Machine) probe(now int64, out []Action) []Action {
	t := &m.shared.timing
	accused := false
	for i := range m.probes {
		p := &m.probes[i]
		if p.answered || !m.judges && now >= p.end {
			continue
		}
		p.excuse(now, m.late, t.Verify)
		if now >= p.end {
			out, accused = m.accuse(p.node, Silent, out), true
			continue
		}
		for ; now >= p.round; p.rounds++ {
			out = m.sendPing(now, p.node, out)
			out = m.ask(now, p.node, out)
			p.fresh = true
			if p.rounds == t.Probes-1 {
				p.round = Never
				break
			}
			p.round += t.Verify / int64(t.Probes+1)
		}
	}
	if !accused {
		return out
	}
	m.probes = slices.DeleteFunc(m.probes, func(p probe) bool { return m.roster.IsDead(p.node) })
	return m.mend(now, out)
}

// ask asks a neighbor to ping p. The neighbors take turns, and suspects that have not answered are left out.
func (m *Machine) ask(now int64, p Node, out []Action) []Action {
	for range m.shared.helpers {
		h := Node((int64(m.me) + int64(m.shared.helpers[m.asked%len(m.shared.helpers)])) % int64(m.shared.n))
		m.asked++
		if q := m.find(h); h != p && !m.roster.IsDead(h) && (q == nil || q.answered) {
			return append(out, Action{Kind: Send, To: h, Msg: Msg{Kind: Ask, For: m.me, Of: p, At: now}})
		}
	}
	return out
}

// clear ends the suspicion of p, which lives. Those before p in the ring have an observer then, and are verified no
// longer unless there is news of them; those between p and this member are.
func (m *Machine) clear(p Node) {
	q := m.find(p)
	if q == nil {
		return
	}
	mended := q.mending
	q.answered = true
	far := m.shared.distance(m.me, p)
	for i := range m.probes {
		if o := &m.probes[i]; mended && o.news && !o.answered && m.shared.distance(m.me, o.node) > far {
			o.mending = false
		}
	}
	m.probes = slices.DeleteFunc(m.probes, func(o probe) bool {
		switch {
		case o.node == p:
			return !mended || p == m.target
		case mended && o.mending:
			return m.shared.distance(m.me, o.node) > far
		}
		return false
	})
}

// mend makes the first member that is not known to be dead the target. A new target is watched if it has answered.
// Otherwise it is suspected with more members than the one before, if that was suspected, or pinged at once.
func (m *Machine) mend(now int64, out []Action) []Action {
	if !m.begun {
		return out
	}
	first := None
	for p := m.shared.before(m.me, 1); p != m.me; p = m.shared.before(p, 1) {
		if !m.roster.IsDead(p) {
			first = p
			break
		}
	}
	if first == m.target {
		return out
	}
	q := m.find(first)
	switch {
	case first == None:
		m.target, m.next, m.deadline, m.mending = None, Never, Never, false // a member that joins begins anew
		m.probes = m.probes[:0]
	case q != nil && q.answered:
		m.probes = slices.DeleteFunc(m.probes, func(o probe) bool { return o.mending })
		m.watch(first)
	case q != nil && q.mending:
		m.aim(first)
	case m.mending:
		m.aim(first)
		m.window = min(2*m.window, int(m.shared.n))
		return m.verify(now, out)
	default: // its observer is gone, or it has joined
		if m.next == Never {
			m.next = now + m.shared.timing.Period
		}
		m.watch(first)
		m.deadline, m.answered = now+m.shared.timing.Margin, false
		out = m.sendPing(now, first, out)
	}
	return out
}
