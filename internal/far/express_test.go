package far

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/express"
	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// expressRig is a rig with the agent's end of the PE's line, and of its express socket to node 1.
type expressRig struct {
	*rig
	line   *os.File
	socket net.Conn // the agent's end
	id     uint64   // of the socket
	server *express.Server
}

var rigCaller = express.Caller{Node: 0, Local: 0, Incarnation: 1}

// newExpressRig returns a rig whose PE 0 has an express socket to node 1. Nobody serves it yet.
func newExpressRig(t *testing.T) *expressRig {
	t.Helper()
	r := &expressRig{rig: newRig(t, 2, 2), server: express.NewServer(2, 10)}
	here, there, err := xunix.PacketPair()
	must(t, err)
	t.Cleanup(func() { must(t, here.Close()); must(t, there.Close()) })
	r.line = there
	r.agent.change(func() {
		r.agent.repeat = func(rec *record.Record) (record.Status, uint64) {
			a := r.server.Repeat(rigCaller, rec, r)
			return a.Status, a.Value
		}
	})
	r.c.Line, r.c.PE, r.c.Incarnation = int(here.Fd()), 0, 1
	r.Port, err = New(r.c)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	r.open()
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Execute executes a request. The agent does nothing meanwhile.
func (r *expressRig) Execute(rec *record.Record) express.Answer {
	if r.agent.dead[layout.PE(r.near+int(rec.Local))] {
		return express.Answer{Status: record.StatusDead}
	}
	_, value := r.agent.perform(1, rec)
	return express.Answer{Value: value}
}

// open makes round trips until the PE asks for a socket, and gives it one.
func (r *expressRig) open() {
	r.t.Helper()
	var b [64]byte
	for range express.MostTrips {
		_, err := r.Fetch(r.t.Context(), nil, 2, layout.HeapOffset+64, record.AtomicLoad, 8, 0, 0)
		must(r.t, err)
		n, _, err := xunix.RecvPacketFD(int(r.line.Fd()), b[:])
		if errors.Is(err, xunix.ErrAgain) {
			continue
		}
		must(r.t, err)
		var ask wire.ExpressAsk
		must(r.t, ask.Parse(b[:n]))
		if ask.Node != 1 {
			r.t.Fatalf("a socket to node %d is asked for, want 1", ask.Node)
		}
		own := r.connect()
		r.id++
		last, _, v := r.server.Admit(rigCaller, r.id)
		if v != express.Admitted {
			r.t.Fatalf("verdict %d", v)
		}
		answer := wire.ExpressAnswer{Node: 1, Last: last}
		must(r.t, xunix.SendPacketFD(int(r.line.Fd()), answer.Append(nil), int(own.Fd())))
		must(r.t, own.Close())
		_, err = r.Fetch(r.t.Context(), nil, 2, layout.HeapOffset+64, record.AtomicLoad, 8, 0, 0) // takes the answer
		must(r.t, err)
		// A request goes by the socket if all records are executed. The agent says so after it has answered.
		var touched Touched
		must(r.t, r.Signal(r.t.Context(), &touched, 2, layout.HeapOffset+128, 1, false))
		r.quietOf(&touched)
		return
	}
	r.t.Fatal("no socket is asked for")
}

// read reads a request.
func (r *expressRig) read() (q express.Request) {
	r.t.Helper()
	b := make([]byte, 0, express.MaxRequest)
	must(r.t, r.socket.SetReadDeadline(time.Now().Add(time.Minute)))
	for {
		n, err := r.socket.Read(b[len(b):cap(b)])
		must(r.t, err)
		b = b[:len(b)+n]
		ok, err := q.Parse(b)
		must(r.t, err)
		if ok {
			return q
		}
	}
}

// execute executes a request and returns the reply.
func (r *expressRig) execute(q *express.Request, socket uint64) (reply []byte) {
	r.t.Helper()
	r.agent.change(func() {
		a, err := r.server.Request(rigCaller, socket, q, r)
		if err != nil {
			r.t.Error(err)
		}
		h := express.Reply{Number: q.Number, Value: a.Value, Status: a.Status}
		if q.Record.Op == record.OpGet && a.Status == record.StatusOK {
			data, _ := r.agent.perform(1, &q.Record)
			h.Bytes = len(data)
			reply = append(h.Append(nil), data...)
			return
		}
		reply = h.Append(nil)
	})
	return reply
}

// connect makes a socket, and returns the PE's end.
func (r *expressRig) connect() *os.File {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(r.t, err)
	own, err := net.Dial("tcp", l.Addr().String())
	must(r.t, err)
	r.socket, err = l.Accept()
	must(r.t, err)
	r.t.Cleanup(func() { _ = r.socket.Close() })
	f, err := own.(*net.TCPConn).File()
	must(r.t, errors.Join(err, own.Close(), l.Close()))
	return f
}

// fetchAdd starts a fetch-add of 1 and returns where its end comes.
func (r *expressRig) fetchAdd(ctx context.Context) <-chan result {
	done := make(chan result, 1)
	go func() {
		old, err := r.Fetch(ctx, nil, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
		done <- result{old, err}
	}()
	return done
}

type result struct {
	old uint64
	err error
}

func (r *expressRig) word() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.memory(2)[0])))
}

// A reply comes back in pieces of any size.
func TestExpressReplyInPieces(t *testing.T) {
	r := newExpressRig(t)
	for i := range r.memory(3)[:1000] {
		r.memory(3)[i] = byte(i)
	}
	dst := make([]byte, 1000)
	done := make(chan error, 1)
	go func() { done <- r.Get(t.Context(), nil, 3, layout.HeapOffset, at(dst), len(dst)) }()
	q := r.read()
	reply := r.execute(&q, r.id)
	for len(reply) > 0 {
		n := min(len(reply), 7)
		_, err := r.socket.Write(reply[:n])
		must(t, err)
		reply = reply[n:]
	}
	must(t, <-done)
	for i := range dst {
		if dst[i] != byte(i) {
			t.Fatalf("byte %d is %d", i, dst[i])
		}
	}
}

