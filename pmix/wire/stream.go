package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// trustedSize is allocated on a header's word alone; beyond it memory grows with what really arrives.
const trustedSize = 64 << 10

// ReadFrame reads a frame from a stream into memory of its own.
// Errors: those of r, io.EOF only between frames; a body of more than limit bytes, of which nothing is read.
func ReadFrame(r io.Reader, limit uint32) (Header, []byte, error) {
	var b [HeaderSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Header{}, nil, err
	}
	h, err := ParseHeader(b[:])
	if err != nil {
		return Header{}, nil, err
	}
	if h.Size > limit {
		return Header{}, nil, fmt.Errorf("pmix wire: frame of %d bytes, want at most %d", h.Size, limit)
	}
	body, err := readBody(r, int(h.Size))
	return h, body, err
}

// ReadHandshake reads the first message of a connection from a stream.
func ReadHandshake(r io.Reader) (Handshake, error) {
	var b [HeaderSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Handshake{}, fmt.Errorf("pmix wire: handshake header: %w", err)
	}
	size, err := ParseHandshakeHeader(b[:])
	if err != nil {
		return Handshake{}, err
	}
	body, err := readBody(r, size)
	if err != nil {
		return Handshake{}, fmt.Errorf("pmix wire: handshake: %w", err)
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

// noEOF marks the end of a stream inside a message.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
