package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/control/session"
	"github.com/goshmem/goshmem/internal/wire"
)

// Limits are the bounds of a link. A zero field has its default.
type Limits struct {
	// Lease is how long the ends may be without contact before the link is lost. Default: 10 s.
	Lease time.Duration
	// Return is how long the dialing side may take to dial again after its machine has closed a connection, for the
	// accepting side. The connections of a process that ends are closed so. A living one closes none before it has the
	// next one or has given the link up, and a silent network closes none at all. Default: until the lease is over.
	Return time.Duration
	// Watermark is from how many bytes on, sent but not acknowledged, Handler.High is called. Default: 64 MiB.
	Watermark int
	// MaxQueued is how many such bytes lose the link: the peer lives, but does not take them. Default: 1 GiB.
	MaxQueued int
}

func (l Limits) withDefaults() Limits {
	if l.Lease == 0 {
		l.Lease = 10 * time.Second
	}
	if l.Watermark == 0 {
		l.Watermark = 64 << 20
	}
	if l.MaxQueued == 0 {
		l.MaxQueued = 1 << 30
	}
	return l
}

// A connection without a byte for half of the lease is broken. Each end writes something four times in that time.
func (l Limits) silence() time.Duration   { return l.Lease / 2 }
func (l Limits) keepalive() time.Duration { return l.Lease / 8 }

// linger is how long an end that has taken the peer's Bye keeps trying to tell it so.
func (l Limits) linger() time.Duration { return l.Lease / 4 }

// Handler is what a link calls. A nil function is not called.
//
// All but High are called by one goroutine, so never at the same time. They may call Send and Abort. They must
// not call Close, which waits for them, and must not block for longer than a small part of the lease: nothing is
// received meanwhile. None is called after Close has returned without an error.
type Handler struct {
	// Take gets each frame of the peer, in order, each once.
	Take func(f wire.Frame)
	// Bye says that the peer has closed the link: it is the last call.
	Bye func()
	// Lost says that the peer was not reached for the lease, or refuses the link: it is the last call. It is not called
	// after Bye, and not once Close or Abort was called.
	Lost func(err error)
	// Broken says that the connection has broken, which the peer has not replaced before. The link may get another one: Back
	// says so, or it is lost. Broken is not called once Close or Abort was called, or the peer has closed the link.
	Broken func()
	// Back says that the link has a connection again, after Broken.
	Back func()
	// High says that the bytes sent but not acknowledged have passed Limits.Watermark. It is called by the Send that
	// does so, and again only after they have been below half of it.
	High func(bytes int)
}

// Link is one end of a link to another process.
type Link struct {
	limits  Limits
	self    Identity
	session uint64
	dialer  *dialer     // nil on the accepting side
	only    bool        // it can have one connection: its end is that of the link
	onEnd   func(*Link) // called when the link has ended, before done is closed

	ctx     context.Context // ends what waits for a connection
	cancel  context.CancelFunc
	wake    chan struct{} // has a token when the writer has to look
	offered chan struct{} // has a token when waiting was set
	done    chan struct{} // closed when the link has ended and no function of the handler runs

	mu      sync.Mutex
	frames  session.Session
	peer    Identity
	addr    string     // the peer's address on the last connection
	local   netip.Addr // see Local
	handler Handler
	first   *connection   // of a dialed link that was not started
	current *connection   // the one that is read and written
	waiting *offer        // a new connection, which replaces current
	attempt uint32        // the last one that was offered
	started bool          // Start was called
	high    bool          // High was called, and half of the watermark was not passed since
	ackNow  bool          // the peer waits for an acknowledgment
	closing bool          // Close was called: a Bye is the last frame
	flushed bool          // the peer has taken the Bye, so everything
	peerBye bool          // the peer's Bye was taken
	peerEnd bool          // the peer knows that, and has ended the link
	ended   bool          // no connection is wanted any more
	fatal   error         // why the link ends although the peer may live; nil if it does not
	held    bool          // no time counts, see Hold
	wanted  *hold         // the last Hold that was called, before Go; nil: none
	turned  chan struct{} // has a token when held has changed
}

// hold is a Hold whose frame the peer has to take.
type hold struct {
	number uint64        // of the frame
	taken  chan struct{} // closed when the peer has taken it
}

// offer is a connection that the peer has made for a link, with its hello.
type offer struct {
	c     *connection
	hello hello
}

// Streams of Bye. The first is a frame of the link, numbered as all. The second is the last word on a connection,
// without a number: the sender knows that its Bye was taken.
const (
	byeStream   = 0
	byeEndsLink = 1
)

// ownKinds are the kinds that only links send.
const (
	firstOwnKind = wire.KindHello
	lastOwnKind  = wire.KindHello | 0xff
)

// batchBytes is from how many bytes on the writer adds no further frame to what it writes at once.
const batchBytes = 64 << 10

var (
	errReplaced = errors.New("peer has made a new connection")
	errEnded    = errors.New("link has ended")
	errAborted  = errors.New("link was aborted")
	errUnheard  = errors.New("peer has not answered the last word in time")
)

