package shmem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/pmix/client"
)

// World is the process's membership in its job, from Init to the last Finalize.
type World struct {
	session *session
	team    *Team
	node    *Team // SHMEM_TEAM_SHARED
	ctx     *Ctx
}

// session is what all handles of one membership share.
type session struct {
	h                       *heap
	refs                    int // nested calls of Init that no Finalize has matched yet
	level                   ThreadLevel
	cancelHook, cancelAlert func() // unregister closeFastPath
}

// Option changes what Init does.
type Option func(*config)

type config struct {
	mode  Mode
	level ThreadLevel
}

// WorldMode sets the mode of the teams that Init makes, which says what deaths mean to their collectives. It is the
// same on all PEs. With ModeDefault, and without this option, the mode is ModeTolerant under oshrun --recover, where
// the job outlives deaths, and ModeStrict otherwise.
func WorldMode(m Mode) Option { return func(c *config) { c.mode = m } }

// modeFor returns the mode of a world in job j.
func (c *config) modeFor(j *job.Job) Mode {
	switch {
	case c.mode != ModeDefault:
		return c.mode
	case j.Recover:
		return ModeTolerant
	}
	return ModeStrict
}

var (
	initMu       sync.Mutex // guards currentWorld and its session.refs
	currentWorld *World     // the World of this process, from Init to the last Finalize
)

// Init makes the process a PE of its job and returns when all PEs have called it. If oshrun has not started the
// program, the job is this process alone.
//
// Calls nest. A further Init returns the same World, and the World ends when Finalize was called as many times as
// Init. After that, Init may be called again.
//
// Programs that need no more than one World for all of main use [Run].
//
//   - Collective: over all PEs of the job.
//   - Errors: an environment that oshrun would not set; *PEError with ErrPEDied when a PE has died.
//   - Source: shmem_init.
func Init(opts ...Option) (*World, error) {
	cfg := config{level: ThreadMultiple}
	for i, o := range opts {
		if o == nil {
			return nil, usage("Init", ErrArgument, "option %d is nil, want WorldMode or Threads", i)
		}
		o(&cfg)
	}
	if cfg.mode > ModeStrict {
		return nil, usage("Init", ErrArgument, "WorldMode(%d), want ModeDefault, ModeTolerant or ModeStrict", cfg.mode)
	}
	if cfg.level > ThreadMultiple {
		return nil, usage("Init", ErrArgument, "Threads(%d), want ThreadSingle, ThreadFunneled, ThreadSerialized or ThreadMultiple", cfg.level)
	}
	initMu.Lock()
	defer initMu.Unlock()
	if currentWorld != nil {
		currentWorld.session.refs++
		return currentWorld, nil
	}
	j, err := job.Acquire(context.Background())
	if err != nil {
		return nil, initError(err)
	}
	w, err := newWorld(j, cfg.modeFor(j))
	if err == nil {
		err = j.DeclareModel(context.Background(), model())
	}
	if err != nil {
		return nil, errors.Join(initError(err), j.Release(context.Background()))
	}
	w.session.level = cfg.level
	if j.PE == 0 {
		printInfo()
	}
	currentWorld = w
	currentHeap.Store(w.session.h)
	return w, nil
}

// newWorld makes the teams, the heap and the default context of a world.
func newWorld(j *job.Job, mode Mode) (*World, error) {
	if err := job.RequireTeams(j); err != nil {
		return nil, err
	}
	part, err := coll.New(nearConfig(j, coll.ShmemWorld, mode)) // of the team of all PEs
	if err != nil {
		return nil, err
	}
	node, err := coll.New(nearConfig(j, coll.ShmemShared, mode))
	if err != nil {
		return nil, err
	}
	all, err := newWorldTeam(j, part, node)
	if err != nil {
		return nil, err
	}
	s := &session{h: newHeap(j), refs: 1}
	s.cancelAlert = j.Alert(s.h.closeFastPath)
	j.NameHolders(s.h.lockHolder)
	s.cancelHook = j.OnFailure(func([]failure.Failure, uint64) { s.h.closeFastPath() }) // registered first, so it runs before the program's functions
	w := &World{session: s}
	w.team = newTeam(s.h, all, numbers{stride: 1, n: j.NPEs}, TeamConfig{Mode: mode})
	w.node = newTeam(s.h, node, numbersOf(node.PEs()), TeamConfig{Mode: mode})
	w.team.group.predefined, w.node.group.predefined = true, true
	w.ctx = newCtx(w.team, true)
	s.h.ctx = w.ctx
	return w, nil
}

