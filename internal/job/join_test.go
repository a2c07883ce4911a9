package job

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/client"
	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
	"github.com/goshmem/goshmem/symheap"
)

// patience limits the wait for something that must come.
const patience = 30 * time.Second

// limited returns a context that ends before the test's own deadline.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// step plays oshrun's step for a PE: the PMIx server, and the socket that hands out segments and gives orders. This
// process is PE 0.
type step struct {
	t      *testing.T
	nspace string
	srv    *server.Server
	page   *failure.Page
	key    [16]byte
	orders chan *net.UnixConn // connection of a PE that has all segments
	ended  chan pmix.Proc     // PEs that have left the job
	aborts chan string        // messages of PEs that have aborted the job

	mu    sync.Mutex // guards what follows
	place Place
	heaps []*os.File // segments of the near PEs
}

func (s *step) ClientConnected(pmix.Proc, int) {}
func (s *step) ClientFinalized(p pmix.Proc)    { s.ended <- p }
func (s *step) ClientLost(pmix.Proc)           {}

func (s *step) Abort(_ pmix.Proc, _ []pmix.Proc, _ int, msg string)  { s.aborts <- msg }
func (s *step) Spawn(*server.SpawnRequest)                           {}
func (s *step) Control(pmix.Proc, []pmix.Proc, server.ControlAction) {}
func (s *step) Log(_ pmix.Proc, _ bool, _ []byte)                    {}
func (s *step) Stdin(_ []pmix.Proc, _ []byte, _ bool)                {}
func (s *step) set(name, value string)                               { s.t.Setenv(name, value) }
func (s *step) exits(pe int, e server.Exit) {
	s.srv.ProcExited(pmix.Proc{Nspace: s.nspace, Rank: pmix.Rank(pe)}, e)
}

func (s *step) dies(pe int) {
	s.page.Publish(pe, firstIncarnation, failure.BySignal(syscall.SIGKILL, false, false), 0)
}

func (s *step) reply(r wire.AttachReply, conn *net.UnixConn, fds []int) error {
	return xunix.SendFDs(conn, r.Append(nil), fds)
}

// steps counts steps. Each step needs its own job, as the process keeps a job's memory.
var steps atomic.Uint64

// newStep starts a step for a job of n PEs and sets the environment of PE 0.
func newStep(t *testing.T, n int) *step {
	t.Helper()
	s := &step{
		t: t, place: Place{Nodes: 1, Near: n, NPEs: n}, nspace: fmt.Sprintf("goshmem-test-%d-%d", os.Getpid(), steps.Add(1)),
		orders: make(chan *net.UnixConn, 4), ended: make(chan pmix.Proc, 4), aborts: make(chan string, 4),
	}
	copy(s.key[:], s.nspace)
	d := server.JobLayout{Nspace: s.nspace, Hosts: []string{"vm"}}
	for pe := range n {
		d.Procs = append(d.Procs, server.Proc{Rank: uint32(pe), LocalRank: uint16(pe)})
		f, err := symheap.Create(symheap.Identity{Job: s.key, PE: uint32(pe), NPEs: uint32(n), Incarnation: firstIncarnation}, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		s.heaps = append(s.heaps, f)
	}
	var err error
	if s.page, err = failure.Create(s.key, n); err != nil {
		t.Fatal(err)
	}
	if s.srv, err = server.Start(server.Config{Job: d, Host: s}); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: "@" + s.nspace, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		err := l.Close()
		serving.Wait()
		if err := errors.Join(err, s.srv.Close(), s.page.Close()); err != nil {
			t.Error(err)
		}
	})
	for _, kv := range s.srv.Environ(pmix.Proc{Nspace: s.nspace, Rank: 0}) {
		name, value, _ := strings.Cut(kv, "=")
		s.set(name, value)
	}
	s.set(envvar.Step, "@"+s.nspace)
	return s
}

// noAgent is why the step has no agent for a job of several nodes.
const noAgent = "no port is free"

// move moves the step to a node with the PEs of p, whose segments are those of these PEs.
func (s *step) move(p Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.place, s.heaps = p, s.heaps[p.First:]
}

