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
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/pmix/client"
)

// World is a process's membership in its job: from Init to the last Finalize.
type World struct {
	s    *session
	team *Team
	node *Team // SHMEM_TEAM_SHARED
	ctx  *Ctx
}

// session is what all handles of one Init have in common.
type session struct {
	h               *heap
	refs            int // nested Inits
	level           ThreadLevel
	unhook, unalert func() // end what tells the heap of deaths
}

// Option changes what Init does.
type Option func(*config)

type config struct {
	mode  Mode
	level ThreadLevel
}

// WorldMode says what deaths do to the collectives of the teams that Init makes, the
// same on all PEs. ModeDefault, as without it: they go on in a job that outlives
// failures (oshrun --recover), and fail otherwise.
func WorldMode(m Mode) Option { return func(c *config) { c.mode = m } }

// modeIn is the mode of a world in a job.
func (c *config) modeIn(j *job.Job) Mode {
	switch {
	case c.mode != ModeDefault:
		return c.mode
	case j.Recover:
		return ModeTolerant
	}
	return ModeStrict
}

var (
	initMu  sync.Mutex
	current *World
)

// Init makes the process a PE of its job and returns when all PEs have called
// it. In a program that was not started by oshrun, the job is this process
// alone.
//
// Calls nest: a further Init returns the same World, and only the last of as
// many calls of Finalize ends it. After that, Init may be called again.
//
// Programs that need no more than one World for all of main use [Run].
//
//   - Collective: over all PEs of the job.
//   - Errors: the environment is not one that oshrun makes; *PEError with ErrPEDied when
//     a PE has died.
//   - Source: shmem_init.
func Init(opts ...Option) (*World, error) {
	cfg := config{level: ThreadMultiple}
	for i, o := range opts {
		if o == nil {
			return nil, usage("Init", ErrArgument, "option %d is nil, want none or a function that returns one", i)
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
	if current != nil {
		current.s.refs++
		return current, nil
	}
	j, err := job.Acquire(context.Background())
	if err != nil {
		return nil, initError(err)
	}
	w, err := newWorld(j, cfg.modeIn(j))
	if err == nil {
		err = j.DeclareModel(context.Background(), model())
	}
	if err != nil {
		return nil, errors.Join(initError(err), j.Release(context.Background()))
	}
	w.s.level = cfg.level
	if j.PE == 0 {
		announce()
	}
	current = w
	mapped.Store(w.s.h)
	return w, nil
}

func newWorld(j *job.Job, mode Mode) (*World, error) {
	if err := j.Place.RequireOneNode(); err != nil {
		return nil, err
	}
	all, err := coll.New(nearConfig(j, coll.ShmemWorld, mode)) // all PEs of the job are near
	if err != nil {
		return nil, err
	}
	node, err := coll.New(nearConfig(j, coll.ShmemShared, mode))
	if err != nil {
		return nil, err
	}
	if err := coll.Rejoin(func() error { return j.Fence(context.Background()) }, all, node); err != nil {
		return nil, err
	}
	s := &session{h: newHeap(j), refs: 1}
	s.unalert = j.Alert(s.h.beWary)
	j.NameHolders(s.h.lockHolder)
	s.unhook = j.OnFailure(func([]failure.Failure, uint64) { s.h.beWary() }) // before those of users are called
	w := &World{s: s}
	w.team = newTeam(s.h, all, all.PEs(), TeamConfig{Mode: mode})
	w.node = newTeam(s.h, node, node.PEs(), TeamConfig{Mode: mode})
	w.team.g.standing, w.node.g.standing = true, true
	w.ctx = newCtx(w.team)
	w.ctx.of.standing = true
	s.h.ctx = w.ctx
	return w, nil
}

// nearConfig describes the team of the PEs on this node.
func nearConfig(j *job.Job, id int, mode Mode) coll.Config {
	return coll.Config{
		Map: j.Map, Waiter: j.Waiter, Members: coll.MembersFrom(j.Place.Locals()), Me: int(j.Local), ID: id,
		Failures: j.Failures, Incarnation: j.Incarnation, Tolerant: mode == ModeTolerant,
	}
}

// initError gives an error of set-up its public form.
func initError(err error) error {
	if dead, ok := errors.AsType[*job.DeadError](err); ok {
		return deaths("Init", dead.Failures)
	}
	return fmt.Errorf("shmem.Init: %w", err)
}

// model is how other programming models of the process see this one.
func model() client.Model {
	return client.Model{Programming: "OpenSHMEM", Library: "goshmem", Version: version.String(), Threads: "goroutines"}
}

// announce prints what SHMEM_VERSION and SHMEM_INFO ask for.
func announce() {
	if envvar.IsSet(os.LookupEnv, envvar.Version) {
		fmt.Fprintf(os.Stdout, "goshmem %s, OpenSHMEM %s\n", version.String(), version.OpenSHMEM)
	}
	if envvar.IsSet(os.LookupEnv, envvar.Info) {
		for _, s := range envvar.Effective(os.LookupEnv) {
			fmt.Fprintf(os.Stdout, "%s=%s (%s): %s\n", s.Name, s.Value, s.Origin, s.Doc)
		}
	}
}

// Initialized says whether the process holds a World: whether Init was called
// more often than Finalize.
//
//   - Source: shmem_query_initialized.
func Initialized() bool {
	initMu.Lock()
	defer initMu.Unlock()
	return current != nil
}

// Finalize ends the process's membership, after a barrier. Handles of this
// World fail from then on with ErrFinalized. A Finalize that is not the last of
// nested ones is a barrier only. When a PE has died, it succeeds, and does not wait for
// the others if the world's mode is ModeStrict; functions given to OnFailure are called
// before it, and may take a quarter of a second. When the team of all PEs is broken, it
// succeeds and waits for nobody, and so it does when a PE has finalized before without
// waiting: so a job ends well after a collective that has timed out.
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
//   - Errors: ErrFinalized, ErrUnwinding, ErrArgument for a nil World; the end of its With, after which
//     the World goes on: call Finalize again, which waits for nobody then.
//   - Collective: over all PEs of the job.
//   - Source: shmem_finalize.
func (w *World) Finalize() error {
	if err := w.usable("Finalize"); err != nil {
		return err
	}
	team, why := w.team, job.Unwinding()
	if why == job.Panics {
		err := unwindingBy("Finalize", why)
		job.WarnUnwinding(err)
		return err
	}
	if why == job.Exits {
		ctx, cancel := context.WithTimeout(context.Background(), job.ExitPatience)
		defer cancel()
		team = team.With(ctx)
	}
	err := w.ctx.Quiet()
	if err == nil {
		err = team.sync("Finalize")
	}
	if why != "" && errors.Is(err, context.DeadlineExceeded) {
		err = unwindingBy("Finalize", why)
		job.WarnUnwinding(err)
		return err
	}
	if err != nil && !waitsForNobody(err) {
		return err
	}
	w.s.h.job.AwaitListeners()
	initMu.Lock()
	defer initMu.Unlock()
	if w.s.refs--; w.s.refs > 0 {
		return nil
	}
	current = nil
	w.s.h.end()
	w.s.unhook()
	w.s.unalert()
	w.s.h.job.NameHolders(nil)
	w.s.h.teams.leave()
	w.team.t.Leave()
	w.node.t.Leave()
	if err := w.s.h.job.Release(context.Background()); err != nil {
		return fmt.Errorf("shmem.Finalize: %w", err)
	}
	return nil
}

// GlobalExit ends all PEs of the job, wherever they are, and makes oshrun exit
// with the given status, 0 to 255. It does not return.
//
// A status outside that range becomes 255, with a message. On a nil World,
// which knows of no job, it ends this process alone.
//
//   - Source: shmem_global_exit.
func (w *World) GlobalExit(status int) {
	if status < 0 || status > 255 {
		fmt.Fprintf(os.Stderr, "shmem.GlobalExit: status %d, want 0 to 255; using 255\n", status)
		status = 255
	}
	if w == nil || w.s == nil {
		fmt.Fprintln(os.Stderr, w.usable("GlobalExit"))
	} else if err := w.s.h.job.Abort(status, "GlobalExit"); err != nil {
		fmt.Fprintf(os.Stderr, "shmem.GlobalExit: %v\n", err)
	}
	os.Exit(status) //nolint:forbidigo // the routine's meaning: it does not return
}

// MyPE returns this PE's number, -1 for a nil World.
//
//   - Source: shmem_my_pe.
func (w *World) MyPE() int {
	if w == nil || w.s == nil {
		return -1
	}
	return int(w.s.h.me)
}

// NPEs returns the number of PEs of the job, 0 for a nil World.
//
//   - Source: shmem_n_pes.
func (w *World) NPEs() int {
	if w == nil || w.s == nil {
		return 0
	}
	return w.s.h.npes
}

// Team returns the team of all PEs. That of a nil World is nil, and so is
// its Ctx; what is called on them returns an error.
//
//   - Source: SHMEM_TEAM_WORLD.
func (w *World) Team() *Team {
	if w == nil {
		return nil
	}
	return w.team
}

// Shared returns the team of the PEs that reach each other's memory by loads and stores,
// those of one node.
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

// usable checks that w came from Init and is not finalized.
func (w *World) usable(op string) error {
	switch {
	case w == nil || w.s == nil:
		return usage(op, ErrArgument, "World is nil, want one that Init returned without an error")
	case w.s.h.slots.Load() == 0:
		return usage(op, ErrFinalized, "called after Finalize")
	}
	return nil
}

// With returns the same World, whose collectives, waits and allocations end
// with an error when ctx ends. A collective that ended so has broken its team, for all
// its PEs, and its objects are in use until Agree: see Team.With.
func (w *World) With(ctx context.Context) *World {
	if w == nil {
		return nil
	}
	return &World{s: w.s, team: w.team.With(ctx), node: w.node.With(ctx), ctx: w.ctx.With(ctx)}
}

// Barrier returns when all PEs have called it and all operations of all PEs on
// the default context before it are complete and visible everywhere.
//
//   - Errors: those of collectives, see the package documentation.
//   - Collective: over all PEs of the job.
//   - Source: shmem_barrier_all.
func (w *World) Barrier() error {
	if err := w.usable("Barrier"); err != nil {
		return err
	}
	if err := w.ctx.Quiet(); err != nil {
		return err
	}
	return w.team.sync("Barrier")
}
