package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/sim"
)

// teamNodes is nodes whose agents run the steps of a team of all their PEs by a bad network.
type teamNodes struct {
	t     *testing.T
	rng   *rand.Rand
	nodes []*testNode
	lost  []bool
	pes   []teamPE
	apart [2]int // nodes whose connections are cut again and again; equal: none
}

// teamPE is a PE that goes from step to step. The test moves it.
type teamPE struct {
	node    *testNode
	words   *layout.Upper
	local   int
	seq     uint64 // the step that it has entered
	dead    bool
	results []string
}

const (
	teamID    = 5
	teamStart = 1000 // of PE 0; that of the next one is a thousand more
	teamSteps = 25
)

// newTeamNodes returns nodes by a simulated network that moves little at a time and loses connections.
func newTeamNodes(t *testing.T, n int, seed uint64) *teamNodes {
	t.Helper()
	w := &teamNodes{t: t, rng: rand.New(rand.NewPCG(seed, 5)), lost: make([]bool, n)}
	network, err := sim.New(sim.Config{Nodes: n, Seed: seed, Piece: 200, Buffer: 2000, Cuts: 300})
	check(t, err)
	for i := range n {
		w.nodes = append(w.nodes, newNode(t, i, n))
	}
	for i, node := range w.nodes {
		node.sim = network.Node(i)
		t.Cleanup(func() { check(t, node.sim.Close()) })
		for _, other := range w.nodes {
			if other != node {
				check(t, node.transport.SetPeer(other.index, nodeIncarnation, other.transport.Addrs()))
			}
		}
		node.plain = true
		node.prepare(t, n)
		t.Cleanup(func() { check(t, node.transport.Close()) })
		for k := range nearPEs {
			w.pes = append(w.pes, teamPE{node: node, words: node.segments.Wire(layout.Local(k)).Upper(), local: k})
		}
	}
	return w
}

func (w *teamNodes) start(pe int) uint64 { return teamStart * uint64(pe+1) }

// announce tells the agent that the words of a PE have changed.
func (w *teamNodes) announce(pe int) {
	x := &w.pes[pe]
	atomic.OrUint64(&x.node.segments.Wire(layout.Local(x.local)).Teams, 1<<teamID)
}

// describe describes the team as a PE.
func (w *teamNodes) describe(pe int) {
	x := &w.pes[pe]
	p := &x.words.Parts[teamID]
	p.Start, p.Nodes, p.Me, p.Members = w.start(pe), uint32(len(w.nodes)), uint32(x.node.index), nearPEs
	for i := range w.nodes {
		p.Node[i] = uint16(i)
	}
	p.Local[0] = 1<<nearPEs - 1
	for line := range x.words.Lines {
		x.words.Lines[line][teamID].Cell.Word = p.Start
	}
	p.Name = [2]uint64{7, 7}
	w.announce(pe)
}

// move takes a PE a step further, if it is in none. What it gives takes several records of the agents' stream.
func (w *teamNodes) move(pe int) {
	x := &w.pes[pe]
	l := &x.words.Lines[layout.UpperSteps][teamID]
	if x.seq > teamSteps {
		return
	}
	if x.seq > 0 {
		if atomic.LoadUint64(&l.Result.Seq) < w.start(pe)+x.seq {
			return
		}
		r := &l.Result
		n := int(r.Lacks)*layout.UpperLackBytes + int(r.Gave)
		if r.Gave == layout.UpperTooMuch {
			w.t.Fatalf("PE %d: the result of step %d does not fit", pe, x.seq)
		}
		x.results = append(x.results, fmt.Sprintf("%x %d %x", r.Data, r.Lacks, r.Body[:n]))
		w.wantOwn(pe)
	}
	if x.seq++; x.seq > teamSteps {
		return
	}
	const give = 1000
	r := span.Record{First: [4]uint64{x.seq}, And: ^uint64(0) ^ 1<<pe, Member: int32(pe), Differs: -1, Who: -1, Give: give}
	copy(l.Cell.Data[:], r.Bytes())
	for i := range l.Given[:give] {
		l.Given[i] = byte(pe*40 + int(x.seq))
	}
	atomic.SwapUint64(&l.Cell.Word, w.start(pe)+x.seq)
	w.announce(pe)
}

