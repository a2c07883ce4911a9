package control

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// lateConn is a connection of a process that has no processor: the deadlines of some reads have passed before it looks.
type lateConn struct {
	net.Conn
	late int
}

func (c *lateConn) Read(b []byte) (int, error) {
	if c.late > 0 {
		c.late--
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Read(b)
}

// A read whose time has passed while the process had no processor takes what has come meanwhile.
func TestLateRead(t *testing.T) {
	mine, theirs := net.Pipe()
	defer mine.Close()
	defer theirs.Close()
	m := newMeter(&lateConn{mine, 1}, noBudget)
	m.silence.Store(int64(within))
	go theirs.Write([]byte("alive")) // if it fails, the read does
	b := make([]byte, 10)
	if n, err := m.Read(b); err != nil || string(b[:n]) != "alive" {
		t.Errorf("read %q, %v, want what the peer has written", b[:n], err)
	}
}

// A peer that is silent breaks the connection after the silence that is allowed.
func TestSilentRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, theirs := net.Pipe()
		defer mine.Close()
		defer theirs.Close()
		m := newMeter(mine, noBudget)
		m.silence.Store(int64(time.Second))
		began := time.Now()
		if _, err := m.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v, want a deadline after 1s", err, time.Since(began))
		}
	})
}
