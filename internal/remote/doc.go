// Package remote lets a front end run a node of its job in another process.
//
// A Server runs the node, normally a daemon.Step, where the PEs are. A Client is a launch.Node of
// the front end. Both send frames by a Peer, which is the connection between them, and whoever has
// the connection calls Take with each frame of the other side, in order, by one goroutine. Lost
// ends both: see there.
//
// # What never waits
//
// Take and Peer.Send never wait. So events, answers and requests wait for nothing that the front
// end's terminal holds up.
//
//   - Events: Server sends them as they come, and Client queues them, see daemon.Mailbox. At most eventWindow
//     are on the way; beyond that they wait in the step.
//   - Requests and what is wanted without an answer: Server begins them in the order in which they come. A request
//     runs in a goroutine of its own, so a long one holds up nothing. It ends by its answer, the loss of the node, or
//     its time limit.
//   - Log: what finds no room in logWindow is dropped, and Server says how much was.
//
// Each event goes in a message of its own. The end of a PE takes some 65 bytes, so the ends of 128,000 PEs take 8 MB.
// Their numbers, times and use of memory differ, so one message for many ends would lose them.
//
// # Output
//
// Server.Hooks.Output waits for credit: at most outputWindow bytes of a node's output are on the way or wait at
// the front end, streamShare of one stream. Client calls the front end's Hooks.Output in a goroutine of each stream,
// and gives the credit back when that returns. A blocked stream holds up its PE, and nothing else.
//
// The front end may let one stream write a long line while all others wait. If those others had all of the credit, the
// line could not end. So texts longer than streamShare do not use it: one stream at a time may send such a text, and
// what follows until the end of the line.
//
// # Large messages
//
// A message that is too large for a frame goes in pieces. Whoever sends a piece waits until it has been taken before
// sending the next one, unless the sender may not wait.
package remote
