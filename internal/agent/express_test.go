package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/express"
	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/tcp"
)

// watched is an agent's part in express sockets, with faults. Only the goroutine of the agent uses it, except for served.
type watched struct {
	*expressDesk
	served atomic.Int64
	fault  func(request bool) bool // says whether to lose the socket before or after a request is executed
}

var errLoss = errors.New("lost by the test")

func (w *watched) Take(c express.Caller, id uint64, request []byte) ([]byte, error) {
	if w.fault != nil && w.fault(true) {
		return nil, errLoss
	}
	reply, err := w.expressDesk.Take(c, id, request)
	if reply != nil {
		w.served.Add(1)
	}
	if err == nil && reply != nil && w.fault != nil && w.fault(false) {
		return nil, errLoss
	}
	return reply, err
}

// watch puts a watched in the place of the agent's part.
func (n *testNode) watch(fault func(bool) bool) *watched {
	w := &watched{expressDesk: n.agent.express, fault: fault}
	n.do(func(*Agent) { w.door = tcp.ServeExpress(n.transport, w) })
	return w
}

// awaitExpress makes round trips until one goes by an express socket.
func awaitExpress(t *testing.T, p *far.Port, pe layout.PE, w *watched) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for w.served.Load() == 0 {
		_, err := p.Fetch(ctx, nil, pe, layout.HeapOffset, record.AtomicLoad, 8, 0, 0)
		check(t, err)
	}
}

// Fetches and gets by express sockets give what those through agents give.
func TestExpress(t *testing.T) {
	nodes := startNodes(t, 2)
	w := nodes[1].watch(nil)
	p := nodes[0].ports[0]
	awaitExpress(t, p, 2, w)
	from := w.served.Load()
	word := nodes[1].at(0, 8)
	for i := range uint64(100) {
		old, err := p.Fetch(t.Context(), nil, 2, layout.HeapOffset+8, record.AtomicAdd, 8, 3, 0)
		check(t, err)
		var got uint64
		check(t, p.Get(t.Context(), nil, 2, layout.HeapOffset+8, unsafe.Pointer(&got), 8))
		if old != 3*i || got != 3*i+3 || atomic.LoadUint64(word) != got {
			t.Fatalf("fetch-add %d returns %d, and then the word is %d here and %d there", i, old, got, atomic.LoadUint64(word))
		}
	}
	data := make([]byte, express.MaxData)
	there := nodes[1].agent.memory.bytes(1, layout.HeapOffset+4096, len(data))
	for i := range there {
		there[i] = byte(i * 7)
	}
	check(t, p.Get(t.Context(), nil, 3, layout.HeapOffset+4096, unsafe.Pointer(&data[0]), len(data)))
	for i := range data {
		if data[i] != byte(i*7) {
			t.Fatalf("byte %d is %d, want %d", i, data[i], byte(i*7))
		}
	}
	if n := w.served.Load() - from; n != 201 {
		t.Errorf("%d requests of 201 went by the express socket", n)
	}
}

// A request follows the puts before it, and a put the request: the one through the agent, the other past it.
func TestExpressOrder(t *testing.T) {
	nodes := startNodes(t, 2)
	w := nodes[1].watch(nil)
	p := nodes[0].ports[0]
	awaitExpress(t, p, 2, w)
	var touched far.Touched
	for i := uint64(1); i <= 2000; i++ {
		if i%3 > 0 {
			check(t, p.Put(t.Context(), &touched, 2, layout.HeapOffset+16, unsafe.Pointer(&i), 8))
		}
		if i%5 > 0 {
			check(t, p.Quiet(t.Context(), &touched))
		}
		want := i
		if i%3 == 0 {
			want = i - 1
		}
		var got uint64
		check(t, p.Get(t.Context(), &touched, 2, layout.HeapOffset+16, unsafe.Pointer(&got), 8))
		if got != want {
			t.Fatalf("round %d: got %d, want %d", i, got, want)
		}
	}
	if w.served.Load() < 1000 {
		t.Errorf("only %d requests went by the express socket", w.served.Load())
	}
}

