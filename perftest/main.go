package perftest

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

// knownError is an error that all PEs have: PE 0 prints it, and all go on to Finalize.
type knownError struct{ error }

// Unwrap returns the cause.
func (e *knownError) Unwrap() error { return e.error }

// Main runs the program with the arguments after its name and returns the exit status: 0 if
// everything was measured, 1 for an error or wrong data, 2 for wrong usage. It initializes shmem
// itself. PE 0 alone prints what all PEs know.
func Main(args []string, stdout, stderr io.Writer) int {
	o, err := ParseOptions(args)
	w, initErr := shmem.Init()
	if initErr != nil {
		fmt.Fprintf(stderr, "bench: starting: %v\n", initErr)
		return exitError
	}
	if err == nil {
		err = run(w, o, stdout)
	}
	status, isKnown := exitStatus(err)
	switch {
	case errors.Is(err, errHelp):
		if w.MyPE() == 0 {
			Usage(stdout)
		}
	case err != nil && (w.MyPE() == 0 || !isKnown):
		fmt.Fprintf(stderr, "bench: %v\n", err)
	}
	if !isKnown {
		// Other PEs may wait for this one. The launcher ends the job because of the status.
		return status
	}
	if err := w.Finalize(); err != nil {
		fmt.Fprintf(stderr, "bench: ending: %v\n", err)
		return exitError
	}
	return status
}

// exitStatus returns the exit status for an error, and whether all PEs know the error.
func exitStatus(err error) (status int, isKnown bool) {
	var wrong *usageError
	var known *knownError
	switch {
	case err == nil, errors.Is(err, errHelp):
		return exitOK, true
	case errors.As(err, &wrong):
		return exitUsage, true
	default:
		return exitError, errors.As(err, &known)
	}
}
