// Package faulty makes any transport worse, for tests: it cuts connections, and delays posts and events.
//
// Delays reorder what happens on different lanes, never within one. The rules of package transport hold: the end of a
// connection is the first event of its Poll, and drops all posts that the owner made before it.
//
// All faults are drawn from a seed. They depend on nothing but the seed, the calls, and what the other transport does.
package faulty

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/goshmem/goshmem/transport"
)

// Config says which faults there are.
type Config struct {
	Seed uint64
	// Log gets a line with the seed.
	Log func(format string, args ...any)
	// Cuts is the mean number of Polls after which an open lane is cut. Default: no lane is.
	Cuts int
	// Delay is the greatest number of Polls for which an event or a post is held. Default: 0.
	Delay int
}

// turn is how long a Poll waits at most while something is held.
const turn = time.Millisecond

// errFault is the cause of a cut.
var errFault = errors.New("cut by package faulty")

// Transport is a transport with faults. See transport.Transport for its methods.
type Transport struct {
	transport.Transport // Wake, WakeFD
	cfg                 Config
	rand                *rand.Rand
	lanes               []*lane // in the order of their first use
	index               map[address]*lane
	inner               []transport.Event
	given               [][]byte // data of the latest Poll
	closed              bool
	now                 int // number of the current Poll
}

// address names a lane.
type address struct {
	node int
	kind transport.Lane
}

// lane is a lane between its owner and the other transport.
type lane struct {
	address
	open   bool // for the owner
	works  bool // for the other transport
	ends   int  // held Broken and Refused events
	posts  []post
	events []event
}

// post is a held post.
type post struct {
	token uint64
	parts [][]byte
	due   int // the Poll in which it is passed on
}

// event is a held event.
type event struct {
	transport.Event
	due int // the first Poll that may report it
}

func (e *event) isEnd() bool { return e.Kind == transport.Broken || e.Kind == transport.Refused }

// New returns a transport that makes inner worse.
func New(inner transport.Transport, cfg Config) *Transport {
	if cfg.Log != nil {
		cfg.Log("faulty transport: seed %d", cfg.Seed)
	}
	return &Transport{
		Transport: inner, cfg: cfg, rand: rand.New(rand.NewPCG(cfg.Seed, 1)), index: map[address]*lane{},
	}
}

// lane returns the lane of an address, which it may make.
func (t *Transport) lane(a address) *lane {
	l := t.index[a]
	if l == nil {
		l = &lane{address: a}
		t.index[a] = l
		t.lanes = append(t.lanes, l)
	}
	return l
}

// draw returns the Poll up to which something is held.
func (t *Transport) draw() int {
	if t.cfg.Delay == 0 {
		return t.now
	}
	return t.now + t.rand.IntN(t.cfg.Delay+1)
}

// Post queues parts: see transport.Transport.
func (t *Transport) Post(node int, kind transport.Lane, token uint64, parts ...[]byte) error {
	l := t.index[address{node, kind}]
	if l == nil || t.closed {
		return t.Transport.Post(node, kind, token, parts...)
	}
	if kind == transport.In && !l.open {
		return transport.ErrNotOpen
	}
	if l.ends > 0 {
		return nil // the owner will hear that the post is dropped
	}
	due := t.draw()
	if !l.works || due == t.now && len(l.posts) == 0 {
		return t.Transport.Post(node, kind, token, parts...)
	}
	l.posts = append(l.posts, post{token, append([][]byte(nil), parts...), due})
	return nil
}

// Poll reports what has happened, with delays: see transport.Transport.
func (t *Transport) Poll(events []transport.Event, timeout time.Duration) ([]transport.Event, error) {
	for _, b := range t.given { // the owner must not use them any more
		for i := range b {
			b[i] = 0xdb
		}
	}
	t.given = t.given[:0]
	t.now++
	held, err := t.passPosts()
	if err != nil {
		return events, err
	}
	t.cutOne()
	for _, l := range t.lanes {
		held = held || len(l.events) > 0
	}
	if held && (timeout < 0 || timeout > turn) {
		timeout = turn
	}
	t.inner, err = t.Transport.Poll(t.inner[:0], timeout)
	for i := range t.inner {
		t.take(t.inner[i])
	}
	if err != nil {
		return events, err
	}
	return t.release(events), nil
}

// passPosts passes on the posts whose time has come, and returns whether some are still held.
func (t *Transport) passPosts() (held bool, err error) {
	for _, i := range t.rand.Perm(len(t.lanes)) {
		l := t.lanes[i]
		for len(l.posts) > 0 && l.posts[0].due <= t.now {
			p := l.posts[0]
			l.posts = l.posts[1:]
			if err := t.Transport.Post(l.node, l.kind, p.token, p.parts...); err != nil {
				return held, err
			}
		}
		held = held || len(l.posts) > 0
	}
	return held, nil
}

// cutOne cuts a lane now and then.
func (t *Transport) cutOne() {
	if t.cfg.Cuts == 0 || len(t.lanes) == 0 || t.rand.IntN(t.cfg.Cuts) > 0 {
		return
	}
	if l := t.lanes[t.rand.IntN(len(t.lanes))]; l.works {
		t.Transport.Cut(l.node, l.kind, errFault)
	}
}

// take holds an event of the other transport.
func (t *Transport) take(e transport.Event) {
	l := t.lane(address{e.Node, e.Lane})
	h := event{e, t.draw()}
	h.Data = append([]byte(nil), e.Data...)
	switch {
	case h.isEnd():
		l.works, l.posts = false, nil
		l.ends++
	case e.Kind == transport.Opened:
		l.works = true
	}
	l.events = append(l.events, h)
}

// release appends the held events whose time has come, lanes in any order.
func (t *Transport) release(events []transport.Event) []transport.Event {
	order := t.rand.Perm(len(t.lanes))
	for _, i := range order {
		if l := t.lanes[i]; l.isDue(t.now) && l.events[0].isEnd() {
			events = t.give(l, events)
			break // there is one end in a Poll
		}
	}
	for _, i := range order {
		l := t.lanes[i]
		for l.isDue(t.now) && !l.events[0].isEnd() {
			events = t.give(l, events)
		}
	}
	return events
}

// isDue says whether the first held event of a lane may be reported.
func (l *lane) isDue(now int) bool { return len(l.events) > 0 && l.events[0].due <= now }

// give appends the first event of a lane.
func (t *Transport) give(l *lane, events []transport.Event) []transport.Event {
	e := l.events[0]
	l.events = l.events[1:]
	switch {
	case e.isEnd():
		l.open = false
		l.ends--
	case e.Kind == transport.Opened:
		l.open = true
	}
	if len(e.Data) > 0 {
		t.given = append(t.given, e.Data)
	}
	return append(events, e.Event)
}

// Cut ends a connection: see transport.Transport.
func (t *Transport) Cut(node int, kind transport.Lane, cause error) {
	if l := t.index[address{node, kind}]; l != nil && l.ends > 0 {
		return // the owner does not know yet that it has ended
	}
	t.Transport.Cut(node, kind, cause)
}

// Close ends all connections: see transport.Transport.
func (t *Transport) Close() error {
	t.closed = true
	return t.Transport.Close()
}
