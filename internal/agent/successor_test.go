package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/express"
	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/sim"
)

// media are what the agents of a test can send by.
var media = []string{"tcp", "sim"}

// pair is two nodes whose agents run when the test steps them.
type pair struct {
	t     *testing.T
	ctx   context.Context
	nodes []*testNode
}

// newPair returns two nodes.
func newPair(t *testing.T, medium string, seed uint64) *pair {
	t.Helper()
	p := &pair{t: t, ctx: patient(t), nodes: []*testNode{newNode(t, 0, 2), newNode(t, 1, 2)}}
	network, err := sim.New(sim.Config{Nodes: 2, Seed: seed, Piece: 600})
	check(t, err)
	for i, node := range p.nodes {
		if medium == "sim" {
			node.sim = network.Node(i)
			t.Cleanup(func() { check(t, node.sim.Close()) })
		}
		check(t, node.transport.SetPeer(1-i, nodeIncarnation, p.nodes[1-i].transport.Addrs()))
		node.prepare(t, 2)
		t.Cleanup(func() { check(t, node.transport.Close()) })
	}
	return p
}

// step makes a pass of an agent. It does not wait.
func (p *pair) step(node int) {
	p.t.Helper()
	p.nodes[node].agent.disarm()
	check(p.t, p.nodes[node].agent.pass())
}

// stepUntil makes passes of some agents until a condition holds.
func (p *pair) stepUntil(what string, is func() bool, nodes ...int) {
	p.t.Helper()
	for !is() {
		if p.ctx.Err() != nil {
			p.t.Fatalf("%s: not yet", what)
		}
		for _, node := range nodes {
			p.step(node)
		}
		runtime.Gosched()
	}
}

// do makes passes of both agents until an operation has returned.
func (p *pair) do(operation func() error) error {
	p.t.Helper()
	done := make(chan error, 1)
	go func() { done <- operation() }()
	var err error
	p.stepUntil("operation", func() bool {
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	}, 0, 1)
	return err
}

// add adds 1 to the counter of PE 2, by a fetching operation of a port of node 0.
func (p *pair) add(port *far.Port) (old uint64, err error) {
	err = p.do(func() error {
		old, err = port.Fetch(p.ctx, nil, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
		return err
	})
	return old, err
}

// counter returns the counter of PE 2.
func (p *pair) counter() uint64 { return atomic.LoadUint64(p.nodes[1].at(0, 0)) }

// posted says whether all that PEs of a node have written is the kernel's.
func (p *pair) posted(node int) bool {
	a := p.nodes[node].agent
	for i := range a.sources {
		if s := &a.sources[i]; !s.dead && s.head != atomic.LoadUint64(&s.wire.Tail) {
			return false
		}
	}
	return len(a.held) == 0 && a.haveEnded(a.countPosts())
}

// succeed kills PE 0 for its own agent, and returns the port of its successor on the same segment, which begins when the agent
// says so. The agents of some nodes make passes.
func (p *pair) succeed(incarnation uint32, nodes ...int) *far.Port {
	p.t.Helper()
	node := p.nodes[0]
	node.agent.DropIncarnation(0, 0, incarnation-1)
	p.stepUntil("start of a successor", func() bool {
		started, err := node.agent.StartPE(0, incarnation)
		check(p.t, err)
		return started
	}, nodes...)
	control := node.segments.Control(0)
	port, err := far.New(far.Config{
		Wire: node.segments.Wire(0), Base: node.segments.Segment(0), Size: node.segments.Size(), Agent: &node.page.Bell, Event: node.event,
		Waiter: wait.NewWaiter(&control.Bell, wait.PolicyFor(2, runtime.NumCPU())), Nodes: 2,
		Line: node.newLine(p.t, 0), PE: 0, Incarnation: incarnation,
		Home: func(pe layout.PE) (int, layout.Local) { return int(pe) / nearPEs, layout.Local(pe) % nearPEs },
		Dead: func(layout.PE) error { return nil },
	})
	check(p.t, err)
	return port
}

// forEachMedium runs a test by real sockets, and by simulated ones in some orders of what happens.
func forEachMedium(t *testing.T, test func(t *testing.T, p *pair)) {
	for _, medium := range media {
		seeds := 1
		if medium == "sim" {
			seeds = 25
		}
		t.Run(medium, func(t *testing.T) {
			for seed := range uint64(seeds) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { test(t, newPair(t, medium, seed)) })
			}
		})
	}
}

