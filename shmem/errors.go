package shmem

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/internal/job"
)

// Causes of errors, for errors.Is.
var (
	// ErrFinalized reports a call on a World after its last Finalize.
	ErrFinalized = errors.New("used after Finalize")
	// ErrPERange reports a PE number outside the team.
	ErrPERange = errors.New("PE out of range")
	// ErrBounds reports more elements than the object has, or a handle made
	// by At or Slice outside it.
	ErrBounds = errors.New("out of the object's bounds")
	// ErrFreed reports a handle of an object that was freed or resized.
	ErrFreed = errors.New("object was freed")
	// ErrForeignHandle reports a handle that belongs to another World, or to none.
	ErrForeignHandle = errors.New("handle of another world")
	// ErrElementType reports an element type that holds pointers, has no size, or is too
	// large for what is asked.
	ErrElementType = errors.New("unsuitable element type")
	// ErrMisaligned reports an atomic operation or wait on an element that is
	// not aligned to its size.
	ErrMisaligned = errors.New("misaligned")
	// ErrExhausted reports that the symmetric heap has no room for an object, or has as
	// many as there can be.
	ErrExhausted = errors.New("symmetric heap exhausted")
	// ErrMismatch reports a collective that PEs called with different arguments, or another one.
	// Not all such mistakes are noticed, but with GOSHMEM_CHECK=collectives.
	ErrMismatch = errors.New("PEs called with different arguments")
	// ErrOverlap reports source and destination of a collective that overlap, or a signal
	// among the elements that are put with it.
	ErrOverlap = errors.New("source and destination overlap")
	// ErrDestroyed reports a team or context that was destroyed.
	ErrDestroyed = errors.New("was destroyed")
	// ErrTooMany reports that there are as many teams, or contexts of a team, as there
	// can be.
	ErrTooMany = errors.New("too many teams or contexts")
	// ErrArgument reports any other argument that the call does not allow.
	ErrArgument = errors.New("bad argument")
	// ErrPEFinalized reports a PE that was waited for and has finalized.
	ErrPEFinalized = errors.New("PE has finalized and will not come")
	// ErrPEDied reports a PE that has died. What it has died of is among the causes
	// of the error as well, a failure.Cause for errors.As.
	ErrPEDied = errors.New("PE has died")
	// ErrLockHeld reports a lock that this PE has, or waits for, already.
	ErrLockHeld = errors.New("lock is this PE's already")
	// ErrLockNotHeld reports the release of a lock that this PE has not.
	ErrLockNotHeld = errors.New("lock is not this PE's")
	// ErrUnwinding reports a Finalize, Free or Destroy on the stack of a goroutine that
	// panics or ends by runtime.Goexit.
	ErrUnwinding = errors.New("goroutine panics or ends by runtime.Goexit")
	// ErrTeamBroken reports a team on which a collective was canceled or ended by its
	// deadline, or of which PEs called different collectives: this one or an earlier one.
	// Team.Agree, Validate and Shrink work on it unless it was one of these that ended so.
	ErrTeamBroken = errors.New("team is broken by a collective that was canceled, timed out or was not the same on all PEs")
)

// UsageError reports a call that its arguments do not allow.
type UsageError struct {
	Op  string // the function: "Put"
	Msg string // what is wrong, which value, what is wanted
	Err error  // one of the causes above
}

// Error names the function, what is wrong and what is wanted.
func (e *UsageError) Error() string { return "shmem." + e.Op + ": " + e.Msg }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

func usage(op string, cause error, format string, args ...any) error {
	return &UsageError{Op: op, Err: cause, Msg: fmt.Sprintf(format, args...)}
}

// unwinding returns the error of a call that would wait for the other PEs on the stack
// of a goroutine that panics or ends. They may be anywhere, and Go prints a panic only when
// deferred functions have returned.
func unwinding(op string) error {
	if why := job.Unwinding(); why != "" {
		return unwindingBy(op, why)
	}
	return nil
}

// unwindingBy is the error of unwinding.
func unwindingBy(op, why string) error {
	return usage(op, ErrUnwinding, "called while the goroutine %s: %s", why, job.UnwindingAdvice(why))
}

// waitsForNobody says whether an error of the barrier in Finalize is none there: a PE has
// died, or the team is broken. Then others leave without it as well.
func waitsForNobody(err error) bool {
	return survivable(err) || errors.Is(err, ErrTeamBroken) || errors.Is(err, ErrPEFinalized)
}

// PEError reports PEs that a call needs and that are not there any more: they have
// died (ErrPEDied) or finalized (ErrPEFinalized).
type PEError struct {
	PEs []int  // of the world, ascending
	Op  string // the function: "Barrier"
	Err error  // what became of them
}

// Error names the function, the PEs and what became of them.
func (e *PEError) Error() string { return fmt.Sprintf("shmem.%s: PE %v: %v", e.Op, e.PEs, e.Err) }

// Unwrap returns the cause.
func (e *PEError) Unwrap() error { return e.Err }
