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

// Each PE has its node and its index there, whatever the order of the nodes. Nodes without PEs do not count.
func TestAgentHomes(t *testing.T) {
	a, err := mapParts(t, []layout.NodePart{{First: 3, Count: 2}, {}, {First: 0, Count: 3}, {First: 5, Count: 1}}, Place{Nodes: 3, First: 3, Near: 2, NPEs: 6})
	if err != nil {
		t.Fatal(err)
	}
	for pe, want := range []struct {
		node  int
		local layout.Local
	}{{2, 0}, {2, 1}, {2, 2}, {0, 0}, {0, 1}, {3, 0}} {
		if node, local := a.home(layout.PE(pe)); node != want.node || local != want.local {
			t.Errorf("PE %d is PE %d of node %d, want %d of %d", pe, local, node, want.local, want.node)
		}
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
