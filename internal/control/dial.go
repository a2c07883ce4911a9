package control

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
)

// DialConfig says how to make a link.
type DialConfig struct {
	Secret Secret
	// Self is sent to the peer. A zero Job and a Node of AnyNode stand for "not known yet".
	Self Identity
	// Peer is the node that must answer, or AnyNode. Private addresses mean other machines on other networks, so the
	// first that answers need not be the right one.
	Peer int32
	// Addrs are the peer's addresses, the best first.
	Addrs []netip.AddrPort
	Limits
	// Within bounds the first connection. Default: 30 s.
	Within time.Duration
	// Attempt bounds a single connection, its handshakes included. Default: 5 s, and at most a quarter of the
	// lease after the first connection.
	Attempt time.Duration
	// Redial is for how long a broken connection is dialed again. Default: until the peer was not heard for the lease,
	// but at least half of it.
	Redial time.Duration
	// RefusedIsLost says that the peer listens for as long as it lives. If the address of the broken connection then
	// refuses a new one, the link is lost at once. So it is at first if no address takes a connection.
	RefusedIsLost bool
	// Conn is the only connection that the link can have, instead of those to Addrs: its end is that of the link. The
	// peer has it from Listener.Adopt. Optional.
	Conn net.Conn
	// Connect makes a connection instead of TCP from this network namespace. Optional.
	Connect func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
}

// Times of dialing.
const (
	dialStagger  = 250 * time.Millisecond // between an address and the next one while none has answered or failed
	dialPause    = 10 * time.Millisecond  // after the first round of all addresses; twice as long after each further one
	dialMaxPause = time.Second
	heldAttempt  = 10 * time.Minute // for the handshake of a peer whose process may be stopped
)

// Dial makes a link to the process that listens at one of the addresses. The link takes frames after Start.
//
// Addresses are tried again until cfg.Within or ctx ends, as the peer may be busy with strangers or may not listen yet.
// A process that answers but has another secret at each address, or that refuses the link, ends that at once. The error
// lists each address and why it did not do.
func Dial(ctx context.Context, cfg DialConfig) (*Link, error) {
	if len(cfg.Addrs) == 0 && cfg.Conn == nil {
		return nil, errors.New("dial: there is no address")
	}
	if cfg.Within == 0 {
		cfg.Within = 30 * time.Second
	}
	if cfg.Attempt == 0 {
		cfg.Attempt = 5 * time.Second
	}
	t, err := cfg.Secret.tlsConfig()
	if err != nil {
		return nil, err
	}
	l := newLink(cfg.Self, cfg.Limits, randomSession())
	cfg.Limits = l.limits
	l.only = cfg.Conn != nil
	l.dialer = &dialer{cfg: cfg, tls: t, isHeld: l.isHeld, reached: func() { put(l.turned) }}
	ctx, cancel := context.WithTimeout(ctx, cfg.Within)
	defer cancel()
	next := func() hello {
		l.attempt++
		return hello{Identity: cfg.Self, Session: l.session, Attempt: l.attempt}
	}
	c, w, err := l.dialer.begin(ctx, next)
	if err != nil && w.Ended && cfg.Conn == nil { // an earlier hello has made a link, whose welcome was late by the lease
		l.session, l.attempt = randomSession(), 0
		c, w, err = l.dialer.connect(ctx, false, next)
	}
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	if err := l.frames.Resume(w.Received); err != nil {
		c.close(err)
		return nil, fmt.Errorf("dial %s: %w", c.peer, err)
	}
	l.peer, l.addr, l.local, l.first = w.Identity, c.peer, c.local, c
	return l, nil
}

func randomSession() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// refusedError says that the peer has refused a link.
type refusedError struct{ addr, text string }

func (e *refusedError) Error() string { return fmt.Sprintf("%s refuses the link: %s", e.addr, e.text) }

// dialer makes the connections of a link, one after the other.
type dialer struct {
	cfg     DialConfig
	tls     *tls.Config
	last    netip.AddrPort // the address of the last connection that became one of the link
	isHeld  func() bool    // says whether the peer's process may be stopped
	waits   atomic.Int32   // connections that the peer's machine has taken while the link was held, and whose handshake is not over
	reached func()         // called when the handshake of such a connection is over
}

