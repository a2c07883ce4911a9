package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

// Daemons start, run their steps and end, by an agent for each and by one for all.
func TestStart(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]Agent{
		"local": LocalAgent(oshrun(t)),
		"shell": shellAgent(t, `"$@"`),
		"all":   allAgent(t, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, 3, agent)
			j.begin()
			for i, n := range j.nodes {
				if err := errors.Join(n.Launch(), n.Close()); err != nil {
					t.Errorf("node %d: %v", i, err)
				}
			}
		})
	}
}

// allAgent starts all daemons by one script, which ends when they have ended and some words are done.
func allAgent(t *testing.T, then string) Agent {
	handover := filepath.Join(t.TempDir(), "handover")
	a := shellAgent(t, fmt.Sprintf(`h=%[1]s.$$; cat > $h; hosts={hosts}; IFS=,; for n in $hosts; do SLURMD_NODENAME=$n "$@" < $h & done; wait; %[2]s`, handover, then))
	a.All = true
	return a
}

// The agent of all daemons outlives the first nodes that are closed.
func TestSharedAgentStays(t *testing.T) {
	t.Parallel()
	j := newJob(t, 3, allAgent(t, ""))
	j.begin()
	for i := range 2 {
		if err := j.nodes[i].Close(); err != nil {
			t.Error(err)
		}
	}
	agent := j.member(2).agent
	select {
	case <-agent.ended:
		t.Errorf("the agent has ended with node 2 open: %v", agent.failure())
	default:
	}
	if err := errors.Join(j.nodes[2].Launch(), j.nodes[2].Close()); err != nil {
		t.Error(err)
	}
	select {
	case <-agent.ended:
	default:
		t.Error("the agent runs with all nodes closed")
	}
}

