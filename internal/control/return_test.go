package control

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errNoRoute = errors.New("no route")

// notLost looks whether an end has lost its link.
func (e *end) notLost(t *testing.T, what string) {
	t.Helper()
	select {
	case err := <-e.lost:
		t.Errorf("%s: lost: %v", what, err)
	default:
	}
}

// The accepting end does not wait for the lease if the peer's machine has closed the connection, and the peer does not
// come back.
func TestReturn(t *testing.T) {
	bubble(t, DialConfig{Limits: Limits{Return: time.Second}}, nil, func(t *testing.T, n *network, _, b *end) {
		began := time.Now()
		n.cut(errNoRoute)
		if err := <-b.lost; !wasClosed(err) {
			t.Errorf("lost: %v, want the end of the connection", err)
		}
		between(t, "lost", began, time.Second, time.Second)
	})
	bubble(t, DialConfig{Limits: Limits{Return: time.Second}}, nil, func(t *testing.T, n *network, a, b *end) {
		n.cut(errNoRoute)
		a.link.Send(numbered(0))
		time.Sleep(time.Second / 2)
		n.cut(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		b.check(t, 1)
	})
}

// A dialing end that hears nothing dials again, and keeps its old connection meanwhile. The accepting end loses the link
// soon after the dialing end has given it up or its process has ended, and not before.
func TestReturnAfterGivingUp(t *testing.T) {
	const giveUp, back = 6 * time.Second, time.Second
	for what, stop := range map[string]func(n *network, a *end){
		"process":     func(n *network, _ *end) { n.cut(errNoRoute) },
		"Abort":       func(_ *network, a *end) { a.link.Abort() },
		"late Close":  func(_ *network, a *end) { a.link.Close(0) },
		"no new link": nil, // the dialing end loses the link at the end of the lease
	} {
		bubble(t, DialConfig{Limits: Limits{Return: back}}, nil, func(t *testing.T, n *network, a, b *end) {
			time.Sleep(time.Minute)
			began := time.Now()
			n.mute[1].Store(true)
			n.fail(errNoRoute)
			time.Sleep(giveUp)
			synctest.Wait()
			b.notLost(t, what)
			if dials := n.dials.Load(); dials < 2 {
				t.Errorf("%s: %d connections, want more: the dialing end must have given up the first", what, dials)
			}
			if stop != nil {
				stop(n, a)
				<-b.lost
				between(t, what+": lost", began, giveUp+back, giveUp+back)
				return
			}
			<-a.lost
			between(t, what+": lost by the dialing end", began, 8*time.Second, 10*time.Second)
			givenUp := time.Since(began)
			<-b.lost // it has heard the dialing end for up to 5 s longer, unless that one has closed its last connection
			between(t, what+": lost by the accepting end", began, givenUp+back, 15*time.Second)
		})
	}
}

// The peer may have taken a hello whose answer got lost. Its connection stays open as well until there is another one.
func TestReturnAfterLostWelcome(t *testing.T) {
	bubble(t, DialConfig{Limits: Limits{Return: time.Second}}, nil, func(t *testing.T, n *network, a, b *end) {
		n.answer.Store(true)
		n.cut(nil)
		time.Sleep(time.Second)
		n.fail(errNoRoute)
		if dials := n.dials.Load(); dials != 2 {
			t.Fatalf("%d connections, want the second one, whose welcome gets lost", dials)
		}
		time.Sleep(3500 * time.Millisecond) // the wait for the welcome is over after 2.5 s
		b.notLost(t, "after the lost welcome")
		n.answer.Store(false)
		n.fail(nil)
		a.link.Send(numbered(0))
		time.Sleep(time.Minute)
		synctest.Wait()
		b.check(t, 1)
		for _, e := range []*end{a, b} {
			e.notLost(t, "in the end")
		}
	})
}

// The dialing end closes the link, but hears no answer. The accepting end, which has taken the Bye, waits for another
// connection; the Close succeeds by it.
func TestReturnAfterBye(t *testing.T) {
	bubble(t, DialConfig{Limits: Limits{Return: time.Second}}, nil, func(t *testing.T, n *network, a, b *end) {
		n.mute[1].Store(true)
		n.fail(errNoRoute)
		a.link.Send(numbered(0))
		closed := make(chan error)
		go func() { closed <- a.link.Close(time.Minute) }()
		<-b.bye
		time.Sleep(9 * time.Second)
		select {
		case <-b.link.Done():
			t.Error("the accepting end has not waited")
		default:
		}
		n.mute[1].Store(false)
		n.fail(nil)
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
		<-b.link.Done()
		b.check(t, 1)
	})
	// The accepting end closes the link, and the dialing end's word that it has taken the Bye gets lost. The Close ends
	// with the dialing process, without the rest of the lease.
	bubble(t, DialConfig{Limits: Limits{Return: time.Second}}, nil, func(t *testing.T, n *network, a, b *end) {
		n.mute[0].Store(true)
		began := time.Now()
		closed := make(chan error)
		go func() { closed <- b.link.Close(time.Minute) }()
		<-a.bye
		n.cut(errNoRoute)
		if err := <-closed; err != nil { // the Bye itself is no frame of the caller
			t.Errorf("close: %v", err)
		}
		between(t, "closed", began, time.Second, time.Second)
		<-a.link.Done()
		between(t, "the end of the dialed link", began, 2500*time.Millisecond, 2500*time.Millisecond)
		for _, e := range []*end{a, b} {
			e.notLost(t, "after Close")
		}
	})
}
