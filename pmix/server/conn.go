package server

import (
	"net"
	"sync"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

// conn is one accepted connection. Its reader goroutine feeds the loop, its writer goroutine empties the queue.
type conn struct {
	id      connID
	nc      net.Conn
	limits  *limits
	since   time.Time
	verdict chan codec.Status // what became of the claim; one is sent
	tool    bool              // this and the next are set before the claim
	welcome []byte            // the answer to a claim that is accepted
	proc    codec.Proc        // whose claim was accepted; belongs to the registry
	over    chan struct{}     // closed when the loop has taken all that came, and the end

	mu     sync.Mutex
	queue  []outFrame
	bytes  int
	closed bool
	wake   chan struct{}
}

// outFrame is an answer: a framed body in one or two pieces, or raw bytes.
type outFrame struct {
	tag  uint32
	body []byte
	more []byte
	raw  []byte
}

func (f *outFrame) size() int { return len(f.body) + len(f.more) + len(f.raw) }

func newConn(id connID, nc net.Conn, lim *limits) *conn {
	return &conn{id: id, nc: nc, limits: lim, since: time.Now(), verdict: make(chan codec.Status, 1), wake: make(chan struct{}, 1), over: make(chan struct{})}
}

// send queues an answer without waiting. It returns false, once, when the client has left too much unread; the
// connection is closed then.
func (c *conn) send(f outFrame) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return true
	}
	c.push(f)
	if len(c.queue) > c.limits.queueFrames || c.bytes > c.limits.queueBytes {
		c.closeLocked()
		return false
	}
	c.signal()
	return true
}

// offer queues a frame if no more than roof bytes are left unread, and leaves room for answers.
func (c *conn) offer(f outFrame, roof int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return true
	}
	if c.bytes > roof || len(c.queue) >= c.limits.queueFrames/2 {
		return false
	}
	c.push(f)
	c.signal()
	return true
}

func (c *conn) push(f outFrame) {
	c.queue = append(c.queue, f)
	c.bytes += f.size()
}

func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked()
}

func (c *conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *conn) closeLocked() {
	if c.closed {
		return
	}
	c.closed = true
	c.queue = nil
	_ = c.nc.Close() // the reader and the writer see it; there is nothing else to do about it
	c.signal()
}

// write sends what is queued until the connection is closed.
func (c *conn) write() {
	w := &writer{}
	for range c.wake {
		if !c.swapQueue(w) {
			return
		}
		if err := w.flush(c.nc); err != nil {
			c.close()
			return
		}
	}
}

// swapQueue hands the queue to the writer and takes back the memory of the last one, empty. It returns false if the
// connection is closed.
func (c *conn) swapQueue(w *writer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue, w.frames = w.frames[:0], c.queue
	c.bytes = 0
	return !c.closed
}
