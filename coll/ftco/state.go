package ftco

import "encoding/binary"

// Clone returns a machine in the same state that shares nothing that changes.
func (m *Machine) Clone() *Machine {
	c := *m
	c.view.failed = m.view.failed.clone()
	c.ops = m.ops.clone()
	return &c
}

// AppendState appends to b all that the machine's behavior depends on apart from its Config: two
// machines of one Config that append the same bytes answer any events with the same actions. It
// leaves out what an operation no longer needs, so that different ways into one state give the
// same bytes.
func (m *Machine) AppendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(m.view.nfailed))
	m.view.failed.each(func(p Node) { b = appendNode(b, p) })
	b = binary.AppendUvarint(b, m.entered)
	b = binary.AppendUvarint(b, m.ops.settled)
	b = append(b, m.loose)
	for seq := m.ops.settled + 1; seq <= m.ops.latest; seq++ {
		if o := m.ops.find(seq); o != nil {
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
	if !o.entered { // only a call of something else names the opener
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

// AppendState appends the sets to b, for [Machine.AppendState] and for drivers that keep messages.
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