// An agent may end before its daemon: it was cut off, or leaves the daemon to itself.
func TestDetachedAgent(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"leaves": `"$@" <&3 & `,
		"killed": `"$@" <&3 & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, 2, shellAgent(t, "exec 3<&0; "+script))
			j.begin()
			for i := range j.nodes {
				j.member(i).agent.kill()
			}
			for range j.nodes {
				await(t, j.log, "the launch agent has ended, the daemon goes on")
			}
			for i, n := range j.nodes {
				if err := errors.Join(n.Launch(), n.Close()); err != nil {
					t.Errorf("node %d: %v", i, err)
				}
			}
		})
	}
}

// A daemon that is killed is noticed by its link, also if its agent has ended before.
func TestDaemonKilled(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]Agent{"with its agent": LocalAgent(oshrun(t)), "later": shellAgent(t, `exec 3<&0; "$@" <&3 & echo $!; wait`)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, 2, agent)
			j.begin()
			victim := j.member(0).agent
			if name == "later" {
				pid := victim.said.String()
				victim.kill()
				await(t, j.log, "the daemon goes on")
				n, err := strconv.Atoi(pid)
				if err == nil {
					err = syscall.Kill(n, syscall.SIGKILL)
				}
				if err != nil {
					t.Fatal(err)
				}
			} else {
				victim.kill()
			}
			if why := j.awaitLoss(0); name != "later" && !strings.Contains(why, "signal: killed") {
				t.Errorf("lost because of %q", why)
			}
			if err := j.nodes[1].Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a daemon says of a front end that it does not reach comes before the front end's patience is over.
func TestBlockedPort(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	j := newJob(t, 1, shellAgent(t, fmt.Sprintf(`sed 's/^root .*/root %v/' | "$@"`, silent.Addr())))
	j.cfg.Within = 6 * time.Second
	err = j.start(t.Context())
	if want := silent.Addr().String() + ": "; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "no link after 3") {
		t.Errorf("got %v, want %q in it", err, want)
	}
	wantHint(t, err, "--port-range")
}

// A daemon that says nothing at all is waited for, and the error names where the front end listens.
func TestLateDaemon(t *testing.T) {
	t.Parallel()
	j := newJob(t, 2, shellAgent(t, `exec sleep 1000`))
	j.cfg.Within = 200 * time.Millisecond
	err := j.start(t.Context())
	if want := "it has not reported itself within 200ms (--launch-timeout) at 127.0.0.1:"; err == nil || strings.Count(err.Error(), want) != 1 {
		t.Errorf("got %v, want %q in it once", err, want)
	}
	wantHint(t, err, "--port-range")
}

// wantHint checks that an error says what helps.
func wantHint(t *testing.T, err error, want string) {
	t.Helper()
	hint := new(daemon.HintError)
	if !errors.As(err, &hint) || !strings.Contains(hint.Hint, want) {
		t.Errorf("error %v has hint %q, want %q in it", err, hint.Hint, want)
	}
}

// No agent starts after the first has failed. The others that fail with it are told with it.
func TestFirstFailureEndsStart(t *testing.T) {
	dir := t.TempDir()
	j := newJob(t, atOnce+20, ExecAgent([]string{"sh", "-c", `: > {node}; echo "no way to {host}"; exit 3`}, "oshrun"))
	t.Chdir(dir)
	err := j.start(t.Context())
	if err == nil || strings.Count(err.Error(), "exit status 3") != 1 {
		t.Errorf("got %v, want one error of an agent", err)
	}
	if started, _ := os.ReadDir(dir); len(started) > atOnce {
		t.Errorf("%d agents have started, want %d at most", len(started), atOnce)
	}
}

// No agent starts when the user does not want the job any more.
func TestNoStartAfterCancel(t *testing.T) {
	dir := t.TempDir()
	j := newJob(t, 3, ExecAgent([]string{"sh", "-c", `: > {node}`}, "oshrun"))
	t.Chdir(dir)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := j.start(ctx); err == nil || err.Error() != enough.Error() {
		t.Errorf("got %v, want %v", err, enough)
	}
	if started, _ := os.ReadDir(dir); len(started) > 0 {
		t.Errorf("%d agents have started, want none", len(started))
	}
}

// Each cause is said once: the end that the user wants, and a node that is lost, while steps are started.
func TestCauseOnce(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]bool{"canceled": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newMailboxes(t, 3)
			j := newJob(t, 3, b.agent())
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			over := make(chan error)
			go func() { over <- j.start(ctx) }()
			var daemons []*puppet
			for i := range 3 {
				daemons = append(daemons, b.join(i))
			}
			for _, d := range daemons {
				d.await(t, wire.KindConfig)
			}
			want := "enough"
			if lose {
				want = "its daemon has closed the connection"
				_ = daemons[1].link.Close(time.Second)
			} else {
				cancel(errors.New(want))
			}
			if err := <-over; err == nil || strings.Count(err.Error(), want) != 1 || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q once and nothing else", err, want)
			}
		})
	}
}

// A node that is lost ends the start, though other daemons have not reported themselves.
func TestLossEndsStart(t *testing.T) {
	t.Parallel()
	b := newMailboxes(t, 2)
	j := newJob(t, 2, b.agent())
	over := make(chan error)
	go func() { over <- j.start(t.Context()) }()
	_ = b.join(0).link.Close(time.Second)
	if err, want := <-over, "node0: its daemon has closed the connection"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Kill ends a start at once that waits for a daemon, and the agents.
func TestKill(t *testing.T) {
	t.Parallel()
	b := newMailboxes(t, 2)
	j := newJob(t, 2, b.agent())
	over := make(chan error)
	go func() { over <- j.start(t.Context()) }()
	d := b.join(0)
	b.handover(1)
	close(j.kill)
	if err := <-over; !errors.Is(err, errKilled) {
		t.Errorf("got %v, want %v", err, errKilled)
	}
	if err := <-d.over; err == nil {
		t.Error("the daemon was told goodbye, want a connection that was closed")
	}
}

// A frame that no daemon sends loses its node: the others learn of it, and its daemon has no link any more.
func TestNonsenseLosesNode(t *testing.T) {
	t.Parallel()
	for name, nonsense := range map[string]wire.Frame{
		"kind":  {Kind: 0x0fff},
		"relay": {Kind: wire.KindRelay, Stream: 77, Body: make([]byte, relayHead)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newMailboxes(t, 2)
			j := newJob(t, 2, b.agent())
			over := make(chan error)
			go func() { over <- j.start(t.Context()) }()
			daemons := []*puppet{b.join(0), b.join(1)}
			daemons[0].link.Send(nonsense)
			if dead := daemons[1].await(t, wire.KindNodeDead); dead.Stream != 0 {
				t.Errorf("node %d is dead, want node 0", dead.Stream)
			}
			if err := <-daemons[0].over; err == nil {
				t.Error("the link ends well")
			}
			if err := <-over; err == nil || !strings.HasPrefix(err.Error(), "node0: ") {
				t.Errorf("got %v, want an error of node0", err)
			}
		})
	}
}

// A daemon that does not understand the front end says so and ends.
func TestDaemonTellsNonsense(t *testing.T) {
	t.Parallel()
	accepted := make(chan *control.Link, 1)
	took, bye := make(chan wire.Frame, 10), make(chan struct{})
	secret := control.NewSecret()
	ln, err := control.Listen(control.ListenConfig{
		Secret: secret, Self: (&root{}).identity(), Addrs: newJob(t, 0, Agent{}).cfg.Addrs,
		Accept: func(l *control.Link) (control.Handler, error) {
			accepted <- l
			return control.Handler{Take: func(f wire.Frame) { took <- f }, Bye: func() { close(bye) }}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	h := Handover{Secret: secret, Node: 0, Root: ln.Addrs(), Dial: patience, Lease: 10 * time.Second}
	over := make(chan error)
	go func() {
		over <- RunDaemon(t.Context(), strings.NewReader(string(h.Append(nil))), zerolog.Nop())
	}()
	l := <-accepted
	defer l.Abort()
	l.Send(wire.Frame{Kind: 0x0fff})
	const want = "the front end has sent what is not understood: message of kind 0xfff"
	if err := <-over; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the daemon ends with %v, want %q", err, want)
	}
	if f := <-took; f.Kind != wire.KindNotice || !strings.Contains(string(f.Body), want) {
		t.Errorf("the front end is told %#x, %q, want a notice with %q", f.Kind, f.Body, want)
	}
	<-bye
}

// What is said of strangers goes the way of notices.
func TestStrangerIsNoticed(t *testing.T) {
	t.Parallel()
	b := newMailboxes(t, 1)
	j := newJob(t, 1, b.agent())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan error)
	go func() { over <- j.start(ctx) }()
	c, err := net.Dial("tcp", b.handover(0).Root[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	await(t, j.notices, "connection from "+c.LocalAddr().String())
	cancel()
	<-over
}
