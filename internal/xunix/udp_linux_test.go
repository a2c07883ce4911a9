package xunix

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestUDP: datagrams go to addresses and bring those of their senders, over IPv4 and IPv6, and a wait ends when one comes.
func TestUDP(t *testing.T) {
	for _, ip := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
		t.Run(ip.String(), func(t *testing.T) {
			conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			event, err := NewEvent()
			if err != nil {
				t.Fatal(err)
			}
			defer CloseSocket(event)
			raw, err := conn.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			own := conn.LocalAddr().(*net.UDPAddr).AddrPort()
			if err := raw.Control(func(fd uintptr) { exchangeUDP(t, int(fd), event, own) }); err != nil {
				t.Error(err)
			}
		})
	}
}

// exchangeUDP sends datagrams from a socket to itself, and waits for them and for an event.
func exchangeUDP(t *testing.T, fd, event int, own netip.AddrPort) {
	t.Helper()
	six, err := IsIPv6(fd)
	if err != nil || six != own.Addr().Is6() {
		t.Fatalf("IPv6 is %v, %v", six, err)
	}
	to, err := NewSocketAddress(own, 0, six)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	var from SocketAddress
	if _, err := ReceiveFrom(fd, b, &from); !errors.Is(err, ErrAgain) {
		t.Errorf("nothing has been sent: error %v, want %v", err, ErrAgain)
	}
	if err := WaitInput(fd, event, 20*time.Millisecond); err != nil { // nothing comes
		t.Error(err)
	}
	PostEvent(event)
	for range 2 { // once for the event, and once for the datagram
		if err := WaitInput(fd, event, time.Minute); err != nil {
			t.Error(err)
		}
		if err := SendTo(fd, []byte("hello"), &to); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := ReceiveFrom(fd, b, &from); err != nil || string(b[:n]) != "hello" || from != to {
		t.Errorf("got %q, %v, from %v, want %v", b[:n], err, from, to)
	}
}

// TestSocketAddress: an IPv4 socket reaches IPv4 addresses only.
func TestSocketAddress(t *testing.T) {
	for text, good := range map[string]bool{"1.2.3.4:5": true, "[::ffff:1.2.3.4]:5": true, "[::1]:5": false} {
		if _, err := NewSocketAddress(netip.MustParseAddrPort(text), 0, false); (err == nil) != good {
			t.Errorf("%s: error %v", text, err)
		}
		if _, err := NewSocketAddress(netip.MustParseAddrPort(text), 0, true); err != nil {
			t.Errorf("%s by IPv6: error %v", text, err)
		}
	}
	if _, err := NewSocketAddress(netip.AddrPort{}, 0, true); err == nil {
		t.Error("no address: no error")
	}
}
