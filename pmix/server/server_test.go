package server_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience limits every test. No test comes near it.
const patience = 60 * time.Second

// host records upcalls as lines.
type host struct {
	server.Host // nil: no other upcall comes
	lines       chan string
}

func newHost() *host { return &host{lines: make(chan string, 1024)} }

func (h *host) ClientConnected(p codec.Proc, pid int) {
	h.lines <- fmt.Sprintf("connected %d %d", p.Rank, pid)
}
func (h *host) ClientFinalized(p codec.Proc) { h.lines <- fmt.Sprintf("finalized %d", p.Rank) }
func (h *host) ClientLost(p codec.Proc)      { h.lines <- fmt.Sprintf("lost %d", p.Rank) }
func (h *host) Abort(from codec.Proc, _ []codec.Proc, status int, msg string) {
	h.lines <- fmt.Sprintf("abort %d %d %s", from.Rank, status, msg)
}

func (h *host) expect(ctx context.Context, t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-h.lines:
		if got != want {
			t.Fatalf("upcall %q, want %q", got, want)
		}
	case <-ctx.Done():
		t.Fatalf("no upcall, want %q", want)
	}
}

type fixture struct {
	t    *testing.T
	ctx  context.Context
	srv  *server.Server
	host *host
}

func job(n int) server.JobLayout {
	j := server.JobLayout{Nspace: "job-1", Hosts: []string{"vm"}}
	for r := range n {
		j.Procs = append(j.Procs, server.Proc{Rank: uint32(r), LocalRank: uint16(r)})
	}
	return j
}

func start(t *testing.T, cfg server.Config) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	h := newHost()
	cfg.Host = h
	srv, err := server.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fixture{t, ctx, srv, h}
}

func options(t *testing.T, srv *server.Server, rank uint32) client.Options {
	t.Helper()
	env := map[string]string{}
	for _, kv := range srv.Environ(proc(int(rank))) {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	opts, launched, err := client.FromEnv(func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	if err != nil || !launched {
		t.Fatalf("environment %v: launched %v, %v", env, launched, err)
	}
	return opts
}

func (f *fixture) dial(rank uint32) *client.Client {
	f.t.Helper()
	c, err := client.Dial(f.ctx, options(f.t, f.srv, rank))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = c.Finalize(ctx) // a test that calls Finalize itself checks the error
	})
	return c
}

// raw opens a connection and sends the given bytes.
func (f *fixture) raw(say []byte) net.Conn {
	f.t.Helper()
	nc, err := net.Dial("tcp", options(f.t, f.srv, 0).Address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = nc.Close() })
	if deadline, ok := f.ctx.Deadline(); ok {
		_ = nc.SetDeadline(deadline)
	}
	if len(say) > 0 {
		if _, err := nc.Write(say); err != nil {
			f.t.Fatal(err)
		}
	}
	return nc
}

// claim introduces a raw connection as a rank.
func (f *fixture) claim(rank codec.Rank) net.Conn {
	f.t.Helper()
	h := codec.NewHandshake(codec.Proc{Nspace: "job-1", Rank: rank}, codec.SecurityNone, nil)
	nc := f.raw(codec.AppendHandshake(nil, h))
	if status := readVerdict(f.t, nc); status != codec.StatusSuccess {
		f.t.Fatalf("rank %d refused: %v", rank, status)
	}
	return nc
}

func readVerdict(t *testing.T, nc net.Conn) codec.Status {
	t.Helper()
	b := make([]byte, codec.HandshakeReplySize)
	if _, err := io.ReadFull(nc, b); err != nil {
		t.Fatal(err)
	}
	status, _, err := codec.DecodeHandshakeReply(b)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// closed waits until the server has closed a connection.
func closed(t *testing.T, nc net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, nc)
	var netErr net.Error
	if errors.As(err, &netErr) && netErr.Timeout() {
		t.Errorf("connection still open: %v", err)
	}
}

func proc(rank int) codec.Proc { return codec.Proc{Nspace: "job-1", Rank: codec.Rank(rank)} }

// exchange does what a PE does at start-up: put, commit, fence, get from all, fence, finalize.
func exchange(ctx context.Context, c *client.Client) error {
	if err := c.Put(codec.ScopeGlobal, "addr", codec.StringValue(fmt.Sprint("at ", c.Rank()))); err != nil {
		return err
	}
	if err := c.Commit(ctx); err != nil {
		return err
	}
	if err := c.Fence(ctx, true); err != nil {
		return err
	}
	for peer := range c.Size() {
		v, err := c.Get(ctx, proc(peer), "addr", client.GetOptions{})
		if err != nil {
			return err
		}
		if v != codec.StringValue(fmt.Sprint("at ", peer)) {
			return fmt.Errorf("rank %d has %v", peer, v)
		}
	}
	if err := c.Fence(ctx, false); err != nil {
		return err
	}
	return c.Finalize(ctx)
}

