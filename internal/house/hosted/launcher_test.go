package hosted

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// aloneVar makes the test binary a program that another launcher starts.
const aloneVar = "GOSHMEM_TEST_ALONE"

// alone joins its job by both packages, twice, and leaves it.
func alone() int {
	for range 2 {
		w, err := shmem.Init()
		if err != nil {
			return 1
		}
		m, err := mpi.Init()
		if err != nil || w.NPEs() != 1 || m.Finalize() != nil || w.Finalize() != nil {
			return 1
		}
	}
	return 0
}

// runAlone starts the program, with a launcher if there is one, and returns its output.
func runAlone(t *testing.T, env []string, launcher ...string) string {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	args := append(launcher, self)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), aloneVar+"=1"), env...)
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v\n%s", args, err, said)
	}
	return string(said)
}

// Each process that MPICH's mpiexec starts warns once that it is in no job.
func TestForeignMPIExec(t *testing.T) {
	testenv.Need(t, testenv.MPICH)
	said := runAlone(t, nil, "mpiexec.hydra", "-n", "2")
	if n := strings.Count(said, "goshmem: warning: PMI_SIZE=2 says that mpiexec"); n != 2 || !strings.Contains(said, "hint: start it by oshrun -n 2") {
		t.Errorf("%d warnings, want one from each process:\n%s", n, said)
	}
	if said := runAlone(t, nil, "mpiexec.hydra", "-n", "1"); said != "" {
		t.Errorf("one process without a launcher prints:\n%s", said)
	}
}

// A process in the environment of a step of srun warns, too. Without a launcher, and under oshrun, there is no warning.
func TestForeignEnvironment(t *testing.T) {
	said := runAlone(t, []string{"SLURM_STEP_NUM_TASKS=4", "SLURM_NTASKS=8"})
	if strings.Count(said, "goshmem: warning: SLURM_STEP_NUM_TASKS=4 says that srun started 4 processes") != 1 {
		t.Errorf("in a step of srun it prints:\n%s", said)
	}
	if said := runAlone(t, nil); said != "" {
		t.Errorf("without a launcher it prints:\n%s", said)
	}
	t.Setenv("SLURM_NTASKS", "8")
	t.Setenv(aloneVar, "")
	self, err := os.Executable()
	check(t, err)
	r := oshrun(t, "-n", "1", "env", aloneVar+"=1", asOshrun+"=", self)
	r.want(0)
	if strings.Contains(r.said, "warning") {
		t.Errorf("under oshrun it prints:\n%s", r.said)
	}
}
