package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/wire"
)

// newTree returns a job of seven nodes on three levels: 0 and 1; 2, 3, 4 and 5; 6.
func newTree(t *testing.T, agent Agent) *job {
	j := newJob(t, 7, agent)
	j.cfg.Radix = 2
	return j
}

// ownAgents returns how many agents the front end has started.
func (j *job) ownAgents() int {
	r := j.member(0).root
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.agents)
}

// wantAllEnded checks that all agents have ended, which are the daemons or wait for them.
func (j *job) wantAllEnded() {
	j.t.Helper()
	for i := range j.nodes {
		select {
		case <-j.member(i).agent.ended:
		default:
			j.t.Errorf("the agent of node %d has not ended", i)
		}
	}
}

func TestParents(t *testing.T) {
	for radix, want := range map[int]string{0: "-------", 1: "-012345", 2: "--00112", 3: "---0001", 32: "-------"} {
		r := &root{cfg: Config{Radix: radix}, hosts: make([]plan.Host, 7)}
		for i := range 7 {
			r.members = append(r.members, &member{index: i, holds: 1})
		}
		r.plantTree()
		got := ""
		for _, m := range r.members {
			if m.parent == nil {
				got += "-"
			} else {
				got += fmt.Sprint(m.parent.index)
			}
		}
		if got != want {
			t.Errorf("radix %d: parents %s, want %s", radix, got, want)
		}
	}
}

// The front end starts a daemon of its own machine itself, on whatever level its node is.
func TestParentOfThisMachine(t *testing.T) {
	r := &root{cfg: Config{Radix: 2, Here: LocalAgent("oshrun")}, hosts: make([]plan.Host, 7), here: []bool{3: true}}
	for i := range r.hosts {
		r.members = append(r.members, &member{index: i})
	}
	r.plantTree()
	if r.members[3].parent != nil || r.members[2].parent != r.members[0] || r.members[4].parent != r.members[1] {
		t.Errorf("parents %v, %v, %v, want node 0, none, node 1", r.members[2].parent, r.members[3].parent, r.members[4].parent)
	}
}

// Daemons start daemons, and all end with the last node that is closed, in whatever order.
func TestTree(t *testing.T) {
	t.Parallel()
	for name, at := range map[string][]int{"root first": {0, 1, 2, 3, 4, 5, 6}, "leaves first": {6, 5, 4, 3, 2, 1, 0}, "at once": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newTree(t, shellAgent(t, `exec "$@"`))
			j.begin()
			if n := j.ownAgents(); n != 2 {
				t.Errorf("the front end has started %d agents, want 2", n)
			}
			for i, n := range j.nodes {
				if err := n.Launch(); err != nil {
					t.Errorf("node %d: %v", i, err)
				}
			}
			for _, i := range at {
				if err := j.nodes[i].Close(); err != nil {
					t.Errorf("node %d: %v", i, err)
				}
			}
			var closes sync.WaitGroup
			for i, n := range j.nodes {
				closes.Go(func() {
					if err := n.Close(); err != nil {
						t.Errorf("node %d: %v", i, err)
					}
				})
			}
			closes.Wait()
			j.wantAllEnded()
		})
	}
}

// The nodes whose daemons a lost daemon has started go on.
func TestInnerDaemonKilled(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]Agent{"local": LocalAgent(oshrun(t)), "shell": shellAgent(t, `trap "" TERM; "$@"; exit $?`)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newTree(t, agent)
			j.begin()
			for i, n := range j.nodes {
				if err := n.Launch(); err != nil {
					t.Errorf("node %d: %v", i, err)
				}
			}
			victim := j.member(0)
			victim.agent.kill()
			if name == "shell" { // the daemon goes on, and is cut off
				await(t, j.log, "the daemon goes on")
				victim.link.Abort()
				victim.lose(errors.New("cut off"))
			}
			j.awaitLoss(0)
			for range 2 {
				await(t, j.log, "the daemon goes on")
			}
			for i, n := range j.nodes {
				if i > 0 && n.PID(daemon.ID{PE: i}) == 0 {
					t.Errorf("node %d has no PE any more", i)
				}
				if err := n.Close(); i > 0 && err != nil {
					t.Errorf("node %d: %v", i, err)
				}
			}
		})
	}
}

// A daemon that is lost while the daemons that it has started report themselves ends the start.
func TestInnerDaemonKilledDuringStart(t *testing.T) {
	t.Parallel()
	b := newMailboxes(t, 7)
	script := fmt.Sprintf(`case {node} in 2) echo $$ > %[1]s/2; exec sleep 1000;; 0) echo $$ > %[1]s/0;; esac; exec "$@"`, b.dir)
	j := newTree(t, shellAgent(t, script))
	over := make(chan error)
	go func() { over <- j.start(t.Context()) }()
	inner, _ := b.pid(0)
	stuck, _ := b.pid(2)
	if err := syscall.Kill(inner, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := <-over; err == nil || !strings.Contains(err.Error(), "node0: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want an error of node0 alone", err)
	}
	if err := syscall.Kill(stuck, syscall.SIGKILL); err != nil { // nobody else knows it
		t.Error(err)
	}
}

