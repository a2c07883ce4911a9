package job

import (
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// mapParts maps an agent page with some nodes for a PE at a place.
func mapParts(t *testing.T, parts []layout.NodePart, place Place, list ...layout.PE) (*agentLine, error) {
	t.Helper()
	f, err := symheap.CreateAgentPage(parts, list...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	event, err := xunix.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer xunix.CloseFDs([]int{event})
	a, err := mapAgent([]int{int(f.Fd()), event, event}, 0)
	if err == nil {
		t.Cleanup(func() { xunix.CloseFDs([]int{a.event, a.line}) })
		err = a.checkPlace(place)
	}
	return a, err
}

// Each PE has its node and its index there, whatever the order of the nodes and the numbers of their PEs. Nodes without
// PEs do not count.
func TestAgentHomes(t *testing.T) {
	type home struct {
		node  int
		local layout.Local
	}
	for _, x := range []struct {
		parts []layout.NodePart
		place Place
		list  []layout.PE
		want  []home // by PE
	}{
		{
			[]layout.NodePart{{First: 3, Count: 2}, {}, {First: 0, Count: 3}, {First: 5, Count: 1}},
			Place{Nodes: 3, First: 3, Near: 2, NPEs: 6},
			nil,
			[]home{{2, 0}, {2, 1}, {2, 2}, {0, 0}, {0, 1}, {3, 0}},
		},
		{
			[]layout.NodePart{{First: 0, Count: 3}, {}, {First: 3, Count: 2}},
			Scattered(2, 5, []layout.PE{0, 2, 4}),
			[]layout.PE{0, 2, 4, 1, 3},
			[]home{{0, 0}, {2, 0}, {0, 1}, {2, 1}, {0, 2}},
		},
		{ // the near PEs have consecutive numbers, others do not
			[]layout.NodePart{{First: 0, Count: 2}, {First: 2, Count: 2}},
			Place{Nodes: 2, First: 1, Near: 2, NPEs: 4},
			[]layout.PE{0, 3, 1, 2},
			[]home{{0, 0}, {1, 0}, {1, 1}, {0, 1}},
		},
	} {
		a, err := mapParts(t, x.parts, x.place, x.list...)
		if err != nil {
			t.Fatal(err)
		}
		members := map[int][]layout.PE{} // by node
		for pe, want := range x.want {
			members[want.node] = append(members[want.node], layout.PE(pe))
			if node, local := a.home(layout.PE(pe)); (home{node, local}) != want {
				t.Errorf("PE %d is PE %d of node %d, want %d of %d", pe, local, node, want.local, want.node)
			}
		}
		for node := range layout.WireNodes {
			if got := slices.Collect(a.pes(node)); !slices.Equal(got, members[node]) {
				t.Errorf("node %d has PEs %v, want %v", node, got, members[node])
			}
		}
	}
}

// So it is with any numbers of PEs on the nodes.
func TestAgentHomesOfAnySize(t *testing.T) {
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
	blocks, halves := Place{Nodes: 2, First: 0, Near: 2, NPEs: 4}, []layout.NodePart{{First: 0, Count: 2}, {First: 2, Count: 2}}
	cyclic := Scattered(2, 4, []layout.PE{0, 2})
	for name, x := range map[string]struct {
		parts []layout.NodePart
		place Place
		list  []layout.PE
	}{
		"gap":             {[]layout.NodePart{{First: 0, Count: 1}, {First: 2, Count: 2}}, blocks, nil},
		"overlap":         {[]layout.NodePart{{First: 0, Count: 3}, {First: 2, Count: 2}}, blocks, nil},
		"few":             {[]layout.NodePart{{First: 0, Count: 2}, {First: 2, Count: 1}}, blocks, nil},
		"other":           {[]layout.NodePart{{First: 0, Count: 1}, {First: 1, Count: 3}}, blocks, nil},
		"empty":           {nil, blocks, nil},
		"many":            {[]layout.NodePart{{First: 0, Count: layout.MaxLocal + 1}}, blocks, nil},
		"no list":         {halves, cyclic, nil},
		"list":            {halves, blocks, []layout.PE{0, 2, 1, 3}},
		"other list":      {halves, cyclic, []layout.PE{0, 1, 2, 3}},
		"short list":      {halves, cyclic, []layout.PE{0, 2, 1}},
		"twice":           {halves, cyclic, []layout.PE{0, 2, 1, 2}},
		"none of the job": {halves, cyclic, []layout.PE{0, 2, 1, 4}},
		"descending":      {halves, cyclic, []layout.PE{0, 2, 3, 1}},
		"later places":    {[]layout.NodePart{{First: 0, Count: 2}, {First: 3, Count: 2}}, cyclic, []layout.PE{0, 2, 1, 3}},
	} {
		if _, err := mapParts(t, x.parts, x.place, x.list...); err == nil || !strings.Contains(err.Error(), "agent page") {
			t.Errorf("%s: error %v, want one about the agent page", name, err)
		}
	}
}
