package tcp

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/agent/express"
)

// dialed is what becomes of a dial.
type dialed struct {
	c    express.Caller
	fd   int
	last uint64
	err  error
}

// owner is an owner of express sockets that replies with what it is asked, twice.
type owner struct {
	verdict express.Verdict
	callers chan express.Caller
	ids     chan uint64
	closed  chan uint64
	dialed  chan dialed
}

func newOwner() *owner {
	return &owner{callers: make(chan express.Caller, 9), ids: make(chan uint64, 9), closed: make(chan uint64, 9), dialed: make(chan dialed, 9)}
}

func (o *owner) Admit(c express.Caller, id uint64) (uint64, express.Verdict) {
	if o.verdict == express.Admitted {
		o.callers <- c
		o.ids <- id
	}
	return 77, o.verdict
}

var errNonsense = errors.New("nonsense")

func (o *owner) Take(_ express.Caller, _ uint64, request []byte) ([]byte, error) {
	switch {
	case request[0] == '!':
		return nil, errNonsense
	case request[len(request)-1] != '.':
		return nil, nil
	}
	return append(append([]byte(nil), request...), request...), nil
}

func (o *owner) Closed(_ express.Caller, id uint64) { o.closed <- id }
func (o *owner) Ready(int) bool                     { return false }

func (o *owner) Dialed(c express.Caller, fd int, last uint64, err error) {
	o.dialed <- dialed{c, fd, last, err}
}

// expressPair returns the transports of two nodes with their secrets, which are polled by the test, and their owners.
func expressPair(t *testing.T, secrets [2]Secret) (nodes [2]*Transport, owners [2]*owner, doors [2]*ExpressDoor) {
	t.Helper()
	for i := range nodes {
		tr, err := New(Config{
			Self: i, Nodes: 2, Incarnation: 1, Secret: secrets[i], Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tr.Close() })
		nodes[i], owners[i] = tr, newOwner()
		doors[i] = ServeExpress(tr, owners[i])
	}
	for i, tr := range nodes {
		if err := tr.SetPeer(1-i, 1, nodes[1-i].Addrs()); err != nil {
			t.Fatal(err)
		}
	}
	return nodes, owners, doors
}

