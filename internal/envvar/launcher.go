package envvar

import "strconv"

// Launcher is a launcher of other projects that has started this process among several.
type Launcher struct {
	Var       string // the variable that says so
	Name      string
	Processes int
	Hint      string // what to call instead
}

// launchers are the variables by which launchers tell processes how many there are. The first
// one that is set counts: that of a step before that of its allocation.
var launchers = []struct{ variable, name string }{
	{"OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI"},
	{"MV2_COMM_WORLD_SIZE", "the launcher of MVAPICH"},
	{"SLURM_STEP_NUM_TASKS", "srun"},
	{"FLUX_JOB_SIZE", "flux run"},
	{"PALS_SIZE", "the launcher of PALS"},
	{"JSM_NAMESPACE_SIZE", "jsrun"},
	{PMISize, "mpiexec, or another launcher that speaks PMI,"},
	{"SLURM_NTASKS", "Slurm"},
	{"SLURM_NPROCS", "Slurm"},
}

// ForeignLauncher says whether another launcher than oshrun has started more than one process,
// for a process that was not started by oshrun.
func ForeignLauncher(lookup func(string) (string, bool)) (Launcher, bool) {
	for _, l := range launchers {
		text, ok := lookup(l.variable)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 {
			return Launcher{}, false
		}
		hint := "start it by oshrun -n " + strconv.Itoa(n) + " ./program"
		if l.name == "srun" || l.name == "Slurm" {
			hint += ", within the allocation and without srun"
		}
		return Launcher{Var: l.variable, Name: l.name, Processes: n, Hint: hint}, true
	}
	return Launcher{}, false
}
