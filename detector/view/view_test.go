package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/detector/ring"
)

const (
	ms     = int64(1e6)
	window = 10 * ms
	grace  = 5000 * ms
)

func (a Action) text() string {
	switch a.Kind {
	case Probe:
		return fmt.Sprintf("probe %d", a.Node)
	case Fence:
		return fmt.Sprintf("fence %d", a.Node)
	case Lose:
		return fmt.Sprintf("lose %d in %d: %s", a.Node, a.Number, a.Why)
	}
	return "end: " + a.Why
}

// line is an event and the actions that it is to cause, separated by " | ".
type line struct {
	ev   Event
	want string
}

func accuse(now int64, by, node Node) Event {
	return Event{Kind: Accuse, Now: now, By: by, Node: node, Inc: 1}
}

func prove(now int64, node Node, why ring.Reason) Event {
	return Event{Kind: Accuse, Now: now, Node: node, Inc: 1, Proven: true, Reason: why}
}

func probed(now int64, node Node, r Result) Event {
	return Event{Kind: Probed, Now: now, Node: node, Result: r}
}

func event(now int64, k EventKind, node Node) Event { return Event{Kind: k, Now: now, Node: node} }

func tick(now int64) Event { return event(now, Tick, 0) }

// isolated are the events of n nodes of which some are silent: the first is accused by its successor.
func isolated(n int, silent ...Node) []line {
	others := func(gone Node) string {
		var list []string
		for p := range Node(n) {
			if p != gone {
				list = append(list, fmt.Sprintf("probe %d", p))
			}
		}
		return strings.Join(list, " | ")
	}
	first := silent[0]
	lines := []line{
		{accuse(0, (first+1)%Node(n), first), fmt.Sprintf("probe %d", first)},
		{probed(ms, first, Silent), others(first)},
	}
	for p := range Node(n) {
		r := Answered
		for _, q := range silent {
			if p == q {
				r = Silent
			}
		}
		if p != first {
			lines = append(lines, line{probed(2*ms, p, r), ""})
		}
	}
	return append(lines, line{event(10*ms, Tick, 0), ""})
}

const (
	noAnswer   = "it does not answer the front end"
	askedByOne = "it does not answer (asked by 1 node and the front end)"
	endedWhy   = "the kernel of its machine says that its daemon has ended"
)

func goesWith(p string) string {
	return "the network between it and " + p + " is broken: it is the one that goes"
}

