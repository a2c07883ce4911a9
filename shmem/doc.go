// Package shmem is OpenSHMEM for Go: a partitioned global address space with
// one-sided communication.
//
// A job has NPEs processing elements (PEs), processes numbered from 0. Each
// owns a symmetric heap; objects allocated there exist on every PE at the same
// place, so that any PE can name any other PE's copy by a handle and a number.
//
//	w, err := shmem.Init()               // every PE
//	x, err := shmem.Alloc[int64](w, 100) // every PE, same arguments
//	err = shmem.P(w.Ctx(), x.At(7), 42, 1) // PE 1's element 7 becomes 42
//	err = w.Barrier()                    // all puts complete, everybody is here
//	fmt.Println(x.Local()[7])            // on PE 1: 42
//	err = w.Finalize()
//
// Start the program with oshrun -n 4 ./program; without oshrun it is a job of
// one PE.
//
// # Shapes
//
// Operations that are generic in the element type are package functions that
// take the context or team first; all others are methods. Element types hold
// no pointers. PE numbers are relative to the team of the handle. Counts are
// lengths of handles and slices, in elements.
//
// # Ordering
//
// A put may be visible to its target at any time after the call; Fence orders
// what was put before it before what is put after it, per target; Quiet
// returns when all is complete. A PE sees what others put only after it has
// synchronized: WaitUntil, Test, a signal, a barrier or another collective.
//
// # Errors
//
// Nothing panics. A bad argument gives a *UsageError that says what was wrong,
// which value it had and what is wanted. At and Slice out of range give a
// handle that fails at its first use.
//
// # Failures
//
// Without oshrun --recover, a PE that dies ends the job. With it, the others get a
// *PEError, with ErrPEDied among its causes, of operations on it, of all collectives,
// and of waits until they have called World.AckFailed. Nothing waits for the dead.
//
// # Concurrency
//
// Any goroutine may call any operation. Collectives on one team are called by
// one goroutine at a time, in the same order on all PEs.
package shmem

//go:generate go run ../internal/coverage/gen . ../docs/openshmem.md
