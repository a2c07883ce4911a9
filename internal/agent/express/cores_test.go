package express

import (
	"testing"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// counting counts what it executes.
type counting struct{ n uint64 }

func (c *counting) Execute(*record.Record) Answer {
	c.n++
	return Answer{Status: record.StatusOK, Value: c.n}
}

func fetchOf(c Caller, number uint64) *Request {
	q := &Request{}
	if ok, err := q.Parse(AppendFetch(nil, c, number, 0, layout.HeapOffset, record.CodeOf(record.AtomicAdd, 8), 1, 0)); !ok || err != nil {
		panic(err)
	}
	return q
}

// At its limit a server refuses, and closes none. A PE that has a socket may have a new one in its place.
func TestServerRefuses(t *testing.T) {
	s := NewServer(2, 2)
	a, b, c := Caller{1, 0, 1}, Caller{1, 1, 1}, Caller{1, 2, 1}
	for i, who := range []Caller{a, b} {
		if _, old, v := s.Admit(who, uint64(i+1)); v != Admitted || old != 0 {
			t.Fatalf("socket %d: old %d, verdict %d", i, old, v)
		}
	}
	if _, old, v := s.Admit(c, 3); v != Full || old != 0 {
		t.Errorf("a third PE: old %d, verdict %d, want %d", old, v, Full)
	}
	if _, old, v := s.Admit(a, 4); v != Admitted || old != 1 {
		t.Errorf("a new socket: old %d, verdict %d, want old 1", old, v)
	}
	s.Closed(a, 1) // late news
	if _, _, v := s.Admit(c, 5); v != Full {
		t.Errorf("after late news: verdict %d, want %d", v, Full)
	}
	s.Closed(b, 2)
	if _, _, v := s.Admit(c, 6); v != Admitted {
		t.Errorf("after one was closed: verdict %d", v)
	}
}

// A rising incarnation begins with fresh numbers and a fresh answer. Nothing of the one before is admitted or executed.
func TestIncarnations(t *testing.T) {
	s := NewServer(2, 10)
	x := &counting{}
	first, second := Caller{1, 3, 1}, Caller{1, 3, 2}
	s.Admit(first, 1)
	for i := range uint64(5) {
		if a, err := s.Request(first, 1, fetchOf(first, i+1), x); err != nil || a.Value != i+1 {
			t.Fatalf("request %d: %v, %v", i, a, err)
		}
	}
	if last, old, v := s.Admit(second, 2); last != 0 || old != 1 || v != Admitted {
		t.Errorf("the next incarnation: last %d, old %d, verdict %d", last, old, v)
	}
	if _, err := s.Request(first, 1, fetchOf(first, 6), x); err == nil {
		t.Error("a request of the incarnation before is executed")
	}
	if _, _, v := s.Admit(first, 3); v != Gone {
		t.Errorf("the incarnation before: verdict %d, want %d", v, Gone)
	}
	if a, err := s.Request(second, 2, fetchOf(second, 1), x); err != nil || a.Value != 6 {
		t.Errorf("request 1 of the next incarnation: %v, %v", a, err)
	}
	if socket := s.DropPE(second); socket != 2 {
		t.Errorf("the death closes socket %d, want 2", socket)
	}
	if _, err := s.Request(second, 2, fetchOf(second, 2), x); err == nil {
		t.Error("a request of a dead PE is executed")
	}
	if _, _, v := s.Admit(second, 4); v != Gone {
		t.Errorf("a dead PE: verdict %d, want %d", v, Gone)
	}
	r := recordOf(0, 9)
	if a := s.Repeat(second, &r, x); a.Status == record.StatusOK {
		t.Error("a repeat of a dead PE is executed")
	}
	other := Caller{1, 9, 1}
	s.Admit(other, 5)
	if sockets := s.DropNode(1); len(sockets) != 1 || sockets[0] != 5 {
		t.Errorf("the loss of the node closes %v, want 5", sockets)
	}
	if _, _, v := s.Admit(other, 6); v != Gone {
		t.Errorf("a PE of a lost node: verdict %d, want %d", v, Gone)
	}
	if x.n != 6 {
		t.Errorf("%d executed, want 6", x.n)
	}
}

// A request on the socket of another PE is refused, and an earlier number is.
func TestServerChecksRequests(t *testing.T) {
	s := NewServer(2, 10)
	x := &counting{}
	a, b := Caller{1, 0, 1}, Caller{1, 1, 1}
	s.Admit(a, 1)
	s.Admit(b, 2)
	if _, err := s.Request(a, 1, fetchOf(b, 1), x); err == nil {
		t.Error("a request that names another PE is executed")
	}
	for _, number := range []uint64{7, 7} {
		if got, err := s.Request(a, 1, fetchOf(a, number), x); err != nil || got.Value != 1 {
			t.Errorf("number %d: %v, %v", number, got, err)
		}
	}
	if _, err := s.Request(a, 1, fetchOf(a, 6), x); err == nil {
		t.Error("an earlier number is executed")
	}
}

// trips makes round trips until the client asks for a socket, and returns their number.
func trips(c *Client, node int) int {
	for n := 1; ; n++ {
		if c.Trip(node) {
			return n
		}
		if n > 2*MostTrips {
			return -1
		}
	}
}

// A client asks after FirstTrips round trips, has MostSockets, and then gives up the one that was used longest ago, but none
// that is busy.
func TestClientSockets(t *testing.T) {
	c := NewClient(MostSockets + 3)
	for node := range MostSockets {
		if n := trips(c, node); n != FirstTrips {
			t.Fatalf("node %d: asked after %d trips, want %d", node, n, FirstTrips)
		}
		if c.Trip(node + 1) {
			t.Fatal("two sockets are asked for at a time")
		}
		if keep, evict := c.Given(node, 10); !keep || evict >= 0 {
			t.Fatalf("node %d: keep %v, evict %d", node, keep, evict)
		}
	}
	if n, ok := c.Begin(1); !ok || n != 11 {
		t.Errorf("the first request has number %d, %v, want 11", n, ok)
	}
	if _, ok := c.Begin(1); ok {
		t.Error("a busy socket takes a request")
	}
	if n, ok := c.Begin(0); !ok || n != 11 {
		t.Errorf("request %d, %v", n, ok)
	}
	c.End(0)
	trips(c, MostSockets)
	if keep, evict := c.Given(MostSockets, 0); !keep || evict != 2 {
		t.Errorf("one more: keep %v, evict %d, want 2: 0 was used, 1 is busy", keep, evict)
	}
	if c.IsOpen(2) || !c.IsOpen(MostSockets) {
		t.Error("the socket of node 2 is still open, or the new one is not")
	}
	if n := trips(c, 2); n != 2*FirstTrips {
		t.Errorf("the node that had to make room asks after %d trips, want %d", n, 2*FirstTrips)
	}
	c.Refused()
	if n := trips(c, 2); n != 4*FirstTrips {
		t.Errorf("after a refusal it asks after %d trips, want %d", n, 4*FirstTrips)
	}
	if keep, _ := c.Given(5, 0); keep {
		t.Error("a socket that was not asked for is kept")
	}
	c.End(1)
	c.Lost(1)
	for node := 3; node <= MostSockets; node++ {
		if _, ok := c.Begin(node); !ok {
			t.Errorf("node %d has no free socket", node)
		}
	}
	if _, ok := c.Begin(0); !ok {
		t.Error("node 0 has no free socket")
	}
	if keep, _ := c.Given(2, 0); !keep { // takes the place of node 1
		t.Error("there is no room after a loss")
	}
	c.Begin(2)
	trips(c, MostSockets+1)
	if keep, evict := c.Given(MostSockets+1, 0); keep || evict >= 0 {
		t.Errorf("while all are busy: keep %v, evict %d", keep, evict)
	}
}
