package envvar

import "strconv"

// Launcher is another project's launcher that has started this process as one of several.
type Launcher struct {
	Var       string // the environment variable that identifies it
	Name      string // its name for messages
	Processes int    // how many processes it has started
	Hint      string // the command to use instead
}

// launchers lists the variables in which launchers pass the number of processes. The first one that is set
// counts, so a step's variable comes before its allocation's.
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

// ForeignLauncher returns the launcher that has started this process as one of several. It is for processes
// that oshrun has not started. ok is false if there is none.
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
