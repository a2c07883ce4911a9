package fence

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// Bounds on what a message may hold.
const (
	maxValue = 256 << 20             // bytes of a fence's data; a fence with more fails on all nodes
	maxBody  = maxValue + (32 << 20) // bytes of a message
	maxProcs = 1 << 20               // participants of a fence
)

// msgCall is the kind of a message that names a fence to a node. All other kinds are those of ftco.Msg.
const msgCall ftco.MsgKind = 0

// Message is what the nodes of a fence send each other.
//
//	u8 kind, u8 flags, u64 number of the fence, u16 length and collective, u16 length and group, u32 length and processes
//	a call:          u32 count and nodes (u32), u32 count and ranges of processes (u16 length and namespace, u32, u32)
//	of the machine:  u32 count and missing (u32), u32 count and failed (u32), both if flagSets; the value to the end
//
// in little endian.
type Message struct {
	Kind ftco.MsgKind // msgCall, or the kind of a message of the machine
	ID   server.FenceID

	// Of a call.
	Spares  bool // the fence goes on without participants that end before they join
	Expired bool // the deadline of the fence has passed on some node
	Nodes   []int
	Procs   []ProcRange

	// Of a message of the machine.
	Committed bool
	HasValue  bool
	Sets      *ftco.Sets
	Value     []byte // empty if the receiver has the decision already
}

// ProcRange lists processes of one namespace with successive ranks.
type ProcRange struct {
	Nspace      string
	First, Last codec.Rank
}

// The flags of a message.
const (
	flagSpares    = 1 << iota // of a call
	flagExpired               // of a call
	flagCommitted             // of the machine
	flagValue                 // of the machine
	flagSets                  // of the machine

	callFlags    = flagSpares | flagExpired
	machineFlags = flagCommitted | flagValue | flagSets
)

// rangesOf returns sorted processes as ranges.
func rangesOf(procs []codec.Proc) (ranges []ProcRange) {
	for _, p := range procs {
		if n := len(ranges); n > 0 && ranges[n-1].Nspace == p.Nspace && ranges[n-1].Last+1 == p.Rank {
			ranges[n-1].Last = p.Rank
			continue
		}
		ranges = append(ranges, ProcRange{p.Nspace, p.Rank, p.Rank})
	}
	return ranges
}

// procsOf is the inverse of rangesOf.
func procsOf(ranges []ProcRange) (procs []codec.Proc) {
	for _, r := range ranges {
		for i := range r.Last - r.First + 1 {
			procs = append(procs, codec.Proc{Nspace: r.Nspace, Rank: r.First + i})
		}
	}
	return procs
}

// Append appends the message to b.
func (m *Message) Append(b []byte) []byte {
	flags := byte(0)
	for _, f := range []struct {
		set  bool
		flag byte
	}{
		{m.Spares, flagSpares},
		{m.Expired, flagExpired},
		{m.Committed, flagCommitted},
		{m.HasValue, flagValue},
		{m.Sets != nil, flagSets},
	} {
		if f.set {
			flags |= f.flag
		}
	}
	b = append(b, byte(m.Kind), flags)
	b = binary.LittleEndian.AppendUint64(b, m.ID.Seq)
	b = appendShort(b, string(m.ID.Op))
	b = appendShort(b, m.ID.Group)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.ID.Procs)))
	b = append(b, m.ID.Procs...)
	if m.Kind == msgCall {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Nodes)))
		for _, n := range m.Nodes {
			b = binary.LittleEndian.AppendUint32(b, uint32(n))
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Procs)))
		for _, r := range m.Procs {
			b = appendShort(b, r.Nspace)
			b = binary.LittleEndian.AppendUint32(b, uint32(r.First))
			b = binary.LittleEndian.AppendUint32(b, uint32(r.Last))
		}
		return b
	}
	if m.Sets != nil {
		b = appendMembers(b, m.Sets.Missing)
		b = appendMembers(b, m.Sets.Failed)
	}
	return append(b, m.Value...)
}

func appendShort(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func appendMembers(b []byte, members []ftco.Node) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(members)))
	for _, v := range members {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// ParseMessage is the inverse of Append. The value of the message shares the memory of b.
func ParseMessage(b []byte) (*Message, error) {
	r := reader{rest: b}
	m := &Message{Kind: ftco.MsgKind(r.u8())}
	flags := r.u8()
	m.ID.Seq = r.u64()
	m.ID.Op = server.Collective(r.short())
	m.ID.Group = r.short()
	m.ID.Procs = string(r.next(r.u32()))
	allowed := byte(machineFlags)
	if m.Kind == msgCall {
		allowed = callFlags
	}
	switch {
	case r.err != nil:
	case m.Kind > ftco.Alive:
		r.fail("kind %d, want at most %d", m.Kind, ftco.Alive)
	case flags&^allowed != 0:
		r.fail("flags %#x of kind %d, want some of %#x", flags, m.Kind, allowed)
	case m.ID.Seq == 0:
		r.fail("fence number 0, want 1 or more")
	}
	m.Spares, m.Expired = flags&flagSpares != 0, flags&flagExpired != 0
	m.Committed, m.HasValue = flags&flagCommitted != 0, flags&flagValue != 0
	if m.Kind == msgCall {
		r.readCall(m)
	} else {
		if flags&flagSets != 0 {
			m.Sets = &ftco.Sets{Missing: r.members(), Failed: r.members()}
		}
		m.Value, r.rest = r.rest, nil
		if !m.HasValue && len(m.Value) > 0 {
			r.fail("%d bytes after a message without a value, want none", len(m.Value))
		}
	}
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes after the message, want none", len(r.rest))
	}
	if r.err != nil {
		return nil, fmt.Errorf("message about a fence: %w", r.err)
	}
	return m, nil
}

// readCall reads the part of a message that only a call has.
func (r *reader) readCall(m *Message) {
	for range r.count(4) {
		m.Nodes = append(m.Nodes, int(r.u32()))
	}
	total := uint64(0)
	for range r.count(10) {
		p := ProcRange{r.short(), codec.Rank(r.u32()), codec.Rank(r.u32())}
		if r.err != nil {
			return
		}
		if p.Last < p.First {
			r.fail("processes %d to %d of %q, want them to ascend", p.First, p.Last, p.Nspace)
			return
		}
		if total += uint64(p.Last-p.First) + 1; total > maxProcs {
			r.fail("%d processes or more, want at most %d", total, maxProcs)
			return
		}
		m.Procs = append(m.Procs, p)
	}
}

// reader reads numbers and bytes. After an error it returns zeros.
type reader struct {
	rest []byte
	err  error
}

var errShort = errors.New("too short")

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// next returns the next n bytes.
func (r *reader) next(n uint32) []byte {
	if r.err != nil || uint64(n) > uint64(len(r.rest)) {
		r.err = cmp.Or(r.err, errShort)
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) u8() byte {
	if b := r.next(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.next(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.next(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.next(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// short reads a string with its length before it.
func (r *reader) short() string { return string(r.next(uint32(r.u16()))) }

// count reads a number of things that have at least size bytes each.
func (r *reader) count(size uint64) uint32 {
	n := r.u32()
	if uint64(n)*size > uint64(len(r.rest)) {
		r.err = cmp.Or(r.err, errShort)
		return 0
	}
	return n
}

// members reads a list of members.
func (r *reader) members() (list []ftco.Node) {
	for range r.count(4) {
		list = append(list, ftco.Node(r.u32()))
	}
	return list
}
