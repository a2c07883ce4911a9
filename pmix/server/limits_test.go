package server

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

// startLimited starts a server with tight limits and returns its address.
func startLimited(t *testing.T, n int, change func(l *limits), h Host) (*Server, string) {
	t.Helper()
	lim := defaultLimits(n)
	change(&lim)
	s, err := startWith(Config{Job: testJob(n), Host: h}, lim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, s.ln.Addr().String()
}

func dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return nc
}

func claimRaw(t *testing.T, addr string, rank codec.Rank) net.Conn {
	t.Helper()
	nc := dialRaw(t, addr)
	introduceRaw(t, nc, first(rank))
	return nc
}

// introduceRaw claims to be a process and checks that the claim is accepted.
func introduceRaw(t *testing.T, nc net.Conn, p codec.Proc) {
	t.Helper()
	h := codec.NewHandshake(p, codec.SecurityNone, nil)
	if _, err := nc.Write(codec.AppendHandshake(nil, h)); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, codec.HandshakeReplySize)
	if _, err := io.ReadFull(nc, reply); err != nil {
		t.Fatal(err)
	}
	if status, _, err := codec.DecodeHandshakeReply(reply); err != nil || status != codec.StatusSuccess {
		t.Fatalf("%v: %v, %v", p, status, err)
	}
}

func awaitClose(t *testing.T, nc net.Conn) {
	t.Helper()
	if n, err := io.Copy(io.Discard, nc); n > 0 || (err != nil && isTimeout(err)) {
		t.Errorf("%d bytes and %v, want the connection closed", n, err)
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func ask(t *testing.T, nc net.Conn, tag uint32, r codec.Request) {
	t.Helper()
	body, err := codec.AppendRequest(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Write(codec.AppendFrame(nil, 0, tag, body)); err != nil {
		t.Fatal(err)
	}
}

func answer(t *testing.T, nc net.Conn, tag uint32) []byte {
	t.Helper()
	h, body, err := codec.ReadFrame(nc, 1<<30)
	if err != nil || h.Tag != tag {
		t.Fatalf("answer with tag %d, %v; want tag %d", h.Tag, err, tag)
	}
	return body
}

func TestHalfOpenConnectionsAreDropped(t *testing.T) {
	_, addr := startLimited(t, 1, func(l *limits) { l.handshake = 20 * time.Millisecond }, nil)
	silent, slow := dialRaw(t, addr), dialRaw(t, addr)
	if _, err := slow.Write([]byte{0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	awaitClose(t, silent)
	awaitClose(t, slow)
}

func TestFloodPushesOutItsOldest(t *testing.T) {
	_, addr := startLimited(t, 2, func(l *limits) { l.unknown, l.handshake = 3, time.Hour }, nil)
	client := claimRaw(t, addr, 0)
	var flood []net.Conn
	for range 20 {
		flood = append(flood, dialRaw(t, addr))
	}
	for _, nc := range flood[:20-3] {
		awaitClose(t, nc)
	}
	late := claimRaw(t, addr, 1)
	for _, nc := range []net.Conn{client, late} {
		ask(t, nc, 101, &codec.InitRequest{})
		answer(t, nc, 101)
	}
}

type lostHost struct {
	noHost
	lost chan codec.Proc
}

func (h lostHost) ClientLost(p codec.Proc) { h.lost <- p }

// A client that sends requests and never reads is dropped when its answers fill the queue. Others are served meanwhile.
func TestSlowReader(t *testing.T) {
	h := lostHost{lost: make(chan codec.Proc, 1)}
	_, addr := startLimited(t, 2, func(l *limits) { l.queueBytes = 1 << 20 }, h)
	owner, slow := claimRaw(t, addr, 0), claimRaw(t, addr, 1)
	big := codec.NewEncoder(nil)
	big.KValGroup(codec.KVal{Key: "big", Value: codec.BytesValue(make([]byte, 256<<10))})
	ask(t, owner, 101, &codec.CommitRequest{Blobs: []codec.ScopedBlob{{Scope: codec.ScopeLocal, Data: big.Bytes()}}})
	answer(t, owner, 101)
	get := &codec.GetRequest{Proc: first(0), Key: "big"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		body, _ := codec.AppendRequest(nil, get) // an error would show below
		for tag := uint32(101); ; tag++ {
			if _, err := slow.Write(codec.AppendFrame(nil, 0, tag, body)); err != nil {
				return
			}
		}
	}()
	for tag := uint32(102); ; tag++ {
		ask(t, owner, tag, get)
		answer(t, owner, tag)
		select {
		case p := <-h.lost:
			if p != first(1) {
				t.Errorf("lost %v, want rank 1", p)
			}
			<-asked
			return
		case <-ctx.Done():
			t.Fatal("the slow reader is still connected")
		default:
		}
	}
}

func TestFrameLimit(t *testing.T) {
	h := lostHost{lost: make(chan codec.Proc, 1)}
	_, addr := startLimited(t, 1, func(l *limits) { l.frame = 100 }, h)
	nc := claimRaw(t, addr, 0)
	ask(t, nc, 101, &codec.AbortRequest{Message: "x"})
	answer(t, nc, 101)
	if _, err := nc.Write(codec.AppendFrame(nil, 0, 102, make([]byte, 101))); err != nil {
		t.Fatal(err)
	}
	if p := <-h.lost; p != first(0) {
		t.Errorf("lost %v, want rank 0", p)
	}
}

func TestServeOverDriver(t *testing.T) {
	s, addr := startLimited(t, 1, func(*limits) {}, nil)
	nc := claimRaw(t, addr, 0)
	type result struct {
		status codec.Status
		packed []byte
	}
	results := make(chan result, 2)
	reply := func(status codec.Status, packed []byte) { results <- result{status, packed} }
	s.Serve(first(0), "a", reply)
	s.Serve(first(9), "a", reply)
	if r := <-results; r.status != codec.StatusErrNotFound {
		t.Errorf("rank 9: %v, want PMIX_ERR_NOT_FOUND", r.status)
	}
	ask(t, nc, 101, commitOf(codec.ScopeGlobal, "a=1"))
	answer(t, nc, 101)
	if r := <-results; r.status != codec.StatusSuccess || len(r.packed) == 0 {
		t.Errorf("rank 0: %v with %d bytes, want its data", r.status, len(r.packed))
	}
}
