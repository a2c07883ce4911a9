package agent

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/internal/agent/teams"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/tcp"
)

// Config says what an agent serves.
type Config struct {
	Job         [16]byte
	Node, Nodes int
	Incarnation uint32       // of the node's PEs
	Segments    *symheap.Map // of the node's PEs, each with a layout.Wire
	Page        *layout.AgentPage
	Transport   transport.Transport // which the caller closes
	// Express is the Transport if it serves express sockets. Nil: there are none.
	Express *tcp.Transport
	// Expedited says that membarrier works here. Otherwise the caller has set BellAsk in the bells of the agent and of all
	// PEs.
	Expedited bool
	// Patience is how long another agent may execute and answer nothing while records wait for it, whatever becomes of
	// connections. Then Run returns an error: the PEs that wait would wait for ever. It has to be longer than the loss of
	// a node takes to be known. 0: no limit.
	Patience time.Duration
	// CollRadix is the radix of the trees of nodes, the same on all nodes. 0: tree.DefaultRadix.
	CollRadix int
	// Orders is called from time to time, and whenever Poll has returned without events. Run returns its error. Nil: there
	// are no orders.
	Orders func(a *Agent) error
	// Fault is called when the agent serves a PE of this node no longer, because its words are not what a PE writes. Nil:
	// nobody listens.
	Fault func(pe layout.Local, err error)
	// Broken is called when a connection with another node has ended. Nil: nobody listens.
	Broken func(node int)
	// Log takes what went wrong and does not end the agent. Nil: nobody listens.
	Log func(err error)
}

// Agent serves the PEs of a node. Only the goroutine that calls Run may use it.
type Agent struct {
	cfg        Config
	memory     *memory
	sender     *stream.Sender
	receiver   *stream.Receiver
	sources    []source          // by local index: the PEs whose blocks are sent
	held       []holding         // blocks that the agent looks at in each pass, in the order in which they became ready
	settling   []holding         // blocks that have brought nothing new
	reading    []holding         // room for a reading of held
	lookedBack time.Time         // when the agent looked back at the blocks that it has left
	boxes      [][2]outbox       // by node and lane
	retries    []retry           // by node
	waits      waits             // for other agents
	owes       time.Time         // since when other agents have not been told what is executed; zero: that is not known
	progress   bool              // what was received last has brought a count or an answer
	broken     int               // how many retries wait for their time
	armed      bool              // the bell is armed: the next Poll sleeps
	passes     uint              // since Orders was called
	events     []transport.Event // of the pass
	parts      [][]byte          // of a post
	frame      stream.Frame      // that is being posted
	teams      *teams.Teams
	own        ownStream
	inboxes    inboxes
	express    *expressDesk      // nil: there are no express sockets
	flusher    transport.Flusher // nil: the transport sends in Poll alone
}

// retry says when a lane that is broken is opened again.
type retry struct {
	at    time.Time // zero: the lane is not broken
	tries uint      // that have broken since a count or an answer came
	err   error     // of the last one; nil: the lane has been opened since
}

// New returns an agent.
func New(cfg Config) (*Agent, error) {
	switch {
	case cfg.Segments == nil || cfg.Page == nil || cfg.Transport == nil:
		return nil, errors.New("agent without Segments, Page or Transport, want all of them")
	case cfg.Segments.Wire(0) == nil:
		return nil, errors.New("agent for segments without a wire region, want one in each")
	case cfg.Nodes > layout.WireNodes || cfg.Node < 0 || cfg.Node >= cfg.Nodes:
		return nil, fmt.Errorf("agent of node %d of %d, want 0 to %d of at most %d", cfg.Node, cfg.Nodes, cfg.Nodes-1, layout.WireNodes)
	}
	m := newMemory(cfg.Segments)
	a := &Agent{
		cfg: cfg, memory: m,
		sender:   stream.NewSender(stream.SenderConfig{Near: cfg.Segments.Len() + 1, Nodes: cfg.Nodes, Limits: m.limits}), // one more: the agent itself (ownStream)
		receiver: stream.NewReceiver(stream.ReceiverConfig{Nodes: cfg.Nodes}),
		sources:  make([]source, cfg.Segments.Len()),
		boxes:    make([][2]outbox, cfg.Nodes),
		retries:  make([]retry, cfg.Nodes),
		waits:    waits{limit: cfg.Patience, nodes: make([]nodeWait, cfg.Nodes)},
	}
	a.flusher, _ = cfg.Transport.(transport.Flusher)
	for i := range a.sources {
		a.sources[i].wire, a.sources[i].incarnation = cfg.Segments.Wire(layout.Local(i)), cfg.Incarnation
		a.sender.StartPE(layout.Local(i), cfg.Incarnation)
	}
	a.own.init(a)
	a.inboxes = newInboxes(a)
	a.teams = a.newTeams()
	if cfg.Express != nil {
		a.startExpress(cfg.Express)
	}
	return a, nil
}

