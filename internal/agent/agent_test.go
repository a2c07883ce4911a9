package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
)

// patient returns a context that ends before the test does.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Puts of all sizes arrive, quiet waits for them, and gets read what is there.
func TestPutAndGet(t *testing.T) {
	nodes := startNodes(t, 2)
	ctx, port := patient(t), nodes[0].ports[0]
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 4, 7, 8, 24, 511, 512, 513, 4000, 4016, 4017, 65536, 1 << 20, 3<<20 + 5} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		var touched far.Touched
		off := uint64(layout.HeapOffset + 64)
		check(t, port.Put(ctx, &touched, 3, off, unsafe.Pointer(&data[0]), n))
		check(t, port.Quiet(ctx, &touched))
		if got := nodes[1].agent.memory.bytes(1, off, n); string(got) != string(data) {
			t.Fatalf("put of %d bytes: other bytes are in the memory of PE 3 after quiet", n)
		}
		back := make([]byte, n)
		check(t, port.Get(ctx, &touched, 3, off, unsafe.Pointer(&back[0]), n))
		if string(back) != string(data) {
			t.Fatalf("get of %d bytes: other bytes than were put", n)
		}
	}
}

// Operations of both nodes at once, 100,000 in all: each PE of each node puts, gets and adds on PEs of the other one. Every
// put arrives, in order, and every addition counts once.
func TestManyOperations(t *testing.T) {
	nodes := startNodes(t, 2)
	ctx := patient(t)
	rounds := uint64(25_000 / nearPEs / 2)
	if testing.Short() {
		rounds /= 10
	}
	var all sync.WaitGroup
	for _, node := range nodes {
		for i := range layout.Local(nearPEs) {
			all.Go(func() {
				other := layout.PE((1-node.index)*nearPEs) + layout.PE(i)
				if err := operate(ctx, node.ports[i], other, uint64(8*(2*node.index+int(i))), rounds); err != nil {
					t.Errorf("node %d, PE %d: %v", node.index, i, err)
				}
			})
		}
	}
	all.Wait()
	for _, node := range nodes {
		for i := range layout.Local(nearPEs) {
			if got := atomic.LoadUint64(node.at(i, 4096)); got != 2*rounds {
				t.Errorf("node %d, PE %d: the counter is %d, want %d", node.index, i, got, 2*rounds)
			}
		}
	}
}

// operate makes 4 operations in each of some rounds: a put of the round, an addition, a fetching one, and a get that sees the
// put, because it comes after it in the stream.
func operate(ctx context.Context, p *far.Port, to layout.PE, off uint64, rounds uint64) error {
	var touched far.Touched
	off += layout.HeapOffset
	for i := range rounds {
		var got uint64
		err := p.Put(ctx, &touched, to, off, unsafe.Pointer(&i), 8)
		if err == nil {
			err = p.Update(ctx, &touched, to, layout.HeapOffset+4096, record.AtomicAdd, 8, 1, 0)
		}
		if err == nil {
			_, err = p.Fetch(ctx, &touched, to, layout.HeapOffset+4096, record.AtomicAdd, 8, 1, 0)
		}
		if err == nil {
			err = p.Get(ctx, &touched, to, off, unsafe.Pointer(&got), 8)
		}
		if err == nil && got != i {
			err = fmt.Errorf("a get after put %d reads %d", i, got)
		}
		if err != nil {
			return err
		}
	}
	return p.Quiet(ctx, &touched)
}

// Many small puts fill blocks. After quiet the last one is there, and with it all before.
func TestStreamOfPuts(t *testing.T) {
	nodes := startNodes(t, 2)
	ctx, port := patient(t), nodes[0].ports[1]
	const n = 200_000
	var touched far.Touched
	for i := range uint64(n) {
		check(t, port.Put(ctx, &touched, 2, layout.HeapOffset+8*i, unsafe.Pointer(&i), 8))
	}
	check(t, port.Quiet(ctx, &touched))
	for i := range uint64(n) {
		if got := *nodes[1].at(0, 8*i); got != i {
			t.Fatalf("word %d is %d after quiet", i, got)
		}
	}
}

