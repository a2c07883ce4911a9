package agent

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
)

const (
	ringBytes  = 128 << 10 // of an outbox; more than the frames of a window need as a rule
	smallBytes = 512       // a body up to this size is copied behind its header: one more part costs more
	mostParts  = 256       // of a post
)

// outbox is what is posted on a lane and not yet sent. It holds the headers of frames, and small bodies, until the kernel has
// them. Larger bodies are sent from where they are, as is the data of answers and of puts from the heap.
type outbox struct {
	ring  ring
	posts []posted // those before first are sent
	first int
	begun uint64 // posts so far
	ended uint64 // those of them that are sent, or whose connection has ended
}

// posted is a post under way.
type posted struct {
	frames, bytes int // what the stream's side has given
	ring          int // bytes of the ring
}

// framer is a side of the streams: a Sender or a Receiver.
type framer interface {
	Next(node int, f *stream.Frame) bool
}

// pump posts what a side has to send on a lane. Some says that there was something.
func (a *Agent) pump(node int, lane transport.Lane, from framer) (some bool, err error) {
	box := a.box(node, lane)
	for more := true; more; {
		var p posted
		p, more = a.gather(box, node, from)
		if p.frames == 0 {
			return some, nil
		}
		err := a.cfg.Transport.Post(node, lane, 0, a.parts...)
		clear(a.parts)
		if err != nil {
			box.ring.unalloc(p.ring)
			return some, a.postFailed(node, err)
		}
		box.push(p)
		a.cfg.Page.Carried.Batches++
		a.cfg.Page.Carried.Sent += uint64(p.bytes)
		some = true
	}
	return some, nil
}

// postFailed handles an error of a post. It returns one that ends the agent.
func (a *Agent) postFailed(node int, err error) error {
	if errors.Is(err, transport.ErrNotOpen) { // its Broken follows, and the other node asks again
		return nil
	}
	return fmt.Errorf("agent of node %d: %w", node, err) // PEs would wait for ever
}

// gather makes the parts of the next post. More says that there may be another one.
func (a *Agent) gather(box *outbox, node int, from framer) (p posted, more bool) {
	a.parts = a.parts[:0]
	before := box.ring.used
	f := &a.frame
	for len(a.parts) < mostParts && from.Next(node, f) {
		body := f.Body
		lead, copied := 0, len(body) // bytes behind the header
		reads := f.Read.Length > 0
		if reads {
			copied = int(f.Read.Length)
			if copied > smallBytes && !f.Read.Strided {
				body = a.memory.bytes(f.Read.Local, f.Read.Offset, copied)
			}
			if f.Kind == stream.KindRecords {
				lead = len(f.Lead)
			}
		}
		if len(body) > smallBytes {
			copied = 0
		}
		room := box.ring.alloc(stream.HeaderSize + lead + copied)
		f.Append(room[:0])
		copy(room[stream.HeaderSize:], f.Lead[:lead])
		switch rest := room[stream.HeaderSize+lead:]; {
		case copied == 0:
		case !reads:
			copy(rest, body)
		case f.Read.Strided:
			a.memory.gather(rest, &f.Read)
		default:
			a.memory.fetch(rest, &f.Read)
		}
		a.addPart(room)
		if len(body) > smallBytes {
			a.parts = append(a.parts, body)
		}
		p.frames++
		p.bytes += f.Size()
		if f.Kind == stream.KindRecords && layout.Local(f.Local) != a.own.local {
			t := &a.cfg.Page.Traffic[f.Local]
			t.Batches++
			t.Sent += uint64(f.Size())
		}
	}
	p.ring = box.ring.used - before
	return p, len(a.parts) >= mostParts
}

// addPart appends a part, to the last one if it lies behind that.
func (a *Agent) addPart(part []byte) {
	if n := len(a.parts); n > 0 {
		last := a.parts[n-1]
		if end := len(last) + len(part); cap(last) >= end && &last[:end][len(last)] == &part[0] {
			a.parts[n-1] = last[:end]
			return
		}
	}
	a.parts = append(a.parts, part)
}

// push notes a post.
func (o *outbox) push(p posted) {
	if o.first == len(o.posts) {
		o.posts, o.first = o.posts[:0], 0
	} else if len(o.posts) == cap(o.posts) && o.first > len(o.posts)/2 {
		o.posts = o.posts[:copy(o.posts, o.posts[o.first:])]
		o.first = 0
	}
	o.posts = append(o.posts, p)
	o.begun++
}

// pop takes the oldest post, which is sent.
func (o *outbox) pop() (p posted, ok bool) {
	if o.first == len(o.posts) {
		return p, false
	}
	p = o.posts[o.first]
	o.first++
	o.ended++
	o.ring.free(p.ring)
	return p, true
}

// clear forgets all posts: the connection is no more.
func (o *outbox) clear() {
	o.posts, o.first, o.ended = o.posts[:0], 0, o.begun
	o.ring.free(o.ring.used)
}

// ring gives room that is given back in the same order.
type ring struct {
	buf        []byte
	head, used int // the oldest byte that is in use, and how many are
}

// alloc returns n bytes in one piece. If the ring is full, they are memory of their own.
func (r *ring) alloc(n int) []byte {
	if r.buf == nil {
		r.buf = make([]byte, ringBytes)
	}
	if r.used == 0 {
		r.head = 0
	}
	size := len(r.buf)
	at := r.head + r.used
	switch {
	case at < size && at+n > size && n <= r.head: // the rest of the buffer is too small: it is left out
		r.used += size - at
		at = size
	case at < size && at+n > size, r.used+n > size:
		return make([]byte, n)
	}
	at %= size
	r.used += n
	return r.buf[at : at+n : size]
}

// free gives back the oldest n bytes that are in use.
func (r *ring) free(n int) {
	r.head = (r.head + n) % ringBytes
	r.used -= n
}

// unalloc gives back the newest n bytes that are in use.
func (r *ring) unalloc(n int) { r.used -= n }
