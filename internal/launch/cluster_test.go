package launch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// A cluster is a node of all its PEs.
var _ Node = (*Cluster)(nil)

// pair returns a cluster of two nodes: PEs 0 and 2 are on the first, 1 and 3 on the second.
func pair(t *testing.T) (c *Cluster, a, b *fake) {
	t.Helper()
	a, b = newFake(0, 4), newFake(0, 4)
	c = NewCluster([]Node{a, b}, []int{0, 1, 0, 1})
	t.Cleanup(func() {
		if c.over != nil {
			_ = c.Close() // TestClusterJoins checks what it returns
		}
	})
	return c, a, b
}

// Calls that concern all PEs go to all nodes.
func TestClusterReachesAll(t *testing.T) {
	c, a, b := pair(t)
	if err := c.Launch(); err != nil {
		t.Error(err)
	}
	c.Signal(syscall.SIGTERM)
	c.Suspend()
	c.Resize(xunix.Window{Rows: 24, Columns: 80})
	c.Refuse(false)
	c.Feed(daemon.Chunk{To: daemon.AllReaders, Data: []byte("text")})
	want := []string{"launch", "signal 15", "suspend", "resize 24, 80", "refuse", `feed -1: "text", false`}
	for _, n := range []*fake{a, b} {
		if got := n.noted(); !slices.Equal(got, want) {
			t.Errorf("calls %v, want %v", got, want)
		}
	}
	for _, x := range []struct{ first, second, want bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
		a.stopped, b.stopped = x.first, x.second
		if c.Stopped() != x.want {
			t.Errorf("nodes stopped: %t, %t; the cluster says %t", x.first, x.second, !x.want)
		}
	}
}

// elsewhere is a node that is told when this process is about to be stopped.
type elsewhere struct {
	*fake
	err error // what Hold returns
}

func (e elsewhere) Hold() error {
	e.note("hold")
	return e.err
}

func (e elsewhere) Go() { e.note("go") }

// Nodes elsewhere are told when this process is about to be stopped, and when it goes on. Others need not know.
func TestClusterHolds(t *testing.T) {
	none := errors.New("no answer")
	a, b, c := newFake(0, 1), newFake(1, 1), newFake(2, 1)
	cluster := NewCluster([]Node{elsewhere{a, nil}, elsewhere{b, none}, c}, []int{0, 1, 2})
	defer cluster.Close()
	if err := cluster.Hold(); err == nil || err.Error() != none.Error() {
		t.Errorf("got %v, want %v", err, none)
	}
	cluster.Go()
	for i, want := range [][]string{{"hold", "go"}, {"hold", "go"}, nil} {
		if got := []*fake{a, b, c}[i].noted(); !slices.Equal(got, want) {
			t.Errorf("node %d: calls %v, want %v", i, got, want)
		}
	}
}

// Calls that concern one PE go to its node, and to no other.
func TestClusterAsksTheNodeOfThePE(t *testing.T) {
	c, a, b := pair(t)
	b.forsaken, b.atWork, b.isGo = true, true, true
	for pe, on := range []*fake{a, b, a, b} {
		id := daemon.ID{PE: pe}
		if is := c.Forsake(id); is != on.forsaken || c.IsAtWork(id) != on.atWork || c.HasGo(id) != on.isGo {
			t.Errorf("PE %d: forsaken: %t, want the answer of its own node", pe, is)
		}
		c.QuitGo(id, 0)
		c.Feed(daemon.Chunk{To: pe, End: true})
	}
	for _, x := range []struct {
		n    *fake
		want []string
	}{
		{a, []string{"forsake 0", "quit 0", `feed 0: "", true`, "forsake 2", "quit 2", `feed 2: "", true`}},
		{b, []string{"forsake 1", "quit 1", `feed 1: "", true`, "forsake 3", "quit 3", `feed 3: "", true`}},
	} {
		if got := x.n.noted(); !slices.Equal(got, x.want) {
			t.Errorf("calls %v, want %v", got, x.want)
		}
	}
	if pid := c.PID(daemon.ID{PE: 4}); pid != 0 {
		t.Errorf("PE 4, which does not exist, has process %d", pid)
	}
}

