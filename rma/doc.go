// Package rma is the one-sided path: remote memory access, atomic memory
// operations, ordering and waiting on mapped segments.
//
// All processes of a node map all segments of the node at base + i*stride, so
// an operation on PE i is a load, a store, a copy or an atomic instruction at
// an address that is one multiplication and one addition away. Nothing here
// makes a system call, takes a lock, allocates or checks its arguments: the
// callers (packages shmem and coll) have checked them. An operation that
// writes ends with one load of the target's bell and wakes the target only if
// it sleeps; package symheap/layout argues why this suffices.
//
// Aligned elements of 1, 2, 4 and 8 bytes are put by a single store, so that
// the target may poll them.
package rma
