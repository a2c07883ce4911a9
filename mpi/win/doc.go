// Package win has the windows of MPI: memory of each rank that other ranks read, write and update without its help. A
// window is a view of an object of the symmetric heap, so a program initializes both packages, shmem and mpi.
//
//	s, err := shmem.Init()
//	m, err := mpi.Init()
//	w, err := win.Allocate[float64](m.Comm(), 1000) // 1000 elements on each rank
//	err = w.Put(row, right, 0)                      // to elements 0... of rank right
//	err = w.Fence()                                 // all ranks call it; then all see what all have put
//	err = win.Accumulate(w, part, 0, 0, win.Sum)    // element by element, atomic
//	err = w.Fence()
//	err = w.Free()
//
// # Windows
//
//   - A window has the same number of elements on each rank. A displacement counts elements.
//   - Its communicator has all ranks of the job, in any order, because all PEs allocate together.
//   - Local is the memory of this rank. Shared is that of another rank of the same node.
//   - The target mpi.ProcNull has no memory: operations on it do nothing, and Get leaves its buffer as it is.
//
// # Operations
//
//   - Put and Get take any element type without pointers. They return when their buffer may be used again.
//   - Accumulate, GetAccumulate, FetchAndOp and CompareAndSwap take integers and floating-point numbers of 32 and 64
//     bits (shmem.AMOExt). Each element is changed atomically with respect to those of all ranks.
//   - Rput, Rget, Raccumulate and RgetAccumulate return a Request. Its Wait completes the buffers of this rank.
//   - Sum, And, Or and Xor of integers, Replace and NoOp are one atomic operation of shmem. Sum of floating-point
//     numbers, Prod, Min and Max are loops around a compare-and-swap of the element's bits.
//   - These operations are the atomic operations of shmem: both may work on one element at a time. They are not atomic
//     with respect to Put, Get and plain loads and stores.
//   - Operations have no order, not even those on one element. Flush and the calls that end an epoch order them.
//   - Nothing checks that an operation is within an epoch: operations may be called at any time.
//
// # Synchronization
//
//	call                        what it does
//	Fence                       completes this rank's operations, and meets all ranks
//	Post, Wait or Test          the target's side of an epoch: opens the window to some ranks, and awaits their Complete
//	Start, Complete             the origin's side: awaits the Post of some ranks, and completes the operations
//	Lock, Unlock                the origin's side alone: shared with others, or exclusive
//	LockAll, UnlockAll          a shared lock of each rank
//	Flush, FlushAll             completes operations on one rank, or on all, within an epoch
//
// # Failures
//
// Under oshrun --recover the other ranks go on when one dies. An error of a call that needs a dead rank is a
// *mpi.RankError with mpi.ErrDied and shmem.ErrPEDied among its causes.
//
//   - Operations and Lock on the dead rank fail, and so do Fence and LockAll from then on. Those on other ranks go on.
//   - Start, Wait, Test and a Lock that waits for shared ones fail when their rank has died. The death of any other rank
//     ends them as well, until interop.AckFailed has acknowledged it. Then they may be called again: an error consumes
//     nothing that other ranks have sent.
//   - After Validate, dead ranks are as mpi.ProcNull, and all calls go on with the others.
//   - A lock whose holder dies goes to the next rank, which learns of the death from the Grant.
//   - Free succeeds. The memory stays taken until Finalize, and no further window can be made.
//
// All waits end with an error when the context of the window ends: see Win.With.
package win
