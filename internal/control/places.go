package control

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// A listener has maxPending places for connections in their handshake. While all are taken, a new connection needs the
// place of another one:
//
//   - It is a place of the peer address that has most of them: there the oldest connection that has said nothing, or
//     else the oldest one. A process of the job speaks at once, and its handshake takes some milliseconds.
//   - An address with more than fairShare places loses one at once to a connection of another address, and for one of
//     its own if there is a connection that has said nothing. Else the new connection is closed: a process of the job
//     dials again, and would only take the place of another such process.
//   - If no address has so many, the place is free after silentGrace or grace. The new connection waits until then, and
//     with it those behind it in the queue of the socket.
//
// So strangers of a few addresses can fill the places, but do not delay a process of another address. One of their own
// address, or of any if they have many addresses, comes in like one of them.
const (
	maxPending  = 64
	fairShare   = 8
	silentGrace = 100 * time.Millisecond
	grace       = 500 * time.Millisecond
)

// admit lets a connection begin its handshake, waits until it may, or closes it.
func (ln *Listener) admit(raw net.Conn) {
	m := newMeter(raw, newBytes)
	look := time.NewTimer(silentGrace / 4)
	defer look.Stop()
	for !ln.tryAdmit(m) {
		select {
		case <-look.C:
			look.Reset(silentGrace / 4)
		case <-ln.room:
		case <-ln.stop:
			m.Close() //nolint:errcheck // nothing was said yet
			return
		}
	}
}

// tryAdmit gives a connection a place or closes it, and returns whether it has done so.
func (ln *Listener) tryAdmit(m *meter) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return false // admit sees it as well
	}
	if len(ln.pending) >= maxPending {
		i, places := ln.weakest()
		old := ln.pending[i]
		silent, age := old.heard.Load() == 0, time.Since(old.began)
		crowd := places > fairShare
		switch {
		case crowd && (silent || old.from != m.from), silent && age >= silentGrace, age >= grace:
			old.Close() //nolint:errcheck // its task reports
			ln.pending = slices.Delete(ln.pending, i, i+1)
		case crowd:
			m.Close() //nolint:errcheck // nothing was said yet
			ln.lines.add(fmt.Sprintf("connection from %v: closed, as %d connections were in their handshake, %d of them from there", m.RemoteAddr(), maxPending, places))
			return true
		default:
			return false
		}
	}
	m.began = time.Now()
	ln.pending = append(ln.pending, m)
	ln.unheard[m] = true
	ln.tasks.Go(func() { ln.greet(m) })
	return true
}

// weakest returns which pending connection loses its place next, and how many places its address has.
func (ln *Listener) weakest() (index, places int) {
	counts := map[netip.Addr]int{}
	for _, m := range ln.pending {
		counts[m.from]++
		places = max(places, counts[m.from])
	}
	index = -1
	for i, m := range ln.pending { // the oldest first
		if counts[m.from] < places {
			continue
		}
		if m.heard.Load() == 0 {
			return i, places
		}
		if index < 0 {
			index = i
		}
	}
	return index, places
}

// leave removes a connection from those in their handshake, and says whether it was still one of them.
func (ln *Listener) leave(m *meter) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	i := slices.Index(ln.pending, m)
	if i < 0 {
		return false
	}
	ln.pending = slices.Delete(ln.pending, i, i+1)
	select {
	case ln.room <- struct{}{}:
	default:
	}
	return true
}
