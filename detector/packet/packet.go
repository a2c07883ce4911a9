// Package packet has the datagrams that nodes send each other to learn of deaths: pings, answers, fences and the messages
// of detector/bmg. Each ends with a MAC, by the key of the job.
//
// A datagram in bytes, little endian:
//
//	 0  4   "GSH1"
//	 4  u8  kind
//	 5  u8  flags: 1 the daemon has ended, 2 the daemon is starved, 4 the node is fenced
//	 6  u16 0
//	 8  u32 For, 12 u32 Of, 16 i64 At, 24 u32 Inc, 28 u32 Tick, 32 u64 Job, 40 u32 From
//	44  u32 length of the body; 0 in all kinds but News
//	48      the body
//	        u64 SipHash-2-4 of all before it
//
// All kinds but News have [Size] bytes, so that a program in the kernel can check and write them. There is one way to write
// a datagram: what Parse accepts, Append writes again.
package packet

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dchest/siphash"

	"github.com/goshmem/goshmem/detector/ring"
)

// Size is the size in bytes of a datagram without a body.
const Size = headerSize + macSize

const (
	headerSize = 48
	macSize    = 8
)

const magic = "GSH1"

// FrontEnd stands for the front end, which is no member of the ring, in For and From.
const FrontEnd = ring.None

// Kind is the kind of a datagram.
type Kind uint8

// The kinds.
const (
	Ping   Kind = 1 + iota // a question to Of, by or for For
	Answer                 // the answer of Of to a ping
	Ask                    // the request of For to ping Of
	Fence                  // the order to incarnation Inc of Of to end
	Fenced                 // the answer of Of to a fence: it has ended
	News                   // Body is a message of detector/bmg

	lastKind = News
)

// The flags.
const (
	daemonDead = 1 << iota
	starved
	fenced

	allFlags = daemonDead | starved | fenced
)

// Key is the key of a job's MACs.
type Key [16]byte

// Packet is a datagram.
type Packet struct {
	Kind Kind
	For  ring.Node // the node that wants to know; FrontEnd: the front end
	Of   ring.Node // the node that it wants to know of
	From ring.Node // the node that sends the datagram
	At   int64     // when For has sent its question, by the clock of For
	Inc  uint32    // Answer, Fenced and News: the incarnation of the sender; Fence: the one that is to end
	Tick uint32    // Answer: the daemon changes it as long as it runs
	Job  uint64    // a random number

	DaemonDead bool   // Answer: the daemon has ended
	Starved    bool   // Answer: the daemon could run, and gets no processor
	Fenced     bool   // Answer and Fenced: the node's processes have been ended
	Body       []byte // News
}

// Status returns what an answer says, for package ring. A fenced node has no daemon any more, whatever its kernel knows
// of it.
func (p *Packet) Status() ring.Status {
	return ring.Status{Inc: p.Inc, Tick: p.Tick, DaemonDead: p.DaemonDead || p.Fenced, Starved: p.Starved}
}

// Append appends the datagram to b.
func (p *Packet) Append(b []byte, key *Key) []byte {
	first := len(b)
	b = append(b, magic...)
	b = append(b, byte(p.Kind), p.flags(), 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(p.For))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.Of))
	b = binary.LittleEndian.AppendUint64(b, uint64(p.At))
	b = binary.LittleEndian.AppendUint32(b, p.Inc)
	b = binary.LittleEndian.AppendUint32(b, p.Tick)
	b = binary.LittleEndian.AppendUint64(b, p.Job)
	b = binary.LittleEndian.AppendUint32(b, uint32(p.From))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Body)))
	b = append(b, p.Body...)
	return binary.LittleEndian.AppendUint64(b, key.sum(b[first:]))
}

func (p *Packet) flags() (flags byte) {
	if p.DaemonDead {
		flags |= daemonDead
	}
	if p.Starved {
		flags |= starved
	}
	if p.Fenced {
		flags |= fenced
	}
	return flags
}

// sum returns the MAC of b.
func (k *Key) sum(b []byte) uint64 {
	return siphash.Hash(binary.LittleEndian.Uint64(k[:]), binary.LittleEndian.Uint64(k[8:]), b)
}

// Reasons why bytes are no datagram of the job. They are made once, so that Parse allocates nothing whatever strangers
// send.
var (
	ErrPacket = errors.New("bytes are no datagram of this job") // all of the others wrap it
	ErrJob    = fmt.Errorf("%w: another job's number", ErrPacket)
	ErrMAC    = fmt.Errorf("%w: the MAC does not fit, want one by the job's key", ErrPacket)

	errSize  = fmt.Errorf("%w: the size does not fit, want %d bytes and the body of News", ErrPacket, Size)
	errMagic = fmt.Errorf("%w: the first bytes, want %q", ErrPacket, magic)
	errKind  = fmt.Errorf("%w: the kind, want %d to %d", ErrPacket, Ping, lastKind)
	errFlags = fmt.Errorf("%w: bits are set that must be 0", ErrPacket)
)

// Parse reads a datagram of a job. It allocates nothing: the body is a part of b.
func Parse(b []byte, job uint64, key *Key) (Packet, error) {
	if len(b) < Size {
		return Packet{}, errSize
	}
	kind, body, end := Kind(b[4]), binary.LittleEndian.Uint32(b[44:]), len(b)-macSize
	switch {
	case string(b[:4]) != magic:
		return Packet{}, errMagic
	case binary.LittleEndian.Uint64(b[32:]) != job:
		return Packet{}, ErrJob
	case kind < Ping || kind > lastKind:
		return Packet{}, errKind
	case b[5]&^allFlags != 0 || b[6] != 0 || b[7] != 0:
		return Packet{}, errFlags
	case uint64(body) != uint64(end-headerSize) || body > 0 && kind != News:
		return Packet{}, errSize
	case binary.LittleEndian.Uint64(b[end:]) != key.sum(b[:end]):
		return Packet{}, ErrMAC
	}
	p := Packet{
		Kind: kind,
		For:  ring.Node(binary.LittleEndian.Uint32(b[8:])),
		Of:   ring.Node(binary.LittleEndian.Uint32(b[12:])),
		At:   int64(binary.LittleEndian.Uint64(b[16:])),
		Inc:  binary.LittleEndian.Uint32(b[24:]),
		Tick: binary.LittleEndian.Uint32(b[28:]),
		Job:  job,
		From: ring.Node(binary.LittleEndian.Uint32(b[40:])),

		DaemonDead: b[5]&daemonDead != 0,
		Starved:    b[5]&starved != 0,
		Fenced:     b[5]&fenced != 0,
	}
	if body > 0 {
		p.Body = b[headerSize:end:end]
	}
	return p, nil
}
