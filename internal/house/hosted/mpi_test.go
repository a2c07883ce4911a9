package hosted

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// libraries are the MPI libraries that the tests of this file run with.
var libraries = []testenv.Capability{testenv.OpenMPI, testenv.MPICH}

// each runs a test with each library.
func each(t *testing.T, test func(t *testing.T, program string)) {
	t.Helper()
	for _, lib := range libraries {
		t.Run(string(lib), func(t *testing.T) {
			test(t, testenv.CompileC(t, lib, filepath.Join("testdata", "mpi.c")))
		})
	}
}

// TestMPI: ranks, sums and large messages are right.
func TestMPI(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		for _, n := range []int{1, 2, 8, 16, 32} {
			if n > 8 && testing.Short() {
				break
			}
			r := oshrun(t, "-n", fmt.Sprint(n), program, "work")
			r.want(0)
			r.wantLines(n, fmt.Sprintf("rank # of %d", n), fmt.Sprintf("rank # sum %d", n*(n-1)/2), "rank # is done")
		}
	})
}

// TestMPIEnds: whatever way a rank ends, the status and the message say so, and no process of the others is left.
func TestMPIEnds(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		for how, x := range map[string]struct {
			status int
			says   string
		}{
			"abort":    {42, "ended the job with status 42"},
			"abort256": {255, "ended the job with status 256"}, // not success, although the lowest 8 bits are 0
			"exit":     {7, "exited with status 7"},
			"quiet":    {1, "exited with status 0 without Finalize"},
			"kill":     {killed, "was killed by signal 9 (SIGKILL)"},
		} {
			t.Run(how, func(t *testing.T) {
				for _, n := range []int{2, 8} {
					r := oshrun(t, "-n", fmt.Sprint(n), program, how)
					r.want(x.status, fmt.Sprintf("PE %d (pid", n-1), x.says)
					if strings.Contains(r.said, "N/A") {
						t.Errorf("an abort without a reason has one in its message:\n%s", r.said)
					}
				}
			})
		}
	})
}

// TestInShell: a shell may start the program, with other programs before it.
func TestInShell(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		r := oshrun(t, "-n", "2", "sh", "-c", `sh -c "exit 3"; echo "shell # of 2" | sed s/#/$PMIX_RANK/; "$0" work; exit $?`, program)
		r.want(0)
		r.wantLines(2, "shell # of 2", "rank # of 2", "rank # sum 1", "rank # is done")
		oshrun(t, "-n", "2", "sh", "-c", `"$0" kill; exit $?`, program).want(killed, "PE 1 (pid", "exited with status 137")
		oshrun(t, "-n", "2", "sh", "-c", `"$0" kill; exit 0`, program).want(1, "PE 1 (pid", "without Finalize")
	})
}

// TestOSHMEM: programs of Open MPI's OpenSHMEM start, see each other, and end with status 0.
func TestOSHMEM(t *testing.T) {
	program := testenv.CompileC(t, testenv.OSHMEM, filepath.Join("testdata", "oshmem.c"))
	for _, n := range []int{2, 8} {
		r := oshrun(t, "-n", fmt.Sprint(n), program)
		var want []string
		for pe := range n {
			want = append(want, fmt.Sprintf("PE %d of %d got %d", pe, n, (pe+n-1)%n))
		}
		r.want(0)
		r.wantLines(1, want...)
	}
}
