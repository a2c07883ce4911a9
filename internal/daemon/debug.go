package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/xunix"
)

// A PE for a debugger (Config.Debug) is stopped by SIGSTOP before the first instruction of its program, and nobody
// traces it: any debugger can attach to it. Two parties may end the stop:
//
//   - SIGCONT, from anybody: the PE runs without a debugger.
//   - A debugger that has attached: the PE runs when the debugger lets it. For that holdForDebugger sends SIGCONT itself
//     as soon as it sees a tracer. Without that, the kernel still has the process as stopped: each thread that the
//     program makes would stop at its begin, and debuggers would report SIGSTOP again and again.
//
// That SIGCONT cannot let the PE run too early: a traced process that is stopped runs only if its tracer says so, and
// the signal is the tracer's to deliver. If the debugger detaches at once, the PE runs.
type debugging uint8

const (
	notDebugged   debugging = iota
	awaitDebugger           // stopped at its first instruction
	debugged                // a debugger has attached, or SIGCONT has let it go on
)

// lookForDebugger is how often a PE that waits for a debugger is looked at. The kernel tells nobody of a tracer.
const lookForDebugger = 10 * time.Millisecond

// errUntraced is why a PE cannot be held for a debugger.
var errUntraced = &HintError{
	errors.New("it cannot be held for a debugger: ptrace is not permitted here"),
	"in a container: --cap-add SYS_PTRACE; without --debug the job runs",
}

// debuggers follows PEs that wait for a debugger.
type debuggers struct {
	table   *table
	closing <-chan struct{}
	logger  zerolog.Logger
}

// holdForDebugger follows the wait of a PE for its debugger to its end.
func (d *debuggers) holdForDebugger(p *localPE) {
	tick := time.NewTicker(lookForDebugger)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-p.reaped:
			return
		case <-d.closing:
			return
		}
		if d.lookAt(p) {
			return
		}
	}
}

// lookAt looks at a PE that waits for its debugger; over says that it does not wait any more. The looks happen without the
// lock of the table. They count if the process still has its number afterwards, which it keeps while it gets SIGCONT.
func (d *debuggers) lookAt(p *localPE) (over bool) {
	is := look(p.pid)
	// The tracer is asked for after the state: a process that a debugger has stopped between the two must not be
	// taken for one that SIGCONT has let go on.
	tracer := tracerOf(p.pid)
	goesOn := tracer != 0 || !is.stopped && !is.traced
	d.table.mu.Lock()
	ended := p.life.Ended()
	if goesOn && !ended {
		p.debug = debugged
		if tracer != 0 {
			_ = xunix.Kill(p.pid, xunix.SIGCONT)
		}
	}
	d.table.mu.Unlock()
	if goesOn && !ended {
		d.logger.Info().Stringer("pe", p.id).Int("pid", p.pid).Int("debugger", tracer).Msg("goes on")
	}
	return goesOn || ended
}

// spared says whether a signal is not for the PE because it waits for its debugger: one by which the user stops the
// whole job or lets it go on. When the job ends, the PE must not stay stopped. The caller holds the lock of the table.
func (p *localPE) spared(sig syscall.Signal, ending bool) bool {
	if p.debug != awaitDebugger || ending {
		return false
	}
	return sig == xunix.SIGCONT || sig == xunix.SIGTSTP || sig == xunix.SIGSTOP
}

// debugs says whether a PE is to be started for a debugger.
func (c *Config) debugs(id ID) bool { return id.Job == 0 && slices.Contains(c.Debug, id.PE) }

// tracerOf returns the process that traces another one; 0: none does.
func tracerOf(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("\nTracerPid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	tracer, _ := strconv.Atoi(string(bytes.TrimSpace(line)))
	return tracer
}
