package stream

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/symheap/layout"
)

// conn is a connection from the sender of one node to the receiver of another.
type conn struct {
	from, to   int
	generation uint32
	out, back  []byte // posted and not delivered
	sent       [2]flight
	opened     [2]bool // the sender, the receiver knows that it is open
	broken     [2]bool // the sender, the receiver knows that it is broken
	cut        bool    // nothing that is posted from now on arrives
}

// world is nodes and their connections, late ones included.
type world struct {
	shape
	nodes []*modelNode
	conns []*conn
	last  map[[2]int]uint32 // newest generation of each pair
	dead  uint64            // nodes
	err   error
}

func newWorld(sh shape) *world {
	w := &world{shape: sh, last: map[[2]int]uint32{}}
	for i := range sh.nodes {
		w.nodes = append(w.nodes, newNode(sh, i))
	}
	return w
}

// isDead reports whether a node is dead.
func (w *world) isDead(node int) bool { return w.dead>>node&1 != 0 }

// current returns the newest connection of the pair, or nil if the given side knows that it is broken.
func (w *world) current(from, to, side int) *conn {
	for _, c := range w.conns {
		if c.from == from && c.to == to && c.generation == w.last[[2]int{from, to}] && !c.broken[side] {
			return c
		}
	}
	return nil
}

// pump lets a node take what its PEs have written, and post what there is to post.
func (w *world) pump(me int) {
	n := w.nodes[me]
	n.collect()
	var f Frame
	for {
		to, ok := n.s.Turn()
		if !ok {
			break
		}
		for n.s.Next(to, &f) {
			c := w.current(me, to, 0)
			if c == nil {
				pair := [2]int{me, to}
				w.last[pair]++
				c = &conn{from: me, to: to, generation: w.last[pair]}
				w.conns = append(w.conns, c)
			}
			c.out = w.post(c, 0, c.out, &f)
		}
	}
	for {
		from, ok := n.r.Turn()
		if !ok {
			break
		}
		for n.r.Next(from, &f) {
			c := w.byGeneration(from, me, n.r.nodes[from].generation)
			c.back = w.post(c, 1, c.back, &f)
		}
	}
}

// byGeneration returns a connection.
func (w *world) byGeneration(from, to int, generation uint32) *conn {
	for _, c := range w.conns {
		if c.from == from && c.to == to && c.generation == generation {
			return c
		}
	}
	return &conn{cut: true}
}

// post posts a frame on a side of a connection.
func (w *world) post(c *conn, side int, b []byte, f *Frame) []byte {
	c.sent[side].post(&f.Header)
	if c.cut {
		return b
	}
	b, err := post(b, f)
	if err != nil {
		w.err = err
	}
	return b
}

// tellSent tells both sides that what they have posted is the kernel's.
func (w *world) tellSent(c *conn) {
	if c.opened[0] && !c.broken[0] {
		w.nodes[c.from].s.Sent(c.to, c.generation, c.sent[0].frames, c.sent[0].bytes)
		c.sent[0] = flight{}
	}
	if c.opened[1] && !c.broken[1] {
		w.nodes[c.to].r.Sent(c.from, c.generation, c.sent[1].frames, c.sent[1].bytes)
		c.sent[1] = flight{}
	}
}

// open tells a side that the connection is open.
func (w *world) open(c *conn, side int) {
	if c.opened[side] || c.broken[side] || c.cut {
		return
	}
	c.opened[side] = true
	if side == 0 {
		w.nodes[c.from].s.Opened(c.to, c.generation)
	} else {
		w.nodes[c.to].r.Opened(c.from, c.generation)
	}
}

// deliver gives the other side up to n bytes of what a side has posted, and returns how many.
func (w *world) deliver(c *conn, side, n int) int {
	b := &c.out
	if side == 1 {
		b = &c.back
	}
	n = min(n, len(*b))
	if n == 0 || !c.opened[1-side] || c.broken[1-side] {
		return 0
	}
	data := append([]byte(nil), (*b)[:n]...)
	*b = append([]byte(nil), (*b)[n:]...)
	var err error
	if side == 0 {
		to := w.nodes[c.to]
		err = to.r.Received(c.from, c.generation, data, to)
	} else {
		from := w.nodes[c.from]
		err = from.s.Received(c.to, c.generation, data, sink{from, c.to})
	}
	if err != nil {
		w.err = err
	}
	for i := range data {
		data[i] = 0xa5 // nobody may keep a reference
	}
	return n
}

// tellBroken tells a side that a connection that was cut is broken.
func (w *world) tellBroken(c *conn, side int) {
	if !c.cut || c.broken[side] {
		return
	}
	c.broken[side] = true
	if side == 0 {
		w.nodes[c.from].s.Broken(c.to, c.generation)
	} else if c.opened[1] {
		w.nodes[c.to].r.Broken(c.from, c.generation)
	}
}

