package mpi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/spanning"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Causes of errors, for errors.Is.
var (
	// ErrFinalized reports a call on a World, or on one of its communicators, after the last Finalize.
	ErrFinalized = errors.New("used after Finalize")
	// ErrRankRange reports a rank that is not in the communicator.
	ErrRankRange = errors.New("rank out of range")
	// ErrTag reports a tag out of range: of a send 0 to MaxTag, of a receive AnyTag as well.
	ErrTag = errors.New("bad tag")
	// ErrElementType reports an element type that holds pointers or has no size.
	ErrElementType = errors.New("unsuitable element type")
	// ErrTruncated reports a message that is longer than the buffer of its receive. The buffer has the beginning
	// of the message.
	ErrTruncated = errors.New("message truncated")
	// ErrCanceled reports a message that its sender had announced, and has withdrawn when a context ended.
	ErrCanceled = errors.New("message withdrawn by its sender")
	// ErrRequestCanceled reports a receive that Request.Cancel has canceled.
	ErrRequestCanceled = errors.New("request was canceled")
	// ErrFreed reports a call on a communicator after Comm.Free.
	ErrFreed = errors.New("communicator was freed")
	// ErrMismatch reports a collective that ranks called with different arguments. With
	// GOSHMEM_CHECK=collectives all such mistakes are noticed, by all ranks, but for operators that
	// are function literals in generic code of the program.
	ErrMismatch = errors.New("ranks called with different arguments")
	// ErrTooMany reports that all ids are in use, which communicators and teams of package shmem share.
	ErrTooMany = errors.New("too many communicators")
	// ErrArgument reports any other bad argument.
	ErrArgument = errors.New("bad argument")
	// ErrDied reports a rank that has died. The error also has the cause of death, a failure.Cause for
	// errors.As.
	ErrDied = errors.New("rank has died")
	// ErrRankFinalized reports a rank that the call waits for and that has finalized or freed the communicator.
	// Ranks do so without waiting for others when a rank has died.
	ErrRankFinalized = errors.New("rank has finalized, or freed the communicator, and will not come")
	// ErrRevoked reports a call on a communicator that a rank has revoked (Comm.Revoke).
	ErrRevoked = errors.New("communicator is revoked")
	// ErrPending reports a request that goes on after a death: another rank may still complete it, and Wait may
	// be called again.
	ErrPending = errors.New("request goes on: another rank may still complete it")
	// ErrUndecided reports an agreement by two-phase commit that has ended without a result.
	ErrUndecided = errors.New("agreement is undecided")
	// ErrSpawn reports processes that could not be started, or have not connected.
	ErrSpawn = errors.New("processes were not started")
	// ErrPort reports a port that is closed or unknown.
	ErrPort = errors.New("port is closed or unknown")
	// ErrBufferChanged reports the buffer of a send that has changed before the send was complete. Only programs that are built with -tags mpidebug
	// look.
	ErrBufferChanged = errors.New("buffer of a send has changed before the send was complete")
	// ErrUnwinding reports a Finalize or Free on the stack of a goroutine that panics or ends by
	// runtime.Goexit.
	ErrUnwinding = errors.New("goroutine panics or ends by runtime.Goexit")
	// ErrCommBroken reports a communicator on which this or an earlier collective was canceled, has timed out,
	// or was not the same on all ranks. No other collective may follow.
	ErrCommBroken = errors.New("communicator is broken by a collective that was canceled, timed out or was not the same on all ranks")
)

// UsageError reports a call with bad arguments, or at a time when it is not allowed.
type UsageError struct {
	Op  string // the function: "Send"
	Msg string // what is wrong, the value, what is wanted
	Err error  // one of the causes above
}

// Error names the function, what is wrong and what is wanted.
func (e *UsageError) Error() string { return "mpi." + e.Op + ": " + e.Msg }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// usage returns a UsageError.
func usage(op string, cause error, format string, args ...any) error {
	return &UsageError{Op: op, Err: cause, Msg: fmt.Sprintf(format, args...)}
}

// unwinding returns an error if the goroutine panics or ends. A call that waits for the other ranks must not
// begin then: they may be anywhere, and Go prints a panic only when deferred functions have returned.
func unwinding(op string) error {
	if why := job.Unwinding(); why != "" {
		return unwindingBy(op, why)
	}
	return nil
}

// unwindingBy returns the error of unwinding, by the reason that job.Unwinding gives.
func unwindingBy(op, why string) error {
	return usage(op, ErrUnwinding, "called while the goroutine %s: %s", why, job.UnwindingAdvice(why))
}

// RankError reports ranks that a call needs and that have died (ErrDied), or have finalized or freed the
// communicator (ErrRankFinalized).
type RankError struct {
	Ranks   []int  // of the communicator, ascending
	Op      string // the function: "Recv"
	Err     error  // what has happened to them
	Pending bool   // the request goes on, and ErrPending is among the causes
}

// Error names the function, the ranks and what has happened to them.
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

// markPending sets Pending in the error of a wait that a death has ended. The request goes on.
func markPending(err error) error {
	if dead, ok := errors.AsType[*RankError](err); ok {
		dead.Pending = true
	}
	return err
}

// deadError returns the error of a call that needs ranks which have died.
func (g *group) deadError(op string, ranks ...int) error {
	if g.outer != nil {
		return g.outer.deadError(op, outerRanks(g, ranks)...)
	}
	e := &diedError{ranks: ranks}
	for _, rank := range ranks {
		f, _ := g.e.failureOf(g.pe(rank))
		lost := ""
		if f.Cause.Kind() == failure.NodeLost && g.e.job.Home != nil {
			lost = g.e.job.NameNode(g.pe(rank))
		}
		e.causes, e.lost = append(e.causes, f.Cause), append(e.lost, lost)
	}
	return &RankError{Ranks: ranks, Op: op, Err: e}
}

