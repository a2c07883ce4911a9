package mpi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/job"
)

// Causes of errors, for errors.Is.
var (
	// ErrFinalized reports a call on a World or a Comm of it after its last Finalize.
	ErrFinalized = errors.New("used after Finalize")
	// ErrRankRange reports a rank that the communicator does not have.
	ErrRankRange = errors.New("rank out of range")
	// ErrTag reports a tag below 0, or AnyTag where a message is sent.
	ErrTag = errors.New("bad tag")
	// ErrElementType reports an element type that holds pointers or has no size.
	ErrElementType = errors.New("unsuitable element type")
	// ErrTruncated reports a message that is longer than the buffer of its receive,
	// which has the beginning of it.
	ErrTruncated = errors.New("message truncated")
	// ErrCanceled reports a message that its sender has given up, by the end of a
	// context, after it had announced it.
	ErrCanceled = errors.New("message given up by its sender")
	// ErrFreed reports a communicator that was freed.
	ErrFreed = errors.New("communicator was freed")
	// ErrMismatch reports a collective that ranks called with different arguments. With
	// GOSHMEM_CHECK=collectives all such mistakes are noticed, by all ranks, but for operators made
	// in generic functions of the program.
	ErrMismatch = errors.New("ranks called with different arguments")
	// ErrTooMany reports that there are as many communicators, and teams of package
	// shmem, as there may be.
	ErrTooMany = errors.New("too many communicators")
	// ErrArgument reports any other argument that the call does not allow.
	ErrArgument = errors.New("bad argument")
	// ErrDied reports a rank that has died. What it has died of is among the causes
	// of the error as well, a failure.Cause for errors.As.
	ErrDied = errors.New("rank has died")
	// ErrRankFinalized reports a rank that was waited for and has finalized, or freed the
	// communicator: it waits for nobody when a rank has died.
	ErrRankFinalized = errors.New("rank has finalized, or freed the communicator, and will not come")
	// ErrPending reports a request that a death has not ended: it may be completed by another
	// rank still, and be waited for again.
	ErrPending = errors.New("request goes on: another rank may still complete it")
	// ErrUnwinding reports a Finalize or Free on the stack of a goroutine that panics or
	// ends by runtime.Goexit.
	ErrUnwinding = errors.New("goroutine panics or ends by runtime.Goexit")
	// ErrCommBroken reports a communicator on which a collective was canceled or ended by
	// its deadline, or of which ranks called different collectives: this one or an
	// earlier one. No other collective may follow.
	ErrCommBroken = errors.New("communicator is broken by a collective that was canceled, timed out or was not the same on all ranks")
)

// UsageError reports a call that its arguments do not allow.
type UsageError struct {
	Op  string // the function: "Send"
	Msg string // what is wrong, which value, what is wanted
	Err error  // one of the causes above
}

// Error names the function, what is wrong and what is wanted.
func (e *UsageError) Error() string { return "mpi." + e.Op + ": " + e.Msg }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

func usage(op string, cause error, format string, args ...any) error {
	return &UsageError{Op: op, Err: cause, Msg: fmt.Sprintf(format, args...)}
}

// unwinding returns the error of a call that would wait for the other ranks on the stack
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

// RankError reports ranks that a call needs and that are not there any more: they
// have died (ErrDied) or finalized (ErrRankFinalized).
type RankError struct {
	Ranks   []int  // of the communicator, ascending
	Op      string // the function: "Recv"
	Err     error  // what became of them
	Pending bool   // the request goes on: then ErrPending is among the causes
}

// Error names the function, the ranks and what became of them.
func (e *RankError) Error() string {
	text := fmt.Sprintf("mpi.%s: rank %v: %v", e.Op, e.Ranks, e.Err)
	if e.Pending {
		text += "; the " + ErrPending.Error() + " once Comm.AckFailed has acknowledged the death"
	}
	return text
}

// Unwrap returns the causes.
func (e *RankError) Unwrap() []error {
	if e.Pending {
		return []error{e.Err, ErrPending}
	}
	return []error{e.Err}
}

// markPending marks the error of a wait that a death has ended, but not the request.
func markPending(err error) error {
	if dead, ok := errors.AsType[*RankError](err); ok {
		dead.Pending = true
	}
	return err
}