// Strided puts and gets go to the blocks that they name, for elements of all sizes.
func TestStrided(t *testing.T) {
	nodes := startNodes(t, 2)
	ctx, port := patient(t), nodes[0].ports[0]
	for _, elem := range []int{1, 2, 4, 8, 24} {
		var touched far.Touched
		const n, block, stride = 300, 3, 5
		data := make([]byte, elem*n*block)
		for i := range data {
			data[i] = byte(i*7 + elem)
		}
		off := uint64(layout.HeapOffset)
		check(t, port.PutStrided(ctx, &touched, 2, off, unsafe.Pointer(&data[0]), uintptr(elem), stride, block, block, n))
		back := make([]byte, len(data))
		check(t, port.GetStrided(ctx, &touched, 2, off, unsafe.Pointer(&back[0]), uintptr(elem), block, stride, block, n))
		if string(back) != string(data) {
			t.Errorf("elements of %d bytes: a strided get reads other bytes than were put", elem)
		}
		for i := range n {
			from := data[i*block*elem:][:block*elem]
			if got := nodes[1].agent.memory.bytes(0, off+uint64(i*stride*elem), block*elem); string(got) != string(from) {
				t.Fatalf("elements of %d bytes: block %d has other bytes than were put", elem, i)
			}
		}
	}
}

// Atomic operations on words of both widths do what they say, and return the old value.
func TestAtomics(t *testing.T) {
	nodes := startNodes(t, 2)
	ctx, port := patient(t), nodes[0].ports[0]
	for _, width := range []int{4, 8} {
		*nodes[1].at(0, 0) = 0xf0
		for _, op := range []struct {
			code          record.AtomicCode
			operand, cond uint64
			old, now      uint64
		}{
			{record.AtomicLoad, 0, 0, 0xf0, 0xf0},
			{record.AtomicAdd, 5, 0, 0xf0, 0xf5},
			{record.AtomicAnd, 0x3c, 0, 0xf5, 0x34},
			{record.AtomicOr, 0x100, 0, 0x34, 0x134},
			{record.AtomicXor, 0x4, 0, 0x134, 0x130},
			{record.AtomicCompareSwap, 7, 1, 0x130, 0x130},
			{record.AtomicCompareSwap, 7, 0x130, 0x130, 7},
			{record.AtomicSwap, 8, 0, 7, 8},
			{record.AtomicSet, 9, 0, 8, 9},
		} {
			old, err := port.Fetch(ctx, nil, 2, layout.HeapOffset, op.code, width, op.operand, op.cond)
			check(t, err)
			if now := atomic.LoadUint64(nodes[1].at(0, 0)); old != op.old || now != op.now {
				t.Errorf("operation %d on %d bytes returns %#x and leaves %#x, want %#x and %#x", op.code, width, old, now, op.old, op.now)
			}
		}
	}
}

// A signal comes after the puts before it, and wakes a PE that sleeps.
func TestSignal(t *testing.T) {
	nodes := startNodes(t, 2)
	ctx, port := patient(t), nodes[0].ports[0]
	var touched far.Touched
	data := make([]uint64, 3000)
	for i := range data {
		data[i] = 42
	}
	check(t, port.Put(ctx, &touched, 2, layout.HeapOffset+64, unsafe.Pointer(&data[0]), 8*len(data)))
	check(t, port.Signal(ctx, &touched, 2, layout.HeapOffset, 7, true))
	for atomic.LoadUint64(nodes[1].at(0, 0)) != 7 {
		check(t, ctx.Err())
	}
	if got := *nodes[1].at(0, 64+8*uint64(len(data)-1)); got != 42 {
		t.Errorf("the last word is %d after the signal, want 42", got)
	}
	check(t, port.Quiet(ctx, &touched))
}

// A request beyond the heap is refused, and changes nothing else.
func TestRefusal(t *testing.T) {
	nodes := startNodes(t, 2)
	ctx, port := patient(t), nodes[0].ports[0]
	var v uint64
	beyond := nodes[1].segments.Size() - layout.WireSize
	if err := port.Get(ctx, nil, 2, beyond, unsafe.Pointer(&v), 8); !errors.Is(err, far.ErrRefused) {
		t.Errorf("a get beyond the heap: %v, want ErrRefused", err)
	}
	var touched far.Touched
	check(t, port.Put(ctx, &touched, 2, beyond, unsafe.Pointer(&v), 8))
	check(t, port.Quiet(ctx, &touched))
}

// Fetches from a PE that the agent knows to be dead say so, and what is put there counts as executed.
func TestDeadPE(t *testing.T) {
	nodes := startNodes(t, 2)
	ctx, port := patient(t), nodes[0].ports[0]
	nodes[1].do(func(a *Agent) { a.DropPE(1, 0) })
	var touched far.Touched
	v := uint64(5)
	check(t, port.Put(ctx, &touched, 2, layout.HeapOffset, unsafe.Pointer(&v), 8))
	check(t, port.Quiet(ctx, &touched))
	if got := *nodes[1].at(0, 0); got != 0 {
		t.Errorf("a put to a dead PE has stored %d", got)
	}
	dead := new(far.DeadError)
	if _, err := port.Fetch(ctx, nil, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0); !errors.As(err, &dead) || dead.PE != 2 {
		t.Errorf("a fetch from a dead PE: %v, want a DeadError of PE 2", err)
	}
	check(t, port.Put(ctx, &touched, 3, layout.HeapOffset, unsafe.Pointer(&v), 8)) // its neighbor lives
	check(t, port.Quiet(ctx, &touched))
	if got := *nodes[1].at(1, 0); got != 5 {
		t.Errorf("a put to the dead PE's neighbor has stored %d, want 5", got)
	}
}

