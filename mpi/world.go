package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/pmix/client"
)

// World is a process's membership in its job, from Init to the last Finalize.
type World struct {
	e       *engine
	comm    *Comm
	self    *Comm
	parent  *Intercomm // nil: Spawn has not started this process
	parents *parents   // whom Init has reached, to connect to them; nil: nobody
	refs    int        // calls of Init without their Finalize
	// stopServing ends the progress that other waits of this process make for the engine.
	stopServing func()
}

var (
	initMu  sync.Mutex
	current *World
)

// Init makes the process a rank of its job, and returns when all processes of the job have called it. In a
// program that oshrun has not started, the job is this process alone.
//
// Calls nest: a further Init returns the same World, and only as many calls of Finalize end it. After the
// last one, Init may be called again. Between them any goroutine may make any call. Whether package
// shmem is initialized does not matter.
//
//   - Errors: the environment is not one that oshrun makes; *RankError with ErrDied when a rank has died.
//   - Collective: over all ranks of the job.
//   - Source: MPI_Init_thread.
func Init() (*World, error) {
	initMu.Lock()
	defer initMu.Unlock()
	if current != nil {
		current.refs++
		return current, nil
	}
	ctx := context.Background()
	j, err := job.Acquire(ctx)
	if err != nil {
		return nil, initError(err)
	}
	w, err := newWorld(ctx, j)
	if err != nil {
		return nil, errors.Join(err, j.Release(ctx))
	}
	err = initError(j.DeclareModel(ctx, client.Model{Programming: "MPI", Library: "goshmem", Version: version.String(), Threads: "goroutines"}))
	if !connected.Swap(true) { // MPI knows one Init of a process; the parents have called Spawn once
		w.parent, err = joinParents(w, err)
	}
	if err != nil {
		return nil, errors.Join(err, w.endUnconnected())
	}
	current = w
	return w, nil
}

// connected says that Init has connected this process to its parents, or has tried.
var connected atomic.Bool

// endUnconnected ends a World that Init does not return.
func (w *World) endUnconnected() error {
	w.comm.g.announceLeft()
	w.e.shutDown()
	settleFarBriefly(w.e)
	w.stopServing()
	w.e.closeInbox()
	w.comm.g.leave()
	return w.e.job.Release(context.Background())
}

// newWorld makes the World of a job, with all ranks.
func newWorld(ctx context.Context, j *job.Job) (*World, error) {
	if err := j.RequireAgent(); err != nil {
		return nil, initError(err)
	}
	if j.IsGuest() && j.Place.Nodes > 1 {
		return newWorldInMessages(ctx, j)
	}
	t, err := coll.New(coll.Config{ // of all ranks of this node
		Map: j.Map, Waiter: j.Waiter, Members: coll.MembersFrom(j.Place.Locals()), Me: int(j.Local), ID: coll.MPIWorld,
		Failures: j.Failures, Incarnation: j.Incarnation,
	})
	if err != nil {
		return nil, initError(err)
	}
	if err := coll.Rejoin(func() error { return j.Fence(ctx) }, t); err != nil {
		return nil, initError(err)
	}
	e := newEngine(j)
	parents := reachEarly(e)
	upper, err := e.joinNodes(ctx, t)
	if err != nil {
		parents.giveUpEarly(e)
		e.closeInbox()
		t.Leave()
		return nil, initError(err)
	}
	stopServing := j.Waiter.Serve(e.serve)
	g, err := e.newGroup(ctx, t, upper)
	if err != nil {
		parents.giveUpEarly(e)
		stopServing()
		e.closeInbox()
		failed := &group{e: e, t: t, upper: upper, pes: allPEs(j.NPEs)}
		failed.leave()
		return nil, failed.fail("Init", err)
	}
	e.mu.Lock()
	e.world = g
	e.unlock()
	return &World{e: e, comm: &Comm{g: g}, self: &Comm{g: e.newSelf()}, parents: parents, refs: 1, stopServing: stopServing}, nil
}

