package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/daemon/life"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/xunix"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

func lockThread() { runtime.LockOSThread() }

// proc is one PE's process. Its fields are guarded by the step's mutex.
type proc struct {
	id      ID
	job     *job
	cmd     *exec.Cmd
	leash   *os.File // write end; closing it kills the group
	hold    *os.File // its read end: somebody has to have it open
	session bool     // it leads a session of its own
	outputs sync.WaitGroup
	passing atomic.Int32 // outputs that are in the hands of Config.Output
	outlets []*outlet
	orders  *taker // nil: it takes none
	began   time.Time
	wish    wish

	life     life.PE
	member   int           // the process that has joined for it last; 0: none, or unknown
	last     news          // of the death of its own process
	learnt   string        // the tier by which its failure was learnt of
	released chan struct{} // closed when life is freed
	reaped   chan struct{} // closed when life is reaped
	departed chan struct{} // closed when life is not inside any more; made anew when it joins again

	tag    uint64      // by which the watch names it; 0: not yet
	ill    string      // what the user was told: how it does not run as it should
	ails   kernel.Kind // Stopped, Stuck or Starved, by the watch; 0: none of these
	ailing int         // its process that is so
	pulse  pulse
	memory Memory
	debug  debugging
}

// noteJoin notes that a PE has joined the job, perhaps not for the first time. The caller holds the lock.
func (s *Step) noteJoin(p *proc) {
	if !p.life.Inside() {
		p.departed = make(chan struct{})
	}
	if first := p.life.Join(); first && p.job.number == 0 {
		if s.waited--; s.waited == 0 {
			close(s.joined)
		}
	}
}

// noteLeave notes that the PE has left the job. The caller holds the step's lock.
func (p *proc) noteLeave() {
	if p.life.Leave() {
		close(p.departed)
	}
}

