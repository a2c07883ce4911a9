package job

import (
	"strings"
	"testing"

	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The PEs of a spawned job have indices on their nodes, and others with the agents there.
func TestGuestHomes(t *testing.T) {
	h := &symheap.Homes{Bases: []uint32{3, symheap.NoBase, 7}, Nodes: []uint32{0, 2, 2, 0, 2}}
	g, err := newGuestHomes(h, 3)
	if err != nil {
		t.Fatal(err)
	}
	for pe, want := range [][3]int{{0, 0, 3}, {2, 0, 7}, {2, 1, 8}, {0, 1, 4}, {2, 2, 9}} {
		node, local := g.home(layout.PE(pe))
		seatNode, index := g.seat(layout.PE(pe))
		if got := [3]int{node, int(local), int(index)}; got != want || seatNode != node {
			t.Errorf("PE %d: node, index there and with the agent %v, want %v", pe, got, want)
		}
	}
	var far []layout.PE
	for pe := range g.pes(2) {
		far = append(far, pe)
	}
	if len(far) != 3 || far[0] != 1 || far[2] != 4 || g.npes != 5 {
		t.Errorf("PEs of node 2: %v of %d, want 1, 2 and 4 of 5", far, g.npes)
	}
	h.Nodes[1] = 1
	if _, err := newGuestHomes(h, 3); err == nil || !strings.Contains(err.Error(), "PE 1 is on node 1") {
		t.Errorf("a PE on a node without a base: %v, want an error that names it", err)
	}
	h.Nodes[1] = 2
	if _, err := newGuestHomes(h, 2); err == nil || !strings.Contains(err.Error(), "node 2") {
		t.Errorf("a PE on a node without an agent: %v, want an error that names it", err)
	}
}
