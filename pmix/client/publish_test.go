package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

const patience = 60 * time.Second

// logHost is a host that records what clients log.
type logHost struct {
	server.Host
	lines chan string
}

func (logHost) ClientConnected(codec.Proc, int) {}
func (logHost) ClientFinalized(codec.Proc)      {}
func (logHost) ClientLost(codec.Proc)           {}
func (h logHost) Log(from codec.Proc, toStderr bool, text []byte) {
	h.lines <- fmt.Sprintf("%v %v %q", from, toStderr, text)
}

// world is a server with a client for each process of a job.
type world struct {
	ctx     context.Context
	srv     *server.Server
	clients []*client.Client
	logged  chan string
}

func start(t *testing.T, n int) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	job := server.JobLayout{Nspace: "job-1", Hosts: []string{"vm"}, Programs: []string{"prog"}}
	for r := range n {
		job.Procs = append(job.Procs, server.Proc{Rank: uint32(r), LocalRank: uint16(r)})
	}
	w := &world{ctx: ctx, logged: make(chan string, 16)}
	var err error
	if w.srv, err = server.Start(server.Config{Job: job, Host: logHost{lines: w.logged}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.srv.Close(); err != nil {
			t.Error(err)
		}
	})
	for r := range n {
		w.clients = append(w.clients, w.dial(t, codec.Rank(r)))
	}
	return w
}

func (w *world) dial(t *testing.T, rank codec.Rank) *client.Client {
	t.Helper()
	env := map[string]string{}
	for _, kv := range w.srv.Environ(codec.Proc{Nspace: "job-1", Rank: rank}) {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	opts, _, err := client.FromEnv(func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(w.ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = c.Finalize(ctx) // fails in a test that loses the connection on purpose
	})
	return c
}

func text(key, value string) codec.KVal { return codec.KVal{Key: key, Value: codec.StringValue(value)} }

func show(values []codec.PData) string {
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprintf("%s=%v of %v", v.Key, v.Value, v.Proc))
	}
	return strings.Join(out, " ")
}

func TestPublishLookupUnpublish(t *testing.T) {
	w := start(t, 2)
	a, b := w.clients[0], w.clients[1]
	if err := a.Publish(w.ctx, []codec.KVal{text("port", "a:1"), text("name", "x")}, client.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(w.ctx, []codec.KVal{text("port", "b:2")}, client.PublishOptions{}); !errors.Is(err, client.ErrExists) {
		t.Errorf("publish of a key again: %v, want ErrExists", err)
	}
	for keys, want := range map[string]struct {
		values string
		err    error
	}{
		"name port": {"name=x of job-1.0 port=a:1 of job-1.0", nil},
		"port none": {"port=a:1 of job-1.0", client.ErrPartial},
		"none":      {"", client.ErrNotFound},
	} {
		values, err := b.Lookup(w.ctx, strings.Fields(keys), client.LookupOptions{})
		if show(values) != want.values || !errors.Is(err, want.err) {
			t.Errorf("lookup %s: %s, %v; want %s, %v", keys, show(values), err, want.values, want.err)
		}
	}
	if err := b.Unpublish(w.ctx, []string{"port"}, codec.RangeUndef); !errors.Is(err, client.ErrNoPermission) {
		t.Errorf("unpublish of another process's key: %v, want ErrNoPermission", err)
	}
	if err := a.Unpublish(w.ctx, []string{"port"}, codec.RangeNamespace); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("unpublish from another range: %v, want ErrNotFound", err)
	}
	if err := a.Unpublish(w.ctx, []string{"port"}, codec.RangeSession); err != nil {
		t.Error(err)
	}
	if err := a.Unpublish(w.ctx, nil, codec.RangeUndef); err != nil {
		t.Error(err)
	}
	if _, err := b.Lookup(w.ctx, []string{"name"}, client.LookupOptions{}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("after unpublishing all: %v, want ErrNotFound", err)
	}
}

func TestPublishOptions(t *testing.T) {
	w := start(t, 3)
	once := codec.PersistFirstRead
	opts := client.PublishOptions{
		Range: codec.RangeCustom, Members: []codec.Proc{w.clients[1].Proc()}, Persist: &once, Users: []uint32{12345},
	}
	if err := w.clients[0].Publish(w.ctx, []codec.KVal{text("k", "v")}, opts); err != nil {
		t.Fatal(err)
	}
	lookup := func(rank int) error {
		_, err := w.clients[rank].Lookup(w.ctx, []string{"k"}, client.LookupOptions{})
		return err
	}
	if err := lookup(2); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("lookup by rank 2, which is outside of the range: %v, want ErrNotFound", err)
	}
	if err := lookup(1); err != nil {
		t.Error(err)
	}
	if err := lookup(1); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("second lookup: %v, want ErrNotFound", err)
	}
}