// Run serves until Orders, or the transport, returns an error.
func Run(cfg Config) error {
	a, err := New(cfg)
	if err != nil {
		return err
	}
	return a.Run()
}

// Run serves until Orders, or the transport, returns an error.
func (a *Agent) Run() error {
	if a.express != nil {
		defer a.express.close()
	}
	for {
		if err := a.pass(); err != nil {
			return err
		}
	}
}

// ordersEvery is how many passes a busy agent makes between two looks at its orders.
const ordersEvery = 256

// pass does what there is to do, and waits first if there was nothing in the pass before.
func (a *Agent) pass() (err error) {
	if a.events, err = a.cfg.Transport.Poll(a.events[:0], a.pollTimeout()); err != nil {
		return err
	}
	slept := a.armed
	a.disarm()
	a.passes++
	due := len(a.events) == 0 || a.passes >= ordersEvery
	if due {
		a.passes = 0
		if a.cfg.Orders != nil {
			if err := a.cfg.Orders(a); err != nil {
				return err
			}
		}
	}
	if a.broken > 0 {
		a.retryBroken(time.Now())
	}
	for i := range a.events {
		a.take(&a.events[i])
	}
	fresh := a.inboxes.refill()
	a.memory.ring()
	fresh = a.takeReady() || fresh
	fresh = a.readHeld() || fresh
	posted, err := a.postAll()
	if err == nil && posted && a.flusher != nil {
		if posted, err = a.flush(); err == nil {
			fresh = a.readAgain() // the next pass posts it
		}
	}
	if err == nil && (slept || due) { // a busy agent looks at the clock seldom, and after the work of the pass
		now := time.Now()
		err = a.checkWaits(now)
		fresh = a.tellLate(now) || fresh // the next pass posts it
		fresh = a.inboxes.remind(now) || fresh
		fresh = lookBack(a, now) || fresh
	}
	if err != nil {
		return err
	}
	a.settle((len(a.events) == 0 || a.flusher != nil) && !fresh && !posted)
	return nil
}

// tellLate lets other agents be told what is executed if they have not been for as long as a sleep. So a busy team costs no words of
// their own for that, and an agent wakes up for none. It returns whether there is something to tell.
func (a *Agent) tellLate(now time.Time) bool {
	switch {
	case !a.receiver.Owes():
		a.owes = time.Time{}
		return false
	case a.owes.IsZero():
		a.owes = now
		return false
	case now.Sub(a.owes) < longestSleep:
		return false
	}
	a.owes = time.Time{}
	a.receiver.TellAll()
	return true
}

// flush sends what was posted, and posts what has room then. It returns whether there was such.
func (a *Agent) flush() (posted bool, err error) {
	a.events = a.flusher.Flush(a.events[:0])
	for i := range a.events {
		a.take(&a.events[i])
	}
	return a.postAll()
}

// longestSleep bounds a sleep. A PE may be stopped, or die, between clearing the agent's bell and writing to its event
// descriptor. Then no other PE wakes the agent, because each finds its bell cleared.
const longestSleep = 50 * time.Millisecond

