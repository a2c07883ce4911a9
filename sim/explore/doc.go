// Package explore runs protocol machines, the very ones that programs use, under
// permuted delivery and with faults at every step, and checks what comes out.
//
// # Model
//
// A [System] is a scenario: members, each behind a [Member] with the bytes that a
// driver would keep for it, and the calls that all make one after the other.
// Messages go through a channel for each ordered pair, first in first out. What
// may happen next is a [Choice]: a member makes its next call, the first message
// of a channel arrives, a member is told of another's death. Faults are choices
// too: a member dies, at rest or between two actions of one step, whose other
// actions are lost; of what a dead member had sent, any part from some message on
// is lost in each channel, or comes late, when its death is known already; in
// lossy scenarios a message between living members is lost, and clocks tick.
//
// # Search
//
// [Exhaustive] visits every state of a small scenario once; what it leaves out is
// argued in docs/explore.md and compared with a search that leaves out nothing.
// [Random] draws one schedule from a seed; [RandomAll] many, on all cores.
// [Replay] runs a list of choices, [Shrink] leaves out of one what its failure
// does not need, and [Trace] prints it.
//
// # Oracles
//
// [System.Check] says what is wrong. For [FTCO]: P1 every survivor returns; P2
// survivors return the same; P3 survivors are contributors and nobody living is
// called failed; P4 each contribution is in the result at most once, and those in
// it are the reported ones; for uniform calls the same of members that returned
// and died; the association of operands depends on the contributors alone; the
// number of messages without failures; a decision lists all whose deaths its maker
// knows; nothing is sent twice in a step, or at all without ticks; no message of a
// member whose death is known changes anything. For [Agree] see its Check.
//
// # Mutants
//
// [Mutants] are mistakes as changes of the machines' source. A test builds the
// machines with each and sees that the search finds it, so that "nothing found"
// means something.
package explore
