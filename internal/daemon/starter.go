package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/xunix"
)

// starter starts the processes of PEs, all on one thread: the kernel kills a PE when the thread that started it ends. It
// needs no lock: table.beginStart and table.endStart tell the others what it does.
type starter struct {
	cfg        *Config
	table      *table
	servers    *servers
	watch      *deathWatch
	ailments   *ailments
	outputs    *outputs
	input      *input
	ends       *ends
	meter      *memoryMeter
	niceness   *niceness
	debuggers  *debuggers
	private    *private
	attach     *attachService
	data       dataNetwork
	background *background
	logger     zerolog.Logger
	noteStart  func(pid int) // as Hooks.Started
	work       chan func()   // to the thread; closed when the step ends
}

// run runs what is sent to it on one thread until the channel is closed. PEs have the priority of the user.
func (st *starter) run() {
	runtime.LockOSThread()
	if err := xunix.KeepPriority(); err != nil {
		st.logger.Warn().Err(err).Msg("PEs have precedence over other processes of their session")
	}
	for f := range st.work {
		f()
	}
}

// launch starts the near PEs of a job, from the thread that starts all.
func (st *starter) launch(j *localJob) error {
	null, err := st.openNull(j)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	done := make(chan error)
	j.yieldless = make([]bool, len(j.apps))
	for i := range j.apps {
		j.yieldless[i] = linksMPICH(j.apps[i].Path)
	}
	st.work <- func() {
		var b binder
		for _, pe := range j.near {
			id := ID{j.number, pe}
			err := b.bindThread(st.cfg.place(j, pe).CPUs)
			if err == nil {
				err = st.startPE(j, pe, null)
			}
			if err != nil {
				done <- errors.Join(fmt.Errorf("start PE %v: %w", id, err), b.bindThread(nil))
				return
			}
		}
		done <- b.bindThread(nil)
	}
	return <-done
}

// readsInput says whether a PE gets the standard input of oshrun.
func (st *starter) readsInput(j *localJob, pe int) bool {
	return j.number == 0 && st.cfg.StdinTo.Has(pe)
}

// openNull opens what the PEs of a job read that get no input: nil if all get it. Where that
// fails, no PE has been started yet.
func (st *starter) openNull(j *localJob) (*os.File, error) {
	for _, pe := range j.near {
		if !st.readsInput(j, pe) {
			f, err := os.Open(os.DevNull)
			return f, explainNull(err)
		}
	}
	return nil, nil
}

// startPE starts a PE and everything that follows it.
func (st *starter) startPE(j *localJob, pe int, null *os.File) error {
	app := &j.apps[j.appOf(pe)]
	p := newLocalPE(j, pe, &exec.Cmd{
		Path: app.Path, Args: append([]string{app.Name}, app.Args...),
		Dir: app.Dir, Env: st.environ(j, pe), SysProcAttr: xunix.ChildAttr(),
	})
	if st.cfg.debugs(p.id) {
		p.debug = awaitDebugger
	}
	waits := p.debug == awaitDebugger
	theirs, err := st.prepareFiles(p, null)
	defer func() {
		for _, f := range theirs { // the process has them
			_ = f.Close()
		}
	}()
	var letGo func() error
	if err == nil {
		st.ailments.hold(p)
		if letGo, err = st.startProcess(p); err != nil {
			err = app.explain(err)
		}
	}
	if err != nil {
		p.discard()
		return err
	}
	st.watch.addOwn(p)
	st.niceness.apply(p)
	if err := p.leash.arm(p.cmd.ExtraFiles[0], p.pid); err != nil {
		st.logger.Warn().Err(err).Stringer("pe", p.id).Msg("grandchildren may outlive a killed oshrun")
	}
	st.outputs.resize(p) // the user's terminal may have changed before Resize knew of this PE
	st.surround(p)
	if err := letGo(); err != nil {
		st.logger.Error().Err(err).Stringer("pe", p.id).Msg("start")
	}
	st.ailments.letGo(p)
	for i, o := range p.outlets {
		st.outputs.read(p, o, Stream(i))
	}
	st.background.retiring.Go(func() { st.ends.followPE(p) })
	if waits {
		st.background.retiring.Go(func() { st.debuggers.holdForDebugger(p) })
	}
	if st.meter.on {
		st.background.retiring.Go(func() { st.meter.follow(p) })
	}
	return nil
}

