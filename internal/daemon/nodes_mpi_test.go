package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// placements are the nodes of the PEs in tests of programs that do not map segments.
var placements = map[string][]int{
	"2 PEs on 2 nodes":          {0, 1},
	"blocks of 2":               {0, 0, 1, 1},
	"cyclic":                    {0, 1, 0, 1},
	"uneven blocks on 3 nodes":  {0, 0, 1, 2, 2},
	"cyclic and cut on 3 nodes": {0, 1, 2, 0, 1},
}

// Ranks of MPI libraries find each other on all nodes, and know which of them share one, however PEs are placed.
func TestMPIOnNodes(t *testing.T) {
	for _, lib := range []testenv.Capability{testenv.OpenMPI, testenv.MPICH} {
		t.Run(string(lib), func(t *testing.T) {
			program := testenv.CompileC(t, lib, filepath.Join("testdata", "nodes.c"))
			for name, homes := range placements {
				t.Run(name, func(t *testing.T) {
					n := len(homes)
					c := startCluster(t, []App{{NPEs: n, Path: program, Name: "nodes", Env: os.Environ()}}, homes)
					c.launch()
					var want []string
					for pe, node := range homes {
						near, lowest := 0, slices.Index(homes, node)
						for _, other := range homes {
							if other == node {
								near++
							}
						}
						want = append(want, fmt.Sprintf("%d: %d of %d, sum %d, %d ranks from %d on", pe, pe, n, n*(n-1)/2, near, lowest))
					}
					c.wantLines(want...)
					c.wantWell()
				})
			}
		})
	}
}
