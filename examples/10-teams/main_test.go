package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestTeams(t *testing.T) {
	grids := map[int][2]int{1: {1, 1}, 2: {2, 1}, 3: {3, 1}, 5: {5, 1}, 8: {4, 2}}
	exampletest.Run(t, func(n int) (string, int) {
		g := grids[n]
		return fmt.Sprintf("a 840 x 840 matrix on %d x %d PEs: right; my row ends at PE %d\n", g[0], g[1], g[1]-1), 0
	})
}
