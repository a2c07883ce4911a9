package shmem

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Failure is what a callback of OnFailure gets: new deaths.
type Failure struct {
	PEs    []int           // PEs that have died since the last call, ascending
	Causes []failure.Cause // the cause of each death, in the order of PEs
	Epoch  uint64          // grows with each death in the job
}

// Failed returns the PEs that are known to have died, ascending. Operations on them that begin afterwards fail. Without oshrun
// --recover, a death ends the job, and there is little time to call Failed.
//
//   - Cost: a look at each PE if any has died; no communication.
//   - Concurrent calls: allowed.
//   - Source: none; like MPI's MPIX_Comm_get_failed.
func (w *World) Failed() []int {
	if w == nil || w.session == nil {
		return nil
	}
	pes, _ := w.session.h.known()
	return pes
}

// AckFailed acknowledges all deaths that are known, and returns the PEs as Failed does. An unacknowledged death ends
// every wait. Once it is acknowledged, waits may be called again. AckFailed changes nothing for other calls.
//
//   - Cost: as Failed.
//   - Concurrent calls: allowed.
//   - Source: none; like MPI's MPIX_Comm_ack_failed.
func (w *World) AckFailed() []int {
	if w == nil || w.session == nil {
		return nil
	}
	h := w.session.h
	pes, epoch := h.known()
	for old := h.acked.Load(); old < epoch && !h.acked.CompareAndSwap(old, epoch); {
		old = h.acked.Load()
	}
	return pes
}

// OnFailure registers f, which is called once for each group of new deaths of PEs. Deaths before the registration are
// included. The call of f acknowledges nothing.
//
// After cancel or Finalize has returned, no further call of f begins; one that is under way goes on. Finalize has f
// called with the deaths that are known by then. It waits a quarter of a second for that at most. A call of Finalize
// by f itself waits for all of that time, without effect.
//
// On a World that Init did not return, and in a job of one PE without oshrun, f is never called.
//
//   - Cost: none until a PE dies; then a message of oshrun's and a switch of goroutines.
//   - Concurrent calls: allowed. One goroutine calls all functions, one after the other: f may call anything, but the
//     others wait for it. A panic of f ends the process, as one on any goroutine does.
//   - Errors: a nil f is never called.
//   - Source: none; like PMIx event handlers.
func (w *World) OnFailure(f func(Failure)) (cancel func()) {
	if w == nil || w.session == nil || f == nil || w.session.h.finalized() {
		return func() {}
	}
	h := w.session.h
	return h.job.OnFailure(func(all []failure.Failure, epoch uint64) {
		if h.finalized() {
			return
		}
		news := Failure{Epoch: epoch}
		for _, d := range all {
			news.PEs, news.Causes = append(news.PEs, d.PE), append(news.Causes, d.Cause)
		}
		f(news)
	})
}

// known returns what the program is told of deaths.
func (h *heap) known() (pes []int, epoch uint64) {
	*h.mark = 1
	if pes, epoch = h.deathsSince(0); len(pes) > 0 {
		h.told()
	}
	return pes, epoch
}

// told makes operations on the dead fail that the program is told of. The goroutine of the news may come later.
func (h *heap) told() {
	if !h.fastClosed.Load() {
		h.alertLayers()
	}
}

// deathsSince returns the PEs that have died after an epoch, and the epoch of the latest death among them.
func (h *heap) deathsSince(since uint64) (pes []int, epoch uint64) {
	all, epoch := h.job.Failures.Since(since)
	for i := range all {
		pes = append(pes, all[i].PE)
	}
	return pes, epoch
}

// isDead reports whether a PE is known to be dead.
func (h *heap) isDead(pe layout.PE) bool { return h.job.IsDead(pe) }

// alertLayers tells the layers of this process that it has seen a death: Noticed calls what they have registered with
// Alert. newWorld has registered closeFastPath, which acts at the first death. The callbacks of World.OnFailure are
// called soon.
func (h *heap) alertLayers() { h.job.Noticed() }

// closeFastPath makes all operations of this process take the slow path, where check looks whether the target is
// alive. It removes all tags from the table that the fast test reads.
func (h *heap) closeFastPath() {
	if h.fastClosed.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fastClosed.Store(true)
	for slot := range h.usedSlots {
		h.removeFastTag(slot)
	}
}

// checkAlive returns an error that names those of the PEs that are known to be dead, or nil if none is.
func (h *heap) checkAlive(op string, pes []layout.PE) error {
	if h.job.Failures.Epoch() == 0 {
		return nil
	}
	var dead []layout.PE
	for _, pe := range pes {
		if h.isDead(pe) {
			dead = append(dead, pe)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	slices.Sort(dead)
	return h.errorOfDead(op, slices.Compact(dead))
}

// errorOfDead returns the error of a call that needs PEs that have died.
func (h *heap) errorOfDead(op string, pes []layout.PE) error {
	h.told()
	h.job.AwaitNews(pes)
	var all []failure.Failure
	for _, pe := range pes {
		f, _ := h.job.Failures.Failure(int(pe))
		f.PE = int(pe) // also while the step replaces the death by a later one
		all = append(all, f)
	}
	return errorOfFailures(op, h.job, all)
}

// errorOfFailures returns the error of a call that failed because of these deaths. Without a job it does not name lost nodes.
func errorOfFailures(op string, j *job.Job, all []failure.Failure) error {
	e := &diedError{}
	for i := range all {
		f := &all[i]
		lost := ""
		if f.Cause.Kind() == failure.NodeLost && j != nil && j.Home != nil {
			lost = j.NameNode(layout.PE(f.PE))
		}
		e.pes, e.causes, e.lost = append(e.pes, f.PE), append(e.causes, f.Cause), append(e.lost, lost)
	}
	return &PEError{PEs: e.pes, Op: op, Err: e}
}

// diedError says what each of some PEs has died of.
type diedError struct {
	pes    []int
	causes []failure.Cause
	lost   []string // the node of each PE that died with its node, otherwise empty
	hint   string   // what follows the causes
}

// Error gives the cause alone if there is one PE, because the PEError around it names the PE.
func (e *diedError) Error() string {
	if len(e.pes) == 1 {
		return e.cause(0) + e.hint
	}
	var parts []string
	for i, pe := range e.pes {
		parts = append(parts, fmt.Sprintf("PE %d %s", pe, e.cause(i)))
	}
	return strings.Join(parts, ", ") + e.hint
}

// cause returns what PE number i of the error has died of.
func (e *diedError) cause(i int) string {
	if e.lost[i] != "" {
		return fmt.Sprintf("was on %s, which is lost", e.lost[i])
	}
	return e.causes[i].String()
}

// Unwrap returns ErrPEDied and the causes.
func (e *diedError) Unwrap() []error {
	all := []error{ErrPEDied}
	for _, c := range e.causes {
		all = append(all, c)
	}
	return all
}

// isDeathError reports whether deaths alone are the cause of an error.
func isDeathError(err error) bool { return errors.Is(err, ErrPEDied) }
