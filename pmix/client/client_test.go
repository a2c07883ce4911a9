package client

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// finalizes is a host that records connections, finalizations and losses.
type finalizes struct {
	server.Host                // nil: no other upcall comes
	connected, finalized, lost chan codec.Proc
}

func newFinalizes() *finalizes {
	return &finalizes{
		connected: make(chan codec.Proc, 256), finalized: make(chan codec.Proc, 256), lost: make(chan codec.Proc, 256),
	}
}

func (f *finalizes) ClientConnected(p codec.Proc, _ int) { f.connected <- p }
func (f *finalizes) ClientFinalized(p codec.Proc)        { f.finalized <- p }
func (f *finalizes) ClientLost(p codec.Proc)             { f.lost <- p }

// serve starts a server for n processes. The function that it returns looks up the environment of a rank.
func serve(t *testing.T, n int, h server.Host) (*server.Server, func(rank uint32) func(string) (string, bool)) {
	t.Helper()
	job := server.JobLayout{Nspace: "job-1", Hosts: []string{"vm"}}
	for r := range n {
		job.Procs = append(job.Procs, server.Proc{Rank: uint32(r), LocalRank: uint16(r)})
	}
	srv, err := server.Start(server.Config{Job: job, Host: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv, func(rank uint32) func(string) (string, bool) {
		env := map[string]string{}
		for _, kv := range srv.Environ(codec.Proc{Nspace: "job-1", Rank: codec.Rank(rank)}) {
			name, value, _ := strings.Cut(kv, "=")
			env[name] = value
		}
		return lookupIn(env)
	}
}

func dial(ctx context.Context, t *testing.T, lookup func(string) (string, bool)) *Client {
	t.Helper()
	opts, _, err := FromEnv(lookup)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = c.Finalize(ctx) // a test that calls Finalize itself checks the error
	})
	return c
}

func TestReferenceCounting(t *testing.T) {
	ctx, h := limited(t), newFinalizes()
	_, env := serve(t, 1, h)
	s := newShared()
	for round := range 3 {
		first, err := s.init(ctx, env(0))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		second, err := s.init(ctx, env(0))
		if err != nil || first != second {
			t.Fatalf("second init: %v, the same client: %v", err, first == second)
		}
		if err := first.Finalize(ctx); err != nil {
			t.Fatal(err)
		}
		if err := second.Fence(ctx, false); err != nil {
			t.Errorf("fence between the two finalizes: %v", err)
		}
		if len(h.finalized) != round {
			t.Errorf("round %d: the server saw %d finalizations before the last finalize", round, len(h.finalized))
		}
		if err := second.Finalize(ctx); err != nil {
			t.Fatal(err)
		}
		if len(h.finalized) != round+1 {
			t.Errorf("round %d: the server saw %d finalizations, want 1", round, len(h.finalized))
		}
		if err := first.Finalize(ctx); !errors.Is(err, ErrFinalized) {
			t.Errorf("third finalize: %v, want ErrFinalized", err)
		}
	}
}

