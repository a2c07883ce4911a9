package agree

import (
	"encoding/binary"
	"slices"
)

// Clone returns a machine in the same state that shares nothing that changes.
func (m *Machine) Clone() *Machine {
	if m.two != nil {
		return &Machine{two: m.two.Clone()}
	}
	return &Machine{early: m.early.Clone()}
}

// AppendState appends the whole state. Two machines of one configuration behave alike if they append
// the same bytes.
func (m *Machine) AppendState(b []byte) []byte {
	if m.two != nil {
		return m.two.AppendState(b)
	}
	return m.early.AppendState(b)
}

// Clone returns a machine in the same state that shares nothing that changes.
func (e *earlyReturning) Clone() *earlyReturning {
	c := *e
	c.strays = slices.Clone(e.strays)
	c.scratch = nil
	for i := range c.sides {
		if s := &c.sides[i]; s.m != nil {
			s.m = s.m.Clone()
			for j := range s.stores {
				st := &s.stores[j]
				st.kids, st.extra = slices.Clone(st.kids), slices.Clone(st.extra)
			}
		}
	}
	return &c
}

// AppendState appends the whole state, without what is of no more use.
func (e *earlyReturning) AppendState(b []byte) []byte {
	b = appendNodes(b, e.dead)
	b = binary.AppendUvarint(b, e.entered)
	for i := range e.sides { // the current one first
		b = e.sides[(e.current+i)%len(e.sides)].append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(e.strays)))
	for i := range e.strays {
		b = e.strays[i].append(b)
	}
	return b
}

func (s *side) append(b []byte) []byte {
	if b = appendBool(b, s.m != nil); s.m == nil {
		return b
	}
	b = binary.AppendUvarint(b, s.base)
	b = appendNodes(b, s.group.gone)
	b = s.m.AppendState(b)
	for i := range s.stores {
		st := &s.stores[i]
		b = binary.AppendUvarint(b, st.seq)
		b = appendBool(b, st.done)
		b = st.result.append(b)
		if st.done { // all questions are answered with the result
			continue
		}
		b = st.own.append(b)
		b = appendKids(b, st.kids)
		b = appendSlots(b, st.extra)
	}
	return b
}

func (s *stray) append(b []byte) []byte {
	b = binary.AppendVarint(b, int64(s.member))
	return s.msg.AppendState(b)
}
