package span

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/coll/ftco"
)

// Message is what the nodes of a team send each other.
//
//	u8 kind, u8 flags, u64 number of the step
//	u32 count and missing nodes (u32), u32 count and failed nodes (u32), both if flagSets
//	u32 count and exceptions (u32 node, u32 member, u8 why), then the data to the end, if flagValue; data only if flagData
//
// in little endian.
type Message struct {
	Kind      ftco.MsgKind
	Seq       uint64
	Committed bool
	Sets      *ftco.Sets
	Value     *Value // nil: none comes with it
}

// IsWhole reports whether the message says of no member that it does not contribute: all that it knows of enter a next step, or say
// there that they do not.
func (m *Message) IsWhole() bool {
	return m.Sets == nil && m.Value != nil && m.Value.Data != nil && len(m.Value.Without) == 0
}

// The flags of a message.
const (
	flagCommitted = 1 << iota
	flagSets
	flagValue
	flagData
)

const exceptionBytes = 9

// Append appends the message to b.
func (m *Message) Append(b []byte) []byte {
	flags := byte(0)
	if m.Committed {
		flags |= flagCommitted
	}
	if m.Sets != nil {
		flags |= flagSets
	}
	if m.Value != nil {
		flags |= flagValue
		if m.Value.Data != nil {
			flags |= flagData
		}
	}
	b = append(b, byte(m.Kind), flags)
	b = binary.LittleEndian.AppendUint64(b, m.Seq)
	if m.Sets != nil {
		b = appendNodes(appendNodes(b, m.Sets.Missing), m.Sets.Failed)
	}
	if m.Value == nil {
		return b
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Value.Without)))
	for _, e := range m.Value.Without {
		b = binary.LittleEndian.AppendUint32(b, uint32(e.Node))
		b = binary.LittleEndian.AppendUint32(b, uint32(e.Member))
		b = append(b, byte(e.Why))
	}
	return append(b, m.Value.Data...)
}

func appendNodes(b []byte, nodes []ftco.Node) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(nodes)))
	for _, n := range nodes {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

var errShort = errors.New("message of a collective is too short")

// ParseMessage is the inverse of Append. The data of the message share the memory of b.
func ParseMessage(b []byte) (*Message, error) {
	if len(b) < 10 {
		return nil, errShort
	}
	m := &Message{Kind: ftco.MsgKind(b[0]), Seq: binary.LittleEndian.Uint64(b[2:])}
	flags := b[1]
	b = b[10:]
	if flags >= 2*flagData || flags&flagData != 0 && flags&flagValue == 0 {
		return nil, fmt.Errorf("message of a collective has flags %#x", flags)
	}
	m.Committed = flags&flagCommitted != 0
	var ok bool
	if flags&flagSets != 0 {
		m.Sets = &ftco.Sets{}
		if m.Sets.Missing, b, ok = readNodes(b); !ok {
			return nil, errShort
		}
		if m.Sets.Failed, b, ok = readNodes(b); !ok {
			return nil, errShort
		}
	}
	if flags&flagValue != 0 {
		m.Value = &Value{}
		n, rest, ok := readCount(b, exceptionBytes)
		if !ok {
			return nil, errShort
		}
		for b = rest; n > 0; n-- {
			m.Value.Without = append(m.Value.Without, Exception{int32(binary.LittleEndian.Uint32(b)), int32(binary.LittleEndian.Uint32(b[4:])), board.Verdict(b[8])})
			b = b[exceptionBytes:]
		}
		if flags&flagData != 0 {
			m.Value.Data, b = slices.Clip(b), nil
		}
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("message of a collective has %d bytes too many", len(b))
	}
	return m, nil
}

// readCount reads a number of things of size bytes each, which have to follow.
func readCount(b []byte, size int) (n int, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, b, false
	}
	n = int(binary.LittleEndian.Uint32(b))
	return n, b[4:], uint64(n)*uint64(size) <= uint64(len(b)-4)
}

func readNodes(b []byte) (nodes []ftco.Node, rest []byte, ok bool) {
	n, b, ok := readCount(b, 4)
	if !ok {
		return nil, b, false
	}
	for ; n > 0; n-- {
		nodes = append(nodes, ftco.Node(binary.LittleEndian.Uint32(b)))
		b = b[4:]
	}
	return nodes, b, true
}

// check looks whether another node of the team can have sent the message. Parts make no uniform calls and have no clocks, so they
// send contributions and decisions alone, and each has a value.
func (m *Message) check(c *Config, from int) error {
	switch {
	case from < 0 || from >= c.Nodes || from == c.Me:
		return fmt.Errorf("node %d of a team on %d nodes sends to node %d", from, c.Nodes, c.Me)
	case m.Kind != ftco.Up && m.Kind != ftco.Down && m.Kind != ftco.Have:
		return fmt.Errorf("node %d sends a message of kind %d, want %d to %d", from, m.Kind, ftco.Up, ftco.Have)
	case m.Committed:
		return fmt.Errorf("node %d says that step %d is committed, want no such step", from, m.Seq)
	case m.Seq == 0:
		return fmt.Errorf("node %d sends a message of step 0, want 1 or more", from)
	case m.Value == nil:
		return fmt.Errorf("node %d sends a message of kind %d without a value", from, m.Kind)
	case m.Value.Data != nil && len(m.Value.Data) < c.Least:
		return fmt.Errorf("node %d sends data of %d bytes, want %d or more", from, len(m.Value.Data), c.Least)
	}
	if m.Value.Data != nil && c.Check != nil {
		if err := c.Check(m.Value.Data); err != nil {
			return fmt.Errorf("node %d sends data of step %d: %w", from, m.Seq, err)
		}
	}
	if m.Sets != nil {
		for _, list := range [][]ftco.Node{m.Sets.Missing, m.Sets.Failed} {
			last := ftco.None
			for _, n := range list {
				if n <= last || int(n) >= c.Nodes {
					return fmt.Errorf("node %d sends a set with node %d after %d, want them ascending, below %d", from, n, last, c.Nodes)
				}
				last = n
			}
		}
	}
	last := Exception{Node: -1}
	for _, e := range m.Value.Without {
		if e.Node < 0 || int(e.Node) >= c.Nodes || e.Member < 0 || e.Why <= board.Entered || e.Why > board.HasGivenUp {
			return fmt.Errorf("node %d sends the exception %+v", from, e)
		}
		if compareExceptions(last, e) >= 0 {
			return fmt.Errorf("node %d sends the exception %+v after %+v, want them in order", from, e, last)
		}
		last = e
	}
	return nil
}
