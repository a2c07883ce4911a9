// Package server is a PMIx v4 server for the processes of one job on one node. It serves goshmem's own PEs, Open MPI
// ranks and any other client of the protocol alike.
//
// The state (stored data, fences, pending gets, registrations) is a pure core: core.Step takes an event and appends the
// actions that follow from it; it knows no sockets, clock or goroutines. The driver is thin: one goroutine steps the
// core and carries out its actions, one reads and one writes per connection. A client that does not read never delays
// another: its answers wait in a bounded queue of its own.
package server