// deadError returns the error of a call that needs ranks that have died.
func (g *group) deadError(op string, ranks ...int) error {
	e := &diedError{ranks: ranks}
	for _, rank := range ranks {
		f, _ := g.e.job.Failures.Failure(g.pe(rank))
		e.causes = append(e.causes, f.Cause)
	}
	return &RankError{Ranks: ranks, Op: op, Err: e}
}

// reportDeath has the rest of the process know of a death that a call returns an error for.
func (g *group) reportDeath(err error) error {
	if err != nil && errors.Is(err, ErrDied) {
		g.e.job.Noticed()
	}
	return err
}

// deadErrorError says what ranks have died of.
type diedError struct {
	ranks  []int
	causes []failure.Cause
}

// Error has the cause alone where there is one rank, which a RankError names.
func (e *diedError) Error() string {
	if len(e.ranks) == 1 {
		return e.causes[0].String()
	}
	var parts []string
	for i, rank := range e.ranks {
		parts = append(parts, fmt.Sprintf("rank %d %v", rank, e.causes[i]))
	}
	return strings.Join(parts, ", ")
}

// Unwrap returns ErrDied and the causes.
func (e *diedError) Unwrap() []error {
	all := []error{ErrDied}
	for _, c := range e.causes {
		all = append(all, c)
	}
	return all
}

// fail gives an error of package coll its public form.
func (g *group) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if dead, ok := errors.AsType[*coll.DeadError](err); ok {
		g.e.job.Noticed()
		return g.deadError(op, dead.Members...)
	}
	if gone, ok := errors.AsType[*coll.LeftError](err); ok {
		return &RankError{Ranks: []int{gone.Member}, Op: op, Err: ErrRankFinalized}
	}
	if other, ok := errors.AsType[*coll.OtherError](err); ok {
		return usage(op, ErrMismatch, "rank %d called another collective, or with another root, size or element type, want the same on all", other.Member)
	}
	if other, ok := errors.AsType[*coll.MembersError](err); ok {
		return usage(op, ErrMismatch, "of rank %d, %v", other.Member, err)
	}
	if late, ok := errors.AsType[*coll.LateError](err); ok {
		if op == opFree {
			return fmt.Errorf("mpi.%s: waiting for rank %d: %w; this rank has freed the communicator; hint: do not free it again", op, late.Member, late.Err)
		}
		return fmt.Errorf("mpi.%s: waiting for rank %d: %w; its collectives are over; hint: %s", op, late.Member, late.Err, g.recoveryHint())
	}
	switch {
	case errors.Is(err, coll.ErrNoID):
		return usage(op, ErrTooMany, "%v, which communicators and teams share; free or destroy some", err)
	case errors.Is(err, coll.ErrBroken):
		return fmt.Errorf("mpi.%s: %w; hint: %s", op, ErrCommBroken, g.recoveryHint())
	case errors.Is(err, coll.ErrReleased):
		return g.endedError(op)
	case errors.Is(err, coll.ErrConcurrent):
		return usage(op, ErrArgument, "%v: collectives on one communicator are called by one goroutine at a time", err)
	}
	return fmt.Errorf("mpi.%s: %w", op, err)
}

// recoveryHint says what can be done with a communicator that is broken.
func (g *group) recoveryHint() string {
	if g.t.ID() == coll.MPIWorld {
		return "messages go on; World.Finalize ends well, and waits for nobody"
	}
	return "messages go on; Comm.Free it, which waits for nobody, and have another made by Comm.Split of one that is whole, or interop.CommOf"
}

// permitsLeaving says whether an error of the collective in Finalize and Free is none there:
// a rank has died, or a communicator is broken. Then others leave without it as well.
func permitsLeaving(err error) bool {
	return errors.Is(err, ErrDied) || errors.Is(err, ErrCommBroken) || errors.Is(err, ErrRankFinalized)
}

// leftError returns the error of a call that needs ranks which have finalized or freed the communicator.
func (g *group) leftError(op string, ranks ...int) error {
	return &RankError{Ranks: ranks, Op: op, Err: ErrRankFinalized}
}
