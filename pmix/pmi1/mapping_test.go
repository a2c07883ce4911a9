package pmi1

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// expand reads a mapping as MPICH does: the blocks again and again until all ranks have a node.
func expand(t interface{ Fatalf(string, ...any) }, text string, n int) (nodes []int) {
	var blocks []nodeBlock
	inner, ok := strings.CutPrefix(strings.TrimSuffix(text, ")"), "(vector")
	for ok && inner != "" {
		var b nodeBlock
		end := strings.Index(inner, ")")
		if _, err := fmt.Sscanf(inner[:end+1], ",(%d,%d,%d)", &b.first, &b.nodes, &b.each); err != nil {
			t.Fatalf("mapping %s: %v", text, err)
		}
		blocks, inner = append(blocks, b), inner[end+1:]
	}
	for len(nodes) < n {
		before := len(nodes)
		for _, b := range blocks {
			for i := range b.nodes {
				nodes = append(nodes, slices.Repeat([]int{b.first + i}, b.each)...)
			}
		}
		if len(nodes) == before {
			t.Fatalf("mapping %s has no rank", text)
		}
	}
	return nodes[:n]
}

// procsOn returns processes on nodes.
func procsOn(nodes ...int) (procs []Proc) {
	for _, node := range nodes {
		procs = append(procs, Proc{Node: node})
	}
	return procs
}

func TestMapping(t *testing.T) {
	for _, x := range []struct {
		nodes []int
		want  string
	}{
		{[]int{0}, "(vector,(0,1,1))"},
		{[]int{0, 0, 0}, "(vector,(0,1,3))"},
		{[]int{0, 0, 1, 1}, "(vector,(0,2,2))"},
		{[]int{0, 1, 0, 1}, "(vector,(0,2,1))"},
		{[]int{0, 1, 2, 0, 1}, "(vector,(0,3,1))"},
		{[]int{0, 0, 1, 1, 0, 0}, "(vector,(0,2,2))"},
		{[]int{0, 0, 1, 2, 2}, "(vector,(0,1,2),(1,1,1),(2,1,2))"},
		{[]int{1, 1, 0}, "(vector,(1,1,2),(0,1,1))"},
	} {
		j := WorldSpec{Procs: procsOn(x.nodes...)}
		got, ok := j.mapping()
		if !ok || got != x.want {
			t.Errorf("nodes %v: %s, %v, want %s", x.nodes, got, ok, x.want)
		}
	}
}

// Whatever the placement, a client finds the node of each rank.
func TestMappingIsUnderstood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 40).Draw(t, "nodes")
		j := WorldSpec{Procs: procsOn(nodes...)}
		text, ok := j.mapping()
		if !ok {
			t.Fatalf("no mapping of nodes %v", nodes)
		}
		if got := expand(t, text, len(nodes)); !slices.Equal(got, nodes) {
			t.Fatalf("nodes %v have mapping %s, which a client takes for %v", nodes, text, got)
		}
	})
}

// A placement without any order has no mapping: a client would cut it.
func TestMappingTooLong(t *testing.T) {
	nodes := make([]int, 0, 400)
	for i := range 400 {
		nodes = append(nodes, i*i%397)
	}
	j := WorldSpec{Procs: procsOn(nodes...)}
	if text, ok := j.mapping(); ok {
		t.Errorf("a mapping of %d bytes, want none", len(text))
	}
}