// wantOwn fails the test unless what a PE gave is in the result that it reads.
func (w *teamNodes) wantOwn(pe int) {
	x := &w.pes[pe]
	r := &x.words.Lines[layout.UpperSteps][teamID].Result
	var d span.Record
	copy(d.Bytes(), r.Data[:])
	found := false
	for b := r.Body[int(r.Lacks)*layout.UpperLackBytes:][:r.Gave]; ; {
		node, member, data, rest, ok := span.CutPiece(b)
		if !ok {
			break
		}
		if node == x.node.index && member == x.local {
			found = len(data) == 1000 && data[0] == byte(pe*40+int(x.seq)) && data[999] == data[0]
		}
		b = rest
	}
	if !found || d.And>>pe&1 != 0 || d.First[0] != x.seq {
		w.t.Fatalf("PE %d is not in the result of step %d, which it has entered: %+v", pe, x.seq, d)
	}
}

// killPE kills a PE, as the agents of all nodes learn.
func (w *teamNodes) killPE(pe int) {
	x := &w.pes[pe]
	x.dead = true
	for i, node := range w.nodes {
		if !w.lost[i] {
			node.agent.DropPE(x.node.index, layout.Local(x.local))
		}
	}
}

// killNode kills a node.
func (w *teamNodes) killNode(index int) {
	w.lost[index] = true
	for i := range w.pes {
		if w.pes[i].node.index == index {
			w.pes[i].dead = true
		}
	}
	for i, node := range w.nodes {
		if !w.lost[i] {
			node.agent.DropNode(index)
		}
	}
}

// turn does one thing by chance.
func (w *teamNodes) turn() {
	if pe := w.rng.IntN(len(w.pes)); !w.pes[pe].dead && w.rng.IntN(3) == 0 {
		w.move(pe)
		return
	}
	if w.rng.IntN(200) == 0 {
		w.apart = [2]int{w.rng.IntN(len(w.nodes)), w.rng.IntN(len(w.nodes))}
	}
	if a, b := w.apart[0], w.apart[1]; a != b && w.rng.IntN(10) == 0 {
		for _, lane := range []transport.Lane{transport.Out, transport.In} {
			w.nodes[a].sim.Cut(b, lane, errCut)
		}
	}
	if i := w.rng.IntN(len(w.nodes)); !w.lost[i] {
		w.nodes[i].agent.disarm()
		check(w.t, w.nodes[i].agent.pass())
	}
}

// run makes turns until all PEs that live have the results of all steps.
func (w *teamNodes) run(ctx context.Context, deaths int) {
	w.t.Helper()
	for pe := range w.pes {
		w.describe(pe)
	}
	for turns := 0; ; turns++ {
		open := 0
		for i := range w.pes {
			if !w.pes[i].dead && len(w.pes[i].results) < teamSteps {
				open++
			}
		}
		if open == 0 {
			return
		}
		if ctx.Err() != nil {
			w.t.Fatalf("%d PEs have not ended after %d turns", open, turns)
		}
		if deaths > 0 && w.rng.IntN(400) == 0 {
			deaths--
			if pe := 1 + w.rng.IntN(len(w.pes)-1); w.rng.IntN(2) == 0 {
				w.killPE(pe)
			} else if node := w.pes[pe].node.index; node > 0 {
				w.killNode(node)
			}
		}
		w.turn()
	}
}

// Agents take the steps of a team by a network that moves few bytes at a time, in any order between nodes, and cuts connections
// in the midst of messages, some for a long time; PEs and nodes die. All that live have the same results.
func TestTeamsByBadNetwork(t *testing.T) {
	seeds := 12
	if testing.Short() {
		seeds = 4
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newTeamNodes(t, 3, seed)
			w.run(patient(t), int(seed%4))
			for pe := range w.pes {
				for i, result := range w.pes[pe].results {
					if !w.pes[pe].dead && result != w.pes[0].results[i] {
						t.Fatalf("step %d: PE %d has\n%s, PE 0\n%s", i+1, pe, result, w.pes[0].results[i])
					}
				}
			}
		})
	}
}

// An agent that is about to sleep sees news of teams that came since it looked: nobody rings its bell for them.
func TestNewsOfTeamsBeforeSleep(t *testing.T) {
	nodes, _ := stepNodes(t)
	a := nodes[0].agent
	a.disarm()
	a.takeReady()
	far.AnnounceTeam(nodes[0].ports[0], 3)
	if a.settle(true); a.armed {
		t.Error("the agent sleeps, although a PE has announced a team")
	}
	a.takeReady()
	if a.settle(true); !a.armed {
		t.Error("the agent does not sleep, although there is nothing new")
	}
	a.disarm()
}
