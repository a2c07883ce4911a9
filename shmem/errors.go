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
	// ErrForeignHandle reports a handle of another World, or the zero handle.
	ErrForeignHandle = errors.New("handle of another world")
	// ErrElementType reports an element type that holds pointers, has no size, or is too
	// large for the call.
	ErrElementType = errors.New("unsuitable element type")
	// ErrMisaligned reports an atomic operation or wait on an element that is
	// not aligned to its size.
	ErrMisaligned = errors.New("misaligned")
	// ErrExhausted reports that the symmetric heap has no room for an object, or has the
	// most objects that it can have.
	ErrExhausted = errors.New("symmetric heap exhausted")
	// ErrMismatch reports PEs that called different collectives, or one with different arguments.
	// Only GOSHMEM_CHECK=collectives finds all such mistakes.
	ErrMismatch = errors.New("PEs called with different arguments")
	// ErrOverlap reports source and destination of a collective that overlap, or a signal
	// that lies among the elements that are put with it.
	ErrOverlap = errors.New("source and destination overlap")
	// ErrDestroyed reports a team or context that was destroyed.
	ErrDestroyed = errors.New("was destroyed")
	// ErrTooMany reports a team beyond the limit of teams, or a context beyond the limit of its team.
	ErrTooMany = errors.New("too many teams or contexts")
	// ErrArgument reports any other argument that the call does not allow.
	ErrArgument = errors.New("bad argument")
	// ErrPEFinalized reports a PE that finalized while this PE waited for it.
	ErrPEFinalized = errors.New("PE has finalized and will not come")
	// ErrPEDied reports a PE that has died. errors.As finds the cause of the death in the error,
	// a failure.Cause.
	ErrPEDied = errors.New("PE has died")
	// ErrLockHeld reports a lock that this PE already holds or waits for.
	ErrLockHeld = errors.New("lock is this PE's already")
	// ErrLockNotHeld reports the release of a lock that this PE does not hold.
	ErrLockNotHeld = errors.New("lock is not this PE's")
	// ErrUnwinding reports a Finalize, Free or Destroy that a deferred function of a goroutine
	// calls while it panics or ends by runtime.Goexit.
	ErrUnwinding = errors.New("goroutine panics or ends by runtime.Goexit")
	// ErrTeamBroken reports a team on which a collective, this one or an earlier one, was canceled, ended by its
	// deadline, or was not the same on all PEs. Team.Agree, Validate and Shrink still work on the team, unless it was
	// one of them that ended so.
	ErrTeamBroken = errors.New("team is broken by a collective that was canceled, timed out or was not the same on all PEs")
)

// UsageError reports a call with an argument, or at a time, that is not allowed.
type UsageError struct {
	Op  string // the function: "Put"
	Msg string // what is wrong, which value, what is wanted
	Err error  // one of the causes above
}

// Error names the function, what is wrong and what is wanted.
func (e *UsageError) Error() string { return "shmem." + e.Op + ": " + e.Msg }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// usage returns a *UsageError of function op.
func usage(op string, cause error, format string, args ...any) error {
	return &UsageError{Op: op, Err: cause, Msg: fmt.Sprintf(format, args...)}
}

// refuseUnwinding returns an error if the goroutine panics or ends by runtime.Goexit. A call that waits for the other
// PEs must not wait then: they may be anywhere in the program, and Go prints a panic only after deferred functions
// have returned.
func refuseUnwinding(op string) error {
	if why := job.Unwinding(); why != "" {
		return unwindingError(op, why)
	}
	return nil
}

// unwindingError returns the error of refuseUnwinding. why is what job.Unwinding found.
func unwindingError(op, why string) error {
	return usage(op, ErrUnwinding, "called while the goroutine %s: %s", why, job.UnwindingAdvice(why))
}

// finalizeIgnores reports whether Finalize goes on after its barrier failed with err. It does if a PE has died or
// finalized, or if the team is broken: the other PEs then leave without this one too.
func finalizeIgnores(err error) bool {
	return isDeathError(err) || errors.Is(err, ErrTeamBroken) || errors.Is(err, ErrPEFinalized)
}

// PEError reports PEs that a call needs and that have died (ErrPEDied) or finalized (ErrPEFinalized).
type PEError struct {
	PEs []int  // of the world, ascending
	Op  string // the function: "Barrier"
	Err error  // what became of the PEs
}

// Error names the function, the PEs and what became of them.
func (e *PEError) Error() string { return fmt.Sprintf("shmem.%s: PE %v: %v", e.Op, e.PEs, e.Err) }

// Unwrap returns the cause.
func (e *PEError) Unwrap() error { return e.Err }
