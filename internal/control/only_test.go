package control

import (
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// adopted is a link with one connection for ever, in synctest's time.
func adopted(t *testing.T, body func(t *testing.T, a, b *end, cut func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		secret := NewSecret()
		accepted := make(chan *end, 1)
		ln, err := NewListener(ListenConfig{Secret: secret, Accept: func(l *Link) (Handler, error) {
			e := newEnd()
			e.link = l
			accepted <- e
			return e.handler(), nil
		}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if on := ln.Addrs(); len(on) > 0 {
			t.Errorf("the listener has addresses %v, want none", on)
		}
		mine, theirs := net.Pipe()
		ln.Adopt(pipe{theirs})
		a := dial(t, DialConfig{Secret: secret, Conn: pipe{mine}})
		b := <-accepted
		synctest.Wait()
		body(t, a, b, func() { mine.Close() })
		for _, e := range []*end{a, b} {
			e.link.Abort()
			<-e.link.Done()
		}
		ln.Close()
	})
}

// A link over a connection that is given carries frames, says goodbye, and is not broken by silence.
func TestAdopt(t *testing.T) {
	adopted(t, func(t *testing.T, a, b *end, _ func()) {
		time.Sleep(time.Hour)
		for i := range 1000 {
			a.link.Send(numbered(i))
			b.link.Send(numbered(i))
		}
		a.wait(t, 1000)
		b.wait(t, 1000)
		if err := errors.Join(a.link.Close(time.Minute), b.link.Close(time.Minute)); err != nil {
			t.Error(err)
		}
		a.check(t, 1000)
		b.check(t, 1000)
		for _, e := range []*end{a, b} {
			e.notLost(t, "after Close")
		}
	})
}

// Its end is that of the link, at once and at both ends.
func TestOnlyConnectionBreaks(t *testing.T) {
	adopted(t, func(t *testing.T, a, b *end, cut func()) {
		time.Sleep(time.Minute)
		began := time.Now()
		cut()
		for _, e := range []*end{a, b} {
			if err := <-e.lost; !strings.Contains(err.Error(), "its only connection has broken: ") {
				t.Errorf("lost: %v", err)
			}
		}
		between(t, "lost", began, 0, 0)
	})
}

// It may be held as others.
func TestHoldOnlyConnection(t *testing.T) {
	adopted(t, func(t *testing.T, a, b *end, cut func()) {
		b.hold(t)
		time.Sleep(time.Hour)
		goOn(t, a, b)
		b.hold(t)
		cut()
		<-a.lost
		<-b.lost
	})
}

// A connection whose peer does not have the secret, or says nothing, makes no link. After Close none does.
func TestAdoptStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := make(chan string, 10)
		ln, err := NewListener(ListenConfig{Secret: NewSecret(), Report: func(line string) { said <- line }, Accept: func(*Link) (Handler, error) {
			t.Error("a stranger has a link")
			return Handler{}, nil
		}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"TLS handshake", "TLS handshake"} {
			mine, theirs := net.Pipe()
			ln.Adopt(pipe{theirs})
			if len(said) == 0 { // the first one speaks
				if l, err := Dial(t.Context(), DialConfig{Secret: NewSecret(), Conn: pipe{mine}, Within: time.Minute}); !errors.Is(err, errStranger) {
					t.Errorf("link %v, %v, want an error", l, err)
				}
			}
			if line := <-said; !strings.Contains(line, want) {
				t.Errorf("said %q, want %q", line, want)
			}
			mine.Close()
		}
		ln.Close()
		mine, theirs := net.Pipe()
		ln.Adopt(pipe{theirs})
		if _, err := mine.Write([]byte("x")); err == nil {
			t.Error("a closed listener takes a connection")
		}
		mine.Close()
	})
}
