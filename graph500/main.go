package graph500

import (
	"errors"
	"fmt"
	"io"

	"github.com/goshmem/goshmem/shmem"
)

// Exit statuses of the program.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// Program is graph500 as a command: where it prints, and how it shows progress.
type Program struct {
	Stdout, Stderr io.Writer
	// Progress is called on PE 0; nil prints a line on Stderr now and then.
	Progress Progress
}

// Main runs graph500 with the arguments after the program name and returns the exit status: 0 for a valid
// result, 1 for an error or an invalid one, 2 for wrong usage. It initializes shmem itself.
func Main(args []string, stdout, stderr io.Writer) int {
	return Program{Stdout: stdout, Stderr: stderr}.Main(args)
}

// Main runs the program; see the function of the same name. PE 0 alone prints what all PEs know.
func (p Program) Main(args []string) int {
	o, usageErr := ParseOptions(args)
	w, err := shmem.Init()
	if err != nil {
		fmt.Fprintf(p.Stderr, "graph500: starting: %v\n", err)
		return exitError
	}
	status := p.run(w, o, usageErr)
	if status == exitFailed {
		// Other PEs may wait for this one. The launcher ends the job because of the status.
		return exitError
	}
	if err := w.Finalize(); err != nil {
		fmt.Fprintf(p.Stderr, "graph500: ending: %v\n", err)
		return exitError
	}
	return status
}

// exitFailed marks the failure of one PE alone. It must not enter a collective any more.
const exitFailed = -1

// run does what the options say, and returns the exit status or exitFailed.
func (p Program) run(w *shmem.World, o Options, usageErr error) int {
	me := w.MyPE()
	if usageErr != nil {
		return p.printUsage(me, usageErr)
	}
	if err := checkReportOnce(w, o.JSON); err != nil {
		return p.fail(me, err)
	}
	o.Progress = p.Progress
	if o.Progress == nil {
		o.Progress = progressLines(p.Stderr)
	}
	result, err := Run(w, o)
	if err != nil {
		return p.fail(me, err)
	}
	if me != 0 {
		return exitOK
	}
	if err := result.WriteText(p.Stdout); err != nil {
		return p.fail(me, fmt.Errorf("printing the result: %w", err))
	}
	if o.JSON != "" {
		if err := result.writeReport(o.JSON); err != nil {
			return p.fail(me, err)
		}
	}
	return exitOK
}

// printUsage prints the usage text, or what is wrong with the command line.
func (p Program) printUsage(me int, usageErr error) int {
	if errors.Is(usageErr, errHelp) {
		if me == 0 {
			Usage(p.Stdout)
		}
		return exitOK
	}
	if me == 0 {
		fmt.Fprintf(p.Stderr, "graph500: %v\n", usageErr)
	}
	return exitUsage
}

// fail prints an error, once if all PEs have it, and returns the exit status or exitFailed.
func (p Program) fail(me int, err error) int {
	isKnown := isAgreed(err)
	if me == 0 || !isKnown {
		fmt.Fprintf(p.Stderr, "graph500: %v\n", err)
	}
	var invalid *InvalidError
	if me == 0 && errors.As(err, &invalid) {
		fmt.Fprintln(p.Stderr, "No results printed for invalid run.")
	}
	if !isKnown {
		return exitFailed
	}
	return exitError
}

// checkReportOnce lets PE 0 check that the report can be written. All PEs learn the outcome.
func checkReportOnce(w *shmem.World, name string) error {
	if name == "" {
		return nil
	}
	g, err := newGroup(w)
	if err != nil {
		return err
	}
	cause := errors.New("--json: PE 0 cannot create the report")
	var failed uint64
	if g.me == 0 {
		if cause = checkReport(name); cause != nil {
			failed = 1
		}
	}
	if err := g.sum("checking the report file", &failed); err != nil {
		return err
	}
	if failed != 0 {
		return &agreedError{cause}
	}
	return g.release()
}
