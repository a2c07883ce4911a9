package agent

import (
	"errors"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/tcp"
)

const (
	testHeap = 8 << 20
	nearPEs  = 2 // of each node
)

var (
	testJob = [16]byte{1, 2, 3}
	testKey = [32]byte{4, 5, 6}
)

// testNode is a node in this process: the segments of its PEs, their ports, and an agent.
type testNode struct {
	index     int
	segments  *symheap.Map
	page      *layout.AgentPage
	transport *tcp.Transport
	sim       transport.Transport // takes the place of the transport; nil: none does
	ports     []*far.Port
	event     int           // to which PEs write to wake the agent; 0: the transport's
	deaths    []atomic.Bool // by PE of the job: Dead says so
	patience  time.Duration // of the agent; 0: no limit
	plain     bool          // PEs have no express sockets
	stop      atomic.Bool
	order     chan func(a *Agent) // what the agent is to do
	ended     chan error
	agent     *Agent
}

var (
	errStopped = errors.New("stopped by the test")
	errCut     = errors.New("cut by the test")
)

// startNodes starts nodes with agents, which end with the test. The changes are made before.
func startNodes(t *testing.T, n int, changes ...func(*testNode)) []*testNode {
	t.Helper()
	nodes := make([]*testNode, n)
	for i := range nodes {
		nodes[i] = newNode(t, i, n)
	}
	for _, node := range nodes {
		for _, other := range nodes {
			if node != other {
				check(t, node.transport.SetPeer(other.index, nodeIncarnation, other.transport.Addrs()))
			}
		}
	}
	for _, node := range nodes {
		for _, change := range changes {
			change(node)
		}
		node.run(t, n)
	}
	return nodes
}

func newNode(t *testing.T, index, nodes int) *testNode {
	t.Helper()
	node := &testNode{index: index, order: make(chan func(*Agent), 1), ended: make(chan error, 1), deaths: make([]atomic.Bool, nodes*nearPEs)}
	for i := range layout.Local(nearPEs) {
		pe := index*nearPEs + int(i)
		f, err := symheap.Create(symheap.Identity{Job: testJob, PE: uint32(pe), NPEs: uint32(nodes * nearPEs), Incarnation: 1}, testHeap, symheap.WithWire())
		check(t, err)
		info, err := f.Stat()
		check(t, err)
		if node.segments == nil {
			node.segments, err = symheap.NewMap(testJob, nearPEs, uint64(info.Size()))
			check(t, err)
		}
		check(t, node.segments.Attach(i, layout.PE(pe), int(f.Fd())))
		check(t, f.Close())
	}
	f, err := symheap.CreateAgentPage(nil)
	check(t, err)
	node.page, err = symheap.MapAgentPage(int(f.Fd()))
	check(t, err)
	check(t, f.Close())
	node.transport, err = tcp.New(tcp.Config{
		Self: index, Nodes: nodes, Incarnation: nodeIncarnation, Secret: testKey, Job: testJob, Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
	})
	check(t, err)
	return node
}

// prepare makes the agent of the node, and the ports of its PEs.
func (n *testNode) prepare(t *testing.T, nodes int) {
	t.Helper()
	cfg := Config{
		Job: testJob, Node: n.index, Nodes: nodes, Incarnation: 1, Segments: n.segments, Page: n.page, Transport: n.medium(),
		Patience: n.patience, Orders: n.orders, Fault: func(pe layout.Local, err error) { t.Logf("fault of local PE %d of node %d: %v", pe, n.index, err) }, Log: func(err error) {
			if !errors.Is(err, errCut) {
				t.Logf("agent of node %d: %v", n.index, err)
			}
		},
	}
	check(t, registerMembarrier(&cfg))
	if n.event == 0 {
		n.event = n.transport.WakeFD()
	}
	var err error
	if !n.plain {
		cfg.Express = n.transport
	}
	n.agent, err = New(cfg)
	check(t, err)
	for i := range layout.Local(nearPEs) {
		w := wait.NewWaiter(&n.segments.Control(i).Bell, wait.PolicyFor(nodes*nearPEs+nodes, runtime.NumCPU()))
		p, err := far.New(far.Config{
			Wire: n.segments.Wire(i), Base: n.segments.Segment(i), Size: n.segments.Size(), Agent: &n.page.Bell, Event: n.event,
			Operations: &n.page.Traffic[i].Operations, Express: &n.page.Traffic[i].Express,
			Waiter: w, Nodes: nodes, Line: n.newLine(t, i), PE: layout.PE(n.index*nearPEs + int(i)), Incarnation: 1, Home: func(pe layout.PE) (int, layout.Local) { return int(pe) / nearPEs, layout.Local(pe) % nearPEs },
			Dead: func(pe layout.PE) error {
				if n.deaths[pe].Load() {
					return errors.New("dead by the test's word")
				}
				return nil
			},
		})
		check(t, err)
		n.ports = append(n.ports, p)
	}
}

// newLine returns the PE's end of a line to the agent; 0: it has none.
func (n *testNode) newLine(t *testing.T, pe layout.Local) int {
	t.Helper()
	if n.plain {
		return 0
	}
	here, there, err := xunix.PacketPair()
	check(t, err)
	fd, err := xunix.KeepFD(int(there.Fd()))
	check(t, err)
	check(t, n.agent.SetLine(pe, fd))
	check(t, there.Close())
	t.Cleanup(func() { check(t, here.Close()) })
	return int(here.Fd())
}

// medium returns what the agent sends by.
func (n *testNode) medium() transport.Transport {
	if n.sim != nil {
		return n.sim
	}
	return n.transport
}

// run runs the agent until the end of the test.
func (n *testNode) run(t *testing.T, nodes int) {
	t.Helper()
	n.prepare(t, nodes)
	go func() {
		runtime.LockOSThread()
		n.ended <- n.agent.Run()
	}()
	t.Cleanup(func() {
		n.stop.Store(true)
		n.transport.Wake()
		if err := <-n.ended; !errors.Is(err, errStopped) {
			t.Errorf("agent of node %d: %v", n.index, err)
		}
		for _, p := range n.ports {
			p.Close()
		}
		check(t, n.transport.Close())
	})
}

// orders carries out what the test wants.
func (n *testNode) orders(a *Agent) error {
	if n.stop.Load() {
		return errStopped
	}
	select {
	case f := <-n.order:
		f(a)
	default:
	}
	return nil
}

// do has the agent carry something out, and waits for that.
func (n *testNode) do(f func(a *Agent)) {
	done := make(chan struct{})
	n.order <- func(a *Agent) { f(a); close(done) }
	n.transport.Wake()
	<-done
}

// at returns the address of a word in the heap of a PE.
func (n *testNode) at(pe layout.Local, off uint64) *uint64 {
	return (*uint64)(n.agent.memory.at(pe, layout.HeapOffset+off))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
