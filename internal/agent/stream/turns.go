package stream

import "github.com/goshmem/goshmem/internal/agent/record"

// turns is a queue of numbers, each in it once at most.
type turns struct {
	next       []int32 // by number: 0 if it is not in the queue, -1 if it is the last one, else 1 + the number behind it
	head, tail int32   // 1 + the number; 0: none
}

// grow makes room for the numbers below n.
func (t *turns) grow(n int) {
	if n > len(t.next) {
		t.next = append(t.next, make([]int32, n-len(t.next))...)
	}
}

// add appends a number that is not in the queue.
func (t *turns) add(i int) {
	if t.next[i] != 0 {
		return
	}
	t.next[i] = -1
	if t.head == 0 {
		t.head = int32(i) + 1
	} else {
		t.next[t.tail-1] = int32(i) + 1
	}
	t.tail = int32(i) + 1
}

// pop removes the first number.
func (t *turns) pop() (i int, ok bool) {
	if t.head == 0 {
		return 0, false
	}
	i = int(t.head) - 1
	t.head = max(t.next[i], 0)
	t.next[i] = 0
	return i, true
}

// clear removes all numbers.
func (t *turns) clear() {
	clear(t.next)
	t.head, t.tail = 0, 0
}

// isEmpty reports whether there is no number.
func (t *turns) isEmpty() bool { return t.head == 0 }

// Window is how much of one connection may be posted and not yet sent. One frame may go beyond Bytes.
type Window struct{ Frames, Bytes int }

// DefaultWindow keeps a fast connection busy, and lets what is queued behind a slow one stay small.
var DefaultWindow = Window{Frames: 256, Bytes: 256 << 10}

// flight is what is posted and not yet sent.
type flight struct{ frames, bytes int }

// isFull reports whether nothing may be posted.
func (f *flight) isFull(w Window) bool { return f.frames >= w.Frames || f.bytes >= w.Bytes }

// post adds a frame.
func (f *flight) post(h *Header) {
	f.frames++
	f.bytes += HeaderSize + int(h.Bytes)
}

// sent subtracts frames that are the kernel's.
func (f *flight) sent(frames, bytes int) {
	f.frames = max(f.frames-frames, 0)
	f.bytes = max(f.bytes-bytes, 0)
}

// Frame is what Next returns: a header, and a body or the place of the data of an answer.
type Frame struct {
	Header
	Body []byte // records: part of the PE's block. It stays as it is until the records are done.
	Read Read   // data: what the driver reads when it posts, or what it lets the transport read until the frame is sent
	// Records with a Read have no Body: they are one put of what is read, behind Lead.
	Lead [record.SizePutHead]byte
}

// Size returns the bytes of the frame.
func (f *Frame) Size() int { return HeaderSize + int(f.Bytes) }
