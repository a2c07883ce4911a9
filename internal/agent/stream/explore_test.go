package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goshmem/goshmem/sim/explore"
	"github.com/goshmem/goshmem/symheap/layout"
)

// scenario is a case for the explorer: each member is a node. In each call, the PEs of the nodes in the set
// active do ops to every other node, and wait until all of them are done.
//
// A message is a part of the bytes of a connection. If one is lost, the end that misses it takes the connection
// for broken and tells the other end, as TCP does. If nothing follows what was lost, the clock tells the sender.
type scenario struct {
	shape
	calls  int
	active uint64
	ops    []opKind
	piece  int // bytes of a message at most; 0: any number
}

func (s *scenario) N() int     { return s.nodes }
func (s *scenario) Calls() int { return s.calls }
func (s *scenario) String() string {
	return fmt.Sprintf("stream nodes=%d pes=%d blocks=%d calls=%d active=%b ops=%v piece=%d", s.nodes, s.near, s.blocks, s.calls, s.active, s.ops, s.piece)
}

func (s *scenario) Member(me int) (explore.Member, error) {
	return &member{n: newNode(s.shape, me), sys: s, out: make([]end, s.nodes), in: make([]end, s.nodes)}, nil
}

// Check demands that a node that has returned from a call has had its records executed, and at the end that
// all calls have returned.
func (s *scenario) Check(g *explore.Group) error {
	for p := range s.nodes {
		m, ok := g.Members[p].(*member)
		if !ok || g.IsDead(p) {
			continue
		}
		if m.n.err != nil {
			return m.n.err
		}
		if !g.Final && g.Who == p || g.Final {
			if err := s.checkExecuted(g, p, m); err != nil {
				return err
			}
		}
		if g.Final && m.Returned() < s.calls {
			return fmt.Errorf("node %d returned from %d of %d calls; %w", p, m.Returned(), s.calls, errors.Join(m.n.unfinished(g.Dead)))
		}
	}
	return nil
}

// checkExecuted compares what living nodes have executed of node p's records with what p has issued.
func (s *scenario) checkExecuted(g *explore.Group, p int, m *member) error {
	for q := range s.nodes {
		other, ok := g.Members[q].(*member)
		if !ok || q == p || g.IsDead(q) {
			continue
		}
		for local := range s.near {
			for class := range layout.WireClasses {
				st := m.n.pes[local].streams[q*layout.WireClasses+class]
				got := other.n.memory[Source{Node: p, Local: layout.Local(local), Class: class}]
				if got.records != st.next || got.adds != st.adds {
					return fmt.Errorf("node %d has executed %d records and %d additions of node %d, PE %d, want %d and %d",
						q, got.records, got.adds, p, local, st.next, st.adds)
				}
			}
		}
	}
	return nil
}

// end is one end of a connection.
type end struct {
	generation uint32
	open       bool
	sent       int // messages
	expected   int // number of the next message
}

// member is a node.
type member struct {
	n                 *modelNode
	sys               *scenario
	out               []end // of connections that this node opens
	in                []end
	entered, returned int
}

// letter is a part of the bytes of a connection, or the news that it is broken.
type letter struct {
	toSender   bool // comes to the end that has opened the connection
	generation uint32
	number     int
	broken     bool
	data       []byte
}

func (l *letter) AppendState(out []byte) []byte {
	b := &stateBytes{out}
	b.add(bit(l.toSender), uint64(l.generation), uint64(l.number), bit(l.broken))
	b.bytes(l.data)
	return b.b
}

func (l *letter) String() string {
	if l.broken {
		return fmt.Sprintf("broken g%d", l.generation)
	}
	return fmt.Sprintf("#%d of g%d, to sender %v: %x", l.number, l.generation, l.toSender, l.data)
}

func (m *member) Entered() int            { return m.entered }
func (m *member) Returned() int           { return m.returned }
func (m *member) Result(int) string       { return "done" }
func (m *member) Remains() explore.Member { return m }

func (m *member) Clone() explore.Member {
	c := *m
	c.n = m.n.clone()
	c.out, c.in = append([]end(nil), m.out...), append([]end(nil), m.in...)
	return &c
}

func (m *member) AppendState(out []byte) []byte {
	b := &stateBytes{out}
	b.add(uint64(m.entered), uint64(m.returned))
	for _, ends := range [][]end{m.out, m.in} {
		for _, e := range ends {
			b.add(uint64(e.generation), bit(e.open), uint64(e.sent), uint64(e.expected))
		}
	}
	return m.n.appendState(b.b)
}

