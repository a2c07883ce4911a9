package detector

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/detector/bmg"
	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
	"github.com/goshmem/goshmem/internal/hook"
	"github.com/goshmem/goshmem/internal/xunix"
)

const (
	millisecond = int64(time.Millisecond)

	// newsTick is the time between the ticks of package bmg, and newsResend how many of them a neighbor has to acknowledge
	// a payload.
	newsTick   = 10 * millisecond
	newsResend = 3

	// lateness is how late a turn may be without being counted as late.
	lateness = millisecond

	// mostDrained bounds the datagrams that one turn reads, so that a flood of them does not stop the time. It is more than
	// a socket holds: a receive buffer of 8 MB has room for 10,922, as the kernel counts at least 768 bytes for each. So all
	// that came before the turn are read in it.
	mostDrained = 1 << 14

	mostInDatagram = 1 << 16
)

// Detector watches other nodes for its own.
type Detector struct {
	cfg    Config
	link   link
	ring   *ring.Machine
	news   *bmg.Machine
	teller hook.Teller
	began  time.Time

	// Of the goroutine that turns.
	fd       int // during a turn
	now      int64
	in       []byte
	from     xunix.SocketAddress // of the datagram that was read last
	body     []byte
	actions  []ring.Action
	spreads  []bmg.Action
	fences   []fence
	relays   relays
	newsNext int64 // when the next tick of package bmg is due
	newsIdle int   // ticks of package bmg since it last sent something
	accused  bool
	suspects bool
	turnFunc func(fd uintptr)
	turnErr  error

	mu     sync.Mutex
	queue  []request
	spare  []request // the queue before, for its memory
	event  int       // an eventfd; -1 when closed
	closed bool
	ended  sync.Once
	done   chan struct{}

	counts counts
}

// request is something that another goroutine wants the detector to do.
type request struct {
	kind    requestKind
	node    ring.Node
	inc     uint32
	payload bmg.Payload
}

type requestKind uint8

const (
	suspectNode requestKind = 1 + iota
	loseNode
	reportPE
)

// Stats count what a Detector has done since its start.
type Stats struct {
	Pings       uint64 // sent, for itself or others
	Answers     uint64 // received, to own pings
	Suspicions  uint64 // times at which the first of some open suspicions began
	Accusations uint64
	Reports     uint64 // delivered, own ones among them
	Late        uint64 // turns more than 1 ms behind their time
	Latest      time.Duration
	Received    uint64 // datagrams of the job
	Strangers   uint64 // datagrams that are not of the job, or whose MAC is wrong
	Errors      uint64 // datagrams that could not be sent or received
}

// counts are the Stats as they are counted.
type counts struct {
	pings, answers, suspicions, accusations, reports, late, received, strangers atomic.Uint64
	latest                                                                      atomic.Int64
}

// Start starts to watch. All nodes must answer pings from now on. On an error the caller keeps the socket.
func Start(cfg Config) (*Detector, error) {
	d, err := newDetector(cfg)
	if err != nil {
		return nil, err
	}
	d.teller.Start()
	go d.run()
	return d, nil
}

// newDetector makes a detector at rest.
func newDetector(cfg Config) (*Detector, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.fenceFor = cmp.Or(cfg.fenceFor, fenceFor)
	d := &Detector{
		cfg: cfg, began: time.Now(), in: make([]byte, mostInDatagram), newsNext: ring.Never, event: -1, done: make(chan struct{}),
	}
	d.turnFunc = d.turn
	var err error
	d.ring, err = ring.New(ring.Config{
		N: cfg.Nodes, Me: int(cfg.Me), Incs: cfg.Incs, Stride: ring.Stride(cfg.Nodes), Timing: cfg.Timing,
	})
	if err == nil {
		d.news, err = bmg.New(bmg.Config{N: cfg.Nodes, Me: int(cfg.Me), Incs: cfg.Incs, Resend: newsResend})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	d.link.key, d.link.job, d.link.logger, d.link.lose = cfg.Key, cfg.Job, cfg.Logger, cfg.lose
	if err := d.link.open(cfg.Socket, cfg.Peers, cfg.Me); err != nil {
		return nil, err
	}
	d.event, err = xunix.NewEvent()
	return d, err
}

// Suspect says that a connection to a node has ended, or that a node is suspect otherwise. The node is verified at once.
func (d *Detector) Suspect(node ring.Node) {
	if d.cfg.has(node) {
		d.request(request{kind: suspectNode, node: node, inc: d.cfg.inc(node)})
	}
}

// NodeLost says that an incarnation of a node is dead, by news that did not come from a detector.
func (d *Detector) NodeLost(node ring.Node, inc uint32) {
	if d.cfg.has(node) && node != d.cfg.Me {
		d.request(request{kind: loseNode, node: node, inc: inc})
	}
}

// ReportPE reports the death of a PE of this node to all nodes. The incarnation is 1 or more; a cause is a failure.Cause, and
// at is when, in nanoseconds of CLOCK_MONOTONIC of this node.
func (d *Detector) ReportPE(job uint32, pe uint64, inc, cause uint32, at int64) {
	d.request(request{kind: reportPE, payload: bmg.Payload{
		Key: bmg.Key{Kind: bmg.KindPE, Job: job, ID: pe, Inc: inc}, Origin: d.cfg.Me, Cause: cause, At: at,
	}})
}

// request queues a request and wakes the detector.
func (d *Detector) request(r request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.queue = append(d.queue, r)
	xunix.PostEvent(d.event)
}

// Stats returns the counts so far.
func (d *Detector) Stats() Stats {
	c := &d.counts
	return Stats{
		Pings: c.pings.Load(), Answers: c.answers.Load(), Suspicions: c.suspicions.Load(), Accusations: c.accusations.Load(),
		Reports: c.reports.Load(), Late: c.late.Load(), Latest: time.Duration(c.latest.Load()), Received: c.received.Load(),
		Strangers: c.strangers.Load(), Errors: d.link.failed.Load(),
	}
}

// Close ends the detector and closes its socket. It returns when all functions of the Config have returned. Another call does
// the same.
func (d *Detector) Close() {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		xunix.PostEvent(d.event)
	}
	d.mu.Unlock()
	<-d.done
	d.ended.Do(d.release)
}