// pid returns the number of a process that its agent has written, and the mailbox, which ends with the process if that
// keeps it open.
func (b *mailboxes) pid(node int) (pid int, f *os.File) {
	b.t.Helper()
	f, err := os.Open(filepath.Join(b.dir, fmt.Sprint(node))) // returns when the agent has opened it
	if err == nil {
		b.t.Cleanup(func() { f.Close() })
		err = f.SetReadDeadline(time.Now().Add(patience))
	}
	if err == nil {
		_, err = fmt.Fscanln(f, &pid)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return pid, f
}

// The front end starts a daemon itself, and all that are left, if the agent of another daemon fails, or does nothing.
func TestFallback(t *testing.T) {
	t.Parallel()
	for name, instead := range map[string]string{"fails": "echo no way; exit 5", "hangs": "exec sleep 1000", "is missing": `exec ./no-such-program`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newTree(t, shellAgent(t, `tr '\000' ' ' < /proc/$PPID/cmdline | grep -q 'daemon --stdin' && { `+instead+`; }; exec "$@"`))
			j.cfg.Within = 12 * time.Second
			j.begin()
			if n := j.ownAgents(); n != 7 {
				t.Errorf("the front end has started %d agents, want 7", n)
			}
			said := await(t, j.log, "cannot start the daemon of another one")
			if name == "fails" && !strings.Contains(said, "exit status 5: no way") {
				t.Errorf("said %s, want how the agent has ended", said)
			}
			for i, n := range j.nodes {
				if err := errors.Join(n.Launch(), n.Close()); err != nil {
					t.Errorf("node %d: %v", i, err)
				}
			}
		})
	}
}

// An agent that a signal ends was started: it ends the start, wherever it ran. The front end does not start another one.
func TestAgentKilledInTree(t *testing.T) {
	t.Parallel()
	for name, node := range map[string]string{"of the front end": "1", "of another daemon": "4"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again := filepath.Join(t.TempDir(), "again")
			script := fmt.Sprintf(`if test {node} = %s && ! test -e %[2]s; then touch %[2]s; kill -9 $$; fi; exec "$@"`, node, again)
			err := newTree(t, shellAgent(t, script)).start(t.Context())
			if err == nil || !strings.Contains(err.Error(), "node"+node+", started by") || !strings.Contains(err.Error(), "signal: killed") {
				t.Errorf("got %v, want the end of the agent of node %s by a signal", err, node)
			}
		})
	}
}

// A start that fails at a leaf leaves no agent behind.
func TestFailureInTree(t *testing.T) {
	t.Parallel()
	b := newMailboxes(t, 7)
	script := fmt.Sprintf(`case {node} in 3) exec 9> %[1]s/3; echo $$ >&9; exec sleep 1000;; esac; exec "$@"`, b.dir)
	j := newTree(t, shellAgent(t, script))
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan error)
	go func() { over <- j.start(ctx) }()
	_, stuck := b.pid(3)
	enough := errors.New("enough")
	cancel(enough)
	if err := <-over; err == nil || err.Error() != enough.Error() {
		t.Errorf("got %v, want %v", err, enough)
	}
	if _, err := io.Copy(io.Discard, stuck); err != nil {
		t.Errorf("the agent of node 3 is still there: %v", err)
	}
}

// Orders and reports of nonsense are errors, which name no secret.
func TestBranch(t *testing.T) {
	said := make(chan wire.Frame, 1)
	b := branch{send: func(f wire.Frame) { said <- f }}
	h := Handover{Secret: control.NewSecret()}
	order := agentOrder{Where: "there", Argv: []string{"./no-such-program"}, Handover: h.Append(nil)}
	f := wire.Frame{Kind: wire.KindStartAgent, Stream: 3, Body: wire.Encode(order.code)}
	if err := b.start(f); err != nil {
		t.Error(err)
	}
	got := <-said
	var end agentEnd
	if err := wire.Decode(got.Body, "end", end.code); err != nil || got.Kind != wire.KindAgentEnded || got.Stream != 3 || !strings.Contains(end.How, "no such file") {
		t.Errorf("got %#x of node %d, %+v, %v, want that there is no such file", got.Kind, got.Stream, end, err)
	}
	if b.isUsed() {
		t.Error("an agent that was not started counts")
	}
	f.Body = f.Body[:len(f.Body)-1]
	if err := b.start(f); err == nil || strings.Contains(err.Error(), strings.TrimSpace(h.Secret.Line())) {
		t.Errorf("got %v, want an error without the secret", err)
	}
	m := &member{started: map[int]*agentProcess{}}
	for _, bad := range []wire.Frame{{Kind: wire.KindAgentEnded}, {Kind: wire.KindAgentEnded, Stream: 9, Body: wire.Encode(end.code)}} {
		if err := m.takeAgentEnd(bad); err == nil {
			t.Errorf("no error for %+v", bad)
		}
	}
	b.kill(3)
	b.close(0)
	if err := b.start(wire.Frame{Stream: 3, Body: wire.Encode(order.code)}); err != nil || len(said) > 0 {
		t.Errorf("an agent is started after the end: %v", err)
	}
}
