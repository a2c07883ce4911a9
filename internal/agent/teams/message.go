package teams

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/symheap/layout"
)

// kind is the kind of a message.
type kind uint8

const (
	kindPart  kind = iota + 1 // a span.Message for the part of a line
	kindDone                  // the team has ended on the node that sends this
	kindGone                  // the same, and a node that does not know the team by now never will
	kindNever                 // answer to kindGone: the node that sends this does not know the team
	kindOver                  // the node that sends this says nothing more of the team
)

// head is what a message begins with: u8 kind, u8 line, and the name of the team.
type head struct {
	kind kind
	line uint8
	name name
}

const headBytes = 2 + 16

// cut returns the head of a message, and what is behind it.
func cut(b []byte) (h head, body []byte, err error) {
	if len(b) < headBytes {
		return h, nil, fmt.Errorf("message of a team has %d bytes, want %d or more", len(b), headBytes)
	}
	h = head{kind: kind(b[0]), line: b[1], name: name{binary.LittleEndian.Uint64(b[2:]), binary.LittleEndian.Uint64(b[10:])}}
	if h.kind < kindPart || h.kind > kindOver || h.line >= layout.UpperLines {
		return h, nil, fmt.Errorf("message of a team has kind %d and line %d, want %d to %d and less than %d", h.kind, h.line, kindPart, kindOver, layout.UpperLines)
	}
	return h, b[headBytes:], nil
}

// send sends a message of a head alone.
func (t *Teams) send(node int, h head) { t.sendMessage(node, h, nil) }

// sendMessage sends a message.
func (t *Teams) sendMessage(node int, h head, m *span.Message) {
	follow := false
	t.room = append(t.room[:0], byte(h.kind), h.line)
	t.room = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(t.room, h.name[0]), h.name[1])
	if m != nil {
		t.room = m.Append(t.room)
		follow = m.IsWhole() // the team goes on, and each step has a message from node to node
	}
	t.cfg.Send(node, t.room, follow)
}

// Receive takes a message of another node. The caller may use its memory again.
func (t *Teams) Receive(from int, b []byte) {
	h, body, err := cut(b)
	if err != nil {
		t.cfg.Log(fmt.Errorf("node %d: %w", from, err))
		return
	}
	body = slices.Clone(body)
	if m := t.known(h.name); m != nil {
		t.deliver(m, from, h, body)
		return
	}
	switch h.kind {
	case kindPart, kindDone:
		t.early = append(t.early, letter{from, h, body})
	case kindGone: // nobody reads what has come for the team, as no PE of this node is to have it, or all have given it up
		t.early = slices.DeleteFunc(t.early, func(l letter) bool { return l.head.name == h.name })
		if from >= 0 && from < t.cfg.Nodes && !t.dead[from] {
			t.send(from, head{kind: kindNever, name: h.name})
		}
	case kindOver: // what came behind kindGone
		t.early = slices.DeleteFunc(t.early, func(l letter) bool { return l.from == from && l.head.name == h.name })
	}
}

// known returns the team with a name, which a member may have described without being heard yet.
func (t *Teams) known(n name) *team {
	if m := t.named[n]; m != nil {
		return m
	}
	for pe := range layout.Local(t.cfg.Locals) {
		parts := &t.cfg.Words(pe).Parts
		for id := range parts {
			if nameOf(&parts[id]) != n {
				continue
			}
			if m, err := t.describedBy(pe, id); err == nil && m != nil && m.name == n {
				return m
			}
		}
	}
	return nil
}

// deliver gives a message to its team.
func (t *Teams) deliver(m *team, from int, h head, body []byte) {
	i := slices.Index(m.nodes, from)
	if i < 0 || i == m.me {
		t.cfg.Log(fmt.Errorf("node %d sends a message of team %x, want one of its nodes %v", from, m.name, m.nodes))
		return
	}
	if h.kind != kindPart {
		m.done[i] = true
		m.over[i] = m.over[i] || h.kind == kindNever || h.kind == kindOver
		t.forgetIfDone(m)
		return
	}
	msg, err := span.ParseMessage(body)
	if err != nil {
		t.cfg.Log(fmt.Errorf("node %d, team %x: %w", from, m.name, err))
		return
	}
	outs, err := m.lines[h.line].Receive(i, msg, nil)
	if err != nil {
		t.cfg.Log(fmt.Errorf("node %d, team %x: %w", from, m.name, err))
		return
	}
	t.perform(m, int(h.line), outs)
	t.proceed(m, int(h.line))
}

// perform does what a part says.
func (t *Teams) perform(m *team, line int, outs []span.Output) {
	for i := range outs {
		switch o := &outs[i]; o.Kind {
		case span.Send:
			if m.over[m.me] {
				continue // all nodes have ended the team: the answer to a late message, for which nobody waits
			}
			t.sendMessage(m.nodes[o.To], head{kind: kindPart, line: uint8(line), name: m.name}, o.Message)
		case span.Deliver:
			t.writeResult(m, line, o.Result)
			t.tellEnds()
		case span.Wrong:
			t.cfg.Log(fmt.Errorf("team %x: %w", m.name, o.Err))
		}
	}
}
