package server

import (
	"net"
	"sync"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

// conn is one accepted connection. Its reader goroutine passes events to the loop, its writer goroutine sends the
// queue.
type conn struct {
	id      connID
	nc      net.Conn
	limits  *limits
	since   time.Time         // time of the accept
	verdict chan codec.Status // gets one status, the core's decision on the claim
	tool    bool              // a tool connects; set before the claim
	pid     int               // the process that connects, 0 if that is unknown; set before the claim
	welcome []byte            // the answer if the claim is accepted; set before the claim
	proc    codec.Proc        // the process, once its claim is accepted; the registry's lock protects it
	over    chan struct{}     // closed when the loop has seen all frames and the end of the connection

	mu     sync.Mutex
	queue  []outFrame
	bytes  int // size of the queue
	closed bool
	wake   chan struct{} // signaled when the queue gets a frame, or the connection is closed
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

// send queues an answer without waiting. If the client leaves too much unread, send closes the connection and returns
// false, once.
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

// offer queues a frame unless more than limit bytes wait in the queue. It keeps half of the queue free for answers.
func (c *conn) offer(f outFrame, limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return true
	}
	if c.bytes > limit || len(c.queue) >= c.limits.queueFrames/2 {
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
	_ = c.nc.Close() // wakes the reader and the writer
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

// swapQueue gives the queue to the writer and reuses the memory of the writer's last one. It returns false if the
// connection is closed.
func (c *conn) swapQueue(w *writer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue, w.frames = w.frames[:0], c.queue
	c.bytes = 0
	return !c.closed
}
