package daemon

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/daemon/life"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/internal/xunix"
)

// failures decides, by package life, which ends are failures, and makes them known.
//
// A failure is made known in this order: PEs wait for the news, the others mostly do not. With Config.EndsFirst on one
// node, which has no agent, 2 to 4 are left out, because oshrun ends the job.
//
//  1. the agent, which sends nothing more of a dead PE, and executes nothing more on its memory;
//  2. the page, which all waits of PEs look at;
//  3. the bells, for PEs that sleep;
//  4. callbacks of PEs, by alerts;
//  5. PMIx clients;
//  6. the user.
//
// carryOut does 1 to 3 under the lock of the table, and notes the rest. Where it has to wait for the agent's answer, it only asks the
// agent, and makeKnown waits, without the lock, and does 2 and 3. The announcement of the failure waits for that in its queue, and so
// do later ones. An agent that does not answer is killed, and its node is lost.
//
// makeKnown does 4 to 6 without the lock. Before that it yields once, so that the PEs
// which the bells have woken go first: 4 to 6 may take longer than such a PE takes to return from its call, and on a busy
// node the PE would wait for the step's processor. On two processors, of which the dead process holds one to release its
// memory, the yield brings PEs the news in two thirds of the time.
type failures struct {
	table     *table
	events    *announcer
	agent     *nodeAgent
	alerts    *alerts
	endsFirst bool // as Config.EndsFirst, in a job of one node
	goesOn    bool // as Config.Recover
	hold      newsHold
	passages  *passages

	// Both are under the lock of the table.
	due    []publication // what waits for the agent
	failed bool          // a PE of the first job has failed, which is still to be told the agent's keeper
	silent bool          // no failure is made known to PEs any more

	yielding sync.Mutex   // held by the one caller that yields; others do not wait for it
	yielder  wait.Yielder // under yielding
}

// newsHold holds news of deaths back, for experiments: see Watchdog.NewsDelay. On several nodes it holds the word of other
// nodes only. A PE's own node would otherwise delay the news before the other nodes do so again.
type newsHold struct {
	near, far time.Duration   // for deaths on this node, and on others; 0: their news is told at once
	closing   <-chan struct{} // closed when the step ends: what is still held is told nobody
}

// newNewsHold returns the hold of a step.
func newNewsHold(delay time.Duration, hasOthers bool, closing <-chan struct{}) newsHold {
	if hasOthers {
		return newsHold{far: delay, closing: closing}
	}
	return newsHold{near: delay, closing: closing}
}

// after runs f when the delay is over, unless the step ends before. It does not wait.
func (h *newsHold) after(delay time.Duration, f func()) {
	time.AfterFunc(delay, func() {
		select {
		case <-h.closing:
		default:
			f()
		}
	})
}

// publication is a failure that the page is to tell of.
type publication struct {
	of       *localPE
	cause    failure.Cause
	at       time.Duration
	answered <-chan struct{} // as nodeAgent.noteDeath returns it
	asked    time.Time       // when it returned that
	done     chan struct{}   // closed when the page tells of it; nil: nobody waits
}

// publish makes the page tell of a failure, and rings the bells. The caller holds the lock of the table.
func (f *failures) publish(x *publication) {
	j := x.of.job
	j.memory.publish(x.of.id.PE, x.cause, x.at)
	f.stirJoined(j.number)
	j.alertDue, j.failures = true, j.failures+1
}

// publishDue publishes what has waited for the agent, and says whether there was something. The caller holds no lock.
func (f *failures) publishDue() (rung bool) {
	f.table.mu.Lock()
	due := f.due
	f.due = nil
	f.table.mu.Unlock()
	for i := range due {
		x := &due[i]
		f.agent.awaitNearDrop(x.answered, x.asked)
		f.table.mu.Lock()
		f.publish(x)
		f.table.mu.Unlock()
		close(x.done)
	}
	return len(due) > 0
}

// noteDeath notes the end of a PE's own process. Only the first news of it counts.
//
// isGone is called without the lock of the table. If another process has joined for the PE meanwhile, the answer is about
// the wrong process, and isGone is called again. The answer "gone" stays true. The answer "there" may be outdated at once.
// Then the member's end is told later: by the watch, by the end of its connection, or when nothing is left of the PE.
func (f *failures) noteDeath(p *localPE, d death) {
	t := f.table
	t.mu.Lock()
	for {
		member := p.member
		t.mu.Unlock()
		gone := p.isGone(member)
		t.mu.Lock()
		if p.member != member {
			continue
		}
		rung := false
		if !p.life.Dead() {
			p.last = d
			rung = f.carryOut(p, d, p.life.Die(d.end, gone))
		}
		t.mu.Unlock()
		f.makeKnown(rung)
		return
	}
}

// isGone says whether the process that had joined for the PE is known to have been reaped. It is false for the PE's own
// process, and for a process whose number is unknown.
func (p *localPE) isGone(member int) bool {
	return member != 0 && member != p.pid && errors.Is(xunix.Kill(member, 0), syscall.ESRCH)
}

