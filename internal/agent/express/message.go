package express

import (
	"encoding/binary"
	"fmt"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A request is a header and a record, a reply is a header and the data of a get. All numbers are little endian.
//
//	request  u64 number | u32 incarnation | u16 node | u16 local PE | u32 bytes of the record | u32 0 | record
//	reply    u64 number | u64 value | u32 status | u32 bytes of the data | data
//
// The record is an OpGet or an OpAtomicFetch. Its slot and the place of its data are 0.
const (
	requestHeader = 24
	ReplyHeader   = 24

	MaxData    = layout.WireRoom // bytes of a get
	MaxRequest = requestHeader + record.SizeAtomicFetch
	MaxReply   = ReplyHeader + MaxData
)

// Caller is a PE with an incarnation, as the agents of other nodes know it.
type Caller struct {
	Node        int
	Local       layout.Local
	Incarnation uint32
}

// Request is a request.
type Request struct {
	Caller
	Number uint64
	Record record.Record
}

// Error says which field of a message is bad.
type Error struct {
	Message string // "request" or "reply"
	Field   string
	Got     uint64
	Want    string
}

func (e *Error) Error() string {
	return fmt.Sprintf("express %s: %s is %d, want %s", e.Message, e.Field, e.Got, e.Want)
}

func badRequest(field string, got uint64, want string, args ...any) error {
	return &Error{Message: "request", Field: field, Got: got, Want: fmt.Sprintf(want, args...)}
}

// AppendGet appends a request for n bytes at an offset of a PE, at most MaxData.
func AppendGet(b []byte, c Caller, number uint64, pe layout.Local, off uint64, n int) []byte {
	b = appendRequest(b, c, number, record.SizeGet)
	return record.AppendGet(b, pe, off, n, 0, 0)
}

// AppendFetch appends a request for an atomic operation. record.CodeOf makes the code.
func AppendFetch(b []byte, c Caller, number uint64, pe layout.Local, off uint64, code uint8, operand, cond uint64) []byte {
	b = appendRequest(b, c, number, record.SizeAtomicFetch)
	return record.AppendAtomicFetch(b, pe, off, code, operand, cond, 0)
}

// appendRequest appends the header of a request.
func appendRequest(b []byte, c Caller, number uint64, bytes int) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, number)
	b = le.AppendUint32(b, c.Incarnation)
	b = le.AppendUint16(b, uint16(c.Node))
	b = le.AppendUint16(b, uint16(c.Local))
	return le.AppendUint64(b, uint64(bytes))
}

// Parse makes q the request that b holds. It returns false if the request is not complete yet. The record is a view of b.
// Limits.Check has to look at the record before it is executed.
func (q *Request) Parse(b []byte) (complete bool, err error) {
	if len(b) < requestHeader {
		return false, nil
	}
	le := binary.LittleEndian
	q.Number, q.Incarnation = le.Uint64(b), le.Uint32(b[8:])
	q.Node, q.Local = int(le.Uint16(b[12:])), layout.Local(le.Uint16(b[14:]))
	size := le.Uint64(b[16:])
	if q.Number == 0 {
		return false, badRequest("number", 0, "at least 1")
	}
	if size != record.SizeGet && size != record.SizeAtomicFetch {
		return false, badRequest("bytes", size, "%d or %d", record.SizeGet, record.SizeAtomicFetch)
	}
	b = b[requestHeader:]
	if uint64(len(b)) < size {
		return false, nil
	}
	rest, err := record.Parse(b, &q.Record)
	if err != nil {
		return false, fmt.Errorf("express request: %w", err)
	}
	if len(rest) > 0 || uint64(q.Record.Size()) != size {
		return false, badRequest("bytes", size, "%d, the size of its record, and none behind it", q.Record.Size())
	}
	if op := q.Record.Op; op != record.OpGet && op != record.OpAtomicFetch {
		return false, badRequest("op", uint64(op), "%d or %d", record.OpGet, record.OpAtomicFetch)
	}
	if n := q.Record.Length; q.Record.Op == record.OpGet && n > MaxData {
		return false, badRequest("length", uint64(n), "at most %d", MaxData)
	}
	return true, nil
}

// Reply is a reply without its data.
type Reply struct {
	Number uint64
	Value  uint64
	Status record.Status
	Bytes  int // of the data
}

// Append appends the reply's header.
func (r *Reply) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, r.Number)
	b = le.AppendUint64(b, r.Value)
	return le.AppendUint64(b, uint64(r.Status)|uint64(r.Bytes)<<32)
}

// Parse reads the header of the reply to a request for n bytes, or for a value if n is 0.
func (r *Reply) Parse(b []byte, number uint64, n int) error {
	bad := func(field string, got uint64, want string, args ...any) error {
		return &Error{Message: "reply", Field: field, Got: got, Want: fmt.Sprintf(want, args...)}
	}
	if len(b) < ReplyHeader {
		return bad("size", uint64(len(b)), "at least %d", ReplyHeader)
	}
	le := binary.LittleEndian
	r.Number, r.Value, r.Status, r.Bytes = le.Uint64(b), le.Uint64(b[8:]), record.Status(le.Uint32(b[16:])), int(le.Uint32(b[20:]))
	if r.Number != number {
		return bad("number", r.Number, "%d, that of the request", number)
	}
	if !r.Status.IsValid() {
		return bad("status", uint64(r.Status), "a declared one")
	}
	if r.Status != record.StatusOK {
		n = 0
	}
	if r.Bytes != n {
		return bad("bytes", uint64(r.Bytes), "%d", n)
	}
	return nil
}
