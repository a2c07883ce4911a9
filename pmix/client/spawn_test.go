package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// nursery is a host whose jobs are goroutines, each with its own client.
type nursery struct {
	server.Host // nil: no other upcall comes
	t           *testing.T
	ctx         context.Context
	srv         *server.Server
	child       func(c *client.Client, r *server.SpawnRequest) error // what a process of a spawned job does
	children    errgroup.Group
	pushed      chan string
	aborted     chan string

	mu   sync.Mutex
	jobs int
}

func (n *nursery) ClientConnected(codec.Proc, int) {}
func (n *nursery) ClientFinalized(codec.Proc)      {}
func (n *nursery) ClientLost(codec.Proc)           {}

func (n *nursery) Abort(from codec.Proc, procs []codec.Proc, status int, msg string) {
	n.aborted <- fmt.Sprintf("%v ends %v: %d %s", from, procs, status, msg)
}

func (n *nursery) Stdin(to []codec.Proc, data []byte, eof bool) {
	n.pushed <- fmt.Sprintf("%v %q %v", to, data, eof)
}

func (n *nursery) Spawn(r *server.SpawnRequest) {
	n.children.Go(func() error {
		n.mu.Lock()
		n.jobs++
		nspace := fmt.Sprint("child-", n.jobs)
		n.mu.Unlock()
		if r.Apps[0].Cmd == "/none" {
			n.srv.SpawnDone(r.ID, "", codec.StatusErrNotFound)
			return nil
		}
		if err := n.srv.AddJob(jobOf(nspace, r.Apps[0].MaxProcs), r.From); err != nil {
			return err
		}
		for rank := range r.Apps[0].MaxProcs { // output before the answer must not be lost
			n.srv.Output(codec.Proc{Nspace: nspace, Rank: codec.Rank(rank)}, rank > 0, fmt.Appendf(nil, "first of %d\n", rank))
		}
		n.srv.SpawnDone(r.ID, nspace, codec.StatusSuccess)
		var g errgroup.Group
		for rank := range r.Apps[0].MaxProcs {
			p := codec.Proc{Nspace: nspace, Rank: codec.Rank(rank)}
			g.Go(func() error {
				c, err := client.Dial(n.ctx, optionsOf(n.t, n.srv, p))
				if err != nil {
					return err
				}
				defer n.srv.ProcExited(p, server.Exit{})
				return errors.Join(n.child(c, r), c.Finalize(n.ctx))
			})
		}
		return g.Wait()
	})
}

func jobOf(nspace string, n int) server.JobLayout {
	job := server.JobLayout{Nspace: nspace, Hosts: []string{"vm"}}
	for r := range n {
		job.Procs = append(job.Procs, server.Proc{Rank: uint32(r), LocalRank: uint16(r)})
	}
	return job
}