// retry lets a node open connections again.
func (w *world) retry(me int) {
	for to := range w.shape.nodes {
		w.nodes[me].s.Retry(to)
	}
}

// killPE kills a PE; the other nodes learn of it one after the other, as learn says. A successor follows if
// restarts says so.
func (w *world) killPE(node, local int, restarts bool) {
	n := w.nodes[node]
	pe := &n.pes[local]
	if pe.dead {
		return
	}
	n.s.DropPE(layout.Local(local))
	old := pe.incarnation
	*pe = newPE(w.shape, old+1)
	pe.dead = !restarts
	if restarts {
		n.s.StartPE(layout.Local(local), old+1)
	}
}

// learn tells a node that the earlier incarnations of a PE are dead.
func (w *world) learn(me, node, local int) {
	pe := &w.nodes[node].pes[local]
	if pe.incarnation == 0 {
		return
	}
	n := w.nodes[me]
	n.r.DropPE(node, layout.Local(local), pe.incarnation-1)
	for i := range pe.incarnation {
		for class := range layout.WireClasses {
			n.forbid(Source{Node: node, Local: layout.Local(local), Class: class, Incarnation: i})
		}
	}
}

// forbid makes it an error if a record of the source is executed.
func (n *modelNode) forbid(source Source) {
	m := n.memory[source]
	m.late = true
	n.memory[source] = m
}

// killNode kills a node, which all others learn at once. Its connections may still hold bytes.
func (w *world) killNode(node int) {
	w.dead |= 1 << node
	for me, n := range w.nodes {
		if me == node {
			continue
		}
		n.s.DropNode(node)
		n.r.DropNode(node)
		for local := range w.near {
			for class := range layout.WireClasses {
				n.forbid(Source{Node: node, Local: layout.Local(local), Class: class, Incarnation: w.nodes[node].pes[local].incarnation})
			}
		}
		n.abandon(node)
	}
}

// abandon lets the PEs free what lies at a dead node.
func (n *modelNode) abandon(node int) {
	for i := range n.pes {
		pe := &n.pes[i]
		for class := range layout.WireClasses {
			st := &pe.streams[node*layout.WireClasses+class]
			st.done = st.next
		}
		for j := range pe.slots {
			if pe.slots[j].busy && pe.slots[j].at/layout.WireClasses == node {
				pe.slots[j] = modelSlot{}
			}
		}
	}
}

// check returns the first thing that was wrong.
func (w *world) check() error {
	if w.err != nil {
		return w.err
	}
	for _, n := range w.nodes {
		if n.err != nil {
			return n.err
		}
		for i := range n.r.nodes {
			for at := range n.r.nodes[i].streams {
				if k := n.r.nodes[i].streams[at].answers.n; k > w.slots {
					return fmt.Errorf("node %d keeps %d answers for stream %d of node %d, whose PEs have %d slots", n.me, k, at, i, w.slots)
				}
			}
		}
	}
	return nil
}

// settle lets everything happen that can, without faults, and checks that all is complete.
func (w *world) settle() error {
	for round, still := 0, 0; still < 5; round++ { // what is told in a round is acted on in the next one
		if round == 10000 {
			return fmt.Errorf("after %d rounds there is still something to do", round)
		}
		for me := range w.nodes {
			if !w.isDead(me) {
				w.nodes[me].r.TellAll()
				w.retry(me)
				w.pump(me)
			}
		}
		moved := false
		for _, c := range w.conns {
			w.tellBroken(c, 0)
			w.tellBroken(c, 1)
			if w.isDead(c.from) || w.isDead(c.to) {
				continue
			}
			w.open(c, 0)
			w.open(c, 1)
			w.tellSent(c)
			moved = w.deliver(c, 0, 1<<20) > 0 || moved
			moved = w.deliver(c, 1, 1<<20) > 0 || moved
		}
		if err := w.check(); err != nil {
			return err
		}
		still++
		if moved {
			still = 0
		}
	}
	for me, n := range w.nodes {
		if !w.isDead(me) {
			if err := n.unfinished(w.dead); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestRandomWorlds draws what PEs do, what arrives when, and what breaks.
func TestRandomWorlds(t *testing.T) {
	seeds := 20000
	if testing.Short() {
		seeds = 1000
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 0))
		if err := runWorld(func(n int) int { return rng.IntN(n) }); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestDrawnWorlds is the same with choices that rapid draws, and makes few when one of them goes wrong.
func TestDrawnWorlds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := runWorld(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }); err != nil {
			t.Fatal(err)
		}
	})
}

