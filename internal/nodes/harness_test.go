package nodes

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/goshmem/goshmem/internal/agent"
	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/internal/wire"
)

// TestMain makes the test program act as a daemon where its arguments say so.
func TestMain(m *testing.M) {
	if IsDaemonCommand(os.Args[1:]) {
		if err := RunDaemon(context.Background(), os.Stdin, zerolog.Nop()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if IsAgentCommand(os.Args[1:]) {
		if err := agent.RunProcess(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if IsHeartbeatCommand(os.Args[1:]) {
		if err := KeepHeartbeat(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// job is a job on several nodes, which are all this machine.
type job struct {
	t       *testing.T
	cfg     Config
	layout  launch.Span
	kill    chan struct{} // Span.Kill
	notices chan string
	log     chan string // lines of the front end's log
	nodes   []launch.Node
}

// newJob returns a job of n nodes that is not started.
func newJob(t *testing.T, n int, agent Agent) *job {
	j := &job{
		t: t, kill: make(chan struct{}), notices: make(chan string, 100), log: make(chan string, 1000),
		cfg: Config{Agent: agent, Emulated: true, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Within: patience, Lease: 10 * time.Second},
	}
	for i := range n {
		j.layout.Hosts = append(j.layout.Hosts, plan.Host{Name: fmt.Sprintf("node%d", i)})
		j.layout.Homes = append(j.layout.Homes, i)
	}
	j.layout.Kill = j.kill
	return j
}

// Write takes a line of the log.
func (j *job) Write(line []byte) (int, error) {
	j.log <- string(line)
	return len(line), nil
}

// start starts the nodes, whose PEs would run sleep.
func (j *job) start(ctx context.Context) (err error) {
	cfg := daemon.Config{
		HeapSize: 1 << 20, MostPEs: 8,
		Apps: []daemon.App{{NPEs: len(j.layout.Hosts), Path: "/bin/sh", Name: "sh", Args: []string{"-c", "exec sleep 1000"}, Env: os.Environ()}},
	}
	j.nodes, err = Starter{j.cfg}.Start(ctx, j.layout, cfg, func(int) daemon.Hooks {
		return daemon.Hooks{
			Logger: zerolog.New(j), Notice: func(text string) { j.notices <- text },
			Output: func(daemon.ID, daemon.Stream, []byte) {}, OutputEnd: func(daemon.ID, daemon.Stream) {},
		}
	})
	return err
}

// begin starts the nodes, which are closed at the end of the test.
func (j *job) begin() {
	j.t.Helper()
	if err := j.start(j.t.Context()); err != nil {
		j.t.Fatal(err)
	}
	j.t.Cleanup(func() {
		for _, n := range j.nodes {
			_ = n.Close() // tests that want no error look for themselves
		}
	})
}

// member returns a node as the front end has it.
func (j *job) member(i int) *member {
	m, ok := j.nodes[i].(*member)
	if !ok {
		j.t.Fatalf("node %d is a %T", i, j.nodes[i])
	}
	return m
}

// await returns the first text of a channel that has some words in it.
func await(t *testing.T, from <-chan string, words string) string {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case text := <-from:
			if strings.Contains(text, words) {
				return text
			}
		case <-late:
			t.Fatalf("nobody says %q", words)
		}
	}
}

// awaitLoss returns why a node was lost.
func (j *job) awaitLoss(i int) string {
	j.t.Helper()
	late := time.After(patience)
	for {
		select {
		case e := <-j.nodes[i].Events():
			if e.Kind == daemon.NodeLost {
				return e.Msg
			}
		case <-late:
			j.t.Fatalf("node %d is not lost", i)
		}
	}
}

// oshrun returns the path of the test program, which acts as oshrun daemon.
func oshrun(t *testing.T) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// shellAgent starts daemons by a script, which finds the daemon's command in its arguments.
func shellAgent(t *testing.T, script string) Agent {
	return ExecAgent([]string{"sh", "-c", script, "agent"}, oshrun(t))
}

// mailboxes are the handovers of daemons that the test plays.
type mailboxes struct {
	t   *testing.T
	dir string
}

// newMailboxes returns those of n nodes.
func newMailboxes(t *testing.T, n int) *mailboxes {
	b := &mailboxes{t: t, dir: t.TempDir()}
	for i := range n {
		if err := syscall.Mkfifo(filepath.Join(b.dir, fmt.Sprint(i)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// agent starts no daemons: it passes on the handover and stays.
func (b *mailboxes) agent() Agent {
	return ExecAgent([]string{"sh", "-c", `cat > "$0/{node}"; exec sleep 1000`, b.dir}, "oshrun")
}

// handover returns what the agent of a node has been given.
func (b *mailboxes) handover(node int) Handover {
	b.t.Helper()
	f, err := os.OpenFile(filepath.Join(b.dir, fmt.Sprint(node)), os.O_RDWR, 0)
	if err == nil {
		defer f.Close()
		err = f.SetReadDeadline(time.Now().Add(patience))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	h, err := ReadHandover(f)
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

// puppet is a daemon that the test plays.
type puppet struct {
	link   *control.Link
	frames chan wire.Frame // of the front end
	over   chan error      // why the link has ended; nil: the front end has closed it
}

// join reports the daemon of a node to the front end.
func (b *mailboxes) join(node int) *puppet {
	b.t.Helper()
	return report(b.t, b.handover(node))
}

// report does that with the handover of a daemon.
func report(t *testing.T, h Handover) *puppet {
	t.Helper()
	l, err := control.Dial(t.Context(), control.DialConfig{
		Secret: h.Secret, Self: control.Identity{Build: version.String(), Node: int32(h.Node)},
		Peer: control.FrontEnd, Addrs: h.Root, Within: h.Dial, RefusedIsLost: true, Limits: control.Limits{Lease: h.Lease},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &puppet{link: l, frames: make(chan wire.Frame, 1000), over: make(chan error, 1)}
	l.Start(control.Handler{
		Take: func(f wire.Frame) { p.frames <- f },
		Bye:  func() { p.over <- nil },
		Lost: func(err error) { p.over <- err },
	})
	t.Cleanup(l.Abort)
	return p
}

// await returns the next frame of a kind.
func (p *puppet) await(t *testing.T, kind wire.Kind) wire.Frame {
	t.Helper()
	late := time.After(patience)
	for over := p.over; ; {
		select {
		case f := <-p.frames:
			if f.Kind == kind {
				return f
			}
			continue
		default: // what has come counts, also after the end
		}
		select {
		case f := <-p.frames:
			if f.Kind == kind {
				return f
			}
		case err := <-over:
			p.over <- err
			over = nil
			if len(p.frames) == 0 {
				t.Fatalf("no frame of kind %#x before the end of the link: %v", kind, err)
			}
		case <-late:
			t.Fatalf("no frame of kind %#x", kind)
		}
	}
}
