// Package detect simulates the failure detector between nodes in virtual time. It runs the machines of detector/ring and
// detector/bmg, or the literal ones, among any number of nodes of which some die at one moment. It says when the first
// and the last survivor know, and how many living nodes were reported. This is oshrun sim detect.
//
// # The model
//
//   - A ping, an answer or a heartbeat travels for the latency and a random part of the jitter. It is lost with the
//     probability of Options.Loss.
//   - A report travels in steps of the overhead: a node needs one to send a message and one to handle it, and does one
//     thing at a time. Reports are not lost: nodes have connections for them.
//   - Each report is a run of its own among nodes at rest. Reports that travel at the same time do not delay each other,
//     and a node that has not heard of the death of a neighbor by this report sends to it.
//   - All victims die at the same moment, drawn from a period after a warm-up.
//   - A living node that gets the report of its own death ends, except with the literal algorithm, which has no fencing.
//   - The ring of a node hears of the deaths that can matter to it: of nodes near it in the ring and of its neighbors in
//     the broadcast's graph. So 100,000 nodes of which thousands die fit into memory.
package detect
