package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
)

// newStdioJob returns a job whose daemons have no way to the front end but their agents.
func newStdioJob(t *testing.T, n int, agent Agent) *job {
	j := newJob(t, n, agent)
	j.cfg.Addrs, j.cfg.Stdio = nil, true
	return j
}

// Daemons start, run their steps and end over the standard input and output of their agents, whatever else these print.
func TestStdio(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]Agent{
		"local":     LocalAgent(oshrun(t)),
		"noise":     shellAgent(t, `echo welcome to {host}; printf 'prompt> '; "$@"`),
		"long line": shellAgent(t, `head -c 100000 /dev/zero | tr '\0' x; exec "$@"`),
		"copies":    shellAgent(t, `cat | "$@" | cat`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newStdioJob(t, 3, agent)
			j.begin()
			for i, n := range j.nodes {
				if err := errors.Join(n.Launch(), n.Close()); err != nil {
					t.Errorf("node %d: %v", i, err)
				}
			}
			j.wantAllEnded()
		})
	}
}

// The end of an agent, or of a daemon alone, is the loss of the node, and the front end says how the agent has ended.
func TestStdioBreaks(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		script string
		says   string
	}{
		"agent":  {`exec "$@"`, "signal: killed"},
		"daemon": {`exec 3<&0; "$@" <&3 & echo $! >&2; exec 3<&- >&-; wait $!; echo last words >&2; exit 7`, "exit status 7: "},
		"pipes":  {`exec 3<&0; "$@" <&3 & echo $! >&2; exec 3<&- >&-; wait $!; exec sleep 1000`, "its only connection has broken: read: EOF (--control stdio)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newStdioJob(t, 2, shellAgent(t, x.script))
			j.begin()
			if err := errors.Join(j.nodes[0].Launch(), j.nodes[1].Launch()); err != nil {
				t.Fatal(err)
			}
			agent := j.member(0).agent
			if name == "agent" {
				agent.kill()
			} else {
				var pid int
				if _, err := fmt.Sscan(agent.said.String(), &pid); err != nil {
					t.Fatal(err)
				}
				p, err := os.FindProcess(pid)
				if err == nil {
					err = p.Kill()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if why := j.awaitLoss(0); !strings.Contains(why, x.says) {
				t.Errorf("lost because of %q, want %q in it", why, x.says)
			}
			if err := j.nodes[1].Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Agents that pass on nothing, or too much, end the start with an error that says what is wrong.
func TestStdioFailures(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		script, says, hint string
	}{
		"no daemon":      {`echo no way to {host}; exit 3`, "exit status 3: no way to node", "pass on standard input and output"},
		"one output":     {`exec "$@" 2>&1`, "standard output and standard error are one file", "pass on standard input and output"},
		"no input":       {`exec "$@" </dev/null`, "standard input ends before the empty line", "pass on standard input and output"},
		"no pipe":        {`"$@" >/dev/null`, "standard output is no pipe and no socket", "pass on standard input and output"},
		"silence":        {`exec sleep 1000`, "it has not reported itself within 1s (--launch-timeout) by its standard output", "pass on standard input and output"},
		"not understood": {`cat >/dev/null & printf 'goshmem-control 1\nGET / HTTP/1.0\r\n\r\n'; exec sleep 1000`, "it has not reported itself within 1s", "pass on standard input and output"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newStdioJob(t, 1, shellAgent(t, x.script))
			if strings.Contains(x.says, "within 1s") {
				j.cfg.Within = time.Second
			}
			err := j.start(t.Context())
			if err == nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("got %v, want %q in it", err, x.says)
			}
			wantHint(t, err, x.hint)
		})
	}
}

// An end that the user wants ends a start that waits for a greeting, and leaves nothing behind.
func TestStdioCancel(t *testing.T) {
	t.Parallel()
	b := newMailboxes(t, 1)
	j := newStdioJob(t, 1, ExecAgent([]string{"sh", "-c", `echo $$ > "$0/{node}"; exec sleep 1000`, b.dir}, "oshrun"))
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan error)
	go func() { over <- j.start(ctx) }()
	b.pid(0)
	enough := errors.New("enough")
	cancel(enough)
	if err := <-over; err == nil || err.Error() != enough.Error() {
		t.Errorf("got %v, want %v", err, enough)
	}
}

// A daemon whose standard input ends has lost the front end, and ends at once.
func TestStdioFrontEndGone(t *testing.T) {
	t.Parallel()
	j := newStdioJob(t, 1, LocalAgent(oshrun(t)))
	j.begin()
	m := j.member(0)
	m.link.Abort()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-m.agent.ended:
	case <-late.C:
		t.Fatal("the daemon does not end")
	}
	if text := m.agent.said.String(); !strings.Contains(text, "front end is lost: ") || !strings.Contains(text, "its only connection has broken") {
		t.Errorf("the daemon has said %q", text)
	}
	m.lose(errors.New("cut off")) // as nobody else says it
	if err := m.Close(); !errors.As(err, new(*daemon.LostError)) {
		t.Errorf("close: %v", err)
	}
}
