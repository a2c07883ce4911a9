package remote

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// fake is a node without processes. It notes what it is asked to do.
type fake struct {
	cfg     daemon.Config
	hooks   daemon.Hooks
	events  chan daemon.Event
	answers []daemon.Answer // to any order
	report  daemon.Report   // what Report returns
	err     error           // what Launch and Close return

	mu    sync.Mutex
	calls []string
}

func newFake() *fake { return &fake{events: make(chan daemon.Event)} }

// start is a Starter.
func (f *fake) start(cfg daemon.Config, hooks daemon.Hooks) (daemon.Node, error) {
	f.cfg, f.hooks = cfg, hooks
	return f, nil
}

// note keeps a call.
func (f *fake) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

// noted returns the calls so far.
func (f *fake) noted() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *fake) Launch() error               { f.note("launch"); return f.err }
func (f *fake) Close() error                { f.note("close"); return f.err }
func (f *fake) Events() <-chan daemon.Event { return f.events }
func (f *fake) Signal(sig syscall.Signal)   { f.note("signal %d", sig) }
func (f *fake) Suspend()                    { f.note("suspend") }
func (f *fake) Refuse(lost bool)            { f.note("refuse %t", lost) }
func (f *fake) Resize(w xunix.Window)       { f.note("resize %d, %d", w.Rows, w.Columns) }
func (f *fake) Feed(c daemon.Chunk)         { f.note("feed %d: %d bytes, %t", c.To, len(c.Data), c.End) }
func (f *fake) ToolURI() string             { return "tcp://tools" }
func (f *fake) Report() daemon.Report       { return f.report }
func (f *fake) Tier() string                { return "fake" }

func (f *fake) PID(id daemon.ID) int {
	f.note("pid %v", id)
	return 1000 + id.PE
}

func (f *fake) Stopped() bool {
	f.note("stopped")
	return true
}

func (f *fake) Forsake(id daemon.ID) bool {
	f.note("forsake %v", id)
	return true
}

func (f *fake) IsAtWork(id daemon.ID) bool {
	f.note("at work %v", id)
	return true
}

func (f *fake) HasGo(id daemon.ID) bool {
	f.note("go %v", id)
	return true
}

func (f *fake) SetAgents(addrs []string) error {
	f.note("agents %q", addrs)
	return f.err
}

func (f *fake) FarFailed(far daemon.FarFailure) error {
	f.note("far failed %v, %t, %t", far.PEs, far.NodeLost, far.Before)
	return f.err
}

func (f *fake) QuitGo(id daemon.ID, atMost time.Duration) { f.note("quit %v, %v", id, atMost) }

func (f *fake) Ask(o wire.Order, atMost time.Duration) []daemon.Answer {
	f.note("ask %d, %v", o, atMost)
	return f.answers
}

// begin connects a client to a fake and starts it.
func begin(t *testing.T, f *fake, cfg daemon.Config, hooks daemon.Hooks) (*Client, *Server) {
	t.Helper()
	c, s := pair(t, f.start)
	if err := c.Start(cfg, hooks); err != nil {
		t.Fatal(err)
	}
	return c, s
}

// silent returns hooks that drop output.
func silent() daemon.Hooks {
	return daemon.Hooks{Output: func(daemon.ID, daemon.Stream, []byte) {}, Logger: zerolog.Nop()}
}

// within fails the test if something takes too long.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
}

// calls are all that can wait for the node.
var calls = map[string]func(c *Client) (result any, err error){
	"check":       func(c *Client) (any, error) { return nil, c.Check(&daemon.Config{}) },
	"start":       func(c *Client) (any, error) { return nil, c.Start(daemon.Config{}, silent()) },
	"launch":      func(c *Client) (any, error) { return nil, c.Launch() },
	"close":       func(c *Client) (any, error) { return nil, c.Close() },
	"pid":         func(c *Client) (any, error) { return c.PID(daemon.ID{PE: 1}), nil },
	"stopped":     func(c *Client) (any, error) { return c.Stopped(), nil },
	"forsake":     func(c *Client) (any, error) { return c.Forsake(daemon.ID{PE: 1}), nil },
	"at work":     func(c *Client) (any, error) { return c.IsAtWork(daemon.ID{PE: 1}), nil },
	"go":          func(c *Client) (any, error) { return c.HasGo(daemon.ID{PE: 1}), nil },
	"tier":        func(c *Client) (any, error) { return c.Tier(), nil },
	"ask":         func(c *Client) (any, error) { return len(c.Ask(wire.OrderCalls, time.Second)), nil },
	"quit":        func(c *Client) (any, error) { c.QuitGo(daemon.ID{PE: 1}, time.Second); return nil, nil },
	"add a job":   func(c *Client) (any, error) { return nil, c.AddJob(daemon.FurtherJob{}) },
	"start a job": func(c *Client) (any, error) { return nil, c.StartJob(1) },
	"drop a job":  func(c *Client) (any, error) { return nil, c.DropJob(1) },
	"a large start": func(c *Client) (any, error) {
		return nil, c.Start(daemon.Config{Apps: []daemon.App{{Env: []string{string(make([]byte, 3*pieceBytes))}}}}, silent())
	},
}

// without is what each call returns of a node that is out of reach, if it has no error.
var without = map[string]any{"pid": 0, "stopped": true, "forsake": false, "at work": false, "go": false, "tier": "", "ask": 0}

var errGone = errors.New("the cable is cut")
