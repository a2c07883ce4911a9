package agree

import "github.com/goshmem/goshmem/coll/ftco"

// step lets the machine of s handle an event, and does what it asks for. In is the value that came with
// the event's message. The values of messages are moved and combined here.
func (e *earlyReturning) step(s *side, ev ftco.Event, in *ballot, out []Action) []Action {
	from := len(e.scratch)
	e.scratch = s.m.Step(ev, e.scratch)
	for i := from; i < len(e.scratch); i++ {
		out = e.carryOut(s, &e.scratch[i], in, out)
	}
	e.scratch = e.scratch[:from]
	return out
}

// carryOut does what one action asks for.
func (e *earlyReturning) carryOut(s *side, a *ftco.Action, in *ballot, out []Action) []Action {
	st := s.store(a.Seq)
	switch a.Kind {
	case ftco.Send:
		msg := Msg{Kind: msgCollective, Seq: s.base + a.Seq, Base: s.base, Collective: a.Msg}
		if b := st.buffer(s, a.Msg.Value); b != nil {
			msg.Vote, msg.Failed = b.vote, b.failed
		}
		return append(out, Action{Kind: Send, To: s.group.member(a.To), Seq: msg.Seq, Msg: msg})
	case ftco.Keep:
		*st.makeBuffer(s, a.Dst) = *in
	case ftco.Combine:
		if dst, src := st.buffer(s, a.Dst), st.buffer(s, a.Src); dst != nil && src != nil {
			dst.add(src, &e.cfg)
		}
	case ftco.Decide:
		if src := st.buffer(s, a.Src); src != nil {
			st.result = *src
		}
	case ftco.Deliver:
		return e.deliver(s, a, out)
	case ftco.Refuse, ftco.Mismatch: // the configurations of members differ
		return append(out, Action{Kind: Refuse, Seq: s.base + a.Seq})
	}
	return out
}

// store returns the store of round seq, counted from the side's base.
func (s *side) store(seq uint64) *store {
	st := &s.stores[seq%uint64(len(s.stores))]
	if st.seq < seq {
		clear(st.kids)
		*st = store{seq: seq, kids: st.kids, extra: st.extra[:0]}
	}
	return st
}

// buffer returns the value that b names, or nil.
func (st *store) buffer(s *side, b ftco.Buf) *ballot {
	switch {
	case b == ftco.NoValue:
		return nil
	case b == ftco.Result:
		return &st.result
	case Node(b) == s.group.me:
		return &st.own
	}
	if i := s.group.child(Node(b)); i >= 0 {
		return &st.kids[i].ballot
	}
	for i := range st.extra {
		if st.extra[i].node == Node(b) {
			return &st.extra[i].ballot
		}
	}
	return nil
}

// makeBuffer returns the value that b names. It makes one if there is none.
func (st *store) makeBuffer(s *side, b ftco.Buf) *ballot {
	if i := s.group.child(Node(b)); b >= 0 && i >= 0 {
		st.kids[i].here = true
	}
	if v := st.buffer(s, b); v != nil {
		return v
	}
	st.extra = append(st.extra, slot{node: Node(b)})
	return &st.extra[len(st.extra)-1].ballot
}
