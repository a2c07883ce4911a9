// Package coll runs collective operations among an ordered group of PEs of one node, through the
// arrival words and slots of package symheap/layout.
//
// # How a collective works
//
// Every member has an arrival word: the number of the latest step of the group that the member
// has entered. A barrier stores this member's word and waits for all others. A central counter would
// be no faster, and could not say which member is missing.
//
// Data take one of six ways:
//
//   - A contribution of up to 24 bytes lies on the line of the arrival word and comes with it: the
//     reader waits for one cache line less.
//   - A contribution of up to 256 bytes goes into a cell of a slot. A member has two slots, used by
//     turns, and the cells of a slot are used by turns, too.
//   - A larger contribution takes a whole slot, if it is small enough for that (slots.go).
//   - Large data of the symmetric heap are read where they lie.
//   - Large private data go through the members' areas, piece by piece.
//   - Of two members, each one may copy large private data from and to the memory of the other's process.
//
// Contributions are combined in the order of the group. Of small data, each member computes the
// result itself. Of large reductions, member i computes part i and gives it to all. In both cases
// all members end with the same bytes.
//
// # Structure
//
// A Team is made of layers. Each embeds the one above it in this table, so that the path of a
// small collective follows no pointer between them.
//
//	roster    the members, and which of them are known to be dead        roster.go
//	arrivals  the arrival words: steps and marks, waking, sleeping       arrivals.go
//	steps     a collective from its beginning to its end                 steps.go
//	slots     small contributions                                        slots.go
//	Team      the collectives that programs call                         team.go, data.go, ...
//
// Other features have types of their own, which refer to the team. Most of their values live as long
// as a call:
//
//	votes         Agree: the words of agreements                         agreement.go
//	call          what members announce before a large collective        call.go
//	comparison    Compare                                                compare.go
//	collecting    Collect                                                collect.go
//	turn          large exchanges by turns: who moves which block        turns.go
//	blocks        the same: the moves and steps                          gather.go
//	reduction     large reductions, and what a dead member left undone   rescue.go
//	scan          large scans                                            scan.go
//	area, lease   which team uses a member's area                        area.go
//	(functions)   exchanges of private memory: small ones                headed.go
//	exchange      the same, large, in pieces                             pieces.go
//	lending       the same: sources that others read                     lend.go
//	scattering    large scatters                                         scatterstream.go
//	relay         collectives in which members wait only for some        relay.go, chain.go, rooted.go
//	sharing       large reductions of private memory                     shared.go
//	stream        large broadcasts of private memory                     stream.go
//	peer, pairing the same between two members, by direct copies         direct.go
//	trial, lap    which of these ways two members keep                   choice.go
//	groupMaker    Split, Survivors                                       group.go
//	heldID        Release, Dissolve: when an id is free again            ids.go
//
// Package board has the decisions as a pure core. This package does not use coll/tree, coll/ftco and
// coll/agree: they are trees and machines for nodes that see each other through messages only.
// Simulators and the explorer (sim/...) run them. In jobs on several nodes, PMIx fences run coll/ftco
// (internal/fence). Package mpi agrees by coll/agree where ranks share no memory.
//
// # Failures
//
// Two facts carry everything else. Package board has the argument and the decisions.
//
//   - A dead member's arrival word never changes again, and its death is published after its last
//     store.
//   - So a member that sees the death, and then looks at the word, knows whether the dead member had
//     entered a step. All survivors find the same, without a message.
//
// Tolerant teams:
//
//   - A collective is made of the members that enter it. A survivor waits for each member until the
//     member has entered the step, or died before it entered.
//   - So a collective ends on all survivors with the same contributors and the same bytes, whichever
//     members die. There is nothing to agree upon. Outcome lists the contributors.
//   - A broadcast whose root dies before it enters fails: every survivor gets a *DeadError. A death
//     also fails a large reduction of private memory (ReducePrivate). The team goes on in both cases.
//   - Split and Gather need all members on a tolerant team as well: all survivors get a *DeadError.
//   - In the destinations of exchanges, the blocks of members that did not contribute stay as they
//     are.
//
// Strict teams:
//
//   - A collective is made of all members, or fails.
//   - A member gives the team up with a *DeadError when it calls a collective and knows a member
//     to be dead, and when it waits for a step that a dead member has not entered. The error lists
//     all members that it knows to be dead.
//   - It then marks its arrival word, enters no further step, and wakes everyone.
//   - The death of a member that had entered the step does not end a wait for that step. Nor does the
//     death of a PE outside the team.
//
// Marks, on either kind of team:
//
//   - A member that leaves a collective in the midst marks its arrival word: its context ended, an
//     operator panicked, or it found an OtherError. A member that waits for a step which the marked
//     member has not entered gets ErrBroken, and leaves its own mark.
//   - If a context ends in the last step of a collective on large data, the caller may change a source
//     that others still read. A second mark then gives ErrBroken to all members in that step
//     (meetLast).
//
// # Nobody hangs
//
// Let a member wait for member i to enter step s.
//
//   - Member i is dead. Its word never changes again. The waiter sees the death (package rma
//     argues why it does not sleep over it), then the word. It gives up, or goes on without i.
//   - Member i has given up. A mark makes the word greater than any step, so it ends the wait. On a
//     strict team, a member that finds a mark left for a death also finds the death, because the marking
//     member read the failure page before it made the mark.
//   - Member i is alive and computing. It will call a collective. There it finds the death, and leaves
//     its mark if the team is strict.
//   - Member i waits itself. Then it waits for a step before s, because a wait for a step begins when
//     the step before it is entered. So a chain of waits leads to earlier and earlier steps. It
//     ends at one of the members above.
//
// # Wake-ups
//
// A member that enters a step and sees that all live members have arrived wakes everyone.
//
//   - Nobody is dead: the store of a word is sequentially consistent. So the last member to arrive
//     sees all words in place, and wakes everyone.
//   - A sleeper knows of a death: it looked at the last missing word before that was stored, and had
//     read the epoch of the failure page before it looked. The store and all looks are sequentially
//     consistent. So the member that stored the word finds the epoch as well, and rings.
//   - A death is published later: the step on the node wakes everyone.
//   - The first step of an exchange by turns (gather.go) rings nobody. A member that waits in
//     it is rung when all have entered the second step, or when the member it waits for gives up.
//
// # What survivors of a strict team agree on
//
// They agree on the outcome of every collective whose last step needs all members: of all but broadcasts, reductions of
// private memory to a root, gathers, scatters and scans of it. If one survivor gets past it, all words are at it or beyond. Then nobody finds a dead
// member or a mark short of it, and the next collective fails for all.
//
//   - Of the others, some survivors may have the data while others find that it failed.
//   - A *DeadError lists the deaths that were published when it was made. A second death may be in the
//     list of one survivor and not of another.
package coll