func (p *proc) pid() int {
	if p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// measure looks at the memory of a PE's program, which may be about to end. The caller holds the
// lock.
func (s *Step) measure(p *proc) {
	if !s.cfg.Memory || p.life.Ended() {
		return
	}
	pid := p.member
	if pid == 0 {
		pid = p.pid()
	}
	if peak, ok := xunix.PeakMemory(pid); ok {
		p.memory.Peak = max(p.memory.Peak, peak)
	}
}

const (
	firstMeasure = time.Millisecond // a program has mostly its libraries by then
	mostMeasure  = time.Second
)

// measureOn looks at the memory of a PE's program again and again, more and more seldom, until
// it has ended: the kernel's own count at the end has the memory of this process in it.
func (s *Step) measureOn(p *proc) {
	pause := time.NewTimer(firstMeasure)
	defer pause.Stop()
	for next := firstMeasure; ; next = min(2*next, mostMeasure) {
		select {
		case <-pause.C:
		case <-p.reaped:
			return
		}
		s.mu.Lock()
		s.measure(p)
		s.mu.Unlock()
		pause.Reset(next)
	}
}

// leave takes the farewell of a PE, whose process waits for the answer. The caller holds the lock.
func (s *Step) leave(p *proc) {
	s.measure(p)
	p.noteLeave()
}

// signal reaches the group while its leader is not reaped: after that the
// number may be somebody else's.
func (p *proc) signal(sig syscall.Signal) {
	if !p.life.Ended() && p.cmd.Process != nil {
		_ = xunix.KillGroup(p.cmd.Process.Pid, sig)
	}
}

// Launch starts all PEs of the first job. After an error some may run: Close
// ends them.
func (s *Step) Launch() error {
	s.mu.Lock()
	j := s.jobs[0]
	s.mu.Unlock()
	if err := s.launch(j); err != nil {
		return err
	}
	s.input.run(s.cfg.Stdin)
	return nil
}

// launch starts the PEs of a job, from the thread that starts all.
func (s *Step) launch(j *job) error {
	null, err := s.openNull(j)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	done := make(chan error)
	j.yieldless = make([]bool, len(j.apps))
	for i := range j.apps {
		j.yieldless[i] = linksMPICH(j.apps[i].Path)
	}
	s.start <- func() {
		var b binder
		for pe := range j.npes() {
			id := ID{j.number, pe}
			err := b.set(s.place(j, pe).CPUs)
			if err == nil {
				err = s.startPE(j, pe, null)
			}
			if err != nil {
				done <- errors.Join(fmt.Errorf("start PE %v: %w", id, err), b.set(nil))
				return
			}
		}
		done <- b.set(nil)
	}
	return <-done
}

// reads says whether a PE gets the standard input of oshrun.
func (s *Step) reads(j *job, pe int) bool {
	return j.number == 0 && s.cfg.Stdin != nil && s.cfg.StdinTo(pe)
}

// openNull opens what the PEs of a job read that get no input: nil if all get it. Where that
// fails, no PE has been started yet.
func (s *Step) openNull(j *job) (*os.File, error) {
	for pe := range j.npes() {
		if !s.reads(j, pe) {
			f, err := os.Open(os.DevNull)
			return f, explainNull(err)
		}
	}
	return nil, nil
}

func (s *Step) startPE(j *job, pe int, null *os.File) (err error) {
	app := &j.apps[j.app(pe)]
	p := &proc{id: ID{j.number, pe}, job: j, reaped: make(chan struct{}), released: make(chan struct{}), cmd: &exec.Cmd{
		Path: app.Path, Args: append([]string{app.Name}, app.Args...),
		Dir: app.Dir, Env: s.environ(j, pe), SysProcAttr: xunix.ChildAttr(),
	}}
	if s.cfg.debugs(p.id) {
		p.debug = awaitDebugger
	}
	reads := s.reads(j, pe)
	if s.leadsSession(p, reads) {
		p.session, p.cmd.SysProcAttr = true, xunix.SessionAttr()
	}
	var theirs []*os.File // closed here once the process has them
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			p.discard()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	outputs, err := s.openOutputs(p)
	theirs = append(theirs, outputs...)
	leashR, leashW := pipe()
	theirs = append(theirs, leashR)
	p.leash, p.cmd.ExtraFiles = leashW, []*os.File{leashR}
	if err == nil {
		var conn *os.File
		conn, err = s.connectPMI(p)
		theirs = append(theirs, conn)
	}
	if !reads {
		p.cmd.Stdin = null
	} else if err == nil {
		in, inW := pipe()
		theirs = append(theirs, in)
		p.cmd.Stdin = in
		s.input.add(p.id, inW)
	}
	if err != nil {
		return err
	}
	letGo, err := s.startProcess(p)
	if err != nil {
		return app.explain(err)
	}
	s.follow(p)
	s.weigh(p)
	if err := p.tie(leashR); err != nil {
		s.cfg.Logger.Warn().Err(err).Stringer("pe", p.id).Msg("grandchildren may outlive a killed oshrun")
	}
	s.resize(p) // the user's terminal may have changed before Resize knew of this PE
	if err := letGo(); err != nil {
		s.cfg.Logger.Error().Err(err).Stringer("pe", p.id).Msg("start")
	}
	for i, o := range p.outlets {
		s.read(p, o, Stream(i))
	}
	s.retiring.Go(func() { s.wait(p) })
	if p.debug == awaitDebugger {
		s.retiring.Go(func() { p.holdForDebugger(s) })
	}
	if s.cfg.Memory {
		s.retiring.Go(func() { s.measureOn(p) })
	}
	return nil
}

// startProcess starts the process of a PE and notes it.
func (s *Step) startProcess(p *proc) (letGo func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed {
		return nil, errEnding
	}
	p.began = time.Now()
	if letGo, err = p.start(); err == nil {
		p.job.procs[p.id.PE] = p
		if s.cfg.Memory {
			p.memory.Floor, _ = xunix.PeakMemory(os.Getpid())
		}
		s.cfg.Logger.Info().Stringer("pe", p.id).Int("pid", p.pid()).Str("node", s.host).Str("program", p.cmd.Path).Msg("started")
	}
	return letGo, err
}

// start starts the process in such a way that its program begins when letGo is
// called: by then its leash is armed, so that what it starts cannot outlive a
// killed oshrun. Where that is not allowed (a debugger follows), it begins at once.
func (p *proc) start() (letGo func() error, err error) {
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
			return xunix.LetGoStopped(p.pid())
		}
		return xunix.LetGo(p.pid())
	}, err
}

