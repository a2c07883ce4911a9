// Package logp simulates collectives in the discrete LogP model of Margolin and Barak, Section 5.2. In
// each step each node sends one message or handles one. A message sent in step t can be handled in
// step t+L+1 at the earliest. The overhead o is the unit of time.
//
// [Engine] has the steps, the messages in flight, late nodes and failures. A [Driver] has the
// machines: [Published] drives the algorithm as published, [Shipped] the machines that programs use.
// Nothing here is random: the caller gives starts and deaths. Steps in which no node can do anything
// cost next to nothing.
package logp
