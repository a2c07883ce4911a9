// Package rma is the one-sided path: remote memory access, atomic memory operations and ordering on mapped
// segments. It also has the writer's half of a wake-up (bell.go); waiting is in internal/wait.
//
// Every process of a node maps the segment of PE i at base + i*stride. So an operation on PE i is a load, a
// store, a copy or an atomic instruction, at an address that takes one multiplication and one addition.
//
//   - Cost: no lock, no allocation. An operation that writes ends with one load of the target's bell. It
//     makes a system call only if the bell says that the target sleeps; package symheap/layout argues why
//     this load suffices.
//   - Arguments: not checked. The callers (packages shmem, mpi and coll) have checked them.
//   - Single stores: an aligned element of 1, 2, 4 or 8 bytes is written by one store, so that the target
//     may poll it.
package rma