// isDead reports whether the member knows that a node is dead.
func (m *member) isDead(q int) bool { return m.n.s.nodes[q].state == dead }

func (m *member) Enter(out []explore.Effect) []explore.Effect {
	m.entered++
	for q := range m.sys.nodes {
		if q == m.n.me || m.sys.active>>m.n.me&1 == 0 || m.isDead(q) {
			continue
		}
		for local := range m.sys.near {
			for _, op := range m.sys.ops {
				if !m.n.issue(local, q, layout.ClassOneSided, op) {
					return append(out, explore.Effect{Broken: errors.New("no block or slot is free, want a scenario with enough")})
				}
			}
		}
	}
	return m.pump(out)
}

// pump posts what there is to post, and returns from the call when all is done.
func (m *member) pump(out []explore.Effect) []explore.Effect {
	n := m.n
	n.collect()
	var f Frame
	for {
		q, ok := n.s.Turn()
		if !ok {
			break
		}
		var b []byte
		for n.s.Next(q, &f) {
			e := &m.out[q]
			if !e.open {
				*e = end{generation: e.generation + 1, open: true}
				n.s.Opened(q, e.generation)
			}
			b = m.post(b, &f)
			n.s.Sent(q, e.generation, 1, f.Size())
		}
		out = m.sendPieces(out, q, &m.out[q], b, false)
	}
	for {
		q, ok := n.r.Turn()
		if !ok {
			break
		}
		var b []byte
		for n.r.Next(q, &f) {
			b = m.post(b, &f)
			n.r.Sent(q, m.in[q].generation, 1, f.Size())
		}
		out = m.sendPieces(out, q, &m.in[q], b, true)
	}
	if n.err != nil {
		return append(out, explore.Effect{Broken: n.err})
	}
	if m.entered > m.returned && n.unfinished(0) == nil {
		m.returned++
		out = append(out, explore.Effect{Return: true})
	}
	return out
}

func (m *member) post(b []byte, f *Frame) []byte {
	b, err := post(b, f)
	if err != nil {
		m.n.fail("%v", err)
	}
	return b
}

// sendPieces sends bytes on a connection.
func (m *member) sendPieces(out []explore.Effect, q int, e *end, b []byte, toSender bool) []explore.Effect {
	for len(b) > 0 {
		k := len(b)
		if m.sys.piece > 0 {
			k = min(k, m.sys.piece)
		}
		out = append(out, explore.Effect{To: q, Msg: &letter{toSender: toSender, generation: e.generation, number: e.sent, data: b[:k:k]}})
		e.sent++
		b = b[k:]
	}
	return out
}

func (m *member) Recv(from int, msg explore.Message, out []explore.Effect) []explore.Effect {
	l := msg.(*letter)
	n := m.n
	if m.isDead(from) { // the driver need not look: the machines know
		m.give(from, l)
		return out
	}
	e := &m.in[from]
	if l.toSender {
		e = &m.out[from]
	} else if l.generation > e.generation && !l.broken {
		*e = end{generation: l.generation, open: l.number == 0}
		if e.open {
			n.r.Opened(from, l.generation)
		} else {
			return m.sendBroken(out, from, l)
		}
	}
	switch {
	case l.generation < e.generation:
		if !l.broken {
			m.give(from, l) // late
		}
	case !e.open || l.generation > e.generation:
	case l.broken || l.number != e.expected:
		e.open = false
		if !l.broken {
			out = m.sendBroken(out, from, l)
		}
		if l.toSender {
			n.s.Broken(from, l.generation)
			n.s.Retry(from)
		} else {
			n.r.Broken(from, l.generation)
		}
	default:
		e.expected++
		m.give(from, l)
	}
	return m.pump(out)
}

// give gives the machines what has come.
func (m *member) give(from int, l *letter) {
	var err error
	if l.toSender {
		err = m.n.s.Received(from, l.generation, l.data, sink{m.n, from})
	} else {
		err = m.n.r.Received(from, l.generation, l.data, m.n)
	}
	if err != nil {
		m.n.fail("%v", err)
	}
}

// sendBroken tells the other end of the connection that it is broken.
func (m *member) sendBroken(out []explore.Effect, q int, l *letter) []explore.Effect {
	return append(out, explore.Effect{To: q, Msg: &letter{toSender: !l.toSender, generation: l.generation, broken: true}})
}

