package launch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/xunix"
)

// failure is how a PE ended that did not end well.
type failure struct {
	id     daemon.ID
	pid    int
	status int           // of the job, if this failure ends it
	what   string        // what happened, as the rest of a sentence that begins with the PE
	at     time.Duration // since the start of the job
	rest   string        // what else is to be said, behind the time; empty: nothing
	tier   string        // the way in which the failure was learnt of; empty: its process was there to be reaped
}

// String is a sentence without its end.
func (f *failure) String() string {
	return fmt.Sprintf("PE %v (%s) %s after %v%s", f.id, pidText(f.pid), f.what, f.at, f.rest)
}

// pidText names a process; 0: its number is not known.
func pidText(pid int) string {
	if pid == 0 {
		return "pid unknown"
	}
	return fmt.Sprintf("pid %d", pid)
}

// learnt says how the failure was learnt of.
func (f *failure) learnt() string {
	if f.tier == "" {
		return " (learnt when its process could be reaped)"
	}
	return " (learnt by " + f.tier + ")"
}

// failureOf returns how a PE failed; false: it did not.
func failureOf(e daemon.Event, at time.Duration) (f failure, failed bool) {
	f = failure{id: e.ID, pid: e.PID, at: at, tier: e.Tier}
	switch sig := syscall.Signal(e.End.Signal); e.End.Judge() {
	case ending.Killed:
		f.status = StatusSignal + int(sig)
		f.what = fmt.Sprintf("was killed by signal %d (%s%s)", int(sig), xunix.SignalName(sig), details(e.End))
		if e.By != "" {
			f.what += " at " + e.By + "'s request"
		}
	case ending.Exited:
		f.status = e.End.Code
		f.what = fmt.Sprintf("exited with status %d", e.End.Code)
		if sig := e.End.Code - StatusSignal; sig > 0 && xunix.SignalName(syscall.Signal(sig)) != "" {
			f.what += fmt.Sprintf(" (as a shell says of a program killed by signal %d, %s)", sig, xunix.SignalName(syscall.Signal(sig)))
		}
	case ending.Unfinished:
		f.status, f.what = StatusError, "exited with status 0 without Finalize"
	default:
		return f, false
	}
	return f, true
}

// details says what else is known of how a process was killed.
func details(e ending.End) (text string) {
	if e.OOM {
		text += ", out of memory"
	}
	if e.Core {
		text += ", core dumped"
	}
	return text
}

// reportEnd counts a PE that has finished, and reports one that has failed.
func (r *run) reportEnd(e daemon.Event, at time.Duration) {
	f, failed := failureOf(e, at)
	if failed {
		r.reportFailure(e, f)
		return
	}
	r.well++
	if r.o.Verbose {
		r.say(r.out.said(e), "PE %v (pid %d) finished after %v", e.ID, e.PID, at)
	}
}

// tolerates says whether the job goes on when a PE has failed: with --recover, and where another PE has ended this one on
// purpose.
func (o *Options) tolerates(e daemon.Event) bool { return o.Recover || e.By != "" }

// isAmong says whether one of some failures is that of a PE.
func isAmong(dead []failure, id daemon.ID) bool {
	return slices.ContainsFunc(dead, func(d failure) bool { return d.id == id })
}

// reportFailure ends the job by a failure, unless the job tolerates it.
func (r *run) reportFailure(e daemon.Event, f failure) {
	switch {
	case r.ending:
	case !r.o.tolerates(e):
		r.endAfter(r.out.said(e), f.status, "%v", &f)
	case !isAmong(r.dead, f.id):
		r.dead = append(r.dead, f)
		r.say(r.out.said(e), "%v; %s", &f, goOn(r.left-len(r.fallen)))
	}
}

// goOn says how many PEs go on.
func goOn(n int) string {
	switch n {
	case 0:
		return "no PE goes on"
	case 1:
		return "1 PE goes on"
	}
	return fmt.Sprintf("%d PEs go on", n)
}

// mostListed is how many failures are listed at the end.
const mostListed = 32

// conclude gives its status to a job that had failures and was not ended by them: the status of
// the first failure if no PE finished well.
func (r *run) conclude() {
	if r.ending || len(r.dead) == 0 {
		return
	}
	r.tolerated = true
	r.status = StatusTolerated
	if r.well == 0 {
		r.status = r.dead[0].status
	}
}

// printFailures lists the failures of a job that was not ended by them. The caller calls it when
// the message about each of them is written.
func (r *run) printFailures() {
	if !r.tolerated {
		return
	}
	r.out.message("%d of %d PEs failed:", len(r.dead), len(r.dead)+r.well)
	for i := range r.dead[:min(len(r.dead), mostListed)] {
		r.out.message("  %v%s", &r.dead[i], r.dead[i].learnt())
	}
	if more := len(r.dead) - mostListed; more > 0 {
		r.out.message("  and %d others", more)
	}
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
