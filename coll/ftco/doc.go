// Package ftco holds the machines of fault-tolerant collective operations: what
// one member does, as a pure core that is told of events and answers with
// actions. A driver moves the messages and the bytes. Two drivers exist today: the simulator
// (sim/logp) and the explorer (sim/explore). Collectives of programs do not come here: on one
// node, package coll does the same through shared memory. A driver among nodes is planned.
//
// [Machine] is for programs. It keeps what Margolin and Barak, Tree-Based
// Fault-Tolerant Collective Operations for MPI, set out to do (a result for every
// living process, no round more than without fault tolerance when nobody fails),
// and differs where their algorithms do not keep their own definition of it
// (docs/ftco.md).
//
// # What a caller gets
//
// A call ends on every survivor, whoever dies, as long as all survivors make it.
// All survivors return the same bytes, the same set of contributors and the same
// set of failed members; every survivor is a contributor; each contribution is
// in the result once. A uniform call promises the same of members that return
// and die later, for two sweeps more. A strict call fails on all survivors alike
// if who decided lacks a member or knew one to be dead. The result depends on who
// contributed and on nothing else: operands are combined in the order of the
// tree's nodes, with the tree's association, whatever came when.
//
// # The tree
//
// Members are numbered from the operation's root in preorder of a k-nomial tree
// ([tree.Knomial]); a node reports to its nearest living ancestor or, if there
// is none, to the lowest living node, which takes the root's place. Each member
// goes by the deaths that it knows of; the failure detector is perfect, so they
// differ for a while and never contradict.
//
// # Messages
//
//	Up         a frozen contribution; in a loose broadcast the question for the decision
//	Down       the decision
//	Have       the decision, to who took the root's place, from one without living ancestor
//	Ack        uniform: my living subtree holds the decision
//	Commit     uniform: all living members hold it
//	KeepAlive  nothing came for long: say it again
//	Alive      it is not here yet
//
// # States of an operation, and what moves it
//
//	state      event                             becomes    actions
//	absent     any message of it                 heard      Keep
//	absent     Enter                             entered
//	heard      Enter                             entered
//	heard      Down, Have                        decided    Keep, Down to all below
//	entered    Up of a new node                  entered    Keep
//	entered    all living below have reported    frozen     Combine; Up, or as root the decision
//	frozen     PeerFailed of whom I report to    frozen     Up to the next
//	frozen     root: all living have reported    decided    Combine, Decide, Down to all below
//	frozen     Down, Have                        decided    Keep, Down to all below and to who asked
//	decided    Up                                decided    Down to it
//	decided    PeerFailed, no living ancestor    decided    Have to who took the root's place
//	decided    (not uniform) entered             returned   Deliver or Fail
//	decided    uniform: all living below acked   acked      Ack, or as root Commit
//	acked      PeerFailed of whom I report to    acked      Ack to the next
//	acked      Commit, Have of one who returned  returned   Commit to all below and to who acked; Deliver
//	returned   Up, Ack, KeepAlive                returned   Down, Commit
//
// A member goes on taking events after its call has returned: it answers for the
// last operations until all have returned from them.
//
// # Why contributions never count twice
//
// A contribution leaves its member as a part of a frozen one only, and a frozen
// one never changes. A member freezes when all of its subtree that lives, as far
// as it knows, is in. Let two frozen contributions share a member d. They are
// those of two ancestors a and b of d, a above b, or of a root's successor. If b's
// is not a part of a's, then a froze knowing that b was dead. But b reports to
// somebody below a only if that one is alive, and above a only if a is dead, and
// then b would be alive after its own death was known. So the contributions that
// anybody ever holds are disjoint or nested, and the widest ones add up.
//
// # Why there is one decision
//
// Who holds the decision has no living ancestor, or its nearest living one holds
// it as well: it came from the nearest living ancestor, or from the root's
// successor because there was none, and the ancestors of that one got it before.
// The lowest living node decides only when every living node without a living
// ancestor has told it, knowing all lower ones dead, that it has no decision, and
// speaks for its subtree. So it finds a decision that any survivor holds.
//
// # Loose broadcasts
//
// The root of a broadcast waits for nobody, and who asks for its decision (its
// parent died) asks without waiting for its own subtree. So that old decisions
// need not be kept for ever, every [Machine]'s eighth broadcast in succession
// gathers first, like the other operations: who returns from an operation that
// gathers knows that all members have returned from those before it.
package ftco
