package control

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
)

// connection is a TLS connection and what it may do: a few bytes in a short time while it is new, then as much as it
// likes, but never nothing for long.
type connection struct {
	raw   *meter
	tls   *tls.Conn
	in    *bufio.Reader
	peer  string        // its address
	local netip.Addr    // this side's address; the zero Addr: the connection has none
	stop  chan struct{} // closed with the connection
	once  sync.Once
	cause error // why it was closed; written before stop is closed
}

func newConnection(raw *meter, t *tls.Conn) *connection {
	c := &connection{raw: raw, tls: t, in: bufio.NewReader(t), peer: raw.RemoteAddr().String(), stop: make(chan struct{})}
	if a, ok := raw.LocalAddr().(*net.TCPAddr); ok {
		c.local = a.AddrPort().Addr().Unmap()
	}
	return c
}

// end makes all reads and writes fail; the first cause is kept. The peer's machine is not told: close has to follow.
func (c *connection) end(cause error) {
	c.once.Do(func() {
		c.cause = cause
		close(c.stop)
		c.raw.halt()
	})
}

// close ends the connection and tells the peer's machine so. It does not tell the peer's TLS: a link knows by its own
// frames whether something is missing.
func (c *connection) close(cause error) {
	c.end(cause)
	if errors.Is(cause, errAborted) {
		c.raw.discard()
	}
	c.raw.Close() //nolint:errcheck // nothing that was written matters any more
}

// write writes whole frames of the handshake. It fails if the peer does not take them in time.
func (c *connection) write(b []byte, within time.Duration) error {
	if err := c.raw.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	_, err := c.tls.Write(b)
	return err
}

// expect reads the one frame that has to come now.
func (c *connection) expect(kind wire.Kind, what string) ([]byte, error) {
	f, err := wire.ReadFrame(c.in, maxHello)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if f.Kind != kind || f.Stream != 0 {
		return nil, fmt.Errorf("read %s: frame has kind %#x and stream %d, want kind %#x and stream 0", what, f.Kind, f.Stream, kind)
	}
	return f.Body, nil
}

// begin ends the limits of a new connection. From now on it may be silent for that long.
func (c *connection) begin(silence time.Duration) error {
	c.raw.budget.Store(noBudget)
	c.raw.silence.Store(int64(silence))
	return c.raw.SetDeadline(time.Time{})
}

// newBytes is how many bytes a connection may receive until its hello is over. A TLS handshake needs some 2.5 KiB.
const newBytes = 8 << 10

// hold takes the limits away: no silence breaks the connection until resume.
func (c *connection) hold() {
	c.raw.silence.Store(0)
	c.raw.SetDeadline(time.Time{}) //nolint:errcheck // the next read or write fails instead
}

// resume sets limits again that hold has taken away.
func (c *connection) resume(silence time.Duration) {
	c.raw.silence.Store(int64(silence))
	c.raw.SetDeadline(time.Now().Add(silence)) //nolint:errcheck // the next read or write fails instead
}

const noBudget = -1

var errTooMuch = errors.New("too many bytes before the end of the handshake")

// meter is a connection below TLS that counts what it receives.
type meter struct {
	net.Conn
	from    netip.Addr   // the peer's address without its port; zero if it is none of TCP
	budget  atomic.Int64 // how many bytes may still come, or noBudget
	silence atomic.Int64 // how long no byte may come or go, in nanoseconds; 0 leaves the deadlines alone
	heard   atomic.Int64 // when the last bytes came, in nanoseconds since began; 0 if none came
	halted  atomic.Bool  // halt was called
	only    bool         // its link can have no other connection
	began   time.Time
}

func newMeter(c net.Conn, budget int64) *meter {
	m := &meter{Conn: c, began: time.Now()}
	m.budget.Store(budget)
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		m.from = a.AddrPort().Addr().Unmap()
	}
	return m
}

var errHalted = errors.New("the connection is not used any more")

