package cli

import "bytes"

// signalRow is a row of signalRows.
type signalRow struct {
	Signal string `json:"signal"`
	Effect string `json:"effect"`
}

// signalRows is what signals to oshrun do.
var signalRows = []signalRow{
	{"INT, TERM, HUP, QUIT", "go to the PEs and end the job; those that have not ended after 0.75 s are killed"},
	{"INT, a second time", "kills all PEs at once"},
	{"TSTP", "as Ctrl-Z: stops the PEs and then oshrun; PEs that handle it get it and have 0.25 s; --timeout and --lease do not count meanwhile, once the PEs run"},
	{"CONT", "lets all go on"},
	{"USR1, USR2, WINCH", "go to the PEs"},
	{"KILL", "ends oshrun, and the kernel all that is in the PEs' process groups. PEs on other nodes end with their daemons, which notice it at once or after --lease"},
}

func signalText() []byte {
	rows := [][]string{{"SIGNAL", "EFFECT"}}
	for _, r := range signalRows {
		rows = append(rows, []string{r.Signal, r.Effect})
	}
	var b bytes.Buffer
	tabulate(&b, rows)
	b.WriteString(`
A signal for the PEs reaches the process group of each, so the program that a
shell has started as well, and those of jobs that PEs have spawned. HUP is
ignored where it was when oshrun began, as under nohup.

A PE leads a session of its own (ps -o sid) if it has a processor or is linked
to MPICH: the kernel then gives it as much time as any other session, for which
the nice value of oshrun counts. Such a PE cannot open /dev/tty, and a TSTP that
somebody else sends it has no effect. PEs that read the terminal, and those that
take turns on a processor, stay in oshrun's session.

A PE that fails ends the job. With --recover it is reported, the others go on
and the status is 3 if some finish well; if none does, that of the first
failure. PEs of goshmem that need a dead one get an error that names it,
programs with a PMIx handler the event: oshrun help watchdog. GlobalExit,
MPI_Abort and PMIx_Abort of a whole job end it with --recover, too; PMIx_Abort
and PMIx_Job_control of some PEs end only those, also without it.
`)
	return b.Bytes()
}
