// Package rma is the one-sided path: remote memory access, atomic memory operations and ordering
// on mapped segments. How a process waits is in internal/wait; rma holds the writer's half of a
// wake-up (bell.go).
//
// All processes of a node map all segments of the node at base + i*stride, so an operation on PE i
// is a load, a store, a copy or an atomic instruction at an address that is one multiplication and
// one addition away. Nothing here takes a lock, allocates or checks its arguments: the callers
// (packages shmem, mpi and coll) have checked them. An operation that writes ends with one load of
// the target's bell. It makes a system call only if the bell says that the target sleeps; package
// symheap/layout argues why this look suffices.
//
// Aligned elements of 1, 2, 4 and 8 bytes are put by a single store, so that the target may poll
// them.
package rma
