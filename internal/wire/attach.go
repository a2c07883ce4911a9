// Package wire has the messages that goshmem's own processes exchange on a
// node: what a PE asks its step process, and the answers.
//
// A message is one packet of a unix socket of type SEQPACKET. Numbers are
// little endian.
//
//	request  u32 magic, u16 version, u16 length, u32 pe, u32 incarnation,
//	         u32 kind, u32 first, nspace (length bytes)
//	reply    u32 magic, u16 version, u16 length, u32 npes, u32 first, u32 count,
//	         u32 incarnation, u32 processors, u64 segment size, 16 bytes job,
//	         u32 page, u32 recover, error (length bytes)
//	order    u32 magic, u16 version, u16 length, u32 order, u32 last,
//	         text (length bytes)
//
// A request is one for segments or for orders alone. A reply with count > 0
// carries that many descriptors (SCM_RIGHTS): the memfds of the segments first,
// first+1, ... of the node, in order. If page is 1, one more descriptor follows
// them: the failure page of the job, which the reply with first = 0 carries if there
// is one. If recover is 1, the job outlives failures of PEs. After a reply with the last of the segments, or to a request for orders,
// it is the step that asks: it sends orders without text, and the PE answers each by
// one or more packets with the same order, the last of which says so.
//
// News alone is not answered. It may come between another order and its answer,
// and says no more than that the failure page is to be looked at: one that is not
// read yet stands for all later ones, so the step need not wait where the socket is
// full.
package wire

import (
	"encoding/binary"
	"fmt"
)

const (
	magic   = 0x48534f47 // "GOSH"
	version = 4

	requestBytes = 24
	replyBytes   = 60

	// MaxFDs is how many descriptors a packet has at most: the kernel's limit
	// is 253.
	MaxFDs = MaxSegments + 1
	// MaxSegments is how many segments a reply has at most.
	MaxSegments = 250
	// MaxPacket is the size of the largest packet.
	MaxPacket = 4096
)

// What an AttachRequest asks for.
const (
	AskSegments uint32 = iota // the descriptors of the node's segments from First on, then orders
	AskOrders                 // orders alone, by a process that has the segments
)

// AttachRequest is what a PE sends first.
type AttachRequest struct {
	Nspace      string
	PE          uint32
	Incarnation uint32
	Kind        uint32
	First       uint32
}

// AttachReply answers an AttachRequest.
type AttachReply struct {
	Job         [16]byte
	NPEs        uint32 // of the job
	First       uint32
	Count       uint32
	Incarnation uint32 // of the PE that asked
	Processors  uint32 // that the node's PEs have between them
	SegmentSize uint64
	Page        bool   // the descriptor after those of Count segments is the failure page
	Recover     bool   // the job outlives failures of PEs
	Err         string // why the request is refused; empty when it is not
}

// Append appends the packet to b.
func (r *AttachRequest) Append(b []byte) []byte {
	tail := clip(r.Nspace)
	b = header(b, tail)
	for _, v := range []uint32{r.PE, r.Incarnation, r.Kind, r.First} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return append(b, tail...)
}

// ParseAttachRequest is the inverse of Append.
func ParseAttachRequest(b []byte) (r AttachRequest, err error) {
	tail, err := check(b, requestBytes, "request")
	if err != nil {
		return r, err
	}
	le := binary.LittleEndian
	return AttachRequest{
		Nspace: tail, PE: le.Uint32(b[8:]), Incarnation: le.Uint32(b[12:]), Kind: le.Uint32(b[16:]), First: le.Uint32(b[20:]),
	}, nil
}

// Append appends the packet to b.
func (r *AttachReply) Append(b []byte) []byte {
	tail := clip(r.Err)
	b = header(b, tail)
	for _, v := range []uint32{r.NPEs, r.First, r.Count, r.Incarnation, r.Processors} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = binary.LittleEndian.AppendUint64(b, r.SegmentSize)
	b = append(b, r.Job[:]...)
	b = binary.LittleEndian.AppendUint32(b, mark(r.Page))
	b = binary.LittleEndian.AppendUint32(b, mark(r.Recover))
	return append(b, tail...)
}

// ParseAttachReply is the inverse of Append.
func ParseAttachReply(b []byte) (r AttachReply, err error) {
	tail, err := check(b, replyBytes, "reply")
	if err != nil {
		return r, err
	}
	le := binary.LittleEndian
	page, recovers := le.Uint32(b[52:]), le.Uint32(b[56:])
	if page > 1 || recovers > 1 {
		return r, fmt.Errorf("reply with mark %d for the failure page and %d for recovery, want 0 or 1", page, recovers)
	}
	r = AttachReply{
		NPEs: le.Uint32(b[8:]), First: le.Uint32(b[12:]), Count: le.Uint32(b[16:]),
		Incarnation: le.Uint32(b[20:]), Processors: le.Uint32(b[24:]), SegmentSize: le.Uint64(b[28:]),
		Page: page == 1, Recover: recovers == 1, Err: tail,
	}
	copy(r.Job[:], b[36:])
	return r, nil
}

func header(b []byte, tail string) []byte {
	b = binary.LittleEndian.AppendUint32(b, magic)
	b = binary.LittleEndian.AppendUint16(b, version)
	return binary.LittleEndian.AppendUint16(b, uint16(len(tail)))
}

// mark returns how a packet has a yes or no.
func mark(yes bool) uint32 {
	if yes {
		return 1
	}
	return 0
}

// clip cuts a string to what a packet can hold.
func clip(s string) string { return s[:min(len(s), MaxPacket-replyBytes)] }

// check verifies what all packets have in common and returns the string at the
// end.
func check(b []byte, fixed int, what string) (tail string, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < fixed:
		return "", fmt.Errorf("%s of %d bytes, want at least %d", what, len(b), fixed)
	case le.Uint32(b) != magic:
		return "", fmt.Errorf("%s begins with %#x, want %#x", what, le.Uint32(b), magic)
	case le.Uint16(b[4:]) != version:
		return "", fmt.Errorf("%s has version %d, want %d: oshrun and the program were built from different versions", what, le.Uint16(b[4:]), version)
	case len(b) != fixed+int(le.Uint16(b[6:])):
		return "", fmt.Errorf("%s has %d bytes, want %d", what, len(b), fixed+int(le.Uint16(b[6:])))
	}
	return string(b[fixed:]), nil
}
