package cli

import (
	"bytes"
	"strings"
)

// habitRow is a row of the topic mpirun.
type habitRow struct {
	Option string `json:"option"`
	Of     string `json:"of"`
	Here   string `json:"here"`
}

// ownHabits are oshrun's own flags that other launchers have by the same name.
var ownHabits = []habitRow{
	{"-n, -np", ofAll, "the same"},
	{"-x", ofMpirun, "the same, for one program"},
	{"-wdir", ofBoth, "the same"},
	{"-output", ofMpirun, "the same words: tag, timestamp, merge, raw, dir=D; also rank, merge-stderr-to-stdout"},
	{"-stdin, -timeout, -report-uri", ofMpirun, "the same"},
	{"-bind-to", ofBoth, "the same: core, hwthread, l3cache, numa, socket or package, none; core:overload-allowed"},
	{"-map-by", ofBoth, "the same: slot, node, seq, ppr:N:node, core, hwthread, l3cache, numa, socket or package; with :OVERSUBSCRIBE or :NOOVERSUBSCRIBE"},
	{"-report-bindings, -cpu-set", ofMpirun, "the same"},
	{"-display", ofMpirun, "map, allocation or bind, on standard error in oshrun's words"},
	{"-do-not-launch", ofMpirun, "the same"},
	{"-v, -verbose", ofAll, "says more"},
	{"-q, -quiet", ofMpirun, "no hints and no word about PEs that are slow; failures are still named. srun's -q is its --qos"},
	{"-V, -version, -h, -help", ofAll, "the same"},
	{"-oversubscribe", ofMpirun, "the same for hosts that are listed; this machine alone takes more PEs than cores anyway"},
	{"-allow-run-as-root", ofMpirun, "nothing: any user may run jobs"},
}

// habitRows are all options of other launchers and what oshrun makes of them.
func habitRows() []habitRow {
	rows := append([]habitRow(nil), ownHabits...)
	for i := range habits {
		h := &habits[i]
		rows = append(rows, habitRow{"-" + strings.Join(strings.Fields(h.names), ", -"), h.of, h.here})
	}
	return rows
}

func habitText() []byte {
	var b bytes.Buffer
	b.WriteString(`oshrun understands the options of mpirun (Open MPI 4 and 5), mpiexec.hydra (MPICH)
and srun (Slurm). Long options may have one dash or two, and their value behind = or
as the next word. All options stand before the program. What would silently do less is
refused.

Hosts come from --host, --hostfile, or the environment of a job of Slurm (SLURM_JOB_NODELIST,
SLURM_TASKS_PER_NODE, SLURM_JOB_CPUS_PER_NODE). --display map,allocation --do-not-launch
shows where the PEs would run.

`)
	for _, r := range habitRows() {
		b.WriteString(r.Option + "  (" + r.Of + ")\n    " + r.Here + "\n")
	}
	return b.Bytes()
}
