package courier_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/courier"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/pmix/server"
)

// node is a node whose server writes down what it gets. It answers a question with the same in brackets, at once or later.
type node struct {
	*courier.Courier
	heard []string
	hold  bool
	held  []func()
}

func (n *node) Answered(number uint64, body []byte) {
	what := string(body)
	if body == nil {
		what = "nothing"
	}
	n.heard = append(n.heard, fmt.Sprintf("answer %d: %.20s", number, what))
}

func (n *node) Asked(from int, number uint64, body []byte, reply func([]byte)) {
	n.heard = append(n.heard, fmt.Sprintf("%d asks %d: %.20s", from, number, body))
	n.held = append(n.held, func() { reply(fmt.Appendf(nil, "(%s)", body)) })
}

func (n *node) Told(from int, body []byte) {
	n.heard = append(n.heard, fmt.Sprintf("%d tells: %.20s", from, body))
}

// answer gives the answers that are due.
func (n *node) answer() {
	held := n.held
	n.held = nil
	for _, f := range held {
		f()
	}
}

// net is some nodes and the frames between them.
type net struct {
	t      *testing.T
	nodes  []*node
	root   *courier.Root
	frames []func()
	faults []string
}

func newNet(t *testing.T, n int) *net {
	t.Helper()
	w := &net{t: t}
	w.root = courier.NewRoot(n, func(to int, f wire.Frame) {
		w.frames = append(w.frames, func() { w.nodes[to].Take(courier.ToRoot, f) })
	})
	t.Cleanup(w.root.Close)
	for me := range n {
		c, err := courier.New(courier.Config{Me: me, Nodes: n, Send: func(to int, f wire.Frame) { w.send(me, to, f) }, Fault: w.fault})
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, &node{Courier: c})
	}
	for _, n := range w.nodes {
		n.Start(n)
	}
	return w
}

func (w *net) fault(err error) { w.faults = append(w.faults, err.Error()) }

func (w *net) send(from, to int, f wire.Frame) {
	w.frames = append(w.frames, func() {
		switch to {
		case courier.ToRoot:
			if err := w.root.Take(from, f); err != nil {
				w.fault(err)
			}
		case courier.ToEveryone:
			for n := range w.nodes {
				if n != from {
					w.nodes[n].Take(from, f)
				}
			}
		default:
			w.nodes[to].Take(from, f)
		}
	})
}

// run delivers all frames, and gives the answers.
func (w *net) run() {
	for len(w.frames) > 0 {
		frames := w.frames
		w.frames = nil
		for _, f := range frames {
			f()
		}
		for _, n := range w.nodes {
			if !n.hold {
				n.answer()
			}
		}
	}
}

// expect compares what a node has heard since the last call with want.
func (w *net) expect(node int, want ...string) {
	w.t.Helper()
	if got := w.nodes[node].heard; !slices.Equal(got, want) {
		w.t.Errorf("node %d heard %q, want %q", node, got, want)
	}
	w.nodes[node].heard = nil
}

func (w *net) expectFaults(want ...string) {
	w.t.Helper()
	if len(w.faults) != len(want) {
		w.t.Fatalf("faults %q, want %q", w.faults, want)
	}
	for i := range want {
		if !strings.Contains(w.faults[i], want[i]) {
			w.t.Errorf("fault %q, want one with %q", w.faults[i], want[i])
		}
	}
	w.faults = nil
}

func TestQuestionsAndNews(t *testing.T) {
	w := newNet(t, 3)
	w.nodes[0].Ask(2, 7, []byte("a"))
	w.nodes[0].Tell(courier.ToEveryone, []byte("b"))
	w.nodes[0].Tell(1, []byte("c"))
	w.nodes[0].Tell(0, []byte("nobody"))
	w.run()
	w.expect(0, "answer 7: (a)")
	w.expect(1, "0 tells: b", "0 tells: c")
	w.expect(2, "0 asks 7: a", "0 tells: b")
	w.expectFaults()
}

// Long messages arrive whole, those to one node between those to everyone.
func TestLongMessages(t *testing.T) {
	w := newNet(t, 2)
	long := bytes.Repeat([]byte("0123456789"), wire.MaxBody/8)
	w.nodes[0].Tell(courier.ToEveryone, long)
	w.nodes[0].Ask(1, 1, long)
	w.nodes[0].Tell(1, long)
	w.run()
	w.expect(0, "answer 1: (0123456789012345678")
	w.expect(1, "0 tells: 01234567890123456789", "0 asks 1: 01234567890123456789", "0 tells: 01234567890123456789")
	w.expectFaults()
}

// Every question has an answer, whichever node dies when.
func TestDeathAnswersQuestions(t *testing.T) {
	w := newNet(t, 3)
	w.nodes[1].hold = true
	w.nodes[0].Ask(1, 1, []byte("a"))
	w.nodes[0].Ask(2, 2, []byte("b"))
	w.run()
	w.expect(0, "answer 2: (b)")
	w.nodes[0].NodeDead(1)
	w.nodes[0].NodeDead(1)
	w.nodes[0].Ask(1, 3, []byte("c"))
	w.nodes[0].Ask(9, 4, nil)
	w.nodes[0].Ask(0, 5, nil)
	w.nodes[0].Tell(1, nil)
	w.expect(0, "answer 1: nothing", "answer 3: nothing", "answer 4: nothing", "answer 5: nothing")
	w.nodes[1].answer()
	w.nodes[1].Tell(0, []byte("too late"))
	w.run()
	w.expect(0)
	w.expectFaults()
}