// TestRules holds each rule against a run by hand.
func TestRules(t *testing.T) {
	t.Parallel()
	runAll(t, []script{
		{"proven at once", Config{Nodes: 3}, []line{
			{prove(0, 1, ring.DaemonDead), "lose 1 in 2: " + endedWhy},
			{prove(0, 1, ring.DaemonDead), ""},
			{prove(1, 2, ring.DaemonHung), "lose 2 in 3: the kernel of its machine answers, but its daemon hangs"},
			{prove(2, 0, ring.Restarted), "lose 0 in 4: a later daemon answers in its place | end: no node is left: of the last one, a later daemon answers in its place"},
			{accuse(3, 1, 0), ""},
		}},
		{"proven by the lost", Config{Nodes: 3}, []line{
			{prove(0, 1, 0), "lose 1 in 2: " + endedWhy},
			{Event{Kind: Accuse, By: 1, Node: 2, Inc: 1, Proven: true}, "lose 2 in 3: " + endedWhy},
		}},
		{"another incarnation", Config{Nodes: 3, Incs: []uint32{1, 4, 1}}, []line{
			{accuse(0, 0, 1), ""},
			{prove(0, 1, 0), ""},
			{Event{Kind: Accuse, By: 0, Node: 1, Inc: 5}, ""},
			{Event{Kind: Accuse, By: 0, Node: 1, Inc: 4}, "probe 1"},
		}},
		{"no such node", Config{Nodes: 2}, []line{
			{accuse(0, 0, 2), ""},
			{accuse(0, 0, -1), ""},
			{event(0, LinkLost, 7), ""},
			{accuse(0, 1, 1), ""},
			{accuse(0, 9, 1), "probe 1"},
			{probed(ms, 1, Answered), ""},
			{tick(grace), ""},
		}},
		{"one of two", Config{Nodes: 2}, append(isolated(2, 1), line{tick(11 * ms), "lose 1 in 2: " + askedByOne})},
		{"two of two", Config{Nodes: 2}, append(isolated(2, 1, 0), line{
			tick(12 * ms), "end: node0 and node1 do not answer; the front end and 0 other nodes are 1 of 3 votes, which is no majority",
		})},
		{"the last", Config{Nodes: 1}, []line{
			{event(0, LinkLost, 0), "probe 0"},
			{probed(ms, 0, Silent), ""},
			{tick(11 * ms), "end: node0 does not answer; the front end and 0 other nodes are 1 of 2 votes, which is no majority"},
		}},
		{"one of three", Config{Nodes: 3}, append(isolated(3, 1), line{tick(12 * ms), "lose 1 in 2: " + askedByOne})},
		{"two of three are half", Config{Nodes: 3}, append(isolated(3, 1, 2), line{
			tick(11 * ms), "end: node1 and node2 do not answer; the front end and 1 other node are 2 of 4 votes, which is no majority",
		})},
		{"two of four in one view", Config{Nodes: 4}, append(isolated(4, 3, 1), line{
			tick(12 * ms), "lose 1 in 2: " + noAnswer + " | lose 3 in 2: " + askedByOne,
		})},
		{"many", Config{Nodes: 7, Name: func(p Node) string { return fmt.Sprintf("host%d", p) }}, append(isolated(7, 0, 1, 2, 3, 5), line{
			tick(12 * ms), "end: host0, host1, host2, host3 and 1 more do not answer; the front end and 2 other nodes are 3 of 8 votes, which is no majority",
		})},
		{"continue", Config{Nodes: 3, Continue: true}, append(isolated(3, 1, 2), line{
			tick(12 * ms), "lose 1 in 2: " + askedByOne + " | lose 2 in 2: " + noAnswer,
		})},
		{"continue without nodes", Config{Nodes: 2, Continue: true}, append(isolated(2, 1, 0), line{
			tick(12 * ms), "lose 0 in 2: " + noAnswer + " | lose 1 in 2: " + askedByOne + " | end: no node is left: of the last one, " + askedByOne,
		})},
		{"the proven cost no vote", Config{Nodes: 4}, []line{
			{prove(0, 0, 0), "lose 0 in 2: " + endedWhy},
			{prove(0, 1, 0), "lose 1 in 3: " + endedWhy},
			{accuse(ms, 2, 3), "probe 3"},
			{probed(2*ms, 3, Silent), "probe 2"},
			{probed(3*ms, 2, Answered), ""},
			{tick(12 * ms), "lose 3 in 4: " + askedByOne},
		}},
		{"dead by the probe", Config{Nodes: 3}, []line{
			{accuse(0, 0, 1), "probe 1"},
			{probed(ms, 1, DaemonDead), "lose 1 in 2: " + endedWhy},
			{probed(ms, 1, Silent), ""},
			{tick(grace), ""},
		}},
	})
}

// script is what happens to a core, and what it wants.
type script struct {
	name  string
	cfg   Config
	lines []line
}

// runAll runs scripts.
func runAll(t *testing.T, scripts []script) {
	t.Helper()
	for _, c := range scripts {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run(t, c.cfg, c.lines)
		})
	}
}

// The end of a node that is being fenced may be noticed before it is confirmed. The fence is the cause.
func TestNoticeOfFence(t *testing.T) {
	t.Parallel()
	runAll(t, []script{
		{"by another node", Config{Nodes: 3}, []line{
			{accuse(0, 2, 0), "probe 0"},
			{probed(ms, 0, Answered), "probe 2"},
			{probed(2*ms, 2, Answered), ""},
			{tick(11*ms - 1), ""},
			{tick(11 * ms), "fence 0"},
			{prove(12*ms, 0, ring.DaemonDead), "lose 0 in 2: " + goesWith("node2")},
			{event(13*ms, Fenced, 0), ""},
		}},
		{"by a probe", Config{Nodes: 3}, []line{
			{accuse(0, 2, 0), "probe 0"},
			{probed(ms, 0, Answered), "probe 2"},
			{probed(2*ms, 2, Answered), ""},
			{tick(11*ms - 1), ""},
			{tick(11 * ms), "fence 0"},
			{probed(12*ms, 0, DaemonDead), "lose 0 in 2: " + goesWith("node2")},
			{event(13*ms, Fenced, 0), ""},
		}},
	})
}

