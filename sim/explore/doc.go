// Package explore runs protocol machines, the very ones that programs use, in many orders of delivery
// and with faults at every step, and checks the results.
//
// # Model
//
// A [System] is a scenario: members and the calls that all of them make one after the other. A [Member]
// is a machine with the bytes that a driver would keep for it. Messages go through a channel for each
// ordered pair of members, first in first out.
//
// A [Choice] is what may happen next: a member makes its next call, the first message of a channel
// arrives, a member learns of another one's death. Faults are choices too:
//
//   - A member dies, at rest or between two actions of one step. The other actions of the step are lost.
//   - Of what a dead member has sent, each channel loses any part from some message on, or delivers it
//     late, when the receiver knows of the death.
//   - In lossy scenarios a message between living members is lost, and clocks tick.
//
// # Search
//
// [Exhaustive] visits each state of a small scenario once. docs/explore.md argues what it leaves out,
// and a test compares it with a search that leaves out nothing. [Random] draws one schedule from a
// seed; [RandomAll] draws many, on all cores. [Replay] runs a list of choices, [Shrink] leaves out
// what a failure does not need, and [Trace] prints a run.
//
// # Oracles
//
// [System.Check] returns what is wrong. For [FTCO] it checks:
//
//	P1     every survivor returns
//	P2     survivors return the same
//	P3     survivors are contributors, and no living member is called failed
//	P4     each contribution is in the result at most once, and the result holds the reported ones
//	       uniform calls: the same for members that have returned and died
//	       the association of operands depends on the contributors alone
//	P5     the number of messages without failures
//	       a decision lists all deaths that its maker knows
//	       nothing is sent twice in a step, or at all without ticks
//	       no message changes anything after the news of its sender's death
//
// For [Agree] see its Check.
//
// # Mutants
//
// [Mutants] are mistakes as changes of the machines' source. A test builds the machines with each
// mistake and demands that the search finds it. So "nothing found" means something.
package explore