// Fetch-adds take place exactly once while express sockets are lost at random, before and after a request is executed, and
// connections of agents are cut. The values of all fetches of a word are 0, 1, 2, ...
func TestExpressExactlyOnce(t *testing.T) {
	const nodeCount, goroutines, rounds = 3, 2, 500 // one of the goroutines of a PE finds the socket busy
	const pes = nodeCount * nearPEs
	nodes := startNodes(t, nodeCount)
	var watches []*watched
	for i, n := range nodes {
		n.do(func(a *Agent) { a.cfg.Log = nil })
		rng := rand.New(rand.NewPCG(uint64(i), 17))
		watches = append(watches, n.watch(func(bool) bool { return rng.IntN(60) == 0 }))
	}
	var wg sync.WaitGroup
	var values [pes][rounds * goroutines * pes]atomic.Int32 // by word and value: how many fetches have returned it
	for pe := range pes {
		p := nodes[pe/nearPEs].ports[pe%nearPEs]
		for range goroutines {
			wg.Go(func() {
				for i := range rounds {
					to := (pe/nearPEs*nearPEs + nearPEs + i%(pes-nearPEs)) % pes // of another node
					old, err := p.Fetch(t.Context(), nil, layout.PE(to), layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
					if err != nil || old >= uint64(len(values[to])) {
						t.Errorf("PE %d, round %d: %d, %v", pe, i, old, err)
						return
					}
					values[to][old].Add(1)
				}
			})
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go cutConnections(nodes, stop, stopped)
	wg.Wait()
	close(stop)
	<-stopped
	total, served := uint64(0), int64(0)
	for pe := range pes {
		n := atomic.LoadUint64(nodes[pe/nearPEs].at(layout.Local(pe%nearPEs), 0))
		total += n
		for v := range values[pe] {
			if got := values[pe][v].Load(); got != 1 && uint64(v) < n || got != 0 && uint64(v) >= n {
				t.Errorf("%d fetches of PE %d return %d; its word is %d", got, pe, v, n)
			}
		}
	}
	for _, w := range watches {
		served += w.served.Load()
	}
	if want := uint64(pes * goroutines * rounds); total != want {
		t.Errorf("the words add up to %d, want %d", total, want)
	}
	if served < pes {
		t.Errorf("only %d requests went by express sockets", served)
	}
}

// cutConnections cuts connections of agents, one every few milliseconds, until stop is closed.
func cutConnections(nodes []*testNode, stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-tick.C:
			n := nodes[i%len(nodes)]
			n.do(func(*Agent) { n.transport.Cut((n.index+1)%len(nodes), transport.Out, errCut) })
		}
	}
}

// When an agent has carried out the order that a PE or a node is dead, nothing of it is executed any more, by no socket, and
// none is opened. Other PEs keep theirs.
func TestExpressDrops(t *testing.T) {
	for name, drop := range map[string]func(a *Agent){
		"PE":   func(a *Agent) { a.DropPE(0, 0) },
		"node": func(a *Agent) { a.DropNode(0) },
	} {
		t.Run(name, func(t *testing.T) {
			nodes := startNodes(t, 2)
			w := nodes[1].watch(nil)
			p := nodes[0].ports[0]
			awaitExpress(t, p, 2, w)
			nodes[1].do(drop)
			before := w.served.Load()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			word := atomic.LoadUint64(nodes[1].at(0, 0))
			for ctx.Err() == nil { // the PE does not know that it is dead
				_, _ = p.Fetch(ctx, nil, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
			}
			if n := w.served.Load() - before; n != 0 {
				t.Errorf("%d requests of the dead PE were served", n)
			}
			if now := atomic.LoadUint64(nodes[1].at(0, 0)); now != word {
				t.Errorf("the word of PE 2 was %d at the death, and is %d", word, now)
			}
			nodes[1].do(func(a *Agent) {
				if _, v := w.Admit(express.Caller{Node: 0, Local: 0, Incarnation: 1}, 1); v != express.Gone {
					t.Errorf("a new socket: verdict %d, want %d", v, express.Gone)
				}
			})
		})
	}
}