// TestBrokenLinks: who goes of two nodes that answer the front end and not each other.
func TestBrokenLinks(t *testing.T) {
	t.Parallel()
	runAll(t, []script{
		{"the accused", Config{Nodes: 3}, []line{
			{accuse(0, 2, 0), "probe 0"},
			{probed(ms, 0, Answered), "probe 2"},
			{probed(2*ms, 2, Answered), ""},
			{tick(11*ms - 1), ""},
			{tick(11 * ms), "fence 0"},
			{event(12*ms, Fenced, 0), "lose 0 in 2: " + goesWith("node2")},
			{tick(grace), ""},
		}},
		{"both: the higher index", Config{Nodes: 3}, []line{
			{accuse(0, 2, 0), "probe 0"},
			{accuse(0, 0, 2), "probe 2"},
			{probed(ms, 0, Answered), ""},
			{probed(ms, 2, Answered), "probe 2"},
			{probed(ms, 2, Answered), "probe 0"},
			{probed(ms, 0, Answered), ""},
			{tick(11 * ms), "fence 2"},
		}},
		{"cut off from all but the front end", Config{Nodes: 4}, []line{
			{accuse(0, 0, 1), "probe 1"},
			{accuse(0, 0, 2), "probe 2"},
			{accuse(0, 0, 3), "probe 3"},
			{accuse(0, 1, 0), "probe 0"},
			{probed(ms, 0, Answered), ""},
			{probed(ms, 1, Answered), "probe 1"},
			{probed(ms, 1, Answered), "probe 0"},
			{probed(ms, 2, Answered), ""},
			{probed(ms, 3, Answered), ""},
			{probed(ms, 0, Answered), "probe 0"},
			{probed(ms, 0, Answered), ""},
			{tick(11 * ms), "fence 0"},
			{event(12*ms, Fenced, 0), "lose 0 in 2: " + goesWith("3 nodes")},
			{tick(grace), ""},
		}},
		{"the accuser has ended", Config{Nodes: 3}, []line{
			{accuse(0, 2, 0), "probe 0"},
			{probed(ms, 0, Answered), "probe 2"},
			{probed(2*ms, 2, DaemonDead), "lose 2 in 2: " + endedWhy},
			{tick(grace), ""},
		}},
		{"the accuser is silent", Config{Nodes: 3}, []line{
			{accuse(0, 2, 0), "probe 0"},
			{probed(ms, 0, Answered), "probe 2"},
			{probed(2*ms, 2, Silent), "probe 0 | probe 1"},
			{probed(3*ms, 1, Answered), ""},
			{probed(3*ms, 0, Answered), ""},
			{tick(12 * ms), "lose 2 in 2: " + noAnswer},
			{tick(grace), ""},
		}},
		{"two links apart from each other", Config{Nodes: 5}, []line{
			{accuse(0, 4, 0), "probe 0"},
			{accuse(0, 1, 3), "probe 3"},
			{probed(ms, 0, Answered), "probe 4"},
			{probed(ms, 3, Answered), "probe 1"},
			{probed(ms, 4, Answered), ""},
			{probed(ms, 1, Answered), ""},
			{tick(11 * ms), "fence 3 | fence 0"},
			{event(12*ms, Fenced, 0), "lose 0 in 2: " + goesWith("node4")},
			{event(12*ms, Fenced, 3), "lose 3 in 3: " + goesWith("node1")},
		}},
		{"no confirmation", Config{Nodes: 3}, []line{
			{accuse(0, 2, 0), "probe 0"},
			{probed(ms, 0, Answered), "probe 2"},
			{probed(2*ms, 2, Answered), ""},
			{tick(11 * ms), "fence 0"},
			{accuse(12*ms, 1, 0), ""},
			{event(20*ms, FenceFailed, 0), "probe 1 | probe 2"},
			{event(20*ms, FenceFailed, 0), ""},
			{event(20*ms, LinkBack, 0), ""},
			{probed(21*ms, 1, Answered), ""},
			{probed(21*ms, 2, Answered), ""},
			{tick(30 * ms), "lose 0 in 2: " + goesWith("node2") + "; it has not confirmed its end"},
		}},
		{"fenced by others", Config{Nodes: 3}, []line{
			{event(0, Fenced, 1), "lose 1 in 2: its processes have been ended by another node"},
		}},
		{"the lost accuse", Config{Nodes: 3}, []line{
			{prove(0, 1, 0), "lose 1 in 2: " + endedWhy},
			{accuse(1, 1, 0), "probe 0"},
			{probed(2, 0, Answered), ""},
			{tick(grace), ""},
		}},
		{"twice by the same", Config{Nodes: 3}, []line{
			{accuse(0, 2, 0), "probe 0"},
			{accuse(0, 2, 0), ""},
			{probed(ms, 0, Silent), "probe 1 | probe 2"},
			{accuse(ms, 1, 0), ""},
			{probed(2*ms, 1, Answered), ""},
			{probed(2*ms, 2, Answered), ""},
			{tick(11 * ms), "lose 0 in 2: it does not answer (asked by 2 nodes and the front end)"},
		}},
	})
}

