// Package agree simulates agreements in the discrete LogP model: the machines of
// coll/agree, the very ones that programs use, among any number of nodes of which
// some have died before or die while they agree, beside an allreduce without
// agreement among those that are left. It is oshrun sim agree, and Figure 2 of
// Hursey, Naughton, Vallee and Graham.
//
// A run is two agreements, one after the other: the first, in which nodes die or
// are known to have died, and the next, whose tree holds the survivors alone if
// the machines rebalance.
package agree
