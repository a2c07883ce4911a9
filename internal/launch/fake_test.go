package launch

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// fakeStarter starts fakes.
type fakeStarter struct {
	check func(cfg *daemon.Config) error // nil: nothing is wrong
	start func(cfg daemon.Config, hooks daemon.Hooks) (Node, error)
}

// Check says what check says.
func (f fakeStarter) Check(cfg *daemon.Config) error {
	if f.check == nil {
		return nil
	}
	return f.check(cfg)
}

// Start starts one node.
func (f fakeStarter) Start(_ context.Context, _ Span, cfg daemon.Config, hooks func(node int) daemon.Hooks) ([]Node, error) {
	n, err := f.start(cfg, hooks(0))
	return []Node{n}, err
}

// fake is a node without processes. It notes what it is asked to do.
type fake struct {
	events   chan daemon.Event
	npes     int                     // number of PEs; they are of job 0 and numbered from first
	first    int                     // number of the first PE
	answers  []daemon.Answer         // to any order
	launched error                   // what Launch returns
	closed   error                   // what Close returns
	stopped  bool                    // what Stopped returns
	isGo     bool                    // what HasGo returns
	forsaken bool                    // what Forsake returns
	atWork   bool                    // what IsAtWork returns
	tier     string                  // what Tier returns
	uri      string                  // what ToolURI returns
	fed      func(daemon.Chunk)      // Feed calls it, unless it is nil
	added    error                   // what AddJob returns
	started  error                   // what StartJob returns
	began    time.Time               // of the job, as Start was told
	report   daemon.Report           // what Report returns
	answered chan daemon.SpawnAnswer // gets what AnswerSpawn is called with, unless it is nil

	mu    sync.Mutex
	calls []string
	pids  int // calls of PID
}

func newFake(first, npes int) *fake {
	return &fake{events: make(chan daemon.Event, 64), first: first, npes: npes, tier: "fake", uri: fmt.Sprintf("tcp://%d", first)}
}

// note records a call.
func (f *fake) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

// set changes the fake's answers.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// noted returns the calls so far.
func (f *fake) noted() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

func (f *fake) Launch() error {
	f.note("launch")
	return f.launched
}

func (f *fake) Close() error {
	f.note("close")
	return f.closed
}

func (f *fake) Events() <-chan daemon.Event { return f.events }

func (f *fake) PID(id daemon.ID) int {
	f.set(func() { f.pids++ })
	if id.Job == 0 && (id.PE < f.first || id.PE >= f.first+f.npes) {
		return 0
	}
	return 1000*(id.Job+1) + id.PE
}

func (f *fake) SetAgents(addrs []string) error {
	f.note("agents %q", addrs)
	return nil
}

func (f *fake) FarFailed(far daemon.FarFailure) error {
	if far.Job > 0 {
		f.note("far failed %v %v of job %d", far.PEs, far.NodeLost, far.Job)
		return nil
	}
	if far.Before {
		f.note("far failed before %v %v", far.PEs, far.NodeLost)
		return nil
	}
	f.note("far failed %v %v", far.PEs, far.NodeLost)
	return nil
}

func (f *fake) Signal(sig syscall.Signal) {
	f.note("signal %d", sig)
}

func (f *fake) Suspend() { f.note("suspend") }

func (f *fake) Stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

func (f *fake) Refuse(bool) { f.note("refuse") }

func (f *fake) Resize(w xunix.Window) { f.note("resize %d, %d", w.Rows, w.Columns) }

func (f *fake) Feed(c daemon.Chunk) {
	f.note("feed %d: %q, %t", c.To, c.Data, c.End)
	if f.fed != nil {
		f.fed(c)
	}
}

func (f *fake) Forsake(id daemon.ID) bool {
	f.note("forsake %v", id)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.forsaken
}

func (f *fake) IsAtWork(daemon.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.atWork
}

func (f *fake) Ask(o wire.Order, atMost time.Duration) []daemon.Answer {
	f.note("ask %d, %v", o, atMost)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answers
}

func (f *fake) HasGo(daemon.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.isGo
}

func (f *fake) QuitGo(id daemon.ID, _ time.Duration) { f.note("quit %v", id) }

func (f *fake) Tier() string    { return f.tier }
func (f *fake) ToolURI() string { return f.uri }

func (f *fake) Report() daemon.Report { return f.report }
