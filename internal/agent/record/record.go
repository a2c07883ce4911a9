package record

import (
	"encoding/binary"
	"fmt"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Op is what a record asks for.
type Op uint8

// The operations.
const (
	OpPut         Op = 1 + iota // copies the data to offset
	OpPutStrided                // copies the data to n blocks
	OpGet                       // answers with length bytes from offset
	OpGetStrided                // answers with n blocks, packed
	OpAtomic                    // changes a word; no answer
	OpAtomicFetch               // changes or reads a word; the answer is its old value
	OpSignal                    // after all earlier records of the stream: sets the word or adds to it, and rings
	OpFetchOnce                 // OpAtomicFetch, unless the target's agent has executed this number of the PE by an express socket
	OpPutFrom                   // a put whose data is in the source's heap; its agent makes it an OpPut when it sends it
	OpTeam                      // a message of an agent to another one, about a team whose PEs are on several nodes
	OpMessage                   // a message for the inbox of a PE, or its first part
	OpMessagePart               // the next part of the message before, of the same source
	opEnd
)

var opNames = [...]string{
	OpPut: "put", OpPutStrided: "strided put", OpGet: "get", OpGetStrided: "strided get",
	OpAtomic: "atomic", OpAtomicFetch: "fetch", OpSignal: "signal", OpFetchOnce: "repeated fetch",
	OpPutFrom: "put from the heap", OpTeam: "team message",
	OpMessage: "message", OpMessagePart: "part of a message",
}

// String returns the operation's name.
func (op Op) String() string {
	if op >= OpPut && op < opEnd {
		return opNames[op]
	}
	return fmt.Sprintf("operation %d", uint8(op))
}

// Answers reports whether the target's agent answers the operation.
func (op Op) Answers() bool { return op == OpGet || op == OpGetStrided || op.Fetches() }

// Fetches reports whether the answer is a word's old value.
func (op Op) Fetches() bool { return op == OpAtomicFetch || op == OpFetchOnce }

// AtomicCode is what an atomic record does to a word. Width32 in the same byte says that the word has 4
// bytes; otherwise it has 8.
type AtomicCode uint8

// The atomic codes. "old" is what the word held before, which OpAtomicFetch answers.
const (
	AtomicLoad        AtomicCode = iota // returns the word; OpAtomicFetch only
	AtomicSet                           // stores operand
	AtomicSwap                          // stores operand, returns old
	AtomicCompareSwap                   // stores operand if old is cond, returns old
	AtomicAdd                           // adds operand, returns old
	AtomicAnd                           // bitwise AND with operand, returns old
	AtomicOr                            // bitwise OR with operand, returns old
	AtomicXor                           // bitwise XOR with operand, returns old
	atomicEnd
)

// Width32 marks in the code of an atomic record that the word has 4 bytes.
const Width32 = 0x80

// CodeOf returns the code byte of an atomic record on a word of width bytes, 4 or 8.
func CodeOf(code AtomicCode, width int) uint8 {
	if width == 4 {
		return uint8(code) | Width32
	}
	return uint8(code)
}

// Codes of OpSignal.
const (
	SignalSet uint8 = iota // stores the value
	SignalAdd              // adds the value
)

// Codes of OpTeam: when the agent that has sent the message needs to know that it has come.
const (
	TeamSoon  uint8 = iota // as soon as it has
	TeamLater              // with what is said to it later
)

// Codes of OpMessage and OpMessagePart. The lowest bits of that of OpMessage are the kind of cell (internal/lane).
const (
	MessageKind uint8 = 1<<5 - 1 // the bits of the kind
	MessageBody uint8 = 1 << 6   // OpMessage: there is a body of the cell, of layout.CellBody bytes, besides the data
	MessageCut  uint8 = 1 << 7   // an OpMessagePart follows
)

// MayWait reports whether the word that r is executed may wait: its sender says that others follow, or that it needs it later only.
func (r *Record) MayWait() bool { return r.Op == OpTeam && r.Code == TeamLater }

// Status is how a request has ended, as the answer and Slot.Status say.
type Status uint32

// The values of Status.
const (
	StatusOK   Status = iota
	StatusDead        // the target PE is dead
	StatusBad         // the record did not pass Limits.Check
	statusEnd
)

// IsValid reports whether s is one of the declared values.
func (s Status) IsValid() bool { return s < statusEnd }

// String returns the status in words.
func (s Status) String() string {
	switch s {
	case StatusOK:
		return "ok"
	case StatusDead:
		return "target dead"
	case StatusBad:
		return "bad request"
	default:
		return fmt.Sprintf("status %d", uint32(s))
	}
}

// Sizes in bytes.
const (
	header = 16

	MaxRecord     = layout.WireBody                // a record
	MaxPut        = MaxRecord - header             // the data of a put
	MaxPutStrided = MaxRecord - header - shapeSize // the data of a strided put
	MaxGet        = 1 << 20                        // the data of a get, so that one answer does not hold up others for long
	MaxGetStrided = layout.WirePiece               // the data of a strided get, which the target's agent packs

	shapeSize  = 24 // step, block, n
	answerSize = 16 // to, slot

	MaxMessage     = 16 << 10               // the data of a message, in all its records
	MaxMessageData = MaxRecord - header - 8 // the data of an OpMessage without a body
	MaxMessagePart = MaxRecord - header     // the data of an OpMessagePart

	SizePutWord     = header + 8
	SizeGet         = header + answerSize
	SizeGetStrided  = header + shapeSize + answerSize
	SizeAtomic      = header + 16
	SizeAtomicFetch = header + 24
	SizeFetchOnce   = header + 32
	SizeSignal      = header + 8
	SizePutFrom     = header + 8
	SizePutHead     = header // what AppendPutHead appends
)

// putWord is the first word of a put of 8 bytes to local PE 0. putWordMask leaves out the local PE.
const (
	putWord     = uint64(OpPut) | 8<<32
	putWordMask = ^uint64(0xffff << 16)
)

// SizePut returns the size of a put record with n bytes of data.
func SizePut(n int) int { return header + pad(n) }

// SizePutStrided returns the size of a strided put record with n bytes of data.
func SizePutStrided(n int) int { return header + shapeSize + pad(n) }

// SizeMessage returns the size of an OpMessage with n bytes of data.
func SizeMessage(code uint8, n int) int { return header + messageHead(code) + pad(n) }

// messageHead returns the bytes of an OpMessage before its data.
func messageHead(code uint8) int {
	if code&MessageBody != 0 {
		return 8 + layout.CellBody
	}
	return 8
}

// SizeMessagePart returns the size of an OpMessagePart with n bytes of data.
func SizeMessagePart(n int) int { return header + pad(n) }

// pad rounds n up to a multiple of 8.
func pad(n int) int { return (n + 7) &^ 7 }

// Shape says where the blocks of a strided record lie at the target.
type Shape struct {
	Step  uint64 // bytes from the start of a block to the start of the next one
	Block uint64 // bytes of a block
	N     uint64 // number of blocks
}

// Record is a view of one record. The methods below are for the operations that their comments name.
type Record struct {
	Op      Op
	Code    uint8
	Local   uint16 // the PE at the target
	Length  uint32 // bytes of data; 0 for operations without data
	Offset  uint64 // in the segment of that PE
	payload []byte // the padding included
}

// Size returns the record's size in bytes.
func (r *Record) Size() int { return header + len(r.payload) }

// Data returns the data of puts and messages. It is part of the bytes that Parse was given.
func (r *Record) Data() []byte {
	switch r.Op {
	case OpPut, OpTeam, OpMessagePart:
		return r.payload[:r.Length]
	case OpMessage:
		return r.payload[messageHead(r.Code):][:r.Length]
	case OpPutStrided:
		return r.payload[shapeSize:][:r.Length]
	default:
		return nil
	}
}

// Shape returns the shape of strided operations.
func (r *Record) Shape() Shape {
	if r.Op != OpPutStrided && r.Op != OpGetStrided {
		return Shape{}
	}
	return Shape{Step: r.word(0), Block: r.word(1), N: r.word(2)}
}

// To returns where the data of a get goes in the segment of the PE that asks.
func (r *Record) To() uint64 {
	switch r.Op {
	case OpGet:
		return r.word(0)
	case OpGetStrided:
		return r.word(3)
	default:
		return 0
	}
}

// From returns where the data of an OpPutFrom lies in the segment of its source.
func (r *Record) From() uint64 {
	if r.Op != OpPutFrom {
		return 0
	}
	return r.word(0)
}

// Slot returns the slot for the answer, of operations that have one.
func (r *Record) Slot() uint64 {
	switch r.Op {
	case OpGet:
		return r.word(1)
	case OpGetStrided:
		return r.word(4)
	case OpAtomicFetch:
		return r.word(2)
	case OpFetchOnce:
		return r.word(3)
	default:
		return 0
	}
}

// Operand returns the operand of atomic operations and the value of signals.
func (r *Record) Operand() uint64 {
	if r.Op < OpAtomic || r.Op >= OpPutFrom {
		return 0
	}
	return r.word(0)
}

// Cond returns the value that AtomicCompareSwap compares with.
func (r *Record) Cond() uint64 {
	if r.Op != OpAtomic && !r.Op.Fetches() {
		return 0
	}
	return r.word(1)
}

// Number returns the express number of OpFetchOnce (internal/agent/express).
func (r *Record) Number() uint64 {
	if r.Op != OpFetchOnce {
		return 0
	}
	return r.word(2)
}

// MessageSize returns the word Size of the cell of an OpMessage.
func (r *Record) MessageSize() uint64 {
	if r.Op != OpMessage {
		return 0
	}
	return r.word(0)
}

// MessageBody returns the body of the cell of an OpMessage; nil: it has none besides its data.
func (r *Record) MessageBody() []byte {
	if r.Op != OpMessage || r.Code&MessageBody == 0 {
		return nil
	}
	return r.payload[8:][:layout.CellBody]
}

// Atomic returns the code of atomic operations and the bytes of the word.
func (r *Record) Atomic() (code AtomicCode, width int) {
	if r.Code&Width32 != 0 {
		return AtomicCode(r.Code &^ Width32), 4
	}
	return AtomicCode(r.Code), 8
}

// word returns word i of the payload.
func (r *Record) word(i int) uint64 { return binary.LittleEndian.Uint64(r.payload[8*i:]) }
