package shmemtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/launch"
)

// The option Nodes takes precedence over the flag. No node is without a PE, and no job runs twice.
func TestLayouts(t *testing.T) {
	for _, x := range []struct {
		flag, option []int
		npes         int
		want         []int
	}{
		{[]int{1}, nil, 5, []int{1}},
		{[]int{1, 2, 4}, nil, 5, []int{1, 2, 4}},
		{[]int{1, 2, 4}, nil, 2, []int{1, 2}},
		{[]int{1, 2, 4}, nil, 1, []int{1}},
		{[]int{4, 1, 3}, nil, 3, []int{3, 1}},
		{[]int{1, 2, 4}, []int{1}, 5, []int{1}},
		{[]int{1}, []int{3}, 5, []int{3}},
	} {
		setForTest(t, &defaultNodes, x.flag)
		o := options{nodes: x.option}
		if got, err := o.layouts(x.npes); err != nil || !slices.Equal(got, x.want) {
			t.Errorf("-nodes %v, Nodes(%v), %d PEs: %v, want %v, error %v", x.flag, x.option, x.npes, got, x.want, err)
		}
	}
}

// Wrong numbers, and several nodes in a program that cannot play daemons, are refused.
func TestLayoutsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"": `"", want numbers`, "1,two": `"two", want numbers`, "0": "0 nodes, want from 1 to 64", "1,-2": "-2 nodes", "65": "65 nodes",
	} {
		l := nodeList{3}
		if err := l.Set(text); err == nil || !strings.Contains(err.Error(), want) || l.String() != "3" {
			t.Errorf("-nodes %q: %v, then %v, want an error with %q", text, err, &l, want)
		}
	}
	o := options{nodes: []int{1, 65}}
	if _, err := o.layouts(100); err == nil || !strings.Contains(err.Error(), "option Nodes: 65 nodes") {
		t.Errorf("Nodes(1, 65): %v, want an error", err)
	}
	setForTest(t, &played, false)
	o.nodes = []int{1, 2}
	if got, err := o.layouts(1); err != nil || !slices.Equal(got, []int{1}) {
		t.Errorf("one PE without Main: %v, error %v, want 1 node", got, err)
	}
	if _, err := o.layouts(2); err == nil || !strings.Contains(err.Error(), "shmemtest.Main(m)") {
		t.Errorf("two nodes without Main: %v, want an error that names Main", err)
	}
}

// With -cyclic, PEs go round the nodes.
func TestCyclic(t *testing.T) {
	for _, way := range []bool{false, true} {
		setForTest(t, &cyclic, way)
		var o launch.Options
		if err := emulate(&o, 2, 5, "program"); err != nil || o.Layout.Block == way {
			t.Errorf("-cyclic=%t: PEs are on nodes %v, error %v", way, o.Layout.Homes, err)
		}
	}
}

// setForTest sets a variable until the test ends.
func setForTest[T any](t *testing.T, at *T, v T) {
	t.Helper()
	old := *at
	*at = v
	t.Cleanup(func() { *at = old })
}
