package launch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/xunix"
)

// failure is how a PE ended that did not end well.
type failure struct {
	id     daemon.ID
	pid    int
	status int // of the job, if that ends by it
	what   string
	at     time.Duration
}

// String is a sentence without its end.
func (f *failure) String() string {
	return fmt.Sprintf("PE %v (pid %d) %s after %v", f.id, f.pid, f.what, f.at)
}

// judge returns how a process failed; false: it did not.
func judge(e daemon.Event, at time.Duration) (f failure, failed bool) {
	f = failure{id: e.ID, pid: e.PID, at: at}
	ws, ok := e.State.Sys().(syscall.WaitStatus)
	switch code := e.State.ExitCode(); {
	case ok && ws.Signaled():
		f.status = StatusSignal + int(ws.Signal())
		f.what = fmt.Sprintf("was killed by signal %d (%s)", int(ws.Signal()), xunix.SignalName(ws.Signal()))
		if ws.CoreDump() {
			f.what = fmt.Sprintf("was killed by signal %d (%s, core dumped)", int(ws.Signal()), xunix.SignalName(ws.Signal()))
		}
		if e.By != "" {
			f.what += " at the wish of " + e.By
		}
	case code != 0:
		f.status = code
		f.what = fmt.Sprintf("exited with status %d", code)
		if sig := code - StatusSignal; sig > 0 && xunix.SignalName(syscall.Signal(sig)) != "" {
			f.what += fmt.Sprintf(" (a shell's way to say: killed by signal %d, %s)", sig, xunix.SignalName(syscall.Signal(sig)))
		}
	case e.Unfinished:
		f.status, f.what = StatusError, "exited with status 0 without Finalize"
	default:
		return f, false
	}
	return f, true
}

// exited judges how a process ended.
func (r *run) exited(e daemon.Event, at time.Duration) {
	f, failed := judge(e, at)
	if failed {
		r.fail(e, f)
		return
	}
	r.well++
	if r.o.Verbose {
		r.out.after(e.Said, "PE %v (pid %d) finished after %v", e.ID, e.PID, at)
	}
}

// fail ends the job by a failure, or goes on if that is wanted: with --recover,
// and where another PE has ended this one on purpose.
func (r *run) fail(e daemon.Event, f failure) {
	switch {
	case r.ending:
	case !r.o.Recover && e.By == "":
		r.endAfter(e.Said, f.status, "%v", &f)
	case !slices.ContainsFunc(r.dead, func(d failure) bool { return d.id == f.id }):
		r.dead = append(r.dead, f)
		r.say(e.Said, "%v; PEs that go on: %d", &f, r.left)
	}
}

// mostTold is how many failures are told again at the end.
const mostTold = 32

// conclude gives a job its status that has not been ended and had failures: the
// status of the first one if nobody finished well.
func (r *run) conclude() {
	if r.ending || len(r.dead) == 0 {
		return
	}
	r.status = StatusTolerated
	if r.well == 0 {
		r.status = r.dead[0].status
	}
	r.out.message("%d of %d PEs failed:", len(r.dead), len(r.dead)+r.well)
	for i := range r.dead[:min(len(r.dead), mostTold)] {
		r.out.message("  %v", &r.dead[i])
	}
	if more := len(r.dead) - mostTold; more > 0 {
		r.out.message("  and %d others", more)
	}
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
