package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// trustedSize bounds what is allocated because a header announces it. Beyond it, memory grows with the bytes that
// arrive.
const trustedSize = 64 << 10

// Small bodies share pieces of memory, which saves allocations.
const (
	pieceSize = 4096
	smallSize = 256
)

// FrameReader reads frames from a stream.
type FrameReader struct {
	r     io.Reader
	limit uint32 // longest body
	head  [HeaderSize]byte
	piece []byte // unused rest of the piece for small bodies
}

// NewFrameReader returns a reader of the frames of r, whose bodies may have up to limit bytes.
func NewFrameReader(r io.Reader, limit uint32) *FrameReader { return &FrameReader{r: r, limit: limit} }

// Next reads a frame. The memory of its body is never used again.
//
//   - Errors: those of the stream, io.EOF only between frames; a body of more than limit bytes, which is not read.
func (f *FrameReader) Next() (Header, []byte, error) {
	if _, err := io.ReadFull(f.r, f.head[:]); err != nil {
		return Header{}, nil, err
	}
	h, err := ParseHeader(f.head[:])
	if err != nil {
		return Header{}, nil, err
	}
	if h.Size > f.limit {
		return Header{}, nil, fmt.Errorf("pmix codec: frame of %d bytes, want at most %d", h.Size, f.limit)
	}
	if h.Size > smallSize {
		body, err := readBody(f.r, int(h.Size))
		return h, body, err
	}
	n := int(h.Size)
	if len(f.piece) < n {
		f.piece = make([]byte, pieceSize)
	}
	body := f.piece[:n:n]
	f.piece = f.piece[n:]
	_, err = io.ReadFull(f.r, body)
	return h, body, noEOF(err)
}

// ReadFrame reads one frame from a stream, as FrameReader does.
func ReadFrame(r io.Reader, limit uint32) (Header, []byte, error) {
	return NewFrameReader(r, limit).Next()
}

// ReadHandshake reads the first message of a connection from a stream.
func ReadHandshake(r io.Reader) (Handshake, error) {
	var b [HeaderSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Handshake{}, fmt.Errorf("pmix codec: handshake header: %w", err)
	}
	size, err := ParseHandshakeHeader(b[:])
	if err != nil {
		return Handshake{}, err
	}
	body, err := readBody(r, size)
	if err != nil {
		return Handshake{}, fmt.Errorf("pmix codec: handshake: %w", err)
	}
	return DecodeHandshake(body)
}

func readBody(r io.Reader, size int) ([]byte, error) {
	if size <= trustedSize {
		body := make([]byte, size)
		_, err := io.ReadFull(r, body)
		return body, noEOF(err)
	}
	var body bytes.Buffer
	_, err := io.CopyN(&body, r, int64(size))
	return body.Bytes(), noEOF(err)
}

// noEOF turns io.EOF inside a message into io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
