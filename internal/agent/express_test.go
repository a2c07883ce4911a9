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
	n.do(func(*Agent) { n.transport.SetExpress(w) })
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
// connections of agents are cut.
func TestExpressExactlyOnce(t *testing.T) {
	nodes := startNodes(t, 3)
	rng := rand.New(rand.NewPCG(1, 17))
	lossy := func(bool) bool { return rng.IntN(40) == 0 }
	var watches []*watched
	for _, n := range nodes {
		n.do(func(a *Agent) { a.cfg.Log = nil })
	}
	seed := uint64(0)
	for _, n := range nodes {
		seed++
		own := rand.New(rand.NewPCG(seed, 17))
		watches = append(watches, n.watch(func(bool) bool { return own.IntN(40) == 0 }))
	}
	_ = lossy
	const rounds = 3000
	var wg sync.WaitGroup
	seen := make([][]uint64, len(nodes)*nearPEs)
	for pe := range len(nodes) * nearPEs {
		p := nodes[pe/nearPEs].ports[pe%nearPEs]
		for range 2 { // goroutines of a PE: one of them finds the socket busy
			wg.Go(func() {
				for i := range rounds {
					to := layout.PE((pe/nearPEs*nearPEs + nearPEs + i%((len(nodes)-1)*nearPEs)) % (len(nodes) * nearPEs))
					if _, err := p.Fetch(t.Context(), nil, to, layout.HeapOffset, record.AtomicAdd, 8, 1, 0); err != nil {
						t.Errorf("PE %d, round %d: %v", pe, i, err)
						return
					}
				}
			})
		}
	}
	cuts := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-cuts:
				return
			case <-time.After(20 * time.Millisecond):
				n := nodes[i%len(nodes)]
				n.do(func(a *Agent) { n.transport.Cut((n.index+1)%len(nodes), 0, errCut) })
			}
		}
	}()
	wg.Wait()
	close(cuts)
	<-ended
	_ = seen
	var total uint64
	for _, n := range nodes {
		for i := range layout.Local(nearPEs) {
			total += atomic.LoadUint64(n.at(i, 0))
		}
	}
	if want := uint64(len(nodes) * nearPEs * 2 * rounds); total != want {
		t.Errorf("the words add up to %d, want %d: each fetch-add once", total, want)
	}
	served := int64(0)
	for _, w := range watches {
		served += w.served.Load()
	}
	if served < rounds {
		t.Errorf("only %d requests went by express sockets", served)
	}
}
