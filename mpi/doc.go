// Package mpi is message passing among the processes of a job, beside the one-sided
// communication of package shmem: ranks, communicators, messages with tags, and
// collectives on ordinary slices, in the terms of MPI.
//
//	w, err := mpi.Init()
//	c := w.Comm()                                  // all ranks
//	next := (c.Rank() + 1) % c.Size()
//	r, err := mpi.Irecv(c, in, mpi.AnySource, 7)
//	err = mpi.Send(c, out, next, 7)
//	status, err := r.Wait()
//	err = mpi.Allreduce(c, sum, part, mpi.Sum)
//	err = w.Finalize()
//
// A process may use shmem as well: both may be initialized and finalized in any order,
// a rank of World's communicator is the PE of the same number, and package interop
// turns communicators into teams and back.
//
// # Messages
//
// Buffers are slices of any type without pointers. What is sent is bytes: the types of
// both sides are not compared. Between two ranks of one communicator, messages that fit
// a receive are received in the order in which they were sent. Messages of one
// communicator, and those of collectives, never meet receives of another one.
//
// A short message (up to 16 KiB on a node of up to 32 PEs, 512 bytes with 1,024) is sent at once, and
// waits for its receive at the receiver, in memory that is allocated as
// needed. A longer one waits with its sender, and is copied once, by both sides at a time,
// a part each. What does not lie in symmetric memory (shmem.Sym.Local) the kernel copies
// (process_vm_readv); where it lets no process do that, as seccomp filters of containers may, and
// as Yama may where something stands between oshrun and the PE, and where 512 long
// messages of one rank are under way already, it is copied
// twice, through memory that both share, unless it lies in symmetric memory on
// either side. A process never waits for itself: messages to the own rank are
// always sent at once.
//
// # Progress
//
// Messages move inside of calls: of this package, and of anything else in the process
// that waits, also in package shmem. A rank that computes receives
// nothing meanwhile, and those who wait for it wait on. No call blocks another one for longer
// than a copy takes; all may be called by any goroutine.
//
// # Errors
//
// Nothing panics. A bad argument gives a *UsageError that says what was wrong, which value
// it had and what is wanted. A rank whose arguments of Bcast, Reduce or Allreduce are bad
// is not in the collective: the others wait for it, until the end of their With. In
// Comm.Split it takes part nevertheless, and the others get an error too.
//
// # Failures
//
// By a death, without oshrun --recover, the job ends. With it, a rank that has died is
// known by errors, *RankError, of calls that need it: a Send to it, a Recv from it when
// everything that it had sent was received, a receive from AnySource when there is
// no message and the death has not been acknowledged (Comm.AckFailed), and any
// collective of a communicator that it is in. Nobody hangs; calls that do not need it are
// not disturbed. Collectives go on in communicators of survivors, which interop.CommOf makes
// of what shmem.Team.Shrink leaves.
//
// Then Finalize and Free wait for nobody, and a rank that has called them is known by the
// same errors, with ErrRankFinalized.
package mpi