// initError returns the public form of an error of Init.
func initError(err error) error {
	if dead, ok := errors.AsType[*job.DeadError](err); ok {
		e, all := &diedError{}, []int(nil)
		for _, f := range dead.Failures {
			all, e.causes = append(all, f.PE), append(e.causes, f.Cause)
		}
		e.ranks = all
		return &RankError{Ranks: all, Op: "Init", Err: e}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("mpi.Init: %w", err)
}

// Initialized reports whether the process has a World.
//
//   - Source: MPI_Initialized.
func Initialized() bool {
	initMu.Lock()
	defer initMu.Unlock()
	return current != nil
}

// Comm returns the communicator of all ranks: rank i is PE i of the job. A nil World has a nil
// communicator, whose calls return an error.
//
//   - Source: MPI_COMM_WORLD.
func (w *World) Comm() *Comm {
	if w == nil {
		return nil
	}
	return w.comm
}

// Self returns the communicator of this process alone. It cannot be freed.
//
//   - Source: MPI_COMM_SELF.
func (w *World) Self() *Comm {
	if w == nil {
		return nil
	}
	return w.self
}

// Abort ends the job with an exit status, on all nodes. It does not return.
//
//   - Errors: a status outside of 0 to 255, or an oshrun that cannot be reached, is printed; the process ends all the same.
//   - Concurrent calls: allowed.
//   - Source: MPI_Abort.
func (w *World) Abort(status int) {
	if status < 0 || status > 255 {
		fmt.Fprintf(os.Stderr, "mpi.World.Abort: status %d, want 0 to 255; using 255\n", status)
		status = 255
	}
	if w == nil || w.e == nil {
		fmt.Fprintln(os.Stderr, usage("World.Abort", ErrArgument, "World is nil, want one that Init has returned without an error"))
	} else if err := w.e.job.Abort(status, "mpi.World.Abort"); err != nil {
		fmt.Fprintf(os.Stderr, "mpi.World.Abort: %v\n", err)
	}
	os.Exit(status) //nolint:forbidigo // its meaning: it does not return
}

// Finalize ends the process's membership when all ranks have called it. A Finalize that is not the last of
// nested ones is a barrier only.
//
//   - Completion: what this process has sent is on its way. Messages to it that were not received are dropped,
//     and requests that are not complete end with ErrFinalized. So do later calls on this World and its
//     communicators.
//   - Errors: ErrFinalized; ErrUnwinding; ErrArgument for a nil World.
//   - Collective: over all ranks of the job.
//   - Source: MPI_Finalize.
//
// After a death, or if the communicator of all ranks is broken or revoked, Finalize does not wait for the others, and
// succeeds on all ranks. A collective that has timed out breaks the communicator, for example. Ranks whose lanes are full get one second
// to receive what waits there; then sends that still wait end with ErrFinalized.
//
// On the stack of a goroutine that panics, Finalize waits for nobody and ends nothing: it prints why and
// returns ErrUnwinding. Then Go prints the panic, and the process ends as if it had not called Finalize. This
// includes a deferred function that has recovered, until that returns. A program that goes on after a
// panic recovers in a function that returns before it calls Finalize.
//
// On a stack that ends by runtime.Goexit, as t.Skip and t.FailNow do, Finalize waits one second for the others,
// and returns ErrUnwinding if they have not come. If the main goroutine ends so and nothing else runs:
//
//   - After a Finalize that succeeds, Go's check for deadlocks ends the process with status 2.
//   - After one that fails, and in programs built with cgo, Go checks nothing. The process goes on until oshrun
//     --timeout, or the user, ends the job; other ranks may wait for it.
func (w *World) Finalize() error {
	const op = "Finalize"
	if w == nil || w.e == nil {
		return usage(op, ErrArgument, "World is nil, want one that Init has returned without an error")
	}
	if err := w.comm.usable(op); err != nil && !errors.Is(err, ErrRevoked) {
		return err
	}
	why := job.Unwinding()
	if why == job.Panics {
		err := unwindingBy(op, why)
		job.WarnUnwinding(err)
		return err
	}
	initMu.Lock()
	last := w.refs == 1
	initMu.Unlock()
	ctx, g, e := context.Background(), w.comm.g, w.e
	meeting, comm := ctx, w.comm
	if why == job.Exits {
		bounded, cancel := context.WithTimeout(ctx, job.ExitPatience)
		defer cancel()
		meeting, comm = bounded, comm.With(bounded)
	}
	err := w.flush(meeting)
	if err == nil && g.revoked.Load() {
		err = g.revokedError(op)
	}
	if err == nil && g.checks {
		err = comm.compare(op, "%s", op)
	}
	if err == nil && (g.upper != nil || g.t == nil) && g.isDeserted() {
		err = g.fail(op, coll.ErrBroken) // not all will come, and a step between nodes waits for those that live
	}
	if err == nil {
		err = g.fail(op, g.sync(meeting))
	}
	if why != "" && errors.Is(err, context.DeadlineExceeded) {
		err = unwindingBy(op, why)
		job.WarnUnwinding(err)
		return err
	}
	if err != nil && !permitsLeaving(err) {
		return err
	}
	if last {
		if err != nil {
			g.announceLeft()
		}
		e.shutDown() // all ranks have called Finalize, or this one does not wait for them
		if err != nil || g.t == nil {
			settleFarBriefly(e) // without a PE that is in the job, the agent of this node may end
		}
		_ = e.job.Waiter.WaitPoll((*copyWait)(w), ctx) // ctx does not end, so that it returns no error
	}
	// Between the two barriers all ranks stop writing into lanes. After the second one each rank reads what
	// is in its lanes, so that the next Init finds nothing old there.
	if err == nil && g.t != nil {
		switch {
		case last && e.foreign.isFar(): // they need not take what was sent to them before their own ends
			settleFarBriefly(e)
		case last:
			e.settleFar(ctx)
		}
		_ = g.sync(ctx) // a death from now on is no error of Finalize
		e.drainLanes()
		if last {
			e.drainInbox(ctx)
		}
	}
	initMu.Lock()
	defer initMu.Unlock()
	if w.refs--; w.refs > 0 {
		return nil
	}
	current = nil
	w.stopServing()
	e.closeInbox()
	g.leave()
	if err := e.job.Release(ctx); err != nil {
		return fmt.Errorf("mpi.Finalize: %w", err)
	}
	return nil
}
