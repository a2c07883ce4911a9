package control

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/goshmem/goshmem/internal/wire"
)

// Frames go both ways, in order; the end that closes flushes.
func TestLink(t *testing.T) {
	a, b, _ := pair(t, Limits{}, nil)
	const n = 500
	for i := range n {
		a.link.Send(numbered(i))
		b.link.Send(numbered(i))
	}
	a.wait(t, n)
	if err := a.link.Close(within); err != nil {
		t.Errorf("close: %v", err)
	}
	receive(t, b.bye, "bye")
	receive(t, b.link.Done(), "end of the accepted link")
	a.check(t, n)
	b.check(t, n)
	for _, e := range []*end{a, b} {
		select {
		case err := <-e.lost:
			t.Errorf("link was lost: %v", err)
		default:
		}
	}
	if err := b.link.Close(within); err != nil {
		t.Errorf("close after bye: %v", err)
	}
}

// A hello that was overtaken by a later one changes nothing, and a later one replaces the connection.
func TestOffer(t *testing.T) {
	fresh := func(attempt uint32) *offer {
		c, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close(); c.Close() })
		m := newMeter(c, noBudget)
		return &offer{newConnection(m, tls.Client(m, &tls.Config{InsecureSkipVerify: true})), hello{Attempt: attempt}}
	}
	closed := func(o *offer) bool {
		select {
		case <-o.c.stop:
			return true
		default:
			return false
		}
	}
	l := newLink(Identity{}, Limits{}, 1)
	current := fresh(5)
	l.current, l.attempt = current.c, 5
	for _, attempt := range []uint32{0, 4, 5} {
		if l.offer(fresh(attempt)) || closed(current) || l.waiting != nil {
			t.Errorf("attempt %d after 5 is taken", attempt)
		}
	}
	first, second := fresh(6), fresh(8)
	if !l.offer(first) || !closed(current) || l.waiting != first {
		t.Error("attempt 6 after 5 does not replace the connection")
	}
	if l.offer(fresh(6)) || closed(first) {
		t.Error("attempt 6 is taken twice")
	}
	if !l.offer(second) || !closed(first) || l.waiting != second {
		t.Error("attempt 8 does not replace 6")
	}
	l.Abort()
	<-l.Done()
	if l.offer(fresh(9)) || !closed(second) {
		t.Error("a link that has ended takes a connection")
	}
}

// Broken tells when a link has no connection, and the link has another one later.
func TestBroken(t *testing.T) {
	dialed, accepted, _ := pair(t, Limits{}, nil)
	dialed.link.Send(wire.Frame{Kind: kindTest})
	accepted.wait(t, 1)
	broken := accepted.link.Broken()
	select {
	case <-broken:
		t.Error("a link with a connection is broken")
	default:
	}
	dialed.link.mu.Lock()
	dialed.link.current.close(errReplaced)
	dialed.link.mu.Unlock()
	receive(t, broken, "end of the connection")
	dialed.link.Send(wire.Frame{Kind: kindTest})
	accepted.wait(t, 2)
	again := accepted.link.Broken()
	select {
	case <-again:
		t.Error("a link with a new connection is broken")
	default:
	}
	dialed.link.Abort()
	receive(t, again, "end of the connection")
	accepted.link.Abort()
	receive(t, accepted.link.Done(), "end of the link")
	receive(t, accepted.link.Broken(), "word that the link is broken")
}