func TestPublishRefusesKeys(t *testing.T) {
	w := start(t, 1)
	for _, key := range []string{"", "a\x00b", strings.Repeat("k", codec.MaxKeyLen+1), "pmix.range"} {
		if err := w.clients[0].Publish(w.ctx, []codec.KVal{text(key, "v")}, client.PublishOptions{}); err == nil {
			t.Errorf("key %.20q was published", key)
		}
	}
	var status *client.StatusError
	err := w.clients[0].Publish(w.ctx, nil, client.PublishOptions{})
	if !errors.As(err, &status) || status.Status != codec.StatusErrBadParam {
		t.Errorf("publish of no data: %v, want PMIX_ERR_BAD_PARAM", err)
	}
}

func TestLookupWaits(t *testing.T) {
	w := start(t, 2)
	var g errgroup.Group
	waiting := client.LookupOptions{Wait: true}
	g.Go(func() error {
		values, err := w.clients[1].Lookup(w.ctx, []string{"a", "b"}, waiting)
		if got, want := show(values), "a=1 of job-1.0 b=2 of job-1.0"; err == nil && got != want {
			return fmt.Errorf("found %s, want %s", got, want)
		}
		return err
	})
	for _, kv := range []codec.KVal{text("a", "1"), text("b", "2")} {
		if err := w.clients[0].Publish(w.ctx, []codec.KVal{kv}, client.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	some := client.LookupOptions{Wait: true, Count: 1}
	if values, err := w.clients[1].Lookup(w.ctx, []string{"none", "b"}, some); err != nil || len(values) != 1 {
		t.Errorf("wait for one of two: %s, %v", show(values), err)
	}
	short := client.LookupOptions{Wait: true, Timeout: time.Millisecond}
	if _, err := w.clients[1].Lookup(w.ctx, []string{"none"}, short); !errors.Is(err, client.ErrTimeout) {
		t.Errorf("wait for a key that is never published: %v, want ErrTimeout", err)
	}
}

func TestLookupEndsWithItsContext(t *testing.T) {
	w := start(t, 1)
	ctx, cancel := context.WithCancel(w.ctx)
	var g errgroup.Group
	g.Go(func() error {
		_, err := w.clients[0].Lookup(ctx, []string{"none"}, client.LookupOptions{Wait: true})
		return err
	})
	cancel()
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("lookup: %v, want context.Canceled", err)
	}
}

func TestQuery(t *testing.T) {
	w := start(t, 2)
	infos, err := w.clients[1].Query(w.ctx,
		codec.Query{Keys: []string{codec.KeyQueryNamespaces}},
		codec.Query{Keys: []string{codec.KeyLocalRank}, Qualifiers: []codec.Info{{Key: codec.KeyRank, Value: codec.RankValue(1)}}})
	if err != nil || len(infos) != 2 || infos[0].Value.String() != "job-1" || infos[1].Value.String() != "1" {
		t.Errorf("%v, %v; want job-1 and 1", infos, err)
	}
	infos, err = w.clients[1].Query(w.ctx, codec.Query{Keys: []string{codec.KeyQueryProcTable, "none"}})
	if !errors.Is(err, client.ErrPartial) || len(infos) != 1 {
		t.Fatalf("%v, %v; want the one key that is found of two", infos, err)
	}
	table, _ := infos[0].Value.Data.(codec.Array)
	var names []string
	for _, row := range table.Elems {
		p, _ := row.(codec.ProcInfo)
		names = append(names, p.Proc.String()+" "+p.Executable)
	}
	if want := []string{"job-1.0 prog", "job-1.1 prog"}; !slices.Equal(names, want) {
		t.Errorf("process table %q, want %q", names, want)
	}
	if _, err = w.clients[0].Query(w.ctx, codec.Query{Keys: []string{"none"}}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("query: %v, want ErrNotFound", err)
	}
}

func TestLog(t *testing.T) {
	w := start(t, 2)
	for i, c := range w.clients {
		if err := c.Log(w.ctx, []client.Streams{client.Stdout, client.Stderr}[i], "hello"); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`job-1.%d %v "hello\n"`, i, i == 1)
		select {
		case got := <-w.logged:
			if got != want {
				t.Errorf("logged %s, want %s", got, want)
			}
		default:
			t.Errorf("nothing was logged when Log returned, want %s", want)
		}
	}
	var status *client.StatusError
	err := w.clients[0].Log(w.ctx, client.Stdout, strings.Repeat("x", 2<<20))
	if !errors.As(err, &status) || status.Status != codec.StatusErrBadParam {
		t.Errorf("a text of 2 MiB: %v, want PMIX_ERR_BAD_PARAM", err)
	}
}