func optionsOf(t *testing.T, srv *server.Server, p codec.Proc) client.Options {
	t.Helper()
	env := map[string]string{}
	for _, kv := range srv.Environ(p) {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	opts, _, err := client.FromEnv(func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	if err != nil {
		t.Error(err)
	}
	return opts
}

// raise starts a server whose first job has one process, and returns the host and the client of that process.
func raise(t *testing.T, child func(c *client.Client, r *server.SpawnRequest) error) (*nursery, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	n := &nursery{t: t, ctx: ctx, child: child, pushed: make(chan string, 16), aborted: make(chan string, 16)}
	srv, err := server.Start(server.Config{
		Job: jobOf("job-1", 1), Host: n, AuthorizeTool: func(net.Conn) (int, error) { return 0, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	n.srv = srv
	t.Cleanup(func() {
		n.rest()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return n, n.join(codec.Proc{Nspace: "job-1"})
}

// rest waits until all children have ended.
func (n *nursery) rest() {
	n.t.Helper()
	if err := n.children.Wait(); err != nil {
		n.t.Error(err)
	}
}

func (n *nursery) join(p codec.Proc) *client.Client {
	n.t.Helper()
	c, err := client.Dial(n.ctx, optionsOf(n.t, n.srv, p))
	if err != nil {
		n.t.Fatal(err)
	}
	n.leaveLater(c)
	return c
}

func (n *nursery) leaveLater(c *client.Client) {
	n.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = c.Finalize(ctx) // a test that calls Finalize itself checks the error
	})
}

func (n *nursery) attach() *client.Client {
	n.t.Helper()
	c, err := client.DialTool(n.ctx, n.srv.ToolURI())
	if err != nil {
		n.t.Fatal(err)
	}
	n.leaveLater(c)
	return c
}

func everybody(nspace string) codec.Proc { return codec.Proc{Nspace: nspace, Rank: codec.RankWildcard} }

// greet puts a name, connects to another job, and gets the other's name and size.
func greet(ctx context.Context, c *client.Client, other codec.Proc, size uint32, procs []codec.Proc) error {
	if err := errors.Join(c.Put(codec.ScopeGlobal, "name", codec.StringValue(c.Proc().String())), c.Commit(ctx)); err != nil {
		return err
	}
	if err := c.Jobs.Connect(ctx, procs, 0); err != nil {
		return err
	}
	if v, err := c.Get(ctx, other, "name", client.GetOptions{}); err != nil || v != codec.StringValue(other.String()) {
		return fmt.Errorf("name of %v: %v, %w", other, v, err)
	}
	for key, want := range map[string]codec.Value{
		codec.KeyJobSize: codec.Uint32Value(size), codec.KeyLocalSize: codec.Uint32Value(size), // size of the job, and of its part on the node
	} {
		v, err := c.Get(ctx, everybody(other.Nspace), key, client.GetOptions{Optional: true})
		if err != nil || v != want {
			return fmt.Errorf("%s of %s: %v, %w; want %v without a request", key, other.Nspace, v, err, want)
		}
	}
	if err := c.Jobs.Disconnect(ctx, procs, 0); err != nil {
		return err
	}
	_, err := c.Get(ctx, everybody(other.Nspace), codec.KeyJobSize, client.GetOptions{Optional: true})
	if !errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("size of %s after the disconnect: %w, want ErrNotFound", other.Nspace, err)
	}
	return nil
}

func TestSpawnAndConnect(t *testing.T) {
	parentOf := make(chan codec.Proc, 2)
	var n *nursery
	n, c := raise(t, func(c *client.Client, r *server.SpawnRequest) error {
		parent, ok := c.Parent()
		if !ok || !slices.Equal(r.Apps[0].Args, []string{"/child"}) || r.Apps[0].Dir != "/there" {
			return fmt.Errorf("parent %v, %v; request %+v", parent, ok, r)
		}
		parentOf <- parent
		return greet(n.ctx, c, parent, 1, []codec.Proc{parent, everybody(c.Nspace())})
	})
	if p, ok := c.Parent(); ok {
		t.Errorf("the first job has parent %v, want none", p)
	}
	nspace, err := c.Jobs.Spawn(n.ctx, []client.App{{Path: "/child", Procs: 2, Dir: "/there"}}, client.SpawnOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.Get(n.ctx, everybody(nspace), codec.KeyJobSize, client.GetOptions{Optional: true}); err != nil || v != codec.Uint32Value(2) {
		t.Errorf("size of the new job: %v, %v; want 2 without a request", v, err)
	}
	child := codec.Proc{Nspace: nspace, Rank: 1}
	if err := greet(n.ctx, c, child, 2, []codec.Proc{everybody(nspace), c.Proc()}); err != nil {
		t.Error(err)
	}
	for range 2 {
		if p := <-parentOf; p != c.Proc() {
			t.Errorf("parent %v, want %v", p, c.Proc())
		}
	}
	if _, err := c.Jobs.Spawn(n.ctx, []client.App{{Path: "/none", Procs: 1}}, client.SpawnOptions{}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("spawn without applications: %v, want ErrNotFound", err)
	}
	var status *client.StatusError
	if _, err := c.Jobs.Spawn(n.ctx, nil, client.SpawnOptions{}); !errors.As(err, &status) || status.Status != codec.StatusErrBadParam {
		t.Errorf("spawn without a program: %v, want PMIX_ERR_BAD_PARAM", err)
	}
	n.rest()
	if err := c.Jobs.Connect(n.ctx, []codec.Proc{c.Proc(), child}, 0); !errors.Is(err, client.ErrProcFailed) {
		t.Errorf("connect with a process that has ended: %v, want ErrProcFailed", err)
	}
}

func TestSpawnWithOutput(t *testing.T) {
	n, c := raise(t, func(*client.Client, *server.SpawnRequest) error { return nil })
	for range 3 { // children write before and after the answer
		lines := make(chan string, 4)
		nspace, err := c.Jobs.Spawn(n.ctx, []client.App{{Path: "/child", Procs: 2}}, client.SpawnOptions{Output: func(o client.Output) {
			lines <- fmt.Sprintf("%v %v %s", o.Source.Rank, o.Stderr, o.Text)
		}})
		if err != nil {
			t.Fatal(err)
		}
		n.srv.Output(codec.Proc{Nspace: nspace}, false, []byte("second of 0\n"))
		for _, want := range []string{"0 false first of 0\n", "1 true first of 1\n", "0 false second of 0\n"} {
			if got := <-lines; got != want {
				t.Errorf("output %q, want %q", got, want)
			}
		}
	}
	n.rest()
}

func TestAbortOfSome(t *testing.T) {
	n, c := raise(t, nil)
	if err := errors.Join(c.Abort(3, "both", c.Proc(), everybody("job-1")), c.Abort(4, "all")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"job-1.0 ends []: 3 both", "job-1.0 ends []: 4 all"} {
		if got := <-n.aborted; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := c.Abort(1, "", codec.Proc{Nspace: "else"}); err == nil {
		t.Error("abort of an unknown process: no error")
	}
}

// A client can also get data of other jobs from the server.
func TestGetFromAnotherJob(t *testing.T) {
	n, c := raise(t, nil)
	if err := n.srv.AddJob(jobOf("job-2", 2), codec.Proc{}); err != nil {
		t.Fatal(err)
	}
	other := n.join(codec.Proc{Nspace: "job-2", Rank: 1})
	if err := errors.Join(other.Put(codec.ScopeGlobal, "name", codec.BoolValue(true)), other.Commit(n.ctx)); err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		of   codec.Proc
		key  string
		want codec.Value
	}{
		{other.Proc(), codec.KeyLocalRank, codec.Uint16Value(1)},
		{everybody("job-2"), codec.KeyLocalPeers, codec.StringValue("0,1")},
		{everybody("job-2"), codec.KeyUnivSize, codec.Uint32Value(2)},
		{other.Proc(), "name", codec.BoolValue(true)},
	} {
		if v, err := c.Get(n.ctx, q.of, q.key, client.GetOptions{}); err != nil || v != q.want {
			t.Errorf("%s of %v: %v, %v; want %v", q.key, q.of, v, err, q.want)
		}
	}
	for _, p := range []codec.Proc{other.Proc(), everybody("job-2"), everybody("job-3")} {
		if v, err := c.Get(n.ctx, p, "pmix.none", client.GetOptions{}); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("get of %v: %v, %v; want ErrNotFound", p, v, err)
		}
	}
}

func TestTool(t *testing.T) {
	n, c := raise(t, nil)
	tool := n.attach()
	if tool.Size() != 1 || tool.Rank() != 0 || tool.Nspace() == "job-1" {
		t.Errorf("tool %v of %d", tool.Proc(), tool.Size())
	}
	if v, err := tool.Get(n.ctx, everybody("job-1"), codec.KeyJobSize, client.GetOptions{}); err != nil || v != codec.Uint32Value(1) {
		t.Errorf("size of the job: %v, %v; want 1", v, err)
	}
	lines := make(chan string, 16)
	take := func(name string) func(client.Output) {
		return func(o client.Output) { lines <- fmt.Sprintf("%s: %v %v %s", name, o.Source, o.Stderr, o.Text) }
	}
	both, err := tool.Forwarding.Pull(n.ctx, []codec.Proc{everybody("job-1")}, client.Stdout|client.Stderr, take("both"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Forwarding.Pull(n.ctx, []codec.Proc{c.Proc()}, client.Stderr, take("errors")); err != nil {
		t.Fatal(err)
	}
	n.srv.Output(c.Proc(), false, []byte("a"))
	n.srv.Output(c.Proc(), true, []byte("b"))
	for _, want := range []string{"both: job-1.0 false a", "both: job-1.0 true b", "errors: job-1.0 true b"} {
		if got := <-lines; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := tool.Forwarding.Deregister(n.ctx, both); err != nil {
		t.Error(err)
	}
	if err := tool.Forwarding.Deregister(n.ctx, both); err == nil {
		t.Error("second end of a pull: no error")
	}
	n.srv.Output(c.Proc(), true, []byte("c"))
	if got := <-lines; got != "errors: job-1.0 true c" {
		t.Errorf("%q, want standard error only", got)
	}
	if err := errors.Join(tool.Forwarding.Push(n.ctx, []codec.Proc{c.Proc()}, []byte("in"), false),
		tool.Forwarding.Push(n.ctx, []codec.Proc{c.Proc()}, nil, true), tool.Forwarding.Push(n.ctx, nil, nil, false)); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`[job-1.0] "in" false`, `[job-1.0] "" true`} {
		if got := <-n.pushed; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if _, err := tool.Forwarding.Pull(n.ctx, []codec.Proc{{Nspace: "else"}}, client.Stdout, take("none")); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("pull from an unknown process: %v, want ErrNotFound", err)
	}
	if err := tool.Finalize(n.ctx); err != nil {
		t.Error(err)
	}
}

// A slow handler delays only the output that follows. The queue is bounded, and Finalize ends it.
func TestSlowOutputHandler(t *testing.T) {
	n, c := raise(t, nil)
	tool := n.attach()
	block, entered := make(chan struct{}), make(chan struct{}, 1)
	defer close(block)
	if _, err := tool.Forwarding.Pull(n.ctx, []codec.Proc{c.Proc()}, client.Stdout, func(client.Output) {
		entered <- struct{}{}
		<-block
	}); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 64<<10)
	n.srv.Output(c.Proc(), false, text)
	<-entered
	if err := tool.Fence(n.ctx, false); err != nil { // a fence with itself: the connection is still read
		t.Error(err)
	}
	for range 64 {
		n.srv.Output(c.Proc(), false, text)
	}
	ctx, cancel := context.WithTimeout(n.ctx, 50*time.Millisecond)
	defer cancel()
	_ = tool.Finalize(ctx) // its answer may follow output that is not read
}

func TestDialToolErrors(t *testing.T) {
	n, _ := raise(t, nil)
	for _, uri := range []string{"", "tcp4://127.0.0.1:1", "server.0;tcp4://127.0.0.1", "server.0;udp://127.0.0.1:1"} {
		if _, err := client.DialTool(n.ctx, uri); err == nil || !strings.Contains(err.Error(), uri) {
			t.Errorf("URI %q: %v, want an error with it", uri, err)
		}
	}
	closed, err := server.Start(server.Config{Job: jobOf("job-9", 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closed.Close() }()
	if uri := closed.ToolURI(); uri != "" {
		t.Errorf("a server without tools offers %q", uri)
	}
	opts := optionsOf(t, closed, codec.Proc{Nspace: "job-9"})
	var status *client.StatusError
	if _, err := client.DialTool(n.ctx, "x.0;tcp4://"+opts.Address); !errors.As(err, &status) || status.Status != codec.StatusErrNotSupported {
		t.Errorf("attach to a server without tools: %v, want PMIX_ERR_NOT_SUPPORTED", err)
	}
}
