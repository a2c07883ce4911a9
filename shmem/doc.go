// Package shmem is OpenSHMEM for Go: a partitioned global address space with
// one-sided communication.
//
// A job has NPEs processing elements (PEs), processes numbered from 0. Each
// owns a symmetric heap; objects allocated there exist on every PE at the same
// place, so that any PE can name any other PE's copy by a handle and a number.
//
//	shmem.Run(func(w *shmem.World) error {           // every PE
//		x, err := shmem.Alloc[int64](w, 100)     // every PE, same arguments
//		if err != nil {
//			return err
//		}
//		err = shmem.P(w.Ctx(), x.At(7), 42, 1)   // PE 1's element 7 becomes 42
//		err = errors.Join(err, w.Barrier())      // all puts are complete, everybody is here
//		fmt.Println(x.Local()[7])                // on PE 1: 42
//		return err
//	})
//
// [Run] is [Init], the function, and [World.Finalize]; a program may call these itself.
//
// Start the program with oshrun -n 4 ./program; without oshrun it is a job of
// one PE, and Init warns on stderr if another launcher (mpiexec, srun) has started several.
//
// # Shapes
//
// Operations that are generic in the element type are package functions that
// take the context or team first; all others are methods. Element types hold
// no pointers. PE numbers are relative to the team of the handle. Counts are
// lengths of handles and slices, in elements; that of a collective is the length of its source.
//
// Symmetric is what allocation returns, and nothing else: other than in C, global
// variables of the program are not symmetric. A handle is the only name of an object,
// and the zero handle names none.
//
// # Families
//
// All 109 routines of OpenSHMEM 1.5 and 1.6 are here; docs/openshmem.md has the Go name and the
// test of each, and what is left out on purpose. By families:
//
//   - set-up: [Run], [Init], [World.Finalize], [World.GlobalExit], [World.MyPE], [World.NPEs],
//     [World.PEAccessible], [Sym.Accessible], [InfoName]; levels of threads: [Threads]
//   - memory: [Alloc], [Calloc], [Realloc], [Free], with [Align] and [Hints]; [Sym.At] and
//     [Sym.Slice] name parts, [FieldOf] and [Field.At] a field of a struct element, [Sym.Local]
//     and [Sym.Peer] are the memory itself
//   - remote memory access: [Put], [Get], [P], [G], [IPut], [IGet], [IBPut], [IBGet], and
//     [PutNBI], [GetNBI], whose results [Pending] gives
//   - atomic operations: [AtomicFetch], [AtomicSet], [AtomicSwap], [AtomicCompareSwap],
//     [AtomicFetchAdd] and others; those named NBI do not wait
//   - signals: [PutSignal], [PutSignalNBI], [Ctx.SignalAdd], [Ctx.SignalSet],
//     [Ctx.SignalFetch], [Ctx.SignalWaitUntil]
//   - waits and tests: [WaitUntil], [Test], and of several elements [WaitUntilAll],
//     [WaitUntilAny], [WaitUntilSome], [TestAll], [TestAny], [TestSome], with vectors of values
//   - ordering: [Ctx.Fence], [Ctx.Quiet], [Ctx.QuietPE]
//   - collectives: [World.Barrier], [World.Sync], [Team.Sync], [Broadcast], [Collect],
//     [FCollect], [Alltoall], [AlltoallS], [Reduce], [SumInScan], [SumExScan]; on private values, of
//     which the specification knows nothing: [ReduceValue], [BroadcastValue]
//   - teams: [Team.SplitStrided], [Team.Split2D], [Team.Translate], [PeerIn]; contexts:
//     [Team.NewCtx], [Ctx.Destroy], [Ctx.SessionStart]
//   - locks: [NewLock], [LockAt], [Lock.Acquire], [Lock.Try], [Lock.Release]
//   - failures, of which the specification knows nothing: [World.Failed], [World.AckFailed],
//     [World.OnFailure], [Team.Agree], [Team.Validate], [Team.Shrink], [Team.Outcome]
//
// # Teams and contexts
//
// A team is an ordered set of PEs, which have numbers from 0 on in it. Init makes those
// of all PEs and of the PEs of a node; Team.SplitStrided and Team.Split2D make others of
// them, and so on, and Team.Destroy ends one. Teams may overlap, and their collectives
// may follow each other in any order that is the same on all PEs that two teams
// have in common. Handles are of one PE: With gives another handle of the same
// team.
//
// A context is what Fence and Quiet act on. PE numbers in operations on it are those of its
// team: w.Ctx() has those of the world, Team.NewCtx those of that team, at the same
// cost. In errors, PE numbers are always of the world.
//
// # Ordering
//
// A put may be visible to its target at any time after the call; Fence orders
// what was put before it before what is put after it, per target; Quiet
// returns when all is complete. A PE sees what others put only after it has
// synchronized: WaitUntil, Test, a signal, a barrier or another collective.
//
// In full:
//
//   - A put or a signal returns when its source may be used again, a get when its
//     result is there, a fetching atomic operation when it has been made. Those named
//     NBI promise less: a source is left alone until Quiet, and a result is to be had
//     by Pending.Wait, or after Quiet.
//   - Two puts have no order, not even to one PE. What a context does before a Fence is
//     seen at each PE before what it does there after it. Between two contexts, or two
//     PEs as targets, only Quiet orders.
//   - Fence does not order what operations fetch. After Quiet, all of the context is
//     complete: visible to every PE at its target, and here, where it was fetched.
//     QuietPE is that for some targets. Barrier is a Quiet of the world's context, and a
//     meeting; Team.Sync is a meeting alone.
//   - PutSignal's data are visible to who sees its signal. Earlier puts need a Fence
//     before it.
//   - None of these concerns the target, whose plain loads may still be early. It
//     synchronizes: WaitUntil, Test, SignalWaitUntil and SignalFetch read as an
//     acquire, and so do AtomicFetch and other atomic operations, and a collective.
//     After it, elements of Local may be read plainly.
//   - Atomic operations, waits and tests on elements of one type are atomic to each
//     other, wherever they are called, not to puts and plain stores. But an element of
//     1, 2, 4 or 8 bytes that P puts, or Put alone, is never seen in part.
//
// # Errors
//
// Nothing panics. A bad argument gives a *UsageError that says what was wrong,
// which value it had and what is wanted. At and Slice out of range give a
// handle that fails at its first use.
//
// A PE whose arguments of a collective on data are bad gets that error at once and is not
// in the collective: the others wait for it, until the end of their With. (Of Collect, a
// destination that is too short is an error of all.) In calls that allocate, free or make
// teams it takes part nevertheless, and the others get an error too.
//
// # Errors of collectives
//
// These are the errors of Barrier, Sync and the collectives on data. errors.Is finds the names.
//
//	error           team      when                              afterwards               next step
//	*UsageError     any       an argument of this PE is bad     dst is as before; this   mend the call: the
//	                                                            PE was not in the call   others wait for this PE
//	ErrPEDied       strict    a member has died                 dst is undefined; all    Team.Shrink
//	                                                            later calls fail alike
//	ErrPEDied       tolerant  the root of a Broadcast died      dst is as before; the    call it with another
//	                          before it entered the call        team goes on             root
//	ErrPEFinalized  any       a member has finalized and        dst is undefined; the    World.Finalize
//	                          will not come                     team is broken
//	ErrMismatch     any       a member called another           dst is undefined; the    mend the program: see
//	                          collective or passed other        team is broken           Checks
//	                          arguments
//	the context's   any       the team's With ended first       dst is undefined; the    Team.Agree, which gives
//	                                                            team is broken           dst and src back
//	ErrTeamBroken   any       a member gave up this collective  dst is undefined; the    Team.Shrink
//	                          or an earlier one                 team is broken
//
// Causes of a *UsageError are ErrArgument, ErrPERange, ErrBounds, ErrOverlap, ErrElementType, ErrFreed,
// ErrForeignHandle, ErrDestroyed and ErrFinalized. ErrPEDied and ErrPEFinalized come in a *PEError, which
// names the PEs.
//
//   - A death: all survivors of a strict team get the error, of the collective in which the member died and
//     of all behind it. A Broadcast may have ended well for some of them before. On a tolerant team, all
//     survivors get the error of a Broadcast alike, and all other collectives end without an error: see
//     Failures. One exception is a ReduceValue of more than 8176 bytes, when a member dies that has
//     contributed: all survivors get the error, and the team goes on.
//   - The end of With: the other members may still read src and write to dst on this PE until Team.Agree has
//     returned. They get ErrTeamBroken, unless all their data were there.
//   - ErrMismatch is found for data beyond 8 KiB (1 KiB where each PE has a processor): by all that call such
//     a collective, of a Broadcast by those that do not find at the root what they wait for. It is not
//     found for less data, for Sync and Barrier, and for operators. ReduceValue and BroadcastValue find it
//     for values of any size, and take types of one size for the same.
//   - ReduceValue and BroadcastValue behave as Reduce and Broadcast, and return zeros with an error.
//   - With GOSHMEM_CHECK=collectives, all members get ErrMismatch in every case, dst is as before, and the
//     team goes on.
//   - Team.Agree, Validate and Shrink work on a team that is broken or has lost members.
//
// # Checks
//
// PEs that call different collectives, or the same with different arguments, wait for each
// other or get wrong results. With GOSHMEM_CHECK=collectives in the environment of any PE, the
// PEs of a team compare what they call before each collective: which one, how many elements of
// which type, the root, the operator, the objects. Where that differs, none enters the
// collective: all get an error with ErrMismatch that says who calls what, and the team goes on.
//
//	shmem.Reduce: Reduce(sum) of 8 elements of int64 on PE 0, 1, 3, but Reduce(max) of 8 elements of int64 on PE 2: want the same call on all PEs of the team
//
// A PE whose arguments are bad gets its own error, as without the check, and the others one
// that quotes it, instead of waiting. Operators are compared by name: sum, prod, min, max, and, or, xor;
// of the program, that of the function, or the place of a function literal in the source. To tell them
// from each other, a reduction calls its operator with empty slices.
// Finalize, Team.Agree and its kin are compared like other collectives, and go on where PEs
// have died or the team is broken.
//
// The check is for programs that hang or give wrong results: it costs another meeting of the
// team for each collective, also for those that need none, as a Broadcast at its root. It does not
// find PEs that are in collectives of different teams, which wait for each other as ever.
//
// # Failures
//
// Without oshrun --recover, a PE that dies ends the job. With it, the others get a
// *PEError, with ErrPEDied among its causes, of operations on it, of allocation,
// and of waits until they have called World.AckFailed. Nothing waits for the dead.
//
// Collectives go on as those of the PEs that live: they end on all of them with the same
// result, and Team.Outcome says whose data are in it. On a team with ModeStrict they
// fail instead. As PEs learn of a death at different times, they should not take different
// ways because of it before Team.Agree or Team.Validate has told all of them the same;
// Team.Shrink makes a team of those that live.
//
// # Concurrency
//
// Any goroutine may call any operation. Fence and Quiet act on what their goroutine has
// called before, and on what happens before that in Go's sense: a channel or a
// WaitGroup between goroutines makes their operations one sequence. Collectives on one
// team are called by one goroutine at a time, in the same order on all PEs.
package shmem

//go:generate go run ../internal/house/coverage/gen . ../docs/openshmem.md