func TestExchange(t *testing.T) {
	for _, n := range []int{1, 2, 16} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := start(t, server.Config{Job: job(n)})
			var g errgroup.Group
			for r := range n {
				opts := options(t, f.srv, uint32(r))
				g.Go(func() error {
					c, err := client.Dial(f.ctx, opts)
					if err != nil {
						return err
					}
					return exchange(f.ctx, c)
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for range 2 * n {
				seen[<-f.host.lines] = true
			}
			for r := range n {
				if !seen[fmt.Sprintf("connected %d 0", r)] || !seen[fmt.Sprintf("finalized %d", r)] {
					t.Errorf("upcalls of rank %d missing", r)
				}
			}
		})
	}
}

func TestGetOfLaterKey(t *testing.T) {
	f := start(t, server.Config{Job: job(2)})
	reader, writer := f.dial(0), f.dial(1)
	var g errgroup.Group
	g.Go(func() error {
		v, err := reader.Get(f.ctx, proc(1), "late", client.GetOptions{})
		if err == nil && v != codec.Uint64Value(7) {
			err = fmt.Errorf("got %v, want 7", v)
		}
		return err
	})
	if err := writer.Put(codec.ScopeLocal, "early", codec.BoolValue(true)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Commit(f.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Get(f.ctx, proc(0), "none", client.GetOptions{Immediate: true}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("immediate get of an unknown key: %v, want ErrNotFound", err)
	}
	if err := writer.Put(codec.ScopeLocal, "late", codec.Uint64Value(7)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Commit(f.ctx); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := reader.Get(f.ctx, proc(1), "never", client.GetOptions{Timeout: time.Millisecond}); !errors.Is(err, client.ErrTimeout) {
		t.Errorf("get with a timeout: %v, want ErrTimeout", err)
	}
}

func TestDeathInFence(t *testing.T) {
	f := start(t, server.Config{Job: job(3)})
	clients := []*client.Client{f.dial(0), f.dial(1)}
	victim := f.claim(2)
	errs := make(chan error, len(clients))
	for _, c := range clients {
		go func() { errs <- c.Fence(f.ctx, true) }()
	}
	_ = victim.Close()
	for range clients {
		if err := <-errs; !errors.Is(err, client.ErrProcFailed) {
			t.Errorf("fence: %v, want ErrProcFailed", err)
		}
	}
	for _, want := range []string{"connected 0 0", "connected 1 0", "connected 2 0", "lost 2"} {
		f.host.expect(f.ctx, t, want)
	}
}

func TestProcExited(t *testing.T) {
	f := start(t, server.Config{Job: job(2)})
	c := f.dial(0)
	errs := make(chan error, 2)
	go func() { errs <- c.Fence(f.ctx, false) }()
	go func() {
		_, err := c.Get(f.ctx, proc(1), "a", client.GetOptions{})
		errs <- err
	}()
	f.srv.ProcExited(proc(1), server.Exit{})
	f.srv.ProcExited(proc(77), server.Exit{}) // not in the job
	for range 2 {
		if err := <-errs; !errors.Is(err, client.ErrProcFailed) {
			t.Errorf("fence: %v, want ErrProcFailed", err)
		}
	}
}

// When Finalize returns at the client, the host has its upcall already, so the process's exit cannot overtake it.
func TestFinalizeIsToldFirst(t *testing.T) {
	f := start(t, server.Config{Job: job(1)})
	for range 20 {
		c := f.dial(0)
		if err := c.Finalize(f.ctx); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"connected 0 0", "finalized 0"} {
			select {
			case got := <-f.host.lines:
				if got != want {
					t.Fatalf("upcall %q, want %q", got, want)
				}
			default:
				t.Fatalf("no upcall, want %q", want)
			}
		}
	}
}

func TestAbort(t *testing.T) {
	f := start(t, server.Config{Job: job(2)})
	c := f.dial(1)
	if err := c.Abort(42, "no more"); err != nil {
		t.Fatal(err)
	}
	f.host.expect(f.ctx, t, "connected 1 0")
	f.host.expect(f.ctx, t, "abort 1 42 no more")
}

func TestDuplicateClaim(t *testing.T) {
	f := start(t, server.Config{Job: job(2)})
	c := f.dial(0)
	_, err := client.Dial(f.ctx, options(t, f.srv, 0))
	var status *client.StatusError
	if !errors.As(err, &status) || status.Status != codec.StatusErrExists {
		t.Fatalf("second claim: %v, want PMIX_ERR_EXISTS", err)
	}
	if err := c.Commit(f.ctx); err != nil {
		t.Error(err)
	}
	if err := c.Finalize(f.ctx); err != nil {
		t.Error(err)
	}
	f.dial(0)
}

// gate is a host that blocks the server's loop in an Abort upcall until the test opens it.
type gate struct {
	*host
	open chan struct{}
}

func (g gate) Abort(from codec.Proc, to []codec.Proc, status int, msg string) {
	g.host.Abort(from, to, status, msg)
	<-g.open
}

// A program that follows another one of the same rank can connect, although the server has not read the end of the
// first one's connection yet.
func TestClaimAfterHangUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g := gate{newHost(), make(chan struct{})}
	claims := 0
	srv, err := server.Start(server.Config{Job: job(2), Host: g, Authorize: func(net.Conn, codec.Proc) (int, error) {
		if claims++; claims == 3 {
			close(g.open)
		}
		return 0, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	f := &fixture{t, ctx, srv, g.host}
	first := f.claim(0)
	second := f.dial(1)
	aborted := make(chan error, 1)
	go func() { aborted <- second.Abort(1, "") }()
	for _, want := range []string{"connected 0 0", "connected 1 0", "abort 1 1 "} {
		g.expect(ctx, t, want)
	}
	unread := make([]byte, 0, 1<<16)
	for range 1000 { // each takes a turn of the loop, like the end of the connection
		unread = codec.AppendFrame(unread, 0, 0, nil)
	}
	if _, err := first.Write(unread); err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	f.claim(0)
	g.expect(ctx, t, "lost 0")
	g.expect(ctx, t, "connected 0 0")
	if err := <-aborted; err != nil {
		t.Error(err)
	}
}

// The end of the first one's connection may come after the claim of the second one.
func TestClaimBeforeHangUp(t *testing.T) {
	var first io.Closer
	claims := 0
	f := start(t, server.Config{Job: job(1), Authorize: func(net.Conn, codec.Proc) (int, error) {
		if claims++; claims == 2 {
			time.AfterFunc(20*time.Millisecond, func() { _ = first.Close() }) // behind the first look for it
		}
		return 0, nil
	}})
	first = f.claim(0)
	f.host.expect(f.ctx, t, "connected 0 0")
	f.claim(0)
	f.host.expect(f.ctx, t, "lost 0")
	f.host.expect(f.ctx, t, "connected 0 0")
}

func TestAuthorize(t *testing.T) {
	f := start(t, server.Config{Job: job(2), Authorize: func(nc net.Conn, p codec.Proc) (int, error) {
		if p != proc(0) {
			return 0, fmt.Errorf("%v from %v is a stranger", p, nc.RemoteAddr())
		}
		return 4711, nil
	}})
	f.dial(0)
	f.host.expect(f.ctx, t, "connected 0 4711")
	_, err := client.Dial(f.ctx, options(t, f.srv, 1))
	var status *client.StatusError
	if !errors.As(err, &status) || status.Status != codec.StatusErrNoPermissions {
		t.Fatalf("stranger: %v, want PMIX_ERR_NO_PERMISSIONS", err)
	}
}

func TestUnfitHandshakes(t *testing.T) {
	f := start(t, server.Config{Job: job(1)})
	for name, spoil := range map[string]func(h *codec.Handshake){
		"unknown":   func(h *codec.Handshake) { h.Flag = 99 },
		"old":       func(h *codec.Handshake) { h.Bfrops = "v3" },
		"described": func(h *codec.Handshake) { h.BufferType = 2 },
		"shared":    func(h *codec.Handshake) { h.GDS = "ds21" },
		"munge":     func(h *codec.Handshake) { h.Security = "munge" },
	} {
		h := codec.NewHandshake(proc(0), codec.SecurityNone, nil)
		spoil(&h)
		nc := f.raw(codec.AppendHandshake(nil, h))
		if status := readVerdict(t, nc); status != codec.StatusErrNotSupported {
			t.Errorf("%s: %v, want PMIX_ERR_NOT_SUPPORTED", name, status)
		}
		closed(t, nc)
	}
}

func TestGarbageConnections(t *testing.T) {
	f := start(t, server.Config{Job: job(2)})
	for _, say := range [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		make([]byte, 100),
		slices.Repeat([]byte{0xff}, 100),
		append(slices.Repeat([]byte{0xff}, 8), 4, 0, 0, 0, 0, 0, 0, 0, 'x', 'x', 'x', 'x'),
	} {
		closed(t, f.raw(say))
	}
	f.raw(nil) // sends nothing
	if err := f.dial(0).Finalize(f.ctx); err != nil {
		t.Error(err)
	}
}

// A frame that is too large ends its sender's connection, and no other one.
func TestHugeFrame(t *testing.T) {
	f := start(t, server.Config{Job: job(2)})
	c, nc := f.dial(0), f.claim(1)
	header := make([]byte, codec.HeaderSize)
	binary.BigEndian.PutUint32(header[8:], 1<<31)
	if _, err := nc.Write(header); err != nil {
		t.Fatal(err)
	}
	closed(t, nc)
	for _, want := range []string{"connected 0 0", "connected 1 0", "lost 1"} {
		f.host.expect(f.ctx, t, want)
	}
	if err := c.Finalize(f.ctx); err != nil {
		t.Error(err)
	}
}

func TestCloseEndsClients(t *testing.T) {
	f := start(t, server.Config{Job: job(2)})
	c := f.dial(0)
	waiting := make(chan error, 1)
	go func() { waiting <- c.Fence(f.ctx, false) }()
	if err := errors.Join(f.srv.Close(), f.srv.Close()); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, client.ErrLostConnection) {
		t.Errorf("fence: %v, want ErrLostConnection", err)
	}
	<-c.Lost()
	f.srv.ProcExited(proc(0), server.Exit{})
}

func TestEnviron(t *testing.T) {
	j := job(1)
	j.TmpDir = "/tmp/x"
	f := start(t, server.Config{Job: j})
	env := f.srv.Environ(proc(0))
	for _, want := range []string{
		"PMIX_NAMESPACE=job-1", "PMIX_RANK=0", "PMIX_SECURITY_MODE=none", "PMIX_GDS_MODULE=hash", "PMIX_HOSTNAME=vm",
		"PMIX_SERVER_TMPDIR=/tmp/x", "OMPI_MCA_schizo=^orte", "OMPI_MCA_ess=pmi",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %v", want, env)
		}
	}
	if f.srv.Environ(proc(1)) != nil {
		t.Error("a rank outside of the job has an environment")
	}
}

// pair carries fences and gets between two servers in one process, like a network between nodes.
type pair struct {
	servers [2]*server.Server
	mu      sync.Mutex
	parts   map[server.FenceID][]byte
	count   map[server.FenceID]int
}

type side struct {
	*pair
	node int
}

func (s side) Fence(part server.FencePart) {
	id := part.ID
	s.mu.Lock()
	s.parts[id] = append(s.parts[id], part.Data...)
	s.count[id]++
	all, done := s.parts[id], s.count[id] == 2
	s.mu.Unlock()
	if done {
		for _, srv := range s.servers {
			srv.FenceDone(id, codec.StatusSuccess, all)
		}
	}
}

func (s side) Expire(server.FenceCall) {}

func (s side) JobAdded(string) {}

func (s side) JobOver(string) {}

func (s side) Fetch(p codec.Proc, key string) {
	s.servers[1-s.node].Serve(p, key, func(status codec.Status, packed []byte) {
		s.servers[s.node].Fetched(p, key, status, packed)
	})
}

func TestTwoNodes(t *testing.T) {
	p := &pair{parts: map[server.FenceID][]byte{}, count: map[server.FenceID]int{}}
	var fixtures [2]*fixture
	for node := range 2 {
		j := server.JobLayout{Nspace: "job-1", Hosts: []string{"n0", "n1"}, ThisNode: uint32(node)}
		for r := range uint32(4) {
			j.Procs = append(j.Procs, server.Proc{Rank: r, Node: r % 2, LocalRank: uint16(r / 2)})
		}
		fixtures[node] = start(t, server.Config{Job: j, Remote: side{p, node}})
		p.servers[node] = fixtures[node].srv
	}
	ctx := fixtures[0].ctx
	var clients []*client.Client
	for r := range 4 {
		clients = append(clients, fixtures[r%2].dial(uint32(r)))
	}
	var g errgroup.Group
	g.Go(func() error { // asks, most likely, before the key is put
		if _, err := clients[0].Get(ctx, proc(3), "addr", client.GetOptions{}); err != nil {
			return err
		}
		return exchange(ctx, clients[0])
	})
	for _, c := range clients[1:] {
		g.Go(func() error { return exchange(ctx, c) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := clients[1].LocalPeers(); !slices.Equal(got, []codec.Rank{1, 3}) || clients[1].NodeID() != 1 {
		t.Errorf("rank 1: peers %v on node %d, want 1 and 3 on node 1", got, clients[1].NodeID())
	}
}
