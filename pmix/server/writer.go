package server

import (
	"net"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Bounds on a writer's memory.
const (
	maxSpareFrames = 256      // frames for which it keeps memory
	maxSpareBytes  = 16 << 10 // bytes of text that it keeps
	maxCopied      = 256      // bytes of a body that is copied, so that it goes out together with its header
)

// writer sends frames. It reuses its memory.
type writer struct {
	frames  []outFrame
	text    []byte // headers and small bodies
	pieces  net.Buffers
	pending net.Buffers
}

// flush sends the frames, with one system call if the other side reads them.
func (w *writer) flush(nc net.Conn) error {
	size := 0
	for i := range w.frames {
		size += codec.HeaderSize + w.frames[i].copied()
	}
	w.text = slices.Grow(w.text[:0], size) // large enough, so that pieces of it do not move
	w.pieces = w.pieces[:0]
	begin := 0
	for i := range w.frames {
		f := &w.frames[i]
		if f.raw == nil {
			w.text = append(w.text, make([]byte, codec.HeaderSize)...)
			codec.PutHeader(w.text[len(w.text)-codec.HeaderSize:], codec.Header{Tag: f.tag, Size: uint32(f.size())})
		}
		for _, b := range [...][]byte{f.raw, f.body, f.more} {
			if len(b) <= maxCopied {
				w.text = append(w.text, b...)
				continue
			}
			w.piece(begin, b)
			begin = len(w.text)
		}
	}
	w.piece(begin, nil)
	defer w.releaseSent()
	if len(w.pieces) == 1 {
		_, err := nc.Write(w.pieces[0])
		return err
	}
	w.pending = w.pieces
	_, err := w.pending.WriteTo(nc)
	return err
}

// piece ends a run of small texts, after which comes b.
func (w *writer) piece(begin int, b []byte) {
	if begin < len(w.text) {
		w.pieces = append(w.pieces, w.text[begin:])
	}
	if b != nil {
		w.pieces = append(w.pieces, b)
	}
}

// releaseSent drops the references to the frames sent, and memory beyond the bounds.
func (w *writer) releaseSent() {
	clear(w.frames)
	clear(w.pieces)
	w.pending = nil
	if cap(w.frames) > maxSpareFrames {
		w.frames, w.pieces = nil, nil
	}
	if cap(w.text) > maxSpareBytes {
		w.text = nil
	}
}

// copied returns how many bytes of a frame are copied.
func (f *outFrame) copied() int {
	n := 0
	for _, b := range [...][]byte{f.raw, f.body, f.more} {
		if len(b) <= maxCopied {
			n += len(b)
		}
	}
	return n
}
