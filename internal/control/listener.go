package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/wire"
)

// ListenConfig says what a listener accepts.
type ListenConfig struct {
	Secret Secret
	// Self is what the peers are told. Their Job must be the same if it is known, and their Build always.
	Self Identity
	// Addrs are the addresses to listen at. Those that cannot be used are left out.
	Addrs []netip.Addr
	// Ports are the ports to choose from. The zero value leaves the choice to the kernel.
	Ports PortRange
	Limits
	// Accept is called for each new link, and returns what the link calls. It may send already, and must not wait for
	// the peer. An error is sent to the peer, which then has no link. Several calls may run at the same time.
	Accept func(l *Link) (Handler, error)
	// Report gets a line for a connection that was closed because its peer is not of the job or does not behave. There
	// are at most 10 such lines in 10 s, and then one that counts the others. Optional. It may block: then lines are left
	// out, and Close returns after a second although the last call has not.
	Report func(line string)
	// Handshake bounds the time until a connection's hello has come. Default: 2 s.
	Handshake time.Duration
}

// errLeft says that a process of the job has closed a connection before its hello: another address has answered first.
var errLeft = errors.New("connection was not needed")

// Listener accepts the links that other processes of the job dial.
type Listener struct {
	cfg   ListenConfig
	tls   *tls.Config
	on    []net.Listener
	lines lines
	stop  chan struct{} // closed by Close
	room  chan struct{} // has a token when a connection has left pending
	tasks sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	pending []*meter        // the connections in their handshake, the oldest first
	unheard map[*meter]bool // these, and those whose hello has not come yet
	links   map[uint64]*Link
	gone    map[uint64]uint64 // ended links: how many frames of the peer they had taken
}

// Listen listens at the addresses of cfg. It reports each that cannot be used, such as an IPv6 address that the kernel
// still checks for duplicates, and fails if none can.
func Listen(cfg ListenConfig) (*Listener, error) {
	if len(cfg.Addrs) == 0 {
		return nil, errors.New("listen: there is no address")
	}
	var on []net.Listener
	var unusable []error
	for _, a := range cfg.Addrs {
		l, err := listenAt(a, cfg.Ports)
		if err != nil {
			unusable = append(unusable, err)
			continue
		}
		on = append(on, l)
	}
	if len(on) == 0 {
		return nil, joinErrors(unusable)
	}
	ln, err := NewListener(cfg, on)
	if err != nil {
		return nil, err
	}
	for _, err := range unusable {
		ln.lines.add(fmt.Sprintf("%v; %d of %d addresses are left", err, len(on), len(cfg.Addrs)))
	}
	return ln, nil
}

// joinErrors makes one line of errors.
func joinErrors(errs []error) error {
	texts, causes := make([]string, len(errs)), make([]any, len(errs))
	for i, err := range errs {
		texts[i], causes[i] = "%w", err
	}
	return fmt.Errorf(strings.Join(texts, "; "), causes...)
}

// NewListener accepts links from listening sockets, which it owns from then on. There may be none, see Adopt. cfg.Addrs and
// cfg.Ports mean nothing.
func NewListener(cfg ListenConfig, on []net.Listener) (*Listener, error) {
	if cfg.Handshake == 0 {
		cfg.Handshake = 2 * time.Second
	}
	cfg.Limits = cfg.withDefaults()
	t, err := cfg.Secret.tlsConfig()
	if err != nil {
		return nil, err
	}
	ln := &Listener{
		cfg: cfg, tls: t, on: on, stop: make(chan struct{}), room: make(chan struct{}, 1),
		lines:   lines{report: cfg.Report, window: lineWindow},
		unheard: map[*meter]bool{}, links: map[uint64]*Link{}, gone: map[uint64]uint64{},
	}
	for _, l := range on {
		ln.tasks.Go(func() { ln.accept(l) })
	}
	return ln, nil
}

// Addrs returns the addresses with their ports, in the order of ListenConfig.Addrs and without those that cannot be used.
func (ln *Listener) Addrs() []netip.AddrPort {
	var addrs []netip.AddrPort
	for _, l := range ln.on {
		if t, ok := l.Addr().(*net.TCPAddr); ok {
			a := t.AddrPort()
			addrs = append(addrs, netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
		}
	}
	return addrs
}

// Close stops listening and closes the connections that are in their handshake. The links stay, but their peers cannot
// connect again. It waits for calls of Accept, which must not call it, and for a short time for Report.
func (ln *Listener) Close() {
	ln.mu.Lock()
	if !ln.closed {
		ln.closed = true
		close(ln.stop)
		for _, l := range ln.on {
			l.Close() //nolint:errcheck // nobody can do anything about it
		}
		for m := range ln.unheard {
			m.Close() //nolint:errcheck // nobody can do anything about it
		}
	}
	ln.mu.Unlock()
	ln.tasks.Wait()
	ln.lines.stop()
}

// accept accepts connections from a socket until the listener is closed.
func (ln *Listener) accept(on net.Listener) {
	const least, most = 5 * time.Millisecond, time.Second
	for pause := least; ; {
		raw, err := on.Accept()
		if err == nil {
			pause = least
			ln.admit(raw)
			continue
		}
		select {
		case <-ln.stop:
			return
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			ln.lines.add(fmt.Sprintf("%v: the socket was closed", on.Addr()))
			return
		}
		ln.lines.add(fmt.Sprintf("accept a connection: %v", err)) // too many open files, for instance
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
			pause = min(2*pause, most)
		case <-ln.stop:
			wait.Stop()
			return
		}
	}
}

