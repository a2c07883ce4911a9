package control

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
)

// run carries the link over its connections, of which the first may be there already.
//
// The accepting end closes a connection as soon as it breaks, so that the dialing end dials again at once. The dialing
// end keeps one until it has the next, so that its machine closes none while it lives and has not given the link up:
// see Limits.Return.
func (l *Link) run(c *connection) {
	defer l.finish()
	var broken *connection
	missed := false // Broken was called
	for {
		if c == nil {
			var err error
			c, err = l.reconnect(broken)
			if broken != nil {
				broken.close(err)
			}
			if err != nil {
				l.lose(err)
				return
			}
		}
		if missed && l.handler.Back != nil {
			l.handler.Back()
		}
		l.serve(c)
		missed = l.reportBreak()
		if l.over() {
			c.close(errEnded)
			return
		}
		if l.dialer == nil {
			if l.ctx.Err() == nil { // it has not failed
				c.raw.discard() // the next connection carries it again, if there is one
			}
			c.close(errEnded)
		}
		broken, c = c, nil
	}
}

// reportBreak tells the owner that the connection has broken, unless there is the next one or the link is about to end. It
// says whether it has.
func (l *Link) reportBreak() bool {
	l.mu.Lock()
	quiet := l.waiting != nil || l.closing || l.peerBye || l.fatal != nil || l.flushed || l.peerEnd
	l.mu.Unlock()
	if quiet || l.handler.Broken == nil {
		return false
	}
	l.handler.Broken()
	return true
}

// over reports whether the link needs no further connection.
func (l *Link) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushed || l.peerEnd
}

// lose reports that no connection is to be had, unless the link was about to end anyway.
func (l *Link) lose(err error) {
	l.mu.Lock()
	quiet := l.closing || l.peerBye || errors.Is(l.fatal, errAborted)
	if l.fatal != nil {
		err = l.fatal
	}
	err = fmt.Errorf("link to node %d at %s: %w", l.peer.Node, l.addr, err)
	l.mu.Unlock()
	if !quiet && l.handler.Lost != nil {
		l.handler.Lost(err)
	}
}

// finish releases what the link has.
func (l *Link) finish() {
	l.mu.Lock()
	l.ended = true
	o := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	l.cancel()
	if o != nil {
		o.c.close(errEnded) // the peer dials again, and the listener tells it
	}
	if l.onEnd != nil {
		l.onEnd(l)
	}
	close(l.done)
}

// serve reads and writes a connection until it breaks. It does not close it.
func (l *Link) serve(c *connection) {
	l.mu.Lock()
	l.current, l.addr = c, c.peer
	switch {
	case l.fatal != nil:
		c.close(l.fatal)
	case l.waiting != nil:
		c.close(errReplaced)
	case l.held:
		c.hold()
	}
	l.mu.Unlock()
	var writer sync.WaitGroup
	writer.Go(func() { c.end(l.write(c)) })
	c.end(l.read(c))
	writer.Wait() // else it could take frames for this connection out of what the next one carries
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = nil
	l.frames.Break()
}

// read takes frames until the connection breaks.
func (l *Link) read(c *connection) error {
	for {
		f, err := wire.ReadFrame(c.in, wire.MaxBody)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		switch {
		case f.Kind == wire.KindAck:
			if err := l.acknowledge(f); err != nil {
				return err
			}
		case f.Kind == wire.KindBye && f.Stream == byeEndsLink:
			l.mu.Lock()
			l.peerEnd = true
			l.mu.Unlock()
			return errEnded
		case f.Kind == wire.KindBye:
			l.takeBye(f)
		case f.Kind == wire.KindHold, f.Kind == wire.KindGo:
			l.takeHold(f)
		case f.Kind >= firstOwnKind && f.Kind <= lastOwnKind:
			return fmt.Errorf("read: frame of kind %#x within a connection", f.Kind)
		default:
			if l.handler.Take != nil {
				l.handler.Take(f)
			}
			l.mu.Lock()
			l.frames.Took(f)
			due := l.frames.AckDue()
			l.mu.Unlock()
			if due {
				l.signal()
			}
		}
	}
}

func (l *Link) takeBye(f wire.Frame) {
	l.mu.Lock()
	l.frames.Took(f)
	again := l.peerBye
	l.peerBye, l.ackNow = true, true
	closing := l.closing
	l.mu.Unlock()
	l.signal()
	if !again && !closing && l.handler.Bye != nil {
		l.handler.Bye()
	}
}

