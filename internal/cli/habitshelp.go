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
	{"-map-by", ofBoth, "the same: slot or node, core, hwthread, l3cache, numa, socket or package"},
	{"-report-bindings, -cpu-set", ofMpirun, "the same"},
	{"-display", ofMpirun, "map, allocation or bind, on standard error in oshrun's words"},
	{"-do-not-launch", ofMpirun, "the same"},
	{"-v, -verbose", ofAll, "says more"},
	{"-q, -quiet", ofMpirun, "no hints and no word about PEs that are slow; failures are still named. srun's -q is its --qos"},
	{"-V, -version, -h, -help", ofAll, "the same"},
	{"-oversubscribe, -allow-run-as-root", ofMpirun, "nothing: both are always allowed"},
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
and srun (Slurm) that mean something on one node. Long options may have one dash or
two, and their value behind = or as the next word. All options stand before the
program. What needs several nodes is refused, as is what would silently do less.

`)
	for _, r := range habitRows() {
		b.WriteString(r.Option + "  (" + r.Of + ")\n    " + r.Here + "\n")
	}
	return b.Bytes()
}
