package win

import "fmt"

// Validate returns the ranks that have died, ascending: the same at all ranks that live, whoever dies meanwhile. From then on
// these ranks are recognized as dead, and the window treats them as mpi.ProcNull:
//
//   - Put, Get and the other operations on such a rank move nothing. Those that return an element return 0.
//   - Lock, Unlock, LockAll and UnlockAll have no lock there, and succeed.
//   - Fence meets the ranks that live. In Post, Start, Complete and Wait such a rank is nobody.
//
// A rank that dies later is an error again, until the next Validate. The communicator of the window is validated with it
// (mpi.Comm.Validate), and all deaths that this process knows are acknowledged, as by interop.AckFailed.
//
//   - Completion: nothing is completed. What this rank had under way on a dead rank is lost, and what a dead rank had
//     under way may be there in part.
//   - Cost: that of mpi.Comm.Validate.
//   - Errors: shmem.ErrFreed; those of mpi.Comm.Validate.
//   - Collective: over the ranks of the window that live, as mpi.Comm.Validate.
//   - Source: MPI_Win_validate_all of the proposal of run-through stabilization.
func (w *Win[T]) Validate() ([]int, error) {
	const op = "Validate"
	h := w.handle()
	if err := h.check(op); err != nil {
		return nil, err
	}
	dead, err := h.comm.Validate()
	if err != nil {
		return nil, fmt.Errorf("mpi.win.%s: %w", op, err)
	}
	recognized := make([]bool, h.n)
	for _, rank := range dead {
		recognized[rank] = true
	}
	h.recognized.Store(&recognized)
	h.world.AckFailed()
	return dead, nil
}

// isRecognized reports whether a rank is recognized as dead.
func (h *handle) isRecognized(rank int) bool {
	r := h.recognized.Load()
	return r != nil && (*r)[rank]
}
