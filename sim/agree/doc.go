// Package agree simulates agreements in the discrete LogP model. It runs the machines of coll/agree,
// the very ones that programs use, among any number of nodes. Some nodes have died before, or die
// while they agree. For comparison it runs an allreduce without agreement among the nodes that are
// left. This is oshrun sim agree, and Figure 2 of Hursey, Naughton, Vallee and Graham.
//
// A run is two agreements, one after the other. In the first, nodes die or are known to have died. In
// the next, the tree holds the survivors only, if the machines rebalance.
package agree
