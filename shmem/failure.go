package shmem

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Failure is what OnFailure tells of.
type Failure struct {
	PEs    []int           // that have died since the last call, ascending
	Causes []failure.Cause // of what each of them has died
	Epoch  uint64          // grows with each death in the job
}

// Failed returns the PEs that are known to have died, ascending. Where a death ends
// the job, which is so without oshrun --recover, nobody is left to ask for long.
//
//   - Cost: a look at each PE, if any has died; no communication.
//   - Concurrent calls: allowed.
//   - Source: none; of the kind of MPI's MPIX_Comm_get_failed.
func (w *World) Failed() []int {
	if w == nil || w.s == nil {
		return nil
	}
	*w.s.h.mark = 1
	pes, _ := w.s.h.failed(0)
	return pes
}

// AckFailed acknowledges all deaths that are known and returns the PEs, as Failed
// does. Waits, which a death ends as long as it is not acknowledged, may be called
// again after it. It changes nothing for other calls.
//
//   - Cost: as Failed.
//   - Concurrent calls: allowed.
//   - Source: none; of the kind of MPI's MPIX_Comm_ack_failed.
func (w *World) AckFailed() []int {
	if w == nil || w.s == nil {
		return nil
	}
	h := w.s.h
	*h.mark = 1
	pes, epoch := h.failed(0)
	for old := h.acked.Load(); old < epoch && !h.acked.CompareAndSwap(old, epoch); {
		old = h.acked.Load()
	}
	return pes
}

// OnFailure has f called with deaths of PEs, those before the call included, once
// for each time that there are new ones. That acknowledges nothing. After cancel has
// returned, or Finalize, no further call of f begins; one that is under way goes on.
// Finalize has f called with what is known by then, and waits for that a quarter of
// a second at most, in which a call of Finalize by f itself waits in vain.
//
// On a World that Init did not give, and in a job of one PE without oshrun, f is
// never called.
//
//   - Cost: none until a PE dies; then a message of oshrun's and a switch of goroutines.
//   - Concurrent calls: allowed. All functions are called by one goroutine, one after
//     the other: f may call anything, but others wait for it.
//     A panic of f ends the process, as one on any goroutine does.
//   - Errors: a nil f is never called.
//   - Source: none; of the kind of PMIx event handlers.
func (w *World) OnFailure(f func(Failure)) (cancel func()) {
	if w == nil || w.s == nil || f == nil || w.s.h.slots.Load() == 0 {
		return func() {}
	}
	h := w.s.h
	return h.job.OnFailure(func(all []failure.Failure, epoch uint64) {
		if h.slots.Load() == 0 {
			return
		}
		news := Failure{Epoch: epoch}
		for _, d := range all {
			news.PEs, news.Causes = append(news.PEs, d.PE), append(news.Causes, d.Cause)
		}
		f(news)
	})
}

// failed returns the PEs that have died after an epoch, and the epoch up to which
// these are all.
func (h *heap) failed(since uint64) (pes []int, epoch uint64) {
	all, epoch := h.job.Failures.Since(since)
	for i := range all {
		pes = append(pes, all[i].PE)
	}
	return pes, epoch
}

// dead reports whether a PE is known to be dead.
func (h *heap) dead(pe layout.PE) bool { return h.job.IsDead(pe) }

// notice reports that this process has seen a death. From the first one on, all operations go through
// check (beWary). The callbacks of World.OnFailure are called soon.
func (h *heap) notice() { h.job.Noticed() }

// beWary makes all operations of this process go through check: it removes all tags from the table that the fast
// test reads.
func (h *heap) beWary() {
	if h.wary.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wary.Store(true)
	for slot := range h.top {
		h.shut(slot)
	}
}

// buried returns the error of a call that names those of the PEs that are dead. Nil:
// all live.
func (h *heap) buried(op string, pes []layout.PE) error {
	if h.job.Failures.Epoch() == 0 {
		return nil
	}
	var dead []layout.PE
	for _, pe := range pes {
		if h.dead(pe) {
			dead = append(dead, pe)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	slices.Sort(dead)
	return h.died(op, slices.Compact(dead))
}

// died returns the error of a call that needs PEs that have died.
func (h *heap) died(op string, pes []layout.PE) error {
	var all []failure.Failure
	for _, pe := range pes {
		f, _ := h.job.Failures.Failure(int(pe))
		f.PE = int(pe)
		all = append(all, f)
	}
	return deaths(op, all)
}

// deaths returns the error of a call that has failed for them.
func deaths(op string, all []failure.Failure) error {
	e := &diedError{}
	for i := range all {
		e.pes, e.causes = append(e.pes, all[i].PE), append(e.causes, all[i].Cause)
	}
	return &PEError{PEs: e.pes, Op: op, Err: e}
}

// diedError says what PEs have died of.
type diedError struct {
	pes    []int
	causes []failure.Cause
}

// Error has the cause alone where there is one PE, which a PEError names.
func (e *diedError) Error() string {
	if len(e.pes) == 1 {
		return e.causes[0].String()
	}
	var parts []string
	for i, pe := range e.pes {
		parts = append(parts, fmt.Sprintf("PE %d %v", pe, e.causes[i]))
	}
	return strings.Join(parts, ", ")
}

// Unwrap returns ErrPEDied and the causes.
func (e *diedError) Unwrap() []error {
	all := []error{ErrPEDied}
	for _, c := range e.causes {
		all = append(all, c)
	}
	return all
}

// survivable says whether an error tells of deaths alone.
func survivable(err error) bool { return errors.Is(err, ErrPEDied) }
