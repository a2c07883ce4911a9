package wait

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// socketPair returns a wait for n bytes of a socket, and the socket's other end.
func socketPair(t *testing.T, n int) (s *Socket, other net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	own, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	other, err = l.Accept()
	must(t, err)
	f, err := own.(*net.TCPConn).File()
	must(t, errors.Join(err, own.Close(), l.Close()))
	t.Cleanup(func() { _ = other.Close(); must(t, f.Close()) })
	fd := int(f.Fd())
	must(t, xunix.BlockFor(fd, time.Millisecond))
	return &Socket{FD: fd, Buf: make([]byte, 100), Least: n, Peer: 3}, other
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Receive returns when enough has come, and names the peer while it waits.
func TestReceive(t *testing.T) {
	w := NewWaiter(new(layout.Bell), PolicyFor(1, 1))
	s, other := socketPair(t, 6)
	done := make(chan error, 1)
	go func() { done <- w.Receive(s, t.Context()) }()
	_, err := other.Write([]byte("abc"))
	must(t, err)
	for pe := -1; pe != 2; pe, _ = w.Awaited() {
		if t.Context().Err() != nil {
			t.Fatal("nobody learns what is awaited")
		}
	}
	_, err = other.Write([]byte("defg"))
	must(t, errors.Join(err, <-done))
	if got := string(s.Buf[:s.Got]); s.Got < 6 || got != "abcdefg"[:s.Got] {
		t.Errorf("received %q", got)
	}
}

// What ends a wait for bytes, and what its error says.
func TestReceiveEnds(t *testing.T) {
	page, err := failure.Create([16]byte{}, 4)
	must(t, err)
	t.Cleanup(func() { _ = page.Close() })
	view, err := failure.Attach(int(page.File().Fd()), [16]byte{}, 4)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	for _, x := range []struct {
		name string
		end  func(w *Waiter, s *Socket, other net.Conn)
		want []error
	}{
		{"silence", func(_ *Waiter, s *Socket, _ net.Conn) { s.Patience = 20 * time.Millisecond }, []error{ErrSocket, errSilent}},
		{"end", func(_ *Waiter, _ *Socket, other net.Conn) { must(t, other.Close()) }, []error{ErrSocket, io.EOF}},
		{"death", func(*Waiter, *Socket, net.Conn) { page.Publish(1, 1, failure.ByExit(1), 0) }, []error{ErrFailure}},
		{"context", func(_ *Waiter, s *Socket, _ net.Conn) { s.Seen = view.Epoch(); cancel() }, []error{context.Canceled}},
		{"Close", func(w *Waiter, s *Socket, _ net.Conn) { s.Seen = view.Epoch(); w.Close() }, []error{ErrClosed}},
	} {
		w := NewWaiter(new(layout.Bell), PolicyFor(1, 1))
		w.Watch(view)
		s, other := socketPair(t, 6)
		x.end(w, s, other)
		use := ctx
		if x.name != "context" {
			use = nil
		}
		err := w.Receive(s, use)
		for _, want := range x.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: error %v, want %v", x.name, err, want)
			}
		}
	}
	// Bytes that are there before the look at what has ended count.
	w := NewWaiter(new(layout.Bell), PolicyFor(1, 1))
	w.Close()
	s, other := socketPair(t, 3)
	_, err = other.Write([]byte("abc"))
	must(t, err)
	must(t, xunix.BlockFor(s.FD, time.Minute))
	if err := w.Receive(s, nil); err != nil {
		t.Errorf("with all bytes there: %v", err)
	}
}
