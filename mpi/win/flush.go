package win

// Flush completes this rank's operations on a rank, which then sees them. It may complete others as well.
//
//   - Errors: mpi.ErrRankRange; *mpi.RankError for a rank that has died; the end of the window's context.
//   - Concurrent calls: allowed; it completes what its own goroutine has called before it, and what happens before that.
//   - Source: MPI_Win_flush.
func (w *Win[T]) Flush(rank int) error {
	const op = "Flush"
	h := w.handle()
	if err := h.checkRank(op, rank); err != nil || h.isRecognized(rank) {
		return err
	}
	return h.fail(op, h.ops.QuietPE(h.pes[rank]))
}

// FlushAll completes this rank's operations on all ranks.
//
//   - Errors: *mpi.RankError if a node is lost with operations under way; the end of the window's context.
//   - Concurrent calls: as Flush.
//   - Source: MPI_Win_flush_all.
func (w *Win[T]) FlushAll() error {
	const op = "FlushAll"
	h := w.handle()
	if err := h.check(op); err != nil {
		return err
	}
	return h.fail(op, h.ops.Quiet())
}

// FlushLocal returns when the buffers of operations on a rank may be used again. All operations but Rget, for which it
// waits, return no sooner.
//
//   - Errors: as Flush.
//   - Concurrent calls: as Flush.
//   - Source: MPI_Win_flush_local, MPI_Win_flush_local_all.
func (w *Win[T]) FlushLocal(rank int) error { return w.Flush(rank) }

// Sync orders this rank's plain loads and stores of its memory before it with those after it, as other ranks see them by
// Shared. It also completes this rank's operations.
//
//   - Errors: as FlushAll.
//   - Concurrent calls: as Flush.
//   - Source: MPI_Win_sync.
func (w *Win[T]) Sync() error { return w.FlushAll() }
