// Package agent is the process of a node that carries one-sided operations between nodes: it sends the records of the
// node's PEs to other agents, and executes their records on the segments of its node.
//
//	process.go   the process: its set-up by the daemon
//	doorway.go   where it listens
//	orders.go    what the daemon says later: addresses, deaths
//	agent.go     Agent and its loop
//	ready.go     blocks of the node's PEs: Ready, Fill, the second look, the bell
//	events.go    what the transport tells; the answers for the node's PEs
//	waits.go     how long PEs wait for other agents
//	outbox.go    posts: headers, bodies, and when their memory is free again
//	execute.go   the records of other nodes
//	inbox.go     the messages of other nodes
//	parting.go   the last messages of a PE that has died
//	express.go   sockets of single PEs to other nodes
//	guest.go     PEs of spawned jobs
//	successor.go a PE that takes the place of a dead one
//
// The protocol between agents is package stream, which is pure, and that of express sockets package express. The words between a PE and its agent are in
// symheap/layout, with their order.
//
// # One thread
//
// All work is done by the goroutine that calls Run, on its thread. It waits in one place, Transport.Poll. A pass of the loop:
//
//  1. Poll, and what it tells: records are executed, answers and counts taken.
//  2. Bells of PEs whose memory or whose counts have changed.
//  3. Blocks: those that PEs have put into Ready, and those that the agent still holds.
//  4. Posts of what the streams have to send.
//  5. The second look at blocks that have brought nothing new. If the pass has found nothing at all, the agent arms its
//     bell before that look, and the next Poll sleeps.
//
// A sleep has a limit (longestSleep): a PE may be stopped before it wakes the agent.
//
// A pass makes no memory in the steady state. It does not poll again before it sleeps: that would take the processor from
// the PEs.
package agent