// awaitOf polls both nodes until something comes.
func awaitOf[T any](t *testing.T, nodes [2]*Transport, from chan T) (x T) {
	t.Helper()
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		select {
		case x = <-from:
			return x
		default:
		}
		for _, tr := range nodes {
			if _, err := tr.Poll(nil, time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatal("nothing has come in 20 s")
	return x
}

// openExpress opens a socket from node 0 to node 1.
func openExpress(t *testing.T, nodes [2]*Transport, owners [2]*owner, doors [2]*ExpressDoor, c express.Caller) (f *os.File, id uint64) {
	t.Helper()
	if err := doors[0].Dial(c); err != nil {
		t.Fatal(err)
	}
	d := awaitOf(t, nodes, owners[0].dialed)
	if d.err != nil || d.c != c || d.last != 77 {
		t.Fatalf("dialed %+v, want a socket of %+v with last 77", d, c)
	}
	f = os.NewFile(uintptr(d.fd), "express")
	t.Cleanup(func() { _ = f.Close() })
	if got := awaitOf(t, nodes, owners[1].callers); got != (express.Caller{Node: 0, Local: c.Local, Incarnation: c.Incarnation}) {
		t.Errorf("the listener admits %+v", got)
	}
	return f, awaitOf(t, nodes, owners[1].ids)
}

// An express socket is opened, and requests on it get their replies, also if they come in pieces. What ends it ends it alone.
func TestExpressSocket(t *testing.T) {
	nodes, owners, doors := expressPair(t, [2]Secret{{1}, {1}})
	c := express.Caller{Node: 1, Local: 1023, Incarnation: 9}
	f, id := openExpress(t, nodes, owners, doors, c)
	second, other := openExpress(t, nodes, owners, doors, express.Caller{Node: 1, Local: 3, Incarnation: 9})
	peer := poll(t, nodes[1])
	room := make([]byte, 64)
	for _, pieces := range [][]string{{"get."}, {"fe", "tc", "h."}} {
		for _, p := range pieces {
			if _, err := f.WriteString(p); err != nil {
				t.Fatal(err)
			}
		}
		want := strings.Join(pieces, "")
		want += want
		if n, err := io.ReadFull(f, room[:len(want)]); err != nil || string(room[:n]) != want {
			t.Errorf("the reply is %q, %v, want %q", room[:n], err, want)
		}
	}
	if _, err := f.WriteString("!"); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Read(room); n != 0 || err == nil {
		t.Errorf("after nonsense: %q, %v, want the end", room[:n], err)
	}
	if got := <-owners[1].closed; got != id {
		t.Errorf("socket %d is closed, want %d", got, id)
	}
	if _, err := second.WriteString(strings.Repeat("x", express.MaxRequest)); err != nil {
		t.Fatal(err)
	}
	if got := <-owners[1].closed; got != other {
		t.Errorf("after too long a request: socket %d is closed, want %d", got, other)
	}
	peer.end()
	third, last := openExpress(t, nodes, owners, doors, c)
	doors[1].Close(last)
	if n, err := third.Read(room); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after Close: %q, %v, want the end", room[:n], err)
	}
}

// Who is refused learns why: by the owner's word, for want of an owner, and for another key. A node that is not known cannot be
// dialed.
func TestExpressRefusals(t *testing.T) {
	for name, x := range map[string]struct {
		secret Secret
		change func(*Transport, *owner)
		want   string
	}{
		"full":     {Secret{1}, func(_ *Transport, o *owner) { o.verdict = express.Full }, "the listener takes no more express sockets"},
		"gone":     {Secret{1}, func(_ *Transport, o *owner) { o.verdict = express.Gone }, "the listener knows the PE to be dead"},
		"no owner": {Secret{1}, func(tr *Transport, _ *owner) { tr.express = nil }, "the listener takes no more express sockets"},
		"stranger": {Secret{2}, func(*Transport, *owner) {}, "another key"},
	} {
		nodes, owners, doors := expressPair(t, [2]Secret{{1}, x.secret})
		x.change(nodes[1], owners[1])
		if err := doors[0].Dial(express.Caller{Node: 1, Local: 0, Incarnation: 1}); err != nil {
			t.Fatal(err)
		}
		if d := awaitOf(t, nodes, owners[0].dialed); d.err == nil || !strings.Contains(d.err.Error(), x.want) || d.fd >= 0 {
			t.Errorf("%s: %+v, want an error with %q", name, d, x.want)
		}
		if n, _ := nodes[1].Strangers(); n != 1 || len(owners[1].callers) > 0 {
			t.Errorf("%s: %d strangers, and %d sockets", name, n, len(owners[1].callers))
		}
		for _, node := range []int{-1, 0, 2} {
			if err := doors[0].Dial(express.Caller{Node: node, Incarnation: 1}); err == nil {
				t.Errorf("node %d is dialed", node)
			}
		}
	}
}

// A node's next incarnation ends the sockets of the one before.
func TestExpressIncarnation(t *testing.T) {
	nodes, owners, doors := expressPair(t, [2]Secret{{1}, {1}})
	f, id := openExpress(t, nodes, owners, doors, express.Caller{Node: 1, Local: 0, Incarnation: 1})
	if err := nodes[1].SetPeer(0, 2, nil); err != nil {
		t.Fatal(err)
	}
	if got := awaitOf(t, nodes, owners[1].closed); got != id {
		t.Errorf("socket %d is closed, want %d", got, id)
	}
	if n, err := f.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v, want the end", n, err)
	}
	if err := doors[0].Dial(express.Caller{Node: 1, Local: 0, Incarnation: 1}); err != nil {
		t.Fatal(err)
	}
	if err := nodes[0].SetPeer(1, 2, nodes[1].Addrs()); err != nil { // during the handshake
		t.Fatal(err)
	}
	if d := awaitOf(t, nodes, owners[0].dialed); !errors.Is(d.err, errOtherIncarnation) {
		t.Errorf("%+v, want the error %v", d, errOtherIncarnation)
	}
}