func (m *member) PeerFailed(q int, out []explore.Effect) []explore.Effect {
	m.n.s.DropNode(q)
	m.n.r.DropNode(q)
	m.out[q], m.in[q] = end{}, end{}
	m.n.abandon(q)
	return m.pump(out)
}

func (m *member) Tick(out []explore.Effect) []explore.Effect {
	if m.n.r.Owes() { // much sooner than a connection is given up
		m.n.r.TellAll()
		return m.pump(out)
	}
	for q := range m.sys.nodes {
		if e := &m.out[q]; e.open && m.n.s.IsBusy(q) {
			e.open = false
			m.n.s.Broken(q, e.generation)
			m.n.s.Retry(q)
		}
	}
	return m.pump(out)
}

// TestExplore visits all states of small scenarios.
func TestExplore(t *testing.T) {
	small := shape{nodes: 2, near: 1, blocks: 2, slots: 2}
	pair := shape{nodes: 2, near: 2, blocks: 2, slots: 2}
	three := shape{nodes: 3, near: 1, blocks: 4, slots: 2}
	for _, c := range []struct {
		sys    scenario
		faults explore.Faults
		long   bool
	}{
		{scenario{shape: small, calls: 2, active: 1, ops: []opKind{doFetch}}, explore.Faults{Losses: 3, Ticks: 1, Timeouts: 4}, false},
		{scenario{shape: small, calls: 2, active: 1, ops: []opKind{doPut, doFetch}, piece: 20}, explore.Faults{Losses: 2, Timeouts: 3}, false},
		{scenario{shape: small, calls: 2, active: 1, ops: []opKind{doPutFrom, doFetch}, piece: 30}, explore.Faults{Losses: 2, Timeouts: 3}, false},
		{scenario{shape: pair, calls: 2, active: 1, ops: []opKind{doFetch, doGet}}, explore.Faults{Losses: 2, Ticks: 1, Timeouts: 3}, false},
		{scenario{shape: small, calls: 1, active: 3, ops: []opKind{doFetch}, piece: 40}, explore.Faults{Losses: 2, Timeouts: 3}, false},
		{scenario{shape: three, calls: 1, active: 1, ops: []opKind{doFetch}}, explore.Faults{Deaths: 1, Losses: 1, Timeouts: 2}, false},
		{scenario{shape: small, calls: 2, active: 1, ops: []opKind{doTeam}}, explore.Faults{Losses: 2, Ticks: 1, Timeouts: 4}, false},
		{scenario{shape: small, calls: 2, active: 3, ops: []opKind{doTeam, doPut}}, explore.Faults{Losses: 1, Timeouts: 4}, false},
		{scenario{shape: pair, calls: 2, active: 3, ops: []opKind{doFetch, doAdd}}, explore.Faults{Losses: 2, Ticks: 1, Timeouts: 3}, true},
		{scenario{shape: three, calls: 2, active: 3, ops: []opKind{doFetch}}, explore.Faults{Deaths: 1, Losses: 1, Timeouts: 2}, true},
	} {
		t.Run(c.sys.String(), func(t *testing.T) {
			if testing.Short() && c.long {
				t.Skip("takes long")
			}
			count, failure := explore.Exhaustive(context.Background(), &c.sys, c.faults)
			if failure != nil {
				t.Fatal(failure, explore.Trace(failure, c.faults))
			}
			t.Logf("%+v", count)
		})
	}
}

// TestExploreRandom draws larger scenarios and schedules.
func TestExploreRandom(t *testing.T) {
	seeds := 2000
	if testing.Short() {
		seeds = 200
	}
	draw := func(rng *rand.Rand) (explore.System, explore.Faults) {
		s := &scenario{
			shape:  shape{nodes: 2 + rng.IntN(2), near: 1 + rng.IntN(2), blocks: 4 + rng.IntN(3), slots: 8},
			calls:  1 + rng.IntN(4),
			active: rng.Uint64(),
			piece:  []int{0, 0, 7, 31, 64}[rng.IntN(5)],
			ops:    []opKind{doPut, doFetch, doPutFrom, doGet, doAdd, doSignal, doTeam}[rng.IntN(6):][:1+rng.IntN(2)],
		}
		return s, explore.Faults{Deaths: rng.IntN(2), Losses: rng.IntN(4), Ticks: rng.IntN(2), Timeouts: 20}
	}
	for seed := range seeds {
		if _, failure := explore.Random(draw, uint64(seed)); failure != nil {
			t.Fatalf("seed %d: %v", seed, failure)
		}
	}
}
