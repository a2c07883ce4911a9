package hosted

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

func openMPI(t *testing.T) string {
	t.Helper()
	return testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "mpi.c"))
}

// TestSpawn: MPI_Comm_spawn starts children, and both sides see each other. MPICH supports it only over networks for
// which Debian's MPICH is not built; package pmi1 tests its part of the protocol.
func TestSpawn(t *testing.T) {
	for _, n := range []int{1, 2, 8} {
		r := oshrun(t, "-n", fmt.Sprint(n), openMPI(t), "spawn")
		r.want(0)
		want := []string{}
		for rank := range n {
			want = append(want, fmt.Sprintf("parent %d of %d sees 3 children", rank, n))
		}
		for rank := range 3 {
			want = append(want, fmt.Sprintf("child %d of 3 with \"two words\" sees %d parents", rank, n))
		}
		r.wantLines(1, want...)
	}
}

// TestNames: ranks find each other by published names.
func TestNames(t *testing.T) {
	for _, n := range []int{2, 8} {
		r := oshrun(t, "-n", fmt.Sprint(n), openMPI(t), "names")
		r.want(0)
		want := []string{}
		for rank := range n {
			sees := "clients"
			if rank >= n/2 {
				sees = "servers"
			}
			want = append(want, fmt.Sprintf("rank %d sees %d %s", rank, n/2, sees))
		}
		r.wantLines(1, want...)
	}
}
