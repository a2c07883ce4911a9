// Package logp simulates collectives in the discrete LogP model of Margolin and
// Barak, Section 5.2: in each step each node sends one message or handles one, and
// a message sent in step t can be handled in step t+L+1 at the earliest. The
// overhead o is the unit of time.
//
// [Engine] knows steps, messages in flight, late nodes and failures; a [Driver]
// knows the machine: [Published] drives the algorithm as published, [Shipped] the
// one that programs use. Nothing is drawn at random here: starts and deaths are
// given. Steps in which nobody can do anything cost next to nothing.
package logp
