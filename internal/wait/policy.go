package wait

import "time"

// Policy says how long each phase of a wait lasts.
type Policy struct {
	Polls   int           // polls before the first yield, and again after each wake-up
	Yields  int           // yields before the first sleep
	First   time.Duration // timeout of the first sleep
	Most    time.Duration // longest timeout; each sleep that times out doubles the next timeout up to Most
	Long    time.Duration // a yield of at least Long went to a stranger, and yields pause; 0: yields never pause
	Crowded bool          // there are more PEs on the node than processors
}

// PolicyFor returns the policy of a PE on a node with localPEs PEs that share cores processors.
//
//   - Polls: a poll costs about 2 ns. With more PEs than processors, the awaited peer must get a processor
//     for the wait to end. So the first yield comes after few polls: about as many as a peer on another
//     processor needs to answer at once.
//   - Yields: a yield costs 0.3 us if no other process is runnable, and a time slice otherwise. A peer's
//     slice is well spent. A stranger's slice costs thousands of times as much as a sleep; Long makes waits
//     stop yielding for a while then. Where each PE has a processor, waits yield for about as long as it takes
//     to wake one up, 30 to 40 us on virtual machines: a peer that copies 256 KiB needs half of that.
//   - Sleeps: timeouts double, so that PEs in long waits (for a slow peer, or one in a debugger) cost the
//     node little.
func PolicyFor(localPEs, cores int) Policy {
	p := Policy{
		Polls: 2000, Yields: 100, First: 500 * time.Microsecond, Most: 4 * time.Millisecond,
		Long: longYieldAmong(localPEs, max(cores, 1)),
	}
	if localPEs > cores {
		p.Polls, p.Yields, p.Crowded = 20, 20, true
	}
	return p
}
