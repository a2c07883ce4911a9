package launch

import (
	"testing"

	"github.com/goshmem/goshmem/internal/plan"
)

// pairLayout puts PEs with even numbers on host a and the others on host b.
func pairLayout(npes int) *plan.Layout {
	l := &plan.Layout{Nodes: []plan.Node{{Host: plan.Host{Name: "a"}, Here: true}, {Host: plan.Host{Name: "b"}}}}
	for pe := range npes {
		l.Nodes[pe%2].PEs = append(l.Nodes[pe%2].PEs, pe)
		l.Homes = append(l.Homes, pe%2)
	}
	return l
}

// PEs on several nodes have a working directory that all nodes find by its name.
func TestDirectoryIsNamed(t *testing.T) {
	o := Options{Apps: []App{{NPEs: 1, Program: "a"}, {NPEs: 1, Program: "b", Dir: "/b"}}, HeapSize: 1 << 20}
	for _, layout := range []*plan.Layout{nil, pairLayout(2)} {
		o.Layout = layout
		cfg, err := o.config()
		if err != nil {
			t.Fatal(err)
		}
		want, err := ownDir()
		if layout == nil {
			want = ""
		}
		if err != nil || cfg.Apps[0].Dir != want || cfg.Apps[1].Dir != "/b" {
			t.Errorf("directories %q and %q, want %q and /b; %v", cfg.Apps[0].Dir, cfg.Apps[1].Dir, want, err)
		}
	}
}