// discard closes what a process that could not be started would have needed.
func (p *proc) discard() {
	for _, o := range p.outlets {
		_ = o.Close()
	}
	if p.leash != nil {
		_ = p.leash.Close()
	}
}

// tie arms the PE's leash.
func (p *proc) tie(r *os.File) error {
	if err := xunix.Leash(r, p.pid()); err != nil {
		return err
	}
	hold, write, err := xunix.LeashHold(r, p.leash)
	if err != nil {
		return err
	}
	_ = p.leash.Close() // not the last writer
	p.leash, p.hold = write, hold
	return nil
}

// release kills what is left of the PE's group.
func (p *proc) release() {
	_ = p.leash.Close()
	if p.hold != nil {
		_ = p.hold.Close()
	}
}

// environ returns the environment of a PE. The last of several settings of one
// variable counts.
func (s *Step) environ(j *job, pe int) []string {
	app := &j.apps[j.app(pe)]
	env := append([]string(nil), app.Env...)
	if procs := app.Procs; procs > 0 {
		if at := s.place(j, pe); at.CPUs != nil {
			procs = at.Procs(0)
		}
		env = append(env, envvar.MaxProcs+"="+strconv.Itoa(procs))
	}
	env = append(env, s.private.environ(app.Env)...)
	env = append(env, j.giveWay(app.Env)...)
	env = append(env, avoidCrash(app.Env)...)
	env = append(env, s.pmix.Environ(pmix.Proc{Nspace: j.nspace, Rank: pmix.Rank(pe)})...)
	return append(env, envvar.Step+"="+s.attach.Addr().String())
}

// wait reports that nothing is left of a PE: of its process and, if that ended
// well, of its connection, which a program started by a shell may keep longer than
// the shell, unless it was killed, too. What was a failure has been told before.
func (s *Step) wait(p *proc) {
	s.awaitEnd(p)
	ran := time.Since(p.began)
	err := p.cmd.Wait()
	end := ending.End{Code: 1}
	if p.cmd.ProcessState == nil {
		s.notice("how PE %v (pid %d) ended is not known, which counts as status 1: %v", p.id, p.pid(), err)
	} else if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		end = endOf(status)
	}
	s.mu.Lock()
	p.life.Reap()
	close(p.reaped)
	s.died(p, news{end: end, pid: p.pid()}) // unless the watch has seen it
	waits, departed := !s.killed && p.life.AwaitsLeave(end == ending.End{}), p.departed
	s.mu.Unlock()
	if waits {
		<-departed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := p.life.Conclude()
	s.carryOut(p, p.last, o)
	if o.Well {
		s.tellExit(p, ending.End{})
	}
	s.ended(p.job)
	if p.job.failed {
		return
	}
	end = p.last.end
	end.Unfinished = p.life.Unfinished()
	s.emit(Event{Kind: Exited, ID: p.id, PID: p.pid(), Process: p.cmd.ProcessState, Ran: ran, Memory: p.memory, End: end, Tier: p.learnt, By: p.wished(end), Said: p.said()})
}

// awaitEnd returns when a PE's process can be reaped. From then on its number may be somebody else's. Whether a watch
// looks after the process was decided before: startPE calls follow first.
func (s *Step) awaitEnd(p *proc) {
	s.mu.Lock()
	watched := p.life.Watched()
	s.mu.Unlock()
	if watched {
		<-p.released
	}
	s.mu.Lock()
	zombie := p.life.Seen()
	s.mu.Unlock()
	if !zombie {
		if err := xunix.WaitExited(p.pid()); err != nil {
			s.cfg.Logger.Error().Err(err).Stringer("pe", p.id).Msg("wait")
		}
	}
	s.mu.Lock()
	p.life.End()
	s.mu.Unlock()
}
