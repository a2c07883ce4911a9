package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// nspaceField is the length of the namespace field in the answer to a tool. It is padded with zeros.
const nspaceField = MaxNspaceLen + 1

// NewToolHandshake returns the handshake of a tool that asks the server for a name.
func NewToolHandshake(uid, gid uint32, security string, credential []byte) Handshake {
	h := NewHandshake(Proc{}, security, credential)
	h.Flag, h.UID, h.GID = ToolNeedsIDFlag, uid, gid
	return h
}

// ToolReply answers the handshake of a tool.
type ToolReply struct {
	Status Status // without success, nothing else is sent
	Given  *Proc  // the name for a tool that asked for one
	Server Proc   // the server's name
}

// AppendToolReply appends the server's answer to a tool.
func AppendToolReply(dst []byte, r ToolReply) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Status))
	if r.Status != StatusSuccess {
		return dst
	}
	if r.Given != nil {
		dst = appendPadded(dst, *r.Given)
	}
	dst = appendPadded(dst, r.Server)
	return binary.BigEndian.AppendUint32(dst, uint32(StatusSuccess)) // result of the credential check
}

func appendPadded(dst []byte, p Proc) []byte {
	var name [nspaceField]byte
	copy(name[:MaxNspaceLen], p.Nspace)
	return binary.BigEndian.AppendUint32(append(dst, name[:]...), uint32(p.Rank))
}

// ReadToolReply reads the server's answer to a tool; needsID says that the tool asked for a name.
func ReadToolReply(r io.Reader, needsID bool) (ToolReply, error) {
	var reply ToolReply
	var err error
	if reply.Status, err = readStatus(r); err != nil || reply.Status != StatusSuccess {
		return reply, err
	}
	if needsID {
		given, err := readPadded(r)
		if err != nil {
			return ToolReply{}, err
		}
		reply.Given = &given
	}
	if reply.Server, err = readPadded(r); err != nil {
		return ToolReply{}, err
	}
	if reply.Status, err = readStatus(r); err != nil {
		return ToolReply{}, err
	}
	return reply, nil
}

func readStatus(r io.Reader) (Status, error) {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, fmt.Errorf("pmix codec: answer to a tool: status: %w", err)
	}
	return Status(binary.BigEndian.Uint32(b[:])), nil
}

func readPadded(r io.Reader) (Proc, error) {
	var b [nspaceField + 4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Proc{}, fmt.Errorf("pmix codec: answer to a tool: name: %w", err)
	}
	n := bytes.IndexByte(b[:nspaceField], 0)
	if n < 1 {
		return Proc{}, errors.New("pmix codec: answer to a tool: nspace is empty or too long, want 1 to 255 bytes and a NUL")
	}
	return Proc{Nspace: string(b[:n]), Rank: Rank(binary.BigEndian.Uint32(b[nspaceField:]))}, nil
}
