package fence

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// recorder is a server that writes down what it is told.
type recorder struct {
	lines   []string
	replies []func(codec.Status, []byte)
}

func (r *recorder) add(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *recorder) FenceCalled(c server.FenceCall)  { r.add("called %v %v", c.ID, c.Procs) }
func (r *recorder) FenceExpired(c server.FenceCall) { r.add("expired %v %v", c.ID, c.Procs) }
func (r *recorder) FenceDone(id server.FenceID, status codec.Status, data []byte) {
	r.add("done %v %v %s", id, status, data)
}

func (r *recorder) Fetched(p codec.Proc, key string, status codec.Status, packed []byte) {
	r.add("fetched %v %s %v %s", p, key, status, packed)
}

func (r *recorder) Serve(p codec.Proc, key string, reply func(codec.Status, []byte)) {
	r.add("serve %v %s", p, key)
	r.replies = append(r.replies, reply)
}

func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.lines, want) {
		t.Errorf("the server is told\n\t%s\nwant\n\t%s", strings.Join(r.lines, "\n\t"), strings.Join(want, "\n\t"))
	}
	r.lines = nil
}

// testDriver is a driver that has sent frames, by node.
type testDriver struct {
	*Driver
	recorder
	sent   map[int][]wire.Frame
	faults []string
}

func newTestDriver(t *testing.T, me, nodes int) *testDriver {
	t.Helper()
	d := &testDriver{sent: map[int][]wire.Frame{}}
	var err error
	d.Driver, err = New(Config{
		Layout: testLayout(me, nodes),
		Send:   func(node int, f wire.Frame) { d.sent[node] = append(d.sent[node], f) },
		Fault:  func(err error) { d.faults = append(d.faults, err.Error()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// deliver gives another driver what this one has sent to it.
func (d *testDriver) deliver(to *testDriver) {
	frames := d.sent[to.cfg.Me]
	d.sent[to.cfg.Me] = nil
	for _, f := range frames {
		to.Take(d.cfg.Me, f)
	}
}

func procOn(node int) codec.Proc { return codec.Proc{Nspace: testSpace, Rank: codec.Rank(node)} }

// What comes before the driver has its server follows when it has, in order.
func TestCallsBeforeStart(t *testing.T) {
	a, b := newTestDriver(t, 0, 2), newTestDriver(t, 1, 2)
	a.Start(&a.recorder)
	a.Expire((&scenario{n: 2}).call(1))
	a.Fetch(procOn(1), "k")
	a.deliver(b)
	b.expect(t)
	b.Start(&b.recorder)
	b.expect(t, "expired job-1:*#1 [job-1.0 job-1.1]", "serve job-1.1 k")
	b.replies[0](codec.StatusSuccess, []byte("v"))
	b.deliver(a)
	a.expect(t, "fetched job-1.1 k PMIX_SUCCESS v")
}

// A request ends by its answer or by the death of the node that has it, once.
func TestFetchesEndOnce(t *testing.T) {
	a, b := newTestDriver(t, 0, 3), newTestDriver(t, 1, 3)
	a.Start(&a.recorder)
	b.Start(&b.recorder)
	for _, key := range []string{"k", "l", "m"} {
		a.Fetch(procOn(1), key)
	}
	a.Fetch(procOn(2), "k")
	a.Fetch(procOn(3), "nobody")
	a.Fetch(procOn(0), "own")
	a.Fetch(procOn(1), strings.Repeat("k", maxKey))
	a.expect(t, "fetched job-1.3 nobody PMIX_ERR_NOT_FOUND ", "fetched job-1.0 own PMIX_ERR_NOT_FOUND ",
		"fetched job-1.1 "+strings.Repeat("k", maxKey)+" PMIX_ERR_BAD_PARAM ")
	a.deliver(b)
	b.replies[1](codec.StatusErrNotFound, nil)
	b.deliver(a)
	a.expect(t, "fetched job-1.1 l PMIX_ERR_NOT_FOUND ")
	b.replies[0](codec.StatusSuccess, []byte("late"))
	a.NodeDead(1)
	a.expect(t, "fetched job-1.1 k PMIX_ERR_PROC_TERM_WO_SYNC ", "fetched job-1.1 m PMIX_ERR_PROC_TERM_WO_SYNC ")
	a.NodeDead(1)
	b.deliver(a)
	a.Fetch(procOn(1), "n")
	a.expect(t, "fetched job-1.1 n PMIX_ERR_PROC_TERM_WO_SYNC ")
	if len(a.sent[1]) != 0 {
		t.Errorf("%d frames go to a dead node, want none", len(a.sent[1]))
	}
	b.NodeDead(0)
	b.replies[2](codec.StatusSuccess, nil) // to a dead node
	if len(b.sent[0]) != 0 || len(a.faults)+len(b.faults) != 0 {
		t.Errorf("%d frames go to a dead node, faults %q, %q, want none", len(b.sent[0]), a.faults, b.faults)
	}
}

// Frames that break the protocol are reported, and change nothing.
func TestFramesThatNobodySends(t *testing.T) {
	d := newTestDriver(t, 0, 3)
	d.Start(&d.recorder)
	d.Fetch(procOn(1), "k")
	answer := &fetchAnswer{number: 1, data: []byte("v")}
	for _, c := range []struct {
		node int
		kind wire.Kind
		body []byte
		want string
	}{
		{3, wire.KindFence, nil, "from node 3, want a node from 0 to 2 other than 0"},
		{0, wire.KindFence, nil, "from node 0, want a node from 0 to 2 other than 0"},
		{1, wire.KindFence, nil, "piece of a message has 0 bytes"},
		{1, wire.KindFence, wire.Split(nil)[0], "message about a fence: too short"},
		{1, wire.KindFetch, wire.Split(nil)[0], "request for the data of a process: too short"},
		{1, wire.KindFetched, wire.Split(nil)[0], "answer to a request for data: too short"},
		{2, wire.KindFetched, wire.Split(answer.append(nil))[0], "answer to request 1, which node 2 has not got"},
		{1, wire.KindHello, nil, ""},
	} {
		d.faults = nil
		d.Take(c.node, wire.Frame{Kind: c.kind, Body: c.body})
		if c.want == "" && len(d.faults) == 0 {
			continue
		}
		if len(d.faults) != 1 || !strings.Contains(d.faults[0], c.want) {
			t.Errorf("frame of kind %#x from node %d: faults %q, want one with %q", c.kind, c.node, d.faults, c.want)
		}
	}
	d.expect(t)
	d.Take(1, wire.Frame{Kind: wire.KindFetched, Body: wire.Split(answer.append(nil))[0]})
	d.expect(t, "fetched job-1.1 k PMIX_SUCCESS v")
}

// A message of which a dead node has sent the first piece only is dropped.
func TestDeathBetweenPieces(t *testing.T) {
	d := newTestDriver(t, 0, 3)
	d.Start(&d.recorder)
	bodies := wire.Split((&fetchAnswer{number: 1, data: make([]byte, 2*wire.MaxBody)}).append(nil))
	d.Take(1, wire.Frame{Kind: wire.KindFetched, Body: bodies[0]})
	if len(d.arriving) != 1 {
		t.Errorf("%d messages are arriving, want 1", len(d.arriving))
	}
	d.NodeDead(1)
	d.Take(1, wire.Frame{Kind: wire.KindFetched, Body: bodies[1]})
	if len(d.arriving) != 0 || len(d.faults) != 0 {
		t.Errorf("%d messages are arriving, faults %q, want none", len(d.arriving), d.faults)
	}
}