// rejoin takes back that an earlier world of this process has left its teams. It calls between once between two barriers.
func rejoin(j *job.Job, between func() error, teams ...*coll.Team) error {
	if j.Far != nil {
		if err := far.Settle(context.Background(), j.Far); err != nil {
			return err
		}
	}
	called := false
	return coll.Rejoin(func() error {
		err := j.Fence(context.Background())
		if err == nil && !called {
			called = true
			err = between()
		}
		return err
	}, teams...)
}

// nearConfig describes the team of the PEs on this node to package coll.
func nearConfig(j *job.Job, id int, mode Mode) coll.Config {
	return coll.Config{
		Map: j.Map, Waiter: j.Waiter, Members: coll.MembersFrom(j.Place.Locals()), Me: int(j.Local), ID: id,
		Failures: j.Failures, Incarnation: j.Incarnation, Tolerant: mode == ModeTolerant,
	}
}

// initError returns the error of an Init that failed with err.
func initError(err error) error {
	if dead, ok := errors.AsType[*job.DeadError](err); ok {
		return errorOfFailures("Init", nil, dead.Failures)
	}
	return fmt.Errorf("shmem.Init: %w", err)
}

// model describes this programming model to other models in the process.
func model() client.Model {
	return client.Model{Programming: "OpenSHMEM", Library: "goshmem", Version: version.String(), Threads: "goroutines"}
}

// printInfo prints the version if SHMEM_VERSION is set, and the settings if SHMEM_INFO is.
func printInfo() {
	if envvar.IsSet(os.LookupEnv, envvar.Version) {
		fmt.Fprintf(os.Stdout, "goshmem %s, OpenSHMEM %s\n", version.String(), version.OpenSHMEM)
	}
	if envvar.IsSet(os.LookupEnv, envvar.Info) {
		for _, s := range envvar.Effective(os.LookupEnv) {
			fmt.Fprintf(os.Stdout, "%s=%s (%s): %s\n", s.Name, s.Value, s.Origin, s.Doc)
		}
	}
}

// Initialized reports whether the process holds a World: whether Init was called more often than Finalize.
//
//   - Source: shmem_query_initialized.
func Initialized() bool {
	initMu.Lock()
	defer initMu.Unlock()
	return currentWorld != nil
}

// Finalize ends the process's membership, after a barrier. Handles of this World then fail with ErrFinalized. A
// Finalize that is not the last of nested ones is only a barrier.
//
// When a PE has died, Finalize succeeds, and does not wait for the others if the world's mode is ModeStrict.
// Functions given to OnFailure are called first, which may take a quarter of a second. Finalize also succeeds,
// without waiting, when the team of all PEs is broken, and when another PE has finalized without waiting. So a job
// ends well after a collective that timed out.
//
// Finalize may be called by a deferred function while its goroutine panics. It then waits for no PE and ends nothing:
// it prints why and returns ErrUnwinding. So Go prints the panic, and the process ends as if it had not called
// Finalize. This also holds after the deferred function has recovered, until it returns. A program that goes on after
// a panic recovers in a function that returns before Finalize is called.
//
// While the goroutine ends by runtime.Goexit, as after t.Skip and t.FailNow, Finalize waits a second for the others,
// and returns ErrUnwinding if they have not come. If the main goroutine ends so and no other runs, Go's deadlock
// detector ends the process with status 2 after a Finalize that succeeds. It does not run after a Finalize that
// fails, nor in programs that are built with cgo: the process then goes on, and other PEs may wait for it, until
// oshrun --timeout or the user ends the job.
//
//   - Errors: ErrFinalized, ErrUnwinding, ErrArgument for a nil World; the end of its With, after which the World
//     goes on: call Finalize again, which does not wait then.
//   - Collective: over all PEs of the job.
//   - Source: shmem_finalize.
func (w *World) Finalize() error {
	if err := w.checkUsable("Finalize"); err != nil {
		return err
	}
	team, why := w.team, job.Unwinding()
	if why == job.Panics {
		err := unwindingError("Finalize", why)
		job.WarnUnwinding(err)
		return err
	}
	if why == job.Exits {
		ctx, cancel := context.WithTimeout(context.Background(), job.ExitPatience)
		defer cancel()
		team = team.With(ctx)
	}
	err := w.session.h.quietAll("Finalize", team.ctx)
	if err == nil {
		err = w.ctx.Quiet()
	}
	if err == nil {
		err = team.sync("Finalize")
	} else if !finalizeIgnores(err) {
		err = concludeAlone(team, "Finalize", err)
	}
	if why != "" && errors.Is(err, context.DeadlineExceeded) {
		err = unwindingError("Finalize", why)
		job.WarnUnwinding(err)
		return err
	}
	if err != nil && !finalizeIgnores(err) {
		return err
	}
	w.session.h.job.AwaitListeners()
	initMu.Lock()
	defer initMu.Unlock()
	if w.session.refs--; w.session.refs > 0 {
		return nil
	}
	currentWorld = nil
	w.session.h.invalidateTags()
	w.session.h.contexts.endDirect()
	w.session.cancelHook()
	w.session.cancelAlert()
	w.session.h.job.NameHolders(nil)
	w.session.h.teams.leaveAll()
	w.team.made().Leave()
	w.node.made().Leave()
	if err := w.session.h.job.Release(context.Background()); err != nil {
		return fmt.Errorf("shmem.Finalize: %w", err)
	}
	return nil
}

