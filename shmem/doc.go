// Package shmem is OpenSHMEM for Go: processes that read and write each other's memory directly, without the help of
// the process that owns it.
//
// A job is NPEs processing elements (PEs): processes, numbered from 0. Each PE owns a symmetric heap. An object that
// is allocated there exists on every PE at the same offset. So any PE can name any other PE's copy, by a handle and
// a PE number.
//
//	shmem.Run(func(w *shmem.World) error {
//		x, err := shmem.Alloc[int64](w, 100) // every PE makes the same call
//		if err != nil {
//			return err
//		}
//		if w.MyPE() == 0 {
//			err = shmem.P(w.Ctx(), x.At(7), 42, 1) // element 7 on PE 1 becomes 42
//		}
//		err = errors.Join(err, w.Barrier()) // completes all puts, and waits for all PEs
//		if w.MyPE() == 1 {
//			fmt.Println(x.Local()[7]) // 42
//		}
//		return err
//	})
//
// Start the program with
//
//	oshrun -n 4 ./program
//
// Without oshrun it is a job of one PE. Init warns on stderr if another launcher (mpiexec, srun) has started several.
// [Run] is [Init], the function and [World.Finalize] in one; a program may call these itself.
//
// # Shapes
//
//   - A handle ([Sym]) is the only name of an object. The zero handle names none. [Sym.At] and [Sym.Slice] name parts.
//   - Only objects that [Alloc] and its kin return are symmetric. Unlike in C,
//     global variables of the program are not symmetric.
//   - Element types hold no pointers.
//   - Generic operations are package functions that take a context or a team first. All others are methods.
//   - PE numbers are relative to the team of the context or handle.
//   - A count is the length of a handle or slice, in elements. The count of a collective is the length of its source.
//
// # Families
//
// The package has all 109 routines of OpenSHMEM 1.5 and 1.6. docs/openshmem.md has the Go name and the test of each,
// and what is left out on purpose.
//
//   - set-up: [Run], [Init], [World.Finalize], [World.GlobalExit], [World.MyPE], [World.NPEs],
//     [World.PEAccessible], [Sym.Accessible], [InfoName]; thread levels: [Threads]
//   - memory: [Alloc], [Calloc], [Realloc], [Free], with [Align] and [Hints]; parts of objects: [Sym.At],
//     [Sym.Slice], [FieldOf] and [Field.At]; as integers: [Bits64], [Bits32]; the memory itself: [Sym.Local], [Sym.Peer]
//   - remote memory access: [Put], [Get], [P], [G], [IPut], [IGet], [IBPut], [IBGet]; non-blocking: [PutNBI],
//     and [GetNBI], which returns a [Pending]
//   - atomic operations: [AtomicFetch], [AtomicSet], [AtomicSwap], [AtomicCompareSwap], [AtomicFetchAdd] and others;
//     those named NBI do not wait for the result
//   - signals: [PutSignal], [PutSignalNBI], [Ctx.SignalAdd], [Ctx.SignalSet], [Ctx.SignalFetch],
//     [Ctx.SignalWaitUntil]
//   - waits and tests: [WaitUntil], [Test]; of several elements [WaitUntilAll], [WaitUntilAny], [WaitUntilSome],
//     [TestAll], [TestAny], [TestSome], which also exist with a value for each element (Vector)
//   - ordering: [Ctx.Fence], [Ctx.Quiet], [Ctx.QuietPE]
//   - collectives: [World.Barrier], [World.Sync], [Team.Sync], [Broadcast], [Collect], [FCollect], [Alltoall],
//     [AlltoallS], [Reduce], [SumInScan], [SumExScan]; of private values, beyond the specification: [ReduceValue],
//     [BroadcastValue]
//   - teams: [Team.SplitStrided], [Team.Split2D], [Team.Translate], [PeerIn]; contexts: [Team.NewCtx],
//     [Ctx.Destroy], [Ctx.SessionStart]
//   - locks: [NewLock], [LockAt], [Lock.Acquire], [Lock.Try], [Lock.Release]
//   - failures, beyond the specification: [World.Failed], [World.AckFailed], [World.OnFailure], [Team.Agree],
//     [Team.Validate], [Team.Shrink], [Team.Outcome]; copies of objects that outlive them: [NewCheckpoint],
//     [Checkpoint.Commit], [Checkpoint.Restore], [GetCommitted]
//
// # Teams and contexts
//
// A team is an ordered set of PEs, which are numbered from 0 in it. Init makes the team of all PEs, and the team of
// the PEs of each node. Team.SplitStrided and Team.Split2D make further teams of an existing one, and Team.Destroy
// ends one. Teams may overlap. PEs that are in two teams call the collectives of both in the same order. A handle
// belongs to one PE. With returns another handle of the same team.
//
// A context is the set of operations that Fence and Quiet act on. PE numbers of its operations are those of its
// team: w.Ctx() has those of the world, and a context of Team.NewCtx those of that team, at the same cost. Errors
// always have PE numbers of the world.
//
// # Several nodes
//
// In a job of several nodes (oshrun --host, --emulate), the PEs of a node are near: they reach each other's memory as on
// one node. All other PEs are far. Operations on far PEs go through the agents of both nodes, and round trips of a PE that makes
// many of them past its own (GOSHMEM_EXPRESS).
//
//   - A blocking put and an atomic operation without a result return when the agent has them. Gets, fetching atomic
//     operations and Quiet take a round trip, and so do blocking puts from 16 KiB on whose source is in the symmetric
//     heap: the agent sends from there. Several operations that are under way at once share it: GetNBI, PutNBI.
//   - Sym.Peer and PeerIn return false for far PEs. World.Shared is the team of the near PEs.
//   - On a team whose PEs are on several nodes, a meeting is a round trip between agents. Reduce of up to
//     1 KiB and ReduceValue are one meeting with a predefined operator, whatever the number of PEs: the agents combine the
//     elements, and may round floating-point numbers otherwise than in the order of PEs. BroadcastValue of up to 1 KiB is
//     one meeting. ReduceValue with another operator is one if the values of all PEs together are less than 8 KiB.
//     Other collectives on objects are two meetings or more, between which each PE reads what it needs from other PEs. Large
//     reductions are divided among the PEs. Of large data that all PEs get, each byte goes to a node once. Collect, which
//     reads the lengths, and ReduceValue by operators of the program are slow on teams of more than 113 PEs, where each PE
//     reads from all others. A tolerant team needs memory for as much as the results besides. Package interop is missing
//     there.
//   - A job has at most 128 nodes. If the PEs of a node do not have consecutive numbers (oshrun --map-by node), all is as
//     right, but operations on near PEs are fast only where numbers of a context's team that follow each other are those of
//     near PEs, as in World.Shared.
//   - A lock needs a job of at most 8192 PEs. An acquisition takes some round trips to the lock's home. The death of the
//     home makes all calls on the lock fail.
//   - Package mpi does not reach other nodes yet.
//
// # Ordering
//
// A put may become visible to its target at any time after the call. Fence orders the puts before it and after it, to
// each target. Quiet returns when all operations are complete. A PE sees what others have put only after it has
// synchronized: by WaitUntil, Test, a signal, a barrier or another collective.
//
// In full:
//
//   - A put or a signal returns when its source may be used again. A get returns when its result is there, and a
//     fetching atomic operation when it has been performed. NBI operations promise less: leave a source unchanged
//     until Quiet, and read a result after Pending.Wait or Quiet.
//   - Two puts have no order, not even to one PE. A PE sees what a context does before a Fence before what the context
//     does there after it. Between two contexts, and between two target PEs, only Quiet orders.
//   - Fence does not order the values that operations fetch. After Quiet, all operations of the context are complete:
//     visible to every PE at the target, and fetched here. QuietPE is Quiet for some targets. Barrier is a Quiet of
//     the default context and a meeting of all PEs. Team.Sync is a meeting alone.
//   - A PE that sees the signal of a PutSignal sees its data. Earlier puts need a Fence before the PutSignal.
//   - All this orders the sender's side. The target must synchronize before it loads plainly: WaitUntil, Test,
//     SignalWaitUntil, SignalFetch, AtomicFetch, other atomic operations and collectives are acquires. After one of
//     these, elements of Local may be read plainly.
//   - Atomic operations, waits and tests on elements of one type are atomic with respect to each other, wherever they
//     are called. They are not atomic with respect to puts and plain stores. But a single element of 1, 2, 4 or 8 bytes
//     that P or Put writes is never seen in part.
//
// # Errors
//
// No function panics. A bad argument gives a *UsageError, which says what was wrong, which value it had and what is
// wanted. At and Slice return no error: with bad indices they return a handle that fails at its first use.
//
// Suppose that a PE passes bad arguments.
//
//   - To a collective on data: it gets its error at once and does not take part. The others wait for it until their
//     With ends. (In Collect, a destination that is too short gives all PEs an error.)
//   - To a call that allocates, frees or makes teams: it takes part nevertheless, and the others get an error too.
//
// # Errors of collectives
//
// These are the errors of Barrier, Sync and the collectives on data. errors.Is finds the names.
//
//	error           team      when                              afterwards               next step
//	*UsageError     any       an argument of this PE is bad     dst is as before; this   correct the call: the
//	                                                            PE was not in the call   others wait for this PE
//	ErrPEDied       strict    a member has died                 dst is undefined; all    Team.Shrink
//	                                                            later calls fail alike
//	ErrPEDied       tolerant  the root of a Broadcast died      dst is as before; the    call it with another
//	                          before it entered the call        team goes on             root
//	ErrPEFinalized  any       a member has finalized and        dst is undefined; the    World.Finalize
//	                          will not come                     team is broken
//	ErrMismatch     any       a member called another           dst is undefined; the    correct the program: see
//	                          collective or passed other        team is broken           Checks
//	                          arguments
//	the context's   any       the team's With ended first       dst is undefined; the    Team.Agree, after which
//	                                                            team is broken           dst and src are free
//	ErrTeamBroken   any       a member gave up this collective  dst is undefined; the    Team.Shrink
//	                          or an earlier one                 team is broken
//
// Causes of a *UsageError are ErrArgument, ErrPERange, ErrBounds, ErrOverlap, ErrElementType, ErrFreed,
// ErrForeignHandle, ErrDestroyed and ErrFinalized. ErrPEDied and ErrPEFinalized come in a *PEError, which names the
// PEs.
//
//   - A death, on a strict team: all survivors get the error, of the collective in which the member died and of all
//     later ones. Before that, a Broadcast may have succeeded for some of them. On several nodes the error names the same PEs
//     on all of them, also in the later ones.
//   - A death, on a tolerant team: all survivors alike get the error of a Broadcast whose root died. All other
//     collectives end without an error (see Failures), with one exception: if a member that has contributed to a
//     ReduceValue of more than 8176 bytes dies, all survivors get the error, and the team goes on. (On several nodes they get
//     the result instead.)
//   - The end of With: until Team.Agree has returned, the other members may still read src and write to dst on this PE.
//     They get ErrTeamBroken, unless all their data were there.
//   - ErrMismatch is found for data beyond 8 KiB (1 KiB if each PE has a processor). All members of such a collective
//     find it; of a Broadcast, those that do not find their call at the root. It is not found for less data, for Sync
//     and Barrier, and for operators. ReduceValue and BroadcastValue find it for values of any size, but cannot tell
//     types of one size from each other.
//   - A team whose PEs are on several nodes finds ErrMismatch for data of any size, for Sync and for Barrier. For operators it
//     does in a ReduceValue, and in a Reduce of up to 1 KiB, if one of them is a predefined one. All members get it, dst is
//     as before, and the team goes on. It does not find members of which some are in a Team.Agree, Validate, Shrink or split,
//     and others in something else: these wait for each other, until the team's With ends.
//   - ReduceValue and BroadcastValue behave as Reduce and Broadcast, and return zeros with an error.
//   - With GOSHMEM_CHECK=collectives, all members get ErrMismatch in every case, dst is as before, and the team goes
//     on.
//   - Team.Agree, Validate and Shrink work on a team that is broken or has lost members.
//
// # Checks
//
// PEs that call different collectives, or one with different arguments, wait for each other or get wrong results.
// Set GOSHMEM_CHECK=collectives in the environment of any PE to find such a mistake. The PEs of a team then compare
// their calls before each collective: which one, how many elements of which type, the root, the operator, the
// objects. If the calls differ, none enters the collective, and the team goes on. All get an ErrMismatch that says
// who calls what:
//
//	shmem.Reduce: Reduce(sum) of 8 elements of int64 on PE 0, 1, 3, but Reduce(max) of 8 elements of int64 on PE 2: want the same call on all PEs of the team
//
// In detail:
//
//   - A PE whose arguments are bad gets its own error, as without the check. The others get one that quotes it, instead
//     of waiting.
//   - Operators are compared by name: sum, prod, min, max, and, or, xor; of the program, the name of the function, or
//     the place of a function literal in the source. To tell them from each other, a reduction calls its operator with
//     empty slices.
//   - Finalize, Team.Agree, Validate and Shrink are compared like other collectives. They go on if PEs have died or the
//     team is broken.
//   - The check costs one more meeting of the team for each collective, also for those that need none, such as a
//     Broadcast at its root.
//   - It does not find PEs that wait for each other in collectives of different teams.
//   - On a team whose PEs are on several nodes it compares nothing more than such a team does anyway (see Errors of
//     collectives). The others wait for a PE whose arguments to a collective on data are bad.
//
// # Failures
//
// Without oshrun --recover, the death of a PE ends the job. With it, the other PEs go on, and nothing waits for the
// dead. These calls then return a *PEError with ErrPEDied among its causes:
//
//   - operations on the dead PE;
//   - Ctx.Quiet, once, if the node of the dead PE is lost while operations on its PEs are under way;
//   - allocation;
//   - waits, until World.AckFailed has acknowledged the death.
//
// Collectives go on among the living PEs. They end on all of them with the same result, and Team.Outcome says whose
// data are in it. On a team with ModeStrict they fail instead.
//
// PEs learn of a death at different times. So they should not base a decision on it before Team.Agree or
// Team.Validate has told all of them the same. Team.Shrink makes a team of the living PEs.
//
// # Concurrency
//
// Any goroutine may call any operation. Fence and Quiet act on the operations that their goroutine has called
// before, and on those that happen before in Go's sense: a channel or a WaitGroup between goroutines makes their
// operations one sequence. Collectives on one team are called by one goroutine at a time, in the same order on all
// PEs.
package shmem

//go:generate go run ../internal/house/coverage/gen . ../docs/openshmem.md