// pollTimeout is how long the next Poll may wait.
func (a *Agent) pollTimeout() time.Duration {
	if !a.armed {
		return 0
	}
	first := longestSleep
	if a.broken == 0 {
		return first
	}
	now := time.Now()
	for i := range a.retries {
		if at := a.retries[i].at; !at.IsZero() {
			first = min(first, at.Sub(now))
		}
	}
	return max(first, 0)
}

// postAll posts what the streams have to send.
func (a *Agent) postAll() (posted bool, err error) {
	for {
		node, ok := a.receiver.Turn()
		if !ok {
			break
		}
		some, err := a.pump(node, transport.In, a.receiver)
		if posted = posted || some; err != nil {
			return posted, err
		}
	}
	for {
		node, ok := a.sender.Turn()
		if !ok {
			break
		}
		some, err := a.pump(node, transport.Out, a.sender)
		if posted = posted || some; err != nil {
			return posted, err
		}
	}
	if f := a.sender.Fault(); f != nil {
		a.accuse(f.Local, "%w", f.Err)
	}
	return posted, nil
}

// The times after which a lane that is broken is opened again.
const (
	retryFirst = 10 * time.Millisecond
	retryLast  = 500 * time.Millisecond
)

// hold notes that an Out lane is broken.
func (a *Agent) hold(node int, err error) {
	r := &a.retries[node]
	if r.at.IsZero() {
		a.broken++
	}
	r.at = time.Now().Add(min(retryFirst<<min(r.tries, 10), retryLast))
	r.tries++
	r.err = err
}

// release notes that an Out lane is not broken any more, or that its node is lost.
func (a *Agent) release(node int) {
	if r := &a.retries[node]; !r.at.IsZero() {
		r.at = time.Time{}
		a.broken--
	}
}

// retryBroken lets lanes be opened again whose time has come.
func (a *Agent) retryBroken(now time.Time) {
	for node := range a.retries {
		r := &a.retries[node]
		if r.at.IsZero() || now.Before(r.at) {
			continue
		}
		a.release(node)
		a.sender.Retry(node)
	}
}

// DropPE is DropIncarnation for the incarnation with which PEs begin.
func (a *Agent) DropPE(node int, local layout.Local) {
	a.DropIncarnation(node, local, a.cfg.Incarnation)
}

// DropIncarnation makes a PE of this node, or of another one, dead, up to an incarnation: no record of it is sent or executed any
// more, and records for a PE of this node are answered by the word that it is dead. A later incarnation goes on.
func (a *Agent) DropIncarnation(node int, local layout.Local, incarnation uint32) {
	switch {
	case local < 0 || local >= layout.MaxLocal:
	case node != a.cfg.Node:
		if node >= 0 && node < a.cfg.Nodes {
			a.receiver.DropPE(node, local, incarnation)
			a.inboxes.dropSource(node, local, incarnation)
			if a.express != nil {
				a.express.dropPE(node, local, incarnation)
			}
		}
	case int(local) < len(a.sources) && local != a.own.local && a.sources[local].incarnation <= incarnation:
		a.memory.dead[local] = true
		a.inboxes.discard(local)
		a.part(local)
		if !a.memory.isGuest(local) {
			a.teams.Dies(local, atomic.SwapUint64(&a.sources[local].wire.Teams, 0))
		}
	}
}

// DropNode makes another node dead.
func (a *Agent) DropNode(node int) {
	if node < 0 || node >= a.cfg.Nodes || node == a.cfg.Node {
		return
	}
	a.sender.DropNode(node)
	a.receiver.DropNode(node)
	a.own.dropNode(node)
	a.inboxes.dropNode(node)
	a.teams.DropNode(node)
	if a.express != nil {
		a.express.dropNode(node)
	}
	a.release(node)
	for _, lane := range []transport.Lane{transport.Out, transport.In} {
		a.cfg.Transport.Cut(node, lane, errLost)
	}
}

// errLost is why the connections with a lost node end.
var errLost = errors.New("the node is lost")

// log tells what went wrong.
func (a *Agent) log(err error) {
	if a.cfg.Log != nil {
		a.cfg.Log(err)
	}
}
