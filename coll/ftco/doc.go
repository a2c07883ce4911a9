// Package ftco holds the machines of fault-tolerant collective operations. A machine is what one
// member does, as a pure core: it gets events and answers with actions. A driver moves the messages
// and the bytes. Four drivers exist today: the simulator (sim/logp), the explorer (sim/explore),
// internal/fence, which runs PMIx fences among the daemons of a job's nodes, and
// internal/lab/agreebench, which measures an allreduce among the PEs of real jobs. Programs do not use
// this package: on one node, package coll does the same through shared memory. A driver for
// collectives of programs among nodes is planned.
//
// [Machine] is for programs. It keeps what Margolin and Barak, Tree-Based Fault-Tolerant Collective
// Operations for MPI, set out to do: a result for every living process, and no more rounds than
// without fault tolerance while no process fails. It differs where their algorithms do not keep
// their own definition of that (docs/ftco.md). [Published] is their algorithm as their figures were
// made, and [Literal] their algorithm as printed.
//
// # What a caller gets
//
//   - A call ends on every survivor, whoever dies, as long as all survivors make it.
//   - All survivors return the same bytes, the same set of contributors and the same set of failed
//     members. Every survivor is a contributor. Each contribution is in the result once.
//   - A uniform call promises the same of members that return and die later. It takes two sweeps of
//     the tree more.
//   - A strict call fails on all survivors alike if the member that decided lacked a contribution or
//     knew a member to be dead.
//   - The result depends on the contributors and on nothing else. Operands are combined in the order
//     of the tree's nodes, with the tree's association, in whatever order messages come.
//
// # The tree
//
// The nodes are the members, numbered from the operation's root on in preorder of a k-nomial tree
// ([tree.Knomial]). The acting root is the lowest living node: the root, or its successor. A node
// reports to its nearest living ancestor or, if no ancestor lives, to the acting root. Each member
// goes by the deaths that it knows. The failure detector is perfect, so what two members know
// differs for a while and never contradicts.
//
// # Messages
//
//	Up         a frozen contribution; in a loose broadcast the question for the decision
//	Down       the decision
//	Have       the decision, to an acting root from a node without living ancestor
//	Ack        uniform: the living subtree of the sender holds the decision
//	Commit     uniform: all living members hold it
//	KeepAlive  nothing has come for long: send it again
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
//	entered    all living nodes below reported   frozen     Combine; Up, or as acting root the decision
//	frozen     PeerFailed of the node above      frozen     Up to the next
//	frozen     acting root: all living reported  decided    Combine, Decide, Down to all below
//	frozen     Down, Have                        decided    Keep, Down to all below and to all that asked
//	decided    Up                                decided    Down to its sender
//	decided    PeerFailed, no living ancestor    decided    Have to the acting root
//	decided    (not uniform) entered             returned   Deliver or Fail
//	decided    uniform: all living below acked   acked      Ack, or as acting root Commit
//	acked      PeerFailed of the node above      acked      Ack to the next
//	acked      Commit, Have of a returned member returned   Commit to all below and to all that acked; Deliver
//	returned   Up, Ack, KeepAlive                returned   Down, Commit
//
// A member goes on handling events after its call has returned. It answers for the latest
// operations until all members have returned from them.
//
// # Why contributions never count twice
//
// A contribution leaves its member only as a part of a frozen one, and a frozen one never changes. A
// member freezes its contribution when it holds those of all nodes of its subtree that it does not
// know to be dead.
//
// Claim: any two frozen contributions are disjoint, or one contains the other. Let two of them share
// a member d. Their makers are two ancestors a and b of d, a above b, or a successor of the root. If
// b's contribution is not a part of a's, then a froze without it, so a knew b to be dead by then. But
// b reports to a node below a only while that node lives, and to a node above a only if a is dead.
// In either case b would be alive after a had learned of its death. That cannot be. So the
// contributions that a member holds are disjoint or nested, and it adds up the widest ones.
//
// # Why there is one decision
//
// A node that holds the decision has no living ancestor, or its nearest living ancestor holds the
// decision as well. For the decision came from that ancestor, or from an acting root that is no
// ancestor, because there was no living one, and the ancestors of that acting root had it before.
// The acting root decides only when every living node without a living ancestor has reported to it:
// that it knows all lower nodes to be dead, that it has no decision, and that it speaks for its
// subtree. So the acting root finds a decision that any survivor holds.
//
// # Loose broadcasts
//
// The root of a broadcast waits for no other node. A node whose parent has died asks for the decision
// without waiting for its own subtree. So that members need not keep old decisions for ever, every
// [Machine]'s eighth broadcast in succession gathers first, like the other operations. A member that
// returns from an operation that gathers knows that all members have returned from those before it.
package ftco
