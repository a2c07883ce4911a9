package codec

import (
	"encoding/binary"
	"fmt"
)

// HeaderSize is the length of every frame header.
const HeaderSize = 16

// Tags of frames that answer no request. A client numbers its requests from TagFirstDynamic up.
const (
	TagNotify       uint32 = 0
	TagHeartbeat    uint32 = 1
	TagIOF          uint32 = 2
	TagFirstDynamic uint32 = 101
)

// Header is the head of a frame. A reply carries the tag of its request.
type Header struct {
	Index int32 // the sender's index at the server
	Tag   uint32
	Size  uint32 // length of the body
}

// PutHeader writes h in network order to the first HeaderSize bytes of dst.
func PutHeader(dst []byte, h Header) {
	binary.BigEndian.PutUint32(dst, uint32(h.Index))
	binary.BigEndian.PutUint32(dst[4:], h.Tag)
	binary.BigEndian.PutUint32(dst[8:], h.Size)
	binary.BigEndian.PutUint32(dst[12:], 0)
}

// ParseHeader reads a header.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("pmix codec: frame header: %d bytes, want %d", len(b), HeaderSize)
	}
	return Header{
		Index: int32(binary.BigEndian.Uint32(b)),
		Tag:   binary.BigEndian.Uint32(b[4:]),
		Size:  binary.BigEndian.Uint32(b[8:]),
	}, nil
}

// AppendFrame appends a header and a body.
func AppendFrame(dst []byte, index int32, tag uint32, body []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	PutHeader(dst[start:], Header{Index: index, Tag: tag, Size: uint32(len(body))})
	return append(dst, body...)
}