// The root answers for the board, as long as it lives and the node does.
func TestRoot(t *testing.T) {
	w := newNet(t, 2)
	w.nodes[1].Ask(courier.ToRoot, 1, []byte("no request"))
	w.run()
	if got := w.nodes[1].heard; len(got) != 1 || !strings.HasPrefix(got[0], "answer 1: ") {
		t.Errorf("node 1 heard %q, want an answer", got)
	}
	w.nodes[1].heard = nil
	w.nodes[1].Tell(courier.ToRoot, []byte{0xff})
	w.run()
	w.expectFaults("message of another node")
	w.root.NodeDead(1)
	w.nodes[1].Ask(courier.ToRoot, 2, nil)
	w.run()
	w.expect(1)
	w.expectFaults()
}

// The root has the names that processes publish by PMI-1, whose questions have numbers of their own.
func TestRootHasNames(t *testing.T) {
	w := newNet(t, 2)
	const number = 1 << 63
	lookup := []byte{2, 1, 'j', 1, 's', 0} // op, job, service, port
	w.nodes[1].Ask(courier.ToRoot, number|1, lookup)
	w.run()
	w.expect(1, fmt.Sprintf("answer %d: \x00\x11service not found", uint64(number|1)))
	w.nodes[0].Ask(courier.ToRoot, number|1, []byte{1, 1, 'j', 1, 's', 1, 'p'})
	w.run()
	w.expect(0, fmt.Sprintf("answer %d: \x01\x00", uint64(number|1)))
	w.nodes[1].Ask(courier.ToRoot, number|2, lookup)
	w.run()
	w.expect(1, fmt.Sprintf("answer %d: \x01\x01p", uint64(number|2)))
	w.expectFaults()
	w.nodes[1].Ask(courier.ToRoot, number|3, []byte{9})
	w.run()
	w.expectFaults("question about published names")
}

func TestFramesThatNobodySends(t *testing.T) {
	w := newNet(t, 2)
	n := w.nodes[0]
	for _, c := range []struct {
		from int
		kind wire.Kind
		body []byte
		want string
	}{
		{1, wire.KindTell, []byte{1}, "has 1 bytes, want at least 4"},
		{1, wire.KindQuestion, []byte{0, 0, 0, 0}, "message has 0 bytes, want at least 8"},
		{1, wire.KindReply, wire.Split(make([]byte, 8))[0], "answer to question 0, which the node has not got"},
		{0, wire.KindTell, wire.Split(nil)[0], "want one of another node, from 0 to 1"},
		{2, wire.KindTell, wire.Split(nil)[0], "want one of another node, from 0 to 1"},
		{1, wire.KindTell, []byte{0xff, 0xff, 0xff, 0x7f, 1}, "want at most"},
	} {
		n.Take(c.from, wire.Frame{Kind: c.kind, Body: c.body})
		w.expectFaults(c.want)
	}
	n.Take(1, wire.Frame{Kind: wire.KindFence})
	w.expect(0)
	w.expectFaults()
	if err := w.root.Take(1, wire.Frame{Kind: wire.KindReply}); err == nil {
		t.Error("the root takes an answer, want an error")
	}
	if _, err := courier.New(courier.Config{Me: 2, Nodes: 2}); err == nil {
		t.Error("a courier of node 2 of 2, want an error")
	}
}

var _ courier.Server = (*server.Server)(nil)

// FuzzTake gives a courier and a root frames of strangers.
func FuzzTake(f *testing.F) {
	f.Add(byte(0), wire.Split([]byte("12345678question"))[0], byte(2), wire.Split([]byte("news"))[0])
	f.Add(byte(1), wire.Split([]byte("\x01\x00\x00\x00\x00\x00\x00\x00reply"))[0], byte(1), []byte{1, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, kind1 byte, body1 []byte, kind2 byte, body2 []byte) {
		w := newNet(t, 2)
		w.nodes[0].Ask(1, 1, nil)
		for _, frame := range []wire.Frame{{Kind: wire.KindQuestion + wire.Kind(kind1%3), Body: body1}, {Kind: wire.KindQuestion + wire.Kind(kind2%3), Body: body2}} {
			w.nodes[0].Take(1, frame)
			_ = w.root.Take(1, frame)
		}
		w.nodes[0].NodeDead(1)
		w.root.NodeDead(1)
		w.run()
	})
}

// Nodes that are added take part as the others do, and none is known before it is announced.
func TestGrow(t *testing.T) {
	w := newNet(t, 3)
	for _, n := range w.nodes {
		n.Grow(2) // it has no fewer for that
	}
	c, err := courier.New(courier.Config{Me: 3, Nodes: 4, Send: func(to int, f wire.Frame) { w.send(3, to, f) }, Fault: w.fault})
	if err != nil {
		t.Fatal(err)
	}
	added := &node{Courier: c}
	added.Start(added)
	w.nodes[0].Ask(3, 1, []byte("early"))
	w.nodes = append(w.nodes, added)
	added.Tell(0, []byte("early"))
	w.run()
	w.expect(0, "answer 1: nothing")
	w.expectFaults("want one of another node, from 0 to 2")
	w.root.Grow(4)
	for _, n := range w.nodes[:3] {
		n.Grow(4)
	}
	w.nodes[0].Ask(3, 2, []byte("a"))
	added.Tell(courier.ToEveryone, []byte("b"))
	added.Ask(courier.ToRoot, 3, []byte("no request"))
	w.run()
	w.expect(0, "3 tells: b", "answer 2: (a)")
	if got := added.heard; len(got) != 2 || got[0] != "0 asks 2: a" || !strings.HasPrefix(got[1], "answer 3: ") {
		t.Errorf("the new node heard %q, want a question, and the answer of the root", got)
	}
	w.expectFaults()
}
