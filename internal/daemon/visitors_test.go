package daemon

import (
	"net"
	"testing"
	"time"
)

// Connections from outside the job are few however many are made, so that they
// cannot take all descriptors of this process.
func TestStrangersAreFew(t *testing.T) {
	s := startSleepers(t, 1)
	var conns []*net.UnixConn
	for range 4 * mostStrangers {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.attach.address(), Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		conns = append(conns, conn)
	}
	// All but the last ones are hung up on.
	for _, conn := range conns[:len(conns)-mostStrangers] {
		if err := conn.SetReadDeadline(time.Now().Add(attachIdle / 2)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n > 0 || isTimeout(err) {
			t.Fatalf("a stranger that says nothing is still connected: %d bytes, %v", n, err)
		}
	}
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error) //nolint:errorlint // as package net returns it
	return ok && ne.Timeout()
}