// Adopt takes a connection that has come otherwise than by a socket, and that its link can have alone: its end is that of
// the link. The peer has to be ready for its hello.
func (ln *Listener) Adopt(raw net.Conn) {
	m := newMeter(raw, newBytes)
	m.only = true
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		m.Close() //nolint:errcheck // nothing was said yet
		return
	}
	ln.unheard[m] = true
	ln.tasks.Go(func() { ln.greet(m) })
}

// greet does the handshake of a connection, reads its hello and gives it to its link.
func (ln *Listener) greet(m *meter) {
	c, h, pending, err := ln.handshake(m)
	ln.mu.Lock()
	delete(ln.unheard, m)
	ln.mu.Unlock()
	if err != nil {
		m.Close() //nolint:errcheck // the connection is over
		select {
		case <-ln.stop:
			return
		default:
		}
		if errors.Is(err, errLeft) {
			return
		}
		if !pending {
			err = fmt.Errorf("closed for another one, as %d connections were in their handshake", maxPending)
		}
		ln.lines.add(fmt.Sprintf("connection from %v: %v", m.RemoteAddr(), err))
		return
	}
	w := ln.place(c, h)
	if w == nil {
		return
	}
	f := w.frame()
	err = c.write(f.Append(nil), ln.cfg.Handshake)
	if err == nil { // the peer closes first, else its kernel could drop the welcome
		c.raw.SetReadDeadline(time.Now().Add(ln.cfg.Handshake)) //nolint:errcheck // the read fails instead
		c.in.ReadByte()                                         //nolint:errcheck // only the end of the connection can come
	}
	c.close(errEnded)
	if w.Refusal != "" && !w.Ended { // the end of a link is told where it matters
		ln.lines.add(fmt.Sprintf("connection from %s, node %d: refused: %s", c.peer, h.Node, w.Refusal))
	}
}

// handshake does what may last for cfg.Handshake. It says whether the connection has kept its place for as long as it
// needed one: after TLS the peer is of the job.
func (ln *Listener) handshake(m *meter) (c *connection, h hello, pending bool, err error) {
	within := ln.cfg.Handshake
	if m.only { // it is no stranger's, and may have a long way
		within = max(within, ln.cfg.Lease)
	}
	until := time.Now().Add(within)
	if err := m.SetDeadline(until); err != nil {
		return nil, h, ln.leave(m), err
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	t := tls.Server(m, ln.tls)
	err = t.HandshakeContext(ctx)
	pending = ln.leave(m) || m.only
	if err != nil {
		return nil, h, pending, fmt.Errorf("TLS handshake: %w", err)
	}
	c = newConnection(m, t)
	body, err := c.expect(wire.KindHello, "hello")
	switch {
	case errors.Is(err, io.EOF):
		return nil, h, pending, errLeft
	case err != nil:
		return nil, h, pending, err
	}
	if h, err = parseHello(body); err != nil {
		return nil, h, pending, fmt.Errorf("read %w", err)
	}
	return c, h, pending, nil
}

// place gives a connection to its link. If there is none, it returns what to tell the peer, if anything.
func (ln *Listener) place(c *connection, h hello) *welcome {
	w := &welcome{Identity: ln.cfg.Self, Session: h.Session}
	if w.Refusal = ln.refusal(&h); w.Refusal != "" {
		return w
	}
	o := &offer{c, h}
	ln.mu.Lock()
	l, known := ln.links[h.Session]
	received, ended := ln.gone[h.Session]
	if !known && !ended && !h.Resume && !ln.closed {
		l = newLink(ln.cfg.Self, ln.cfg.Limits, h.Session)
		l.peer, l.addr, l.only, l.onEnd = h.Identity, c.peer, c.raw.only, ln.forget
		ln.links[h.Session] = l
	}
	ln.mu.Unlock()
	switch {
	case l != nil:
		if !l.offer(o) { // the peer has made a later connection, or the link is about to be among those that are gone
			c.close(errReplaced)
			return nil
		}
		if !known {
			ln.begin(l)
		}
		return nil
	case ended:
		w.Ended, w.Received, w.Refusal = true, received, "the link has ended"
	default:
		w.Refusal = "the link is not known"
	}
	return w
}

// refusal says why the peer gets no link, or nothing.
func (ln *Listener) refusal(h *hello) string {
	self := &ln.cfg.Self
	switch {
	case h.To != AnyNode && h.To != self.Node:
		return fmt.Sprintf("this is node %d, not node %d", self.Node, h.To)
	case h.Job != self.Job && h.Job != [16]byte{}:
		return fmt.Sprintf("this is job %x, not job %x", self.Job, h.Job)
	case h.Build != self.Build:
		return fmt.Sprintf("oshrun has build %q here and %q there; the same is needed on all nodes", self.Build, h.Build)
	}
	return ""
}

// begin asks the owner of the listener about a new link, and starts it.
func (ln *Listener) begin(l *Link) {
	h, err := ln.cfg.Accept(l)
	if err == nil {
		l.Start(h)
		return
	}
	l.mu.Lock()
	o := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	if o != nil {
		w := welcome{Identity: l.self, Session: l.session, Refusal: err.Error()}
		f := w.frame()
		if bad := o.c.write(f.Append(nil), ln.cfg.Handshake); bad == nil {
			o.c.in.ReadByte() //nolint:errcheck // the peer closes first; the deadline of the handshake holds still
		}
		o.c.close(err)
	}
	l.Abort()
}

// forget notes that a link has ended.
func (ln *Listener) forget(l *Link) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	delete(ln.links, l.session)
	ln.gone[l.session] = l.frames.Received() // nobody changes it any more
}
