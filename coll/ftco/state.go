package ftco

import "encoding/binary"

// Clone is a machine of its own in the same state.
func (m *Machine) Clone() *Machine {
	c := *m
	c.failed = m.failed.clone()
	c.ops = m.ops.clone(m.settled)
	return &c
}

// AppendState appends to b all that the machine's behavior depends on beside
// its Config: two machines of one Config that append the same bytes answer any
// events with the same actions. What an operation no longer needs is left out, so
// that ways that led to the same state are seen to do so.
func (m *Machine) AppendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(m.nfailed))
	m.failed.each(func(p Node) { b = appendNode(b, p) })
	b = binary.AppendUvarint(b, m.entered)
	b = binary.AppendUvarint(b, m.settled)
	b = append(b, m.loose)
	for seq := m.settled + 1; seq <= m.latest; seq++ {
		if o := m.find(seq); o != nil {
			b = o.append(b)
		}
	}
	return b
}

func (o *op) append(b []byte) []byte {
	b = binary.AppendUvarint(b, o.seq)
	b = appendCall(b, o.call)
	b = append(b, flags(o.entered, o.gathers, o.decided, o.returned), flags(o.frozen && !o.decided, o.acked, o.committed))
	b = binary.AppendUvarint(b, uint64(o.idle))
	if !o.entered { // only entering something else asks for it
		b = appendNode(b, o.opener)
	}
	if o.decided {
		b = appendNode(b, o.haveTo)
	} else {
		b = appendNode(b, o.sentTo)
		b = binary.AppendUvarint(b, uint64(len(o.slots)))
		for i := range o.slots {
			s := &o.slots[i]
			b = append(appendNode(b, s.node), flags(s.value))
			b = s.sets.AppendState(b)
		}
	}
	b = appendNode(b, o.ackTo)
	if !o.committed {
		b = appendNodes(b, o.acks)
	}
	return o.sets.AppendState(b)
}

// AppendState appends the sets to b, for [Machine.AppendState] and for who keeps
// messages.
func (s *Sets) AppendState(b []byte) []byte {
	if s == nil {
		return append(b, 0)
	}
	b = appendNodes(append(b, 1), s.Missing)
	return appendNodes(b, s.Failed)
}

// AppendState appends the message to b.
func (m *Msg) AppendState(b []byte) []byte {
	b = append(b, byte(m.Kind), flags(m.Committed))
	b = appendCall(b, m.Call)
	b = binary.AppendUvarint(b, m.Seq)
	b = binary.AppendVarint(b, int64(m.Value))
	return m.Sets.AppendState(b)
}

func appendCall(b []byte, c Call) []byte {
	b = append(b, byte(c.Kind), flags(c.Uniform, c.Strict))
	b = appendNode(b, c.Root)
	return binary.AppendUvarint(b, uint64(c.Tag))
}

func appendNode(b []byte, v Node) []byte { return binary.AppendVarint(b, int64(v)) }

func appendNodes(b []byte, list []Node) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, v := range list {
		b = appendNode(b, v)
	}
	return b
}

func flags(list ...bool) byte {
	b := byte(0)
	for i, f := range list {
		if f {
			b |= 1 << i
		}
	}
	return b
}
