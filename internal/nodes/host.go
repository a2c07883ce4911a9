package nodes

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// slurmNodeName is the variable in which Slurm says by which name it knows this host.
const slurmNodeName = "SLURMD_NODENAME"

// findNode finds the index of this host, if the handover does not say it.
func (h *Handover) findNode() (err error) {
	if h.Node >= 0 {
		return nil
	}
	host := os.Getenv(slurmNodeName)
	if host == "" {
		if host, err = os.Hostname(); err != nil {
			return fmt.Errorf("host name: %w", err)
		}
	}
	if h.Node = slices.Index(h.Hosts, host); h.Node >= 0 {
		return nil
	}
	short, _, _ := strings.Cut(host, ".")
	h.Node = slices.IndexFunc(h.Hosts, func(name string) bool {
		name, _, _ = strings.Cut(name, ".")
		return name == short
	})
	if h.Node < 0 {
		return fmt.Errorf("host %s is none of the job's hosts: %s", host, strings.Join(h.Hosts, ", "))
	}
	return nil
}

// staysAtHome are beginnings of variables that say something about the machine or the terminal of the front end.
var staysAtHome = []string{
	"HOSTNAME=", "DISPLAY=", "SSH_", "XDG_", "SLURM_NODEID=", "SLURM_PROCID=", "SLURM_LOCALID=", "SLURM_GTIDS=",
	"SLURM_TASK_PID=", "SLURM_LAUNCH_NODE_IPADDR=", "SLURM_SRUN_COMM_", "SLURM_STEP_", "SLURM_STEPID=", "SLURM_NODELIST=", "SLURM_TOPOLOGY_ADDR",
	"SLURM_CPU_BIND", "SLURM_CPUS_ON_NODE=", "SLURM_NTASKS=", "SLURM_NPROCS=", "SLURMD_",
}

// Exported returns the environment of PEs on other hosts: that of the front end without what describes its own machine.
// What the user sets for the PEs is added afterwards, so that it stays.
func Exported(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return slices.ContainsFunc(staysAtHome, func(begin string) bool { return strings.HasPrefix(kv, begin) })
	})
}
