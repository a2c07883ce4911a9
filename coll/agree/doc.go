// Package agree holds the machines by which a group agrees: what one member does,
// as a pure core that is told of events and answers with actions. A driver moves the
// messages. Two drivers exist today: the simulator (sim/agree) and the explorer (sim/explore).
// Agreements of programs do not come here: on one node, package coll decides through shared
// memory. A driver among nodes is planned.
//
// A member votes: flags, a small payload, and the dead that it was told of. The
// decision has the AND of all flags, all payloads combined, each once, and one
// list of the dead, the same at all. [Machine] is any of three algorithms:
//
//	Linear          two-phase commit, everybody below the coordinator   2(n-1) messages, 2 hops
//	Log             two-phase commit along a k-nomial tree              2(n-1), 2 log n hops
//	EarlyReturning  an allreduce that survives failures                 2(n-1), 2 log n hops; Durable: twice that
//
// The first two are those of Hursey, Naughton, Vallee and Graham, A Log-Scaling
// Fault Tolerant Agreement Algorithm for a Fault Tolerant MPI. They may end in
// UNDECIDED, and in blocking. The third does neither.
//
// The failure detector is perfect: who is reported dead is, and every death is
// reported to all in the end. Members that die do not come back. After PeerFailed
// nothing of that member is listened to. Channels keep order; a victim's last
// messages may be lost. The driver tells a machine nothing of its own member.
//
// # Two-phase commit: who is who
//
// Nodes are the members that are not gone, in order; node 0 is the coordinator,
// nodes with children are parents, others children. A member's contact is its
// nearest living ancestor. A member's vote is frozen when all that lives below it
// is in, and then travels as it is.
//
// # Messages
//
// Each carries its round and its base, the last DECIDED round before it.
//
//	VOTE        the votes of a subtree and the dead that the voters know
//	DECISION    the outcome of a round: DECIDED with all votes, or UNDECIDED
//	QUERY       an orphan asks its new contact how to go on
//	GATHER      answer: vote to me
//	WAIT        answer: your vote is counted
//	TERM_QUERY  an uncertain member asks for a decision, and tells which members are dead
//	UNCERTAIN   answer: I have voted and know of no decision
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
//	entered    all that lives below has voted              voted      VOTE to the contact; as coordinator DECIDED
//	entered    PeerFailed of a child {Coord_A, Parent_A}   entered    its children are awaited, and theirs in place of dead ones
//	entered    PeerFailed of the contact {Parent_B,        entered    QUERY to the next; no VOTE before GATHER
//	           Child_A}
//	entered    PeerFailed of the coordinator, TERM_QUERY   UNDECIDED  DECISION down and to all who asked; Deliver
//	entered    QUERY of who is counted, or is not          entered    WAIT, GATHER
//	voted      PeerFailed of the contact {Parent_C,        voted      QUERY to the next; VOTE once more at GATHER
//	           Child_B}
//	voted      QUERY                                       voted      WAIT
//	voted      TERM_QUERY                                  voted      UNCERTAIN
//	voted      no ancestor lives                           uncertain  TERM_QUERY to the dependants of the coordinator
//	voted,     DECISION                                    as it says DECISION down and to all who asked, in place of the dead
//	uncertain                                                         to their children {Coord_B, Parent_D}, and to the
//	                                                                  contact if it is from another; Deliver
//	uncertain  PeerFailed of a dependant                   uncertain  TERM_QUERY to its children
//	uncertain  all dependants alive are UNCERTAIN          blocked    Blocked; with Promote: UNDECIDED as above
//	blocked    as uncertain
//	any        message of a former round                   the same   DECISION out of the log
//
// The dependants of the coordinator are its children, and in place of dead ones
// theirs: the living nodes without a living ancestor. With AskAll an uncertain
// member asks all others. Blocked asks the driver to abort, because somebody who
// is dead may have returned DECIDED.
//
// # Why no two outcomes meet
//
// The coordinator decides only with the vote of every living member; so who has
// not voted when the coordinator is dead knows that nothing is decided, and says
// so for ever after: that is the only source of UNDECIDED. A member with a living
// ancestor takes a decision from it alone, so what a dependant does not know
// nobody below it knows. With Promote there is one source more. A member promotes
// when all living dependants have answered UNCERTAIN to a query that told them of
// all the dead that it knows (it asks again when it learns of another). Those who
// answered listen to none of the dead any more, and none of the living held a
// decision when it answered; the first of them to get DECIDED afterwards would have
// to get it from another. So every survivor is UNDECIDED. A member that died may have
// returned DECIDED: with Promote, agreement is among survivors.
//
// # Rounds, the log and trees
//
// A member holds two entries: the last DECIDED round and the current one. Those
// in between are UNDECIDED. No survivor can ask for an older one, because it has
// voted in the last DECIDED one. So the log answers every laggard.
//
// A tree stays as it is until a round succeeds. After a DECIDED round that lists new
// dead it is made anew of the others (Rebalance). After an UNDECIDED one the
// coordinator, which is dead, is taken away and the next node takes its place: that
// its coordinator is dead is all that members agree on then. So all who take part
// in a round use the same tree, which is known by its round and base.
//
// A message of a round to come tells that its sender has seen the current one end:
// UNDECIDED if its base is mine; else the current round is its base, and what it
// asks is kept, or answered without committing to anything, until the current
// round ends here too. Any other base is that of a member that saw a decision which
// no survivor has. It is dead, and not listened to.
//
// # Early-returning agreement
//
// It is an allreduce of [ftco.Machine] (its documentation is the protocol) whose
// value is the vote; this package moves and combines the values. The decision's
// list of the dead is what voters knew when they called, and whom the decider knew
// to be dead, among them all whose votes are not in it. A decision that only dead
// members hold may be lost, and then survivors agree on another one. Where that
// matters because a decision has effects outside of the group, Durable makes all
// living members hold it before anybody returns.
//
// With Rebalance a decision that lists new dead makes a new side: a machine over
// those that are left, which takes the calls after it. The former side stays to answer
// laggards of its last round, until another side is made: which takes a round
// that nobody ends before all have called it, that is, before all have returned
// from the former side. A message says by its base which side it is of.
//
//	message of                    is
//	a member that is dead to me   dropped; who does not stand in the tree of a side is
//	a known side                  given to that side's machine
//	the round I wait for as base  kept if it is a contribution, until I return, when it is given
//	                              to the side that was made, or dropped if none was
//	another                       dropped
//
// Rebalancing is safe with laggards. All survivors return the same list, so they
// make the same tree. A member X that has returned something else is dead. Who
// decided for the survivors had heard of all living members as it knew them, and X
// would have told it the decision that it holds: so the decider knew X to be
// dead, X is in the list, and does not stand in the new tree, whatever its
// messages claim. Others than contributions need not be kept: a decision of the new
// side takes my own contribution, and questions are repeated.
package agree