// begin makes the first connection and says hello on it.
func (d *dialer) begin(ctx context.Context, next func() hello) (*connection, welcome, error) {
	if d.cfg.Conn == nil {
		return d.connect(ctx, false, next)
	}
	c, err := d.shakeHands(ctx, d.cfg.Conn)
	if err != nil {
		return nil, welcome{}, err
	}
	w, err := d.greet(ctx, c, d.cfg.Within, next())
	if err != nil {
		c.close(err)
		return nil, w, err
	}
	return c, w, nil
}

// connect makes a connection and says hello on it, until ctx ends or it is clear that there will be none. The peer's
// welcome is valid with an error, too, if it says that the link has ended. A caller that is leaving takes a refused
// connection for the end of the peer.
func (d *dialer) connect(ctx context.Context, leaving bool, next func() hello) (*connection, welcome, error) {
	began := time.Now()
	attempt := d.cfg.Attempt
	if d.last.IsValid() {
		attempt = min(attempt, d.cfg.Lease/4) // a second one fits into what is left of the lease
	}
	why := map[netip.AddrPort]error{}
	var said []*connection // those with a hello, which the peer may have taken for the connection of the link
	defer func() {
		for _, c := range said {
			c.close(errReplaced)
		}
	}()
	for pause := dialPause; ; pause = min(2*pause, dialMaxPause) {
		addrs := d.order()
		for len(addrs) > 0 { // ends: each turn takes an address away
			c, addr := d.race(ctx, attempt, addrs, why)
			if c == nil {
				break
			}
			w, err := d.greet(ctx, c, attempt, next())
			if err == nil {
				d.last = addr
				return c, w, nil
			}
			if c.end(err); wasClosed(err) {
				c.close(err)
			} else {
				said = append(said, c) // its end would tell the peer that this process has ended
			}
			if refused := (*refusedError)(nil); errors.As(err, &refused) {
				return nil, w, err
			}
			why[addr] = err
			addrs = slices.DeleteFunc(addrs, func(a netip.AddrPort) bool { return a == addr })
		}
		if ctx.Err() == nil && !d.hopeless(leaving, why) {
			wait := time.NewTimer(pause)
			select {
			case <-wait.C:
				continue
			case <-ctx.Done():
				wait.Stop()
			}
		}
		return nil, welcome{}, d.explain(ctx, time.Since(began), why)
	}
}

