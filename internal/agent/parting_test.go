package agent

import (
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The last look at the blocks of a dead PE leaves those of the others in their order, although they go on sending.
func TestPartingBesideOthers(t *testing.T) {
	nodes, _ := stepNodes(t)
	a, port := nodes[0].agent, nodes[0].ports[1]
	var touched far.Touched
	v := uint64(1)
	put := func(n int) {
		for range n {
			check(t, port.Put(t.Context(), &touched, 2, layout.HeapOffset, unsafe.Pointer(&v), 8))
		}
	}
	const full = layout.WireBody / 24 // puts in a block
	put(1)
	if !a.takeReady() || !a.readHeld() {
		t.Fatal("the agent has not read the put")
	}
	a.DropPE(0, 0)
	put(full + 1) // the block's other records, and two of another one
	check(t, a.pass())
	if a.sources[1].dead {
		t.Error("the PE beside the dead one is dropped")
	}
}
