package wait

import "time"

// Policy says how long each phase of a wait lasts.
type Policy struct {
	Polls   int           // before the first yield, and again after each wake-up
	Yields  int           // before the first sleep
	First   time.Duration // the first sleep at most
	Most    time.Duration // a sleep that nobody ends doubles up to this
	Long    time.Duration // a yield of this length went to a stranger: yields pause; 0: none does
	Crowded bool          // PEs take turns on the processors of their node
}

// PolicyFor returns the policy of a PE on a node with localPEs PEs and cores
// processors between them.
//
// A poll costs about 2 ns, a yield that finds nobody 0.3 us, and otherwise a
// time slice of a peer, which is what is wanted: with more PEs than cores the
// peer must run for the wait to end, so there the first yield comes after about as
// many polls as it takes a peer on another processor to answer at once. Sleeps
// double so that many PEs that wait for long (behind a debugger, for a slow
// peer) cost the node little.
//
// Beside other load a yield may cost a stranger's time slice, thousands of times as
// much as a sleep. Then waits stop yielding for a while: see Policy.Long.
func PolicyFor(localPEs, cores int) Policy {
	p := Policy{
		Polls: 2000, Yields: 20, First: 500 * time.Microsecond, Most: 4 * time.Millisecond,
		Long: longYieldAmong(localPEs, max(cores, 1)),
	}
	if localPEs > cores {
		p.Polls, p.Crowded = 20, true
	}
	return p
}
