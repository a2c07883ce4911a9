package daemon

import (
	"time"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/xunix"
)

// ailment is how a PE does not run as it should.
type ailment struct {
	kind kernel.Kind // Stopped, Stuck or Starved, by the watch; 0: none of these
	pid  int         // its process that is so
	told string      // what the user was told of it; empty: that it runs, or nothing
}

// ailments tells the user of PEs that do not run as they should, and of those that do so again. The lock of the table
// guards what it has of each PE, suspended and resumed.
type ailments struct {
	table     *table
	events    *announcer
	suspended bool // the user has the job stopped: it is asked to, and not yet told to go on
	resumed   int  // how often a suspension has ended
}

// states are what the user is told of processes that do not run as they should, or
// do so again.
var states = map[kernel.Kind]string{
	kernel.Stopped:   "is stopped",
	kernel.Continued: "goes on",
	kernel.Stuck:     "is stuck in the kernel (uninterruptible sleep)",
	kernel.Starved:   "gets no processor (it could run)",
	kernel.Running:   "runs again",
}

// noteReport takes what the watch has seen of process pid of a PE.
func (a *ailments) noteReport(p *localPE, pid int, kind kernel.Kind) {
	if kind == kernel.Continued || kind == kernel.Running {
		a.table.mu.Lock()
		p.ailment.kind = 0
		a.reportWell(p, pid, states[kind])
		a.table.mu.Unlock()
		a.events.deliver()
		return
	}
	a.table.mu.Lock()
	p.ailment.kind, p.ailment.pid = kind, pid
	seen, held := p.ailment, p.held
	a.table.mu.Unlock()
	if !held {
		a.reportSeen(p, seen)
	}
}

// hold notes that the process of a PE is held stopped until its program begins. The watch may look at it meanwhile, which is no news.
func (a *ailments) hold(p *localPE) {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	p.held = true
}

// letGo notes that the process is held no more. If somebody else has stopped it meanwhile, the watch does not say so again: it is told
// now.
func (a *ailments) letGo(p *localPE) {
	a.table.mu.Lock()
	p.held = false
	seen := p.ailment
	a.table.mu.Unlock()
	if seen.kind != 0 {
		a.reportSeen(p, seen)
	}
}

// reportSeen reports what the watch has seen of a PE, unless the PE goes on again: a look at a
// stopped job may be told when the job goes on. Whether the process is stopped is looked up without the lock. What the
// watch has seen meanwhile is reported by whoever has noted it.
//
// This process may be stopped between its look and its report, together with the job. If a suspension has ended since the look, the PE was told to go on
// after it, and gets another look.
func (a *ailments) reportSeen(p *localPE, seen ailment) {
	for over := false; !over; {
		a.table.mu.Lock()
		resumed := a.resumed
		a.table.mu.Unlock()
		if seen.kind == kernel.Stopped {
			if is := look(seen.pid); !is.stopped && !is.traced {
				return
			}
		}
		a.table.mu.Lock()
		if over = a.resumed == resumed; over && p.ailment.kind == seen.kind && p.ailment.pid == seen.pid {
			a.reportIll(p, seen.pid, states[seen.kind])
		}
		a.table.mu.Unlock()
	}
	a.events.deliver()
}

// suspend begins the time in which the user has the job stopped.
func (a *ailments) suspend() {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	a.suspended = true
}

// lookAgainAfter is when the watch has looked at all PEs since they were told to go on.
const lookAgainAfter = pollEvery + pollEvery/2

// resume ends a suspension. The time in which the job was stopped is no PE's hang. PEs that do not
// run as they should later, without having run in between, are no news to the watch: they are told then.
func (a *ailments) resume() {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	if !a.suspended {
		return
	}
	a.suspended = false
	a.resumed++
	for _, p := range a.table.started() {
		p.pulse.SkipTo(int64(xunix.Monotonic()))
	}
	time.AfterFunc(lookAgainAfter, a.reportUntold)
}

// reportUntold reports what PEs still ail of which was not told while the job was stopped.
func (a *ailments) reportUntold() {
	seen := map[*localPE]ailment{}
	a.table.mu.Lock()
	started := a.table.started()
	for _, p := range started {
		if p.ailment.kind != 0 && !p.life.Ended() && !p.held {
			seen[p] = p.ailment
		}
	}
	a.table.mu.Unlock()
	for _, p := range started {
		if ails, is := seen[p]; is {
			a.reportSeen(p, ails)
		}
	}
}

// reportIll reports that a PE does not run as it should. While the user has the job stopped, that is no
// news; that a debugger stops a PE is none, either. The caller holds the lock of the table, and has the announcement delivered when it does not hold it any more.
func (a *ailments) reportIll(p *localPE, pid int, what string) {
	if p.debug != notDebugged {
		return
	}
	if what != p.ailment.told && !p.life.Dead() && !a.suspended {
		p.ailment.told = what
		a.events.append(announcement{of: p, event: &Event{Kind: Changed, ID: p.id, PID: pid, State: what}})
	}
}

// reportWell reports that a PE runs again of which the user was told that it does not. It is called as reportIll is.
func (a *ailments) reportWell(p *localPE, pid int, what string) {
	if p.ailment.told != "" && !p.life.Dead() {
		p.ailment.told = ""
		a.events.append(announcement{of: p, event: &Event{Kind: Changed, ID: p.id, PID: pid, State: what}})
	}
}