func newLink(self Identity, limits Limits, number uint64) *Link {
	l := &Link{
		limits: limits.withDefaults(), self: self, session: number,
		wake: make(chan struct{}, 1), offered: make(chan struct{}, 1), turned: make(chan struct{}, 1), done: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Peer returns what the peer has said about itself.
func (l *Link) Peer() Identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peer
}

// Addr returns the peer's address on the current connection, or on the last one.
func (l *Link) Addr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addr
}

// Local returns this side's address on the first connection of a link that was dialed; the zero Addr: the connection was
// no network's.
func (l *Link) Local() netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.local
}

// Queued returns how many frames were sent but not acknowledged, and their bytes.
func (l *Link) Queued() (frames, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frames.Kept()
}

// Done is closed when the link has ended, for whatever reason, and no function of the handler runs.
func (l *Link) Done() <-chan struct{} { return l.done }

// Broken returns a channel that is closed when the link has no connection, for a moment or for good. A link that was
// started just now has none yet.
func (l *Link) Broken() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.waiting != nil: // it replaces current
		return l.waiting.c.stop
	case l.current != nil:
		return l.current.stop
	default:
		return closedChannel
	}
}

// closedChannel is closed.
var closedChannel = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Start begins to take frames. A link that was dialed must be started once, and soon: until then the peer hears nothing.
// A link that was accepted is started by its listener.
func (l *Link) Start(h Handler) {
	if !l.start(h) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.closing && l.fatal == nil { // Close and Abort may come before
			panic("control: link started twice")
		}
	}
}

func (l *Link) start(h Handler) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started {
		return false
	}
	l.started, l.handler = true, h
	go l.run(l.first)
	l.first = nil
	return true
}

// Send queues a frame for the peer. It never blocks. The link keeps the body, which must not change, until the peer has
// taken it. Frames are taken in the order of the calls. After Close, Bye or Lost it does nothing.
//
// It panics if the frame is one that no link carries: a body above wire.MaxBody, or a kind of the links themselves.
func (l *Link) Send(f wire.Frame) {
	if len(f.Body) > wire.MaxBody {
		panic(fmt.Sprintf("control: frame of kind %#x has %d bytes, want at most %d", f.Kind, len(f.Body), wire.MaxBody))
	}
	if f.Kind >= firstOwnKind && f.Kind <= lastOwnKind {
		panic(fmt.Sprintf("control: frame has kind %#x, want none of the links' own", f.Kind))
	}
	l.mu.Lock()
	if l.closing || l.ended || l.fatal != nil {
		l.mu.Unlock()
		return
	}
	l.frames.Push(f)
	_, bytes := l.frames.Kept()
	report := bytes >= l.limits.Watermark && !l.high
	if report {
		l.high = true
	}
	if bytes > l.limits.MaxQueued {
		l.fail(fmt.Errorf("%d bytes wait for the peer, want at most %d", bytes, l.limits.MaxQueued))
	}
	high := l.handler.High
	l.mu.Unlock()
	l.signal()
	if report && high != nil {
		high(bytes)
	}
}

// Leave is the first half of Close: it says Bye after all frames that were sent, and does not wait. Nothing is sent any more.
func (l *Link) Leave() {
	l.mu.Lock()
	if !l.closing && !l.ended && l.fatal == nil {
		l.closing = true
		l.frames.Push(wire.Frame{Kind: wire.KindBye, Stream: byeStream})
	}
	l.mu.Unlock()
	l.signal()
}

// Close says Bye after all frames that were sent, waits until the peer has taken them, and ends the link. If that takes
// longer than within, or the peer is lost or has closed the link before, the error says how much was not acknowledged.
func (l *Link) Close(within time.Duration) error {
	l.Leave()
	l.start(Handler{}) // if nobody has
	l.signal()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-l.done:
	case <-late.C:
		l.abort(errUnheard) // the Bye may still arrive
		late.Reset(within + time.Second)
		select {
		case <-l.done:
		case <-late.C:
			return fmt.Errorf("close link to node %d: a function of its handler does not return", l.Peer().Node)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n, _ := l.frames.Kept()
	if l.closing {
		n-- // the Bye itself, which is the last
	}
	if n > 0 {
		return fmt.Errorf("close link to node %d at %s: %d frames were not acknowledged", l.peer.Node, l.addr, n)
	}
	return nil
}

// Abort ends the link at once, without a word to the peer and without a call of Lost. What was sent and has not arrived does not
// arrive any more: a peer that is given up because its network is cut must not get it when that is whole again.
func (l *Link) Abort() { l.abort(errAborted) }

// abort ends the link at once because of err.
func (l *Link) abort(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(err)
	if !l.started { // nobody runs it
		l.started = true
		if l.first != nil {
			l.first.close(err)
		}
		go l.finish()
	}
}

// fail ends the link because of err. The caller holds the lock.
func (l *Link) fail(err error) {
	if l.fatal == nil {
		l.fatal = err
	}
	l.cancel()
	if l.current != nil {
		l.current.close(l.fatal)
	}
}

func (l *Link) signal() { put(l.wake) }

// put puts a token into a channel that has room for one.
func put(tokens chan<- struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}