// TestLinks: nodes whose connection to the front end has ended.
func TestLinks(t *testing.T) {
	t.Parallel()
	over := "it answers, but its connection to the front end is not back after 5 s"
	runAll(t, []script{
		{"back in time", Config{Nodes: 2}, []line{
			{event(0, LinkLost, 1), "probe 1"},
			{probed(ms, 1, Answered), ""},
			{event(grace-1, LinkBack, 1), ""},
			{tick(grace), ""},
			{event(2*grace, LinkLost, 1), "probe 1"},
			{probed(2*grace+ms, 1, Answered), ""},
			{tick(3*grace - 1), ""},
			{tick(3 * grace), "fence 1"},
			{event(3*grace+ms, Fenced, 1), "lose 1 in 2: " + over},
		}},
		{"lost twice", Config{Nodes: 2}, []line{
			{event(0, LinkLost, 1), "probe 1"},
			{probed(ms, 1, Answered), ""},
			{event(1000*ms, LinkLost, 1), "probe 1"},
			{probed(1001*ms, 1, Answered), ""},
			{tick(grace), "fence 1"},
		}},
		{"silent, then back", Config{Nodes: 3}, []line{
			{event(0, LinkLost, 1), "probe 1"},
			{probed(ms, 1, Silent), "probe 0 | probe 2"},
			{probed(ms, 0, Answered), ""},
			{probed(ms, 2, Answered), ""},
			{event(2*ms, LinkBack, 1), "probe 1"},
			{tick(11 * ms), ""},
			{probed(12*ms, 1, Answered), ""},
			{tick(grace), ""},
		}},
		{"back while it is asked", Config{Nodes: 3}, []line{
			{event(0, LinkLost, 1), "probe 1"},
			{event(ms, LinkBack, 1), ""},
			{probed(2*ms, 1, Silent), "probe 1"},
			{probed(3*ms, 1, Silent), "probe 0 | probe 2"},
		}},
		{"an old answer", Config{Nodes: 3}, []line{
			{event(0, LinkLost, 1), "probe 1"},
			{accuse(ms, 2, 1), ""},
			{probed(2*ms, 1, Answered), "probe 1"},
			{probed(3*ms, 1, Silent), "probe 0 | probe 2"},
		}},
		{"an answer from before the first silence", Config{Nodes: 3}, []line{
			{event(0, LinkLost, 1), "probe 1"},
			{event(0, LinkLost, 0), "probe 0"},
			{probed(ms, 1, Silent), "probe 2"},
			{probed(ms, 0, Answered), "probe 0"},
			{probed(2*ms, 2, Answered), ""},
			{tick(11 * ms), ""},
			{probed(12*ms, 0, Answered), "lose 1 in 2: " + noAnswer},
		}},
		{"silent ones first", Config{Nodes: 3}, []line{
			{event(0, LinkLost, 0), "probe 0"},
			{probed(ms, 0, Answered), ""},
			{accuse(grace-5*ms, 0, 1), "probe 1"},
			{probed(grace-ms, 1, Silent), "probe 0 | probe 2"},
			{probed(grace-ms, 0, Answered), ""},
			{probed(grace-ms, 2, Answered), ""},
			{tick(grace), ""},
			{tick(grace + 9*ms), "lose 1 in 2: " + askedByOne + " | fence 0"},
		}},
		{"links before accusations", Config{Nodes: 3}, []line{
			{event(0, LinkLost, 0), "probe 0"},
			{probed(ms, 0, Answered), ""},
			{accuse(grace-10*ms, 0, 1), "probe 1"},
			{probed(grace-10*ms, 1, Answered), "probe 0"},
			{probed(grace-9*ms, 0, Answered), ""},
			{tick(grace), "fence 0"},
			{event(grace+ms, Fenced, 0), "lose 0 in 2: " + over},
			{tick(2 * grace), ""},
		}},
	})
}

