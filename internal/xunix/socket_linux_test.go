package xunix

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tcpPair returns both ends of a connection over loopback.
func tcpPair(t *testing.T) (a, b int) {
	t.Helper()
	e, err := NewEpoll()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ln, addr, err := ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer CloseSocket(ln)
	if _, _, err := AcceptTCP(ln); !errors.Is(err, ErrAgain) {
		t.Errorf("accept without a connection: error %v, want %v", err, ErrAgain)
	}
	if a, err = ConnectTCP(addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { CloseSocket(a) })
	await(t, e, ln, false)
	if b, _, err = AcceptTCP(ln); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { CloseSocket(b) })
	await(t, e, a, true)
	if err := ConnectResult(a); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// await waits until a descriptor has input, or room for output.
func await(t *testing.T, e *Epoll, fd int, out bool) {
	t.Helper()
	if err := e.Add(fd, 5, out); err != nil {
		t.Fatal(err)
	}
	defer e.Remove(fd)
	ready, woken, err := e.Wait(nil, 10*time.Second)
	if err != nil || woken || len(ready) != 1 || ready[0].ID != 5 || ready[0].Out != out {
		t.Fatalf("ready %+v, woken %v, error %v; want descriptor 5", ready, woken, err)
	}
}

func TestSocket(t *testing.T) {
	a, b := tcpPair(t)
	buf := make([]byte, 100)
	if _, err := ReceiveSocket(b, buf); !errors.Is(err, ErrAgain) {
		t.Errorf("read of nothing: error %v, want %v", err, ErrAgain)
	}
	var v Vector
	for _, part := range []string{"one ", "two ", "three"} {
		v.Add([]byte(part))
	}
	if n, err := v.Send(a); n != 13 || err != nil || v.Bytes() != 0 {
		t.Fatalf("sent %d bytes, error %v, %d bytes left in the vector; want 13, none, 0", n, err, v.Bytes())
	}
	e, err := NewEpoll()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	await(t, e, b, false)
	if n, err := ReceiveSocket(b, buf); err != nil || string(buf[:n]) != "one two three" {
		t.Errorf("received %q, error %v", buf[:n], err)
	}
	if err := syscall.Shutdown(a, syscall.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	await(t, e, b, false)
	if _, err := ReceiveSocket(b, buf); !errors.Is(err, io.EOF) {
		t.Errorf("read at the end: error %v, want %v", err, io.EOF)
	}
}

// A vector takes MaxVector parts. The kernel takes as many bytes as it has room for, and then none.
func TestVectorFull(t *testing.T) {
	a, _ := tcpPair(t)
	var v Vector
	part := bytes.Repeat([]byte("x"), 64<<10)
	for i := range MaxVector {
		if !v.Add(part) {
			t.Fatalf("part %d does not fit, want %d", i, MaxVector)
		}
	}
	if v.Add(part) {
		t.Errorf("part %d fits, want at most %d", MaxVector+1, MaxVector)
	}
	if n, err := v.Send(a); n <= 0 || n >= MaxVector*len(part) || err != nil {
		t.Errorf("sent %d bytes, error %v, want some of %d", n, err, MaxVector*len(part))
	}
	for range 1000 {
		v.Add(part)
		if _, err := v.Send(a); err != nil {
			if !errors.Is(err, ErrAgain) {
				t.Errorf("error %v, want %v", err, ErrAgain)
			}
			return
		}
	}
	t.Error("the kernel takes bytes without end")
}

// The kernel has the time limit of a connection, and probes often enough to find an end that is gone.
func TestUserTimeout(t *testing.T) {
	a, _ := tcpPair(t)
	for _, x := range []struct {
		limit      time.Duration
		timeout    int // milliseconds
		first, gap int // seconds
	}{{10 * time.Second, 10_000, 2, 1}, {time.Minute, 60_000, 15, 6}, {time.Millisecond, 1, 1, 1}, {time.Nanosecond, 1, 1, 1}} {
		if err := SetUserTimeout(a, x.limit); err != nil {
			t.Fatal(err)
		}
		for option, want := range map[int]int{unix.TCP_USER_TIMEOUT: x.timeout, unix.TCP_KEEPIDLE: x.first, unix.TCP_KEEPINTVL: x.gap} {
			if got, err := unix.GetsockoptInt(a, unix.IPPROTO_TCP, option); got != want || err != nil {
				t.Errorf("limit %v: option %d is %d, error %v, want %d", x.limit, option, got, err, want)
			}
		}
	}
	if err := SetUserTimeout(-1, time.Second); !errors.Is(err, syscall.EBADF) {
		t.Errorf("no socket: error %v, want %v", err, syscall.EBADF)
	}
}

// A send to a peer that is gone is an error and no signal.
func TestSendToNobody(t *testing.T) {
	a, _ := tcpPair(t)
	if err := syscall.Shutdown(a, syscall.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	var v Vector
	v.Add([]byte("x"))
	if _, err := v.Send(a); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("error %v, want %v", err, syscall.EPIPE)
	}
}

func TestEpollWake(t *testing.T) {
	e, err := NewEpoll()
	if err != nil {
		t.Fatal(err)
	}
	e.Wake()
	if ready, woken, err := e.Wait(nil, -1); !woken || len(ready) > 0 || err != nil {
		t.Errorf("ready %v, woken %v, error %v; want only woken", ready, woken, err)
	}
	begin := time.Now()
	const wait = 1500 * time.Microsecond
	if _, woken, err := e.Wait(nil, wait); woken || err != nil || time.Since(begin) < wait {
		t.Errorf("woken %v, error %v after %v; want neither before %v", woken, err, time.Since(begin), wait)
	}
	e.Close()
	e.Wake()
	e.Close()
	if _, _, err := e.Wait(nil, 0); err == nil {
		t.Error("Wait after Close: no error, want one")
	}
}
