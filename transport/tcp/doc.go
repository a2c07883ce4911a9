// Package tcp is the transport of real clusters: one TCP connection for each lane, between processes that have one key.
//
// # One thread
//
// All work happens in Post and Poll, in the caller's thread. There is one epoll and no goroutine. Poll sends what was
// posted straight from the parts, many posts in one system call, and receives into one buffer that all connections
// share. In the steady state neither allocates.
//
// # Fairness
//
// A connection with output sends at most sendBytes before the next one gets its turn, one with input receives at most
// receiveBytes. A Poll receives in any case before the next one sends, so two nodes that send to each other without
// end both receive.
//
// # Silence
//
// A connection whose other end acknowledges or takes nothing for Config.Silence is Broken. An agent that has stopped still
// acknowledges, as long as its kernel has room, so the owner bounds its own waits, too.
//
// # Strangers
//
// Anybody may connect to the port. A connection has Config.Handshake to prove that it is of the job, and no more than
// the bytes of the handshake are read before (handshake.go). There are at most Config.Pending such connections: a new
// one takes the place of the oldest. An honest handshake is over long before a flood has come around. Strangers counts
// those that were turned away; they make no events.
package tcp
