package stream

import (
	"encoding/binary"
	"maps"
	"slices"
	"sort"
)

// clone returns a node that shares nothing with n.
func (n *modelNode) clone() *modelNode {
	c := *n
	c.memory = maps.Clone(n.memory)
	c.pes = slices.Clone(n.pes)
	for i := range c.pes {
		pe := &c.pes[i]
		pe.streams, pe.slots, pe.ready = slices.Clone(pe.streams), slices.Clone(pe.slots), slices.Clone(pe.ready)
		pe.blocks = slices.Clone(pe.blocks)
		for j := range pe.blocks {
			if b := &pe.blocks[j]; b.Body != nil {
				b.Body = append(make([]byte, 0, testBody), b.Body...)
			}
		}
	}
	s := *n.s
	s.turns = s.turns.clone()
	s.pes, s.nodes = slices.Clone(s.pes), slices.Clone(s.nodes)
	for i := range s.pes {
		pe := &s.pes[i]
		pe.blocks = slices.Clone(pe.blocks)
		for j := range pe.blocks {
			if b := &pe.blocks[j]; b.body != nil {
				b.body = c.pes[i].blocks[j].Body[:len(b.body)]
			}
		}
	}
	for i := range s.nodes {
		x := &s.nodes[i]
		x.streams, x.turns, x.parser.body = slices.Clone(x.streams), x.turns.clone(), slices.Clone(x.parser.body)
	}
	r := *n.r
	r.turns, r.later, r.nodes = r.turns.clone(), r.later.clone(), slices.Clone(r.nodes)
	for i := range r.nodes {
		x := &r.nodes[i]
		x.streams, x.turns, x.later, x.parser.body = slices.Clone(x.streams), x.turns.clone(), x.later.clone(), slices.Clone(x.parser.body)
		for j := range x.streams {
			x.streams[j].answers.room = slices.Clone(x.streams[j].answers.room)
		}
	}
	c.s, c.r = &s, &r
	return &c
}

func (t *turns) clone() turns {
	return turns{next: slices.Clone(t.next), head: t.head, tail: t.tail}
}

// state appends numbers to bytes.
type stateBytes struct{ b []byte }

func (b *stateBytes) add(numbers ...uint64) {
	for _, x := range numbers {
		b.b = binary.AppendUvarint(b.b, x)
	}
}

func (b *stateBytes) bytes(x []byte) {
	b.add(uint64(len(x)))
	b.b = append(b.b, x...)
}

func bit(x bool) uint64 {
	if x {
		return 1
	}
	return 0
}

// appendState appends all that the node does anything by.
func (n *modelNode) appendState(out []byte) []byte {
	b := &stateBytes{out}
	for i := range n.pes {
		n.pes[i].appendState(b)
	}
	sources := slices.Collect(maps.Keys(n.memory))
	sort.Slice(sources, func(i, j int) bool {
		a, b := sources[i], sources[j]
		return a.Node*1000+int(a.Local)*10+a.Class < b.Node*1000+int(b.Local)*10+b.Class
	})
	for _, x := range sources {
		m := n.memory[x]
		b.add(uint64(x.Node), uint64(x.Local), uint64(x.Class), uint64(x.Incarnation), m.records, m.adds, bit(m.late))
	}
	n.s.turns.appendState(b)
	for i := range n.s.pes {
		pe := &n.s.pes[i]
		b.add(bit(pe.dropped), uint64(pe.incarnation))
		for j := range pe.blocks {
			k := &pe.blocks[j]
			b.add(uint64(len(k.body)), k.first, uint64(k.node), uint64(k.stream), uint64(k.records), uint64(k.sent), uint64(k.sentBytes), uint64(k.next), bit(k.listed))
		}
	}
	for i := range n.s.nodes {
		x := &n.s.nodes[i]
		b.add(uint64(x.state), uint64(x.generation), bit(x.opened), uint64(x.cursor), uint64(x.busy), bit(x.skip), uint64(x.flight.frames), uint64(x.flight.bytes))
		for _, st := range x.streams {
			b.add(st.next, st.sent, st.done, st.answered, st.resume, uint64(st.first), uint64(st.last), uint64(st.unsent), bit(st.busy))
		}
		x.turns.appendState(b)
		x.parser.appendState(b)
	}
	n.r.turns.appendState(b)
	n.r.later.appendState(b)
	for i := range n.r.nodes {
		x := &n.r.nodes[i]
		b.add(uint64(x.state), uint64(x.generation), uint64(x.cursor), uint64(x.flight.frames), uint64(x.flight.bytes), uint64(len(x.streams)))
		for j := range x.streams {
			st := &x.streams[j]
			b.add(uint64(st.incarnation), bit(st.known), bit(st.dropped), uint64(st.floor), st.executed, st.told, uint64(st.answers.n), uint64(st.answers.sent))
			for k := range st.answers.n {
				a := st.answers.at(k)
				b.add(a.number, a.word, uint64(a.slot), uint64(a.status), bit(a.data), a.read.Offset, uint64(a.read.Length))
			}
		}
		x.turns.appendState(b)
		x.later.appendState(b)
		x.parser.appendState(b)
	}
	return b.b
}

func (pe *modelPE) appendState(b *stateBytes) {
	b.add(uint64(pe.incarnation), bit(pe.dead), uint64(len(pe.ready)))
	for _, i := range pe.ready {
		b.add(uint64(i))
	}
	for i := range pe.blocks {
		k := &pe.blocks[i]
		b.add(uint64(k.Node), uint64(k.Class), k.First, uint64(k.records), bit(k.used), bit(k.closed))
		b.bytes(k.Body)
	}
	for _, st := range pe.streams {
		b.add(st.next, st.done, uint64(st.open), st.adds)
	}
	for _, s := range pe.slots {
		b.add(bit(s.busy), s.number, uint64(s.at), bit(s.get), s.value, uint64(s.have))
	}
}

func (t *turns) appendState(b *stateBytes) {
	b.add(uint64(len(t.next)), uint64(t.head), uint64(t.tail))
	for i := t.head; i > 0; i = t.next[i-1] {
		b.add(uint64(i))
	}
}

func (p *parser) appendState(b *stateBytes) {
	b.add(uint64(p.have))
	if p.have > 0 {
		b.bytes(p.raw[:p.have])
	}
	if p.have == HeaderSize {
		b.add(uint64(p.done))
		if p.body != nil {
			b.bytes(p.body[:min(p.done, len(p.body))])
		}
	}
}
