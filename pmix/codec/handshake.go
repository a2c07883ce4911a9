package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Names and numbers that both sides of a connection must agree on.
const (
	SecurityNone      = "none"
	SecurityNative    = "native"
	BfropsV41         = "v41"
	GDSHash           = "hash"
	BufferNonDescribe = 1 // buffers without a type number before each group
	Version           = "4.2.2"
)

// Kinds of connecting processes, the values of Handshake.Flag.
const (
	ClientFlag          uint8 = 0 // started by the server
	LegacyToolFlag      uint8 = 1 // from here on, the handshake holds user and group
	LegacyLauncherFlag  uint8 = 2
	ToolNeedsIDFlag     uint8 = 3 // the tool asks the server for a name
	ToolGivenIDFlag     uint8 = 4 // the tool has a name of its own
	ToolClientFlag      uint8 = 5 // started and named by the server
	LauncherNeedsIDFlag uint8 = 6
	LauncherGivenIDFlag uint8 = 7
	LauncherClientFlag  uint8 = 8
	SingletonFlag       uint8 = 9 // a client that no server started, with a name of its own
)

// MaxHandshakeSize bounds the body of a handshake.
const MaxHandshakeSize = 16 << 10

// Handshake is the first message on a connection: who connects and how it encodes.
type Handshake struct {
	Security   string
	Credential []byte
	Flag       uint8
	UID, GID   uint32 // user and group of a tool, as it claims
	Proc       Proc   // name of the process; empty if it asks for one
	Version    string
	Bfrops     string
	BufferType uint8
	GDS        string
	Trailer    []byte // what follows: from libpmix 4.2.2 one zero byte, after the infos of a tool
}

// IsTool reports whether a tool, launcher or singleton connects. The server answers with a ToolReply.
func (h *Handshake) IsTool() bool { return hasUser(h.Flag) }

// NeedsID reports whether the connecting process asks the server for a name.
func (h *Handshake) NeedsID() bool { return h.Flag == ToolNeedsIDFlag || h.Flag == LauncherNeedsIDFlag }

// StartedHere reports whether a server started and named the connecting process.
func (h *Handshake) StartedHere() bool {
	return h.Flag == ClientFlag || h.Flag == ToolClientFlag || h.Flag == LauncherClientFlag
}

// hasUser reports whether a kind of process sends its user and group. Unknown kinds are read as clients, so that Check
// can refuse them.
func hasUser(flag uint8) bool { return flag >= LegacyToolFlag && flag <= SingletonFlag }

// hasProc reports whether a kind of process sends its name.
func hasProc(flag uint8) bool {
	return !hasUser(flag) || (flag > LegacyLauncherFlag && flag != ToolNeedsIDFlag && flag != LauncherNeedsIDFlag)
}

// NewHandshake returns the handshake of a client process.
func NewHandshake(p Proc, security string, credential []byte) Handshake {
	return Handshake{
		Security: security, Credential: credential, Flag: ClientFlag, Proc: p, Version: Version,
		Bfrops: BfropsV41, BufferType: BufferNonDescribe, GDS: GDSHash, Trailer: []byte{0},
	}
}

// Check returns nil, or an error that says why a server of this package's format cannot serve the connecting process.
func (h *Handshake) Check() error {
	switch {
	case h.Flag == LegacyToolFlag || h.Flag == LegacyLauncherFlag || h.Flag > SingletonFlag:
		return fmt.Errorf("handshake: kind %d, want %d (client) or %d to %d (tools)",
			h.Flag, ClientFlag, ToolNeedsIDFlag, SingletonFlag)
	case h.Bfrops != BfropsV41:
		return fmt.Errorf("handshake: bfrops module %q, want %q", clip([]byte(h.Bfrops)), BfropsV41)
	case h.BufferType != BufferNonDescribe:
		return fmt.Errorf("handshake: buffer type %d, want %d (non-described)", h.BufferType, BufferNonDescribe)
	case h.GDS != GDSHash:
		return fmt.Errorf("handshake: gds module %q, want %q", clip([]byte(h.GDS)), GDSHash)
	case h.Security != SecurityNone && h.Security != SecurityNative:
		return fmt.Errorf("handshake: security %q, want %q or %q", clip([]byte(h.Security)), SecurityNone, SecurityNative)
	default:
		return nil
	}
}

// AppendHandshake appends the header and body of a handshake.
func AppendHandshake(dst []byte, h Handshake) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	dst = appendCString(dst, h.Security)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(h.Credential)))
	dst = append(dst, h.Credential...)
	dst = append(dst, h.Flag)
	if hasUser(h.Flag) {
		dst = binary.BigEndian.AppendUint32(dst, h.UID)
		dst = binary.BigEndian.AppendUint32(dst, h.GID)
	}
	if hasProc(h.Flag) {
		dst = appendCString(dst, h.Proc.Nspace)
		dst = binary.BigEndian.AppendUint32(dst, uint32(h.Proc.Rank))
	}
	dst = appendCString(dst, h.Version)
	dst = appendCString(dst, h.Bfrops)
	dst = append(dst, h.BufferType)
	dst = appendCString(dst, h.GDS)
	dst = append(dst, h.Trailer...)
	putHandshakeHeader(dst[start:], len(dst)-start-HeaderSize)
	return dst
}

