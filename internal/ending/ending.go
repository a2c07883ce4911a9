// Package ending judges how processes end: which ends are failures, and of what
// kind. What the PEs of a job, PMIx clients and the user are told of an end all
// comes from here, so that nobody is told of a failure that another one is not.
package ending

// End is how a process ended, and what was known of it in its job.
type End struct {
	Signal int  // that killed it; 0: none
	Code   int  // status that it exited with, where no signal killed it
	Core   bool // it left a core file
	OOM    bool // the kernel killed it for want of memory
	// Unfinished says that it had joined its job and left without a farewell.
	Unfinished bool
	// Unknown says that neither signal nor code is: it was not a child.
	Unknown bool
}

// Verdict is what an end is taken for.
type Verdict uint8

// The verdicts. All but Well are failures.
const (
	Well       Verdict = iota // it exited with status 0, and was not in its job any more or never
	Killed                    // by a signal
	Exited                    // with a status other than 0
	Unfinished                // with status 0, or one that nobody knows, but without a farewell
)

// String returns the verdict in a word.
func (v Verdict) String() string {
	names := [...]string{"well", "killed", "exited", "unfinished"}
	if int(v) >= len(names) {
		return "unknown"
	}
	return names[v]
}

// Judge returns what an end is taken for. What a process had asked for, or
// another one for it, does not count here: dead is dead for those who wait.
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