// release frees what a detector that does not turn any more has.
func (d *Detector) release() {
	d.teller.Close()
	if err := d.link.conn.Close(); err != nil {
		d.cfg.Logger.Debug().Err(err).Msg("detector: the socket was closed before")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	xunix.CloseSocket(d.event)
	d.event = -1
}

// run turns until the detector is closed. The thread is its own: the responder knows the thread that calls Tick, and tells a
// daemon that gets no processor by it.
func (d *Detector) run() {
	defer close(d.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d.now = d.clock()
	d.stepRing(ring.Event{Kind: ring.Start})
	for !d.isClosed() {
		err := d.link.raw.Control(d.turnFunc) // the socket stays open during a turn, whoever closes it
		if err == nil {
			err = d.turnErr
		}
		if err != nil {
			d.cfg.Logger.Error().Err(err).Msg("detector: it has ended, and watches no node any more")
			return
		}
	}
}

func (d *Detector) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// clock returns the time, which never steps back.
func (d *Detector) clock() int64 { return int64(time.Since(d.began)) }

// due returns when something is to be done.
func (d *Detector) due() int64 {
	due := min(d.ring.Due(), d.newsNext)
	for i := range d.fences {
		due = min(due, d.fences[i].next)
	}
	return due
}

// turn waits until something is to be done, and does all of it. It ends after a period at the latest, because the tick of the
// responder must not stand still.
func (d *Detector) turn(fd uintptr) {
	d.fd = int(fd)
	now := d.clock()
	if d.turnErr = xunix.WaitInput(d.fd, d.event, time.Duration(min(d.due()-now, d.cfg.Timing.Period))); d.turnErr != nil {
		return
	}
	if d.cfg.Responder != nil {
		d.cfg.Responder.Tick()
	}
	d.drain()
	d.serve()
	d.pass()
}

// drain reads all datagrams that have come. Afterwards, now is a time before which no datagram has come that was not read.
func (d *Detector) drain() {
	d.now = d.clock()
	for range mostDrained {
		n, err := d.link.receive(d.fd, d.in, &d.from)
		if err != nil {
			return
		}
		if n < 0 {
			continue
		}
		p, err := packet.Parse(d.in[:n], d.cfg.Job, &d.cfg.Key)
		if err != nil {
			d.counts.strangers.Add(1)
			continue
		}
		d.counts.received.Add(1)
		d.now = d.clock()
		d.handle(&p)
	}
}

// serve does what other goroutines have requested.
func (d *Detector) serve() {
	d.mu.Lock()
	list := d.queue
	d.queue, d.spare = d.spare[:0], list
	d.mu.Unlock()
	var reports []bmg.Payload
	for i := range list {
		switch r := &list[i]; r.kind {
		case suspectNode:
			d.stepRing(ring.Event{Kind: ring.Suspect, From: r.node, Inc: r.inc})
		case loseNode:
			d.stepNews(bmg.Event{Kind: bmg.PeerFailed, From: r.node, Inc: r.inc})
			d.stepRing(ring.Event{Kind: ring.PeerFailed, From: r.node, Inc: r.inc})
		case reportPE:
			reports = append(reports, r.payload)
		}
	}
	if len(reports) > 0 {
		d.stepNews(bmg.Event{Kind: bmg.Start, Msg: bmg.Msg{Payloads: reports}})
	}
}

// pass lets time pass for all that waits for it.
func (d *Detector) pass() {
	if due := d.due(); d.now >= due {
		if late := d.now - due; late > lateness {
			d.counts.late.Add(1)
			d.counts.latest.Store(max(d.counts.latest.Load(), late))
		}
	}
	if d.now >= d.ring.Due() {
		d.stepRing(ring.Event{Kind: ring.Tick})
	}
	d.passFences()
	if d.now >= d.newsNext {
		d.newsNext = d.now + newsTick
		d.newsIdle++
		d.stepNews(bmg.Event{Kind: bmg.Tick})
		if d.newsIdle > newsResend { // every payload that some neighbor may lack would have gone out again
			d.newsNext = ring.Never
		}
	}
}