// order returns the addresses, that of the last connection first.
func (d *dialer) order() []netip.AddrPort {
	var addrs []netip.AddrPort
	if d.last.IsValid() {
		addrs = append(addrs, d.last)
	}
	for _, a := range d.cfg.Addrs {
		if !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// hopeless reports whether another round would end as the last one.
func (d *dialer) hopeless(leaving bool, why map[netip.AddrPort]error) bool {
	if d.last.IsValid() && (leaving || d.cfg.RefusedIsLost) && errors.Is(why[d.last], syscall.ECONNREFUSED) {
		return true
	}
	first := d.cfg.RefusedIsLost && !d.last.IsValid()
	for _, a := range d.order() {
		dead := first && errors.Is(why[a], syscall.ECONNREFUSED)
		if !dead && !errors.Is(why[a], errStranger) {
			return false
		}
	}
	return true
}

// explain makes an error of what failed at each address.
func (d *dialer) explain(ctx context.Context, took time.Duration, why map[netip.AddrPort]error) error {
	var texts []string
	var causes []any
	for _, a := range d.order() {
		err := why[a]
		if err == nil {
			if err = context.Cause(ctx); err == nil {
				err = errors.New("was not tried")
			}
		}
		texts = append(texts, a.String()+": %w")
		causes = append(causes, err)
	}
	return fmt.Errorf("no link after %v: "+strings.Join(texts, "; "), append([]any{took.Round(time.Millisecond)}, causes...)...)
}

// opened is what became of an attempt to make a connection.
type opened struct {
	addr netip.AddrPort
	c    *connection
	err  error
}

// race makes a connection to one of the addresses, and proves that its peer has the secret. It starts with the first
// address. The next one joins in when one fails or after a while. It notes why an address failed.
//
// Connections that come too late end their handshake before they are closed, for the listener would report one that breaks
// in it as a stranger's. Nobody waits for them.
func (d *dialer) race(ctx context.Context, attempt time.Duration, addrs []netip.AddrPort, why map[netip.AddrPort]error) (*connection, netip.AddrPort) {
	dials, stopDials := context.WithCancel(ctx)
	defer stopDials()
	handshakes, stopHandshakes := context.WithCancelCause(context.WithoutCancel(ctx))
	letThemEnd := context.AfterFunc(ctx, func() { stopHandshakes(context.Cause(ctx)) })
	results := make(chan opened, len(addrs))
	running := 0
	stagger := time.NewTimer(dialStagger)
	defer stagger.Stop()
	start := func() {
		if len(addrs) == 0 || ctx.Err() != nil {
			return
		}
		addr := addrs[0]
		addrs = addrs[1:]
		running++
		stagger.Reset(dialStagger)
		go func() {
			c, err := d.open(dials, handshakes, attempt, addr)
			results <- opened{addr, c, err}
		}()
	}
	start()
	var winner opened
	for winner.c == nil && running > 0 {
		select {
		case <-stagger.C:
			start()
		case r := <-results:
			running--
			if r.err == nil {
				winner = r
				break
			}
			if why[r.addr] == nil || ctx.Err() == nil { // an earlier error says more than the end of the time
				why[r.addr] = r.err
			}
			start()
		}
	}
	letThemEnd()
	go closeLate(results, running, stopHandshakes)
	return winner.c, winner.addr
}

// closeLate closes the connections of a race that is over, and calls stop after the last one.
func closeLate(results <-chan opened, running int, stop context.CancelCauseFunc) {
	defer stop(nil)
	for range running {
		if r := <-results; r.c != nil {
			r.c.close(errReplaced)
		}
	}
}

// open makes a connection to an address and does the TLS handshake. Each has a context, and both together the time of an
// attempt.
func (d *dialer) open(dials, handshakes context.Context, attempt time.Duration, addr netip.AddrPort) (*connection, error) {
	until := time.Now().Add(attempt)
	dials, cancel := context.WithDeadline(dials, until)
	defer cancel()
	connect := d.cfg.Connect
	if connect == nil {
		connect = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			var n net.Dialer
			return n.DialContext(ctx, "tcp", addr.String())
		}
	}
	raw, err := connect(dials, addr)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) && op.Err != nil { // the address is said already
			err = op.Err
		}
		return nil, fmt.Errorf("connect: %w", err)
	}
	if d.isHeld() {
		until = time.Now().Add(heldAttempt)
		d.waits.Add(1)
		defer d.waits.Add(-1)
		defer d.reached() // before the line above
	}
	handshakes, cancelHandshake := context.WithDeadline(handshakes, until)
	defer cancelHandshake()
	return d.shakeHands(handshakes, raw)
}

// shakeHands does the TLS handshake on a connection, which it closes after an error.
func (d *dialer) shakeHands(ctx context.Context, raw net.Conn) (*connection, error) {
	m := newMeter(raw, newBytes)
	t := tls.Client(m, d.tls)
	if err := t.HandshakeContext(ctx); err != nil {
		m.Close() //nolint:errcheck // the handshake's error says more
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return newConnection(m, t), nil
}

// greet says hello and reads the welcome, unless ctx ends before.
func (d *dialer) greet(ctx context.Context, c *connection, attempt time.Duration, h hello) (w welcome, err error) {
	stop := context.AfterFunc(ctx, func() { c.close(context.Cause(ctx)) })
	defer func() {
		if !stop() {
			err = fmt.Errorf("wait for the welcome: %w", context.Cause(ctx))
		}
	}()
	if err := c.raw.SetReadDeadline(time.Now().Add(attempt)); err != nil {
		return w, err
	}
	h.To = d.cfg.Peer
	f := h.frame()
	if err := c.write(f.Append(nil), attempt); err != nil {
		return w, fmt.Errorf("write hello: %w", err)
	}
	body, err := c.expect(wire.KindWelcome, "welcome")
	if err != nil {
		return w, err
	}
	if w, err = parseWelcome(body); err != nil {
		return w, fmt.Errorf("read %w", err)
	}
	switch {
	case d.cfg.Peer != AnyNode && w.Node != d.cfg.Peer:
		return welcome{}, fmt.Errorf("node %d answers, want node %d", w.Node, d.cfg.Peer)
	case w.Refusal != "" || w.Ended:
		return w, &refusedError{c.peer, w.Refusal}
	case w.Session != h.Session:
		return w, fmt.Errorf("read welcome: session is %#x, want %#x", w.Session, h.Session)
	}
	return w, c.begin(d.cfg.silence())
}