// Connections that are cut while operations are under way are opened again: every addition counts once.
func TestCutConnections(t *testing.T) {
	nodes := startNodes(t, 2)
	ctx := patient(t)
	const rounds = 2000
	done := make(chan error, 2)
	for _, node := range nodes {
		go func() {
			done <- operate(ctx, node.ports[0], layout.PE((1-node.index)*nearPEs), uint64(8*node.index), rounds)
		}()
	}
	for left, next := 2, [2]uint64{}; left > 0; {
		select {
		case err := <-done:
			check(t, err)
			left--
			continue
		default:
		}
		for i, node := range nodes { // operations get on between two cuts
			if n := atomic.LoadUint64(node.at(0, 4096)); n >= next[i] && n < 2*rounds {
				next[i] = n + 100
				node.do(func(a *Agent) { a.cfg.Transport.Cut(1-i, transport.In, errCut) })
			}
		}
		runtime.Gosched()
	}
	for _, node := range nodes {
		if got := atomic.LoadUint64(node.at(0, 4096)); got != 2*rounds {
			t.Errorf("node %d: the counter is %d, want %d", node.index, got, 2*rounds)
		}
	}
}

// Puts from the heap arrive, whatever their size, in their order among other records, although connections are cut all the
// time: their data is sent again from the heap.
func TestPutFromHeap(t *testing.T) {
	nodes := startNodes(t, 2)
	ctx, port := patient(t), nodes[0].ports[1]
	const most = 3 << 20
	mine := nodes[0].agent.memory.bytes(1, layout.HeapOffset, most+8)
	done := make(chan error, 1)
	go func() {
		var touched far.Touched
		for round, n := range []int{16 << 10, 16<<10 - 1, 16<<10 + 5, 4016 * 5, 1<<20 + 3, most, 100_000} {
			for i := range mine {
				mine[i] = byte(i*(round+3)) ^ byte(i>>8)
			}
			x, err := port.PutNBI(ctx, &touched, 3, layout.HeapOffset, unsafe.Pointer(&mine[0]), n)
			if v := uint64(round + 1); err == nil { // behind the put, on its last word
				err = port.Put(ctx, &touched, 3, layout.HeapOffset+uint64(n-8), unsafe.Pointer(&v), 8)
			}
			if err == nil {
				err = port.AwaitSent(ctx, x)
			}
			if err == nil {
				err = port.Quiet(ctx, &touched)
			}
			there := nodes[1].agent.memory.bytes(1, layout.HeapOffset, n)
			switch {
			case err != nil:
			case !bytes.Equal(there[:n-8], mine[:n-8]):
				err = fmt.Errorf("put of %d bytes: other bytes are in the memory of PE 3", n)
			case !bytes.Equal(there[n-8:], []byte{byte(round + 1), 0, 0, 0, 0, 0, 0, 0}):
				err = fmt.Errorf("put of %d bytes: the put after it was executed before it", n)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	executed := &nodes[0].segments.Wire(1).Done[layout.ClassOneSided][1]
	for next := uint64(0); ; {
		select {
		case err := <-done:
			check(t, err)
			return
		default:
		}
		if n := atomic.LoadUint64(executed); n >= next { // the put gets on between two cuts
			next = n + 50
			nodes[1].do(func(a *Agent) { a.cfg.Transport.Cut(0, transport.In, errCut) })
		}
		runtime.Gosched()
	}
}

// An agent that cannot reach another one while a PE waits for it ends, once its patience is over. Nobody waits for ever.
func TestOutOfReach(t *testing.T) {
	node := newNode(t, 0, 2)
	nobody := newNode(t, 1, 2) // has an address, and none listens there
	addrs := nobody.transport.Addrs()
	check(t, nobody.transport.Close())
	check(t, node.transport.SetPeer(1, nodeIncarnation, addrs))
	node.patience = 50 * time.Millisecond
	node.prepare(t, 2)
	defer func() { check(t, node.transport.Close()) }()
	node.putOne(t)
	node.expectEnd(t, "the agent of node 1 was out of reach for ")
}
