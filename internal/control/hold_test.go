package control

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// holdable is a link whose accepting end may hold it.
var holdable = DialConfig{RefusedIsLost: true, Limits: Limits{Return: time.Second}}

// hold holds a link.
func (e *end) hold(t *testing.T) {
	t.Helper()
	if err := e.link.Hold(time.Second); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// goOn ends a hold, and checks that the link carries frames in both directions.
func goOn(t *testing.T, a, b *end) {
	t.Helper()
	b.link.Go()
	a.link.Send(numbered(0))
	b.link.Send(numbered(0))
	time.Sleep(time.Minute)
	synctest.Wait()
	a.check(t, 1)
	b.check(t, 1)
	for _, e := range []*end{a, b} {
		e.notLost(t, "after Go")
	}
}

// A process that is stopped for long keeps its links, and their connections. What is sent to it meanwhile arrives.
func TestHold(t *testing.T) {
	bubble(t, holdable, nil, func(t *testing.T, n *network, a, b *end) {
		for range 3 {
			b.hold(t)
			b.hold(t) // means nothing
			resume := n.stop()
			time.Sleep(time.Hour)
			resume()
			b.link.Go()
			time.Sleep(time.Minute)
		}
		b.hold(t)
		resume := n.stop()
		for i := range 100 {
			a.link.Send(numbered(i))
		}
		time.Sleep(time.Hour)
		resume()
		b.wait(t, 100)
		b.check(t, 100)
		b.link.Go()
		time.Sleep(time.Hour)
		for _, e := range []*end{a, b} {
			e.notLost(t, "after Go")
		}
		if d := n.dials.Load(); d != 1 {
			t.Errorf("%d connections, want 1", d)
		}
	})
}

// After Go the lease counts as before Hold, at both ends.
func TestLeaseAfterHold(t *testing.T) {
	const lease = 10 * time.Second
	bubble(t, holdable, nil, func(t *testing.T, n *network, a, b *end) {
		b.hold(t)
		time.Sleep(time.Hour)
		b.link.Go()
		synctest.Wait()
		n.mute[0].Store(true)
		n.mute[1].Store(true)
		began := time.Now()
		<-a.lost
		<-b.lost
		between(t, "lost", began, lease*7/8, lease)
	})
}

// The connection breaks while the accepting process is stopped, whose machine takes another one.
func TestHoldOverBreak(t *testing.T) {
	bubble(t, holdable, nil, func(t *testing.T, n *network, a, b *end) {
		b.hold(t)
		resume := n.stop()
		n.cut(nil)
		time.Sleep(time.Hour)
		for _, e := range []*end{a, b} {
			e.notLost(t, "while the process is stopped")
		}
		if d := n.dials.Load(); d < 2 || d > 10 {
			t.Errorf("%d connections, want few: each takes a place at the machine of the process", d)
		}
		resume()
		goOn(t, a, b)
	})
}

// The dialing end does not wait for a process that has ended, or a machine that is out of reach.
func TestHeldPeerIsLost(t *testing.T) {
	const lease = 10 * time.Second
	for _, x := range []struct {
		why         error
		least, most time.Duration
	}{{syscall.ECONNREFUSED, 0, 0}, {errNoRoute, lease / 2, lease}} {
		bubble(t, holdable, nil, func(t *testing.T, n *network, a, b *end) {
			b.hold(t)
			time.Sleep(time.Hour)
			began := time.Now()
			n.cut(x.why)
			if err := <-a.lost; !errors.Is(err, x.why) {
				t.Errorf("lost: %v, want %v", err, x.why)
			}
			between(t, "lost", began, x.least, x.most)
			b.link.Go()
			<-b.lost
		})
	}
}

// A peer that has ended while this process was stopped is lost soon after Go, and not before.
func TestLossWhileHeld(t *testing.T) {
	bubble(t, holdable, nil, func(t *testing.T, n *network, _, b *end) {
		b.hold(t)
		n.cut(errNoRoute)
		time.Sleep(time.Hour)
		b.notLost(t, "before Go")
		began := time.Now()
		b.link.Go()
		if err := <-b.lost; !wasClosed(err) {
			t.Errorf("lost: %v, want the end of the connection", err)
		}
		between(t, "lost", began, time.Second, time.Second)
	})
}

// A peer that does not answer holds nothing up, and is lost as ever.
func TestHoldWithoutAnswer(t *testing.T) {
	const lease = 10 * time.Second
	bubble(t, holdable, nil, func(t *testing.T, n *network, a, b *end) {
		time.Sleep(time.Minute)
		began := time.Now()
		n.mute[0].Store(true)
		n.mute[1].Store(true)
		if err := b.link.Hold(time.Second); err == nil || !strings.Contains(err.Error(), "has not answered within 1s") {
			t.Errorf("hold: %v", err)
		}
		between(t, "the end of Hold", began, time.Second, time.Second)
		<-b.lost
		between(t, "lost", began, lease*7/8, lease)
		if err := b.link.Hold(time.Second); err != nil {
			t.Errorf("hold of a lost link: %v", err)
		}
		b.link.Go()
		<-a.lost
	})
}

// A link that ends meanwhile ends Hold.
func TestHoldOfEndingLink(t *testing.T) {
	bubble(t, holdable, nil, func(t *testing.T, n *network, a, b *end) {
		n.mute[0].Store(true)
		n.mute[1].Store(true)
		held := make(chan error)
		go func() { held <- b.link.Hold(time.Hour) }()
		synctest.Wait()
		b.link.Abort()
		if err := <-held; err != nil {
			t.Errorf("hold: %v", err)
		}
		a.link.Abort()
	})
}
