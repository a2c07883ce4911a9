// Package server is a PMIx v4 server for the processes of a step on one node. It serves goshmem's own PEs, Open MPI ranks
// and any other client of the protocol alike, and tools that attach to it.
//
// It knows several jobs, each a namespace of its own: the first one, and those that are spawned later. Requests may name
// processes of all of them.
//
// The state (stored data, fences, groups, events, what waits for what) is a pure core: core.Step takes an event and
// appends the actions that follow from it; it knows no sockets, clock or goroutines. Every command has a handler in a
// table, and what one client can make the core keep is bounded. The driver is thin: one goroutine steps the core and
// carries out its actions, one reads and one writes per connection. A client that does not read never delays another: its
// answers wait in a bounded queue of its own. Output of processes goes from its writer straight to the connections of
// those who asked for it, by a table that the core makes anew at every change.
package server