// halt makes reads and writes fail, those that are under way as well, and leaves the connection open.
func (m *meter) halt() {
	m.halted.Store(true)
	m.Conn.SetDeadline(longAgo) //nolint:errcheck // it fails if the connection is closed
}

var longAgo = time.Unix(1, 0)

// discard makes Close drop what has not arrived. Otherwise the kernel would go on sending it for minutes.
func (m *meter) discard() {
	if c, ok := m.Conn.(*net.TCPConn); ok {
		c.SetLinger(0) //nolint:errcheck // it fails if the connection is closed
	}
}

// SetDeadline, SetReadDeadline and SetWriteDeadline fail after halt.
func (m *meter) SetDeadline(t time.Time) error { return m.setDeadline(m.Conn.SetDeadline, t) }

func (m *meter) SetReadDeadline(t time.Time) error { return m.setDeadline(m.Conn.SetReadDeadline, t) }

func (m *meter) SetWriteDeadline(t time.Time) error { return m.setDeadline(m.Conn.SetWriteDeadline, t) }

// setDeadline sets a deadline before it looks for halt, and halt does so the other way round. So the deadline that halt
// has set is the last one.
func (m *meter) setDeadline(set func(time.Time) error, t time.Time) error {
	err := set(t)
	if m.halted.Load() {
		set(longAgo) //nolint:errcheck // it fails if the connection is closed
		return errHalted
	}
	return err
}

// Read reads within the limits. The time for it is made of two deadlines: when this process was stopped or had no processor, so
// that one has passed, it still takes what has come meanwhile.
func (m *meter) Read(b []byte) (int, error) {
	budget := m.budget.Load()
	if budget == 0 {
		return 0, errTooMuch
	}
	if budget > 0 {
		b = b[:min(int64(len(b)), budget)]
	}
	const parts = 2
	for part := 1; ; part++ {
		s, err := m.limit(m.SetReadDeadline, parts)
		if err != nil {
			return 0, err
		}
		n, err := m.Conn.Read(b)
		if n > 0 {
			m.heard.Store(max(1, int64(time.Since(m.began))))
			if budget > 0 {
				m.budget.CompareAndSwap(budget, budget-int64(n)) // begin may have lifted the limit
			}
			return n, err
		}
		if part == parts || !errors.Is(err, os.ErrDeadlineExceeded) || s == 0 && m.silence.Load() == 0 { // resume may have set the deadline
			return n, err
		}
	}
}

// limit sets the deadline of a read or write from the silence that is allowed, if any is: a part of it. A silence that
// is changed meanwhile counts, since whoever changes it sets deadlines after that.
func (m *meter) limit(set func(time.Time) error, parts time.Duration) (silence int64, err error) {
	for last := int64(0); ; last = silence {
		silence = m.silence.Load()
		if silence == last {
			return silence, nil
		}
		var until time.Time
		if silence > 0 {
			until = time.Now().Add(time.Duration(silence) / parts)
		}
		if err := set(until); err != nil {
			return silence, err
		}
	}
}

// Write writes within the limits: it fails if the peer takes no byte in the time, not if the peer is slow. A frame that
// a slow path could not carry in the time would be written on the next connection again, and so for ever.
//
// An error does not say when the last byte went, so the time is made of several deadlines.
func (m *meter) Write(b []byte) (n int, err error) {
	const parts = 8
	for idle := 0; ; {
		s, err := m.limit(m.SetWriteDeadline, parts)
		if err != nil {
			return n, err
		}
		k, err := m.Conn.Write(b[n:])
		n += k
		if !errors.Is(err, os.ErrDeadlineExceeded) || s == 0 && m.silence.Load() == 0 { // resume may have set the deadline
			return n, err
		}
		if idle++; k > 0 {
			idle = 0
		}
		if idle == parts {
			return n, err
		}
	}
}

// lastHeard returns when the last bytes came, or when the connection began.
func (m *meter) lastHeard() time.Time { return m.began.Add(time.Duration(m.heard.Load())) }
