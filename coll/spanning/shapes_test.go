package spanning

import (
	"flag"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// askedNodes is what package coll passes on: see TestSpanning there.
var askedNodes = flag.String("nodes", "1", "on how many nodes, besides, teams are tested: numbers from 1 to 16 with commas between them")

// shapes returns how many PEs each node has, of each cluster that a test makes: some shapes of its own, and those asked for.
func shapes(t *testing.T, own ...[]int) [][]int {
	t.Helper()
	for word := range strings.SplitSeq(*askedNodes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 16 {
			t.Fatalf("-nodes %s, want numbers from 1 to 16 with commas between them", *askedNodes)
		}
		if n > 1 {
			own = append(own, slices.Repeat([]int{2}, n))
		}
	}
	return own
}