func appendCString(dst []byte, s string) []byte { return append(append(dst, s...), 0) }

// putHandshakeHeader writes the header of a handshake. It is in host order, because neither side knows the other yet.
func putHandshakeHeader(dst []byte, size int) {
	binary.NativeEndian.PutUint32(dst, 0xffffffff)
	binary.NativeEndian.PutUint32(dst[4:], 0xffffffff)
	binary.NativeEndian.PutUint32(dst[8:], uint32(size))
}

// ParseHandshakeHeader returns the length of the handshake's body.
func ParseHandshakeHeader(b []byte) (size int, err error) {
	if len(b) < HeaderSize {
		return 0, fmt.Errorf("pmix codec: handshake header: %d bytes, want %d", len(b), HeaderSize)
	}
	peer, tag := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint32(b[4:])
	n := binary.NativeEndian.Uint32(b[8:])
	if peer != 0xffffffff || tag != 0xffffffff {
		return 0, fmt.Errorf("pmix codec: handshake header: % x, want ff in the first 8 bytes", b[:8])
	}
	if n == 0 || n > MaxHandshakeSize {
		return 0, fmt.Errorf("pmix codec: handshake header: size %d, want 1 to %d", n, MaxHandshakeSize)
	}
	return int(n), nil
}

// DecodeHandshake reads the body of a handshake. The result aliases b.
func DecodeHandshake(b []byte) (Handshake, error) {
	r := rawReader{buf: b}
	h := Handshake{
		Security: r.cstring("security"), Credential: r.bytes(r.uint32("credential length"), "credential"),
		Flag: r.byte("kind"),
	}
	if hasUser(h.Flag) {
		h.UID, h.GID = r.uint32("user"), r.uint32("group")
	}
	if hasProc(h.Flag) {
		h.Proc = Proc{Nspace: r.cstring("nspace"), Rank: Rank(r.uint32("rank"))}
	}
	h.Version, h.Bfrops, h.BufferType = r.cstring("version"), r.cstring("bfrops module"), r.byte("buffer type")
	h.GDS = r.cstring("gds module")
	if r.err == nil && hasProc(h.Flag) && (h.Proc.Nspace == "" || len(h.Proc.Nspace) > MaxNspaceLen) {
		r.err = fmt.Errorf("pmix codec: handshake: nspace of %d bytes, want 1 to %d", len(h.Proc.Nspace), MaxNspaceLen)
	}
	if r.err != nil {
		return Handshake{}, r.err
	}
	h.Trailer = r.buf
	return h, nil
}

// rawReader reads the fixed fields of a handshake, which is not a bfrops buffer.
type rawReader struct {
	buf []byte
	err error
}

func (r *rawReader) bytes(n uint32, what string) []byte {
	if r.err == nil && uint64(n) > uint64(len(r.buf)) {
		r.err = fmt.Errorf("pmix codec: handshake: %s: %d bytes, want at most the %d that follow", what, n, len(r.buf))
	}
	if r.err != nil {
		return nil
	}
	v := r.buf[:n:n]
	r.buf = r.buf[n:]
	return v
}

func (r *rawReader) cstring(what string) string {
	i := bytes.IndexByte(r.buf, 0)
	if r.err == nil && i < 0 {
		r.err = fmt.Errorf("pmix codec: handshake: %s: no closing NUL in the %d bytes that follow", what, len(r.buf))
	}
	if r.err != nil {
		return ""
	}
	s := string(r.buf[:i])
	r.buf = r.buf[i+1:]
	return s
}

func (r *rawReader) uint32(what string) uint32 {
	v := r.bytes(4, what)
	if r.err != nil {
		return 0
	}
	return binary.BigEndian.Uint32(v)
}

func (r *rawReader) byte(what string) byte {
	v := r.bytes(1, what)
	if r.err != nil {
		return 0
	}
	return v[0]
}

// HandshakeReplySize is the length of the server's answer to a handshake.
const HandshakeReplySize = 8

// AppendHandshakeReply appends the server's answer: a status and the client's index at the server.
func AppendHandshakeReply(dst []byte, status Status, index uint32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(status))
	return binary.BigEndian.AppendUint32(dst, index)
}

// DecodeHandshakeReply reads the server's answer.
func DecodeHandshakeReply(b []byte) (status Status, index uint32, err error) {
	if len(b) != HandshakeReplySize {
		return 0, 0, fmt.Errorf("pmix codec: handshake reply: %d bytes, want %d", len(b), HandshakeReplySize)
	}
	return Status(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[4:]), nil
}
