package span

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// clone returns a part in the same state that shares nothing that changes.
func (p *Part) clone() *Part {
	c := *p
	c.machine = p.machine.Clone()
	c.acts = nil
	c.waits = slices.Clone(p.waits)
	c.values = slices.Clone(p.values)
	return &c
}

// appendState appends all that the part's behavior depends on.
func (p *Part) appendState(b []byte) []byte {
	b = p.machine.AppendState(b)
	b = append(b, byte(p.seq), byte(p.at))
	if p.over {
		b = append(b, 'o')
	}
	if p.stirred {
		b = append(b, 's')
	}
	if p.frozen {
		b = append(b, 'f')
	} else {
		for i := range p.waits {
			b = fmt.Append(b, p.waits[i]) // a word that is read after the news means more than one before
		}
	}
	values := slices.Clone(p.values)
	slices.SortFunc(values, func(a, b named) int {
		if a.seq != b.seq {
			return int(a.seq) - int(b.seq)
		}
		return int(a.name) - int(b.name)
	})
	for _, n := range values {
		b = append(b, byte(n.seq), byte(n.name))
		b = n.v.appendState(b)
	}
	return b
}

func (v *Value) appendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(v.Data)))
	if v.Data == nil {
		b = append(b, 'n')
	}
	b = append(b, v.Data...)
	for _, e := range v.Without {
		b = append(b, byte(e.Node), byte(e.Member), byte(e.Why))
	}
	return binary.AppendUvarint(b, uint64(len(v.Without)))
}
