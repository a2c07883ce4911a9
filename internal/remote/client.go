package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Client is a launch.Node whose PEs run where a Server is. Start is called first, and Close in any case.
//
// # Loss of the node
//
// After Lost, and after Close, all calls return at once: those with an error have one, the others
// have the result of a node without PEs. The last event is daemon.NodeLost. Output that has come is
// passed on, and OutputEnd called of every output that had not ended. The credit of all standard
// input that was fed comes back, with the word that nobody reads it.
type Client struct {
	sender   *sender
	messages assembler // of Take
	requests requests
	mailbox  *daemon.Mailbox
	output   *printing
	input    feeding
	life     context.Context         // ends by the loss of the node, or Close, with the cause
	end      context.CancelCauseFunc // ends life; the first cause counts
	ending   sync.Once               // of end
	over     chan struct{}           // closed by Close: nobody receives events any more
	closing  sync.Once               // of Close
	closed   error                   // what Close returns
	arrived  int                     // of Take: events since the node last heard that events were taken

	mu    sync.Mutex
	hooks daemon.Hooks // of Start
	lost  bool         // NodeLost is in the mailbox
	tier  string       // the last that is known
	uri   string
	said  daemon.Report // of the start; zero before it
}

// errClosed is the cause of what is asked of a node that is closed.
var errClosed = errors.New("the node is closed")

// NewClient returns the client of the server at the other side of a connection. Take and Lost may be called from now on.
func NewClient(peer Peer) *Client {
	c := &Client{sender: newSender(peer), mailbox: daemon.NewMailbox(), over: make(chan struct{})}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.output = newPrinting(peer)
	go c.mailbox.Run(c.over)
	return c
}

// Check says whether the node has the programs and working directories of a configuration.
func (c *Client) Check(cfg *daemon.Config) error {
	_, _, err := c.request(wire.KindCheck, "check the programs", encode(codeConfig, *cfg), startAtMost)
	return err
}

// Start starts the step of the node, which calls hooks. After an error Close is still to be called.
func (c *Client) Start(cfg daemon.Config, hooks daemon.Hooks) error {
	if hooks.Began.IsZero() {
		hooks.Began = time.Now()
	}
	c.use(hooks, cfg.Merge)
	body := encode(codeSetup, setup{Level: hooks.Logger.GetLevel(), Age: time.Since(hooks.Began), Config: cfg})
	a, _, err := c.request(wire.KindConfig, "start the step", body, startAtMost)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tier, c.uri, c.said = a.Tier, a.ToolURI, a.Report
	return nil
}

// use sets what the client calls. With merge, the order between the two outputs of a PE counts.
func (c *Client) use(hooks daemon.Hooks, merge bool) {
	c.mu.Lock()
	c.hooks = hooks
	c.mu.Unlock()
	c.output.start(hooks, merge)
	c.input.start(hooks.Credit)
}

// Launch starts the PEs of the first job.
func (c *Client) Launch() error {
	_, _, err := c.request(wire.KindLaunch, "launch", nil, startAtMost)
	return err
}

// Close ends the step, and returns when all its output has been taken. It may be called several times. An error that is
// not one of the node itself is a *daemon.LostError.
func (c *Client) Close() error {
	c.closing.Do(func() {
		c.closed = c.closeNode()
		c.ending.Do(func() { c.end(errClosed) })
		c.output.lose()
		c.output.wait()
		c.input.lose()
		close(c.over)
	})
	return c.closed
}

// closeNode asks the node to close. Its time does not run while the front end takes output.
func (c *Client) closeNode() error {
	ctx, cancel := context.WithCancelCause(c.life)
	defer cancel(nil)
	tick := time.NewTicker(closeAtMost / 60)
	defer tick.Stop()
	done := make(chan struct{})
	var watch sync.WaitGroup
	defer watch.Wait()
	defer close(done)
	watch.Go(func() {
		idle := time.Duration(0)
		for last := c.output.moves(); ; {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			idle += closeAtMost / 60
			if moves := c.output.moves(); moves != last || c.output.isBusy() {
				last, idle = moves, 0
			}
			if idle >= closeAtMost {
				cancel(fmt.Errorf("close: the node has not answered within %v", closeAtMost))
			}
		}
	})
	_, _, err := c.requestUntil(ctx, wire.KindClose, nil)
	if said := new(NodeError); err != nil && !errors.As(err, &said) {
		err = &daemon.LostError{Err: err}
	}
	return err
}

// Events returns what happens to the PEs, in order. After daemon.NodeLost nothing comes.
func (c *Client) Events() <-chan daemon.Event { return c.mailbox.Out() }

// Lost is called when the other side is gone for good: err says why. The first call counts, and
// none does after Close. It does not wait, and may be called at any time and by any goroutine.
func (c *Client) Lost(err error) {
	c.ending.Do(func() {
		c.end(err)
		c.report(daemon.Event{Kind: daemon.NodeLost, Msg: err.Error(), At: c.age()})
		c.output.lose()
		c.input.lose()
	})
}

// Err returns why the node is lost, nil if it is not or was closed before.
func (c *Client) Err() error {
	if err := context.Cause(c.life); !errors.Is(err, errClosed) {
		return err
	}
	return nil
}

// age returns the time since the job began; 0 before Start.
func (c *Client) age() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hooks.Began.IsZero() {
		return 0
	}
	return time.Since(c.hooks.Began)
}

