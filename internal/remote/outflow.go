package remote

import (
	"bytes"
	"context"
	"sync"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

// outflow sends the output of a node, as the credit of the front end allows.
type outflow struct {
	sender *sender
	life   context.Context // at its end, nobody takes output any more
	raw    bool            // texts are no lines
	long   chan *outStream // has an element while a stream may send long texts: that stream

	mu      sync.Mutex
	streams map[source]*outStream
	numbers []*outStream // by number - 1
	used    int          // bytes of the credit
	waits   []*outWait   // first come first
}

// outStream is an output of a PE. One goroutine at a time sends it.
type outStream struct {
	number uint32
	used   int           // bytes of the credit
	owed   int           // bytes of long texts that the front end has not taken
	free   chan struct{} // gets an element when owed gets 0
	long   bool          // the stream may send long texts: it has the element of outflow.long
	leaves bool          // the element is given back when owed gets 0: the output has ended
}

// outWait is a stream that waits for credit.
type outWait struct {
	stream *outStream
	bytes  int
	ready  chan struct{} // closed when the stream has the credit
}

func newOutflow(s *sender, life context.Context) *outflow { //nolint:revive // the context is the server's, not that of a call
	return &outflow{sender: s, life: life, long: make(chan *outStream, 1), streams: map[source]*outStream{}}
}

// of returns the stream of an output, which begins with the first call.
func (o *outflow) of(from source) *outStream {
	o.mu.Lock()
	defer o.mu.Unlock()
	if st := o.streams[from]; st != nil {
		return st
	}
	st := &outStream{number: uint32(len(o.numbers) + 1), free: make(chan struct{}, 1)}
	o.streams[from], o.numbers = st, append(o.numbers, st)
	o.sender.send(wire.KindOutputBegin, st.number, encode(codeSource, from))
	return st
}

// send sends text of a PE, and returns when all of it is on the way, or nobody takes it any more. It
// is daemon.Hooks.Output.
func (o *outflow) send(id daemon.ID, s daemon.Stream, data []byte) {
	st := o.of(source{id, s})
	for _, part := range o.split(data) {
		if !o.acquire(st, part) {
			return
		}
		o.sendText(st, part)
	}
	if st.long && (len(data) < daemon.LongLine || data[len(data)-1] == '\n') && o.awaitTaken(st) {
		st.long = false // the line has ended
		<-o.long
	}
}

// split splits text at ends of lines into parts of at most streamShare. A longer line stays whole, and raw text has no
// lines.
func (o *outflow) split(data []byte) (parts [][]byte) {
	for len(data) > streamShare {
		n := streamShare
		if !o.raw {
			if n = bytes.LastIndexByte(data[:streamShare], '\n') + 1; n == 0 {
				n = bytes.IndexByte(data, '\n') + 1
			}
			if n == 0 {
				break
			}
		}
		parts, data = append(parts, data[:n]), data[n:]
	}
	if len(data) > 0 || len(parts) == 0 {
		parts = append(parts, data)
	}
	return parts
}

// acquire waits until a text may be sent. It returns false if nobody takes it any more.
func (o *outflow) acquire(st *outStream, part []byte) bool {
	if st.long || len(part) > streamShare {
		return o.acquireLong(st, len(part))
	}
	o.mu.Lock()
	w := &outWait{st, len(part), make(chan struct{})}
	o.waits = append(o.waits, w)
	o.grant()
	o.mu.Unlock()
	select {
	case <-w.ready:
		return o.life.Err() == nil
	case <-o.life.Done():
		return false
	}
}

// acquireLong waits until the stream may send long texts, and has sent none that is not taken.
func (o *outflow) acquireLong(st *outStream, n int) bool {
	if !st.long {
		select {
		case o.long <- st:
			st.long = true
		case <-o.life.Done():
			return false
		}
	}
	if !o.awaitTaken(st) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	st.owed = n
	return true
}

// awaitTaken waits until the front end has taken the long text of a stream. It returns false if it never will.
func (o *outflow) awaitTaken(st *outStream) bool {
	for {
		o.mu.Lock()
		owed := st.owed
		o.mu.Unlock()
		if owed == 0 {
			return o.life.Err() == nil
		}
		select {
		case <-st.free:
		case <-o.life.Done():
			return false
		}
	}
}

// grant gives credit to those who wait, first come first. A stream that has all of its share does not hold up the
// others. The caller holds the lock.
func (o *outflow) grant() {
	left := o.waits[:0]
	full := false
	for _, w := range o.waits {
		st := w.stream
		full = full || o.used+w.bytes > outputWindow
		if full || st.used > 0 && st.used+w.bytes > streamShare {
			left = append(left, w)
			continue
		}
		o.used += w.bytes
		st.used += w.bytes
		close(w.ready)
	}
	clear(o.waits[len(left):])
	o.waits = left
}

// taken notes that the front end has taken bytes of a stream. It returns false if that cannot be.
func (o *outflow) taken(number uint32, n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if number == 0 || uint64(number) > uint64(len(o.numbers)) || n < 0 {
		return false
	}
	// Texts are taken in the order in which they were sent, and a long one comes after those before it.
	switch st := o.numbers[number-1]; {
	case n <= st.used:
		st.used -= n
		o.used -= n
		o.grant()
	case st.used == 0 && n <= st.owed:
		if st.owed -= n; st.owed == 0 {
			o.leave(st)
			select {
			case st.free <- struct{}{}:
			default:
			}
		}
	default:
		return false
	}
	return true
}

// sendText sends a text in frames. It is copied: the caller may use the memory again.
func (o *outflow) sendText(st *outStream, data []byte) {
	for {
		n := min(len(data), streamShare)
		o.sender.send(wire.KindOutput, st.number, encode(codeText, text{Goes: n < len(data), Text: data[:n]}))
		if data = data[n:]; len(data) == 0 {
			return
		}
	}
}

// end sends that an output has ended, and does not wait. It is daemon.Hooks.OutputEnd.
func (o *outflow) end(id daemon.ID, s daemon.Stream) {
	st := o.of(source{id, s})
	o.sender.send(wire.KindOutputEnd, st.number, nil)
	o.mu.Lock()
	defer o.mu.Unlock()
	st.long, st.leaves = false, st.long
	o.leave(st)
}

// leave lets another stream send long texts, once the front end has taken that of a stream that has ended. The caller
// holds the lock.
func (o *outflow) leave(st *outStream) {
	if st.leaves && st.owed == 0 {
		st.leaves = false
		<-o.long // the element is there: this does not wait
	}
}
