// Package span has what a node does for the collectives of a team whose members are on several nodes, as a pure core. The agent of
// each node drives a [Part] (internal/agent). It decides who contributes on this node by package board, and agrees with the
// other nodes by [ftco.Machine]: the members of the machine are nodes. So a PE sees one wait and one result.
//
// # A step
//
//  1. Each member of the part writes what it contributes, and then its arrival word: the number of the step.
//  2. The part looks at the words until all members are judged: each has entered the step, has died before it did, or has
//     left a mark. Only this node's agent judges.
//  3. The driver folds what those contribute that have entered, in the order of the members. With the list of the others this is
//     the node's contribution to the machine. It does not change any more.
//  4. The machines of all nodes come to one result: the contributions of some nodes, combined in the order of the nodes, with all
//     their lists, and the nodes that died before they contributed.
//  5. The driver writes the result for the members of its node, then its number, and wakes them.
//
// # Claim
//
// All survivors of a team return the same data and the same contributors from a step, every survivor is a contributor, and each
// contribution is in the data once at most.
//
//   - On one node all members read what one process has written, once for each step. It dies only with its node.
//   - Between nodes, the machines deliver the same value and the same missing nodes to all that live (package ftco).
//   - A PE contributes if its word had reached the step when its node's agent judged it. That is decided once, by one
//     process, and goes with the value. Who dies later is a contributor everywhere, who died before is one nowhere.
//   - The news of a death come after the last store of the dead (package board). So a member that is judged dead never enters
//     the step, and a survivor is always judged to have entered.
//
// # What a step carries
//
// What a member contributes is a [Record], and bytes behind it of one of three kinds. How two contributions become one:
//
//	line          behind the record       both together
//	collectives   pieces of members       all pieces, in the order of nodes and members (FoldSteps)
//	collectives   elements of one type    as many elements, folded by the operator that the record names (FoldSteps)
//	agreements    bits                    a bit is set that one has set (FoldBits)
//
// Records say the operator, the type and the length of elements. Members that differ in one of these, or of which some give elements and
// some pieces, contribute nothing but their records: what they gave is [Mixed], in whatever order it is combined. Members compare
// what they call by Record.First, so they find that out by themselves.
//
// Sums and products of floating-point numbers depend on the order. That of the members of a node is the order of their PEs; that
// of nodes, and how they are put in brackets, is that of the tree without the nodes that are missing. One node decides, and all
// survivors have its bytes.
//
// # Memory that is used again
//
// A member writes its next contribution when it has the result of the step. Its agent is the only reader of the contribution, and had
// read it before it wrote the result. An agent writes the next result when all living members of its node have entered the next
// step, so they have read this one. One place for each is enough.
//
// # The end
//
// A step to which nobody contributes is the last one: all members are dead, or have left. Otherwise the nodes of a dead team would go
// from step to step for ever, as nobody keeps them waiting.
//
// # Wake-ups
//
// The driver calls Look when a member says that all have entered, when a mark was left and when a death is known. Of members that
// enter together, one sees that all have (layout.Upper). Look counts also if the part is between two questions: what it has
// read may be older than the news.
package span