func (l *Link) acknowledge(f wire.Frame) error {
	if len(f.Body) != 8 {
		return fmt.Errorf("read: acknowledgment has %d bytes, want 8", len(f.Body))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.frames.Acknowledge(binary.LittleEndian.Uint64(f.Body)); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	l.noteKept()
	return nil
}

// noteKept looks at what the peer has not taken after that has become less. The caller holds the lock.
func (l *Link) noteKept() {
	if l.wanted != nil && l.frames.Taken() >= l.wanted.number {
		l.noteHeld()
	}
	n, bytes := l.frames.Kept()
	if l.high && bytes < l.limits.Watermark/2 {
		l.high = false
	}
	if l.closing && n == 0 {
		l.flushed = true
		l.signal() // the writer has one more word to say
	}
}

// write writes frames until the connection breaks.
func (l *Link) write(c *connection) error {
	idle := time.NewTimer(l.limits.keepalive())
	defer idle.Stop()
	var b []byte
	alive := false
	for {
		var last bool
		if b, last = l.gather(b[:0], alive); len(b) == 0 {
			alive = false
			select {
			case <-l.wake:
			case <-idle.C:
				alive = !l.isHeld()
				idle.Reset(l.limits.keepalive())
			case <-c.stop:
				return nil
			}
			continue
		}
		if _, err := c.tls.Write(b); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if last {
			return l.awaitEnd(c)
		}
		if cap(b) > 4*batchBytes {
			b = nil
		}
		alive = false
		idle.Reset(l.limits.keepalive())
	}
}

// awaitEnd waits until the peer, which knows now that its last word is not needed, closes the connection. Closing first
// would drop what the peer has still written, and its kernel could drop what it has not read yet.
func (l *Link) awaitEnd(c *connection) error {
	c.raw.silence.Store(int64(l.limits.linger()))
	if err := c.raw.SetReadDeadline(time.Now().Add(l.limits.linger())); err != nil {
		return err
	}
	<-c.stop
	return nil
}

// gather appends to b what is to be written now; alive asks for something. After the last bytes nothing follows.
func (l *Link) gather(b []byte, alive bool) (_ []byte, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if alive || l.ackNow || l.flushed || l.frames.AckDue() {
		ack := wire.Frame{Kind: wire.KindAck, Body: binary.LittleEndian.AppendUint64(nil, l.frames.Received())}
		b = ack.Append(b)
		l.frames.Told()
		l.ackNow = false
	}
	for len(b) < batchBytes {
		f, ok := l.frames.Next()
		if !ok {
			break
		}
		b = f.Append(b)
	}
	if l.flushed {
		end := wire.Frame{Kind: wire.KindBye, Stream: byeEndsLink}
		b = end.Append(b)
	}
	return b, l.flushed
}

// reconnect waits for the next connection after one broke, or for the first one of an accepted link. While the link is
// held it waits for as long as the peer's machine answers, see Hold.
func (l *Link) reconnect(broken *connection) (*connection, error) {
	if l.only && broken != nil {
		return nil, fmt.Errorf("its only connection has broken: %w", broken.cause)
	}
	now := time.Now()
	heard, cause := now, error(nil)
	if broken != nil {
		heard, cause = broken.raw.lastHeard(), broken.cause
	}
	until := heard.Add(l.limits.Lease)
	if least := now.Add(l.limits.Lease / 2); until.Before(least) {
		until = least
	}
	if l.dialer != nil && l.dialer.cfg.Redial > 0 {
		until = now.Add(l.dialer.cfg.Redial)
	}
	if l.dialer == nil && l.limits.Return > 0 && wasClosed(cause) {
		until = now.Add(l.limits.Return)
	}
	l.mu.Lock()
	lingers := l.peerBye && !l.closing
	l.mu.Unlock()
	if lingers {
		until = now.Add(l.limits.linger())
	}
	ctx, cancel := l.within(until.Sub(now))
	defer cancel()
	var c *connection
	var err error
	if l.dialer != nil {
		c, err = l.redial(ctx, lingers)
	} else {
		c, err = l.await(ctx, until.Sub(now))
	}
	if err != nil && cause != nil {
		err = fmt.Errorf("%w; the connection before it broke: %w", err, cause)
	}
	return c, err
}

// wasClosed says whether a connection has broken because the peer's machine has closed it.
func wasClosed(cause error) bool {
	return errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) || errors.Is(cause, syscall.ECONNRESET) || errors.Is(cause, syscall.EPIPE)
}

// redial makes a new connection.
func (l *Link) redial(ctx context.Context, lingers bool) (*connection, error) {
	c, w, err := l.dialer.connect(ctx, lingers, func() hello {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.attempt++
		return hello{Identity: l.self, Session: l.session, Attempt: l.attempt, Resume: true, Received: l.frames.Received()}
	})
	if err != nil && !w.Ended {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if bad := l.frames.Resume(w.Received); bad != nil && err == nil {
		c.close(bad)
		return nil, bad
	}
	l.noteKept()
	return c, err
}

// await waits until the peer has made a new connection, and welcomes it.
func (l *Link) await(ctx context.Context, window time.Duration) (*connection, error) {
	var failed error
	for {
		l.mu.Lock()
		o := l.waiting
		l.waiting = nil
		if o != nil {
			l.current = o.c
		}
		l.mu.Unlock()
		if o != nil {
			if failed = l.welcome(o); failed == nil {
				return o.c, nil
			}
			o.c.close(failed)
		}
		select {
		case <-l.offered:
		case <-ctx.Done():
			if failed != nil {
				return nil, failed
			}
			return nil, fmt.Errorf("peer has not connected again within %v", window.Round(time.Millisecond))
		}
	}
}

// welcome answers a hello, so that the link goes on over its connection.
func (l *Link) welcome(o *offer) error {
	l.mu.Lock()
	w := welcome{Identity: l.self, Session: l.session, Received: l.frames.Received()}
	err := l.frames.Resume(o.hello.Received)
	if err != nil {
		w.Refusal = err.Error()
	} else {
		l.peer = o.hello.Identity
		l.noteKept()
	}
	l.mu.Unlock()
	f := w.frame()
	if err := o.c.write(f.Append(nil), l.limits.silence()); err != nil {
		return fmt.Errorf("write welcome: %w", err)
	}
	if err != nil {
		return err
	}
	return o.c.begin(l.limits.silence())
}

// offer replaces the connection of the link, unless the link has ended or has had a later one.
func (l *Link) offer(o *offer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.fatal != nil || o.hello.Attempt <= l.attempt {
		return false
	}
	l.attempt = o.hello.Attempt
	if l.waiting != nil {
		l.waiting.c.close(errReplaced)
	}
	l.waiting = o
	if l.current != nil {
		l.current.close(errReplaced)
	}
	select {
	case l.offered <- struct{}{}:
	default:
	}
	return true
}
