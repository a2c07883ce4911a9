package hosted

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// TestRecover: with --recover the ranks of a job survive the death of one. Ranks with a handler are told; the others
// notice nothing.
func TestRecover(t *testing.T) {
	program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "handler.c"), testenv.LibPMIx)
	for _, n := range []int{2, 8, 16} {
		last := n - 1
		goesOn := fmt.Sprintf("rank # goes on, sum %d", last*(last-1)/2)
		r := oshrun(t, "-n", fmt.Sprint(n), "--recover", program, "plain")
		r.want(3, fmt.Sprintf("PE %d (pid", last), "SIGKILL")
		r.wantLines(last, goesOn)

		r = oshrun(t, "-n", fmt.Sprint(n), "--recover", program, "handler")
		r.want(3, fmt.Sprintf("PE %d (pid", last), "SIGKILL")
		r.wantLines(last, fmt.Sprintf("rank # hears of rank %d: PROC-ABORTED-BY-SIG", last), goesOn)
	}
}

// TestRecoverMPICH: the same holds for MPICH up to MPI_Finalize. That needs all ranks in MPICH, so it fails instead of
// waiting forever.
func TestRecoverMPICH(t *testing.T) {
	program := testenv.CompileC(t, testenv.MPICH, filepath.Join("testdata", "handler.c"), testenv.LibPMIx)
	const last = 2
	r := oshrun(t, "-n", "3", "--recover", program, "plain")
	r.want(killed, "PE 2 (pid", "SIGKILL", "MPI_Finalize failed")
	r.wantLines(last, "rank # goes on, sum 1")

	r = oshrun(t, "-n", "3", "--recover", program, "handler")
	r.want(killed, "PE 2 (pid", "SIGKILL", "MPI_Finalize failed")
	r.wantLines(last, "rank # hears of rank 2: PROC-ABORTED-BY-SIG", "rank # goes on, sum 1")
}
