// Package ft has transactions for package mpi: a program tries communication, computation and input or output in a block, and then all ranks agree
// whether everything has succeeded, or what has failed at which rank.
//
//	b := ft.Try(comm, ft.Global)
//	b.Add(mpi.Irecv(comm, halo, left, 0))
//	b.Add(mpi.Isend(comm, edge, right, 0))
//	b.Add(mpi.Go(readNextInput), nil)
//	_, err := b.Finish(nil, time.Second).Wait()
//	if err != nil { // the same decision at all ranks
//		dead := b.FailedRanks(ft.SoftFault, ft.NodeLost)
//		...
//	}
//
// Only operations that do not wait are in a block: I-forms of package mpi, mpi.Go, and blocks. An operation costs nothing more for being in one. The
// ranks agree once, at the end, not after each operation.
//
// # Modes
//
//	Local           no rank waits for another one; faults are those of this rank
//	Global          the ranks agree on all faults at the end
//	WithCollective  a collective in the block, such as Iallreduce, says that all ranks were there. The ranks agree only if something has failed
//
// In a block WithCollective a rank may have accepted a block that has failed at another one, as its own operations have all succeeded. It learns of it in
// its next block, whose operations end with errors, and which gets the decision of all ranks. Each fault says in which block it was. Make the
// last block before other calls Global: then no rank is past it when another one fails.
//
// Comm.Revoke ends blocks: each rank rejects those that it has not accepted, with the faults that it knows itself.
//
// # Decisions
//
//	Accept   nothing has failed
//	Partial  requests have failed, but the communicator works on: what has succeeded may be kept, and the rest tried again
//	Reject   ranks have died or left, or collectives are broken, or the communicator is revoked: it is to be repaired (Recover), and the data restored
//
// The ranks that live get the same decision, with the same faults. Deaths that all of them have acknowledged before the block (Comm.AckFailed) are no
// faults. So a block may be on a communicator that has dead ranks.
//
// # Recovery
//
// Recover makes a communicator in place of one with dead ranks: of those that live, or with new processes. Run does that for a whole program: it calls the
// program's body again after each recovery, and says from which epoch on. The option Trace tells
// when each phase of a recovery is over.
//
// # Source
//
// Hassani, Skjellum, Bangalore and Brightwell, Practical Resilient Cases for FA-MPI, A Transactional Fault-Tolerant MPI. There, a timeout of finish and a
// timeout of its wait are one; here Finish has a time for its requests, and Request.With has one for the wait.
package ft