// TestHolds: nothing is judged or begun while the job is held, deadlines move, and silence that began before counts for
// nothing.
func TestHolds(t *testing.T) {
	t.Parallel()
	runAll(t, []script{
		{"a grace", Config{Nodes: 2}, []line{
			{event(0, LinkLost, 1), "probe 1"},
			{probed(0, 1, Answered), ""},
			{event(1000*ms, Hold, 0), ""},
			{event(1001*ms, Hold, 0), ""},
			{tick(grace), ""},
			{event(2*grace, Go, 0), ""},
			{event(2*grace+ms, Go, 0), ""},
			{tick(3*grace - 1001*ms), ""},
			{tick(3*grace - 1000*ms), "fence 1"},
		}},
		{"an open probe", Config{Nodes: 3}, []line{
			{event(0, LinkLost, 1), "probe 1"},
			{event(ms, Hold, 0), ""},
			{probed(2*ms, 1, Silent), ""},
			{accuse(3*ms, 0, 1), ""},
			{accuse(3*ms, 0, 2), ""},
			{probed(3*ms, 2, Silent), ""},
			{event(1000*ms, Go, 0), "probe 1 | probe 2"},
			{probed(1001*ms, 1, Silent), "probe 0"},
		}},
		{"a probe that ends after it", Config{Nodes: 3}, []line{
			{event(0, LinkLost, 1), "probe 1"},
			{event(ms, Hold, 0), ""},
			{event(1000*ms, Go, 0), ""},
			{probed(1001*ms, 1, Silent), "probe 1"},
			{probed(1002*ms, 1, Silent), "probe 0 | probe 2"},
		}},
		{"an open fence", Config{Nodes: 2}, []line{
			{event(0, LinkLost, 1), "probe 1"},
			{probed(0, 1, Answered), ""},
			{tick(grace), "fence 1"},
			{event(grace, Hold, 0), ""},
			{event(grace+ms, FenceFailed, 1), ""},
			{event(grace+ms, FenceFailed, 1), ""},
			{event(grace+2*ms, Go, 0), "fence 1"},
			{event(grace+3*ms, FenceFailed, 1), "probe 0"},
		}},
		{"the proven", Config{Nodes: 3}, []line{
			{event(0, LinkLost, 2), "probe 2"},
			{event(0, Hold, 0), ""},
			{prove(0, 1, 0), "lose 1 in 2: " + endedWhy},
			{probed(0, 2, DaemonDead), "lose 2 in 3: " + endedWhy},
		}},
		{"a silence", Config{Nodes: 3}, append(
			isolated(3, 1),
			line{event(10*ms, Hold, 0), ""},
			line{tick(100 * ms), ""},
			line{event(110*ms, Go, 0), ""},
			line{tick(111*ms - 1), ""},
			line{tick(111 * ms), "lose 1 in 2: " + askedByOne},
		)},
	})
}

// run gives a core the events.
func run(t *testing.T, cfg Config, lines []line) {
	t.Helper()
	cfg.Window, cfg.Grace = window, grace
	c := New(cfg)
	left := cfg.Nodes
	for i, l := range lines {
		var got []string
		for _, a := range c.Step(l.ev, nil) {
			got = append(got, a.text())
			if a.Kind == Lose {
				left--
				if c.Has(a.Node) || a.Number > c.Number() {
					t.Errorf("line %d: %+v, and the view %d has %v", i, a, c.Number(), c.Members())
				}
			}
		}
		if text := strings.Join(got, " | "); text != l.want {
			t.Fatalf("line %d, %+v:\n got %q\nwant %q", i, l.ev, text, l.want)
		}
		if len(c.Members()) != left {
			t.Errorf("line %d: members %v, want %d of them", i, c.Members(), left)
		}
		if due := c.Due(); due <= l.ev.Now {
			t.Errorf("line %d: due at %d, and it is %d", i, due, l.ev.Now)
		}
	}
}

// TestDue: the core wants a Tick when something can be judged, and none while it waits for the end of a task.
func TestDue(t *testing.T) {
	t.Parallel()
	c := New(Config{Nodes: 3, Window: window, Grace: grace})
	for i, l := range []struct {
		ev  Event
		due int64
	}{
		{event(0, LinkLost, 1), Never},
		{probed(ms, 1, Answered), grace},
		{accuse(2*ms, 0, 2), Never},
		{probed(3*ms, 2, Answered), Never},
		{probed(4*ms, 0, Answered), 3*ms + window},
		{event(5*ms, LinkLost, 2), Never},
		{probed(6*ms, 2, Silent), Never},
		{probed(7*ms, 0, Answered), Never},
		{probed(7*ms, 1, Answered), 6*ms + window},
		{event(8*ms, Hold, 0), Never},
		{event(18*ms, Go, 0), 16*ms + window},
		{event(26*ms, Tick, 0), grace + 10*ms},
		{event(27*ms, LinkBack, 1), Never},
	} {
		c.Step(l.ev, nil)
		if due := c.Due(); due != l.due {
			t.Fatalf("line %d, %+v: due at %d, want %d", i, l.ev, due, l.due)
		}
	}
	if got := fmt.Sprint(c.Members(), c.Number()); got != "[0 1] 2" {
		t.Errorf("members and number %s, want [0 1] 2", got)
	}
}
