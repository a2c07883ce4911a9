// Package mpi is message passing among the processes of a job, in the terms of MPI: ranks,
// communicators, messages with tags, and collectives on ordinary slices. It stands beside the one-sided
// communication of package shmem.
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
// A process may use shmem as well:
//
//   - Both packages may be initialized and finalized in any order.
//   - Rank i of World.Comm is PE i of shmem.
//   - Package interop turns communicators into teams and back.
//
// # Messages
//
//   - A buffer is a slice of any element type without pointers. A message is bytes: the element types of
//     sender and receiver are not compared.
//   - Between two ranks of a communicator, messages that fit a receive are received in the order in which
//     they were sent.
//   - A message of one communicator never meets a receive of another. Collectives never meet receives.
//   - A message of a rank to itself is always sent at once: a process never waits for itself.
//
// How a message travels depends on its length:
//
//   - Short: up to 16 KiB on a node of up to 32 PEs, 512 bytes with 1,024 PEs. It is sent at once. If no
//     receive waits for it, it is kept at the receiver, in memory that is allocated as needed.
//   - Longer: it stays at its sender until its receive comes. Then it is copied once: sender and receiver
//     copy a part each at a time. Data in symmetric memory (shmem.Sym.Local) are mapped; other data are copied
//     by the kernel (process_vm_readv).
//   - Longer, but not copied so: it is copied twice, through memory that both share, unless it lies in
//     symmetric memory at either side.
//
// The third case has three causes:
//
//   - A seccomp filter, as containers may have, forbids process_vm_readv.
//   - Yama forbids it, because another process stands between oshrun and the PE.
//   - 512 long messages of the sender are under way already.
//
// # Partitioned messages
//
// A message may consist of partitions, which goroutines send as they are ready (PsendInit, PrecvInit).
//
//   - Each partition is a message of its own. The receiver may use it as soon as Arrived reports it.
//   - Partitioned messages match in the order of PsendInit and PrecvInit. They never meet Send, Recv or Probe.
//
// The receiver may divide its buffer otherwise than the sender:
//
//	p, err := mpi.PsendInit(c, buf, 8, next, 7)
//	err = p.Start()
//	err = p.Ready(i)                               // by any goroutine, for each i
//	_, err = p.Wait()
//
// # Several nodes
//
// In a job of several nodes (oshrun --host, --emulate), messages to ranks of other nodes go through the agents of both nodes, and
// messages between ranks of one node as described above.
//
//   - Messages of up to 16 KiB are sent at once. Those that find no receive wait at the receiver's node: up to 16 MiB for each rank
//     in memory of the agent. Beyond that their senders wait. The messages of such a sender for other ranks of that node wait, too.
//   - Longer messages go in parts. From a symmetric heap the receiver gets them, unless the context of Send or Recv can end.
//   - Collectives of the communicator of all ranks take a step for each kilobyte. Different calls give ErrMismatch on all ranks. GOSHMEM_CHECK adds
//     nothing to that. Those of other communicators with ranks of several nodes go in messages.
//   - An error that reports a rank of a lost node names the node. A long message in symmetric memory is lost with a sender on another
//     node.
//
// # Further processes
//
// Spawn starts processes, as a job of their own, on the nodes of the job. Both sides have an Intercomm: the caller gets it, and a process that was started finds it in
// World.Parent. Merge makes one communicator of both. So survivors go on with as many ranks as before:
//
//	rest, err := c.Shrink()
//	x, err := mpi.Spawn(rest, mpi.Command{Path: os.Args[0]}, c.Size()-rest.Size(), 0)
//	c, err = x.Merge(false)                        // in the new processes: World.Parent().Merge(true)
//
// # Collectives
//
// Each collective has three forms: Bcast waits, Ibcast returns a Request, and BcastInit makes a Persistent, which each Start executes.
//
//   - All ranks call the collectives of a communicator in the same order. The last two forms do not wait for each other, and may be under way at a
//     time.
//   - Collectives that do not wait, and those of communicators that share no memory, go in messages. If ranks call different ones, or with
//     different lengths, at least one of them gets ErrMismatch, and the others that or ErrCommBroken, later at the latest. Persistent ones are
//     not compared: they may wait for each other.
//   - A communicator that is broken for such collectives is broken for all of them.
//
// # Progress
//
//   - Messages move inside of calls: of this package, and of all other waits of the process, in package
//     shmem too.
//   - A rank that computes receives nothing meanwhile, and ranks that wait for it go on waiting.
//   - All calls may be made by any goroutine. No call blocks another one for longer than a copy takes.
//
// # Errors
//
//   - Nothing panics. A bad argument gives a *UsageError: what is wrong, the value, what is wanted.
//   - A rank whose arguments of Bcast, Reduce or Allreduce are bad does not take part. Those that need it wait for it
//     until their context ends (Comm.With); of a Reduce that is the root alone.
//   - In Comm.Split such a rank takes part, and the others get an error too.
//
// # Failures
//
// Without oshrun --recover, a death ends the job. With it, calls that need a dead rank return a
// *RankError, all other calls go on, and nothing hangs:
//
//   - Send to the rank fails.
//   - Recv from the rank fails when everything that it had sent was received.
//   - A receive from AnySource fails if there is no message and the death is not acknowledged
//     (Comm.AckFailed).
//   - Collectives fail in each communicator that has the rank. Survivors go on in a communicator that
//     interop.CommOf makes of what shmem.Team.Shrink leaves.
//   - Finalize and Free wait for no rank. A rank that has called them is reported like a dead one, with
//     ErrRankFinalized.
package mpi
