package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/server"
	"github.com/goshmem/goshmem/pmix/wire"
)

func lockThread() { runtime.LockOSThread() }

// proc is one PE's process. Its fields are guarded by the step's mutex.
type proc struct {
	pe        int
	cmd       *exec.Cmd
	leash     *os.File // write end; closing it kills the group
	hold      *os.File // its read end: somebody has to have it open
	outputs   sync.WaitGroup
	passing   atomic.Int32 // outputs that are in the hands of Config.Output
	readers   []*os.File
	reaped    chan struct{}
	ended     bool          // its process has ended; the number may be reaped any time
	connected bool          // it has joined the job
	lost      bool          // and left it without a farewell
	settled   chan struct{} // closed when it has left the job, in any way
}

// join notes that the PE has joined the job, perhaps not for the first time.
func (p *proc) join() {
	p.connected, p.lost, p.settled = true, false, make(chan struct{})
}

// settle notes that the PE has left the job.
func (p *proc) settle() {
	if !p.isSettled() {
		close(p.settled)
	}
}

func (p *proc) isSettled() bool { return isClosed(p.settled) }

func (p *proc) isReaped() bool { return isClosed(p.reaped) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *proc) pid() int {
	if p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// signal reaches the group while its leader is not reaped: after that the
// number may be somebody else's.
func (p *proc) signal(sig syscall.Signal) {
	if !p.ended && p.cmd.Process != nil {
		_ = xunix.KillGroup(p.cmd.Process.Pid, sig)
	}
}

// Launch starts all PEs, from one thread. After an error some may run: Close
// ends them.
func (s *Step) Launch() error {
	done := make(chan error)
	s.start <- func() {
		for pe := range s.cfg.NPEs {
			if err := s.startPE(pe); err != nil {
				done <- fmt.Errorf("start PE %d: %w", pe, err)
				return
			}
		}
		done <- nil
	}
	if err := <-done; err != nil {
		return err
	}
	s.input.run(s.cfg.Stdin)
	return nil
}

func (s *Step) startPE(pe int) (err error) {
	p := &proc{pe: pe, reaped: make(chan struct{}), settled: make(chan struct{}), cmd: &exec.Cmd{
		Path: s.cfg.Path, Args: append([]string{s.cfg.Name}, s.cfg.Args...),
		Dir: s.cfg.Dir, Env: s.environ(pe), SysProcAttr: xunix.ChildAttr(),
	}}
	var theirs []*os.File // closed here once the process has them
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	out, outW := pipe()
	errs, errW := pipe()
	leashR, leashW := pipe()
	theirs = append(theirs, outW, errW, leashR)
	p.readers, p.leash = []*os.File{out, errs}, leashW
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = outW, errW, []*os.File{leashR}
	if err == nil && s.cfg.Stdin != nil && s.cfg.StdinTo(pe) {
		in, inW := pipe()
		theirs = append(theirs, in)
		p.cmd.Stdin = in
		s.input.add(pe, inW)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	s.procs[pe] = p
	if err := p.tie(leashR); err != nil {
		s.cfg.Logger.Warn().Err(err).Int("pe", pe).Msg("grandchildren may outlive a killed oshrun")
	}
	s.read(p, out, Stdout)
	s.read(p, errs, Stderr)
	go s.wait(p)
	return nil
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
func (s *Step) environ(pe int) []string {
	env := append([]string(nil), s.cfg.Env...)
	if s.cfg.Procs > 0 {
		env = append(env, envvar.MaxProcs+"="+strconv.Itoa(s.cfg.Procs))
	}
	env = append(env, s.pmix.Environ(wire.Proc{Nspace: s.nspace, Rank: wire.Rank(pe)})...)
	return append(env, envvar.Step+"="+s.attach.Addr().String())
}

// outputLag is how long the report of an end waits for the rest of the output,
// so that what a PE said last stands before what oshrun says of it.
const outputLag = 200 * time.Millisecond

// wait reports the end of a PE: of its process and, if that ended well, of its
// connection, which a program started by a shell may keep longer than the shell,
// unless it was killed, too.
func (s *Step) wait(p *proc) {
	if err := xunix.WaitExited(p.pid()); err != nil {
		s.cfg.Logger.Error().Err(err).Int("pe", p.pe).Msg("wait")
	}
	s.mu.Lock()
	p.ended = true
	s.mu.Unlock()
	_ = p.cmd.Wait() // the state says it all
	close(p.reaped)
	s.mu.Lock()
	stays, settled := p.connected && !s.killed, p.settled
	s.mu.Unlock()
	if stays && p.cmd.ProcessState.Success() {
		<-settled
	}
	s.pmix.ProcExited(wire.Proc{Nspace: s.nspace, Rank: wire.Rank(p.pe)}, s.exitOf(p))
	within(time.Now().Add(outputLag), p.outputs.Wait)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emit(Event{Kind: Exited, PE: p.pe, PID: p.pid(), State: p.cmd.ProcessState, Unfinished: p.lost})
}

// exitOf says how the process of a PE ended.
func (s *Step) exitOf(p *proc) server.Exit {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := server.Exit{Code: p.cmd.ProcessState.ExitCode(), Unfinished: p.connected && !p.isSettled() || p.lost}
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Code, e.Signal = 0, int(ws.Signal())
	}
	return e
}
