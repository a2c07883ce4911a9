package mpi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/pmix/client"
)

// World is a process's membership in its job: from Init to the last Finalize.
type World struct {
	e    *engine
	comm *Comm
	refs int // nested Inits
	// stopServing ends the progress that waits of this process make for the engine.
	stopServing func()
}

var (
	initMu  sync.Mutex
	current *World
)

// Init makes the process a rank of its job and returns when all have called it. In a
// program that was not started by oshrun, the job is this process alone. It does not
// matter whether shmem is initialized.
//
// Calls nest: a further Init returns the same World, and only the last of as many
// calls of Finalize ends it. After that, Init may be called again. Any goroutine may
// call anything from then on.
//
//   - Collective: over all ranks of the job.
//   - Errors: the environment is not one that oshrun makes; *RankError with ErrDied when
//     a rank has died.
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
	if err == nil {
		err = initError(j.DeclareModel(ctx, client.Model{Programming: "MPI", Library: "goshmem", Version: version.String(), Threads: "goroutines"}))
	}
	if err != nil {
		if w != nil {
			w.stopServing()
		}
		return nil, errors.Join(err, j.Release(ctx))
	}
	current = w
	return w, nil
}

func newWorld(ctx context.Context, j *job.Job) (*World, error) {
	members := make([]int, j.NPEs)
	for i := range members {
		members[i] = i
	}
	t, err := coll.New(coll.Config{
		Map: j.Map, Waiter: j.Waiter, Members: members, Me: j.PE, ID: coll.MPIWorld, Failures: j.Failures,
	})
	if err != nil {
		return nil, initError(err)
	}
	if err := coll.Rejoin(func() error { return j.Fence(ctx) }, t); err != nil {
		return nil, initError(err)
	}
	e := newEngine(j)
	stopServing := j.Waiter.Serve(e.serve)
	g, err := e.newGroup(ctx, t)
	if err != nil {
		stopServing()
		t.Leave()
		return nil, (&group{e: e, t: t, pes: members}).fail("Init", err)
	}
	return &World{e: e, comm: &Comm{g: g}, refs: 1, stopServing: stopServing}, nil
}

// initError gives an error of set-up its public form.
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

// Initialized says whether the process holds a World.
//
//   - Source: MPI_Initialized.
func Initialized() bool {
	initMu.Lock()
	defer initMu.Unlock()
	return current != nil
}

// Comm returns the communicator of all ranks: rank i is PE i of the job. That of a nil
// World is nil; what is called on it returns an error.
//
//   - Source: MPI_COMM_WORLD.
func (w *World) Comm() *Comm {
	if w == nil {
		return nil
	}
	return w.comm
}

// Finalize ends the process's membership when all have called it. What this process has sent is on
// its way then; what is on its way to it and was not received is dropped. Calls on this World and
// its communicators fail from then on with ErrFinalized. A Finalize that is not the last of nested ones is a barrier only.
// When a rank has died, or the communicator of all ranks is broken (a collective on it has
// timed out, say), it does not wait for the others and succeeds, on all ranks. Then it gives ranks whose lanes
// are full a second to take what waits there; sends that still wait after it end with ErrFinalized.
// So do all other requests that are not complete.
//
// On the stack of a goroutine that panics, it waits for nobody and ends nothing: it prints why
// and returns ErrUnwinding. So Go prints the panic, and the process ends as if it had not called
// Finalize. That holds in a deferred function that has recovered, too, until it returns; a
// program that goes on after a panic recovers in a function that returns before Finalize.
//
// On a stack that ends by runtime.Goexit, as t.Skip and t.FailNow do, it waits a second for
// the others, and returns ErrUnwinding if they have not come. If the main goroutine leaves so, and
// nothing else runs, Go's check for deadlocks ends the process with status 2 behind a Finalize that
// succeeds. Behind one that fails, and in programs that are built with cgo, Go checks nothing: the
// process goes on, and others may wait for it, until oshrun --timeout, or the user, ends the job.
//
//   - Errors: ErrFinalized; ErrUnwinding; ErrArgument for a nil World.
//   - Collective: over all ranks of the job.
//   - Source: MPI_Finalize.
func (w *World) Finalize() error {
	const op = "Finalize"
	if w == nil || w.e == nil {
		return usage(op, ErrArgument, "World is nil, want one that Init returned without an error")
	}
	if err := w.comm.usable(op); err != nil {
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
	if err == nil && g.checks {
		err = comm.compare(op, "%s", op)
	}
	if err == nil {
		err = g.fail(op, g.t.Sync(meeting))
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
		e.shutDown()                                   // all have called Finalize, or this one waits for nobody
		_ = e.job.Waiter.WaitPoll((*copyWait)(w), ctx) // without an end of its own, it has no error
	}
	// Between the two barriers everybody stops to write into lanes, and behind them takes what
	// is in its own, so that nothing old is in them at the next Init.
	if err == nil {
		_ = g.t.Sync(ctx) // of a death meanwhile, there is nothing to be said any more
		e.drainLanes()
	}
	initMu.Lock()
	defer initMu.Unlock()
	if w.refs--; w.refs > 0 {
		return nil
	}
	current = nil
	w.stopServing()
	g.t.Leave()
	if err := e.job.Release(ctx); err != nil {
		return fmt.Errorf("mpi.Finalize: %w", err)
	}
	return nil
}