// located returns the step's place and the segments of its node.
func (s *step) located() (Place, []*os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place, s.heaps
}

// serve answers a PE's requests, one segment per reply.
func (s *step) serve(conn *net.UnixConn) {
	buf := make([]byte, wire.MaxPacket)
	for {
		n, err := conn.Read(buf)
		if n == 0 || err != nil {
			return
		}
		req, err := wire.ParseAttachRequest(buf[:n])
		if err != nil {
			s.t.Error(err)
			return
		}
		place, heaps := s.located()
		info, err := heaps[0].Stat()
		if err != nil {
			s.t.Error(err)
			return
		}
		r := wire.AttachReply{
			Job: s.key, NPEs: uint32(place.NPEs), Nodes: uint32(place.Nodes), FirstPE: uint32(place.First), Near: uint32(place.Near),
			First: req.First, Processors: 2, SegmentSize: uint64(info.Size()), Recover: true,
		}
		last := req.Kind == wire.AskOrders
		var fds []int
		if !last {
			r.Count = 1
			fds = append(fds, int(heaps[req.First].Fd()))
			if r.Page = req.First == 0; r.Page {
				fds = append(fds, int(s.page.File().Fd()))
				if place.Nodes > 1 {
					r.NoAgent = noAgent
				}
			}
			last = int(req.First) == len(heaps)-1
		}
		if err := s.reply(r, conn, fds); err != nil {
			s.t.Error(err)
			return
		}
		if last {
			s.orders <- conn
			return
		}
	}
}

// awaitMeeting waits until PE 0 waits for the PMIx server.
func (s *step) awaitMeeting() {
	s.t.Helper()
	info, err := s.heaps[0].Stat()
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := symheap.NewMap(s.key, len(s.heaps), uint64(info.Size()))
	if err == nil {
		err = m.Attach(0, 0, int(s.heaps[0].Fd()))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	for begin := time.Now(); atomic.LoadUint64(&m.Control(0).Progress.Meets) == 0; runtime.Gosched() {
		if time.Since(begin) > patience {
			s.t.Fatal("PE 0 does not wait for others")
		}
	}
}

// order gives PE 0 an order and returns its answer.
func (s *step) order(conn *net.UnixConn, o wire.Order) (text string) {
	s.t.Helper()
	if _, err := conn.Write((&wire.OrderPacket{Order: o}).Append(nil)); err != nil {
		s.t.Fatal(err)
	}
	buf := make([]byte, wire.MaxPacket)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			s.t.Fatal(err)
		}
		p, err := wire.ParseOrder(buf[:n])
		if err != nil || p.Order != o {
			s.t.Fatalf("answer %+v, %v, want one to order %d", p, err, o)
		}
		if text += p.Text; p.Last {
			return text
		}
	}
}

// A program without oshrun is a job of one PE. It may join the job again, and finds the same memory.
func TestSingle(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(envvar.Pprof, dir)
	t.Setenv(envvar.SymmetricSize, "1M")
	t.Setenv(envvar.Check, envvar.CheckCollectives)
	var mapped []*symheap.Map
	for range 2 {
		ctx := limited(t)
		j, err := Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Acquire(ctx)
		if err != nil || again != j || j.Last() || !Live() {
			t.Errorf("second reference: %p, %v, want %p again, and two references", again, err, j)
		}
		if j.PE != 0 || j.NPEs != 1 || j.Launched() || j.Recover || !j.CheckCollectives || j.Waiter == nil || j.Arena == nil || Page() != nil {
			t.Errorf("job %+v, want PE 0 of 1 without oshrun", j)
		}
		if err := errors.Join(j.Fence(ctx), j.Abort(3, "nobody listens"), j.DeclareModel(ctx, client.Model{})); err != nil {
			t.Error(err)
		}
		if err := j.Release(ctx); err != nil || !j.Last() || !Live() {
			t.Errorf("first release: %v, want one reference left", err)
		}
		if err := j.Release(ctx); err != nil || Live() {
			t.Errorf("last release: %v, want none left", err)
		}
		if err := j.Release(ctx); err == nil {
			t.Error("a third release has no error")
		}
		mapped = append(mapped, j.Map)
	}
	if mapped[0] != mapped[1] {
		t.Error("the second job does not have the memory of the first")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.pprof"))
	if err != nil || len(files) != 4 {
		t.Errorf("profiles %v, %v, want a CPU profile and a heap profile for each job", files, err)
	}
}

// Wrong settings are refused before anything is set up.
func TestSetUpRefuses(t *testing.T) {
	for name, value := range map[string]string{envvar.Check: "everything", "PMIX_RANK": "first"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if name == "PMIX_RANK" {
				t.Setenv("PMIX_NAMESPACE", "job")
				t.Setenv("PMIX_SERVER_URI41", "job.0;tcp4://127.0.0.1:9")
			}
			if j, err := Acquire(limited(t)); err == nil || Live() {
				t.Errorf("joined %+v, want an error", j)
			}
		})
	}
	if _, err := Acquire(limited(t)); err != nil {
		t.Fatal(err)
	}
	_ = live.Release(limited(t)) // so that other tests can join
}

