// Package agree holds the machines by which a group agrees. A machine is what one member does, as a
// pure core: it gets events and answers with actions. A driver moves the messages. Four drivers exist
// today: the simulator (sim/agree), the explorer (sim/explore), internal/lab/agreebench, which
// measures the machines among the PEs of real jobs, and package mpi (mpi/agreement.go). Where the members share
// memory, package coll decides through that.
//
// A member's vote has flags, a small payload, and the dead that the member knows. The decision has
// the AND of all flags, all payloads combined, each once, and one list of the dead. It is the same
// on all members. [Machine] is any of three algorithms:
//
//	Linear          two-phase commit, all others below the coordinator  2(n-1) messages, 2 hops
//	Log             two-phase commit along a k-nomial tree              2(n-1), 2 log n hops
//	EarlyReturning  an allreduce that survives failures                 2(n-1), 2 log n hops; Durable: twice that
//
// The first two are those of Hursey, Naughton, Vallee and Graham, A Log-Scaling Fault Tolerant
// Agreement Algorithm for a Fault Tolerant MPI. They may end in UNDECIDED, and they may block. The
// third does neither.
//
// What the driver has to keep:
//
//   - The failure detector is perfect: a member that is reported dead is dead, and every death is
//     reported to all survivors in the end. Members that die do not come back.
//   - Channels keep order. A victim's last messages may be lost.
//   - No machine gets news of its own member.
//
// After PeerFailed a machine ignores all messages of that member.
//
// # Two-phase commit: the roles
//
// The nodes are the members that the tree has not left out, in order. Node 0 is the coordinator. A
// member's contact is its nearest living ancestor. A member's ballot is frozen when it holds the
// votes of all living nodes below, and then travels as it is.
//
// # Messages
//
// Each message has its round and its base, which is the last DECIDED round before that.
//
//	VOTE        the votes of a subtree and the dead that the voters know
//	DECISION    the outcome of a round: DECIDED with all votes, or UNDECIDED
//	QUERY       an orphan asks its new contact how to go on
//	GATHER      answer to QUERY: send your vote here
//	WAIT        answer to QUERY: your vote is counted here
//	TERM_QUERY  an uncertain member asks for a decision, and lists the dead that it knows
//	UNCERTAIN   answer to TERM_QUERY: the sender has voted and knows of no decision
//
// # States of a round, and what moves it
//
// Names in braces are the paper's error handlers.
//
//	state      event                                       becomes    actions
//	idle       Enter, coordinator known dead               UNDECIDED  DECISION down; Deliver
//	idle       Enter                                       entered
//	idle       TERM_QUERY                                  UNDECIDED  DECISION down and to the asker; Deliver when entered
//	idle       VOTE                                        idle       kept
//	idle       QUERY                                       idle       GATHER
//	entered    VOTE                                        entered    kept
//	entered    all living nodes below have voted           voted      VOTE to the contact; as coordinator DECIDED
//	entered    PeerFailed of a child {Coord_A, Parent_A}   entered    its children are waited for, and theirs in place of dead ones
//	entered    PeerFailed of the contact {Parent_B,        entered    QUERY to the next; no VOTE before GATHER
//	           Child_A}
//	entered    PeerFailed of the coordinator, TERM_QUERY   UNDECIDED  DECISION down and to all that asked; Deliver
//	entered    QUERY of a node that is counted, or is not  entered    WAIT, or GATHER
//	voted      PeerFailed of the contact {Parent_C,        voted      QUERY to the next; VOTE once more at GATHER
//	           Child_B}
//	voted      QUERY                                       voted      WAIT
//	voted      TERM_QUERY                                  voted      UNCERTAIN
//	voted      no ancestor lives                           uncertain  TERM_QUERY to the dependants of the coordinator
//	voted,     DECISION                                    as it says DECISION down and to all that asked, in place of the dead
//	uncertain                                                         to their children {Coord_B, Parent_D}, and to the
//	                                                                  contact if it is from another; Deliver
//	uncertain  PeerFailed of a dependant                   uncertain  TERM_QUERY to its children
//	uncertain  all living dependants are UNCERTAIN         blocked    Blocked; with Promote: UNDECIDED as above
//	blocked    as uncertain
//	any        message of a former round                   the same   DECISION out of the log
//
// The dependants of the coordinator are its children and, in place of dead ones, their children: the
// living nodes without a living ancestor. With AskAll an uncertain member asks all others. Blocked
// asks the driver to abort, because a dead member may have returned DECIDED.
//
// # Why no two outcomes meet
//
// UNDECIDED has one source. The coordinator decides only with the vote of every living member. So a
// member that has not voted when the coordinator is dead knows that nothing is decided, and from
// then on says so to all that ask. A member with a living ancestor takes a decision from that
// ancestor alone. So what a dependant does not know, no node below it knows.
//
// With Promote there is a second source. A member promotes when all living dependants have answered
// UNCERTAIN to a query that told them of all the dead that it knows; it asks again when it learns of
// another death. Members that have answered take no message of these dead any more. No living member
// held a decision when it answered, and the first of them to get DECIDED afterwards would have to get
// it from another of them. So every survivor is UNDECIDED. A member that died may have returned
// DECIDED: with Promote, agreement is among survivors.
//
// # Rounds, the log and trees
//
// The log of a member has two entries: the last DECIDED round and the current one. The rounds between
// them are UNDECIDED. No survivor asks for a round before the last DECIDED one, because all survivors
// have voted in that. So the log answers every laggard.
//
// A tree stays until a round succeeds. After a DECIDED round that lists new dead, the others make a
// new tree (Rebalance). After an UNDECIDED round its coordinator leaves the tree, and the next node
// takes its place: all that members agree on then is that this coordinator is dead. So all members
// that take part in a round use the same tree. Round and base name the tree.
//
// A message of a later round says that its sender has seen the current round end. If its base is the
// base here, the current round is UNDECIDED. If its base is the current round, that round is DECIDED:
// a vote is kept until the current round ends here too, and a question is answered without a
// commitment. With any other base, its sender has seen a decision that no survivor has. The sender is
// dead, and its message is dropped.
//
// # Early-returning agreement
//
// It is an allreduce of [ftco.Machine], whose documentation describes the protocol. The value is the
// vote; this package moves and combines the values. The decision lists the dead that voters knew when
// they called, and those that the decider knew. Among the latter are all members whose votes are not
// in the decision. A decision that only dead members hold may be lost, and the survivors agree on
// another one. If decisions have effects outside of the group, Durable makes all living members hold
// a decision before any of them returns.
//
// With Rebalance, a decision that lists new dead makes a new side: a machine over the members that
// are left, for the calls after it. The former side stays to answer laggards of its last round until
// another side is made. That takes a round of the new side, which ends only when all living members
// have called it, and so have returned from the former side. The base of a message names its side.
//
//	message of                          is
//	a member that is known to be dead   dropped, and so are members that the side's tree leaves out
//	a known side                        given to that side's machine
//	a side with the pending round as    kept until the local call returns, if it is a contribution; then
//	base                                given to the side that the call made, or dropped if it made none
//	another side                        dropped
//
// Rebalancing is safe with laggards. All survivors return the same list, so they make the same tree.
// Let a member X have returned another list; then X is dead. The member that decided for the
// survivors had heard from all members that it did not know to be dead, and X would have told it the
// decision that X holds. So the decider knew X to be dead, X is in the list, and the new tree leaves
// X out, whatever its messages claim. Only contributions need to be kept: a decision of the new side
// needs this member's own contribution first, and questions are repeated.
package agree
