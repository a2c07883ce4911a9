package job

import (
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// mapParts maps an agent page with some nodes for a PE at a place.
func mapParts(t *testing.T, parts []layout.NodePart, place Place) (*agentLine, error) {
	t.Helper()
	f, err := symheap.CreateAgentPage(parts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	event, err := xunix.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer xunix.CloseFDs([]int{event})
	a, err := mapAgent([]int{int(f.Fd()), event, event}, place)
	if err == nil {
		t.Cleanup(func() { xunix.CloseFDs([]int{a.event, a.line}) })
	}
	return a, err
}

// Each PE has its node and its index there, whatever the order of the nodes and the numbers of their PEs. Nodes without
// PEs do not count.
func TestAgentHomes(t *testing.T) {
	for name, counts := range map[string][]uint32{ // of the nodes in the order of their PEs
		"even":           {3, 3, 3},
		"fewer at last":  {3, 3, 1},
		"more at last":   {1, 1, 3},
		"fewer at first": {2, 3, 3},
		"one has most":   {1, 700, 2, 1},
		"one each":       {1, 1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			type place struct {
				node  int
				local layout.Local
			}
			parts := make([]layout.NodePart, 2*len(counts)) // the last PEs on the first node, and every other node has none
			var want []place
			for i, count := range counts {
				node := len(parts) - 2 - 2*i
				parts[node] = layout.NodePart{First: uint32(len(want)), Count: count}
				for local := range layout.Local(count) {
					want = append(want, place{node, local})
				}
			}
			a, err := mapParts(t, parts, Place{Nodes: len(counts), Near: int(counts[0]), NPEs: len(want)})
			if err != nil {
				t.Fatal(err)
			}
			for pe, want := range want {
				if node, local := a.home(layout.PE(pe)); (place{node, local}) != want {
					t.Errorf("PE %d is PE %d of node %d, want %d of %d", pe, local, node, want.local, want.node)
				}
			}
		})
	}
}

// A page that does not say of each PE where it is, or another thing of this node than the step, is refused.
func TestAgentHomesAreChecked(t *testing.T) {
	for name, parts := range map[string][]layout.NodePart{
		"gap":     {{First: 0, Count: 1}, {First: 2, Count: 2}},
		"overlap": {{First: 0, Count: 3}, {First: 2, Count: 2}},
		"few":     {{First: 0, Count: 2}, {First: 2, Count: 1}},
		"other":   {{First: 0, Count: 1}, {First: 1, Count: 3}},
		"empty":   {},
	} {
		if _, err := mapParts(t, parts, Place{Nodes: 2, First: 0, Near: 2, NPEs: 4}); err == nil || !strings.Contains(err.Error(), "agent page") {
			t.Errorf("%s: error %v, want one about the agent page", name, err)
		}
	}
}
