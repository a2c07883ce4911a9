package daemon

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/daemon/pulse"
	"github.com/goshmem/goshmem/internal/xunix"
)

// ailing is a step with one PE, whose state changes a test reports as a watch would.
type ailing struct {
	*Step
	t *testing.T
	p *localPE
}

func newAiling(t *testing.T) ailing {
	t.Helper()
	s := startSleepers(t, 1, func(c *settings) { c.Watchdog.Off = true })
	p := s.table.jobs[0].procs[0]
	s.watch.tag(p)
	return ailing{s, t, p}
}

func (a ailing) see(kind kernel.Kind) {
	a.watch.report(kernel.Report{Kind: kind, PID: a.p.pid, Tag: a.p.tag})
}

// kill sends the PE a signal, and returns when it is in one of the states.
func (a ailing) kill(sig syscall.Signal, in func(process) bool) {
	a.t.Helper()
	if err := syscall.Kill(a.p.pid, sig); err != nil {
		a.t.Fatal(err)
	}
	a.await(in)
}

func (a ailing) await(in func(process) bool) {
	a.t.Helper()
	for begin := time.Now(); !in(look(a.p.pid)); {
		if time.Since(begin) > 10*time.Second {
			a.t.Fatalf("process is %+v", look(a.p.pid))
		}
		runtime.Gosched()
	}
}

// told compares what the user was told since the last call with want.
func (a ailing) told(want ...string) {
	a.t.Helper()
	a.events.emit(Event{Kind: Dropped}) // marks the end of what was told
	var got []string
	for e := range a.Events() {
		if e.Kind == Dropped {
			break
		}
		got = append(got, e.State)
	}
	if !slices.Equal(got, want) {
		a.t.Errorf("told %q, want %q", got, want)
	}
}

func stopped(p process) bool { return p.stopped }
func runs(p process) bool    { return !p.stopped && !p.traced && !p.over() }

// A PE that is held until its program begins is not told to be stopped, unless it is stopped from then on.
func TestHeldIsNotStopped(t *testing.T) {
	a := newAiling(t)
	a.ailments.hold(a.p)
	a.kill(syscall.SIGSTOP, stopped)
	a.see(kernel.Stopped)
	a.ailments.reportUntold()
	a.kill(syscall.SIGCONT, runs)
	a.ailments.letGo(a.p)
	a.see(kernel.Continued)
	a.told()

	a.ailments.hold(a.p)
	a.kill(syscall.SIGSTOP, stopped)
	a.see(kernel.Stopped)
	a.told()
	a.ailments.letGo(a.p)
	a.told("is stopped")
	a.kill(syscall.SIGCONT, runs)
	a.see(kernel.Continued)
	a.told("goes on")
}

// The user is told of each stop and of its end, once each. A stop that is already over is not told, nor one of the
// job's own.
func TestStopsAreTold(t *testing.T) {
	a := newAiling(t)
	a.see(kernel.Stopped) // the PE has gone on meanwhile
	a.see(kernel.Continued)
	a.told()

	a.kill(syscall.SIGSTOP, stopped)
	a.see(kernel.Stopped)
	a.see(kernel.Stopped)
	a.told("is stopped")
	a.kill(syscall.SIGCONT, runs)
	a.see(kernel.Continued)
	a.see(kernel.Continued)
	a.told("goes on")

	a.Suspend()
	a.await(stopped)
	a.see(kernel.Stopped)
	a.Signal(xunix.SIGCONT)
	a.see(kernel.Continued)
	a.told()

	a.Suspend()
	a.await(stopped)
	a.see(kernel.Stopped)
	a.Signal(xunix.SIGCONT)
	a.kill(syscall.SIGSTOP, stopped) // before the watch looks: it sees no change
	a.ailments.reportUntold()
	a.told("is stopped")
	a.kill(syscall.SIGCONT, runs)
	a.see(kernel.Continued)
	a.told("goes on")

	a.see(kernel.Starved)
	a.told("gets no processor (it could run)")
	a.see(kernel.Running)
	a.told("runs again")
}

// traceEnv holds the number of the process that this one is to debug. The debugger must not be the step: the step's own
// wait for the PE would consume the stops.
const traceEnv = "GOSHMEM_TEST_TRACE"

// trace attaches to a process and goes on when its standard input ends.
func trace(pid string) error {
	runtime.LockOSThread()
	n, err := strconv.Atoi(pid)
	if err == nil {
		err = syscall.PtraceAttach(n)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, os.Stdin)
	}
	return err
}

// A PE stopped by its debugger counts as stopped.
func TestTracedIsTold(t *testing.T) {
	if pid := os.Getenv(traceEnv); pid != "" {
		if err := trace(pid); err != nil {
			t.Fatal(err)
		}
		return
	}
	a := newAiling(t)
	debugger := exec.Command(os.Args[0], "-test.run", "^TestTracedIsTold$")
	debugger.Env = append(os.Environ(), fmt.Sprintf("%s=%d", traceEnv, a.p.pid))
	in, err := debugger.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := debugger.Start(); err != nil {
		t.Fatal(err)
	}
	a.await(func(p process) bool { return p.traced })
	a.see(kernel.Stopped)
	a.told("is stopped")
	_ = in.Close()
	if err := debugger.Wait(); err != nil {
		t.Error(err)
	}
}

// Time during which the user has stopped the job does not count as a hang, and no hang is reported meanwhile.
func TestNoHangWhileStopped(t *testing.T) {
	const atMost = time.Second
	a := newAiling(t)
	h := &hangWatch{table: a.table, ailments: a.ailments, atMost: atMost}
	look := func(after time.Duration) {
		a.table.mu.Lock()
		h.addLook(hangLook{p: a.p, Look: pulse.Look{Count: 5, At: int64(xunix.Monotonic() + after)}})
		a.table.mu.Unlock()
		a.events.deliver()
	}
	look(-time.Hour) // the last look before the job was stopped
	a.Suspend()
	a.Signal(xunix.SIGCONT)
	look(0)
	a.told()
	look(time.Minute)
	a.told("hangs: no call of the library but Put for 1s")
}
