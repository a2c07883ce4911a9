// Package express has the protocol of express sockets, as pure cores: a [Client] for a PE, and a [Server] for the agent of
// another node. They know no sockets and no time. Package internal/far drives the Client, package internal/agent the Server.
//
// An express socket belongs to one PE. It carries round trips of that PE to one node past the PE's own agent: gets of at
// most MaxData bytes, and atomic operations that fetch.
//
// # Order
//
// A PE sends a request only when the node has executed all that the PE has given to its agent before, and it issues its
// later operations after the reply. So a request overtakes nothing, and nothing overtakes it. A socket has at most one
// request under way. Another goroutine of the PE that finds the socket busy goes through the agent.
//
// # Exactly once
//
// The requests of a PE to a node have numbers, which only grow: {PE, incarnation, number} names a request. The number that a
// Server has executed last comes with each new socket, so a PE that begins anew repeats none.
//
//   - A PE that loses a socket repeats the fetch under way as a record of its stream (record.OpFetchOnce), with the number.
//     The stream executes each record once (package stream).
//   - The Server keeps the number and the answer of each PE's last request. A repeat with that number is answered from
//     there. Otherwise it is executed, and its number counts as executed.
//   - A request that was still unread on the lost socket then finds its number executed.
//   - A get is repeated as a plain get: it may be read twice.
//
// One answer for each PE is enough. A PE gives out the next number when it has the answer to the one before, or has put the
// repeat of that one into its stream; it sends the next request when the stream is executed. Numbers may be left out.
//
// # Deaths and incarnations
//
// A PE has at most one socket to a node: a new one replaces the one before, with all that was unread on it. DropPE and
// DropNode name the sockets of the dead, which the driver closes before it acknowledges the death. Nothing of that
// incarnation is admitted or executed afterwards. A greater incarnation begins with fresh numbers.
//
//	message.go  requests and replies as bytes
//	client.go   the PE's side: when a socket is wanted, used and given up
//	server.go   the agent's side: who has a socket, and what was executed last
package express