// A successor has a fresh stream, counts that begin at 0, and no answers of its predecessor. What the predecessor has sent and
// the other agent has not yet received takes place before, or not at all if that agent knows of the death. Nothing of it takes
// place later, and none of its answers comes to the successor.
func TestSuccessor(t *testing.T) {
	forEachMedium(t, func(t *testing.T, p *pair) {
		port, dead := p.nodes[0].ports[0], uint32(0)
		total := uint64(0)
		for incarnation := uint32(2); incarnation < 6; incarnation++ {
			known := incarnation%2 == 0 // the other agent learns of the death before it receives the late records
			rounds := 5
			if known { // the only answer is to request 0, which the successor has, too
				rounds = 1
			}
			for range rounds {
				old, err := p.add(port)
				check(t, err)
				if old != total {
					t.Fatalf("incarnation %d: an addition returns %d, want %d", incarnation-1, old, total)
				}
				total++
			}
			// Late records: additions, and a request whose answer nobody awaits any more. The other agent does not run.
			var touched far.Touched
			for range rounds {
				check(t, port.Update(p.ctx, &touched, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0))
			}
			_, err := port.StartFetch(p.ctx, &touched, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
			check(t, err)
			p.stepUntil("late records are sent", func() bool { return p.posted(0) }, 0)
			if known {
				dead = incarnation - 1
				p.nodes[1].agent.DropIncarnation(0, 0, dead)
			} else {
				total += uint64(rounds) + 1
			}
			port = p.succeed(incarnation, 0)
			done := &p.nodes[0].segments.Wire(0).Done[layout.ClassOneSided][1]
			if n := atomic.LoadUint64(done); n != 0 {
				t.Fatalf("incarnation %d: Done is %d at its start", incarnation, n)
			}
			old, err := p.add(port) // its answer has the slot of earlier ones
			check(t, err)
			if old != total || p.counter() != total+1 {
				t.Fatalf("incarnation %d, its predecessor's death is known: %t: an addition finds %d and leaves %d, want %d and %d",
					incarnation, known, old, p.counter(), total, total+1)
			}
			total++
			p.stepUntil("the only record is done", func() bool { return atomic.LoadUint64(done) == 1 }, 0, 1)
			p.nodes[1].agent.DropIncarnation(0, 0, dead) // the same news again
		}
	})
}

// Connections that are cut lose nothing of a successor, and bring nothing of its predecessor.
func TestSuccessorCut(t *testing.T) {
	forEachMedium(t, func(t *testing.T, p *pair) {
		total := uint64(0)
		port := p.nodes[0].ports[0]
		for incarnation := uint32(2); incarnation < 5; incarnation++ {
			var touched far.Touched
			for range 20 { // they are sent, and cut, or lost with their sender
				check(t, port.Update(p.ctx, &touched, 2, layout.HeapOffset+8, record.AtomicAdd, 8, 1, 0))
			}
			for range incarnation {
				p.step(0)
			}
			port = p.succeed(incarnation, 0, 1)
			for round := range 30 {
				if round%7 == 3 {
					p.nodes[round%2].medium().Cut(1-round%2, transport.Lane((round%2)^int(transport.Out)), errCut)
				}
				old, err := p.add(port)
				check(t, err)
				if old != total {
					t.Fatalf("incarnation %d, round %d: an addition returns %d, want %d", incarnation, round, old, total)
				}
				total++
			}
		}
		if late := atomic.LoadUint64(p.nodes[1].at(0, 8)); late > 60 {
			t.Errorf("dead PEs have added %d, want at most 60", late)
		}
	})
}

// Requests for a PE are answered by the word that it is dead until its successor starts. Then they reach that one.
func TestSuccessorIsReached(t *testing.T) {
	forEachMedium(t, func(t *testing.T, p *pair) {
		ask := func() error {
			return p.do(func() error {
				_, err := p.nodes[1].ports[0].Fetch(p.ctx, nil, 0, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
				return err
			})
		}
		check(t, ask())
		p.nodes[0].agent.DropPE(0, 0)
		dead := new(far.DeadError)
		if err := ask(); !errors.As(err, &dead) || dead.PE != 0 {
			t.Errorf("a fetch from a dead PE: %v, want a DeadError of PE 0", err)
		}
		port := p.succeed(2, 0)
		check(t, ask())
		p.nodes[0].agent.DropPE(0, 0) // late news of the first one
		check(t, ask())
		v := uint64(9)
		check(t, p.do(func() error {
			var touched far.Touched
			return errors.Join(port.Put(p.ctx, &touched, 3, layout.HeapOffset, unsafe.Pointer(&v), 8), port.Quiet(p.ctx, &touched))
		}))
		if got := *p.nodes[1].at(1, 0); got != v {
			t.Errorf("the successor has put %d, want %d", got, v)
		}
		if got := atomic.LoadUint64(p.nodes[0].at(0, 0)); got != 3 {
			t.Errorf("3 additions on living PEs have made %d", got)
		}
	})
}

// A successor starts once nothing that refers to its predecessor's memory is under way, and never beside it.
func TestSuccessorWaits(t *testing.T) {
	p := newPair(t, "sim", 1)
	a, port := p.nodes[0].agent, p.nodes[0].ports[0]
	_, err := p.add(port)
	check(t, err)
	if started, err := a.StartPE(0, 2); err == nil || started {
		t.Errorf("a second incarnation starts beside the first one: %t, %v", started, err)
	}
	var touched far.Touched
	data := make([]byte, 200<<10) // more than a connection of the simulation holds, and less than a PE may have under way
	check(t, port.Put(p.ctx, &touched, 2, layout.HeapOffset+64, unsafe.Pointer(&data[0]), len(data)))
	for range 50 {
		p.step(0)
	}
	order := wire.AgentDrop{Node: 0, PE: 0, Incarnation: 1}
	check(t, (&orders{}).carryOut(a, order.Append(nil), -1))
	for range 50 {
		p.step(0)
		if started, err := a.StartPE(0, 2); err != nil || started {
			t.Fatalf("a successor starts while posts are under way: %t, %v", started, err)
		}
	}
	for _, inc := range []uint32{0, 1} {
		if started, err := a.StartPE(0, inc); err == nil || started {
			t.Errorf("incarnation %d starts after incarnation 1: %t, %v", inc, started, err)
		}
	}
	for _, local := range []layout.Local{-1, nearPEs} {
		if started, err := a.StartPE(local, 2); err == nil || started {
			t.Errorf("local PE %d starts: %t, %v", local, started, err)
		}
	}
	a.cfg.Transport.Cut(1, transport.Out, errCut) // the posts end with their connection
	port = p.succeed(2, 0)
	old, err := p.add(port)
	check(t, err)
	if old != 1 {
		t.Errorf("an addition of the successor returns %d, want 1", old)
	}
}

// A successor gets express sockets of its own. The other agent has that of its predecessor, and may not know of the death.
func TestSuccessorExpress(t *testing.T) {
	for _, known := range []bool{false, true} {
		p := newPair(t, "tcp", 1)
		port, total := p.nodes[0].ports[0], uint64(0)
		for incarnation := uint32(1); incarnation < 4; incarnation++ {
			if incarnation > 1 {
				if known {
					p.nodes[1].agent.DropIncarnation(0, 0, incarnation-1)
				}
				port = p.succeed(incarnation, 0, 1)
			}
			t.Cleanup(port.Close)
			for trips := 0; far.ExpressSockets(port) == 0 || trips < 3*express.FirstTrips; trips++ {
				old, err := p.add(port)
				check(t, err)
				if old != total {
					t.Fatalf("incarnation %d: an addition returns %d, want %d", incarnation, old, total)
				}
				if total++; trips > 100*express.FirstTrips {
					t.Fatalf("incarnation %d has no express socket after %d round trips; its predecessor's death is known: %t", incarnation, trips, known)
				}
			}
		}
	}
}