// prepareFiles makes what a PE's process needs, and returns the files that only the process is to have. They are returned with
// an error, too.
func (st *starter) prepareFiles(p *localPE, null *os.File) (theirs []*os.File, err error) {
	reads := st.readsInput(p.job, p.id.PE)
	if st.leadsSession(p, reads) {
		p.session, p.cmd.SysProcAttr = true, xunix.SessionAttr()
	}
	if theirs, err = st.outputs.open(p); err != nil {
		return theirs, err
	}
	leash, write, err := os.Pipe()
	if err != nil {
		return theirs, err
	}
	theirs = append(theirs, leash)
	p.leash.write, p.cmd.ExtraFiles = write, []*os.File{leash}
	conn, err := st.servers.connectPMI(p)
	if err != nil {
		return theirs, err
	}
	theirs = append(theirs, conn)
	if !reads {
		p.cmd.Stdin = null
		return theirs, nil
	}
	in, write, err := os.Pipe()
	if err != nil {
		return theirs, err
	}
	p.cmd.Stdin = in
	st.input.addReader(p.id, write)
	return append(theirs, in), nil
}

// startProcess starts the process of a PE and notes it. The lock of the table is not held while the process is made. The
// process cannot be reaped before ends.followPE runs, so its start time is that of no other one.
func (st *starter) startProcess(p *localPE) (letGo func() error, err error) {
	if err := st.table.beginStart(p); err != nil {
		return nil, err
	}
	p.profiles = st.cfg.expectProfiles(p.id)
	p.began = time.Now()
	letGo, err = p.startHeld()
	p.memory.floor = st.meter.ownMemory() // not before: this process may grow until the other one has its own memory
	var is identity
	if err == nil {
		is.pid = p.cmd.Process.Pid
		is.start = look(is.pid).start
	}
	st.table.endStart(p, is, err)
	if err == nil {
		st.noteStart(is.pid)
		st.logger.Info().Stringer("pe", p.id).Int("pid", p.pid).Str("node", st.servers.host).Str("program", p.cmd.Path).Msg("started")
	}
	return letGo, err
}

// startHeld starts the process in such a way that its program begins when letGo is
// called: by then its leash is armed, so that what it starts cannot outlive a
// killed oshrun. Where that is not allowed (a debugger follows), it begins at once.
func (p *localPE) startHeld() (letGo func() error, err error) {
	at := p.cmd
	again := &exec.Cmd{
		Path: at.Path, Args: at.Args, Env: at.Env, Dir: at.Dir, Stdin: at.Stdin, Stdout: at.Stdout, Stderr: at.Stderr,
		ExtraFiles: at.ExtraFiles, SysProcAttr: at.SysProcAttr,
	}
	at.SysProcAttr = xunix.Held(at.SysProcAttr)
	err = at.Start()
	debug := p.debug == awaitDebugger
	if errors.Is(err, os.ErrPermission) {
		if debug {
			return nil, errUntraced
		}
		p.cmd = again
		return func() error { return nil }, again.Start()
	}
	return func() error {
		if debug {
			return xunix.LetGoStopped(at.Process.Pid)
		}
		return xunix.LetGo(at.Process.Pid)
	}, err
}

// discard closes what a process that could not be started would have needed.
func (p *localPE) discard() {
	for _, o := range p.outlets {
		_ = o.Close()
	}
	p.leash.release()
}

// environ returns the environment of a PE. The last of several settings of one
// variable counts.
func (st *starter) environ(j *localJob, pe int) []string {
	app := &j.apps[j.appOf(pe)]
	env := append([]string(nil), app.Env...)
	if procs := app.Procs; procs > 0 {
		if j.share.isGiven() {
			procs = max(1, runtime.GOMAXPROCS(0)/j.sharers())
		}
		if at := st.cfg.place(j, pe); at.CPUs != nil {
			procs = at.Procs(0)
		}
		env = append(env, envvar.MaxProcs+"="+strconv.Itoa(procs))
	}
	env = append(env, st.private.environ(app.Env)...)
	env = append(env, j.yieldVariable(app.Env)...)
	env = append(env, memHooksVariable(app.Env)...)
	data := st.data.variables(app.Env)
	env = append(env, data...)
	env = append(env, emulation(slices.Concat(app.Env, data), j.share)...)
	env = append(env, st.servers.environ(j, pe)...)
	return append(env, envvar.Step+"="+st.attach.address())
}
