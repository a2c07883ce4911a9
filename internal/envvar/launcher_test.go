package envvar

import "testing"

// What other launchers say of the number of processes is understood, the most exact word first.
func TestForeignLauncher(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		name string
		n    int
	}{
		{nil, "", 0},
		{map[string]string{"PMI_SIZE": "1"}, "", 0},
		{map[string]string{"PMI_SIZE": "many"}, "", 0},
		{map[string]string{"PMI_SIZE": "2"}, "mpiexec, or another launcher that speaks PMI,", 2},
		{map[string]string{"SLURM_NTASKS": "8"}, "Slurm", 8},
		{map[string]string{"SLURM_NPROCS": "8"}, "Slurm", 8},
		{map[string]string{"SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "8"}, "srun", 4},
		{map[string]string{"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "8"}, "", 0},
		{map[string]string{"OMPI_COMM_WORLD_SIZE": "3", "SLURM_NTASKS": "8"}, "mpirun of Open MPI", 3},
		{map[string]string{"MV2_COMM_WORLD_SIZE": "3", "PMI_SIZE": "3"}, "the launcher of MVAPICH", 3},
	} {
		l, ok := ForeignLauncher(func(name string) (string, bool) { v, ok := test.env[name]; return v, ok })
		if l.Name != test.name || l.Processes != test.n || ok != (test.n > 0) {
			t.Errorf("%v: %+v, %v, want %q with %d processes", test.env, l, ok, test.name, test.n)
		}
	}
}
