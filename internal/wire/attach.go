// Package wire declares the messages between the processes of goshmem on a node: the
// requests of a PE to its step process, the orders of the step, and their answers.
//
// A message is one packet of a unix socket of type SEQPACKET. Numbers are
// little endian.
//
//	request  u32 magic, u16 version, u16 length, u32 pe, u32 incarnation,
//	         u32 kind, u32 first, u32 job, nspace (length bytes)
//	reply    u32 magic, u16 version, u16 length, u32 npes, u32 nodes, u32 first pe,
//	         u32 near, u32 first, u32 count, u32 incarnation, u32 processors,
//	         u64 segment size, 16 bytes job, u32 page, u32 marks,
//	         error (length bytes)
//	order    u32 magic, u16 version, u16 length, u32 order, u32 last,
//	         text (length bytes)
//
// A request asks for segments, for orders alone, or for what a PE needs to exchange messages with the PEs of another job, number job.
// The replies to the last one are those of the other job, without an agent. If the job has PEs on this node, one more descriptor comes behind
// its failure page: the passages between the two jobs (layout.Passage). Otherwise count is 0. It may be asked again for further jobs, and no
// orders follow.
//
// A reply says which PEs of the job are on the node: near PEs, from first pe on. Segments
// are numbered by the PE's index on the node, so segment i belongs to PE first pe + i. If marks has bit 1, the near PEs do not
// have consecutive numbers: first pe is the lowest, and the agent's page lists them.
//
// A reply with count > 0 carries count descriptors (SCM_RIGHTS): the memfds of the
// segments first, first+1, ... of the node, in order. If page is 1, one more
// descriptor follows: the job's failure page. If page is 3, three more follow that: the page and the event descriptor of the
// node's agent, and the PE's line to it (express.go), in jobs of several nodes. If page is 5, the node of such a job has no
// agent, and the text says why instead of an error. Only the reply with first = 0 carries them. If marks has bit 0, the job
// outlives failures of PEs. If marks has bit 2, a last descriptor follows: the homes of the job's PEs (symheap.Homes), as the agents of several
// nodes know them.
//
// After the reply with the last segment, or the reply to a request for orders, the
// roles change: the step sends orders without text. The PE answers each order by one
// or more packets with the same order; the last packet has last = 1.
//
// OrderNews is not answered, and may come between another order and its answer. It
// says only that the failure page has changed. One that is not read yet stands for
// all later ones, so the step drops it when the socket is full.
package wire

import (
	"encoding/binary"
	"fmt"
)

const (
	magic   = 0x48534f47 // "GOSH"
	version = 10

	requestBytes = 28
	replyBytes   = 72

	// MaxFDs bounds the descriptors of a packet. The kernel's limit is 253.
	MaxFDs = MaxSegments + 5
	// MaxSegments bounds the segments of a reply.
	MaxSegments = 248
	// MaxPacket is the size of the largest packet.
	MaxPacket = 4096
)

// What an AttachRequest asks for.
const (
	AskSegments uint32 = iota // descriptors of the node's segments from First on, then orders
	AskOrders                 // orders alone, for a process that has the segments
	AskPeers                  // segments of another job from First on, its failure page, and the passages to it
)

// AttachRequest is the first message of a PE.
type AttachRequest struct {
	Nspace      string
	PE          uint32
	Incarnation uint32
	Kind        uint32
	First       uint32
	Job         uint32 // with AskPeers: the number of the other job
}

// AttachReply answers an AttachRequest.
type AttachReply struct {
	Job         [16]byte
	NPEs        uint32 // number of PEs of the job
	Nodes       uint32 // number of nodes of the job
	FirstPE     uint32 // lowest PE on this node
	Near        uint32 // number of PEs on this node
	Scattered   bool   // the PEs on this node do not have consecutive numbers
	First       uint32 // index of the first segment that comes with the reply
	Count       uint32 // number of segments that come with the reply
	Incarnation uint32 // incarnation of the PE that asked
	Processors  uint32 // number of processors that the node's PEs share
	SegmentSize uint64
	Page        bool   // the descriptor after those of Count segments is the failure page
	Agent       bool   // the three descriptors after that are the agent's page, its event and the line to it; with Page only
	NoAgent     string // why the node of a job of several nodes has no agent; with Page only, without Agent and Err
	Recover     bool   // the job outlives failures of PEs
	Homes       bool   // the last descriptor is that of the homes of the job's PEs; with Page only
	Err         string // reason of a refusal; empty if the request is granted
}

// Append appends the packet to b.
func (r *AttachRequest) Append(b []byte) []byte {
	tail := clip(r.Nspace)
	b = header(b, tail)
	for _, v := range []uint32{r.PE, r.Incarnation, r.Kind, r.First, r.Job} {
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
		Job: le.Uint32(b[24:]),
	}, nil
}

// Append appends the packet to b.
func (r *AttachReply) Append(b []byte) []byte {
	text, lacks := r.Err, r.NoAgent != "" && r.Page && !r.Agent && r.Err == ""
	if lacks {
		text = r.NoAgent
	}
	tail := clip(text)
	b = header(b, tail)
	for _, v := range []uint32{r.NPEs, r.Nodes, r.FirstPE, r.Near, r.First, r.Count, r.Incarnation, r.Processors} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = binary.LittleEndian.AppendUint64(b, r.SegmentSize)
	b = append(b, r.Job[:]...)
	b = binary.LittleEndian.AppendUint32(b, mark(r.Page)|mark(r.Agent)<<1|mark(lacks)<<2)
	b = binary.LittleEndian.AppendUint32(b, mark(r.Recover)|mark(r.Scattered)<<1|mark(r.Homes)<<2)
	return append(b, tail...)
}

// ParseAttachReply is the inverse of Append.
func ParseAttachReply(b []byte) (r AttachReply, err error) {
	tail, err := check(b, replyBytes, "reply")
	if err != nil {
		return r, err
	}
	le := binary.LittleEndian
	page, marks := le.Uint32(b[64:]), le.Uint32(b[68:])
	if page > 1 && page != 3 && page != 5 || marks > 7 || page == 5 && tail == "" {
		return r, fmt.Errorf("reply: page is %d, marks are %d and %d bytes of text, want page 0, 1, 3, or 5 with a text, and marks from 0 to 7", page, marks, len(tail))
	}
	r = AttachReply{
		NPEs: le.Uint32(b[8:]), Nodes: le.Uint32(b[12:]), FirstPE: le.Uint32(b[16:]), Near: le.Uint32(b[20:]),
		First: le.Uint32(b[24:]), Count: le.Uint32(b[28:]),
		Incarnation: le.Uint32(b[32:]), Processors: le.Uint32(b[36:]), SegmentSize: le.Uint64(b[40:]),
		Page: page != 0, Agent: page == 3, Recover: marks&1 != 0, Scattered: marks&2 != 0, Homes: marks&4 != 0, Err: tail,
	}
	if page == 5 {
		r.Err, r.NoAgent = "", tail
	}
	copy(r.Job[:], b[48:])
	return r, nil
}

func header(b []byte, tail string) []byte {
	b = binary.LittleEndian.AppendUint32(b, magic)
	b = binary.LittleEndian.AppendUint16(b, version)
	return binary.LittleEndian.AppendUint16(b, uint16(len(tail)))
}

// mark encodes a truth value.
func mark(yes bool) uint32 {
	if yes {
		return 1
	}
	return 0
}

// clip cuts a string to the room in a packet.
func clip(s string) string { return s[:min(len(s), MaxPacket-replyBytes)] }

// check checks the part that all packets have in common and returns the string at
// the end.
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