// A fetch whose socket is lost takes place once: before it was executed, afterwards, and if the agent reads the request only
// after the repeat.
func TestExpressLost(t *testing.T) {
	for name, lose := range map[string]func(r *expressRig, q *express.Request){
		"unread":   func(r *expressRig, _ *express.Request) { _ = r.socket.Close() },
		"executed": func(r *expressRig, q *express.Request) { r.execute(q, r.id); _ = r.socket.Close() },
		"half a reply": func(r *expressRig, q *express.Request) {
			_, err := r.socket.Write(r.execute(q, r.id)[:5])
			must(r.t, err)
			_ = r.socket.Close()
		},
		"another number": func(r *expressRig, q *express.Request) {
			b := r.execute(q, r.id)
			b[0]++
			_, err := r.socket.Write(b)
			must(r.t, err)
		},
		"silent": func(*expressRig, *express.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newExpressRig(t)
			done := r.fetchAdd(t.Context())
			q := r.read()
			id := r.id
			lose(r, &q)
			if got := <-done; got.err != nil || got.old != 0 || r.word() != 1 {
				t.Errorf("returned %d, %v, and the word is %d, want 0 and 1", got.old, got.err, r.word())
			}
			r.execute(&q, id) // late
			if r.word() != 1 {
				t.Errorf("the late request made the word %d, want 1", r.word())
			}
			r.open() // and the numbers go on
			done = r.fetchAdd(t.Context())
			q = r.read()
			_, err := r.socket.Write(r.execute(&q, r.id))
			must(t, err)
			if got := <-done; got.err != nil || got.old != 1 || r.word() != 2 {
				t.Errorf("the next one returned %d, %v, and the word is %d, want 1 and 2", got.old, got.err, r.word())
			}
		})
	}
}

// A context ends the wait. The fetch takes place before what the PE does next, once, whether the agent has read it or reads it
// late.
func TestExpressContext(t *testing.T) {
	for _, executed := range []bool{false, true} {
		r := newExpressRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := r.fetchAdd(ctx)
		q := r.read()
		if executed {
			r.execute(&q, r.id)
		}
		cancel()
		if got := <-done; !errors.Is(got.err, context.Canceled) {
			t.Errorf("the fetch returns %v, want %v", got.err, context.Canceled)
		}
		got, err := r.Fetch(t.Context(), nil, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
		if err != nil || got != 1 {
			t.Errorf("the next fetch returns %d, %v, want 1", got, err)
		}
		r.execute(&q, r.id)
		if r.word() != 2 {
			t.Errorf("the word is %d, want 2", r.word())
		}
	}
}

// Deaths end the wait for a reply, with an error that names the PE: its own, and that of its node. The death of another PE
// does not.
func TestExpressDeath(t *testing.T) {
	for name, die := range map[string]func(r *expressRig){
		"PE":   func(r *expressRig) { r.kill(2) },
		"node": func(r *expressRig) { r.lose(1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newExpressRig(t)
			r.stop(1, true) // the agent does not help
			done := r.fetchAdd(t.Context())
			r.read()
			die(r)
			wantDead(t, (<-done).err, 2)
			if r.express.client.IsOpen(1) {
				t.Error("the socket is still open")
			}
		})
	}
	r := newExpressRig(t)
	done := r.fetchAdd(t.Context())
	q := r.read()
	r.kill(3)
	_, err := r.socket.Write(r.execute(&q, r.id))
	must(t, err)
	if got := <-done; got.err != nil || !r.express.client.IsOpen(1) {
		t.Errorf("after the death of another PE: %v, open %v", got.err, r.express.client.IsOpen(1))
	}
	if err := r.Get(t.Context(), nil, 3, layout.HeapOffset, unsafe.Pointer(new(uint64)), 8); err == nil || !strings.Contains(err.Error(), "PE 3 was killed") {
		t.Errorf("get of a dead PE: %v", err)
	}
}

// While something of the PE is under way, requests go through the agent.
func TestExpressWaitsForStream(t *testing.T) {
	r := newExpressRig(t)
	r.stop(1, true)
	v := uint64(5)
	must(t, r.Put(t.Context(), nil, 2, layout.HeapOffset, unsafe.Pointer(&v), 8))
	given := func() uint64 { r.mu.Lock(); defer r.mu.Unlock(); return r.streams[1].next }
	before := given()
	done := r.fetchAdd(t.Context())
	for given() == before && t.Context().Err() == nil { // until it is given to the agent
		runtime.Gosched()
	}
	r.stop(1, false)
	if got := <-done; got.err != nil || got.old != 5 {
		t.Errorf("the fetch behind a put returns %d, %v, want 5", got.old, got.err)
	}
	must(t, r.socket.SetReadDeadline(time.Now()))
	if n, err := r.socket.Read(make([]byte, 1)); n != 0 || errors.Is(err, io.EOF) {
		t.Errorf("%d bytes went by the socket, %v", n, err)
	}
}

// Close ends the socket. A refusal, and a line that ends, leave the PE with its agent.
func TestExpressEnds(t *testing.T) {
	r := newExpressRig(t)
	r.Close()
	must(t, r.socket.SetReadDeadline(time.Now().Add(time.Minute)))
	if n, err := r.socket.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after Close: %d bytes, %v, want the end", n, err)
	}
	if _, err := r.Fetch(t.Context(), nil, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0); err != nil {
		t.Errorf("a fetch through the agent: %v", err)
	}
}
