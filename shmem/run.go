package shmem

import (
	"fmt"
	"os"
	"path/filepath"
)

// Run makes the process a PE of its job, calls body with the World, and finalizes: it is Init, body and Finalize in
// one. Most programs call it from main and do everything else in body.
//
//	func main() {
//		shmem.Run(func(w *shmem.World) error {
//			fmt.Println("PE", w.MyPE(), "of", w.NPEs())
//			return w.Barrier()
//		})
//	}
//
// When Init, body or Finalize returns an error, Run prints it to standard error, with the program's name and the PE's
// number, and exits with status 1. After an error of body it does not call Finalize, which would wait for the other
// PEs, and these may be in other calls. oshrun then ends the job, or goes on without this PE under --recover. Run
// does not recover a panic of body, and nothing delays the panic.
//
// Run returns after body and Finalize have returned without an error. Finalize is collective, so Run returns on all
// PEs at the same point of the program. What follows it is no longer part of the job. For another exit status, body
// calls os.Exit or World.GlobalExit.
//
//   - Collective: over all PEs of the job.
func Run(body func(w *World) error, opts ...Option) {
	if body == nil {
		exitWithError("", usage("Run", ErrArgument, "body is nil, want the function that each PE executes"))
	}
	w, err := Init(opts...)
	if err != nil {
		exitWithError("", err)
	}
	pe := fmt.Sprintf("PE %d: ", w.MyPE())
	if err := body(w); err != nil {
		exitWithError(pe, err)
	}
	if err := w.Finalize(); err != nil {
		exitWithError(pe, err)
	}
}

// exitWithError prints an error and ends the process. One call writes the message, so that the lines of several PEs
// do not mix.
func exitWithError(pe string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %s%v\n", filepath.Base(os.Args[0]), pe, err)
	os.Exit(1) //nolint:forbidigo // what Run is for: the program has nothing more to do
}