func TestInitFromManyGoroutines(t *testing.T) {
	ctx, h := limited(t), newFinalizes()
	_, env := serve(t, 1, h)
	s := newShared()
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			for range 20 {
				c, err := s.init(ctx, env(0))
				if err != nil {
					return err
				}
				if err := c.Fence(ctx, false); err != nil {
					return err
				}
				if err := c.Finalize(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(h.connected) != len(h.finalized) || len(h.lost) != 0 {
		t.Errorf("%d connections, %d finalizations, %d losses", len(h.connected), len(h.finalized), len(h.lost))
	}
}

func TestInitErrors(t *testing.T) {
	ctx := limited(t)
	s := newShared()
	if _, err := s.init(ctx, lookupIn(nil)); !errors.Is(err, ErrNotLaunched) {
		t.Errorf("init: %v, want ErrNotLaunched", err)
	}
	if _, err := s.init(ctx, lookupIn(map[string]string{"PMIX_NAMESPACE": "x"})); err == nil {
		t.Error("init without a rank: no error")
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	<-s.turn // as if another goroutine were connecting
	if _, err := s.init(canceled, lookupIn(nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("init: %v, want context.Canceled", err)
	}
}

func TestInitAfterLoss(t *testing.T) {
	ctx := limited(t)
	srv, env := serve(t, 1, nil)
	s := newShared()
	c, err := s.init(ctx, env(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	<-c.Lost()
	if _, err := s.init(ctx, env(0)); !errors.Is(err, ErrLostConnection) {
		t.Errorf("init on a lost client: %v, want ErrLostConnection", err)
	}
	if err := c.Finalize(ctx); !errors.Is(err, ErrLostConnection) {
		t.Errorf("finalize: %v, want ErrLostConnection", err)
	}
	_, again := serve(t, 1, nil)
	c, err = s.init(ctx, again(0))
	if err != nil {
		t.Fatalf("init after the last finalize: %v", err)
	}
	if err := c.Finalize(ctx); err != nil {
		t.Error(err)
	}
}

func TestJobDescription(t *testing.T) {
	ctx := limited(t)
	_, env := serve(t, 3, nil)
	c := dial(ctx, t, env(2))
	if c.Nspace() != "job-1" || c.Rank() != 2 || c.Size() != 3 || c.LocalRank() != 2 || c.NodeID() != 0 {
		t.Errorf("%s.%d of %d, local rank %d on node %d", c.Nspace(), c.Rank(), c.Size(), c.LocalRank(), c.NodeID())
	}
	if !slices.Equal(c.LocalPeers(), []codec.Rank{0, 1, 2}) || c.Proc() != (codec.Proc{Nspace: "job-1", Rank: 2}) {
		t.Errorf("%v with peers %v", c.Proc(), c.LocalPeers())
	}
	for _, q := range []struct {
		rank codec.Rank
		key  string
		want codec.Value
	}{
		{codec.RankWildcard, codec.KeyJobSize, codec.Uint32Value(3)},
		{codec.RankWildcard, codec.KeyUnivSize, codec.Uint32Value(3)},
		{codec.RankWildcard, codec.KeyLocalSize, codec.Uint32Value(3)},
		{1, codec.KeyLocalRank, codec.Uint16Value(1)},
		{1, codec.KeyHostname, codec.StringValue("vm")},
	} {
		v, ok := c.JobInfo(q.rank, q.key)
		got, err := c.Get(ctx, codec.Proc{Nspace: "job-1", Rank: q.rank}, q.key, GetOptions{Optional: true})
		if !ok || v != q.want || err != nil || got != q.want {
			t.Errorf("%v %s: %v, %v and %v, %v; want %v", q.rank, q.key, v, ok, got, err, q.want)
		}
	}
	if _, ok := c.JobInfo(codec.RankWildcard, "none"); ok {
		t.Error("found a key that no process has put")
	}
}

func TestPutGet(t *testing.T) {
	ctx := limited(t)
	_, env := serve(t, 2, nil)
	c, peer := dial(ctx, t, env(0)), dial(ctx, t, env(1))
	for scope, key := range map[codec.Scope]string{
		codec.ScopeLocal: "local", codec.ScopeRemote: "remote", codec.ScopeGlobal: "global", codec.ScopeInternal: "internal",
	} {
		if err := c.Put(scope, key, codec.StringValue(key)); err != nil {
			t.Fatal(err)
		}
		if v, err := c.Get(ctx, c.Proc(), key, GetOptions{}); err != nil || v != codec.StringValue(key) {
			t.Errorf("own %s: %v, %v", key, v, err)
		}
	}
	if err := errors.Join(c.Commit(ctx), c.Commit(ctx)); err != nil {
		t.Fatal(err)
	}
	for key, found := range map[string]bool{"local": true, "global": true, "remote": false, "internal": false} {
		v, err := peer.Get(ctx, c.Proc(), key, GetOptions{Immediate: true})
		if found != (err == nil && v == codec.StringValue(key)) || (!found && !errors.Is(err, ErrNotFound)) {
			t.Errorf("%s of the peer: %v, %v; want found: %v", key, v, err, found)
		}
	}
	if err := c.Put(codec.ScopeGlobal, "global", codec.StringValue("new")); err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	cached, err := peer.Get(ctx, c.Proc(), "global", GetOptions{})
	if err != nil || cached != codec.StringValue("global") {
		t.Errorf("cached: %v, %v; want the old value", cached, err)
	}
	fresh, err := peer.Get(ctx, c.Proc(), "global", GetOptions{Refresh: true})
	if err != nil || fresh != codec.StringValue("new") {
		t.Errorf("refreshed: %v, %v; want the new value", fresh, err)
	}
}

func TestPutRefuses(t *testing.T) {
	ctx := limited(t)
	_, env := serve(t, 1, nil)
	c := dial(ctx, t, env(0))
	for want, err := range map[string]error{
		`key ""`:           c.Put(codec.ScopeLocal, "", codec.BoolValue(true)),
		`key "a\x00b"`:     c.Put(codec.ScopeLocal, "a\x00b", codec.BoolValue(true)),
		"scope 0":          c.Put(codec.ScopeUndef, "a", codec.BoolValue(true)),
		"type 14":          c.Put(codec.ScopeLocal, "a", codec.Value{Type: codec.TypeUint32, Data: "x"}),
		"key is empty":     func() error { _, err := c.Get(ctx, c.Proc(), "", GetOptions{}); return err }(),
		"PMIX_ERR_BAD_PAR": c.FenceProcs(ctx, []codec.Proc{{Nspace: "job-1", Rank: 9}}, FenceOptions{}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %s", err, want)
		}
	}
}

func TestConcurrentCalls(t *testing.T) {
	ctx := limited(t)
	_, env := serve(t, 2, nil)
	var g errgroup.Group
	for r := range uint32(2) {
		c := dial(ctx, t, env(r))
		for range 4 {
			g.Go(func() error {
				for range 50 {
					if err := c.Put(codec.ScopeGlobal, "k", codec.Uint32Value(r)); err != nil {
						return err
					}
					if err := c.Commit(ctx); err != nil {
						return err
					}
					if _, err := c.Get(ctx, codec.Proc{Nspace: "job-1", Rank: codec.Rank(1 - r)}, "k", GetOptions{Refresh: true}); err != nil {
						return err
					}
					if err := c.Fence(ctx, true); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestContextEndsWaits(t *testing.T) {
	ctx := limited(t)
	_, env := serve(t, 2, nil)
	c := dial(ctx, t, env(0))
	canceled, cancel := context.WithCancel(ctx)
	errs := make(chan error, 2)
	go func() { errs <- c.Fence(canceled, false) }()
	go func() {
		_, err := c.Get(canceled, codec.Proc{Nspace: "job-1", Rank: 1}, "a", GetOptions{})
		errs <- err
	}()
	cancel()
	for range 2 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("fence: %v, want context.Canceled", err)
		}
	}
	if err := c.Finalize(ctx); err != nil {
		t.Errorf("the client is unusable after a canceled wait: %v", err)
	}
	for op, err := range map[string]error{
		"fence": c.Fence(ctx, false), "commit": c.Commit(ctx), "put": c.Put(codec.ScopeLocal, "a", codec.BoolValue(true)),
		"abort": c.Abort(1, ""),
	} {
		if !errors.Is(err, ErrFinalized) {
			t.Errorf("%s after finalize: %v, want ErrFinalized", op, err)
		}
	}
	select {
	case <-c.Lost():
		t.Error("finalize counts as a loss")
	default:
	}
}

func TestFinalizeEndsOtherWaits(t *testing.T) {
	ctx, h := limited(t), newFinalizes()
	_, env := serve(t, 2, h)
	c := dial(ctx, t, env(0))
	waiting := make(chan error, 1)
	go func() { waiting <- c.Fence(ctx, false) }()
	if err := c.Finalize(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err == nil {
		t.Error("a fence of two succeeded with one process")
	}
}

func TestDialErrors(t *testing.T) {
	ctx := limited(t)
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	accepted := make(chan net.Conn, 1)
	go func() {
		nc, err := ln.Accept()
		if err == nil {
			accepted <- nc
		}
	}()
	silent := Options{Nspace: "job-1", Address: ln.Addr().String(), Security: codec.SecurityNative}
	canceled, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := Dial(canceled, silent)
		done <- err
	}()
	nc := <-accepted
	h, err := codec.ReadHandshake(nc)
	if err != nil || len(h.Credential) != 8 || h.Security != codec.SecurityNative {
		t.Errorf("handshake %+v, %v; want native with user and group", h, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("silent server: %v, want context.Canceled", err)
	}
	if n, _ := io.Copy(io.Discard, nc); n != 0 {
		t.Errorf("%d bytes after the handshake", n)
	}
	_ = nc.Close()
	_ = ln.Close()
	if _, err := Dial(ctx, silent); err == nil || !strings.Contains(err.Error(), silent.Address) {
		t.Errorf("no listener: %v, want an error with the address", err)
	}
}

func TestStatusErrors(t *testing.T) {
	for status, want := range map[codec.Status]error{
		codec.StatusErrNotFound: ErrNotFound, codec.StatusErrTimeout: ErrTimeout, codec.StatusErrLostConnection: ErrLostConnection,
		codec.StatusErrProcTermWoSync: ErrProcFailed, codec.StatusEventProcTerminated: ErrProcFailed,
	} {
		err := statusError("fence", status)
		for _, sentinel := range []error{ErrNotFound, ErrTimeout, ErrLostConnection, ErrProcFailed, ErrFinalized} {
			if errors.Is(err, sentinel) != errors.Is(sentinel, want) {
				t.Errorf("errors.Is(%v, %v) = %v", err, sentinel, errors.Is(err, sentinel))
			}
		}
	}
	if got := statusError("fence", -47).Error(); got != "pmix fence: PMIX_ERR_NOT_SUPPORTED (-47)" {
		t.Error(got)
	}
	if errors.Is(&StatusError{Status: -1}, ErrNotFound) || statusError("x", 0) != nil {
		t.Error("a status matches the wrong sentinel")
	}
}

func TestJobInfoForms(t *testing.T) {
	info := &codec.JobInfo{Pairs: []codec.KVal{
		{Key: codec.KeyJobSize, Value: codec.Uint32Value(2)},
		{Key: keyProcData, Value: codec.InfosValue(
			codec.Info{Key: codec.KeyRank, Value: codec.RankValue(1)}, codec.Info{Key: codec.KeyLocalRank, Value: codec.Uint16Value(5)})},
	}}
	j, err := newJobDescription(info, 1)
	if err != nil || j.localRank != 5 || !slices.Equal(j.peers, []codec.Rank{1}) {
		t.Errorf("%+v, %v", j, err)
	}
	for _, bad := range []codec.KVal{
		{Key: codec.KeyProcBlob, Value: codec.BytesValue([]byte{1})},
		{Key: codec.KeyLocalPeers, Value: codec.StringValue("0,x")},
		{Key: codec.KeyJobSize, Value: codec.Uint32Value(0)},
	} {
		if _, err := newJobDescription(&codec.JobInfo{Pairs: append(slices.Clone(info.Pairs), bad)}, 1); err == nil {
			t.Errorf("no error for %v", bad)
		}
	}
}
