package agree

import (
	"encoding/binary"
	"slices"
)

// Clone returns a machine in the same state that shares nothing that changes.
func (m *twoPhase) Clone() *twoPhase {
	c := *m
	c.later.votes = slices.Clone(m.later.votes)
	c.now.ballots.kids = slices.Clone(m.now.ballots.kids)
	c.now.ballots.extra = slices.Clone(m.now.ballots.extra)
	c.now.waiters = slices.Clone(m.now.waiters)
	c.now.termination.asked = slices.Clone(m.now.termination.asked)
	return &c
}

// AppendState appends the whole state.
func (m *twoPhase) AppendState(b []byte) []byte {
	b = appendNodes(b, m.view.dead)
	b = binary.AppendUvarint(b, m.entered)
	b = appendNodes(b, m.view.group.gone)
	b = binary.AppendUvarint(b, m.last.seq)
	b = binary.AppendUvarint(b, m.last.base)
	b = m.last.ballot.append(b)
	b = binary.AppendUvarint(b, m.later.undecidedTo)
	b = binary.AppendUvarint(b, uint64(len(m.later.votes)))
	for i := range m.later.votes {
		e := &m.later.votes[i]
		b = binary.AppendVarint(b, int64(e.member))
		b = binary.AppendUvarint(b, e.seq)
		b = e.ballot.append(b)
	}
	return m.now.append(b)
}

// AppendState appends the message, for drivers that keep messages.
func (m *Msg) AppendState(b []byte) []byte {
	b = append(b, byte(m.Kind), byte(m.Outcome))
	b = binary.AppendVarint(b, int64(m.Known))
	b = binary.AppendUvarint(b, m.Seq)
	b = binary.AppendUvarint(b, m.Base)
	v := ballot{m.Vote, m.Failed}
	return m.Collective.AppendState(v.append(b))
}

func (r *round) append(b []byte) []byte {
	b = binary.AppendUvarint(b, r.seq)
	for _, flag := range [...]bool{r.entered, r.frozen, r.voted, r.mayVote, r.termination.begun, r.termination.blocked} {
		b = appendBool(b, flag)
	}
	b = binary.AppendVarint(b, int64(r.contact))
	b = binary.AppendVarint(b, int64(r.sentTo))
	b = r.ballot.append(b)
	b = appendKids(b, r.ballots.kids)
	b = appendSlots(b, r.ballots.extra)
	b = appendNodes(b, r.waiters)
	b = binary.AppendUvarint(b, uint64(len(r.termination.asked)))
	for _, a := range r.termination.asked {
		b = binary.AppendVarint(b, int64(a.node))
		b = binary.AppendVarint(b, int64(a.told))
		b = binary.AppendVarint(b, int64(a.known))
	}
	return b
}

func (b *ballot) append(to []byte) []byte {
	to = binary.AppendUvarint(to, b.vote.Flags)
	to = append(to, b.vote.Payload[:]...)
	to = binary.AppendUvarint(to, uint64(len(b.vote.Body)))
	to = append(to, b.vote.Body...)
	return appendNodes(to, b.failed)
}

func appendKids(b []byte, kids []kid) []byte {
	for i := range kids {
		if b = appendBool(b, kids[i].here); kids[i].here {
			b = kids[i].ballot.append(b)
		}
	}
	return b
}

func appendSlots(b []byte, slots []slot) []byte {
	b = binary.AppendUvarint(b, uint64(len(slots)))
	for i := range slots {
		b = binary.AppendVarint(b, int64(slots[i].node))
		b = slots[i].ballot.append(b)
	}
	return b
}

func appendNodes(b []byte, list []Node) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, p := range list {
		b = binary.AppendVarint(b, int64(p))
	}
	return b
}

func appendBool(b []byte, flag bool) []byte {
	if flag {
		return append(b, 1)
	}
	return append(b, 0)
}