// runWorld makes a world and lets things happen in it. choose returns a number below n.
func runWorld(choose func(n int) int) error {
	w := newWorld(shape{
		nodes: 2 + choose(2), near: 1 + choose(2), blocks: 2 + choose(5), slots: 1 + choose(4),
		window: Window{Frames: 1 + choose(8), Bytes: 1 + choose(600)},
	})
	deaths := choose(3) == 0
	for range choose(400) {
		w.step(choose, deaths)
		if err := w.check(); err != nil {
			return err
		}
	}
	return w.settle()
}

// step lets something happen.
func (w *world) step(choose func(n int) int, deaths bool) {
	me := choose(w.shape.nodes)
	other := (me + 1 + choose(w.shape.nodes-1)) % w.shape.nodes
	what := choose(24)
	switch {
	case what < 9 && w.isDead(me):
	case what < 5:
		if local := choose(w.near); !w.isDead(other) && !w.nodes[me].pes[local].dead {
			w.nodes[me].issue(local, other, choose(layout.WireClasses), opKind(choose(int(opKinds))))
		}
	case what < 8:
		w.pump(me)
	case what == 8:
		w.nodes[me].r.TellAll()
		w.retry(me)
	case what == 9:
		if deaths {
			w.someDeath(choose, me, other)
		}
	case len(w.conns) == 0:
	default:
		c, side := w.conns[len(w.conns)-1-min(choose(len(w.conns)), choose(len(w.conns)))], choose(2)
		if w.isDead(c.from) || w.isDead(c.to) {
			return
		}
		switch {
		case what == 10:
			c.cut = c.cut || choose(3) == 0
		case what == 11:
			w.tellBroken(c, side)
		case what == 12:
			w.tellSent(c)
		case what < 16:
			w.open(c, side)
		default:
			w.deliver(c, side, 1+choose(200))
		}
	}
}

// someDeath kills a PE or a node, or tells a node of the death of a PE.
func (w *world) someDeath(choose func(n int) int, me, other int) {
	local := choose(w.near)
	switch choose(6) {
	case 0:
		if !w.isDead(me) {
			w.killPE(me, local, choose(2) == 1)
		}
	case 1:
		if w.dead == 0 && w.shape.nodes > 2 && choose(4) == 0 {
			w.killNode(me)
		}
	default:
		if !w.isDead(other) && !w.isDead(me) {
			w.learn(other, me, local)
		}
	}
}

// TestCutTwice cuts a connection at each byte, and the next one at each third byte, by turns.
func TestCutTwice(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 13
	}
	total := cutTwice(t, -1, -1)
	runs := 0
	for first := 0; first < total; first += stride {
		for second := first % 3; second < total; second += 3 * stride {
			runs++
			if left := cutTwice(t, first, second); left > 0 {
				break // the second connection carried fewer bytes, so the second cut did not happen
			}
		}
	}
	t.Logf("%d bytes, %d runs", total, runs)
}

// cutTwice runs one scenario. The first connection is cut after first bytes in both directions, the second one
// after second bytes. It returns how many bytes were carried, if all cuts are off, or else how many bytes
// before the second cut there were left when all was done.
func cutTwice(t *testing.T, first, second int) int {
	t.Helper()
	w := newWorld(shape{nodes: 2, near: 2, blocks: 4, slots: 3})
	for _, op := range []struct {
		local int
		kind  opKind
	}{{0, doPut}, {0, doPutFrom}, {0, doFetch}, {1, doFetch}, {0, doGet}, {0, doAdd}, {0, doFetch}, {1, doSignal}} {
		if !w.nodes[0].issue(op.local, 1, 0, op.kind) {
			t.Fatal("no block is free")
		}
	}
	budget := [2]int{first, second}
	carried := 0
	for round := range 1000 {
		w.retry(0)
		w.pump(0)
		w.pump(1)
		moved := 0
		for i, c := range w.conns {
			w.open(c, 0)
			w.open(c, 1)
			w.tellSent(c)
			limited := i < 2 && budget[i] >= 0 && first >= 0
			for side := range 2 {
				n := 1 << 20
				if limited {
					n = budget[i]
				}
				n = w.deliver(c, side, n)
				moved += n
				if limited {
					budget[i] -= n
				}
			}
			if limited && budget[i] == 0 && !c.cut {
				c.cut = true
				budget[i] = -1
				w.tellBroken(c, round%2)
				w.tellBroken(c, 1-round%2)
				moved++
			}
		}
		carried += moved
		if err := w.check(); err != nil {
			t.Fatalf("cuts after %d and %d bytes: %v", first, second, err)
		}
		if moved == 0 && round > 3 {
			break
		}
	}
	if err := w.nodes[0].unfinished(0); err != nil {
		t.Fatalf("cuts after %d and %d bytes: %v", first, second, err)
	}
	if first < 0 {
		return carried
	}
	return max(budget[1], 0)
}