// The cluster passes on the events of all nodes, those of one node in order.
func TestClusterMergesEvents(t *testing.T) {
	c, a, b := pair(t)
	const each = 20
	for i := range each {
		a.events <- daemon.Event{ID: daemon.ID{PE: 0}, Status: i}
		b.events <- daemon.Event{ID: daemon.ID{PE: 1}, Status: i}
	}
	var next [2]int
	for range 2 * each {
		e := <-c.Events()
		if e.Status != next[e.PE] {
			t.Errorf("event %d of PE %d arrives as number %d", e.Status, e.PE, next[e.PE])
		}
		next[e.PE]++
	}
	c.place(1, []int{0, 1})
	c.Forsake(daemon.ID{Job: 1, PE: 1})
	if got, want := b.noted(), []string{"forsake 1.1"}; !slices.Equal(got, want) || len(a.noted()) > 0 {
		t.Errorf("calls %v and %v, want %v on the second node", a.noted(), got, want)
	}
	a.events <- daemon.Event{} // no one receives it, and Close does not wait for that
}

// The cluster joins answers, tiers and errors of its nodes in the order of the nodes.
func TestClusterJoins(t *testing.T) {
	c, a, b := pair(t)
	a.answers = []daemon.Answer{{ID: daemon.ID{PE: 0}}, {ID: daemon.ID{PE: 2}}}
	b.answers = []daemon.Answer{{ID: daemon.ID{PE: 1}}}
	var pes []int
	for _, answer := range c.Ask(wire.OrderCalls, callsAtMost) {
		pes = append(pes, answer.PE)
	}
	if !slices.Equal(pes, []int{0, 2, 1}) {
		t.Errorf("answers of PEs %v, want 0, 2, 1", pes)
	}
	if tier := c.Tier(); tier != "fake" {
		t.Errorf("tier %q, want the one that both have", tier)
	}
	if b.tier = "other"; c.Tier() != "fake, other" {
		t.Errorf("tier %q, want both", c.Tier())
	}
	b.uri = "tcp://other"
	if uri := c.ToolURI(); uri != a.uri {
		t.Errorf("URI %q, want that of the first node, %q", uri, a.uri)
	}
	first, second := errors.New("first"), errors.New("second")
	a.launched, b.launched, b.closed = first, second, second
	if err := c.Launch(); !errors.Is(err, first) || !errors.Is(err, second) {
		t.Errorf("launch: %v, want both errors", err)
	}
	if err := c.Close(); !errors.Is(err, second) || errors.Is(err, first) {
		t.Errorf("close: %v, want that of the second node", err)
	}
	c.over = nil // closed already
}

// slowStarter starts nodes until its context ends.
type slowStarter struct{ fakeStarter }

// Start waits for the end of the context.
func (slowStarter) Start(ctx context.Context, _ Span, _ daemon.Config, _ func(node int) daemon.Hooks) ([]Node, error) {
	<-ctx.Done()
	return nil, errors.New("not started")
}

// A signal that asks for the end of a job ends the start of its nodes.
func TestInterruptedStart(t *testing.T) {
	for _, x := range []struct {
		sig    syscall.Signal
		status int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		p := newPlay(t, 2, func(o *Options) {
			o.Layout = &plan.Layout{Nodes: []plan.Node{{Host: plan.Host{Name: "a"}, PEs: []int{0}}, {Host: plan.Host{Name: "b"}, PEs: []int{1}}}, Homes: []int{0, 1}}
		})
		p.signals <- xunix.SIGWINCH // means nothing yet
		p.signals <- x.sig
		status, err := p.o.run(t.Context(), slowStarter{})
		if said := p.errs.String(); status != x.status || err != nil || !strings.Contains(said, "ends the job while its nodes are started") {
			t.Errorf("%v: status %d, %v, %q, want %d and a message", x.sig, status, err, said, x.status)
		}
	}
}