// report passes an event on, unless NodeLost was before it.
func (c *Client) report(e daemon.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lost {
		c.lost = e.Kind == daemon.NodeLost
		c.mailbox.Put(e)
	}
}

// tell sends what has no answer. It never waits.
func (c *Client) tell(kind wire.Kind, body []byte) {
	if c.life.Err() == nil {
		c.sender.send(kind, 0, body)
	}
}

// PID returns the number of a PE's process on its node.
func (c *Client) PID(id daemon.ID) int {
	a, _, _ := c.request(wire.KindPID, "process of a PE", encode(codeID, id), queryAtMost) // 0 after an error
	return a.PID
}

// Signal sends a signal to the process groups of all PEs that run.
func (c *Client) Signal(sig syscall.Signal) {
	c.tell(wire.KindSignal, encode(wire.Integer, sig))
}

// Suspend asks all PEs to stop.
func (c *Client) Suspend() { c.tell(wire.KindSuspend, nil) }

// Stopped says whether the processes of all PEs that run are stopped.
func (c *Client) Stopped() bool {
	a, _, err := c.request(wire.KindStopped, "whether PEs are stopped", nil, queryAtMost)
	return a.Yes || err != nil // nothing runs on a node that is lost
}

// Resize gives the pseudo terminals of the PEs a window size.
func (c *Client) Resize(w xunix.Window) {
	c.tell(wire.KindResize, encode(codeWindow, w))
}

// Feed gives readers a chunk of standard input. It never waits.
func (c *Client) Feed(chunk daemon.Chunk) {
	if !c.input.spend(chunk) {
		return
	}
	for data := chunk.Data; ; { // a chunk may have more than a frame
		piece := chunk
		piece.Data = data[:min(len(data), pieceBytes/2)]
		data = data[len(piece.Data):]
		piece.End = chunk.End && len(data) == 0
		c.tell(wire.KindChunk, encode(codeChunk, piece))
		if len(data) == 0 {
			return
		}
	}
}

// Refuse lets no further job begin.
func (c *Client) Refuse(lost bool) { c.tell(wire.KindRefuse, encode((*wire.Coder).Bool, lost)) }

// SetAgents tells the node the addresses of the agents of all nodes.
func (c *Client) SetAgents(addrs []string) error {
	_, _, err := c.request(wire.KindAgents, "addresses of agents", encode(codeAgents, addrs), queryAtMost)
	return err
}

// Watch has a node watch the others.
func Watch(c *Client, w daemon.Watch) error {
	_, _, err := c.request(wire.KindWatch, "watch other nodes", encode(codeWatch, w), queryAtMost)
	return err
}

// LoseJob reports that the front end cannot go on with the job, and why.
func LoseJob(c *Client, why string) {
	c.report(daemon.Event{Kind: daemon.JobLost, Msg: why, At: c.age()})
}

// FarFailed makes a failure of PEs of other nodes known on this one. It does not wait for that: an
// error of the node comes as a notice.
func (c *Client) FarFailed(f daemon.FarFailure) error {
	c.tell(wire.KindFarFailed, encode(codeFarFailure, f))
	return nil
}

// Forsake declares a PE failed that has lost its connection, see launch.Node.
func (c *Client) Forsake(id daemon.ID) bool {
	a, _, _ := c.request(wire.KindForsake, "forsake a PE", encode(codeID, id), queryAtMost) // false after an error
	return a.Yes
}

// IsAtWork says whether a process of a PE could run, see launch.Node.
func (c *Client) IsAtWork(id daemon.ID) bool {
	a, _, _ := c.request(wire.KindAtWork, "work of a PE", encode(codeID, id), queryAtMost) // false after an error
	return a.Yes
}

// Ask gives an order to all PEs that run, and returns the answers that come in time.
func (c *Client) Ask(o wire.Order, atMost time.Duration) []daemon.Answer {
	body := encode(codeOrder, order{Order: o, AtMost: atMost})
	_, answers, _ := c.request(wire.KindAsk, "order", body, atMost+transferAtMost) // what has come counts
	return answers
}

// HasGo says whether a PE runs a Go program.
func (c *Client) HasGo(id daemon.ID) bool {
	a, _, _ := c.request(wire.KindHasGo, "program of a PE", encode(codeID, id), queryAtMost) // false after an error
	return a.Yes
}

// QuitGo ends the Go programs of a PE by SIGQUIT, and waits until their output is here and taken, for atMost at the
// longest, or a little longer.
func (c *Client) QuitGo(id daemon.ID, atMost time.Duration) {
	begin := time.Now()
	body := encode(codeQuit, quit{ID: id, AtMost: atMost})
	if _, _, err := c.request(wire.KindQuitGo, "quit Go programs", body, atMost+transferAtMost); err == nil {
		c.output.await(id, max(atMost-time.Since(begin), transferAtMost))
	}
}

// Report returns what the node has said of itself at its start.
func (c *Client) Report() daemon.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said
}

// Tier names the way in which the node learns of ends, or learnt of them before it was lost.
func (c *Client) Tier() string {
	a, _, err := c.request(wire.KindTier, "way to learn of ends", nil, queryAtMost)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.tier = a.Tier
	}
	return c.tier
}

// ToolURI returns what tools need to attach, empty if none may.
func (c *Client) ToolURI() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.uri
}
