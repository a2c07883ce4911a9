package hosted

import (
	"fmt"
	"runtime"
	"testing"
)

// TestEnviron: every program gets what MPI libraries need to know, and no variables of an outer launcher.
func TestEnviron(t *testing.T) {
	for _, name := range []string{"PMI_SPAWNED", "PMI_PORT", "PMIX_OUTER", "PMI_RANK", "MPI_LOCALRANKID"} {
		t.Setenv(name, "outer")
	}
	r := oshrun(t, "-n", "2", "sh", "-c",
		`echo "$PMI_RANK of $PMI_SIZE, $MPI_LOCALRANKID of $MPI_LOCALNRANKS, $PMIX_RANK; [$PMI_SPAWNED$PMI_PORT$PMIX_OUTER]"; test -S /proc/self/fd/$PMI_FD`)
	r.want(0)
	r.wantLines(2, "# of 2, # of 2, #; []")
}

// TestGiveWay: ranks that outnumber the processors are told so, unless the user sets something else.
func TestGiveWay(t *testing.T) {
	const show = `echo "give way: $OMPI_MCA_mpi_oversubscribe"`
	many := runtime.NumCPU() + 1
	oshrun(t, "-n", "1", "sh", "-c", show).wantLines(1, "give way: ")
	oshrun(t, "-n", fmt.Sprint(many), "sh", "-c", show).wantLines(many, "give way: 1")
	oshrun(t, "-n", fmt.Sprint(many), "-x", "OMPI_MCA_mpi_oversubscribe=0", "sh", "-c", show).wantLines(many, "give way: 0")
}

// TestMemHooks: the default keeps Open MPI's OpenSHMEM from crashing. A user's own value takes precedence.
func TestMemHooks(t *testing.T) {
	const show = `echo "hooks: $OMPI_MCA_opal_common_ucx_opal_mem_hooks"`
	oshrun(t, "-n", "2", "sh", "-c", show).wantLines(2, "hooks: 0")
	oshrun(t, "-n", "2", "-x", "OMPI_MCA_opal_common_ucx_opal_mem_hooks=1", "sh", "-c", show).wantLines(2, "hooks: 1")
}
