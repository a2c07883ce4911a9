package control

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// What a connection has written and the other end has not received arrives after the connection is closed, but not after its
// link is aborted.
func TestDiscard(t *testing.T) {
	for _, x := range []struct {
		cause   error
		arrives bool
	}{{errEnded, true}, {errUnheard, true}, {errAborted, false}} {
		t.Run(x.cause.Error(), func(t *testing.T) {
			here, there := tcpPair(t)
			c := &connection{raw: newMeter(here, noBudget), stop: make(chan struct{})}
			written := fill(t, here)
			c.close(x.cause)
			received, err := io.Copy(io.Discard, there)
			if arrives := err == nil && int(received) == written; arrives != x.arrives {
				t.Errorf("%d of %d bytes have arrived, error %v; want all: %t", received, written, err, x.arrives)
			}
		})
	}
}

// tcpPair returns the ends of a connection.
func tcpPair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if here, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = here.Close() })
	if there, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = there.Close() })
	return here, there
}

// fill writes until the kernel takes no more, and returns how much it has taken.
func fill(t *testing.T, c net.Conn) (written int) {
	t.Helper()
	if err := c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for b := make([]byte, 1<<20); ; {
		n, err := c.Write(b)
		written += n
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return written
		case err != nil:
			t.Fatal(err)
		}
	}
}
