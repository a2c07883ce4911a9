package daemon

import (
	"net"
	"testing"
	"time"
)

// Connections from outside the job are limited in number, so that they cannot exhaust this process's descriptors.
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
	// All but the last ones are closed.
	for _, conn := range conns[:len(conns)-mostStrangers] {
		if err := conn.SetReadDeadline(time.Now().Add(attachIdle / 2)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n > 0 || isTimeout(err) {
			t.Fatalf("a stranger that sends nothing is still connected: %d bytes, %v", n, err)
		}
	}
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error) //nolint:errorlint // package net returns it unwrapped
	return ok && ne.Timeout()
}
