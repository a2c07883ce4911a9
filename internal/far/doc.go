// Package far is a PE's side of one-sided operations on PEs of other nodes. It writes records
// (internal/agent/record) into blocks of the PE's wire region (symheap/layout, Wire). The agent of the node sends
// them, and writes the answers into the PE's slots.
//
//	put, signal, update   one or more records; return when the data is copied. A put from 16 KiB on whose data is in the
//	                      heap leaves it there: its records say where, and the agent sends from there. It returns when
//	                      they are executed; PutNBI returns at once
//	get, fetch            a record with a slot; wait for the slot
//	quiet                 waits until Done covers the last record to each node
//
// # Streams
//
// The records of a PE to one node have numbers and are executed in this order. They lie in blocks:
//
//   - The open block of a stream takes the next record. When it is full, it is closed.
//   - A closed block is free when the node has executed all its records and the agent has left it.
//   - A stream has at most a quarter of the blocks, so a stopped node stops only those who talk to it.
//   - When no block is free, open blocks of other streams whose records are all executed are closed and
//     taken.
//
// Package symheap/layout says in which order both sides access the words. The tests explore that order as a
// model, with an agent that goes through its blocks one by one and with one that has one membarrier for many.
//
// # Slots
//
// A request has a slot from before its record until its answer. A slot has a room for 2 KiB of data. More
// data goes into the heap directly, or through pieces of 64 KiB, which the caller copies out. A wait that ends
// early leaves the slot reserved until the answer is there, because the agent may still write.
//
// Each node has a quota of slots and pieces, so a stopped node stops only who talks to it (quota.go, which has the rule;
// claim.go says why no wait is for ever). While other nodes have all pieces, long data go through rooms. The tests
// explore the waits for slots as a model.
//
// # Locks
//
// One lock of the process guards streams, slots and Touched. It is held for one record, and never during a
// wait. A small put makes no system call and allocates nothing, unless the agent sleeps.
//
// # Express sockets
//
// Round trips may go past the agent, by a socket to the node (package express), while nothing of this PE is under way to
// the node. With its lock held, the Port also asks the agent for sockets, and takes them: these calls never wait.
//
//	port.go      Config, Port, Touched and Quiet
//	stream.go    streams: begin and end of a record, room for the next one
//	pool.go      blocks: closing, reuse, what is free
//	put.go       operations without an answer
//	slot.go      slots and pieces
//	quota.go     how many of them a node may have
//	claim.go     claims of slots, and the waits for them
//	get.go       operations with an answer
//	express.go   round trips past the agent
//	message.go   messages for the inboxes of PEs
//	pending.go   operations whose answer the caller awaits later
//	wait.go      waits, and the errors for deaths
//	resume.go    a Port on a region that an earlier Port has used
package far