// noteMemberDeath notes the end of the process that has joined for a PE, if it is the last that has.
func (f *failures) noteMemberDeath(p *localPE, d death) {
	f.changeMember(p, d.pid, func() (death, life.Outcome) { return d, p.life.EndMember(d.end) })
}

// noteMemberUnseen notes that no watch will tell the end of the process that has joined for a PE, if it is the last that
// has.
func (f *failures) noteMemberUnseen(p *localPE, pid int) {
	f.changeMember(p, pid, func() (death, life.Outcome) { return p.last, p.life.LoseSightOfMember() })
}

// changeMember notes something about the member of a PE, if that is process pid.
func (f *failures) changeMember(p *localPE, pid int, note func() (death, life.Outcome)) {
	f.table.mu.Lock()
	rung := false
	if p.member == pid {
		d, o := note()
		rung = f.carryOut(p, d, o)
	}
	f.table.mu.Unlock()
	f.makeKnown(rung)
}

// forsake is Step.Forsake.
func (f *failures) forsake(id ID) (is bool) {
	rung := false
	f.table.update(id, func(p *localPE) {
		var o life.Outcome
		is, o = p.life.Forsake()
		rung = f.carryOut(p, death{pid: p.pid}, o)
	})
	f.makeKnown(rung)
	return is
}

// silence lets no failure be known to PEs from now on. oshrun hears of them.
func (f *failures) silence() {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	f.silent = true
}

// carryOut does the part of outcome o that belongs under the lock of the table: the agent, the page and the bells. It queues the
// rest, which makeKnown delivers. The caller holds the lock, and calls makeKnown without it afterwards. rung says that
// bells were rung. With Config.EndsFirst, PEs learn only of a death that another PE has asked for.
func (f *failures) carryOut(p *localPE, d death, o life.Outcome) (rung bool) {
	if o.KillRest {
		p.killRest()
	}
	if !o.Fails {
		return false
	}
	if o.ByOwn {
		d = p.last
	}
	d.end.Unfinished, p.learnt = o.Unfinished, d.tier
	if p.job.isOver() {
		return false
	}
	f.failed = f.failed || p.job.number == 0
	if f.silent {
		f.events.append(announcement{of: p, withOut: true, event: p.failedEvent(d)})
		return false
	}
	x := publication{of: p, cause: causeOf(d.end), at: d.at, answered: f.agent.noteDeath(p.job, p.id.PE), asked: time.Now()}
	by := p.wantedBy(d.end)
	switch {
	case f.endsFirst && by == "":
	case f.hold.near > 0:
		x.done = make(chan struct{})
		f.hold.after(f.hold.near, func() {
			f.table.mu.Lock()
			f.due = append(f.due, x)
			f.table.mu.Unlock()
			f.makeKnown(false)
		})
	case x.answered != nil:
		x.done = make(chan struct{})
		f.due = append(f.due, x)
	default:
		f.publish(&x)
		rung = true
	}
	var spread *FarFailure
	if p.job.share.spans() && f.goesOn && by == "" { // of an end that was asked for, other nodes have to hear the request first
		spread = &FarFailure{Job: p.id.Job, PEs: []int{p.id.PE}, End: d.end}
	}
	f.events.append(announcement{of: p, exited: true, end: d.end, withOut: true, after: x.done, spread: spread, event: p.failedEvent(d)})
	return rung
}

// failedEvent returns what the launcher is told of a failure. The caller holds the lock of the table.
func (p *localPE) failedEvent(d death) *Event {
	return &Event{Kind: Failed, ID: p.id, PID: p.pid, End: d.end, Tier: d.tier, GoesOn: !p.life.Dead(), By: p.wantedBy(d.end)}
}

// makeKnown makes known what carryOut has noted. The caller holds no lock. One caller yields at a time. A second one goes
// on at once, because the same PEs would go first.
func (f *failures) makeKnown(rung bool) {
	f.agent.tellDeaths()
	if f.publishDue() || rung {
		f.alerts.raise()
		if f.yielding.TryLock() {
			f.yielder.GiveWay()
			f.yielding.Unlock()
		}
	}
	f.events.deliver()
	f.table.mu.Lock()
	failed := f.failed
	f.failed = false
	f.table.mu.Unlock()
	if failed {
		f.agent.miss()
	}
}

// hasFailed says whether a PE's failure is known to everybody.
func (t *table) hasFailed(p *localPE) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.life.Failed()
}

// causeOf says in the words of the failure page how a PE failed.
func causeOf(e ending.End) failure.Cause {
	switch e.Judge() {
	case ending.Killed:
		return failure.BySignal(syscall.Signal(e.Signal), e.Core, e.OOM)
	case ending.Exited:
		return failure.ByExit(e.Code)
	case ending.Unfinished:
		if e.Unknown {
			return failure.Of(failure.Left)
		}
		return failure.ByLeaving(e.Code)
	default:
		return failure.Of(failure.Unknown)
	}
}

// endOf returns what a wait status says.
func endOf(ws syscall.WaitStatus) (e ending.End) {
	if ws.Signaled() {
		return ending.End{Signal: int(ws.Signal()), Core: ws.CoreDump()}
	}
	return ending.End{Code: ws.ExitStatus()}
}