// A server other than oshrun's has no segments.
func TestForeignServer(t *testing.T) {
	newStep(t, 1)
	if err := os.Unsetenv(envvar.Step); err != nil {
		t.Fatal(err)
	}
	if _, err := Acquire(limited(t)); !errors.Is(err, ErrForeignServer) {
		t.Errorf("got %v, want %v", err, ErrForeignServer)
	}
}

// A PE maps all segments, meets the others, takes orders, and finalizes.
func TestJoin(t *testing.T) {
	s := newStep(t, 1)
	dir := t.TempDir()
	t.Setenv(envvar.Pprof, dir)
	j, err := Acquire(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	if j.Nspace != s.nspace || j.NPEs != 1 || j.Map.Len() != 1 || !j.Launched() || !j.Recover || j.Failures == nil || Page() != j.Failures {
		t.Errorf("job %+v, want PE 0 of job %s with a failure page", j, s.nspace)
	}
	conn := <-s.orders
	if text := s.order(conn, wire.OrderCalls); text != "is in no call of the library" && !strings.HasPrefix(text, "is in no call of the library;") {
		t.Errorf("unexpected calls: %q", text)
	}
	if text := s.order(conn, wire.OrderStacks); !strings.Contains(text, "TestJoin") {
		t.Errorf("stacks without this test:\n%s", text)
	}
	if text := s.order(conn, wire.OrderProfile); text != "" {
		t.Errorf("profile order answered %q", text)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.pprof")); err != nil || len(files) != 2 {
		t.Errorf("profiles %v, %v, want two", files, err)
	}
	if err := j.Abort(5, "no luck"); err != nil {
		t.Error(err)
	}
	if msg := <-s.aborts; msg != "no luck" {
		t.Errorf("unexpected abort message %q", msg)
	}
	if err := j.Release(limited(t)); err != nil {
		t.Error(err)
	}
	if p := <-s.ended; p.Nspace != s.nspace || p.Rank != 0 {
		t.Errorf("%v has finalized, want PE 0", p)
	}
	again, err := Acquire(limited(t)) // reuses the mapped segments
	if err != nil {
		t.Fatal(err)
	}
	<-s.orders
	if again.Map != j.Map {
		t.Error("after joining again, the PE's memory is not the same")
	}
	if err := again.Release(limited(t)); err != nil {
		t.Error(err)
	}
}

// Deaths are reported to callers that listen, and to callers that look between two calls.
func TestDeathsAreTold(t *testing.T) {
	s := newStep(t, 1)
	j, err := Acquire(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	told, alerted := make(chan []failure.Failure, 4), 0
	cancel := j.OnFailure(func(all []failure.Failure, _ uint64) { told <- all })
	remove := j.Alert(func() { alerted++ })
	s.dies(0)
	conn := <-s.orders
	if _, err := conn.Write((&wire.OrderPacket{Order: wire.OrderNews}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	if all := <-told; len(all) != 1 || all[0].PE != 0 {
		t.Errorf("told of failures %v, want that of PE 0", all)
	}
	j.Noticed()
	remove()
	j.Noticed()
	if alerted != 1 {
		t.Errorf("alerted %d times, want once, before the listener was removed", alerted)
	}
	cancel()
	j.AwaitListeners()
	if len(told) > 0 {
		t.Error("the listener was told more than once")
	}
	if err := j.Release(limited(t)); err != nil {
		t.Error(err)
	}
}

// When a PE joins a job with dead PEs, the error says which are dead and why.
func TestJoinAfterDeath(t *testing.T) {
	s := newStep(t, 2)
	s.dies(1)
	_, err := Acquire(limited(t))
	dead := new(DeadError)
	if !errors.As(err, &dead) || len(dead.Failures) != 1 || dead.Failures[0].PE != 1 || !strings.HasPrefix(dead.Error(), "PE 1 ") || Live() {
		t.Errorf("error %v, want the death of PE 1", err)
	}
}

// When a PE's meeting with the others fails, the error says that others have died, or what else went wrong.
func TestMeetingFails(t *testing.T) {
	for name, dies := range map[string]bool{"a death": true, "no death": false} {
		t.Run(name, func(t *testing.T) {
			s := newStep(t, 2)
			joined := make(chan error)
			go func() {
				_, err := Acquire(limited(t))
				joined <- err
			}()
			conn := <-s.orders
			s.awaitMeeting()
			if dies {
				s.dies(1)
				if _, err := conn.Write((&wire.OrderPacket{Order: wire.OrderNews}).Append(nil)); err != nil {
					t.Fatal(err)
				}
			}
			s.exits(1, server.Exit{Signal: 9})
			err := <-joined
			dead := new(DeadError)
			if errors.As(err, &dead) != dies || err == nil || !strings.Contains(err.Error(), "PMIx fence with the other PEs: ") {
				t.Errorf("error %v, want a failed fence, because of a death: %t", err, dies)
			}
			if dies && (dead.Failures[0].PE != 1 || errors.Unwrap(dead) == nil) {
				t.Errorf("error %+v, want PE 1 and the cause of the failure", dead)
			}
		})
	}
}

// A PE refuses a step that sends something other than what was requested.
func TestAttachRefuses(t *testing.T) {
	for name, change := range map[string]func(s *step){
		"another job": func(s *step) { s.key[0]++ },
		"other PEs":   func(s *step) { s.move(Place{Nodes: 1, Near: 2, NPEs: 2}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStep(t, 1)
			change(s)
			if _, err := Acquire(limited(t)); err == nil || !strings.Contains(err.Error(), "segments of the node: ") {
				t.Errorf("error %v, want one about the segments", err)
			}
		})
	}
	newStep(t, 1)
	t.Setenv(envvar.Step, "@goshmem-nobody")
	if _, err := Acquire(limited(t)); err == nil || !strings.Contains(err.Error(), "connect to oshrun's step process at @goshmem-nobody") {
		t.Errorf("error %v, want one that names the address", err)
	}
}

// A user who starts several one-PE jobs with another launcher is told so.
func TestForeignLauncherIsNamed(t *testing.T) {
	text := foreignText(envvar.Launcher{Var: "X_SIZE", Name: "xrun", Processes: 4, Hint: "use oshrun"})
	for _, part := range []string{"X_SIZE=4", "xrun started 4 processes", "hint: use oshrun"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %q", part, text)
		}
	}
}

// An answer too long for one packet is sent in several.
func TestLongAnswer(t *testing.T) {
	s := newStep(t, 1)
	pair, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: "@" + s.nspace + "-pair", Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	here, err := dialStep(limited(t), "@"+s.nspace+"-pair")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	there, err := pair.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	text := []byte(strings.Repeat("0123456789", wire.MaxText/4))
	go func() {
		if err := sendAnswer(here, wire.OrderStacks, text); err != nil {
			t.Error(err)
		}
	}()
	var got []byte
	buf, packets := make([]byte, wire.MaxPacket), 0
	for last := false; !last; packets++ {
		n, err := there.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		p, err := wire.ParseOrder(buf[:n])
		if err != nil {
			t.Fatal(err)
		}
		got, last = append(got, p.Text...), p.Last
	}
	if !slices.Equal(got, text) || packets != 3 {
		t.Errorf("got %d bytes in %d packets, want %d in 3", len(got), packets, len(text))
	}
}
