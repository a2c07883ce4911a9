package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/xunix"
)

// run is a job under way.
type run struct {
	o      *Options
	log    zerolog.Logger
	step   *daemon.Step
	out    *printer
	left   int      // PEs whose process runs
	gone   [][]bool // by job and PE
	ending bool     // the job's fate is decided
	status int
	kill   <-chan time.Time  // when patience is over
	ints   int               // interrupts received
	asked  time.Time         // when the user first asked for the end; zero: never
	lost   chan daemon.Event // connections that were lost a while ago
	over   chan struct{}     // closed when nobody receives from lost any more
}

// loop handles events until no PE runs.
func (r *run) loop(ctx context.Context) {
	var timeout <-chan time.Time
	if r.o.Timeout > 0 {
		t := time.NewTimer(r.o.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	canceled := ctx.Done()
	for r.left > 0 {
		select {
		case e := <-r.step.Events():
			r.event(e)
		case e := <-r.lost:
			r.forsaken(e)
		case sig := <-r.o.Signals:
			r.signal(sig)
		case <-timeout:
			r.end(StatusTimeout, "timeout: --timeout %v is over; still running: %s", r.o.Timeout, r.running())
		case <-canceled:
			canceled = nil
			r.end(StatusError, "canceled: %v", context.Cause(ctx))
		case err := <-r.out.failed:
			r.unwritten(err)
		case <-r.kill:
			r.step.Signal(syscall.SIGKILL)
		}
	}
}

// event decides what the end of a PE means.
func (r *run) event(e daemon.Event) {
	at := e.At.Round(time.Millisecond)
	switch e.Kind {
	case daemon.Abort:
		if e.Status == 0 {
			r.end(0, "")
			return
		}
		r.endAfter(e.Said, e.Status, "PE %v (pid %d) ended the job with status %d after %v%s", e.ID, e.PID, e.Status, at, because(e.Msg))
	case daemon.Lost:
		// A killed program loses its connection a moment before its process
		// is seen to end, and that says more.
		time.AfterFunc(lostPatience, func() {
			select {
			case r.lost <- e:
			case <-r.over:
			}
		})
	case daemon.Exited:
		r.left--
		r.gone[e.Job][e.PE] = true
		r.exited(e, at)
	}
}

// lostPatience is how long a process may take to end after its connection.
const lostPatience = 2 * time.Second

// forsaken ends the job when a PE's process goes on without its program, unless
// that process has started another one meanwhile.
func (r *run) forsaken(e daemon.Event) {
	if !r.gone[e.Job][e.PE] && r.step.Lost(e.ID) {
		r.end(StatusError, "PE %v (pid %d) lost its program, which ended without Finalize, after %v; the process that started it goes on",
			e.ID, e.PID, e.At.Round(time.Millisecond))
	}
}

func because(msg string) string {
	if msg == "" || msg == "GlobalExit" {
		return ""
	}
	return ": " + msg
}

// exited judges how a process ended.
func (r *run) exited(e daemon.Event, at time.Duration) {
	ws, ok := e.State.Sys().(syscall.WaitStatus)
	switch {
	case ok && ws.Signaled():
		core := ""
		if ws.CoreDump() {
			core = ", core dumped"
		}
		r.endAfter(e.Said, StatusSignal+int(ws.Signal()), "PE %v (pid %d) was killed by signal %d (%s%s) after %v",
			e.ID, e.PID, int(ws.Signal()), xunix.SignalName(ws.Signal()), core, at)
	case e.State.ExitCode() != 0:
		note := ""
		if sig := e.State.ExitCode() - StatusSignal; sig > 0 && xunix.SignalName(syscall.Signal(sig)) != "" {
			note = fmt.Sprintf(" (a shell's way to say: killed by signal %d, %s)", sig, xunix.SignalName(syscall.Signal(sig)))
		}
		r.endAfter(e.Said, e.State.ExitCode(), "PE %v (pid %d) exited with status %d%s after %v", e.ID, e.PID, e.State.ExitCode(), note, at)
	case e.Unfinished:
		r.endAfter(e.Said, StatusError, "PE %v (pid %d) exited with status 0 without Finalize after %v", e.ID, e.PID, at)
	default:
		if r.o.Verbose {
			r.out.after(e.Said, "PE %v (pid %d) finished after %v", e.ID, e.PID, at)
		}
	}
}

// end decides the job's status, says why and asks all PEs to end. Only the
// first cause counts.
func (r *run) end(status int, format string, args ...any) {
	r.endAfter(nil, status, format, args...)
}

// endAfter does the same and says why after what a PE has said: see
// daemon.Event.Said.
func (r *run) endAfter(said []<-chan struct{}, status int, format string, args ...any) {
	if r.ending {
		return
	}
	r.ending, r.status = true, status
	r.ask(syscall.SIGTERM)
	switch {
	case format == "":
	case said == nil:
		r.out.message(format, args...)
	default:
		r.out.after(said, format, args...)
	}
}

// unwritten ends the job because its output cannot be written. That nobody wants
// more of it, as in "oshrun ... | head", is no mistake and nothing to talk about.
func (r *run) unwritten(err error) {
	if errors.Is(err, syscall.EPIPE) {
		r.end(StatusPipe, "")
		return
	}
	r.end(StatusError, "write output: %v", err)
}

// ask sends a signal and sets the time at which patience is over.
func (r *run) ask(sig syscall.Signal) {
	if r.left == 0 {
		return
	}
	r.step.Signal(sig)
	r.step.Signal(xunix.SIGCONT) // a stopped process could not act on it
	if r.kill == nil {
		r.kill = time.After(grace)
	}
}

// signal handles a signal sent to this process.
func (r *run) signal(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	if sig == syscall.SIGINT {
		r.ints++
	}
	switch {
	case r.ints > 1:
		r.hurry()
		r.step.Signal(syscall.SIGKILL)
		r.ending, r.status = true, StatusInterrupted
		r.out.message("interrupted twice: killing all PEs")
	case !r.ending:
		r.ending, r.status = true, StatusSignal+int(sig)
		r.hurry()
		r.ask(sig)
		r.out.message("%s: ending %d PEs%s", xunix.SignalName(sig), r.left, onceMore(sig))
	}
}

// hurry notes that the user has asked for the end: from then on it is bounded.
func (r *run) hurry() {
	if r.asked.IsZero() {
		r.asked = time.Now()
	}
}

func onceMore(sig syscall.Signal) string {
	if sig == syscall.SIGINT {
		return " (interrupt again to kill them at once)"
	}
	return ""
}

// running lists the PEs that have not ended.
func (r *run) running() string {
	var pes []string
	for job, gone := range r.gone {
		for pe, gone := range gone {
			id := daemon.ID{Job: job, PE: pe}
			switch {
			case gone:
			case len(pes) == 16:
				return strings.Join(pes, ", ") + ", ..."
			default:
				pes = append(pes, fmt.Sprintf("PE %v (pid %d)", id, r.step.PID(id)))
			}
		}
	}
	return strings.Join(pes, ", ")
}
