// Package ending says which ends of processes are failures, and of what kind. The PEs
// of a job, PMIx clients and the user all learn of an end by its verdict, so that all
// of them learn of the same failures.
package ending

// End is how a process ended, and what was known of it in its job.
type End struct {
	Signal int  // the signal that killed the process; 0: none
	Code   int  // the status that the process exited with; 0 if a signal killed it
	Core   bool // the process left a core file
	OOM    bool // the kernel killed the process for want of memory
	// Unfinished says that the process had joined its job and left without a farewell.
	Unfinished bool
	// Unknown says that neither Signal nor Code is known: the process was not a child.
	Unknown bool
}

// Verdict says how an end counts.
type Verdict uint8

// The verdicts. All but Well are failures.
const (
	Well       Verdict = iota // exited with status 0, after a farewell or without joining the job
	Killed                    // killed by a signal
	Exited                    // exited with a status other than 0
	Unfinished                // exited with status 0, or a status that is not known, and without a farewell
)

// String returns the verdict in a word.
func (v Verdict) String() string {
	names := [...]string{"well", "killed", "exited", "unfinished"}
	if int(v) >= len(names) {
		return "unknown"
	}
	return names[v]
}

// Judge returns how an end counts. It makes no difference here whether the process or
// another one had asked for the end: a PE that waits for a dead one waits in vain.
func (e End) Judge() Verdict {
	switch {
	case e.Signal != 0:
		return Killed
	case e.Code != 0:
		return Exited
	case e.Unfinished:
		return Unfinished
	default:
		return Well
	}
}