// GlobalExit ends all PEs of the job, whatever they are doing, and makes oshrun exit with the given status, 0 to 255.
// It does not return.
//
// A status outside that range becomes 255, with a message. On a nil World, which belongs to no job, it ends this
// process alone.
//
//   - Source: shmem_global_exit.
func (w *World) GlobalExit(status int) {
	if status < 0 || status > 255 {
		fmt.Fprintf(os.Stderr, "shmem.GlobalExit: status %d, want 0 to 255; using 255\n", status)
		status = 255
	}
	if w == nil || w.session == nil {
		fmt.Fprintln(os.Stderr, w.checkUsable("GlobalExit"))
	} else if err := w.session.h.job.Abort(status, "GlobalExit"); err != nil {
		fmt.Fprintf(os.Stderr, "shmem.GlobalExit: %v\n", err)
	}
	os.Exit(status) //nolint:forbidigo // the routine's meaning: it does not return
}

// MyPE returns this PE's number, or -1 for a nil World.
//
//   - Source: shmem_my_pe.
func (w *World) MyPE() int {
	if w == nil || w.session == nil {
		return -1
	}
	return int(w.session.h.me)
}

// NPEs returns the number of PEs of the job, or 0 for a nil World.
//
//   - Source: shmem_n_pes.
func (w *World) NPEs() int {
	if w == nil || w.session == nil {
		return 0
	}
	return w.session.h.npes
}

// Team returns the team of all PEs. A nil World has a nil Team and a nil Ctx, and calls on these return an error.
//
//   - Source: SHMEM_TEAM_WORLD.
func (w *World) Team() *Team {
	if w == nil {
		return nil
	}
	return w.team
}

// Shared returns the team of the PEs that reach each other's memory by loads and stores: those of one node.
//
//   - Source: SHMEM_TEAM_SHARED.
func (w *World) Shared() *Team {
	if w == nil {
		return nil
	}
	return w.node
}

// Ctx returns the default context.
//
//   - Source: SHMEM_CTX_DEFAULT.
func (w *World) Ctx() *Ctx {
	if w == nil {
		return nil
	}
	return w.ctx
}

// checkUsable checks that w came from Init and is not finalized.
func (w *World) checkUsable(op string) error {
	switch {
	case w == nil || w.session == nil:
		return usage(op, ErrArgument, "World is nil, want one that Init returned without an error")
	case w.session.h.finalized():
		return usage(op, ErrFinalized, "called after Finalize")
	}
	return nil
}

// With returns a handle of the same World, whose collectives, waits and allocations end with an error when ctx ends.
// A collective that ended so has broken its team for all its PEs, and its objects are in use until Agree: see
// Team.With.
func (w *World) With(ctx context.Context) *World {
	if w == nil {
		return nil
	}
	return &World{session: w.session, team: w.team.With(ctx), node: w.node.With(ctx), ctx: w.ctx.With(ctx)}
}

// Barrier returns when all PEs have called it. All operations that any PE made on the default context before are then
// complete and visible everywhere.
//
//   - Errors: those of collectives, see the package documentation.
//   - Collective: over all PEs of the job.
//   - Source: shmem_barrier_all.
func (w *World) Barrier() error {
	if err := w.checkUsable("Barrier"); err != nil {
		return err
	}
	if err := w.ctx.Quiet(); err != nil {
		return concludeAlone(w.team, "Barrier", err)
	}
	return w.team.sync("Barrier")
}
