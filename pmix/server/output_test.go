package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/pmix/codec"
)

// startForTools starts a server that takes any tool, with tight limits.
func startForTools(t *testing.T, n int, change func(l *limits, cfg *Config)) *Server {
	t.Helper()
	lim := defaultLimits(n)
	cfg := Config{Job: testJob(n), AuthorizeTool: func(net.Conn) (int, error) { return 4711, nil }}
	change(&lim, &cfg)
	s, err := startWith(cfg, lim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// attachRaw connects as a tool, in one of the ways that tools use.
func attachRaw(t *testing.T, addr string, flag uint8, name codec.Proc) (net.Conn, codec.ToolReply) {
	t.Helper()
	nc := dialRaw(t, addr)
	h := codec.NewToolHandshake(1000, 1000, codec.SecurityNone, nil)
	h.Flag, h.Proc = flag, name
	if _, err := nc.Write(codec.AppendHandshake(nil, h)); err != nil {
		t.Fatal(err)
	}
	reply, err := codec.ReadToolReply(nc, h.NeedsID())
	if err != nil {
		t.Fatal(err)
	}
	return nc, reply
}

func TestToolHandshakes(t *testing.T) {
	s := startForTools(t, 2, func(*limits, *Config) {})
	addr := s.ln.Addr().String()
	own := codec.Proc{Nspace: "gdb", Rank: 3}
	for _, q := range []struct {
		flag uint8
		name codec.Proc
		want codec.Status
	}{
		{codec.ToolNeedsIDFlag, codec.Proc{}, codec.StatusSuccess},
		{codec.LauncherNeedsIDFlag, codec.Proc{}, codec.StatusSuccess},
		{codec.ToolGivenIDFlag, own, codec.StatusSuccess},
		{codec.LauncherGivenIDFlag, own, codec.StatusErrExists},
		{codec.ToolGivenIDFlag, first(1), codec.StatusErrExists}, // a tool cannot claim to be a process of the job
		{codec.SingletonFlag, codec.Proc{Nspace: "a;b"}, codec.StatusErrNoPermissions},
		{codec.SingletonFlag, codec.Proc{Nspace: "a", Rank: codec.RankWildcard}, codec.StatusErrNoPermissions},
		{codec.ToolClientFlag, first(1), codec.StatusSuccess}, // unless it is a process of the job
		{codec.LauncherClientFlag, first(7), codec.StatusErrNotFound},
		{codec.LegacyToolFlag, codec.Proc{}, codec.StatusErrNotSupported},
	} {
		nc, reply := attachRaw(t, addr, q.flag, q.name)
		if reply.Status != q.want {
			t.Errorf("kind %d as %v: %v, want %v", q.flag, q.name, reply.Status, q.want)
			continue
		}
		if q.want != codec.StatusSuccess {
			awaitClose(t, nc)
			continue
		}
		if reply.Server != s.proc() || (reply.Given != nil && !strings.HasPrefix(reply.Given.Nspace, testNspace+"-tool-")) {
			t.Errorf("kind %d as %v: named %v by %v, want a name from %v", q.flag, q.name, reply.Given, reply.Server, s.proc())
		}
		ask(t, nc, 101, &codec.InitRequest{})
		answer(t, nc, 101)
	}
}

func TestToolsAreNotAcceptedUnlessWanted(t *testing.T) {
	for name, q := range map[string]struct {
		authorize func(net.Conn) (int, error)
		want      codec.Status
	}{
		"none":     {nil, codec.StatusErrNotSupported},
		"stranger": {func(net.Conn) (int, error) { return 0, errors.New("user 7, want user 8") }, codec.StatusErrNoPermissions},
	} {
		s := startForTools(t, 1, func(_ *limits, cfg *Config) { cfg.AuthorizeTool = q.authorize })
		if q.authorize == nil && s.ToolURI() != "" {
			t.Errorf("%s: a server without tools offers %s", name, s.ToolURI())
		}
		nc, reply := attachRaw(t, s.ln.Addr().String(), codec.ToolNeedsIDFlag, codec.Proc{})
		if reply.Status != q.want {
			t.Errorf("%s: %v, want %v", name, reply.Status, q.want)
		}
		awaitClose(t, nc)
	}
}

// pull requests output and returns once the request has taken effect.
func pull(t *testing.T, nc net.Conn, tag uint32, r *codec.IOFPullRequest) {
	t.Helper()
	ask(t, nc, tag, r)
	if reply, err := codec.DecodeIOFPullReply(answer(t, nc, tag)); err != nil || reply.Status != codec.StatusSuccess {
		t.Fatalf("pull: %v, %v", reply.Status, err)
	}
	ask(t, nc, tag, &codec.InitRequest{}) // the table is in effect once a later request is answered
	answer(t, nc, tag)
}

func TestOutput(t *testing.T) {
	s := startForTools(t, 2, func(*limits, *Config) {})
	nc, _ := attachRaw(t, s.ln.Addr().String(), codec.ToolNeedsIDFlag, codec.Proc{})
	pull(t, nc, 101, pullOf(7, codec.IOFStdout, first(codec.RankWildcard)))
	pull(t, nc, 101, pullOf(8, codec.IOFStderr, first(1)))
	long := bytes.Repeat([]byte("x"), maxIOFText+1)
	s.Output(first(0), false, []byte("out\n"))
	s.Output(first(0), true, []byte("nobody asked\n"))
	s.Output(codec.Proc{Nspace: "else"}, false, []byte("nobody asked\n"))
	s.Output(first(1), true, []byte("err\n"))
	s.Output(first(1), false, nil)
	s.Output(first(1), false, long)
	for _, want := range []codec.IOFMessage{
		{Source: first(0), Channel: codec.IOFStdout, ID: 7, Data: []byte("out\n")},
		{Source: first(1), Channel: codec.IOFStderr, ID: 8, Data: []byte("err\n")},
		{Source: first(1), Channel: codec.IOFStdout, ID: 7, Data: long[:maxIOFText]},
		{Source: first(1), Channel: codec.IOFStdout, ID: 7, Data: []byte("x")},
	} {
		m, err := codec.DecodeIOFMessage(answer(t, nc, codec.TagIOF))
		if err != nil || m.Source != want.Source || m.Channel != want.Channel || m.ID != want.ID || !bytes.Equal(m.Data, want.Data) {
			t.Fatalf("%v %d %d with %d bytes, %v; want %v %d %d with %d", m.Source, m.Channel, m.ID, len(m.Data), err,
				want.Source, want.Channel, want.ID, len(want.Data))
		}
	}
}

func TestOutputToNobodyIsFree(t *testing.T) {
	s := startForTools(t, 1, func(*limits, *Config) {})
	text := []byte("a line\n")
	if n := testing.AllocsPerRun(100, func() { s.Output(first(0), false, text) }); n != 0 {
		t.Errorf("%.0f allocations a line, want none", n)
	}
}

// logLines collects a server's log.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logLines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// A tool that does not read its output is dropped, with one line in the log. The writer never waits. A process of the
// job in the same situation loses only the output.
func TestListenerThatDoesNotRead(t *testing.T) {
	var log logLines
	s := startForTools(t, 2, func(l *limits, cfg *Config) {
		l.outputBytes, cfg.Logger = 64<<10, zerolog.New(&log)
	})
	addr := s.ln.Addr().String()
	tool, _ := attachRaw(t, addr, codec.ToolNeedsIDFlag, codec.Proc{})
	pull(t, tool, 101, pullOf(0, codec.IOFStdout, first(0)))
	parent := claimRaw(t, addr, 1)
	pull(t, parent, 101, pullOf(0, codec.IOFStdout, first(0)))
	text := bytes.Repeat([]byte("y"), 8<<10)
	const said = "does not read the output"
	for begin := time.Now(); log.count(said) < 2; {
		s.Output(first(0), false, text)
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d lines in the log, want one for the tool and one for the process", log.count(said))
		}
	}
	for range 100 {
		s.Output(first(0), false, text)
	}
	if n := log.count(said); n != 2 {
		t.Errorf("%d lines in the log, want 2", n)
	}
	if _, err := io.Copy(io.Discard, tool); err != nil && isTimeout(err) {
		t.Errorf("the tool is still connected: %v", err)
	}
	ask(t, parent, 102, &codec.InitRequest{})
	for {
		h, _, err := codec.ReadFrame(parent, 1<<30)
		if err != nil {
			t.Fatalf("the process of the job was dropped: %v", err)
		}
		if h.Tag == 102 {
			return
		}
	}
}

func BenchmarkOutputToNobody(b *testing.B) {
	s, err := Start(Config{Job: testJob(1)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	text := []byte("a line\n")
	for b.Loop() {
		s.Output(first(0), false, text)
	}
}

// A spawn request to a server without a host is answered, too.
func TestSpawnWithoutHost(t *testing.T) {
	_, addr := startLimited(t, 1, func(*limits) {}, nil)
	nc := claimRaw(t, addr, 0)
	ask(t, nc, 101, spawnOf())
	if status, err := codec.DecodeStatusReply(answer(t, nc, 101)); err != nil || status != codec.StatusErrNotSupported {
		t.Errorf("%v, %v; want PMIX_ERR_NOT_SUPPORTED", status, err)
	}
}

func TestAddJob(t *testing.T) {
	s := startForTools(t, 1, func(*limits, *Config) {})
	if err := s.AddJob(testJob(1), codec.Proc{}); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("second job of the same name: %v, want an error", err)
	}
	if err := s.AddJob(JobLayout{Nspace: "x"}, codec.Proc{}); err == nil {
		t.Error("job without hosts: no error")
	}
	for range 3 {
		if err := s.AddJob(secondJob(2), first(0)); err != nil {
			t.Fatal(err)
		}
		env := fmt.Sprint(s.Environ(second(1)))
		if !strings.Contains(env, "PMIX_NAMESPACE=job-2 PMIX_RANK=1") || s.Environ(second(2)) != nil {
			t.Errorf("environment %s", env)
		}
		nc := dialRaw(t, s.ln.Addr().String())
		introduceRaw(t, nc, second(1))
		s.RemoveJob("job-2")
		awaitClose(t, nc)
		if s.Environ(second(1)) != nil {
			t.Error("a removed job still has an environment")
		}
	}
}
