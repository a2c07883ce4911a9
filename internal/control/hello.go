package control

import (
	"encoding/binary"
	"fmt"

	"github.com/goshmem/goshmem/internal/wire"
)

// protocolVersion is the version of hello, welcome and what follows them.
const protocolVersion = 1

// Limits of texts. A hello has less than 1 KiB.
const (
	maxHello   = 1 << 10
	maxBuild   = 256
	maxRefusal = 512
)

// Numbers of nodes that are none.
const (
	FrontEnd = -1 // the front end
	AnyNode  = -2 // not known, or no matter
)

// Identity is what an end of a link says about its process.
type Identity struct {
	Job   [16]byte
	Build string // the build of oshrun: both ends must have the same; at most 256 bytes
	Node  int32  // the index of the node, FrontEnd or AnyNode
}

// hello is the first frame of a connection.
type hello struct {
	Identity
	To       int32  // the node that is meant, or AnyNode
	Session  uint64 // a random number that the dialing side gave the link
	Attempt  uint32 // grows with each connection of the link
	Resume   bool   // the link exists: the dialing side has had a welcome
	Received uint64 // the number of the last frame that the dialing side has taken
}

// welcome is the answer to a hello.
type welcome struct {
	Identity
	Session  uint64
	Received uint64 // the number of the last frame that the accepting side has taken
	Ended    bool   // the link has ended on the accepting side
	Refusal  string // why no link follows; empty if one does
}

func (id *Identity) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, protocolVersion)
	b = append(b, id.Job[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(id.Node))
	return appendText(b, id.Build, maxBuild)
}

func (h *hello) append(b []byte) []byte {
	b = h.Identity.append(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.To))
	b = binary.LittleEndian.AppendUint64(b, h.Session)
	b = binary.LittleEndian.AppendUint32(b, h.Attempt)
	b = appendBool(b, h.Resume)
	return binary.LittleEndian.AppendUint64(b, h.Received)
}

func (w *welcome) append(b []byte) []byte {
	b = w.Identity.append(b)
	b = binary.LittleEndian.AppendUint64(b, w.Session)
	b = binary.LittleEndian.AppendUint64(b, w.Received)
	b = appendBool(b, w.Ended)
	return appendText(b, w.Refusal, maxRefusal)
}

func (h *hello) frame() wire.Frame { return wire.Frame{Kind: wire.KindHello, Body: h.append(nil)} }

func (w *welcome) frame() wire.Frame { return wire.Frame{Kind: wire.KindWelcome, Body: w.append(nil)} }

func parseHello(b []byte) (h hello, err error) {
	d := decoder{what: "hello", b: b}
	d.identity(&h.Identity)
	h.To = int32(d.uint32())
	h.Session = d.uint64()
	h.Attempt = d.uint32()
	h.Resume = d.bool()
	h.Received = d.uint64()
	return h, d.end()
}

func parseWelcome(b []byte) (w welcome, err error) {
	d := decoder{what: "welcome", b: b}
	d.identity(&w.Identity)
	w.Session = d.uint64()
	w.Received = d.uint64()
	w.Ended = d.bool()
	w.Refusal = d.text(maxRefusal)
	return w, d.end()
}

// appendText appends the length of a text and its first most bytes.
func appendText(b []byte, s string, most int) []byte {
	s = s[:min(len(s), most)]
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// decoder takes values from the front of b until the first error. After it, values are zero.
type decoder struct {
	what string
	b    []byte
	err  error
}

// take returns the next n bytes, or n zero bytes after an error. No caller wants more than a text's limit.
func (d *decoder) take(n int) []byte {
	if d.err == nil && len(d.b) < n {
		d.err = fmt.Errorf("%s ends early: %d bytes are left, want %d", d.what, len(d.b), n)
	}
	if d.err != nil {
		return make([]byte, n)
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint16() uint16 { return binary.LittleEndian.Uint16(d.take(2)) }
func (d *decoder) uint32() uint32 { return binary.LittleEndian.Uint32(d.take(4)) }
func (d *decoder) uint64() uint64 { return binary.LittleEndian.Uint64(d.take(8)) }

func (d *decoder) bool() bool {
	v := d.take(1)[0]
	if v > 1 && d.err == nil {
		d.err = fmt.Errorf("%s has a mark that is %d, want 0 or 1", d.what, v)
	}
	return v == 1
}

func (d *decoder) text(most int) string {
	n := int(d.uint16())
	if n > most && d.err == nil {
		d.err = fmt.Errorf("%s has a text of %d bytes, want at most %d", d.what, n, most)
	}
	return string(d.take(min(n, most)))
}

func (d *decoder) identity(id *Identity) {
	if v := d.uint32(); v != protocolVersion && d.err == nil {
		d.err = fmt.Errorf("%s has protocol version %d, want %d: the processes of the job were built from different versions", d.what, v, protocolVersion)
	}
	copy(id.Job[:], d.take(len(id.Job)))
	id.Node = int32(d.uint32())
	id.Build = d.text(maxBuild)
}

func (d *decoder) end() error {
	if d.err == nil && len(d.b) != 0 {
		d.err = fmt.Errorf("%s has %d bytes too many", d.what, len(d.b))
	}
	return d.err
}
