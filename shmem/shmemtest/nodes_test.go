package shmemtest_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

func TestMain(m *testing.M) { shmemtest.Main(m) }

// Run divides the PEs among emulated nodes, one job after the other, and no node is without a PE.
func TestNodes(t *testing.T) {
	for npes, want := range map[int]map[int]int{ // by the number of PEs on the node of a PE: such PEs in all jobs
		1: {1: 1},
		3: {3: 3, 2: 2, 1: 1 + 3},
		5: {5: 5, 3: 3, 2: 2 + 2, 1: 3},
	} {
		t.Run(fmt.Sprint(npes), func(t *testing.T) {
			var out bytes.Buffer
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				x, err := shmem.Calloc[int64](w, 1)
				if err == nil {
					err = shmem.AtomicInc(w.Ctx(), x, 0)
				}
				if err == nil {
					err = w.Barrier()
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := x.Local()[0]; w.MyPE() == 0 && got != int64(npes) {
					t.Errorf("counted %d PEs, want %d", got, npes)
				}
				fmt.Printf("a PE on a node of %d\n", w.Shared().NPEs())
			}, shmemtest.Nodes(1, 2, 4), shmemtest.Output(&out))
			if os.Getenv("GOSHMEM_SHMEMTEST_CALL") != "" {
				return
			}
			for near := range npes + 1 {
				if got := strings.Count(out.String(), fmt.Sprintf("a PE on a node of %d\n", near)); got != want[near] {
					t.Errorf("%d PEs on nodes of %d, want %d", got, near, want[near])
				}
			}
		})
	}
}