// leftError returns the error of a call that needs ranks which have finalized or freed the communicator.
func (g *group) leftError(op string, ranks ...int) error {
	if g.outer != nil {
		ranks = outerRanks(g, ranks)
	}
	return &RankError{Ranks: ranks, Op: op, Err: ErrRankFinalized}
}

// reportDeath tells the rest of the process of the death that err reports, if it reports one. It returns err.
func (g *group) reportDeath(err error) error {
	if err != nil && errors.Is(err, ErrDied) {
		g.e.job.Noticed()
	}
	return err
}

// brokenError returns the error of a collective on a communicator that is broken.
func (g *group) brokenError(op string) error {
	return fmt.Errorf("mpi.%s: %w; hint: %s", op, ErrCommBroken, g.recoveryHint())
}

// diedError has the ranks that have died and the causes of their deaths.
type diedError struct {
	ranks  []int
	causes []failure.Cause
	lost   []string // the node of each rank that died with its node, otherwise empty; nil: no error of a communicator
}

// Error has only the cause of a single rank, because RankError names the rank.
func (e *diedError) Error() string {
	if len(e.ranks) == 1 {
		return e.cause(0)
	}
	var parts []string
	for i, rank := range e.ranks {
		parts = append(parts, fmt.Sprintf("rank %d %s", rank, e.cause(i)))
	}
	return strings.Join(parts, ", ")
}

// cause returns what rank number i of the error has died of.
func (e *diedError) cause(i int) string {
	if e.lost != nil && e.lost[i] != "" {
		return fmt.Sprintf("was on %s, which is lost", e.lost[i])
	}
	return e.causes[i].String()
}

// Unwrap returns ErrDied and the causes.
func (e *diedError) Unwrap() []error {
	all := []error{ErrDied}
	for _, c := range e.causes {
		all = append(all, c)
	}
	return all
}

// fail returns the public form of an error of package coll.
func (g *group) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, left := errors.AsType[*coll.LeftError](err); (left || errors.Is(err, coll.ErrBroken)) && !g.e.closed.Load() {
		g.e.drainLanes() // a rank that has left the collective as the communicator is revoked has told this one before
	}
	if g.revoked.Load() && !errors.Is(err, coll.ErrConcurrent) {
		return g.revokedError(op)
	}
	return g.failUnrevoked(op, err)
}

// failUnrevoked is fail for a call that ignores that the communicator is revoked.
func (g *group) failUnrevoked(op string, err error) error {
	if g.upper != nil && (errors.Is(err, errDeathKnown) || errors.Is(err, coll.ErrBroken)) {
		if dead := g.deadRanks(); dead != nil {
			g.e.job.Noticed()
			return g.deadError(op, dead...)
		}
	}
	if dead, ok := errors.AsType[*coll.DeadError](err); ok {
		g.e.job.Noticed()
		if g.upper != nil { // another node may have told this one of the death before its failure page does
			pes := make([]layout.PE, len(dead.Members))
			for i, rank := range dead.Members {
				pes[i] = g.pe(rank)
			}
			g.e.job.AwaitNews(pes)
		}
		return g.deadError(op, dead.Members...)
	}
	if gone, ok := errors.AsType[*coll.LeftError](err); ok {
		return &RankError{Ranks: []int{gone.Member}, Op: op, Err: ErrRankFinalized}
	}
	if other, ok := errors.AsType[*coll.OtherError](err); ok {
		return usage(op, ErrMismatch, "rank %d called another collective, or with another root, size or element type, want the same call on all ranks", other.Member)
	}
	if both, ok := errors.AsType[*spanning.DifferError](err); ok {
		return usage(op, ErrMismatch, "rank %d called another collective, or with another root, length or element type, than rank %d, want the same call on all ranks", both.Differs, both.First)
	}
	if other, ok := errors.AsType[*coll.MembersError](err); ok {
		return usage(op, ErrMismatch, "rank %d: %v", other.Member, err)
	}
	if late, ok := errors.AsType[*coll.LateError](err); ok {
		if op == opFree {
			return fmt.Errorf("mpi.%s: waiting for rank %d: %w; this rank has freed the communicator; hint: do not call Free again", op, late.Member, late.Err)
		}
		return fmt.Errorf("mpi.%s: waiting for rank %d: %w; the communicator is broken for collectives; hint: %s", op, late.Member, late.Err, g.recoveryHint())
	}
	switch {
	case errors.Is(err, coll.ErrNoID):
		return usage(op, ErrTooMany, "%v, which communicators and teams share; free a communicator or destroy a team", err)
	case errors.Is(err, coll.ErrBroken):
		return g.brokenError(op)
	case errors.Is(err, coll.ErrReleased):
		return g.endedError(op)
	case errors.Is(err, coll.ErrConcurrent):
		return usage(op, ErrArgument, "%v: want one goroutine at a time in collectives of a communicator", err)
	}
	return fmt.Errorf("mpi.%s: %w", op, err)
}

// recoveryHint says what a program can do when the communicator is broken.
func (g *group) recoveryHint() string {
	if isWorld(g) {
		return "messages go on; World.Finalize succeeds, and waits for nobody"
	}
	return "messages go on; free the communicator (Comm.Free waits for nobody), and make another by Comm.Split of one that is not broken, or by interop.CommOf"
}

// permitsLeaving reports whether Finalize and Free succeed although their collective has failed with err: a
// rank has died, or the communicator is broken or revoked. Then the other ranks leave without it, too.
func permitsLeaving(err error) bool {
	return errors.Is(err, ErrDied) || errors.Is(err, ErrCommBroken) || errors.Is(err, ErrRankFinalized) ||
		errors.Is(err, ErrRevoked)
}
