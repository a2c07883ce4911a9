package agree

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/coll/ftco"
)

// A message travels as bytes:
//
//	of an agreement:  u8 kind, u8 outcome, u32 known, u64 seq, u64 base, vote, nodes (failed), collective if kind has it
//	of an allreduce:  vote, collective
//	vote:             u64 flags, 32 bytes payload, u32 length of the body, body
//	nodes:            u16 count, u32 each
//	collective:       u8 kind, u8 flags, u8 call, u32 root, u32 tag, u64 seq, u32 value; nodes (missing) and nodes (failed)
//	                  if flagSets
//
// in little endian.

// MostBytes returns the greatest number of bytes of a message among n members whose united bodies have body bytes at most. Three lists of all
// members fit.
func MostBytes(n, body int) int { return 3*(2+4*n) + 132 + body }

// The flags of a collective message.
const (
	flagCommitted = 1 << iota
	flagUniform
	flagStrict
	flagSets
)

// flagCollective, in a kind of an agreement's message, says that a collective message follows.
const flagCollective = 0x80

// AppendMsg appends a message of an agreement.
func AppendMsg(b []byte, m *Msg) []byte {
	kind := byte(m.Kind)
	if m.Collective.Kind != 0 {
		kind |= flagCollective
	}
	b = append(b, kind, byte(m.Outcome))
	b = binary.LittleEndian.AppendUint32(b, uint32(m.Known))
	b = binary.LittleEndian.AppendUint64(b, m.Seq)
	b = binary.LittleEndian.AppendUint64(b, m.Base)
	b = AppendVote(b, &m.Vote)
	b = AppendNodes(b, m.Failed)
	if m.Collective.Kind != 0 {
		b = appendCollective(b, &m.Collective)
	}
	return b
}

// ReadMsg is the inverse of AppendMsg.
func ReadMsg(b []byte) (m Msg, err error) {
	r := reader{rest: b}
	kind := r.u8()
	m.Kind, m.Outcome = MsgKind(kind&^flagCollective), Outcome(r.u8())
	m.Known = int32(r.u32())
	m.Seq, m.Base = r.u64(), r.u64()
	m.Vote = r.vote()
	m.Failed = r.nodes()
	if kind&flagCollective != 0 {
		m.Collective = r.collective()
	}
	return m, r.end("agreement")
}

// AppendAllreduce appends a message of an allreduce and the value that travels with it.
func AppendAllreduce(b []byte, m *ftco.Msg, value *Vote) []byte {
	return appendCollective(AppendVote(b, value), m)
}

// ReadAllreduce is the inverse of AppendAllreduce.
func ReadAllreduce(b []byte) (m ftco.Msg, value Vote, err error) {
	r := reader{rest: b}
	value = r.vote()
	m = r.collective()
	return m, value, r.end("allreduce")
}

// AppendVote appends a vote.
func AppendVote(b []byte, v *Vote) []byte {
	b = binary.LittleEndian.AppendUint64(b, v.Flags)
	b = append(b, v.Payload[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(v.Body)))
	return append(b, v.Body...)
}

// AppendNodes appends a list of nodes.
func AppendNodes(b []byte, nodes []ftco.Node) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(nodes)))
	for _, v := range nodes {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func appendCollective(b []byte, m *ftco.Msg) []byte {
	flags := byte(0)
	for _, f := range [...]struct {
		set  bool
		flag byte
	}{{m.Committed, flagCommitted}, {m.Call.Uniform, flagUniform}, {m.Call.Strict, flagStrict}, {m.Sets != nil, flagSets}} {
		if f.set {
			flags |= f.flag
		}
	}
	b = append(b, byte(m.Kind), flags, byte(m.Call.Kind))
	b = binary.LittleEndian.AppendUint32(b, uint32(m.Call.Root))
	b = binary.LittleEndian.AppendUint32(b, m.Call.Tag)
	b = binary.LittleEndian.AppendUint64(b, m.Seq)
	b = binary.LittleEndian.AppendUint32(b, uint32(m.Value))
	if m.Sets != nil {
		b = AppendNodes(AppendNodes(b, m.Sets.Missing), m.Sets.Failed)
	}
	return b
}

// reader reads numbers. After the end of its bytes it returns zeros.
type reader struct {
	rest  []byte
	short bool // something was read after the end
}

func (r *reader) next(n int) []byte {
	if n > len(r.rest) {
		r.short, r.rest = true, nil
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) u8() byte    { return r.next(1)[0] }
func (r *reader) u16() uint16 { return binary.LittleEndian.Uint16(r.next(2)) }
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.next(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.next(8)) }

func (r *reader) vote() (v Vote) {
	v.Flags = r.u64()
	copy(v.Payload[:], r.next(len(v.Payload)))
	if n := int(r.u32()); n > len(r.rest) {
		r.short, r.rest = true, nil
	} else if n > 0 {
		v.Body = string(r.next(n))
	}
	return v
}

func (r *reader) nodes() (nodes []ftco.Node) {
	n := int(r.u16())
	if 4*n > len(r.rest) {
		r.short, r.rest = true, nil
		return nil
	}
	for range n {
		nodes = append(nodes, ftco.Node(r.u32()))
	}
	return nodes
}

func (r *reader) collective() (m ftco.Msg) {
	m.Kind = ftco.MsgKind(r.u8())
	flags := r.u8()
	m.Committed = flags&flagCommitted != 0
	m.Call = ftco.Call{Kind: ftco.Kind(r.u8()), Uniform: flags&flagUniform != 0, Strict: flags&flagStrict != 0}
	m.Call.Root, m.Call.Tag = ftco.Node(r.u32()), r.u32()
	m.Seq, m.Value = r.u64(), ftco.Buf(r.u32())
	if flags&flagSets != 0 {
		m.Sets = &ftco.Sets{Missing: r.nodes(), Failed: r.nodes()}
	}
	return m
}

// ErrMessage reports a message that no PE sends.
var ErrMessage = errors.New("bad message")

// end returns an error unless the bytes were exactly a message of that kind.
func (r *reader) end(what string) error {
	switch {
	case r.short:
		return fmt.Errorf("%w of an %s: it is too short", ErrMessage, what)
	case len(r.rest) > 0:
		return fmt.Errorf("%w of an %s: %d bytes after its end, want none", ErrMessage, what, len(r.rest))
	}
	return nil
}
