package nodes

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
)

// Errors that differ by their hosts are told once, and hosts are named as far as there is room.
func TestJoinByKind(t *testing.T) {
	agent := func(host, how, said string) hostError {
		return hostError{host, &daemon.HintError{Err: &AgentError{Where: host, Argv: []string{"ssh", host}, Err: errors.New(how), Said: said}, Hint: host}}
	}
	plain := func(host, format string) hostError { return hostError{host, fmt.Errorf(format, host)} }
	var many []hostError
	for i := range 10 {
		host := fmt.Sprintf("n%d", i)
		many = append(many, agent(host, "exit status 255", "ssh: connect to host "+host+" port 22: Connection refused"))
	}
	var all []hostError
	for i := range 6 {
		all = append(all, plain(fmt.Sprintf("n%d", i), fmt.Sprintf("%%s: error %d", i)))
	}
	errAll := errors.New("one agent for all: a has failed")
	for _, x := range []struct {
		errs []hostError
		want string
	}{
		{nil, ""},
		{many[:1], `daemon on n0, started by "ssh n0": exit status 255: ssh: connect to host n0 port 22: Connection refused`},
		{many[:2], `daemon on n0, started by "ssh n0": exit status 255: ssh: connect to host n0 port 22: Connection refused; and 1 more of the same kind: n1`},
		{many, `daemon on n0, started by "ssh n0": exit status 255: ssh: connect to host n0 port 22: Connection refused; and 9 more of the same kind: n1, n2, n3, n4 and 5 more`},
		{[]hostError{plain("a", "%s: no"), plain("b.c", "%s: no way"), plain("c", "%s: no")}, "a: no; and 1 more of the same kind: c\nb.c: no way"},
		{[]hostError{agent("a", "exit status 127", "sh: a: ./a_a: not found"), agent("b", "exit status 127", "sh: a: ./b_b: not found")}, "daemon on a, started by \"ssh a\": exit status 127: sh: a: ./a_a: not found\ndaemon on b, started by \"ssh b\": exit status 127: sh: a: ./b_b: not found"},
		{[]hostError{agent("n1", "exit status 127", "./n1_n1-n1: not found"), agent("n2", "exit status 127", "./n2_n2-n2: not found")}, `daemon on n1, started by "ssh n1": exit status 127: ./n1_n1-n1: not found; and 1 more of the same kind: n2`},
		{[]hostError{{"a", errAll}, {"b", errAll}, {"c", errAll}}, "one agent for all: a has failed; and 2 more of the same kind: b, c"},
		{all, "n0: error 0\nn1: error 1\nn2: error 2\nn3: error 3\nand other errors on n4, n5"},
	} {
		got := joinByKind(x.errs)
		if text := fmt.Sprint(got); text != x.want && (got != nil || x.want != "") {
			t.Errorf("got %s\nwant %s", text, x.want)
		}
	}
	hint := new(daemon.HintError)
	if err := joinByKind(append(all[:1], many...)); !errors.As(err, &hint) || hint.Hint != "n0" {
		t.Errorf("hint %q of %v, want that of the first error that has one", hint.Hint, err)
	}
}

// Daemons that fail in different ways are all told, though the first one ends the start.
func TestSeveralFailures(t *testing.T) {
	t.Parallel()
	script := `cd %s; : > {node}; until [ -e 1 -a -e 2 -a -e 3 ]; do sleep 0.01; done; n={node}; echo "no $((n / 2)) for {host}"; exit 3`
	j := newJob(t, 4, shellAgent(t, `case {node} in 0) exec "$@";; esac; `+fmt.Sprintf(script, t.TempDir())))
	j.cfg.patience = patience
	err := j.start(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error()
	if strings.Count(text, "exit status 3") != 2 || !strings.Contains(text, "no 0 for node1") || strings.Count(text, "and 1 more of the same kind: node3") != 1 {
		t.Errorf("got %v, want the error of node1, and one of node2 and node3", err)
	}
	wantHint(t, err, "the same command by hand")
}

// A daemon that neither fails nor reports itself does not hold up the error of another.
func TestFailureBesideSilence(t *testing.T) {
	t.Parallel()
	j := newJob(t, 2, shellAgent(t, `case {node} in 0) exec sleep 1000;; *) exit 3;; esac`))
	began := time.Now()
	err := j.start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || strings.Contains(err.Error(), "node0") {
		t.Errorf("got %v, want the error of node1 alone", err)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the error comes after %v", took)
	}
}

// The last words of an agent are kept although a process that it leaves behind holds its output open.
func TestLastWords(t *testing.T) {
	t.Parallel()
	p := newAgentProcess("b", []string{"sh", "-c", "sleep 1000 & echo last words; echo $! >&2; exit 3"})
	if err := p.start(nil); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	var pid int
	if _, err := fmt.Sscanf(p.said.String(), "last words\n%d", &pid); err != nil {
		t.Fatalf("said %q: %v", p.said, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := p.failure(); !strings.Contains(err.Error(), "exit status 3: last words") {
		t.Errorf("got %v, want what it has said", err)
	}
}

// The exit status of an agent says what may help.
func TestHintOfAgent(t *testing.T) {
	for status, want := range map[int]string{3: "the same command by hand", 126: "--prefix DIR", 127: "--prefix DIR", 255: "ssh -o BatchMode=yes b true"} {
		p := newAgentProcess("b", nil)
		p.login = "b"
		p.finish(exec.Command("sh", "-c", fmt.Sprintf("exit %d", status)).Run())
		wantHint(t, p.failure(), want)
		p.login = ""
		if status == 255 {
			wantHint(t, p.failure(), "the same command by hand")
		}
	}
}
